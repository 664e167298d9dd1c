"""Smoke test of an installed package, with NumPy alone: python smoke.py {native,portable} [version]."""

import os
import subprocess
import sys
import sysconfig
from importlib.resources import files

import numpy as np

import sphereot
from sphereot._backends import native


def check_values() -> None:
    """Distances of point masses, which every great circle has alike."""
    x = np.array([[0.0, 0.6, 0.8]])
    for dtype in (np.float32, np.float64):
        for p in (1, 2, 3):
            value = sphereot.ssw(x.astype(dtype), -x.astype(dtype), p=p, seed=0)
            # Antipodes are projected to antipodes, half a turn apart.
            np.testing.assert_allclose(value, 0.5**p, rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(sphereot.ssw(x, x, seed=0), 0, atol=1e-12)
    np.testing.assert_allclose(sphereot.ssw_uniform(x, seed=0), 1 / 12, rtol=1e-12)


def main(path: str, version: str | None = None) -> None:
    """Check the backend, the version, the type marker, and values of every build of the kernel."""
    info = sphereot.info()
    print(info, f"package   {os.path.dirname(sphereot.__file__)}", sep="\n", flush=True)
    assert info.backend == path, f"the backend is {info.backend}, not {path}"
    assert sphereot.__version__ == info.version
    assert version in (None, info.version), f"the version is {info.version}, not {version}"
    assert files("sphereot").joinpath("py.typed").is_file()
    check_values()
    if native.kernel is not None and "SPHEREOT_KERNEL" not in os.environ:
        for build in native.kernel.supported_instruction_sets():
            print(f"build     {build}", flush=True)
            environment = os.environ | {"SPHEREOT_KERNEL": build}
            command = [sys.executable, "-I", __file__, path, info.version]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled(), "a module has switched the global interpreter lock on"


if __name__ == "__main__":
    main(*sys.argv[1:])
