"""`sphereot drift`: exit codes for pipelines, the library's numbers, reports whole or absent."""

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
from numpy.testing import assert_allclose, assert_array_equal
from typer.main import get_command

from sphereot.cli import build_app
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
    assert calm.stdout.startswith("No drift detected in ")
    found = run("drift", files / "reference.npy", files / "same.npy", files / "far.npy", *FEW)
    assert found.exit_code == 3
    assert found.stdout.startswith("Drift detected in 1 of 2 windows (alpha = 0.05): far.npy ")
    assert run("drift", files / "reference.npy", files / "none.npy").exit_code == 2
    assert run("drift", files / "reference.npy").exit_code == 2  # no window


def test_json_has_the_numbers_of_the_library(files):
    done = run(
        "drift", files / "reference.npy", files / "same.npy", files / "far.npy", "--json", "--p", 1, *FEW, "--frames"
    )
    assert done.exit_code == 3
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
    assert "can reach alpha=0.05. Use at least 559 permutations; 2239 are recommended" in refused.stderr
    done = run(*arguments, "--permutations", 559)
    assert done.stdout.startswith("Drift detected in 28 of 28 windows")
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
    assert "Note: a test of 80 points needs time" in run(*arguments).stderr


def test_report(files):
    pytest.importorskip("matplotlib")
    out = files / "new" / "report.html"
    done = run("drift", files / "reference.csv", files / "far.csv", "--columns", "east,north,up", *FEW, "--report", out)
    assert done.exit_code == 3
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
        ((good, good, "--alpha", 1), "alpha: the significance level must be above 0 and at most 0.5, got 1"),
        ((good, good, "--permutations", 5), "permutations=5 is too small"),
        ((good, good, "--seed", -1), "must be at least 0, got -1"),
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
    with pytest.raises(KeyError, match="unforeseen"):  # Python shows the traceback, with exit code 1
        run("drift", files / "reference.npy", files / "same.npy")


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


# ---- help, completion ----


COMMANDS = sorted(
    name for name, command in get_command(build_app()).commands.items() if not hasattr(command, "commands")
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    done = run(command, "--help", env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert f"sphereot {command}" in done.stdout.partition("Usage:")[2].partition("\n")[2]


def test_help_flows():
    """Paragraphs break where the terminal ends, not where lines of the source do."""
    for arguments in (["drift"], ["density", "fit"]):
        done = run(*arguments, "--help", env={"COLUMNS": "600"})
        paragraphs = done.stdout.partition("Arguments")[0].splitlines()[4:]
        told = [line.strip() for line in paragraphs if line.strip()]
        assert all(line[0].isupper() or line.startswith(("sphereot", "--")) for line in told[:-1])


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
    assert done.exit_code == 3, done.output
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


# ---- numbers of rows ----


@pytest.fixture
def halves(tmp_path):
    """A reference on one side of the sphere, a window on both; bad rows at the beginning, and blank lines."""
    rng = np.random.default_rng(2)
    reference, window = sphere_sample(rng, 200, 3, shift=3), sphere_sample(rng, 300, 3, shift=3)
    window[150:] *= -1
    for name, points in (("reference", reference), ("window", window)):
        lines = [",".join(map(repr, point)) for point in points.tolist()]
        lines[4:4] = ["", "nan,0,0", "nan,nan,nan"]
        times = [f"2026-03-{2 + k // 200:02}" for k in range(len(lines))]
        text = "\n".join(line and f"{line},{time}" for line, time in zip(lines, times, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"x,y,z,time\n{text}\n")
    return tmp_path


def lines_below(path, numbers):
    """The lines of a file that have these numbers below its head, counted from 0, as points."""
    lines = path.read_text().splitlines()[1:]
    return np.array([[float(value) for value in lines[k].split(",")[:3]] for k in numbers])


READ_HALVES = ("--columns", "x,y,z", "--drop-bad", "--permutations", 99, "--projections", 20)


@pytest.mark.parametrize("options", [(), ("--max-points", 120)])
def test_rows_that_moved_have_their_numbers_in_the_file(halves, options):
    """New rows are of the other half: with their numbers among the points tested, they would be on any side."""
    arguments = ("drift", halves / "reference.csv", halves / "window.csv", *READ_HALVES, *options)
    done = run(*arguments, "--json", "--report", halves / "page.html")
    moved = json.loads(done.stdout)["windows"][0]["moved"]
    new, gone = ([item["row"] for item in moved[key]] for key in ("new", "gone"))
    assert len(set(new)) == len(set(gone)) == 20
    assert min(new) >= 150 + 3
    assert lines_below(halves / "window.csv", new)[:, 0].mean() < -0.5
    assert np.isfinite(lines_below(halves / "reference.csv", gone)).all()
    assert f"window.csv, new: row {new[0]}, row {new[1]}" in run(*arguments).stdout
    assert f"<li><bdi>row {new[0]}</bdi></li>" in (halves / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("max_points", [None, 120])
def test_row_numbers_are_exact(halves, max_points):
    """The point at a row of the file contributes what the library finds for this point."""
    from sphereot.datasets import read_points
    from sphereot.stats import row_contributions

    read = {"columns": ["x", "y", "z"], "drop_bad": True, "max_points": max_points}
    sets = [read_points(halves / f"{name}.csv", **read) for name in ("reference", "window")]
    x, y = (points.points for points in sets)
    test = drift_test(x, [y], permutations=99, n_projections=20, seed=0).windows[0].test
    values = row_contributions(x, y, p=1, projections=test.projections)
    options = () if max_points is None else ("--max-points", max_points)
    done = run("drift", halves / "reference.csv", halves / "window.csv", *READ_HALVES, *options, "--json")
    moved = json.loads(done.stdout)["windows"][0]["moved"]
    for name, key, points, contributions in (
        ("reference", "gone", x, values.x),
        ("window", "new", y, values.y),
    ):
        at_rows = lines_below(halves / f"{name}.csv", [item["row"] for item in moved[key]])
        indices = [int(np.flatnonzero((points == point).all(axis=1))[0]) for point in at_rows]
        assert_allclose([item["contribution"] for item in moved[key]], contributions[indices])


@pytest.mark.parametrize("options", [(), ("--max-points", 250)])
def test_rows_of_windows_of_time_have_their_numbers_in_the_file(halves, options):
    """The first day has rows up to 199, and blank lines and bad rows count."""
    arguments = ("--time", "time", "--every", "day", *READ_HALVES, *options, "--json")
    (alone,) = json.loads(run("drift", halves / "window.csv", *arguments).stdout)["windows"]
    rows = [item["row"] for item in alone["moved"]["new"]]
    assert min(rows) >= 200
    assert [item["id"] for item in alone["moved"]["new"]] == [f"row {row}" for row in rows]
    assert {item["row"] for item in alone["moved"]["gone"]} <= set(range(200))
    files = [halves / f"{name}.csv" for name in ("reference", "window", "reference")]
    first, _ = json.loads(run("drift", *files, *arguments).stdout)["windows"]
    assert all(item["id"] == f"row {item['row']} of window.csv" for item in first["moved"]["new"])
    assert "id" not in first["moved"]["gone"][0]


# ---- units ----

NAMES = {1: "SSW₁", 2: "SSW₂"}


@pytest.mark.parametrize(("p", "unit"), [(1, "km"), (2, "km"), (2, "degrees")])
def test_page_and_table_have_the_same_unit(files, p, unit):
    """The distance of the table is in the page, and nothing there is in turns but positions on the circle."""
    pytest.importorskip("matplotlib")
    out = files / "page.html"
    arguments = ("drift", files / "reference.npy", files / "far.npy", *FEW, "--p", p, "--unit", unit)
    done = run(*arguments, "--report", out)
    value = json.loads(run(*arguments, "--json").stdout)["windows"][0]["distance"]
    shown = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    page = out.read_text(encoding="utf-8")
    assert f'data-column="{NAMES[p]}, {unit}">{shown}<' in page
    assert f"{NAMES[p]} from the reference, in {unit}" in page
    assert "in turns<" not in page.replace("position on the great circle, in turns<", "")
    head = done.stdout.splitlines()[1]
    assert shown.replace(",", "") in done.stdout
    assert f"expected ({unit if p == 1 else 'turns^2'})" in head


@pytest.mark.parametrize(
    ("options", "noted"), [(("--p", 2), True), (("--p", 2, "--unit", "turns"), False), (("--unit", "km"), False)]
)
def test_a_distance_of_order_two_in_degrees_is_no_displacement(files, options, noted):
    done = run("drift", files / "reference.npy", files / "far.npy", *FEW, *options)
    assert ("SSW_2 is not a displacement" in done.stdout) == noted


def test_kilometers_have_no_exponents(files):
    """Few points: the range by chance is beyond 1000 km."""
    np.save(files / "few.npy", FAR[:5])
    done = run("drift", files / "few.npy", files / "few.npy", *FEW, "--unit", "km")
    (row,) = (line for line in done.stdout.splitlines() if " to " in line)
    assert "e+" not in row
    assert float(row.partition(" to ")[2].split()[0]) > 1000
