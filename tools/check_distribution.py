"""Check the distributions in dist/: their files, and an installation of each where there is no compiler.

    make wheel && python tools/check_distribution.py

The wheel must install and run the compiled kernel; the source distribution must install and run on array-API code. Both
are installed into new environments in build/clean and run tests/packaging/smoke.py there.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CLEAN = ROOT / "build" / "clean"
COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang", "cl")

# Of the package: Python files, what pages are made of, and the marker of types; every other file is a mistake.
SUFFIXES = {".py", ".css", ".html", ".js", ".typed"}
KERNEL = "sphereot/_backends/native/_kernel_"
NEEDED_IN_SOURCE = {
    "CHANGELOG.md",
    "CITATION.cff",
    "CMakeLists.txt",
    "LICENSE",
    "README.md",
    "constraints.txt",
    "cpp/bindings/module.cpp",
    "pyproject.toml",
    "src/sphereot/py.typed",
    "tests/conftest.py",
}
GENERATED = (".coverage", ".venv", "build/", "dist/", "docs/api/", "docs/gallery/")
NOT_IN_SOURCE = (*GENERATED, ".ci/", ".github/", "docs/figures/", "paper/results/")


def version() -> str:
    """The version in pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def wheels() -> list[Path]:
    """The wheels of the current version."""
    return sorted(DIST.glob(f"sphereot-{version()}-*.whl"))


def source() -> Path:
    """The source distribution of the current version, which need not exist."""
    return DIST / f"sphereot-{version()}.tar.gz"


def files_of_wheel(path: Path) -> set[str]:
    """The names of the files in a wheel."""
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def files_of_source(path: Path) -> set[str]:
    """The names of the files in a source distribution, without its single folder."""
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def problems_of_wheel(files: set[str], source_files: set[str]) -> list[str]:
    """What is wrong with the files of a wheel: it holds the package with a kernel, its metadata, and nothing else."""
    metadata = f"sphereot-{version()}.dist-info/"
    package = {name for name in files if name.startswith("sphereot/")}
    kernels = {name for name in package if name.startswith(KERNEL)}
    expected = {name.removeprefix("src/") for name in source_files if name.startswith("src/sphereot/")}
    problems = [f"{name} is not of the package" for name in files - package if not name.startswith(metadata)]
    problems += [f"{name} is not in the source" for name in package - kernels - expected]
    problems += [f"{name} is missing" for name in expected - package]
    problems += [f"{name}: unknown kind" for name in package - kernels if PurePosixPath(name).suffix not in SUFFIXES]
    if f"{metadata}licenses/LICENSE" not in files:
        problems.append("the license is missing")
    if not any(name.startswith(KERNEL + "baseline") for name in kernels):
        problems.append("there is no kernel")
    return sorted(problems)


def problems_of_source(files: set[str]) -> list[str]:
    """What is wrong with the files of a source distribution: what builds and tests the package, and no results."""
    problems = [f"{name} is missing" for name in NEEDED_IN_SOURCE - files]
    problems += [f"{name} does not belong there" for name in files if name.startswith(NOT_IN_SOURCE)]
    problems += [f"{name} is compiled" for name in files if name.endswith((".so", ".pyd", ".pyc"))]
    return sorted(problems)


def problems_of_description(metadata: str) -> list[str]:
    """What is wrong with the description of a package index: links and pictures there need complete addresses."""
    links = re.findall(r"\]\(([^)]+)\)", metadata)
    problems = [] if links else ["the description has no links: README is missing"]
    tag = f"/v{version()}/"
    ours = [link for link in links if "sphereot/sphereot" in link]
    problems += [f"{link} is not of the tag v{version()}" for link in ours if tag not in link]
    return problems + [f"the description has the relative link {link}" for link in links if "://" not in link]


def metadata_of_wheel(path: Path) -> str:
    """The metadata of a wheel, which end with the description."""
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"sphereot-{version()}.dist-info/METADATA").decode()


def install_and_run(distribution: Path, environment: Path, path: str) -> None:
    """Install a distribution into a new environment where no compiler is found, and run the smoke test."""
    shutil.rmtree(environment, ignore_errors=True)
    venv.create(environment, with_pip=True)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    assert not any(shutil.which(compiler, path=str(programs)) for compiler in COMPILERS)
    settings = ("SPHEREOT_", "CMAKE_", "PYTHON")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    # CMake also searches the system's folders for compilers, unless CC and CXX name one.
    variables |= {"PATH": str(programs), "CC": "no-compiler", "CXX": "no-compiler"}

    def run(*command: object) -> None:
        subprocess.run([str(part) for part in command], env=variables, cwd=environment, check=True)

    run(programs / "python", "-m", "pip", "install", "--quiet", distribution)
    run(programs / "python", "-I", ROOT / "tests" / "packaging" / "smoke.py", path, version())
    run(programs / "python", "-I", "-m", "sphereot", "info")


def main() -> int:
    """Check all distributions of the current version; return the exit code."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    installable = [wheel for wheel in wheels() if f"-{python}-{python}-" in wheel.name]
    if not installable or not source().exists():
        print(f"dist has no distributions of version {version()} for this Python; make them with `make wheel`.")
        return 1
    source_files = files_of_source(source())
    problems = [f"{source().name}: {problem}" for problem in problems_of_source(source_files)]
    for wheel in wheels():
        problems += [f"{wheel.name}: {problem}" for problem in problems_of_description(metadata_of_wheel(wheel))]
        problems += [f"{wheel.name}: {problem}" for problem in problems_of_wheel(files_of_wheel(wheel), source_files)]
    for problem in problems:
        print(problem)
    for distribution, name, path in ((installable[0], "wheel", "native"), (source(), "source", "portable")):
        print(f"{distribution.name}, {distribution.stat().st_size / 1e6:.1f} MB", flush=True)
        install_and_run(distribution, CLEAN / name, path)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
