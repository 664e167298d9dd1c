"""Commands on places: what helps a user who forgot an option, and weights of densities."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run

from sphereot.sphere import from_lonlat
from sphereot.stats import SphericalKDE, two_sample_test


@pytest.fixture
def places(tmp_path):
    rng = np.random.default_rng(0)
    for name, center in (("a", 0), ("b", 30)):
        lon, lat = rng.normal(center, 10, 60), rng.normal(20, 10, 60)
        pl.DataFrame({"name": ["x"] * 60, "lat": lat, "lon": lon, "people": rng.uniform(1, 9, 60)}).write_csv(
            tmp_path / f"{name}.csv"
        )
    return tmp_path


def test_forgotten_lonlat(places):
    done = run("distance", places / "a.csv", places / "b.csv")
    assert done.exit_code == 2
    assert "the columns 'lon' and 'lat' look like longitudes and latitudes; pass lonlat=True (--lonlat)" in " ".join(
        done.stderr.split()
    )


def test_weights_in_one_file_only(places):
    pl.read_csv(places / "b.csv").drop("people").write_csv(places / "c.csv")
    done = run("distance", places / "a.csv", places / "c.csv", "--lonlat", "--weights", "people")
    assert "for a file without weights give - (--weights)" in " ".join(done.stderr.split())


def test_order_and_units_of_a_test(places):
    """Order 1, as in `distance`, and its length on the earth."""
    done = run("test", places / "a.csv", places / "b.csv", "--lonlat", "--permutations", 19)
    assert done.exit_code == 0, done.output
    x, y = (
        from_lonlat(pl.read_csv(places / name).select("lon", "lat").to_numpy().astype(float))
        for name in ("a.csv", "b.csv")
    )
    statistic = two_sample_test(x, y, p=1, permutations=19, method="quasi", seed=0).statistic
    assert f"SSW_1 is {360 * statistic:.4g} degrees = {40030.23 * statistic:.4g} km" in done.stdout


def test_density_with_weights(places):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    arguments = ("--lonlat", "--model", "kde", "--bandwidth", "0.1", "--out", places / "m.safetensors")
    done = run("density", "fit", places / "a.csv", *arguments, "--weights", "people")
    assert done.exit_code == 0, done.output
    assert "weighted" in done.stdout
    table = pl.read_csv(places / "a.csv")
    points = from_lonlat(table.select("lon", "lat").to_numpy())
    expected = SphericalKDE(0.1).fit(points, sample_weight=table["people"].to_numpy()).score(points)
    assert f"mean log-likelihood of these points: {expected:.4f}" in done.stdout


@pytest.mark.parametrize(
    ("options", "model"),
    [
        ([], "auto"),
        (["--weights", "people"], "adaptive"),
        (["--weights", "-"], "auto"),
        (["--bandwidth", "0.1"], "kde"),
        (["--epochs", "2", "--blocks", "1", "--components", "2"], "expmap"),
    ],
)
def test_model_by_default(places, options, model):
    """Without --model, the one with the largest likelihood among those that take the other options."""
    pytest.importorskip("torch")
    density = pytest.importorskip("sphereot.density")
    pytest.importorskip("safetensors")
    out = places / "m.safetensors"
    done = run("density", "fit", places / "a.csv", "--lonlat", *options, "--out", out)
    assert done.exit_code == 0, done.output
    assert density.DensityEstimator.load(out).model == model


@pytest.mark.parametrize("other", [["--weights", "people"], ["--bandwidth", "0.1"]])
def test_options_of_different_models(places, other):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    done = run(
        "density", "fit", places / "a.csv", "--lonlat", "--epochs", "2", *other, "--out", places / "m.safetensors"
    )
    assert done.exit_code == 2
    assert f"--model: {other[0]} and options of the training of a flow" in " ".join(done.stderr.split())
