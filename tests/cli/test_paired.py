"""`sphereot paired`: rows matched by identifier or number, exit codes, the library's numbers, a report."""

import json

import numpy as np
import pytest
from helpers.generators import sphere_sample

pytest.importorskip("typer")
pl = pytest.importorskip("polars")

from helpers.cli import answer, run, save_points

from sphereot.sphere import normalize
from sphereot.stats import paired_test

RNG = np.random.default_rng(0)
X = sphere_sample(RNG, 50, 4)
Y = normalize(X + 0.05 * RNG.normal(size=X.shape))
Y[7] = -X[7]
TEXTS = [f"text {k}" for k in range(50)]
FEW = ("--projections", 5, "--permutations", 19, "--seed", 3)


def save_table(path, texts, points, **columns):
    pl.DataFrame({"text": texts, "embedding": points.tolist(), **columns}).write_parquet(path)
    return path


@pytest.fixture
def folder(tmp_path):
    order = np.random.default_rng(1).permutation(50)
    save_table(tmp_path / "before.parquet", TEXTS, X, topic=[k // 10 for k in range(50)])
    save_table(tmp_path / "after.parquet", [TEXTS[k] for k in order], Y[order], topic=[str(k) for k in order // 10])
    save_table(tmp_path / "part.parquet", [*TEXTS[3:], "new"], np.concatenate([Y[3:], X[:1]]))
    save_table(tmp_path / "twice.parquet", [*TEXTS[:49], TEXTS[0]], Y)
    save_table(tmp_path / "hole.parquet", [*TEXTS[:49], None], Y)
    save_table(tmp_path / "small.parquet", TEXTS, normalize(Y[:, :3]))
    return save_points(tmp_path, {"x": X, "y": Y, "short": Y[:40], "long": 2 * Y})


def compared(folder, *arguments):
    return answer("paired", folder / "before.parquet", *arguments, "--id", "text", "--columns", "embedding", *FEW)


def expected(before, after, **options):
    record = paired_test(before, after, permutations=19, n_projections=5, seed=3, **options).as_record()
    return json.loads(json.dumps(record))


def test_json_has_the_numbers_of_the_library(folder):
    """Rows of another order are matched by the identifier."""
    found = compared(folder, folder / "after.parquet")
    assert expected(X, Y).items() <= found.items()
    assert found["moved"][0] == {"id": "text 7", "angle": pytest.approx(180)}
    assert [len(found["moved"]), found["seed"], found["report"]] == [20, 3, None]
    assert [file["rows"] for file in found["unmatched"]] == [0, 0]
    by_number = answer("paired", folder / "x.npy", folder / "y.npy", *FEW)
    assert expected(X, Y).items() <= by_number.items()
    assert by_number["moved"][0]["id"] == "row 7"


def test_groups(folder):
    found = compared(folder, folder / "after.parquet", "--groups", "topic")
    assert found["test"] == expected(X, Y, groups=np.arange(50) // 10)["test"]
    assert found["test"]["n_groups"] == [5, 5]


def test_rows_of_one_file_only_are_counted_and_named(folder):
    found = compared(folder, folder / "part.parquet")
    assert expected(X[3:], Y[3:]).items() <= found.items()
    assert [(file["rows"], file["first"]) for file in found["unmatched"]] == [(3, TEXTS[:3]), (1, ["new"])]
    done = run("paired", folder / "before.parquet", folder / "part.parquet", "--id", "text", *FEW)
    assert done.exit_code == 0
    assert f"3 rows only in {folder}/before.parquet: 'text 0', 'text 1', 'text 2'" in done.stdout
    assert f"1 row only in {folder}/part.parquet: 'new'" in done.stdout


def test_bad_rows_do_not_shift_the_numbers(folder):
    """With --drop-bad, the other rows keep their partners."""
    hole = Y.copy()
    hole[[2, 49]] = np.nan
    np.save(folder / "hole.npy", hole)
    rows = np.delete(np.arange(50), [2, 49])
    found = answer("paired", folder / "x.npy", folder / "hole.npy", "--drop-bad", *FEW)
    assert expected(X[rows], Y[rows]).items() <= found.items()
    assert found["unmatched"][0]["first"] == ["row 2", "row 49"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--max-angle", 20], 3),
        (["--max-angle", 20, "--allowed", 0.019], 3),
        (["--max-angle", 20, "--allowed", 0.02], 0),
        (["--max-angle", 180], 0),
    ],
)
def test_exit_codes(folder, options, code):
    """One row of 50 is beyond 20 degrees, the largest of the other angles is 12."""
    done = run("paired", folder / "x.npy", folder / "y.npy", *options, *FEW)
    assert done.exit_code == code
    assert "moved most  row 7 (180), row" in done.stdout


def test_different_dimensions(folder):
    done = run("paired", folder / "before.parquet", folder / "small.parquet", "--id", "text", *FEW)
    assert done.exit_code == 0
    assert done.stdout.startswith("The dimensions differ (4 and 3), so only the nearest neighbors are compared")
    assert "moved most" not in done.stdout


def test_columns_in_another_order(folder):
    """The same columns in another order would look like a rotation."""
    names = ["a", "b", "c", "d"]
    pl.DataFrame(X, schema=names).write_csv(folder / "x.csv")
    pl.DataFrame(X[:, ::-1], schema=names[::-1]).write_csv(folder / "mirrored.csv")
    assert answer("paired", folder / "x.csv", folder / "mirrored.csv", *FEW)["angles"]["largest"] == 0


def test_report(folder):
    pytest.importorskip("matplotlib")
    out = folder / "paired.html"
    arguments = ["paired", folder / "before.parquet", folder / "after.parquet", "--id", "text", *FEW, "--report", out]
    done = run(*arguments, "--max-angle", 20)
    assert done.exit_code == 3
    assert f"Report: {out}" in done.stdout
    page = out.read_text(encoding="utf-8")
    assert "<h1>before.parquet and after.parquet</h1>" in page
    assert "text 7" in page
    assert run(*arguments[:-1], folder / "before.parquet").exit_code == 2  # one of the files to read


FAULTS = {
    "twice": (["before.parquet", "twice.parquet"], "identifier 'text 0' in column 'text' occurs 2 times, but must be"),
    "missing": (["before.parquet", "hole.parquet"], "column 'text': 1 of 50 labels are missing"),
    "no column": (["x.npy", "y.npy"], "has no columns of text, such as 'text'"),
    "angle": (["before.parquet", "after.parquet", "--max-angle", 200], "must be from 0 to 180 degrees, got 200"),
    "dimensions": (["before.parquet", "small.parquet", "--max-angle", 2], "max_angle needs points of equal dimensions"),
    "neighbors": (["before.parquet", "after.parquet", "--neighbors", 50], "less than the number of rows (50), got 50"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_are_one_line(folder, fault, monkeypatch):
    monkeypatch.chdir(folder)
    arguments, message = FAULTS[fault]
    done = run("paired", *arguments, "--id", "text")
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_rows_that_do_not_match(folder):
    done = run("paired", folder / "x.npy", folder / "short.npy")
    assert done.exit_code == 2
    assert "the rows do not match (50 rows and 40 rows). Match them by a column with --id." in done.stderr
    save_table(folder / "others.parquet", [f"other {k}" for k in range(50)], Y)
    assert run("paired", folder / "before.parquet", folder / "others.parquet", "--id", "text").exit_code == 2
    assert "must be unit vectors" in run("paired", folder / "x.npy", folder / "long.npy").stderr
