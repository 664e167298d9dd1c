"""Ctrl-C ends a long call of the kernel within a fraction of a second, whatever the call does."""

import signal
import subprocess
import sys
import time

import pytest

from sphereot._backends import native as _native

pytestmark = [
    pytest.mark.skipif(not _native.available, reason="there is no compiled kernel"),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for another process"),
]

SETUP = """
import numpy as np
import sphereot
rng = np.random.default_rng(0)
def points(n):
    return sphereot.sphere.normalize(rng.normal(size=(n, 3)))
"""

# Each takes from ten seconds to minutes.
CALLS = {
    "weights": """
x, y, a, b = points(200_000), points(200_000), rng.random(200_000), rng.random(200_000)
def call():
    sphereot.ssw(x, y, p=1.5, x_weights=a, y_weights=b, n_projections=1000, seed=0)
""",
    "pairwise": """
samples = [points(2_000) for _ in range(300)]
def call():
    sphereot.pairwise_ssw(samples, n_projections=200, seed=0)
""",
    "large order": """
x = points(200_000)
def call():
    sphereot.ssw_uniform(x, p=16, n_projections=100, seed=0)
""",
    "permutations": """
from sphereot.stats import two_sample_test
x, y = points(20_000), points(20_000)
def call():
    two_sample_test(x, y, permutations=9999, seed=0)
""",
    "gradients": """
import torch
from sphereot.torch import SSWLoss
x, y = (torch.tensor(points(200_000)) for _ in range(2))
a = torch.rand(200_000, dtype=torch.float64)
loss = SSWLoss(1.5, 1000)
def call():
    loss(x.requires_grad_(), y, x_weights=a).backward()
""",
}

RUN = """
print("started", flush=True)
try:
    call()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(float(sphereot.ssw(points(5), points(5), seed=0)) > 0)
"""


@pytest.mark.parametrize("name", CALLS)
def test_interrupt_ends_a_call(name):
    """The next call works as before. The limit is far above 0.1 s because other processes may be busy."""
    if name == "gradients":
        pytest.importorskip("torch")
    child = subprocess.Popen([sys.executable, "-c", SETUP + CALLS[name] + RUN], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "started\n"
        time.sleep(0.5)  # by now the call is inside the kernel
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=4)
    finally:
        child.kill()
        child.wait()
    assert output.split() == ["interrupted", "True"]
