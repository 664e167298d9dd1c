"""The package: public names, import time and dependencies, kernel builds, the command."""

import importlib
import pkgutil
import sys

import pytest
from helpers.absent_modules import import_error, without
from helpers.processes import MODULE, run_python, start

import sphereot
from sphereot._backends import native as _native

OPTIONAL = {
    "torch",
    "jax",
    "typer",
    "rich",
    "matplotlib",
    "scipy",
    "ot",
    "polars",
    "pooch",
    "pyarrow",
    "safetensors",
    "plotly",
    "sklearn",
}


def modules():
    for module in pkgutil.walk_packages(sphereot.__path__, "sphereot."):
        if "._kernel" not in module.name:
            yield module.name


def is_attribute(module, name):
    """Whether a module has an attribute, which may need an extra that is not installed."""
    try:
        return hasattr(module, name)
    except ImportError:
        return True


@pytest.mark.parametrize("name", ["sphereot", *modules()])
def test_all_is_what_is_public(name):
    """`__all__` of a public module lists what it defines under public names, no more and no less."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        assert "pip install 'sphereot[" in str(error) or error.name in OPTIONAL
        pytest.skip(f"{name} needs an extra that is not installed")
    if not hasattr(module, "__all__"):
        assert not hasattr(module, "__path__") or "._" in name, "a package that users import lists its names"
        return
    listed = module.__all__
    assert len(set(listed)) == len(listed)
    assert all(is_attribute(module, public) for public in listed)
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and callable(value) and getattr(value, "__module__", None) == name
    }
    assert defined <= set(listed)


@pytest.mark.parametrize(
    "name",
    [
        "compat.sklearn.UnitNorm",
        "torch.metrics.KNNAccuracy",
        "sketch.dask.sketch",
        "sketch.spark.sketch_agg",
        "stats.prometheus.prometheus_text",
    ],
)
def test_modules_of_packages_are_attributes(name):
    """`import sphereot` is enough for the modules of packages that need an optional package, too."""
    if name.startswith("torch"):
        pytest.importorskip("torchmetrics")
    assert run_python(f"import sphereot; print(sphereot.{name}.__name__)") == name.rpartition(".")[2]


def test_import_is_light():
    """`import sphereot` needs NumPy and array-api-compat alone."""
    loaded = set(run_python("import sys, sphereot; print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert not loaded & OPTIONAL


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_framework_may_be_missing(framework):
    code = "import numpy as np, sphereot; print(sphereot.ssw(np.eye(3), np.eye(3), seed=0))"
    assert float(run_python(without(framework) + code)) == 0


@pytest.mark.parametrize(("absent", "extra"), [("torch", "torch"), ("torchmetrics", "metrics")])
def test_metrics_name_their_extra(absent, extra):
    if absent != "torch":
        pytest.importorskip("torch")
    assert f"pip install 'sphereot[{extra}]'" in import_error("import sphereot.torch.metrics", absent=absent)


def test_import_is_quick():
    """Under 0.15 s of processor time beyond the import of array-api-compat and NumPy; the smallest of five."""
    code = """
import time, array_api_compat.numpy
start = time.process_time()
import sphereot
print(time.process_time() - start)
"""
    assert min(float(run_python(code)) for _ in range(5)) < 0.15


def test_info():
    info = sphereot.info()
    assert info.backend == "native"
    assert info.instruction_set in ("baseline", "avx2", "avx512")
    assert info.threads >= 1
    assert "native (compiled kernel" in str(info)
    assert "portable" in run_python("import sphereot; print(sphereot.info())", SPHEREOT_KERNEL="off")
    assert run_python("import sphereot; print(sphereot.info().threads)", SPHEREOT_NUM_THREADS="3") == "3"


def test_environment_variables_are_checked():
    for variable, value, message in (
        ("SPHEREOT_KERNEL", "mmx", "must be 'auto', 'off' or an instruction set"),
        ("SPHEREOT_NUM_THREADS", "many", "must be an integer of at least 1"),
    ):
        code = "try:\n import sphereot\nexcept ImportError as error:\n print(error)"
        assert message in run_python(code, **{variable: value})


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
    """Each instruction set's build of the kernel, and the array-API backend, agree to rounding."""
    here = run_python(CODE, SPHEREOT_KERNEL=build).split()
    best = run_python(CODE).split()
    assert here[0] == ("None" if build == "off" else build)
    for got, expected in zip(here[1:], best[1:], strict=True):
        assert float(got) == pytest.approx(float(expected), rel=2e-5)
    for row in range(5):  # the float64 values
        for column in (0, 1, 3):
            got, expected = (float(values[1 + 4 * row + column]) for values in (here, best))
            assert got == pytest.approx(expected, rel=1e-9)


def test_command_info():
    done = start(*MODULE, "info")
    assert done.returncode == 0, done.stderr
    assert "native" in done.stdout
    assert "threads" in done.stdout


def test_command_without_its_extra():
    """`sphereot info` works with the core alone; other commands name the extra to install."""
    main = [sys.executable, "-c", without("typer") + "from sphereot.cli import main; main()"]
    done = start(*main, "info")
    assert done.returncode == 0, done.stderr
    assert "backend" in done.stdout
    done = start(*main, "drift")
    assert done.returncode == 2
    assert "pip install 'sphereot[cli]'" in done.stderr


LAZY = {
    "datasets": "read_points",
    "density": "SphericalKDE",
    "distributions": "VonMisesFisher",
    "flows": "Flow",
    "plotting": "density_map",
    "report": "drift_page",
    "sampling": "langevin",
    "stats": "drift_test",
    "torch": "SSWLoss",
}
EXTRAS = {
    "distributions": ("torch", "torch"),
    "flows": ("torch", "torch"),
    "plotting": ("matplotlib", "plot"),
    "report": ("matplotlib", "plot"),
    "sampling": ("torch", "torch"),
    "torch": ("torch", "torch"),
}


@pytest.mark.parametrize("name", LAZY)
def test_modules_are_attributes(name):
    """`import sphereot` is enough for `sphereot.stats` and the like, which are imported at first use."""
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name][0])
    code = f"""
import sys, sphereot
assert "sphereot.{name}" not in sys.modules and "{name}" in dir(sphereot)
assert hasattr(sphereot.{name}, "{LAZY[name]}") and sphereot.{name} is sys.modules["sphereot.{name}"]
"""
    run_python(code)


@pytest.mark.parametrize("name", EXTRAS)
def test_modules_name_their_extra(name):
    """Without the package they need, `sphereot.torch` and the like say what to install, and dir() leaves them out."""
    package, extra = EXTRAS[name]
    listed = run_python(without(package) + "import sphereot; print(*dir(sphereot))").split()
    assert name not in listed
    assert "stats" in listed
    assert f"pip install 'sphereot[{extra}]'" in import_error(f"sphereot.{name}", absent=package)


def test_help_needs_no_extra():
    code = "import pydoc, sphereot; print(pydoc.render_doc(sphereot))"
    assert "Spherical Sliced-Wasserstein" in run_python(without("torch", "jax", "matplotlib") + code)


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="module 'sphereot' has no attribute 'ssv'"):
        sphereot.ssv  # noqa: B018
    assert not hasattr(sphereot, "nosuch")
    with pytest.raises(ImportError):
        from sphereot import nosuch  # noqa: F401


def test_version():
    """That of the installed package, looked up when it is asked for: it takes longer than much of the import."""
    from importlib.metadata import version

    assert sphereot.__version__ == sphereot.info().version == version("sphereot")
    # numpy.testing, which array-api-compat loads, imports it from NumPy 2.4 on.
    code = (
        "import sys, array_api_compat.numpy; sys.modules.pop('importlib.metadata', None); import sphereot; "
        "assert 'importlib.metadata' not in sys.modules; print(sphereot.__version__)"
    )
    assert run_python(code) == version("sphereot")


def test_version_of_files_that_are_not_installed():
    code = """
import importlib.metadata, sphereot
def absent(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = absent
print(sphereot.__version__)
"""
    assert run_python(code) == "unknown"
