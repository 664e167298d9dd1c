"""The documentation: code of its pages runs, links lead somewhere, and the reference has all public names."""

import importlib
import inspect
import re

import pytest
from helpers.documents import DOCS, python_blocks
from helpers.kernel import needs_kernel

import sphereot

GENERATED = {"api", "gallery"}
PAGES = sorted(
    str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in GENERATED
)

# Pages whose code runs as one program, and the packages beyond NumPy that it needs; tests/docs runs coming_from.
PROGRAMS = {
    "guide/choosing.md": [],
    "guide/compare.md": [],
    "guide/drift.md": [],
    "guide/density.md": ["torch", "matplotlib", "safetensors"],
    "installation.md": ["torch"],
    "guide/latent_prior.md": ["torch", "sklearn"],
    "guide/loss.md": ["torch", "jax"],
    "mathematics/circle.md": [],
    "mathematics/definitions.md": [],
    "mathematics/radon.md": [],
    "quickstart.md": ["torch", "matplotlib"],
}
FILES = {"guide/density.md": ["density.png", "density.safetensors"], "quickstart.md": ["difference.png"]}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=needs_kernel) if page == "guide/compare.md" else page for page in PROGRAMS]
)
def test_code_runs(page, tmp_path, monkeypatch):
    """The code of a page, as one program, writes the files that it names."""
    for package in PROGRAMS[page]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(python_blocks(page)), page, "exec"), {})
    for name in FILES.get(page, []):
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(("page", "count"), [("testing.md", 1), ("scale.md", 2)])
def test_first_blocks_run(page, count, tmp_path, monkeypatch, capsys):
    """What these pages begin with is a program; later blocks need a cluster."""
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(python_blocks(page)[:count]), page, "exec"), {})
    assert "SSW" in capsys.readouterr().out


@needs_kernel
def test_printed_estimate(capsys):
    """The result that the page on comparing samples explains is the one that its code prints."""
    exec(compile(python_blocks("guide/compare.md")[0], "compare.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    explained = re.findall(r"^    (.*)$", (DOCS / "guide/compare.md").read_text(encoding="utf-8"), flags=re.M)[:2]
    assert printed[0] == explained[0]
    numbers = [[float(number) for number in re.findall(r"0\.\d+", lines[1])] for lines in (printed, explained)]
    assert len(numbers[1]) == 3
    assert numbers[0] == pytest.approx(numbers[1], rel=0.2)  # of 100 resamples


def test_programs_are_complete():
    """No page of the guide or of the mathematics has code that is not run."""
    with_code = {page for page in PAGES if page.startswith(("guide/", "mathematics/")) and python_blocks(page)}
    assert with_code <= set(PROGRAMS)
    assert len(python_blocks("quickstart.md")) >= 5


@pytest.mark.parametrize("page", PAGES)
def test_links_inside(page):
    """Links name files that exist: other pages, figures, results, and the programs of pages of the gallery."""
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (DOCS / page).read_text(encoding="utf-8")):
        if target.startswith("gallery/"):
            assert (DOCS.parent / "examples" / f"{target}.py").exists(), target
        elif "://" not in target:
            assert ((DOCS / page).parent / target).exists(), target


# Public modules that no `__all__` lists: they are imported by their full name.
SUBMODULES = (
    "sphereot.compat.sklearn", "sphereot.sketch.dask", "sphereot.sketch.spark",
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
            names[module] = set()
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
