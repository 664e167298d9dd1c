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
        np.save(tmp_path / f"{name}.npy", sphere.random_uniform(50, 2, seed=ord(name)))
    planar = [tmp_path / "x.npy", tmp_path / "y.npy", "--permutations", "19", "--map"]
    assert run("test", *planar, tmp_path / "circle.svg").exit_code == 0
    assert (tmp_path / "circle.svg").exists()
    for arguments, message in (
        ([*planar, tmp_path / "circle.html"], "a page is for points with 3 coordinates or more"),
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


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_legend_says_what_lines_mean():
    ax = plotting.difference_map(RESULT, x=X, labels=("before", "after"))
    legend = ax.get_legend()
    assert texts(legend) == ["where before is denser", "where after is denser", "points of before"]
    solid, dashed, points = legend.legend_handles
    assert [solid.get_linestyle(), dashed.get_linestyle(), points.get_linestyle()] == ["-", "--", "None"]
    assert legend.get_title().get_text() == "Lines around regions beyond chance at level 0.05"
    above = replace(RESULT, region=np.maximum(RESULT.region, 0))
    assert texts(plotting.difference_map(above).get_legend()) == ["where x is denser"]
    quiet = plotting.difference_map(replace(RESULT, region=np.zeros_like(RESULT.region)))
    assert texts(quiet.get_legend()) == []
    assert quiet.get_legend().get_title().get_text() == "No region is beyond chance at level 0.05"
    assert plotting.difference_map(RESULT, legend=False).get_legend() is None


@pytest.mark.parametrize("sky", [False, True])
def test_nothing_below_the_map_overlaps(sky):
    """Map, name of the axis, legend, color bar: one below the other, inside the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    labels = ("a file with a long name here", "another with a longer name")
    ax = plotting.difference_map(RESULT, x=X, y=Y, labels=labels, sky=sky)
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    ax.figure.draw(renderer)
    bar = ax.collections[0].colorbar.ax
    boxes = [ax.get_window_extent(renderer), ax.get_legend().get_window_extent(renderer), bar.get_tightbbox(renderer)]
    if sky:
        boxes.insert(1, ax.xaxis.label.get_window_extent(renderer))
    edges = [edge for box in boxes for edge in (box.y1, box.y0)]
    assert edges == sorted(edges, reverse=True)
    assert edges[-1] >= 0


def test_map_has_degrees():
    """Those of the sky show its orientation: right ascension increases to the left."""
    earth, sky = (plotting.difference_map(RESULT, sky=side) for side in (False, True))
    assert [text.get_text() for text in earth.get_xticklabels()] == ["120°W", "60°W", "0°", "60°E", "120°E"]
    assert [text.get_text() for text in sky.get_xticklabels()] == ["120°", "60°", "0°", "300°", "240°"]
    assert (sky.get_xlabel(), sky.get_ylabel()) == ("right ascension", "declination")


def test_fine_regions_are_those_of_the_result():
    """Every cell of a region lies in the finer region, which is at most a cell wider."""
    from sphereot.plotting.difference import fine_regions

    factor = 4
    fine = fine_regions(RESULT)
    assert fine.shape == tuple(factor * size for size in RESULT.region.shape)
    for sign in (1, -1):
        coarse = RESULT.region == sign
        assert coarse.any()
        inside = np.repeat(np.repeat(coarse, factor, 0), factor, 1)
        assert np.all(fine[inside] == sign)
        near = np.zeros_like(coarse)
        for row in (-1, 0, 1):
            for column in (-1, 0, 1):
                near |= np.roll(coarse, (row, column), (0, 1))
        assert not np.any((fine == sign) & ~np.repeat(np.repeat(near, factor, 0), factor, 1))


def test_finer_cells_of_a_smooth_function():
    """Catmull-Rom interpolation has an error of third order: 8 times smaller on half the cells, with no seam."""
    from sphereot.plotting.difference import _finer

    def smooth(rows):
        longitude, latitude = (np.pi * ((np.arange(n) + 0.5) / n * span) for n, span in ((2 * rows, 2), (rows, 1)))
        return np.cos(longitude) * np.sin(latitude)[:, None] ** 2

    errors = [np.abs(_finer(smooth(rows)) - smooth(4 * rows))[8:-8].max() for rows in (20, 40)]
    assert errors[0] < 2e-3
    assert errors[1] < errors[0] / 7
