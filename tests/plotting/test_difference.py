"""Pictures of differences: colors, lines around regions, files of the command."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from sphereot import plotting, sphere
from sphereot.stats import difference_map

RNG = np.random.default_rng(0)
X = sphere.normalize(RNG.normal(size=(200, 3)) + np.eye(3)[0])
Y = sphere.normalize(RNG.normal(size=(150, 3)))
RESULT = difference_map(X, Y, permutations=99, resolution=20, seed=0)


def test_map_has_lines_around_regions():
    ax = plotting.difference_map(RESULT, x=X, y=Y, labels=("before", "after"))
    lines = [artist for artist in ax.collections if type(artist).__name__ == "QuadContourSet"]
    assert len(lines) == 2  # where one is denser, and where the other is
    norm = ax.collections[0].norm
    assert norm.vmin == -norm.vmax
    quiet = difference_map(Y, Y, bandwidth=0.3, permutations=19, resolution=20, seed=0)
    ax = plotting.difference_map(quiet, colorbar=False)
    assert not [artist for artist in ax.collections if type(artist).__name__ == "QuadContourSet"]


def test_command_draws(tmp_path):
    pytest.importorskip("typer")
    from helpers.cli import run

    np.save(tmp_path / "before.npy", X)
    np.save(tmp_path / "after.npy", Y)
    files = [tmp_path / "before.npy", tmp_path / "after.npy", "--permutations", "99"]
    for name in ("map.png", "map.html"):
        done = run("test", *files, "--map", tmp_path / name)
        assert done.exit_code == 0, done.output
        assert f"{name}: before is denser on" in " ".join(done.stdout.split())
        assert (tmp_path / name).stat().st_size > 5000
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", sphere.random_uniform(50, 6, seed=ord(name)))
    high = [tmp_path / "x.npy", tmp_path / "y.npy", "--permutations", "19", "--map"]
    assert run("test", *high, tmp_path / "circle.svg").exit_code == 0
    assert (tmp_path / "circle.svg").exists()
    for arguments, message in (
        ([*high, tmp_path / "circle.html"], "a page with a globe is for points on S^2"),
        ([*files, "--map", tmp_path / "map.docx"], "give a name that ends in .png"),
        ([*files, "--map", tmp_path / "before.npy"], "give a name that ends in .png"),
    ):
        done = run("test", *arguments)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())


def test_ticks_of_the_color_bar_are_round():
    """Five numbers that do not overlap: the largest difference rounded down to a digit, and a tenth of it."""
    bar = plotting.difference_map(RESULT).collections[0].colorbar
    top = bar.get_ticks()[-1]
    assert 0.5 < top / np.abs(RESULT.difference).max() <= 1
    np.testing.assert_allclose(bar.get_ticks(), [-top, -top / 10, 0, top / 10, top])


def test_lines_are_around_regions_alone():
    """Interpolation between cells neither adds a region nor loses one: the level of the test holds for the picture."""
    rng = np.random.default_rng(1)
    quiet = 0
    for seed in range(60):
        x, y = (sphere.normalize(rng.normal(size=(40, 3))) for _ in range(2))
        result = difference_map(x, y, bandwidth=0.2, permutations=39, resolution=24, alpha=0.1, seed=seed)
        ax = plotting.difference_map(result, colorbar=False)
        lines = [artist for artist in ax.collections if type(artist).__name__ == "QuadContourSet"]
        assert len(lines) == len(set(result.region.ravel()) - {0})
        quiet += not lines
    assert 30 < quiet < 60
    spot = np.zeros((24, 48), np.int8)
    spot[12, 0] = 1  # one cell, at the date line
    alone = replace(RESULT, difference=1.0 * spot, deviation=np.ones((24, 48)), region=spot, threshold=0.999)
    ax = plotting.difference_map(alone, colorbar=False)
    (line,) = [artist for artist in ax.collections if type(artist).__name__ == "QuadContourSet"]
    assert line.get_paths()[0].vertices.size > 0


def test_finer_cells_of_a_smooth_function():
    """Catmull-Rom interpolation has an error of third order: 8 times smaller on half the cells, with no seam."""
    from sphereot.plotting.difference import _finer

    def smooth(rows):
        longitude, latitude = (np.pi * ((np.arange(n) + 0.5) / n * span) for n, span in ((2 * rows, 2), (rows, 1)))
        return np.cos(longitude) * np.sin(latitude)[:, None] ** 2

    errors = [np.abs(_finer(smooth(rows)) - smooth(4 * rows))[8:-8].max() for rows in (20, 40)]
    assert errors[0] < 2e-3
    assert errors[1] < errors[0] / 7
