"""The documentation: code of its pages runs, links lead somewhere, and the reference has all public names."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def test_start_runs(tmp_path, monkeypatch):
    """The code of the first page, as one program."""
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "start.md").read_text(encoding="utf-8"), flags=re.S)
    assert len(blocks) >= 5
    exec(compile("\n".join(blocks), "start.md", "exec"), {})
    assert (tmp_path / "difference.png").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside(page):
    """Links to other pages, to figures and to results name files that exist."""
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def reference():
    """Names in the API reference by module."""
    module, names = "", {}
    for line in (DOCS / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
            names[module] = set()
        elif re.fullmatch(r"   \w+", line):
            names[module].add(line.strip())
    return names


@pytest.mark.parametrize("module", reference())
def test_reference_has_all_public_names(module):
    for package in ("torch", "torchmetrics", "matplotlib", "polars", "kornia", "sklearn", "dask", "geomloss"):
        pytest.importorskip(package)
    imported = importlib.import_module(module)
    public = {
        name
        for name in imported.__all__
        if inspect.isclass(getattr(imported, name)) or inspect.isfunction(getattr(imported, name))
    }
    if module == "sphereot":
        public -= {"Sketch"}  # listed with the sketches
    assert public <= reference()[module], public - reference()[module]
