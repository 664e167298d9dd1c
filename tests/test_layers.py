"""The layers of docs/architecture.md: no import upwards, no cycle, and lazy imports only for optional packages."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import sphereot

ROOT = Path(sphereot.__file__).parent
LAYERS = [
    {"_support", "_arrays"},
    {"_backends"},
    {"sphere", "slicing", "circle", "radon"},
    {"distance", "sketch"},
    {"distributions", "flows", "optim"},
    {"torch"},
    {"density"},
    {"stats", "sampling"},
    {"__init__"},  # the public names
    {"datasets", "plotting"},
    {"report", "compat"},
    {"cli"},
    {"__main__"},
]
# What `import sphereot`, or the start of the command line, must not load. A module of ours may be imported inside a
# function if it loads one of these.
OPTIONAL = {
    "filelock",
    "torch",
    "jax",
    "jinja2",
    "prometheus_client",
    "matplotlib",
    "polars",
    "pooch",
    "pyarrow",
    "rich",
    "typer",
    "safetensors",
    "sklearn",
    "scipy",
    "ot",
    "geomloss",
    "torchmetrics",
    "kornia",
}


class Import:
    """One import of a module of the package: from where, of what, and whether it stands inside a function."""

    def __init__(self, source: str, target: str, line: int, lazy: bool):
        self.source, self.target, self.line, self.lazy = source, target, line, lazy

    def __repr__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}" + (" (lazily)" if self.lazy else "")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def imports_of(source: str, code: str, *, types: bool = False) -> list[Import]:
    """The imports of modules of the package in a source text; those for type checkers alone only with `types`."""
    imports = []

    def visit(node: ast.AST, lazy: bool) -> None:
        if not types and isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            return
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sphereot":
            base = (node.module or "").removeprefix("sphereot").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".removeprefix(".")
                target = full if is_module(full) else base or "__init__"
                imports.append(Import(source, target, node.lineno, lazy))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "sphereot":
                    target = alias.name.removeprefix("sphereot").removeprefix(".") or "__init__"
                    imports.append(Import(source, target, node.lineno, lazy))
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(code), False)
    return imports


def layer_of(module: str) -> int:
    package = module.split(".")[0]
    return next(level for level, names in enumerate(LAYERS) if package in names)


def upward(imports: list[Import]) -> list[Import]:
    return [one for one in imports if layer_of(one.target) > layer_of(one.source)]


def private_across_packages(imports: list[Import]) -> list[Import]:
    """Imports of a private module of another package; the four private packages themselves are for all."""
    return [
        one
        for one in imports
        if one.target.split(".")[0] != one.source.split(".")[0]
        and any(part.startswith("_") for part in one.target.split(".")[1:])
    ]


SOURCES = {module_name(path): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
IMPORTS = [one for name, code in SOURCES.items() for one in imports_of(name, code)]


def third_party(code: str) -> set[str]:
    """The packages that importing a module loads by itself."""
    names = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Try):
            names |= third_party(ast.unparse(ast.Module(node.body, [])))
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            names |= third_party(ast.unparse(ast.Module(node.orelse, [])))
    return names


def loads_optional(module: str) -> bool:
    """Whether importing a module loads an optional package, directly or through modules of ours."""
    seen, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in SOURCES:
            continue
        seen.add(name)
        if third_party(SOURCES[name]) & OPTIONAL:
            return True
        parts = name.split(".")
        waiting += [".".join(parts[:k]) for k in range(1, len(parts))]
        waiting += [one.target for one in IMPORTS if one.source == name and not one.lazy]
    return False


def test_every_package_has_a_layer():
    names = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert names == set().union(*LAYERS)


def test_imports_go_down():
    assert upward(IMPORTS) == []


def test_forbidden_imports_are_detected():
    """Also inside a function, and of a package by its attribute."""
    for code in ("from sphereot.cli import app", "def f():\n    from sphereot import cli", "import sphereot.stats"):
        assert len(upward(imports_of("slicing.circles", code))) == 1, code
    assert upward(imports_of("cli.app", "from sphereot.distance import ssw")) == []


def test_no_cycle():
    """Imports inside functions count too, and imports for type checkers alone, except the names of lazy modules."""
    packages = {module_name(path) for path in ROOT.rglob("__init__.py")}
    graph: dict[str, set[str]] = {}
    for name, code in SOURCES.items():
        for one in imports_of(name, code, types=name not in packages):
            # A package's __init__ imports its modules; that they lie inside it is not an import of it.
            if one.source != one.target:
                graph.setdefault(one.source, set()).add(one.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_package_does_not_import_the_paper():
    """The folder `paper` is above all layers, and no part of the wheel."""
    assert not any(re.search(r"^\s*(from|import) paper\b", code, re.MULTILINE) for code in SOURCES.values())


def test_private_modules_stay_in_their_package():
    assert private_across_packages(IMPORTS) == []


def test_private_names_stay_in_their_package():
    offenders = []
    for name, code in SOURCES.items():
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sphereot":
                base = (node.module or "").removeprefix("sphereot").removeprefix(".")
                offenders += [
                    f"{name}:{node.lineno} imports {base}.{alias.name}"
                    for alias in node.names
                    if alias.name.startswith("_")
                    and base.split(".")[0] != name.split(".")[0]
                    and alias.name != "__version__"
                    and not is_module(f"{base}.{alias.name}".removeprefix("."))
                ]
    assert offenders == []


def test_lazy_imports_are_of_optional_packages():
    """The command line and the package's own lazy attributes aside, which are lazy for the time of a start."""
    offenders = [
        one
        for one in IMPORTS
        if one.lazy and one.source.split(".")[0] not in {"cli", "__init__"} and not loads_optional(one.target)
    ]
    assert offenders == []


def test_package_root():
    """What a user can import, and four private packages."""
    entries = [path.name for path in ROOT.iterdir() if path.name not in {"__pycache__", "__main__.py"}]
    assert len(entries) <= 30
    private = {name for name in entries if name.startswith("_") and name != "__init__.py"}
    assert private == {"_arrays", "_backends", "_support"}
