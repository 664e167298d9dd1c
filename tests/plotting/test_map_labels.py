"""Legends and degrees of maps: legends cover no points, and nothing covers the degrees."""

import numpy as np
import pytest
from helpers.generators import location, sphere_sample

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sphereot import plotting

X = sphere_sample(np.random.default_rng(0), 300, 3)


def drawn(ax):
    """The figure as an image, and what computed its texts."""
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int), canvas.get_renderer()


@pytest.mark.parametrize("sky", [False, True])
@pytest.mark.parametrize("labels", [["a", "b"], ["a rather long name of a sample", "and one that is still longer"]])
def test_legend_is_below_the_map(sky, labels):
    ax = plotting.scatter_map(X, label=labels[0], sky=sky)
    plotting.scatter_map(-X, ax=ax, label=labels[1], sky=sky)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == labels
    _, renderer = drawn(ax)
    legend = ax.get_legend().get_window_extent(renderer)
    assert legend.y1 < ax.get_window_extent(renderer).y0
    assert legend.y0 >= 0
    if sky:
        assert legend.y1 < ax.xaxis.label.get_window_extent(renderer).y0


def test_legend_where_it_is_asked_for():
    """A new figure has one; on given Axes the caller decides."""
    assert plotting.scatter_map(X).get_legend() is None
    assert plotting.scatter_map(X, label="a", legend=False).get_legend() is None
    given = Figure().add_subplot(projection="mollweide")
    assert plotting.scatter_map(X, ax=given, label="a").get_legend() is None
    assert plotting.scatter_map(X, ax=given, label="b", legend=True).get_legend() is not None


def test_degrees_are_above_the_points():
    """Where points cover the equator, the pixels of the degrees are still ink and halo, not the color of points."""
    equator = location(np.linspace(-179, 179, 2000), np.full(2000, 3.0))
    ax = plotting.scatter_map(equator, color="red", size=30, alpha=1)
    ax.figure.set_dpi(300)
    image, renderer = drawn(ax)
    for text in ax.get_xticklabels():
        box = text.get_window_extent(renderer)
        height = len(image)
        inside = image[round(height - box.y1) : round(height - box.y0), round(box.x0) : round(box.x1)]
        assert np.mean(inside.max(axis=-1) < 110) > 0.05  # ink
        red = (inside[..., 0] > 240) & (inside[..., 1] < 15)
        assert red.mean() < 0.5


def test_graticule_is_below_the_points():
    """A disk of points over a crossing of the graticule has one color."""
    ax = plotting.scatter_map(location(60, 30)[None], color="red", size=200, alpha=1)
    ax.figure.set_dpi(300)
    image, _ = drawn(ax)
    column, row = np.rint(ax.transData.transform(np.deg2rad([60, 30]))).astype(int)
    inside = image[len(image) - row - 8 : len(image) - row + 8, column - 8 : column + 8]
    assert np.all(inside == [255, 0, 0])


def test_densities_have_one_unit(tmp_path):
    label = plotting.density_map(np.ones((4, 8))).collections[0].colorbar.ax.get_xlabel()
    assert label == "density [1/sr]"
    page = plotting.globe_page(tmp_path / "page.html", density=np.ones((4, 8)), coastlines=False)
    assert label in page.read_text(encoding="utf-8")
