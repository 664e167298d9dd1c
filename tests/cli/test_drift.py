"""`sphereot drift` and `sphereot bench`: exit codes for pipelines, the library's numbers, reports whole or absent."""

import json
import os
import sys

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.processes import MODULE, start

pytest.importorskip("typer")
pytest.importorskip("polars")

import polars as pl
from helpers.cli import run, save_points
from numpy.testing import assert_array_equal
from typer.main import get_command

from sphereot.cli import bench as bench_module
from sphereot.cli.app import app
from sphereot.stats import drift_test

RNG = np.random.default_rng(0)
X, SAME, FAR = sphere_sample(RNG, 80, 3, shift=1), sphere_sample(RNG, 60, 3, shift=1), sphere_sample(RNG, 40, 3)
FEW = ("--projections", 20, "--permutations", 199, "--seed", 5)


@pytest.fixture
def files(tmp_path):
    return save_points(tmp_path, {"reference": X, "same": SAME, "far": FAR}, csv=True)


def test_exit_codes(files):
    calm = run("drift", files / "reference.npy", files / "same.npy", *FEW)
    assert calm.exit_code == 0
    assert calm.stdout.startswith("No drift found: ")
    found = run("drift", files / "reference.npy", files / "same.npy", files / "far.npy", *FEW)
    assert found.exit_code == 1
    assert found.stdout.startswith("Drift in 1 of 2 windows at level 0.05: far.npy ")
    assert run("drift", files / "reference.npy", files / "none.npy").exit_code == 2
    assert run("drift", files / "reference.npy").exit_code == 2  # no window


def test_json_has_the_numbers_of_the_library(files):
    done = run(
        "drift", files / "reference.npy", files / "same.npy", files / "far.npy", "--json", "--p", 1, *FEW, "--frames"
    )
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    expected = drift_test(
        X, [SAME, FAR], labels=["same.npy", "far.npy"], p=1, permutations=199, n_projections=20, seed=5
    )
    assert found["summary"] == expected.summary
    assert found["drifted"] is True
    for got, window in zip(found["windows"], expected.windows, strict=True):
        assert got["value"] == window.value
        assert got["adjusted_p_value"] == window.adjusted_p_value
        assert got["drifted"] == window.drifted
        assert tuple(got["band"]) == window.band
        assert np.array(got["circle"]["frame"]).shape == (3, 2)
    assert found["reference"]["points"] == 80


def test_smallest_number_of_permutations(files):
    """For 28 windows at level 0.05, a corrected p-value of 28 / 560: the number that the message names is enough."""
    names = [files / f"w{k}.npy" for k in range(28)]
    for name in names:
        np.save(name, FAR)
    arguments = ["drift", files / "reference.npy", files / "w*.npy", "--projections", 2]
    refused = run(*arguments, "--permutations", 99)
    assert refused.exit_code == 2
    assert "of 28 windows can reach the level 0.05 after correction; give at least 559, better 2239" in refused.stderr
    done = run(*arguments, "--permutations", 559)
    assert done.stdout.startswith("Drift in 28 of 28 windows")
    assert run(*arguments, "--permutations", 558).exit_code == 2


def test_alpha_decides(files):
    arguments = ("drift", files / "reference.npy", files / "same.npy", files / "far.npy", *FEW, "--json")
    p_value = json.loads(run(*arguments).stdout)["windows"][0]["adjusted_p_value"]
    assert 0.05 < p_value < 0.5
    found = json.loads(run(*arguments, "--alpha", p_value).stdout)
    assert found["windows"][0]["drifted"]


def test_a_part_of_large_files(files, monkeypatch):
    """Files with more points are thinned, others are not; the choice is repeatable, and of points of the file."""
    arguments = ("drift", files / "reference.npy", files / "same.npy", files / "far.npy", *FEW, "--json")
    found = json.loads(run(*arguments, "--max-points", 50).stdout)
    assert [one["points_tested"] for one in (found["reference"], *found["windows"])] == [50, 50, 40]
    assert [one["points"] for one in (found["reference"], *found["windows"])] == [80, 60, 40]
    assert found == json.loads(run(*arguments, "--max-points", 50).stdout)
    assert found != json.loads(run(*arguments, "--max-points", 49).stdout)
    whole = json.loads(run(*arguments, "--max-points", 80).stdout)
    assert whole == json.loads(run(*arguments).stdout)
    monkeypatch.setattr("sphereot.cli.drift._LARGE_FILE", 70)
    assert "Note: 80 points take a while" in run(*arguments).stderr


def test_report(files):
    pytest.importorskip("matplotlib")
    out = files / "new" / "report.html"
    done = run("drift", files / "reference.csv", files / "far.csv", "--columns", "east,north,up", *FEW, "--report", out)
    assert done.exit_code == 1
    assert f"Report: {out}" in done.stdout
    text = out.read_text(encoding="utf-8")
    assert "<h1>Drift from reference.csv</h1>" in text
    assert "nearest to the columns" in text
    assert "far.csv" in text
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
def test_names_of_any_bytes(files):
    """A file name need be neither UTF-8 nor kind to terminals."""
    pytest.importorskip("matplotlib")
    odd = os.fsdecode(bytes(files) + b"/\xff\x1b[31m<b>.npy")
    np.save(odd, SAME)
    done = start(*MODULE, "drift", odd, odd, "--report", odd[:-4] + ".html", text=False)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert b"\\udcff" in done.stdout
    (report,) = files.glob("*.html")
    assert "Drift from \\udcff\ufffd[31m&lt;b&gt;.npy" in report.read_text(encoding="utf-8")


def test_files_of_one_name_are_told_apart_by_their_folders(files):
    for day in ("monday", "tuesday"):
        (files / day).mkdir()
        np.save(files / day / "vectors.npy", SAME)
    done = run("drift", files / "reference.npy", *(files / d / "vectors.npy" for d in ("monday", "tuesday")), *FEW)
    assert "monday" in done.stdout
    assert "tuesday" in done.stdout


def test_every_bad_file_ends_with_two_and_one_line(files):
    good = files / "reference.npy"
    (files / "empty.npy").write_bytes(b"")
    (files / "short.npy").write_bytes(good.read_bytes()[:-100])
    np.save(files / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.save(files / "text.npy", np.array([["a", "b"]]))
    hole = X.copy()
    hole[17, 1] = np.nan
    np.save(files / "hole.npy", hole)
    np.save(files / "wide.npy", sphere_sample(RNG, 9, 4))
    np.save(files / "long.npy", 3 * X)
    np.save(files / "none.npy", np.ones((0, 3)))
    np.save(files / "thin.npy", np.ones((5, 1)))
    (files / "words.csv").write_text("x,y,z\n1,0,0\n1,zero,0\n")
    for arguments, message in [
        ((good, files / "missing.npy"), "missing.npy"),
        ((good, files / "empty.npy"), "empty.npy"),
        ((good, files / "short.npy"), "short.npy"),
        ((good, files / "objects.npy"), "objects.npy"),
        ((good, files / "text.npy"), "text.npy"),
        ((good, files / "hole.npy"), "row 17"),
        ((good, files / "wide.npy"), "wide.npy"),
        ((good, files / "long.npy"), "length 3"),
        ((good, files / "none.npy"), "none.npy"),
        ((good, files / "thin.npy"), "thin.npy"),
        ((good, files / "words.csv"), "line 3"),
        ((good, files), str(files)),
        ((good, good, "--alpha", 1), "alpha: got 1"),
        ((good, good, "--permutations", 5), "permutations: with 5"),
        ((good, good, "--seed", -1), "seed: got -1"),
        ((good, good, "--report", files), "is a folder"),
        ((good, files / "same.npy", "--report", files / "same.npy"), "is one of the files to read"),
    ]:
        done = run("drift", *arguments)
        assert done.exit_code == 2, arguments
        assert message in done.stderr, arguments
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert done.stdout == ""
    assert "Traceback" in run("drift", good, files / "empty.npy", "--debug").stderr
    assert np.array_equal(np.load(files / "same.npy"), SAME)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(files):
    (files / "same.npy").chmod(0)
    done = run("drift", files / "reference.npy", files / "same.npy")
    assert done.exit_code == 2
    assert "same.npy: Permission denied" in done.stderr


def test_a_fault_of_ours_is_not_taken_for_drift(files, monkeypatch):
    def broken(*_, **__):
        raise KeyError("unforeseen")

    monkeypatch.setattr("sphereot.stats.drift_test", broken)
    done = run("drift", files / "reference.npy", files / "same.npy")
    assert done.exit_code == 2
    assert "KeyError: 'unforeseen'" in done.stderr


INTERRUPTED = """
import os, pathlib, signal, sys
import sphereot.stats.drift as drift

signal.signal(signal.SIGINT, signal.default_int_handler)
test, write, calls = drift.permutation_result, pathlib.Path.write_text, []

def interrupted_test(*arguments, **options):
    calls.append(0)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return test(*arguments, **options)

def interrupted_write(path, text, **options):
    write(path, text[:1000], **options)
    os.kill(os.getpid(), signal.SIGINT)

if {moment!r} == "testing":
    drift.permutation_result = interrupted_test
else:
    pathlib.Path.write_text = interrupted_write
sys.argv[1:] = ["drift", "reference.npy", "same.npy", "far.npy", "--report", "report.html"]
from sphereot.cli import main
main()
"""


@pytest.mark.parametrize("moment", ["testing", "writing"])
def test_interrupted_leaves_nothing(files, moment):
    """Ctrl-C in the midst of it: an exit code that is neither of the answers, and the old report still there."""
    pytest.importorskip("matplotlib")
    (files / "report.html").write_text("old")
    before = sorted(files.iterdir())
    done = start(sys.executable, "-c", INTERRUPTED.format(moment=moment), cwd=files)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (files / "report.html").read_text() == "old"
    assert sorted(files.iterdir()) == before


# ---- bench, help, completion ----


@pytest.fixture
def small_bench(monkeypatch):
    pytest.importorskip("ot")
    monkeypatch.setattr(bench_module, "_SECONDS", 0.01)
    monkeypatch.setattr(bench_module, "_SLICES", 20)
    cases = [bench_module._Case(p, 100, 3) for p in (1, 2)] + [bench_module._Case(2, 1000, 4, uniform=True)]
    monkeypatch.setattr(bench_module, "_CASES", cases)


@pytest.mark.usefixtures("small_bench")
def test_bench():
    found = json.loads(run("bench", "--json").stdout)
    assert len(found["cases"]) == 3
    for case in found["cases"]:
        assert 0 < case["sphereot_seconds"] < 60
        assert 0 < case["pot_seconds"] < 60
    lines = run("bench").stdout.splitlines()
    assert len(lines) == 5
    assert all(line.endswith("x") for line in lines[2:])


def test_bench_times_the_same_thing():
    """POT's value of a case is ours, within the chance of different great circles."""
    ot = pytest.importorskip("ot")
    import sphereot

    x, y = sphere_sample(RNG, 100, 3), sphere_sample(RNG, 100, 3, shift=1)
    for p in (1, 2):
        theirs = ot.sliced_wasserstein_sphere(x, y, p=p, n_projections=200, seed=0)
        ours = sphereot.ssw_estimate(x, y, p=p, n_projections=1000, method="iid", seed=0)
        root = ours.value ** (1 / p)
        error = np.sqrt(6) * ours.standard_error * root / (p * ours.value)  # a thousand circles here, two hundred there
        assert abs(theirs - root) < 5 * error
    theirs = ot.sliced_wasserstein_sphere_unif(y, n_projections=200, seed=0)
    ours = sphereot.ssw_estimate(y, n_projections=1000, method="iid", seed=0)
    root = ours.value**0.5
    assert abs(theirs - root) < 5 * np.sqrt(6) * ours.standard_error / (2 * root)


def test_bench_without_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    done = run("bench")
    assert done.exit_code == 2
    assert "pip install 'sphereot[bench]'" in done.stderr


COMMANDS = sorted(name for name, command in get_command(app).commands.items() if not hasattr(command, "commands"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    done = run(command, "--help", env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert f"sphereot {command}" in done.stdout.partition("Usage:")[2].partition("\n")[2]


def test_help_flows():
    """Paragraphs break where the terminal ends, not where lines of the source do."""
    for arguments in (["drift"], ["density", "fit"]):
        done = run(*arguments, "--help", env={"COLUMNS": "400"})
        paragraphs = done.stdout.partition("Arguments")[0].splitlines()[4:]
        told = [line.strip() for line in paragraphs if line.strip()]
        assert all(line[0].isupper() for line in told[:-1])


def test_completion_knows_the_commands():
    told = {"_SPHEREOT_COMPLETE": "complete_bash", "COMP_WORDS": "sphereot dr", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'sphereot'; from sphereot.cli import main; main()"
    done = start(sys.executable, "-c", code, env={**os.environ, **told})
    assert done.stdout.split() == ["drift"]


# ---- a verdict on one window does not depend on the others ----


@pytest.mark.parametrize("options", [(), ("--max-points", 30)])
def test_position_among_the_arguments_changes_nothing(files, options):
    """Great circles, permutations and the choice of points follow from the seed, the reference and this window."""
    np.save(files / "more.npy", sphere_sample(RNG, 70, 3, shift=0.5))

    def windows(*names):
        paths = [files / f"{name}.npy" for name in names]
        done = run("drift", files / "reference.npy", *paths, *FEW, "--json", *options)
        return {one["label"]: one for one in json.loads(done.stdout)["windows"]}

    first, second, alone = windows("same", "far"), windows("more", "far", "same"), windows("same")
    for others in (second, alone):
        for key in ("value", "p_value", "points_tested", "circle"):
            assert others["same.npy"][key] == first["same.npy"][key]
    assert second["far.npy"]["p_value"] == first["far.npy"]["p_value"]


@pytest.fixture
def topics(tmp_path):
    """A reference of documents with several sentences each; a window with other documents; one with a planted topic."""
    rng = np.random.default_rng(0)
    topic = np.eye(6)[5]

    def table(name, documents, planted=0):
        sizes = rng.integers(2, 6, documents)
        centers = np.repeat(rng.normal(size=(documents, 6)), sizes, axis=0)
        points = centers + 0.3 * rng.normal(size=centers.shape)
        points[:planted] = 40 * topic + rng.normal(size=(planted, 6))
        ids = [f"{name}-{k}" for k in range(len(points))]
        labels = [f"{name}-{k}" for k in np.repeat(np.arange(documents), sizes)]
        frame = pl.DataFrame({"embedding": points, "document": labels, "sentence": ids})
        frame.write_parquet(tmp_path / f"{name}.parquet")

    table("reference", 80)
    table("same", 40)
    table("planted", 40, planted=60)
    return tmp_path


def test_groups_and_moved_rows(topics):
    files = [topics / f"{name}.parquet" for name in ("reference", "same", "planted")]
    options = ["--columns", "embedding", "--normalize", "--groups", "document", "--id", "sentence"]
    report = topics / "drift.html"
    done = run("drift", *files, *options, "--permutations", "199", "--json", "--report", report)
    assert done.exit_code == 1, done.output
    same, planted = json.loads(done.stdout)["windows"]
    assert not same["drifted"]
    assert same["moved"] is None
    assert planted["drifted"]
    new = [item["id"] for item in planted["moved"]["new"]]
    assert len(new) == 20
    assert all(int(name.removeprefix("planted-")) < 60 for name in new)
    assert new[0] in report.read_text(encoding="utf-8")
    assert all(item["id"].startswith("reference-") for item in planted["moved"]["gone"])
    shown = run("drift", *files, *options, "--permutations", "199")
    assert f"planted.parquet, new: {new[0]}" in shown.stdout
    by_points = run("drift", *files[:2], *options[:3], "--permutations", "199", "--json")
    assert json.loads(by_points.stdout)["windows"][0]["p_value"] < same["p_value"]


def test_labels_follow_a_random_choice_of_rows(topics):
    from sphereot.datasets import read_points

    whole = read_points(topics / "reference.parquet", columns=["embedding"], normalize=True, labels=["sentence"])
    some = read_points(
        topics / "reference.parquet", columns=["embedding"], normalize=True, labels=["sentence"], max_points=20
    )
    rows = [whole.labels["sentence"].tolist().index(name) for name in some.labels["sentence"]]
    assert len(set(rows)) == 20
    assert_array_equal(some.points, whole.points[rows])
