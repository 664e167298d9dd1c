"""Plots of whatever holds points: single samples, lists of samples, and columns of tables."""

import numpy as np
import pytest
from helpers.containers import CONTAINERS, EARTH
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

import sphereot
from sphereot import plotting
from sphereot.plotting._axes import samples_in_space
from sphereot.plotting.globe_pages import globe_figure

FRAME = sphereot.great_circles(1, 3, seed=0)
OTHERS = sphereot.sphere.random_uniform(20, 3, seed=0)


def table(**others):
    data = dict(zip(("u", "v", "w"), EARTH.T, strict=True))
    return pytest.importorskip("pandas").DataFrame({**data, **others})


def offsets(ax):
    """Longitudes and latitudes of the points on a map."""
    return next(artist.get_offsets() for artist in ax.collections if artist.get_gid() == "points")


@pytest.mark.parametrize("name", CONTAINERS)
def test_lists_of_containers(name):
    """A list of samples, whichever is a container, is several samples, not one ragged array."""
    container = CONTAINERS[name]()
    for points, sizes in (([container, OTHERS], [4, 20]), ((OTHERS, container), [20, 4]), (container, [4])):
        samples = samples_in_space(points, None)
        assert [len(sample) for sample in samples] == sizes
        assert_allclose(samples[sizes.index(4)], EARTH, atol=1e-12)
    labels = ["first", "second"]
    ax = plotting.circle_projections([container, OTHERS], FRAME, labels=labels, bandwidth=0.3)
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == labels
    assert "second (20)" in globe_figure(points=[container, OTHERS], labels=labels, coastlines=False)


@pytest.mark.parametrize("name", CONTAINERS)
def test_maps(name):
    container = CONTAINERS[name]()
    drawn, expected = offsets(plotting.scatter_map(container)), offsets(plotting.scatter_map(EARTH))
    assert_allclose(drawn[:3], expected[:3], atol=1e-9)
    assert_allclose(drawn[3, 1], expected[3, 1], atol=1e-9)  # any longitude is that of the pole


def test_columns():
    """Coordinates beside other columns, which are not passed on to matplotlib."""
    frame, columns = table(magnitude=np.ones(4)), ["u", "v", "w"]
    expected = offsets(plotting.scatter_map(EARTH))
    assert_allclose(offsets(plotting.scatter_map(frame, columns=columns)), expected)
    ax = plotting.density_map(lambda x: x[:, 0] + 2, points=frame, columns=columns, resolution=4, colorbar=False)
    assert_allclose(offsets(ax), expected)
    ax = plotting.scatter_sphere(frame, columns=columns)
    assert sum(len(artist.get_offsets()) for artist in ax.collections if artist.get_gid() in ("points", "far")) == 4


def test_columns_of_several_samples(tmp_path):
    frame, columns = table(name=list("abcd")), ["u", "v", "w"]
    other = CONTAINERS["polars"]()
    for points, chosen in (([frame, OTHERS], columns), ([frame, other], (columns, None)), (frame, columns)):
        assert len(plotting.circle_projections(points, FRAME, columns=chosen, bandwidth=0.3).collections) > 0
        page = plotting.globe_page(tmp_path / "globe.html", points=points, columns=chosen, coastlines=False)
        assert "points (4)" in page.read_text(encoding="utf-8")
    with pytest.raises(TypeError, match=r"columns: got .*but points is no table"):
        plotting.scatter_map(EARTH, columns=columns)
    with pytest.raises(TypeError, match=r"columns: got .*but none of 'points\[0\]', 'points\[1\]' is a table"):
        plotting.circle_projections([EARTH, OTHERS], FRAME, columns=columns)
