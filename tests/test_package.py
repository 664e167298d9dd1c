"""The package as a thing: its names, its imports, its builds, its command."""

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import sphereot
from sphereot import _native

OPTIONAL = {"torch", "jax", "typer", "rich", "matplotlib", "scipy", "ot", "polars", "safetensors", "plotly"}


def run(code: str, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPHEREOT_")} | environment
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def modules():
    for module in pkgutil.walk_packages(sphereot.__path__, "sphereot."):
        if "._kernel" not in module.name:
            yield module.name


@pytest.mark.parametrize("name", ["sphereot", *modules()])
def test_all_is_what_is_public(name):
    """`__all__` lists what a module defines under public names, no more and no less."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        assert "pip install 'sphereot[" in str(error) or error.name in OPTIONAL
        pytest.skip(f"{name} needs an extra that is not installed")
    listed = module.__all__
    assert len(set(listed)) == len(listed)
    assert all(hasattr(module, public) for public in listed)
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and callable(value) and getattr(value, "__module__", None) == name
    }
    assert defined <= set(listed)


def test_import_is_light():
    """`import sphereot` needs NumPy and array-api-compat alone."""
    loaded = set(run("import sys, sphereot; print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert not loaded & OPTIONAL


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_doors_name_their_extra(framework):
    """Without the framework sphereot works, and its door says what to install."""
    code = f"""
import sys
class Absent:
    def find_spec(self, name, *_):
        if name == "{framework}":
            raise ModuleNotFoundError("absent", name=name)
sys.meta_path.insert(0, Absent())
import numpy as np, sphereot
assert sphereot.ssw(np.eye(3), np.eye(3), seed=0) == 0
try:
    import sphereot.{framework}
except ImportError as error:
    print(error)
"""
    assert f"pip install 'sphereot[{framework}]'" in run(code)


def test_import_is_quick():
    """Under 0.3 s, beyond a start of Python itself, the least of five."""
    code = "import time; t = time.perf_counter(); import sphereot; print(time.perf_counter() - t)"
    assert min(float(run(code)) for _ in range(5)) < 0.3


def test_info():
    info = sphereot.info()
    assert info.path == "native"
    assert info.instruction_set in ("baseline", "avx2", "avx512")
    assert info.threads >= 1
    assert "native (compiled kernel" in str(info)
    assert "portable" in run("import sphereot; print(sphereot.info())", SPHEREOT_KERNEL="off")
    assert run("import sphereot; print(sphereot.info().threads)", SPHEREOT_NUM_THREADS="3") == "3"


def test_environment_variables_are_checked():
    for variable, value, message in (
        ("SPHEREOT_KERNEL", "mmx", "choose 'auto', 'off' or one of"),
        ("SPHEREOT_NUM_THREADS", "many", "whole number of at least 1"),
    ):
        code = "try:\n import sphereot\nexcept ImportError as error:\n print(error)"
        assert message in run(code, **{variable: value})


CODE = """
import numpy as np, sphereot
rng = np.random.default_rng(0)
x = sphereot.sphere.normalize(rng.normal(size=(500, 3)))
y = sphereot.sphere.normalize(rng.normal(size=(400, 3)) + [1, 0, 0])
single = x.astype(np.float32), y.astype(np.float32)
print(sphereot.info().instruction_set)
for p in (1, 1.5, 2, 2.2, 3):
    print(repr(float(sphereot.ssw(x, y, p=p, seed=0))), repr(float(sphereot.ssw_uniform(x, p=p, seed=0))))
    print(repr(float(sphereot.ssw(*single, p=p, seed=0))), repr(float(sphereot.ssw(x[:400], y, p=p, seed=0))))
"""


@pytest.mark.parametrize("build", [*_native.kernel.supported_instruction_sets(), "off"] if _native.kernel else ["off"])
def test_every_build_gives_the_same_values(build):
    """Each instruction set's build of the kernel, and the portable path, agree to rounding."""
    here = run(CODE, SPHEREOT_KERNEL=build).split()
    best = run(CODE).split()
    assert here[0] == ("None" if build == "off" else build)
    for got, expected in zip(here[1:], best[1:], strict=True):
        assert float(got) == pytest.approx(float(expected), rel=2e-5)
    for row in range(5):  # the float64 values
        for column in (0, 1, 3):
            got, expected = (float(values[1 + 4 * row + column]) for values in (here, best))
            assert got == pytest.approx(expected, rel=1e-9)


def test_command_info():
    done = subprocess.run([sys.executable, "-m", "sphereot", "info"], capture_output=True, text=True, check=True)
    assert "native" in done.stdout
    assert "threads" in done.stdout


def test_command_without_its_extra():
    """`sphereot info` works with the core alone; other commands name the extra to install."""
    hide = "import sys; sys.modules['typer'] = None; sys.argv[1:] = {args}; from sphereot.cli import main; main()"
    assert "path" in run(hide.format(args=["info"]))
    done = subprocess.run(
        [sys.executable, "-c", hide.format(args=["bench"])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'sphereot[cli]'" in done.stderr
