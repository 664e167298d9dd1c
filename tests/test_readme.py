"""The README is true: its code runs and gives the numbers it names, and what it names is there."""

import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import MODULE, start

import sphereot

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_example_prints_what_it_says(capsys):
    printed = re.search(r"```text\n(.*?)```", README, flags=re.DOTALL)[1]
    exec(compile(CODE[0], "README.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_names_are_there():
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    table = README.partition("## What you can do")[2].partition("Three conventions")[0]
    named = set(re.findall(r"`([a-z_.A-Z]+)`", table))
    assert len(named) > 20
    for name in named:
        assert pkgutil.resolve_name(f"sphereot.{name}") is not None


def test_commands_are_there():
    pytest.importorskip("typer")
    named = set(re.findall(r"sphereot (distance|test|uniformity|drift|sketch|monitor|density|info)\b", README))
    assert len(named) == 8
    done = start(*MODULE, "--help")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in named)


def test_files_are_there():
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            if not link.startswith(("http:", "https:", "mailto:")):
                assert (document.parent / link).exists(), f"{document.name} links to {link}"
    for path in re.findall(r"`((?:examples|docs|benchmarks)/[\w./-]+)`", README):
        assert (ROOT / path).exists(), path


def test_variances():
    """The order of the methods is that of docs/background/accuracy.md."""
    rng = np.random.default_rng(0)
    x, y = (sphereot.sphere.normalize(rng.normal(size=(100, 3)) + shift) for shift in ([0, 0, 0], [1, 0, 0]))
    spread = {
        method: np.var(
            [sphereot.ssw(x, y, projections=sphereot.great_circles(64, 3, method=method, seed=k)) for k in range(100)]
        )
        for method in ("iid", "orthogonal", "quasi")
    }
    # A variance from 100 draws is known to 14 percent; the ratios are 0.2 and 0.0006.
    assert spread["quasi"] < 0.1 * spread["orthogonal"] < 0.1 * spread["iid"]


def test_range_of_variances():
    """The range in docs/background/accuracy.md comes from fifteen pairs; tight, close clusters gain least."""
    pytest.importorskip("scipy")
    from benchmarks import variance

    pairs = list(variance.many_problems(3))
    assert len(pairs) == len({name for name, *_ in pairs}) == 15
    for _, x, y in pairs:
        sphereot.ssw(x, y, n_projections=1, seed=0)  # unit vectors, all of them
    chosen = ("vMF, vMF at 30 deg", "clusters of 2 deg at 5 deg")
    rows = list(variance.measure(3, 64, 2.0, 200, lambda dim: (pair for pair in pairs if pair[0] in chosen)))
    quasi = {row["problem"]: 64 / row["ratio"] for row in rows if row["method"] == "quasi"}
    assert quasi[chosen[0]] > 30_000  # 150,000, to 14 percent
    assert quasi[chosen[1]] < 1000  # 126
    assert "median" in variance.worth(rows)
