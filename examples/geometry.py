"""Draw the geometry of slicing: projections on a great circle, and what the Radon transform integrates over.

Run with `python examples/geometry.py [--out FOLDER]`.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import sphereot
from sphereot import plotting
from sphereot.radon import integration_set

BLUE, ORANGE, GREEN = plotting.PALETTE[:3]
ENDS = "orthogonal to the plane: no projection, weight 0"
VIEW = {"elev": 24.0, "azim": 20.0}
_ELEV, _AZIM = np.deg2rad([VIEW["elev"], VIEW["azim"]])
TOWARD = np.array([np.cos(_ELEV) * np.cos(_AZIM), np.cos(_ELEV) * np.sin(_AZIM), np.sin(_ELEV)])  # to the viewer


def tilted_frame() -> np.ndarray:
    """A great circle that this view shows neither from the edge nor as the outline."""
    first, second = np.array([0.0, 1.0, 0.05]), np.array([-0.9, 0.0, 0.45])
    first = sphereot.sphere.normalize(first)
    return np.stack([first, sphereot.sphere.normalize(second - (first @ second) * first)], axis=1)


def on_circle(frame: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """The points Uz of the great circle at the given turns."""
    angle = 2 * np.pi * np.asarray(turns)[..., None]
    return np.cos(angle) * frame[:, 0] + np.sin(angle) * frame[:, 1]


def arc(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The shortest path from one point of the sphere to another."""
    angle = np.arccos(np.clip(start @ end, -1, 1))
    t = np.linspace(0, 1, 60)[:, None]
    return (np.sin((1 - t) * angle) * start + np.sin(t * angle) * end) / np.sin(angle)


def draw_line(ax: Any, line: np.ndarray, *, color: str, width: float, label: str | None = None) -> None:
    """A curve on the sphere, faint and dashed where it runs behind."""
    front = line @ TOWARD >= 0
    ax.plot(*np.where(~front[:, None], line, np.nan).T, color=color, lw=0.8 * width, ls=":", alpha=0.6, zorder=2)
    ax.plot(*np.where(front[:, None], line, np.nan).T, color=color, lw=width, zorder=4.5, label=label)


def draw_points(ax: Any, points: np.ndarray, **options: Any) -> None:
    plotting.scatter_sphere(points, ax=ax, fade=0.3, **options)


def projections(ax: Any, n: int = 10) -> float:
    """Points, their projections on the great circle, and the geodesics between (Lemma 1).

    Returns how much nearer to a point, in cosine, some other place on the circle is than the projection: 0 if right.
    """
    frame = tilted_frame()
    # More points on the near side than behind, where they are faint; this seed keeps their projections apart.
    x = sphereot.sphere.normalize(np.random.default_rng(1641).normal(size=(n, 3)) + 1.2 * TOWARD)
    projected = on_circle(frame, sphereot.project(x, frame[None])[0])
    plotting.sphere_axes(ax, **VIEW)
    draw_line(ax, on_circle(frame, np.linspace(0, 1, 361)), color="black", width=1.6, label="great circle of $U$")
    for i, (start, end) in enumerate(zip(x, projected, strict=True)):
        draw_line(ax, arc(start, end), color=BLUE, width=1.1, label="shortest way to the circle" if i == 0 else None)
    draw_points(ax, x, color=ORANGE, size=22, label="points $x$")
    draw_points(ax, projected, color=GREEN, size=22, marker="s", label="projections $U P^U(x)$")
    ax.set_title("Points go to the nearest point of a great circle\n(Lemma 1)")
    on_grid = on_circle(frame, np.linspace(0, 1, 3601))
    return max(0.0, float(np.max(np.max(x @ on_grid.T, axis=1) - np.sum(x * projected, axis=1))))


def radon_set(ax: Any) -> float:
    """The half great circle of all points that project to one turn, and its weight <x, Uz> (Proposition 6).

    Returns how far from that turn the drawn points project: 0 if right.
    """
    frame, turn = tilted_frame(), 0.92
    found = integration_set(frame, turn, n_nodes=90)
    pole = on_circle(frame, np.array(turn))
    normal = np.cross(frame[:, 0], frame[:, 1])
    heights = found.points @ normal
    points = found.points[np.argsort(heights)]
    plotting.sphere_axes(ax, **VIEW)
    draw_line(ax, on_circle(frame, np.linspace(0, 1, 361)), color="black", width=1.6, label="great circle of $U$")
    weight = points @ pole
    for i in range(len(points) - 1):
        ends = points[i : i + 2]
        front = ends.mean(axis=0) @ TOWARD >= 0
        width = 0.6 + 4.0 * weight[i]
        ax.plot(*ends.T, color=BLUE, lw=width, alpha=1 if front else 0.3, zorder=4.4 if front else 2)
    ax.plot([], [], [], color=BLUE, lw=3, label=r"$\{x : P^U(x) = z\}$, as wide as its weight $\langle x, Uz\rangle$")
    draw_points(ax, np.stack([normal, -normal]), color="white", size=20, linewidths=1, edgecolors=BLUE, label=ENDS)
    draw_points(ax, pole[None], color=ORANGE, size=42, label="$Uz$")
    ax.set_title("The Radon transform at $z$ integrates over half a circle\n(Proposition 6)")
    return float(np.max(np.abs(sphereot.project(points, frame[None]) - turn)))


def draw(out: Path) -> tuple[list[Path], float, float]:
    """Both pictures, side by side; returns the files, and the errors of the two."""
    with plotting.style():
        figure = Figure(figsize=(6.8, 4.1))
        left, right = (figure.add_subplot(1, 2, k, projection="3d") for k in (1, 2))
        errors = projections(left), radon_set(right)
        for ax in (left, right):
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=1)
        return plotting.save(figure, out / "geometry", dpi=150), *errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures (default: out)")
    files, gap, spread = draw(parser.parse_args().out)
    print(f"No point of the circle is nearer than the projection (by more than {gap:.1e}, in cosine).")
    print(f"All points of the set of integration have the same turn, to {spread:.1e}.")
    print("Pictures:", *files)


if __name__ == "__main__":
    main()
