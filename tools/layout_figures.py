#!/usr/bin/env python3
"""Figures of a package's layout: python tools/layout_figures.py src/sphereot [--json].

Lines are non-blank. Import chains also count imports inside functions, but not those under TYPE_CHECKING. The heart is
what a reader needs for one distance: distance, slicing, circle, _arrays without containers, _backends without torch and
jax.
"""

import ast
import json
import re
import sys
from pathlib import Path

HEART = ("distance", "slicing", "circle", "_arrays", "_backends")
NOT_HEART = ("_arrays/containers", "_backends/torch", "_backends/jax")


def module_name(path: Path, root: Path) -> str:
    """Full name of the module in a file."""
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, name: str, is_package: bool, modules: set[str]) -> set[str]:
    """Modules of the package that a module imports, anywhere but under TYPE_CHECKING."""
    found: set[str] = set()

    def add(target: str) -> None:
        while target not in modules and "." in target:
            target = target.rsplit(".", 1)[0]
        if target in modules and target != name:
            found.add(target)

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                add(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[: None if is_package else -1]
            base = base[: len(base) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                add(f"{prefix}.{alias.name}")
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return {target for target in found if target.split(".")[0] == name.split(".")[0]}


def longest_chain(edges: dict[str, set[str]]) -> int:
    """Number of modules in the longest path along imports that visits none twice."""
    lengths: dict[str, int] = {}

    def length(node: str, path: frozenset[str]) -> int:
        if node not in lengths:
            inside = path | {node}
            lengths[node] = 1 + max((length(t, inside) for t in edges.get(node, ()) if t not in inside), default=0)
        return lengths[node]

    sys.setrecursionlimit(10_000)
    return max(length(node, frozenset()) for node in edges)


def figures(root: Path) -> dict[str, int]:
    """All figures of the package in a folder."""
    paths = sorted(root.rglob("*.py"))
    names = {path: module_name(path, root) for path in paths}
    edges: dict[str, set[str]] = {}
    result = dict.fromkeys(("lines", "files", "heart lines", "heart files", "overload lines", "used once"), 0)
    for path in paths:
        source = path.read_text()
        tree, relative = ast.parse(source), path.relative_to(root).as_posix()
        lines = sum(bool(line.strip()) for line in source.splitlines())
        result["lines"] += lines
        result["files"] += 1
        if relative.split("/")[0].removesuffix(".py") in HEART and not relative.startswith(NOT_HEART):
            result["heart lines"] += lines
            result["heart files"] += 1
        edges[names[path]] = imported(tree, names[path], path.name == "__init__.py", set(names.values()))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any("overload" in ast.dump(d) for d in node.decorator_list):
                result["overload lines"] += node.end_lineno - node.decorator_list[0].lineno + 1
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_"):
                result["used once"] += len(re.findall(rf"\b{re.escape(node.name)}\b", source)) == 2
    inits = {names[path] for path in paths if path.name == "__init__.py"}
    importers: dict[str, set[str]] = {}
    for source_name, targets in edges.items():
        for target in targets if source_name not in inits else ():
            importers.setdefault(target, set()).add(source_name)
    plain = {s: t - inits for s, t in edges.items() if s not in inits}
    implementations = re.compile(rf"^{root.name}\._backends\.(native|array_api|torch|jax)")
    result["root entries"] = sum(p.name not in ("__pycache__", "__main__.py", "py.typed") for p in root.iterdir())
    result["chain"] = longest_chain(edges)
    result["chain without __init__"] = longest_chain(plain)
    result["one importer"] = sum(len(importers.get(name, ())) == 1 for name in edges)
    result["outside _backends that import an implementation"] = sum(
        not name.startswith(f"{root.name}._backends") and any(map(implementations.match, targets))
        for name, targets in edges.items()
    )
    return result


if __name__ == "__main__":
    measured = figures(Path(sys.argv[1]))
    print(json.dumps(measured) if "--json" in sys.argv else "\n".join(f"{v:>8,}  {k}" for k, v in measured.items()))
