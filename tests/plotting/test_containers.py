"""Plots of whatever holds points: single samples and lists of samples."""

import pytest
from helpers.containers import CONTAINERS, EARTH
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

import sphereot
from sphereot import plotting
from sphereot.plotting._axes import samples_in_space
from sphereot.plotting.globe import globe_figure

FRAME = sphereot.great_circles(1, 3, seed=0)
OTHERS = sphereot.sphere.random_uniform(20, 3, seed=0)


def offsets(ax):
    """Longitudes and latitudes of the points on a map."""
    return next(artist.get_offsets() for artist in ax.collections if artist.get_gid() == "points")


@pytest.mark.parametrize("name", CONTAINERS)
def test_lists_of_containers(name):
    """A list of samples, whichever is a container, is several samples, not one ragged array."""
    container = CONTAINERS[name]()
    for points, sizes in (([container, OTHERS], [4, 20]), ((OTHERS, container), [20, 4]), (container, [4])):
        samples = samples_in_space(points)
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
