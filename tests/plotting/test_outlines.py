"""Outlines of regions on the sphere: their area, at the date line and at the poles."""

import numpy as np
import pytest
from helpers.generators import location
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

from sphereot import plotting
from sphereot.plotting._outlines import outlines

GRID = plotting.map_points(180)


def distances(lines, lon, lat):
    """Degrees between a point and the vertices of lines."""
    return [np.rad2deg(np.arccos(np.clip(location(*line.T) @ location(lon, lat), -1, 1))) for line in lines]


@pytest.mark.parametrize(("lon", "lat"), [(10, 20), (180, 0), (-179, -50), (0, 90), (60, -90), (-30, 75)])
def test_disk_has_its_radius(lon, lat):
    """Within a cell (1 degree), also where the date line or a pole lies in the disk; parts join end to end."""
    lines = outlines(GRID @ location(lon, lat) > np.cos(np.deg2rad(25)))
    for distance in distances(lines, lon, lat):
        assert_allclose(distance, 25, atol=1)
    ends = np.concatenate([location(*line[[0, -1]].T) for line in lines])
    apart = np.linalg.norm(ends[:, None] - ends[None], axis=-1) + 10 * np.eye(len(ends))
    assert_allclose(apart.min(axis=1), 0, atol=1e-9)
    steps = np.concatenate([np.linalg.norm(np.diff(location(*line.T), axis=0), axis=1) for line in lines])
    # Along the edges of cells it would be longer by 4 / pi: the mean of |cos| + |sin|.
    assert 0.97 < steps.sum() / (2 * np.pi * np.sin(np.deg2rad(25))) < 4 / np.pi


def test_one_cell_has_an_outline_and_all_have_none():
    inside = np.zeros((20, 40), bool)
    assert outlines(inside) == []
    assert outlines(~inside) == []
    inside[10, 0] = True  # at the date line
    assert sum(len(line) for line in outlines(inside)) > 8
    assert max(map(np.max, distances(outlines(inside), -175.5, 4.5))) < 9


def test_corners_are_cut():
    """No turn of more than 45 degrees is left in the outline of a staircase."""
    inside = np.add.outer(np.arange(60), np.arange(120)) < 60
    for line in outlines(inside & (np.arange(60) > 5)[:, None] & (np.arange(120) > 5)):
        steps = np.diff(line, axis=0)
        directions = steps[np.linalg.norm(steps, axis=1) > 0] @ [1, 1j]
        turns = np.angle(directions[1:] / directions[:-1])
        assert np.abs(turns).max() < np.deg2rad(46)
