"""The examples run, and their results are what they claim.

The scripts for kinds of users are notebooks of `# %%` cells: a test runs all cells, on real data, and looks at the
names that they have defined.
"""

import importlib
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from paper.learning.images import ImageData, ImageSet

EXAMPLES = Path(__file__).parents[1] / "examples"
# By script, the packages beyond NumPy that it needs.
NOTEBOOKS = {
    "first_steps": ["matplotlib"],
    "jax_descent": ["jax", "sklearn"],
    "match_sample": ["torch"],
    "pipelines": ["sklearn"],
    "places": ["matplotlib", "polars"],
    "uniform_embeddings": ["torch", "sklearn"],
    "watch_embeddings": ["matplotlib", "sklearn"],
}


@pytest.fixture
def run_cells(tmp_path, monkeypatch):
    """Run all cells of a notebook in an empty folder, and return the names that they have defined."""

    def run(name, **settings):
        for package in NOTEBOOKS[name]:
            pytest.importorskip(package)
        if "matplotlib" in NOTEBOOKS[name]:
            importlib.import_module("matplotlib").use("Agg")
        monkeypatch.chdir(tmp_path)
        script = EXAMPLES / f"{name}.py"
        code = script.read_text(encoding="utf-8")
        for setting, value in settings.items():
            assert f"\n{setting} = None" in code
            code = code.replace(f"\n{setting} = None", f"\n{setting} = {value}")
        namespace = {"__name__": "__main__", "__file__": str(script)}
        exec(compile(code, str(script), "exec"), namespace)
        return namespace

    return run


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_have_cells(name):
    """Each cell begins with a sentence that says what it is about, and all work is in cells."""
    code = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    preamble, *cells = code.split("\n# %%\n")
    assert len(cells) >= 4
    assert preamble.startswith('"""')
    assert preamble.endswith('"""\n')
    assert f"python -m examples.{name}" in preamble
    for cell in cells:
        text = cell[: cell.index("\n\n")] if "\n\n" in cell else cell
        assert all(line.startswith("#") for line in text.splitlines())
        assert len(text.split()) >= 8
    assert "argparse" not in code


def test_first_steps(run_cells, tmp_path, capsys):
    """Great earthquakes are not uniform, and those before and since 1990 do not differ beyond chance."""
    names = run_cells("first_steps")
    assert len(names["points"]) == 82
    assert names["uniform"].p_value < 1e-6
    assert names["unchanged"].p_value > 0.05
    assert names["estimate"].value == pytest.approx(names["estimate"].noise_floor, rel=0.25)
    assert (tmp_path / "out/first_steps/map.png").stat().st_size > 10_000
    assert "82 earthquakes" in capsys.readouterr().out


def test_uniform_embeddings(run_cells, capsys):
    """The term spreads the embeddings of new digits, without it they collapse, and neighbors are of one digit."""
    names = run_cells("uniform_embeddings")
    spread = names["spread"]
    assert spread(names["trained"]) < 0.25 * spread(names["untrained"])
    assert spread(names["collapsed"]) > 0.9 / 12
    assert names["accuracy"] > 0.5
    assert "alignment" in capsys.readouterr().out


def test_match_sample(run_cells, capsys):
    names = run_cells("match_sample")
    assert names["after"] < 0.01 * names["before"]
    assert names["nearest"](names["points"].detach()).median() < 0.1 * names["nearest"](names["start"]).median()
    assert "SSW_2^2" in capsys.readouterr().out


def test_jax_descent(run_cells):
    """Ones have moved to where zeros are; tests/_backends/jax has a descent of fewer steps."""
    names = run_cells("jax_descent")
    assert names["after"] < 0.01 * names["before"]
    before, after = names["near_zeros"]
    assert before == 0
    assert after >= 0.98  # two or three of 182 images may end between digits: rounding, which machines do differently


def test_geometry(tmp_path):
    """What the pictures show is true: nothing on the circle is nearer, and the half circle projects to one turn."""
    pytest.importorskip("matplotlib")
    files, gap, spread = importlib.import_module("examples.geometry").draw(tmp_path)
    assert {file.suffix for file in files} == {".png", ".pdf"}
    assert all(file.stat().st_size > 10_000 for file in files)
    assert gap < 1e-12
    assert spread < 1e-12


def test_latent_sphere(tmp_path, capsys):
    """Codes of bright squares spread over the sphere, and the pictures show them; MNIST itself takes minutes."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    example = importlib.import_module("examples.latent_sphere")
    generator = np.random.default_rng(0)
    images, labels = np.zeros((1000, 1, 28, 28), dtype=np.float32), generator.integers(0, 10, 1000)
    for image, label, row in zip(images, labels, generator.integers(2, 16, 1000), strict=True):
        image[0, row : row + 8, 2 * label : 2 * label + 8] = 1.0
    model = example.fit(torch.from_numpy(images), seconds=1e9, width=0.125, epochs=6, batch_size=30)
    assert "epoch   1" in capsys.readouterr().out
    codes = example.encode_all(model, torch.from_numpy(images))
    assert float(example.ssw_uniform(codes, method="exact")) < 0.02  # all in one point: 1/12
    files = example.draw(model, ImageSet(images, labels), tmp_path)
    assert [file.name for file in files] == ["latent.png", "decoded.png", "latent.html"]
    assert all(file.stat().st_size > 10_000 for file in files)


def test_self_supervised(capsys):
    """Two kinds of stripes: nearest neighbors by the learned features are better than by those of a random network."""
    for package in ("torch", "kornia", "torchmetrics", "rich"):
        pytest.importorskip(package)
    example = importlib.import_module("examples.self_supervised")
    generator = np.random.default_rng(0)
    parts = []
    for n in (256, 100):
        labels = generator.integers(0, 2, n)
        ramp = np.linspace(0, 8 * np.pi, 16) + generator.uniform(0, 6, (n, 1))
        waves = np.where(labels[:, None, None] == 0, np.sin(ramp)[:, None, :], np.sin(ramp)[:, :, None])
        noise = 0.2 * generator.uniform(size=(n, 3, 16, 16))
        images = np.clip(0.4 + 0.3 * waves[:, None] * generator.uniform(size=(n, 3, 1, 1)) + noise, 0, 1)
        parts.append(ImageSet(images.astype(np.float32), labels))
    data = ImageData("stripes", "Stripes", *parts, "made here")
    before, after = example.learn(data, seconds=1e9, width=4, epochs=2)
    assert "epoch   2" in capsys.readouterr().out
    assert 0 <= before <= 1
    assert 0.5 < after <= 1


needs_data = pytest.mark.skipif(
    not Path(os.environ.get("SPHEREOT_DATA", ""), "earth").is_dir(), reason="SPHEREOT_DATA names no folder with earth/"
)


@needs_data
def test_places(run_cells, tmp_path, capsys):
    """Earthquakes and floods differ far beyond chance, also in 500 rows of each, and the pictures are there."""
    names = run_cells("places", max_rows=500)
    assert len(names["first"]) == len(names["second"]) == 500
    assert names["estimate"].sampling_interval()[0] > 1.5 * names["estimate"].noise_floor
    assert names["difference"].p_value <= 0.05
    assert "p-value 0.005" in capsys.readouterr().out
    assert [file.name for file in names["files"]] == ["difference.png", "density.png"]
    assert all((tmp_path / file).stat().st_size > 10_000 for file in names["files"])


def test_places_without_data_and_network(run_cells, tmp_path, monkeypatch, capsys):
    """The script says why it uses the table next to it, and continues."""

    def refuse(*_args, **_options):
        raise OSError("there is no network")

    monkeypatch.delenv("SPHEREOT_DATA", raising=False)
    for variable in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    names = run_cells("places")
    assert (len(names["first"]), len(names["second"])) == (33, 49)
    text = capsys.readouterr().out
    assert "set SPHEREOT_DATA" in text
    assert "before and since 1990" in text
    assert names["test"].p_value > 0.05
    assert all((tmp_path / file).exists() for file in names["files"])


def test_watch_embeddings(run_cells, tmp_path, capsys):
    """Days without nines raise no alarm; the days with nines do."""
    assert run_cells("watch_embeddings")["alarms"] == ["day 8", "day 9"]
    assert "Drift detected in 2 of 9 windows" in (tmp_path / "out/watch/drift.html").read_text(encoding="utf-8")
    assert "day 8: DRIFT" in capsys.readouterr().out


def test_pipelines(run_cells, capsys):
    names = run_cells("pipelines")
    assert names["bandwidth"] in names["bandwidths"][1:-1]  # inside of the grid
    assert names["scores"].mean() > -np.log(np.pi**4 / 3)  # that of the uniform distribution on S^7
    assert names["area"] > 0.8
    assert names["japan"] > 100 * names["europe"]
    assert "least typical" in capsys.readouterr().out
