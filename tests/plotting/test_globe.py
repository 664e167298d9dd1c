"""Pages with a globe, in a real browser: opened from disk, offline, by mouse, touch and keyboard."""

import base64
import re
import zlib
from itertools import pairwise

import numpy as np
import pytest
from helpers.colors import middle_of
from helpers.generators import location, sphere_sample
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

from matplotlib import colormaps
from matplotlib.colors import AsinhNorm, BoundaryNorm, LogNorm, to_rgb

from sphereot import plotting
from sphereot.plotting.coastlines import has_coastlines
from sphereot.plotting.globe import as_regions, globe_figure, html_page, outlines

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'&amp; " + "long" * 100


def peak(x):
    """Density of a von Mises-Fisher law of concentration 5 around 40 E, 10 N."""
    return 5 / (2 * np.pi * (np.exp(5) - np.exp(-5))) * np.exp(5 * (x @ location(40, 10)))


# ---- files ----


def test_files_are_small_and_the_same_each_time(tmp_path):
    pages = [
        plotting.globe_page(tmp_path / name / "page.html", density=peak, points=sphere_sample(rng, 500, 3))
        for name in ("one", "two")
        for rng in [np.random.default_rng(0)]
    ]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert pages[0].stat().st_size < 600_000


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="density must be finite, got NaN or infinite values"):
        plotting.globe_page(path, density=np.full((4, 8), np.nan))
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_torch_tensors_and_lists_of_them():
    torch = pytest.importorskip("torch")
    x = sphere_sample(np.random.default_rng(0), 20, 3)
    tensor = torch.tensor(x, requires_grad=True)
    assert globe_figure(points=[tensor, x]) == globe_figure(points=[x, tensor])


def test_colors_of_samples():
    """Given colors are used; those too dark for a dark page become variables of the style sheet."""
    figure = globe_figure(points=[np.eye(3), -np.eye(3)], colors=["#8C510A", "#000000"], coastlines=False)
    assert re.findall(r'"color":"([^"]+)"', figure) == ["#8C510A", "--ink"]
    with pytest.raises(
        ValueError, match=r"colors must have one color such as '#0072B2' for each of 1 sample, got \['red'\]"
    ):
        globe_figure(points=np.eye(3), colors=["red"], coastlines=False)
    with pytest.raises(ValueError, match=r"of 2 samples"):
        globe_figure(points=[np.eye(3), np.eye(3)], colors=["#000000"], coastlines=False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "density or points must be given, got neither"),
        ({"points": np.eye(3), "labels": ["a", "b"]}, ValueError,
         "labels must be a list with one label for each of 1 sample, got 2"),
        ({"points": np.eye(3), "labels": "a"}, ValueError,
         "labels must be a list with one label for each of 1 sample, got the string 'a'"),
        ({"points": np.eye(4)}, ValueError, r"points must have points on S\^2, shape \(n, 3\), got dimension 4"),
        ({"points": [np.eye(3), 2 * np.eye(3)]}, ValueError, r"points\[1\]: row 0 has length 2"),
        ({"density": np.ones(8)}, ValueError,
         r"density must have shape \(n_lat, n_lon\), or be a function of unit vectors, got shape \(8,\)"),
        ({"points": np.eye(3), "center": (0, 100)}, ValueError,
         "lonlat must have latitudes from -90 to 90, got 100 degrees from the equator"),
        ({"density": np.ones((4, 8)), "norm": BoundaryNorm([0, 1, 2], 256)}, ValueError,
         r"norm must have an inverse and a range, .*, got BoundaryNorm"),
        ({"density": np.ones((4, 8)), "regions": np.ones(8)}, ValueError,
         r"regions must have shape \(n_lat, n_lon\), got \(8,\)"),
        ({"density": np.ones((4, 8)), "regions": np.full((4, 8), 2)}, ValueError,
         r"regions must be from -1 to 1, got 2. Use 1 and -1 in regions, and 0 elsewhere"),
    ],
)  # fmt: skip
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        globe_figure(**arguments)


# ---- outlines of regions ----


GRID = plotting.map_points(180)


def distances(lines, lon, lat):
    """Degrees between a point and the vertices of lines."""
    return [np.rad2deg(np.arccos(np.clip(location(*line.T) @ location(lon, lat), -1, 1))) for line in lines]


@pytest.mark.parametrize(("lon", "lat"), [(10, 20), (180, 0), (-179, -50), (0, 90), (60, -90), (-30, 75)])
def test_disk_has_its_radius(lon, lat):
    """Within a cell (1 degree), also where the date line or a pole lies in the disk; parts join end to end."""
    lines = outlines(1.0 * (GRID @ location(lon, lat) > np.cos(np.deg2rad(25))))
    for distance in distances(lines, lon, lat):
        assert_allclose(distance, 25, atol=1)
    ends = np.concatenate([location(*line[[0, -1]].T) for line in lines])
    apart = np.linalg.norm(ends[:, None] - ends[None], axis=-1) + 10 * np.eye(len(ends))
    assert_allclose(apart.min(axis=1), 0, atol=1e-9)
    steps = np.concatenate([np.linalg.norm(np.diff(location(*line.T), axis=0), axis=1) for line in lines])
    # Along the edges of cells it would be longer by 4 / pi: the mean of |cos| + |sin|.
    assert 0.97 < steps.sum() / (2 * np.pi * np.sin(np.deg2rad(25))) < 4 / np.pi


def test_one_cell_has_an_outline_and_all_have_none():
    inside = np.zeros((20, 40))
    assert outlines(inside) == []
    assert outlines(1 - inside) == []
    inside[10, 0] = 1  # at the date line
    assert sum(len(line) for line in outlines(inside)) > 4
    assert max(map(np.max, distances(outlines(inside), -175.5, 4.5))) < 9


def test_outlines_divide_cells_as_they_are():
    """Lines pass no center of a cell: a random mask with large regions is enclosed as it was."""
    from matplotlib.path import Path

    rng = np.random.default_rng(0)
    noise = sum(np.cos(k * GRID[..., i] * 4 + rng.uniform(0, 6)) for k in (1, 2) for i in range(3))
    inside = np.asarray(noise > 1.0)[20:160, 20:340]
    mask = np.zeros((180, 360), bool)
    mask[22:158, 22:338] = inside[2:-2, 2:-2]
    lon, lat = np.meshgrid((np.arange(360) + 0.5) - 180, (np.arange(180) + 0.5) - 90)
    centers = np.stack([lon.ravel(), lat.ravel()], axis=1)
    odd = np.zeros(centers.shape[0], bool)
    for line in outlines(1.0 * mask):
        odd ^= Path(line).contains_points(centers)
    assert np.mean(odd.reshape(mask.shape) != mask) < 1e-3


def test_soft_values_have_their_level():
    """A smooth function that crosses 1/2 on a circle has an outline there, to a hundredth of a cell."""
    values = np.clip(0.5 + 20 * (GRID @ location(10, 20) - np.cos(np.deg2rad(25))), 0, 1)
    for distance in distances(outlines(values), 10, 20):
        assert_allclose(distance, 25, atol=0.01)


@pytest.mark.parametrize("value", [2, -1.5, np.nan])
def test_other_values_are_an_error(value):
    with pytest.raises(ValueError, match=r"regions must be from -1 to 1, got .*Use 1 and -1 in regions"):
        as_regions(np.full((4, 8), value))


# ---- in the browser ----


@pytest.fixture
def show(open_page, tmp_path):
    """Write a page and open it; what it complains about at the end fails the test."""

    def show(*, dark=False, width=800, height=900, **arguments):
        path = plotting.globe_page(tmp_path / "page with space #1.html", **({"coastlines": False} | arguments))
        page = open_page(path, dark=dark, width=width, height=height)
        at_rest(page)
        return page

    return show


def at_rest(page):
    page.wait("document.querySelector('.globe').dataset.atRest !== undefined")


def view(page):
    return [
        float(page.evaluate(f"document.querySelector('.globe').dataset.{name}"))
        for name in ("longitude", "latitude", "zoom")
    ]


def ball(page):
    """Middle and radius of the globe at zoom 1 on the screen: across, down, radius."""
    left, top, width, height = page.evaluate(
        "(b => [b.x, b.y, b.width, b.height])(document.querySelector('.globe-view').getBoundingClientRect())"
    )
    return left + width / 2, top + height / 2, min(width, height) / 2 - 4


def focus(page):
    page.key("Tab")
    assert page.evaluate("document.activeElement.className") == "globe-view"


def middle_on_globe(page, color):
    """Where on the screen the pixels of the globe have a color: across, down."""
    across, down, radius = ball(page)
    left, top = round(across - radius), round(down - radius)  # what stands around may have the color too
    inside = page.screenshot()[top : round(down + radius), left : round(across + radius)]
    middle = middle_of(inside, 255 * np.array(to_rgb(color)), tolerance=30)
    return middle[::-1] + np.array([left + 0.5, top + 0.5])


def looks_toward(lon, lat):
    """Axes of the picture seen from a place: right, up, toward the reader."""
    east, toward = location(lon + 90, 0), location(lon, lat)
    return np.stack([east, np.cross(toward, east), toward])


@pytest.mark.parametrize("norm", [None, LogNorm(1e-4, 0.8)])
def test_colors_are_those_of_the_density(show, norm):
    """Pixel by pixel, against an orthographic projection by hand; lines of the graticule are over some pixels."""
    page = show(density=peak, center=(20, 30), norm=norm)
    image = page.screenshot()
    across, down, radius = ball(page)
    u, v = np.random.default_rng(0).uniform(-0.97, 0.97, size=(2, 4000))
    u, v = np.array([u, v])[:, u**2 + v**2 < 0.95]
    columns, rows = np.floor(across + radius * u).astype(int), np.floor(down - radius * v).astype(int)
    u, v = (columns + 0.5 - across) / radius, (down - rows - 0.5) / radius
    x = np.stack([u, v, np.sqrt(1 - u**2 - v**2)], axis=1) @ looks_toward(20, 30)
    top = peak(plotting.map_points(180).reshape(-1, 3)).max()
    expected = 255 * colormaps["viridis"](peak(x) / top if norm is None else norm(peak(x)))[:, :3]
    off = np.abs(image[rows, columns] - expected).max(axis=1)
    assert np.mean(off < 4) > 0.9


def test_readout_and_color_bar_give_values(show):
    page = show(density=peak, center=(20, 30), density_label="density (per sr)")
    across, down, radius = ball(page)
    page.mouse("mouseMoved", across + 0.4 * radius, down - 0.3 * radius)
    text = page.evaluate("document.querySelector('.globe-location').textContent")
    x = np.array([0.4, 0.3, np.sqrt(1 - 0.25)]) @ looks_toward(20, 30)
    where, value = text.split(" · density (per sr): ")
    lat, lon = (float(part.split("°")[0]) for part in where.split(", "))
    assert_allclose(location(lon, lat), x, atol=0.01)
    assert float(value) == pytest.approx(peak(x), rel=0.02)
    ticks = page.evaluate("[...document.querySelectorAll('.globe-ticks span')].map(t => [t.style.left, t.textContent])")
    top = peak(plotting.map_points(180).reshape(-1, 3)).max()
    assert len(ticks) >= 3
    for left, tick in ticks:
        assert float(left.removesuffix("%")) / 100 == pytest.approx(float(tick) / top, abs=1e-3)


def test_keys_turn_and_zoom(show):
    page = show(points=location(30, 0)[None], center=(0, 0))
    across, down, radius = ball(page)
    color = plotting.PALETTE[0]
    assert_allclose(middle_on_globe(page, color), [across + radius / 2, down], atol=1.5)
    focus(page)
    page.key("ArrowRight", times=3)
    at_rest(page)
    assert view(page) == [30, 0, 1]
    assert_allclose(middle_on_globe(page, color), [across, down], atol=1.5)
    page.key("ArrowUp", times=2)
    at_rest(page)
    assert_allclose(middle_on_globe(page, color), [across, down + radius * np.sin(np.deg2rad(20))], atol=1.5)
    page.key("+", times=2)
    at_rest(page)
    zoom = 1.25**2
    assert_allclose(middle_on_globe(page, color), [across, down + zoom * radius * np.sin(np.deg2rad(20))], atol=2)
    page.key("-")
    assert view(page)[2] == pytest.approx(1.25)
    page.key("ArrowDown", times=50)
    assert view(page)[1] == -90  # no further than the pole
    page.key("Home")
    assert view(page) == [0, 0, 1]
    page.key("ArrowLeft", times=19)
    assert view(page)[0] == 170  # round the back


def test_globe_turns_by_itself_until_it_is_touched(open_page, tmp_path):
    """Only where it is asked for; a key or the box stops it, and the box starts it again."""
    path = plotting.globe_page(tmp_path / "page.html", points=np.eye(3), turn=True, coastlines=False, center=(0, 0))
    page = open_page(path)
    box = "document.querySelector('input[data-turn]')"
    page.wait("Number(document.querySelector('.globe').dataset.longitude) > 1")
    assert page.evaluate(f"{box}.checked") is True
    focus(page)
    page.key("ArrowUp")
    at_rest(page)
    assert page.evaluate(f"{box}.checked") is False
    stopped = view(page)
    assert stopped[1] == 10
    page.evaluate(f"{box}.click()")
    page.wait(f"Number(document.querySelector('.globe').dataset.longitude) > {stopped[0] + 1}")
    page.evaluate(f"{box}.click()")
    at_rest(page)


def test_mouse_turns_and_zooms(show):
    page = show(points=location(0, 0)[None], center=(0, 0))
    across, down, radius = ball(page)
    page.mouse("mousePressed", across, down, button="left", clickCount=1)
    for step in range(1, 6):
        page.mouse("mouseMoved", across + 12 * step, down + 6 * step, button="left", buttons=1)
    page.mouse("mouseReleased", across + 60, down + 30, button="left", clickCount=1)
    at_rest(page)
    assert_allclose(middle_on_globe(page, plotting.PALETTE[0]), [across + 60, down + 30], atol=3)
    page.mouse("mouseMoved", across, down)  # no button: the globe stays
    assert_allclose(view(page)[:2], np.rad2deg([-60 / radius, 30 / radius]), atol=0.02)
    page.mouse("mouseWheel", across, down, deltaX=0, deltaY=-100)
    page.wait("document.querySelector('.globe').dataset.zoom > 1.1")
    page.evaluate("document.querySelector('button[data-act=reset]').click()")
    assert view(page) == [0, 0, 1]
    page.evaluate("document.querySelector('button[data-act=in]').click()")
    assert view(page)[2] == 1.25


def two_regions():
    """A disk of 20 degrees around 40 W, 0 N with value 1, one around 40 E, 0 N with value -1."""
    grid = plotting.map_points(720)  # cells smaller than a pixel
    disks = [grid @ location(longitude, 0) > np.cos(np.deg2rad(20)) for longitude in (-40, 40)]
    return disks[0].astype(int) - disks[1].astype(int)


def on_outline(page, longitude):
    """Share of dark pixels along the circle of 20 degrees around a point on the equator, seen from 0 E, 0 N."""
    across, down, radius = ball(page)
    image = page.screenshot().max(axis=-1)
    angle = np.linspace(0, 2 * np.pi, 721)[:-1]
    toward, east = location(longitude, 0), location(longitude + 90, 0)
    cosine, sine = np.cos(np.deg2rad(20)), np.sin(np.deg2rad(20))
    circle = cosine * toward + sine * (np.cos(angle)[:, None] * east + np.sin(angle)[:, None] * np.eye(3)[2])
    columns = np.floor(across + radius * circle[:, 1]).astype(int)
    rows = np.floor(down - radius * circle[:, 2]).astype(int)
    nearby = [image[rows + i, columns + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return float(np.mean(np.min(nearby, axis=0) < 110))


@pytest.mark.parametrize("dark", [False, True])
def test_outlines_of_regions(show, dark):
    """Solid around values of 1, dashed around values of -1, on light maps of light and dark pages; hidden by a key."""
    labels = ("<b>more</b>", "less")
    page = show(
        density=np.zeros((20, 40)),
        vmax=1.0,
        cmap="gray_r",
        regions=two_regions(),
        region_labels=labels,
        note="At level 5% & <i>so on</i>",
        center=(0, 0),
        dark=dark,
    )
    solid, dashed = on_outline(page, -40), on_outline(page, 40)
    assert solid > 0.97
    assert 0.5 < dashed < 0.93
    entries = page.evaluate("[...document.querySelectorAll('.globe-regions > span')].map(e => e.textContent.trim())")
    assert entries == list(labels)
    assert page.evaluate("document.querySelector('.globe-note').textContent") == "At level 5% & <i>so on</i>"
    assert page.contrast(".globe-regions", "color") > 7
    page.key("Tab", times=5)  # globe, three buttons, the box of the outlines
    page.key(" ")
    at_rest(page)
    assert max(on_outline(page, -40), on_outline(page, 40)) < 0.15  # the graticule crosses


def test_outlines_on_dark_colors_and_without_a_density(show):
    """On dark colors a white rim shows them; without a density they have the ink of the page, also of a dark one."""
    options = {"regions": two_regions(), "center": (0, 0)}
    page = show(density=np.ones((20, 40)), vmax=1.0, cmap="gray_r", **options)
    across, down, radius = (round(v) for v in ball(page))
    side = round(radius * np.sin(np.deg2rad(20)))  # rightmost point of the disk around 40 W: 20 W
    light = page.screenshot()[down - 3 : down + 4, across - side - 4 : across - side + 5]
    assert ratio(light, np.zeros(3)).max() > 4.5  # of the rim with the black map
    page = show(points=location(0, 60)[None], dark=True, **options)
    ink = page.screenshot()[down - 3 : down + 4, across - side - 4 : across - side + 5]
    assert ink.min(axis=-1).max() > 180


def test_legend_names_the_regions_that_exist():
    values = np.zeros((20, 40))
    assert "globe-regions" not in globe_figure(density=values, regions=values, coastlines=False)
    values[4, 5] = -1
    figure = globe_figure(density=values, regions=values, region_labels=("more", "less"), coastlines=False)
    assert '<span class="globe-outline dashed"></span> less' in figure
    assert "more" not in figure


def test_numbers_of_a_color_scale_are_round_and_in_one_line(show):
    """Also at the ends of a scale that is neither linear nor logarithmic, on a narrow screen."""
    values = np.tile(np.linspace(-7.959, 7.959, 40), (20, 1))
    page = show(density=values, norm=AsinhNorm(0.8, vmin=-7.959, vmax=7.959), width=375, height=800)
    ticks = page.evaluate(
        "[...document.querySelectorAll('.globe-ticks span')].map(t => [t.textContent, t.getBoundingClientRect().left, "
        "t.getBoundingClientRect().right, t.getBoundingClientRect().height])"
    )
    assert [tick[0] for tick in ticks] == ["−7", "−0.7", "0", "0.7", "7"]
    for _, left, right, height in ticks:
        assert 0 <= left < right <= 375
        assert height < 25
    assert all(tick[2] < following[1] for tick, following in pairwise(ticks))


def test_fingers_turn_and_zoom(show):
    page = show(points=location(0, 0)[None], center=(0, 0))
    across, down, radius = ball(page)
    page.touch("touchStart", (across, down))
    for step in range(1, 6):
        page.touch("touchMove", (across - 10 * step, down))
    page.touch("touchEnd")
    longitude, latitude, zoom = view(page)
    assert 0.5 < np.deg2rad(longitude) * radius / 50 <= 1.01  # a browser may take the first steps for a tap
    assert (latitude, zoom) == (0, 1)
    page.touch("touchStart", (across - 50, down), (across + 50, down))
    for step in range(1, 6):
        page.touch("touchMove", (across - 50 - 10 * step, down), (across + 50 + 10 * step, down))
    page.touch("touchEnd")
    assert 1.5 < view(page)[2] <= 2.01
    assert view(page)[0] == pytest.approx(longitude, abs=2)  # the middle between the fingers stayed


def test_hostile_texts_are_shown_as_text(show):
    page = show(
        points=[np.eye(3), -np.eye(3)], labels=[HOSTILE, "b"], title=HOSTILE, density=peak, density_label=HOSTILE
    )
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelector('h1').textContent") == HOSTILE
    assert page.evaluate("document.title") == HOSTILE
    assert HOSTILE in page.evaluate("document.querySelector('.globe-choices label').textContent")
    assert HOSTILE in page.evaluate("document.querySelector('.globe-location').textContent")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_no_script_runs_but_our_own(browser, tmp_path):
    """Even if a text went into a page unescaped."""
    path = tmp_path / "page.html"
    path.write_text(html_page("title", "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"))
    page = browser.open(path)
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in str(complaint) for complaint in page.complaints())


def test_dark_mode(show):
    """As the system is set, and at once when that changes; text has the contrast that WCAG asks for (AAA: 7)."""
    page = show(points=np.eye(3), dark=True)
    across, down, radius = (round(v) for v in ball(page))
    dark = page.screenshot()
    assert dark[2, 2].max() < 50
    assert page.contrast("body", "color") > 7
    page.set_dark(False)
    page.wait("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # events have come
    at_rest(page)
    light = page.screenshot()
    assert light[2, 2].min() > 250
    assert page.contrast("body", "color") > 7
    inside = (slice(down - radius // 2, down + radius // 2), slice(across - radius // 2, across + radius // 2))
    assert np.median(dark[inside]) < 60 < 200 < np.median(light[inside])  # the globe too


def test_samples_and_coastlines_can_be_hidden_by_keyboard(show):
    if not has_coastlines():
        pytest.skip("needs the extra sphereot[map]")
    page = show(
        points=[location(5, 50)[None], location(40, 20)[None]], labels=["a", "b"], center=(20, 20), coastlines=True
    )
    first, second = plotting.PALETTE[:2]
    middle_on_globe(page, first)
    page.key("Tab", times=5)  # globe, three buttons, the first sample
    page.key(" ")
    at_rest(page)
    with pytest.raises(AssertionError, match="nothing of that color"):
        middle_on_globe(page, first)
    middle_on_globe(page, second)
    shores = page.screenshot()
    page.key("Tab", times=2)
    page.key(" ")
    at_rest(page)
    bare = page.screenshot()
    across, down, radius = (round(v) for v in ball(page))
    inside = (slice(down - radius, down + radius), slice(across - radius, across + radius))
    changed = np.any(bare[inside] != shores[inside], axis=-1)
    assert changed.mean() > 0.01  # lines were there
    assert np.all(bare[inside][changed].sum(axis=-1) >= shores[inside][changed].sum(axis=-1))  # and they were dark


def test_narrow_screens(show):
    page = show(density=peak, points=np.eye(3), labels=["a name of some length"], width=360, height=640)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert ball(page)[2] > 120


def test_two_globes_on_a_page_that_scrolls(browser, tmp_path):
    """Each turns by itself, and the wheel scrolls until a globe is picked."""
    globe = globe_figure(points=np.eye(3), center=(0, 0), coastlines=False)
    path = tmp_path / "page.html"
    path.write_text(html_page("two", globe + globe), encoding="utf-8")
    page = browser.open(path, height=500)
    at_rest(page)
    focus(page)
    page.key("ArrowRight")
    turned = page.evaluate("[...document.querySelectorAll('.globe')].map(globe => globe.dataset.longitude)")
    assert turned == ["10.00", "0.00"]
    page.evaluate("document.activeElement.blur()")
    page.mouse("mouseWheel", 400, 200, deltaX=0, deltaY=100)
    page.wait("window.scrollY > 0")
    assert view(page)[2] == 1
    assert page.complaints() == []


# ---- what can be seen ----


def ratio(one, other):
    """Contrast of colors, shape (..., 3) in [0, 255], as WCAG 2.2 defines it."""
    found = []
    for colors in (one, other):
        channels = np.asarray(colors) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        found.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return np.maximum(*found) / np.minimum(*found)


@pytest.mark.parametrize("cmap", ["viridis", "gray_r", "YlOrRd"])
def test_coastlines_have_contrast_with_the_density(show, cmap):
    """Dark on light colors, white on dark ones: with and without the lines, pixel by pixel."""
    if not has_coastlines():
        pytest.skip("needs the extra sphereot[map]")
    page = show(density=peak, cmap=cmap, center=(40, 30), coastlines=True)
    across, down, radius = (round(v) for v in ball(page))
    inside = (slice(down - radius // 2, down + radius // 2), slice(across - radius // 2, across + radius // 2))
    lined = page.screenshot()[inside]
    page.evaluate("document.querySelector('.globe-choices input:not([data-sample])').click()")
    at_rest(page)
    bare = page.screenshot()[inside]
    changed = np.any(lined != bare, axis=-1)
    light = ratio(bare, np.zeros(3)) > 0.295 / 0.05  # luminance above 0.245
    assert changed.mean() > 0.01
    for part, brighter in ((changed & light, -1), (changed & ~light, 1)):
        if part.sum() < 50:
            continue
        change = brighter * (lined[part].sum(axis=-1) - bare[part].sum(axis=-1))
        assert np.mean(change > 0) > 0.97  # lines change their shade at points, and pixels lie between these
        assert np.quantile(ratio(lined, bare)[part], 0.9) > 2.5  # 3.5 in full; lines are a pixel wide, and smoothed


def test_many_white_points_have_a_rim_on_light_colors(show):
    """Squares, which are drawn from 4,000 points on, are seen on white too."""
    x = sphere_sample(np.random.default_rng(0), 4500, 3)
    page = show(density=np.zeros((20, 40)), vmax=1.0, cmap="gray_r", points=x)
    across, down, radius = (round(v) for v in ball(page))
    image = page.screenshot()[down - radius // 2 : down + radius // 2, across - radius // 2 : across + radius // 2]
    assert 0.02 < np.mean(image.max(axis=-1) < 150) < 0.6


@pytest.mark.parametrize("dark", [False, True])
def test_first_samples_have_contrast_with_the_ball(show, dark):
    """The first three colors; with more samples than that, the palette has lighter ones."""
    samples = [location(k * 20.0, 0.0)[None] for k in range(3)]
    page = show(points=samples, labels=["a", "b", "c"], center=(20, 0), dark=dark)
    ground = page.evaluate("getComputedStyle(document.body).getPropertyValue('--ball')")
    swatches = page.evaluate(
        "[...document.querySelectorAll('.globe-swatch')].map(e => getComputedStyle(e).backgroundColor)"
    )
    for swatch in swatches:
        color = [int(part) for part in swatch.removeprefix("rgb(").removesuffix(")").split(",")]
        assert ratio(color, 255 * np.array(to_rgb(ground.strip()))) >= 3
        middle_on_globe(page, np.array(color) / 255)


@pytest.mark.parametrize("width", [320, 375, 1280])
def test_all_of_the_page_is_on_the_screen(show, width):
    page = show(density=peak, points=np.eye(3), labels=["earthquakes of 2020"], width=width, height=812)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = "(b => [b.left, b.right, b.width, b.height])(document.querySelector({!r}).getBoundingClientRect())"
    for selector in (".globe-view", ".globe-bar", ".globe-choices", ".globe-help", ".globe-choices label"):
        left, right, *_ = page.evaluate(box.format(selector))
        assert 0 <= left < right <= width, selector
    wide, high = page.evaluate(box.format(".globe-view"))[2:]
    assert high <= max(wide, 256)  # no empty space above and below the globe


# ---- printed, and before it has settled ----


@pytest.mark.parametrize("width", [600, 1280])
def test_the_printed_globe_is_round(show, width):
    """The paper has another shape than the window, and the globe is not painted again for it."""
    page = show(points=np.eye(3), width=width, height=800)
    pdf = base64.b64decode(page.call("Page.printToPDF")["data"])
    pixels = [page.evaluate(f"document.querySelector('.globe-view').{side}") for side in ("width", "height")]
    parts = re.findall(rb"(<<[^<>]*>>) stream\r?\n(.*?)\r?\nendstream", pdf.replace(b">>\nstream", b">> stream"), re.S)
    sizes = [[int(part) for part in re.findall(rb"/(?:Width|Height) (\d+)", head)] for head, _ in parts]
    assert pixels in sizes  # the globe is in the file as it was on the screen
    content = b"".join(
        zlib.decompress(data) for head, data in parts if b"/Filter /FlateDecode" in head and b"/Width" not in head
    )
    placed = re.findall(rb"([\d.]+) 0 0 -?([\d.]+) [\d.]+ [\d.]+ cm(?:(?! cm).)*?/X\d+ Do", content, re.S)
    assert len(placed) == 1
    across, down = placed[0]
    assert float(across) / float(down) == pytest.approx(pixels[0] / pixels[1], rel=0.01)


def test_the_globe_is_round_before_it_settles(show):
    """A picture taken between a change of the window and the next frame, in the print medium."""
    page = show(density=np.ones((20, 40)), cmap="gray", width=1280, height=800)
    page.evaluate("window.requestAnimationFrame = () => 0")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.call("Emulation.setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1, mobile=False)
    box = "document.querySelector('.globe-view').getBoundingClientRect()"
    left, top, width, height = page.evaluate(f"(b => [b.x, b.y, b.width, b.height].map(Math.round))({box})")
    image = page.screenshot()[top : top + height, left : left + width].max(axis=-1)
    down, across = np.nonzero(image < 200)
    wide, high = np.ptp(across) + 1, np.ptp(down) + 1
    assert min(wide, high) > 200
    assert wide / high == pytest.approx(1, abs=0.02)
