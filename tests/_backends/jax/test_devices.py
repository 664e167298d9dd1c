"""Several devices: `jax.shard_map` as it is called by default, and arrays on meshes with explicit sharding."""

import os
import sys
from pathlib import Path

import pytest
from helpers.kernel import needs_kernel
from helpers.processes import start

pytest.importorskip("jax")

# Four devices on the host; programs are small, so that optimizing them takes longer than running them.
FLAGS = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"


def run_on_four_devices(*names, **environment):
    script = Path(__file__).parent / "four_devices.py"
    settings = {"XLA_FLAGS": FLAGS, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", **environment}
    done = start(sys.executable, "-W", "error", script, *names, env={**os.environ, **settings}, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "devices agree" in done.stdout


@needs_kernel
def test_kernel():
    """Value and gradients per shard, gathered, replicated and on an explicit mesh equal those on one device."""
    run_on_four_devices()


def test_array_code():
    run_on_four_devices("ssw", "exact", SPHEREOT_KERNEL="off")
