"""Figures and pages of the experiment on autoencoders."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from paper.common import select
from paper.run_context import Row
from sphereot import plotting
from sphereot.plotting.globe import globe_figure, html_page

# Ten colors for ten classes: those of Okabe and Ito, and two more that are unlike them.
_CLASS_COLORS = [*plotting.PALETTE, "#8C6BB1", "#8C510A"]
_COLORS = dict(zip(("SSWAE", "SWAE", "SSWAE without slices"), plotting.PALETTE, strict=False))
_METHODS_ON_S2 = ("SWAE", "SSWAE")
_PRIORS = {"uniform": "uniform prior", "mixture": "prior of six von Mises-Fisher distributions"}


def plot(rows: list[Row], config: Any) -> dict[str, Any]:
    """Draw the latent spaces, samples, distances to test images over the epochs, and Fréchet distances."""
    with plotting.style():
        return {
            "latent": _latent_spaces(rows, config),
            "samples": _samples(rows, config),
            "distances": _distances(rows, config),
            "frechet": _frechet(rows, config),
        }


def pages(rows: list[Row], config: Any) -> Mapping[str, str]:
    """Globes of the latent spaces, to rotate, with the class of every code."""
    sections = []
    for prior, title in _PRIORS.items():
        for method in reversed(_METHODS_ON_S2):
            classes = _codes_by_class(rows, prior, method)
            name = f"{method}, {title}"
            globe = globe_figure(
                points=list(classes.values()),
                labels=[str(label) for label in classes],
                colors=[_CLASS_COLORS[label] for label in classes],
                name=f"Codes of test images: {name}",
                coastlines=False,
                turn=True,
            )
            sections.append(f"<h2>{name}</h2>\n{globe}")
    intro = (
        "<p>Codes of test images of MNIST on the sphere S², one color per digit "
        f"({_scale(config, config.latent_epochs)}).</p>"
    )
    return {"latent_globes": html_page("Latent spheres of autoencoders", "\n".join([intro, *sections]))}


def _scale(config: Any, epochs: int) -> str:
    """The size of networks and training, for titles: what is smaller than in the paper must be seen."""
    images = "all" if config.image_limit is None else f"{config.image_limit:,}"
    return f"networks of {config.gray_width:g} of the paper's width, {epochs} epochs, {images} training images"


def _latent_spaces(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 5.6))
    for k, (prior, title) in enumerate(_PRIORS.items()):
        for j, method in enumerate(_METHODS_ON_S2):
            ax = figure.add_subplot(2, 2, 2 * k + j + 1, projection="3d")
            plotting.sphere_axes(ax)
            for label, codes in _codes_by_class(rows, prior, method).items():
                plotting.scatter_sphere(codes, ax=ax, color=_CLASS_COLORS[label], size=2.0, label=str(label), fade=0.12)
            ax.set_title(f"{method}, {title}", fontsize=7)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=10, markerscale=2.5, columnspacing=0.8)
    figure.suptitle(f"Codes of MNIST test images\n({_scale(config, config.latent_epochs)})", fontsize=8)
    return figure


def _codes_by_class(rows: list[Row], prior: str, method: str) -> dict[int, Any]:
    row = select(rows, part="latent space", prior=prior, method=method, run=0)[0]
    codes, labels = np.array(row["codes"]).reshape(-1, 3), np.array(row["labels"])
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)  # they are stored with four digits
    return {int(label): codes[labels == label] for label in np.unique(labels)}


def _samples(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure

    shown = [row for row in select(rows, part="trainings", run=0) if "samples" in row]
    figure = Figure(figsize=(2.1 * len(shown), 2.6))
    for k, row in enumerate(shown):
        images = np.array(row["samples"], dtype=np.uint8).reshape(-1, 28, 28)
        side = int(np.sqrt(len(images)))
        grid = images[: side * side].reshape(side, side, 28, 28).transpose(0, 2, 1, 3).reshape(side * 28, side * 28)
        ax = figure.add_subplot(1, len(shown), k + 1)
        ax.imshow(grid, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        ax.set_title(row["method"])
        ax.set_axis_off()
    figure.suptitle(f"Samples with a uniform prior on $S^{{10}}$\n({_scale(config, config.gray_epochs)})", fontsize=8)
    return figure


def _distances(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.0, 2.6))
    panels = {
        "$S^2$": select(rows, part="latent space", prior="uniform"),
        "$S^{10}$": select(rows, part="trainings", data=config.data[0][0]),
    }
    for k, (title, selected) in enumerate(panels.items()):
        ax = figure.add_subplot(1, 2, k + 1)
        followed = [row for row in selected if "curve" in row]
        for method in dict.fromkeys(row["method"] for row in followed):
            curves = np.array([row["curve"] for row in followed if row["method"] == method])
            steps = np.arange(1, curves.shape[1] + 1)
            plotting.evolution(steps, curves, ax=ax, color=_COLORS[method], label=method, band="range")
        runs = len({row["run"] for row in followed})
        ax.set(
            xlabel="epoch",
            title=f"{title}, {'mean of ' + str(runs) + ' training runs' if runs > 1 else 'one training run'}",
        )
        ax.set_ylabel("$W_2$ to test images" if k == 0 else "")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend()
    figure.suptitle(
        f"$W_2$ between {config.curve_images:,} generated and test images of MNIST, pixels from 0 to 1\n"
        f"({_scale(config, config.gray_epochs)})",
        fontsize=8,
    )
    return figure


def _frechet(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(config.data) + 0.8, 2.6))
    for k, (data, runs) in enumerate(config.data):
        ax = figure.add_subplot(1, len(config.data), k + 1)
        features = select(rows, part="features", data=data)[0]
        for j, method in enumerate(config.methods):
            values = [row["frechet"] for row in select(rows, part="trainings", data=data, method=method)]
            ax.plot(values, [j] * len(values), "o", color=plotting.PALETTE[0], alpha=0.5, markersize=3)
            ax.plot(np.mean(values), j, "|", color=plotting.PALETTE[1], markersize=11, markeredgewidth=1.6)
        ax.set_yticks(range(len(config.methods)), config.methods if k == 0 else [""] * len(config.methods))
        ax.set(xlabel=features["label"].replace(" (", "\n("), title=f"{features['title']}, training runs: {runs}")
        ax.invert_yaxis()
    figure.suptitle(
        "Points: training runs; bars: means. "
        f"Networks of {config.gray_width:g} (gray) and {config.color_width:g} (color) of the paper's width,\n"
        f"{config.gray_epochs} and {config.color_epochs} epochs",
        fontsize=8,
    )
    return figure
