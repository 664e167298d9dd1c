"""The documentation: code of its pages runs, links lead somewhere, and the reference has all public names."""

import importlib
import inspect
import re

import numpy as np
import pytest
from helpers.documents import DOCS, programs, python_blocks
from helpers.kernel import needs_kernel
from helpers.processes import MODULE, start

import sphereot

GENERATED = {"api", "gallery"}
PAGES = sorted(
    str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in GENERATED
)

# Pages whose code runs as one program, and what it needs beyond NumPy; tests/docs runs the migration pages.
PROGRAMS = {
    "background/circle.md": [],
    "background/ssw.md": [],
    "guide/density.md": ["torch", "matplotlib", "safetensors"],
    "guide/distances.md": [],
    "guide/drift.md": ["filelock"],
    "guide/large_data.md": [],
    "guide/losses.md": ["torch", "jax", "sklearn"],
    "guide/tests.md": [],
    "installation.md": ["torch"],
    "quickstart.md": ["torch", "matplotlib"],
}
FILES = {"guide/density.md": ["density.png", "density.safetensors"], "quickstart.md": ["difference.png"]}
SHOWN = {"guide/large_data.md": 2}  # later blocks need a cluster
NUMBER = r"-?\d+\.\d+(?:e-\d+)?|(?<=0\.)\d+"


@needs_kernel
@pytest.mark.parametrize("page", PROGRAMS)
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """The code of a page, as one program, writes the files that it names and prints what the page shows."""
    for package in PROGRAMS[page]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for code, shown in programs(page)[: SHOWN.get(page)]:
        exec(compile(code, page, "exec"), namespace)
        printed = capsys.readouterr().out
        if shown:
            # Numbers may differ in their last digits between machines, and training amplifies that.
            assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)
            found, expected = ([float(number) for number in re.findall(NUMBER, text)] for text in (printed, shown))
            assert found == pytest.approx(expected, rel=0.05, abs=1e-3)
    for name in FILES.get(page, []):
        assert (tmp_path / name).exists()


@needs_kernel
def test_command_prints_what_the_page_shows(tmp_path):
    """The first command of the page on the command line, on the samples of the page on distances."""
    pytest.importorskip("typer")
    samples: dict[str, object] = {}
    exec(programs("guide/distances.md")[0][0], samples)
    np.save(tmp_path / "old.npy", samples["x"])
    np.save(tmp_path / "new.npy", samples["y"])
    page = (DOCS / "guide/command_line.md").read_text(encoding="utf-8")
    command, shown = re.search(r"```bash\nsphereot (.*?)\n```\n\n```text\n(.*?)```", page, flags=re.S).groups()
    printed = start(*MODULE, *command.split(), cwd=tmp_path).stdout
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)


def test_programs_are_complete():
    """Every guide and background page with code is run."""
    with_code = {page for page in PAGES if page.startswith(("guide/", "background/")) and python_blocks(page)}
    assert with_code <= set(PROGRAMS)
    assert len(python_blocks("quickstart.md")) >= 5


@pytest.mark.parametrize("page", PAGES)
def test_links_inside(page):
    """Links name files that exist: other pages, figures, results, and the gallery or the programs of its pages."""
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (DOCS / page).read_text(encoding="utf-8")):
        if target.startswith("gallery/"):
            assert target == "gallery/index" or (DOCS.parent / "examples" / f"{target}.py").exists(), target
        elif "://" not in target:
            assert ((DOCS / page).parent / target).exists(), target


# Public modules that no `__all__` lists: they are imported by their full name.
SUBMODULES = (
    "sphereot.compat.bonet", "sphereot.compat.sklearn", "sphereot.sketch.dask", "sphereot.sketch.spark",
    "sphereot.torch.euclidean", "sphereot.torch.metrics",
)  # fmt: skip

# It has modules alone, and so no section in the reference.
COMPAT = "sphereot.compat"

# The packages beyond NumPy without which public modules cannot be imported.
PACKAGES = ("torch", "torchmetrics", "matplotlib", "polars", "kornia", "sklearn", "dask", "geomloss", "jax")


def reference():
    """Names in the API reference by module."""
    module, names = "", {}
    for line in (DOCS / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
            names.setdefault(module, set())
        elif match := re.fullmatch(r"(?:   |\.\. py:data:: )(\w+)", line):
            names[module].add(match[1])
    return names


def public_modules():
    """Public modules by name: those of the package, what their `__all__` lists, and `SUBMODULES`."""
    modules = {"sphereot": sphereot}
    waiting = [*(f"sphereot.{name}" for name in sphereot._LAZY_MODULES), *SUBMODULES, *_modules_in(sphereot)]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules[name] = importlib.import_module(name)
            waiting += _modules_in(modules[name])
    return modules


def _modules_in(module):
    return [getattr(module, name).__name__ for name in module.__all__ if inspect.ismodule(getattr(module, name))]


def test_reference_has_all_public_names():
    """Every public module has a section with all names of its `__all__`, and no section is left over."""
    for package in PACKAGES:
        pytest.importorskip(package)
    modules, listed = public_modules(), reference()
    assert modules.pop(COMPAT).__all__ == ["pot"]
    assert set(listed) == set(modules)
    for name, module in modules.items():
        public = {key for key in module.__all__ if not inspect.ismodule(getattr(module, key))}
        if name == "sphereot":
            public -= {"Sketch"}  # listed with the sketches
        assert public == listed[name], name


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_reference_has_imported_modules(page):
    """What documents import from is in the reference."""
    text = (DOCS / page).read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:>>> )?(?:from|import) (sphereot[\w.]*)", text, flags=re.M))
    assert imported <= {*reference(), COMPAT}
