"""Commands on places: what helps a user who forgot an option, and weights of densities."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import answer, run

from sphereot.density import SphericalKDE
from sphereot.sphere import from_lonlat
from sphereot.stats import two_sample_test


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
    assert "the columns 'lon' and 'lat' look like longitudes and latitudes. Pass lonlat=True (--lonlat)" in " ".join(
        done.stderr.split()
    )


def test_weights_in_one_file_only(places):
    pl.read_csv(places / "b.csv").drop("people").write_csv(places / "c.csv")
    done = run("distance", places / "a.csv", places / "c.csv", "--lonlat", "--weights", "people")
    assert "For a file without weights, give - (--weights)" in " ".join(done.stderr.split())


def test_order_and_units_of_a_test(places):
    """Order 1 and units as in `distance`: turns and degrees by default, kilometers on the Earth if asked for."""
    arguments = ("test", places / "a.csv", places / "b.csv", "--lonlat", "--permutations", 19)
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    x, y = (
        from_lonlat(pl.read_csv(places / name).select("lon", "lat").to_numpy().astype(float))
        for name in ("a.csv", "b.csv")
    )
    statistic = two_sample_test(x, y, p=1, permutations=19, method="quasi", seed=0).statistic
    assert f"distance  {statistic:.6g} turns = {360 * statistic:.4g} degrees\n  expected  " in done.stdout
    assert "SSW_1 is the mean displacement along great circles" in done.stdout
    assert "SSW_2 is not a displacement" in run(*arguments, "--p", 2).stdout
    assert "is not a displacement" in run("uniformity", places / "a.csv", "--lonlat").stdout
    assert f"distance  {40030.23 * statistic:.6g} km\n  expected  " in run(*arguments, "--unit", "km").stdout
    found = answer(*arguments, "--unit", "km")
    assert (found["statistic"], found["unit"]) == (statistic, "km")
    assert found["distance"] == pytest.approx(40030.23 * statistic, rel=1e-6)
    assert found["distance_degrees"] == pytest.approx(360 * statistic)


@pytest.mark.parametrize("command", ["test", "uniformity", "drift"])
def test_units_of_commands(places, command):
    """One option with one meaning: a unit that the sphere does not have is an error."""
    files = [places / "a.csv"] if command == "uniformity" else [places / "a.csv", places / "b.csv"]
    few = [] if command == "uniformity" else ["--permutations", 19]
    done = run(command, *files, "--lonlat", *few, "--unit", "km")
    assert done.exit_code in (0, 3), done.output
    assert "km" in done.stdout
    np.save(places / "d.npy", np.eye(4))
    for arguments, message in (
        ([*files, "--lonlat", "--unit", "miles"], "--unit must be one of turns, degrees, radians, km, got 'miles'"),
        ([places / "d.npy"] * len(files) + ["--unit", "km"], "--unit km is only for locations on the Earth"),
    ):
        done = run(command, *arguments)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())


# ---- folders and patterns ----


@pytest.mark.parametrize("name", ["parts", "parts/*.csv", "par*/**/*.csv"])
@pytest.mark.parametrize("command", ["distance", "test", "uniformity"])
def test_folder_and_pattern_are_one_sample(places, command, name):
    """The rows of all files, in the order of the numbers in their names."""
    (places / "parts").mkdir()
    table = pl.read_csv(places / "b.csv")
    for k, first in ((10, 40), (2, 20), (1, 0)):
        table[first : first + 20].write_csv(places / "parts" / f"p{k}.csv")
    before = [] if command == "uniformity" else [places / "a.csv"]
    options = ["--lonlat", *(["--permutations", 19] if command == "test" else [])]
    whole, parts = (
        answer(command, *before, path, *options, *few)
        for path in (places / "b.csv", places / name)
        for few in [["--projections", 20]]
    )
    assert whole["files"][-1]["points"] == parts["files"][-1]["points"] == 60
    key = "value" if command == "distance" else "statistic"
    assert parts[key] == whole[key]
    assert ", of 3 files" in run(command, *before, places / name, *options).stdout


def test_density_of_a_folder(places):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    (places / "parts").mkdir()
    table = pl.read_csv(places / "a.csv")
    table[:30].write_csv(places / "parts" / "1.csv")
    table[30:].write_csv(places / "parts" / "2.csv")
    options = ("--lonlat", "--model", "kde", "--bandwidth", "0.1")
    shown = [
        run("density", "fit", path, *options, "-o", places / "m.safetensors").stdout.splitlines()[2]
        for path in (places / "a.csv", places / "parts")
    ]
    assert shown[0] == shown[1]
    assert shown[0].startswith("mean log-likelihood")
    drawn = run("density", "sample", places / "m.safetensors", "-n", 5, "-o", places / "drawn.csv")
    assert drawn.exit_code == 0, drawn.output
    assert len((places / "drawn.csv").read_text().splitlines()) == 6


def test_output_is_none_of_the_files_in_a_folder(places):
    (places / "parts").mkdir()
    pl.read_csv(places / "a.csv").write_csv(places / "parts" / "a.csv")
    for name in ("parts", "parts/*"):
        done = run("density", "fit", places / name, "--lonlat", "-o", places / "parts" / "a.csv")
        assert done.exit_code == 2
        assert "is one of the files to read" in " ".join(done.stderr.split())


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
        ([], "AverageDensity"),
        (["--weights", "people"], "AdaptiveKDE"),
        (["--weights", "-"], "AverageDensity"),
        (["--bandwidth", "0.1"], "SphericalKDE"),
        (["--epochs", "2", "--blocks", "1", "--components", "2"], "FlowDensity"),
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
    assert type(density.load(out)).__name__ == model


@pytest.mark.parametrize("other", [["--weights", "people"], ["--bandwidth", "0.1"]])
def test_options_of_different_models(places, other):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    done = run(
        "density", "fit", places / "a.csv", "--lonlat", "--epochs", "2", *other, "--out", places / "m.safetensors"
    )
    assert done.exit_code == 2
    assert f"--model: {other[0]} and options of the training of a flow" in " ".join(done.stderr.split())
