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


def test_stairs_become_slopes():
    """Around a tilted half plane of cells, the line is straight: within a fifth of a cell, not half a cell."""
    row, column = np.mgrid[:60, :120]
    for slope in (0.0, 0.2, 1 / 3, 0.7):
        inside = (row > 20 + slope * (column - 60)) & (np.abs(column - 60) < 50)
        line = max(outlines(inside), key=len)
        cells = (line + np.array([180, 90])) / 3 - 0.5
        side = cells[np.abs(cells[:, 0] - 60) < 25]
        side = side[side[:, 1] < 45]
        residual = side[:, 1] - np.polyval(np.polyfit(*side.T, 1), side[:, 0])
        assert np.abs(residual).max() < 0.2, slope


def test_outlines_divide_cells_as_they_are():
    """Straightened lines pass no center of a cell: a random mask with large regions is enclosed as it was."""
    from matplotlib.path import Path

    rng = np.random.default_rng(0)
    noise = sum(np.cos(k * GRID[..., i] * 4 + rng.uniform(0, 6)) for k in (1, 2) for i in range(3))
    inside = np.asarray(noise > 1.0)[20:160, 20:340]
    mask = np.zeros((180, 360), bool)
    mask[22:158, 22:338] = inside[2:-2, 2:-2]
    lon, lat = np.meshgrid((np.arange(360) + 0.5) - 180, (np.arange(180) + 0.5) - 90)
    centers = np.stack([lon.ravel(), lat.ravel()], axis=1)
    odd = np.zeros(centers.shape[0], bool)
    for line in outlines(mask):
        odd ^= Path(line).contains_points(centers)
    assert np.mean(odd.reshape(mask.shape) != mask) < 1e-3


def test_soft_values_have_their_level():
    """A smooth function that crosses 1/2 on a circle has an outline there, to a hundredth of a cell."""
    values = np.clip(0.5 + 20 * (GRID @ location(10, 20) - np.cos(np.deg2rad(25))), 0, 1)
    for distance in distances(outlines(values), 10, 20):
        assert_allclose(distance, 25, atol=0.01)


@pytest.mark.parametrize("value", [2, -1.5, np.nan])
def test_other_values_are_an_error(value):
    from sphereot.plotting._outlines import as_regions

    with pytest.raises(ValueError, match=r"regions: got the value .*; give 1 and -1 in regions"):
        as_regions(np.full((4, 8), value))
