"""One rule for values that are not valid: an error where values can be read, NaN elsewhere or on request."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.tensors import points, weights

import sphereot
from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SWUniformityLoss
from sphereot.torch import AlignmentUniformityLoss, SSWLoss, UniformityLoss, array_api_backend

LOSSES = {
    "uniformity": lambda **options: UniformityLoss(n_projections=5, seed=0, **options),
    "rooted": lambda **options: UniformityLoss(n_projections=5, seed=0, root=True, **options),
    "large order": lambda **options: UniformityLoss(16, n_projections=5, seed=0, root=True, **options),
    "exact": lambda **options: UniformityLoss(method="exact", **options),
    "two samples": lambda **options: SSWLoss(n_projections=5, seed=0, **options),
    "views": lambda **options: AlignmentUniformityLoss(2.0, **options),
    "sliced views": lambda **options: AlignmentUniformityLoss(2.0, UniformityLoss(n_projections=5, seed=0), **options),
    "NT-Xent": lambda **options: NTXentLoss(**options),
    "Gaussian": lambda **options: GaussianPotentialLoss(**options),
    "SW": lambda **options: SWUniformityLoss(5, seed=0, **options),
}
TWO_SAMPLES = ("two samples", "views", "sliced views", "NT-Xent")
FAULTS = {"NaN": torch.nan, "infinity": torch.inf, "zero": 0.0, "length": 3.0}


def batches(name, fault=None):
    x = points(8, 3)
    if fault is not None:
        x[2] *= FAULTS[fault]
    return [x, points(8, 3, seed=1)] if name in TWO_SAMPLES else [x]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", LOSSES)
def test_error_or_nan(name, fault):
    """In eager code on the CPU an error by default, and with the option NaN, whose gradient is NaN too."""
    bad = [batch.requires_grad_() for batch in batches(name, fault)]
    with pytest.raises(ValueError, match="row 2"):
        LOSSES[name]()(*bad)
    loss = LOSSES[name](nan_on_invalid=True)
    assert "nan_on_invalid=True" in repr(loss)
    value = loss(*bad)
    assert value.shape == ()
    assert value.isnan()
    assert torch.autograd.grad(value, bad[0])[0].isnan().any()
    assert torch.isfinite(loss(*batches(name)))


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("fault", ["NaN", "length"])
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"SW"}))  # SW counts its draws in a tensor
def test_nan_where_values_cannot_be_read(name, fault, portable):
    """Compiled and under torch.func the default gives what the option gives: NaN, and good members keep theirs."""
    bad, good = batches(name, fault), batches(name)
    with array_api_backend(force=portable):
        loss = LOSSES[name]()
        torch.compiler.reset()
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        assert compiled(*bad).isnan()
        both = [torch.stack(pair) for pair in zip(bad, good, strict=True)]
        assert torch.func.vmap(loss)(*both).isnan().tolist() == [True, False]


@pytest.mark.parametrize("bad", [torch.nan, -1.0])
def test_bad_weights(bad):
    x, w = points(8, 3), weights(8)
    w[0] = bad
    with pytest.raises(ValueError, match="weights"):
        UniformityLoss(seed=0)(x, w)
    assert UniformityLoss(seed=0, nan_on_invalid=True)(x, w).isnan()
    assert SSWLoss(seed=0, nan_on_invalid=True)(x, x, w).isnan()
    each = UniformityLoss(seed=0, nan_on_invalid=True, reduction="none")(torch.stack([x, x]), torch.stack([w, w.abs()]))
    assert each.isnan().tolist() == [True, math.isnan(bad)]


def test_mistakes_of_the_call_are_errors_all_the_same():
    """The option is for values; a wrong shape or dtype would give NaN in every step."""
    loss = SSWLoss(nan_on_invalid=True)
    for call in (lambda: loss(torch.eye(3), torch.eye(4)), lambda: loss(torch.eye(3)[:0], torch.eye(3))):
        with pytest.raises(ValueError, match="x"):
            call()
    with pytest.raises(TypeError, match="dtype"):
        loss(torch.eye(3).long(), torch.eye(3))


def test_scaler_skips_the_step():
    """The trainer's loop of the guide: a NaN loss leaves the parameters as they are."""
    x = torch.nn.Parameter(points(8, 3, dtype=torch.float32))
    before = x.detach().clone()
    optimizer, scaler = torch.optim.SGD([x], lr=1.0), torch.amp.GradScaler("cpu")
    loss = UniformityLoss(seed=0, nan_on_invalid=True)
    scaler.scale(loss(x * torch.tensor([[torch.nan]] + 7 * [[1.0]]))).backward()
    scaler.step(optimizer)
    assert torch.equal(x.detach(), before)


def test_message_of_rows_rounded_to_half_precision():
    """Their length is 1 in four digits; the deviation says what is wrong."""
    x = np.asarray(points(50, 3).half().double())
    with pytest.raises(ValueError, match=r"has length (1 [+-] \d\.\de-0\d|0\.999\d|1\.00\d), but points must be unit"):
        sphereot.ssw_uniform(x)
    slightly = np.array([[1 + 2e-5, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"row 0 has length 1 \+ 2\.0e-05, but points must be unit vectors"):
        sphereot.ssw_uniform(slightly)


def test_masked_arrays():
    x = np.ma.masked_array(np.eye(3), mask=[[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    with pytest.raises(TypeError, match=r"x: masked arrays are not supported.*np\.ma\.compress_rows\(x\)"):
        sphereot.ssw_uniform(x)
    assert sphereot.ssw_uniform(np.ma.compress_rows(x), seed=0) > 0  # the advice works
