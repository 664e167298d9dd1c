"""Metadata of the package, and the files of what `make wheel` has put into dist/."""

import importlib.util
import re
import tomllib
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_distribution = load_tool("check_distribution")
requirements = load_tool("requirements")


def first_match(pattern, file):
    return re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)[1]


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"^## (\S+)"),  # the newest heading
        ("packaging/conda/recipe.yaml", r"^  version: \"?([^\s\"]+)"),
    ],
)
def test_version_is_that_of_pyproject(file, pattern):
    assert first_match(pattern, file) == PROJECT["version"]


def test_installed_version_is_that_of_pyproject():
    """`sphereot.__version__` is the installed version (tests/test_package.py)."""
    assert installed_version("sphereot") == PROJECT["version"]


def test_urls():
    assert PROJECT["urls"].keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())


def test_description_has_complete_addresses():
    """The substitutions of pyproject.toml leave no relative link of README, and point to files that exist."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    hook = tools["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    readme = (ROOT / "README.md").read_text()
    assert check_distribution.problems_of_description(readme)  # as it is, it has relative links
    description = readme
    for rule in hook["substitutions"]:
        replacement = rule["replacement"].replace("$HFPR_VERSION", PROJECT["version"])
        description = re.sub(rule["pattern"], replacement, description)
    assert check_distribution.problems_of_description(description) == []
    tag = f"/v{PROJECT['version']}/"
    linked = [link.partition(tag)[2] for link in re.findall(r"\]\(([^)]+)\)", description) if tag in link]
    assert len(linked) > 20
    assert all((ROOT / file.partition("#")[0]).is_file() for file in linked)


def test_license():
    assert PROJECT["license"] == "MIT"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert first_match(r"^license: (\S+)$", "CITATION.cff") == PROJECT["license"]
    assert "MIT License" in (ROOT / "LICENSE").read_text()


def test_pythons():
    """The same Pythons in classifiers and in what cibuildwheel builds; the oldest is the one that is required."""
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert named == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert re.findall(r"cp3(\d+)-", settings["build"]) == [name.removeprefix("3.") for name in PYTHONS]


def test_oldest_requirements(capsys):
    """Lower bounds become constraints; extras that name other extras give the requirements of those."""
    requirements.main(["core-test", "--oldest"])
    lines = capsys.readouterr().out.split("\n")
    assert {"numpy==2.0.*", "array-api-compat==1.11.*"} <= set(lines)
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+\.\*", line) for line in lines if line)
    assert requirements.oldest("pandas>=2.2,<3; python_version < '3.14'") == "pandas==2.2.*; python_version < '3.14'"
    assert requirements.oldest("dask[array,dataframe]>=2025.5") == "dask==2025.5.*"
    assert requirements.oldest("one==0.1.0") == "one==0.1.0"
    requirements.main(["test"])
    lines = capsys.readouterr().out.split()
    assert "torch>=2.6" in lines
    assert not any(line.startswith("sphereot") for line in lines)


def test_all_extras_have_lower_bounds():
    for extra in PROJECT["optional-dependencies"]:
        for line in requirements.of_extra(PROJECT, extra):
            assert "==" in requirements.oldest(line), f"{extra}: {line}"


SOURCE = {*check_distribution.NEEDED_IN_SOURCE, "src/sphereot/__init__.py"}
METADATA = f"sphereot-{PROJECT['version']}.dist-info/"
WHEEL = {
    "sphereot/__init__.py",
    "sphereot/py.typed",
    "sphereot/_backends/native/_kernel_baseline.cpython-311-x86_64-linux-gnu.so",
    METADATA + "METADATA",
    METADATA + "licenses/LICENSE",
}


@pytest.mark.parametrize(
    ("added", "removed", "problem"),
    [
        ({"tests/conftest.py"}, set(), "tests/conftest.py is not of the package"),
        ({"sphereot/module.cpp"}, set(), "sphereot/module.cpp is not in the source"),
        (set(), {"sphereot/py.typed"}, "sphereot/py.typed is missing"),
        (set(), {name for name in WHEEL if "_kernel_" in name}, "there is no kernel"),
        (set(), {METADATA + "licenses/LICENSE"}, "the license is missing"),
    ],
)
def test_problems_of_a_wheel_are_named(added, removed, problem):
    assert check_distribution.problems_of_wheel(WHEEL, SOURCE) == []
    assert problem in check_distribution.problems_of_wheel((WHEEL | added) - removed, SOURCE)


def test_problems_of_a_source_distribution_are_named():
    assert check_distribution.problems_of_source(SOURCE) == []
    for name in ("paper/results/kappa/values.json", ".github/workflows/tests.yml", "docs/figures/slice.png"):
        assert check_distribution.problems_of_source(SOURCE | {name}) == [f"{name} does not belong there"]
    assert check_distribution.problems_of_source(SOURCE - {"LICENSE"}) == ["LICENSE is missing"]


@pytest.mark.skipif(
    not (check_distribution.wheels() and check_distribution.source().exists()),
    reason="dist/ has no distributions of this version: make wheel",
)
def test_files_of_the_distributions():
    source_files = check_distribution.files_of_source(check_distribution.source())
    assert check_distribution.problems_of_source(source_files) == []
    for wheel in check_distribution.wheels():
        files = check_distribution.files_of_wheel(wheel)
        assert check_distribution.problems_of_wheel(files, source_files) == []
