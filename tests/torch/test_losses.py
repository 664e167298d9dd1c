"""PyTorch: the loss modules, their slices and their state."""

import copy
import inspect
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import start
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from helpers.tensors import points, weights

import sphereot
from sphereot._arrays.random import seed_of_draw
from sphereot.torch import SSWLoss, UniformityLoss, array_api_backend

ORDERS = [1, 1.5, 2, 3]
normalize = torch.nn.functional.normalize


def test_ssw_loss_is_ssw():
    x, y = points(20, 3, grad=True), points(15, 3, shift=1)
    loss = SSWLoss(p=1.5, n_projections=30, seed=4)
    assert_allclose(loss(x, y).detach(), sphereot.ssw(x.detach(), y, p=1.5, n_projections=30, seed=4))
    second = loss(x, y).detach()
    assert_allclose(second, sphereot.ssw(x.detach(), y, p=1.5, n_projections=30, seed=seed_of_draw(4, 1)))
    assert second != SSWLoss(p=1.5, n_projections=30, seed=5)(x, y)  # streams of neighboring seeds do not overlap
    rooted = SSWLoss(n_projections=30, seed=4, root=True)
    assert_allclose(rooted(x, y).detach(), sphereot.ssw(x.detach(), y, n_projections=30, seed=4, root=True))
    a = weights(20)
    uniform = UniformityLoss(n_projections=30, seed=4, method="quasi")
    frames = sphereot.great_circles(30, 3, method="quasi", seed=4)
    assert_allclose(
        uniform(x, a).detach(), sphereot.ssw_uniform(x.detach().numpy(), projections=frames, weights=a.numpy())
    )


def test_fresh_and_fixed_slices():
    x = points(20, 3)
    fresh, fixed = UniformityLoss(), UniformityLoss(fixed=True)
    assert fresh(x) != fresh(x)
    assert fixed(x) == fixed(x)
    assert "frames" not in fresh.state_dict()
    with pytest.raises(ValueError, match="x must have dimension 3, as the fixed great circles of the loss, got 4"):
        fixed(points(20, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("way", ["kernel", "portable", "vmap"])
def test_mean_over_fresh_slices_is_unbiased(dtype, d, way):
    """Without a seed the kernel may draw the circles itself: the mean over calls is that over many seeded circles."""
    x = points(25, d, shift=1).to(dtype)
    loss = UniformityLoss(n_projections=40)

    def value():
        if way == "vmap":
            return torch.func.vmap(loss, randomness="same")(x[None])[0]
        with array_api_backend(force=way == "portable"):
            return loss(x)

    losses = np.array([float(value()) for _ in range(60)])
    seeded = sphereot.ssw_uniform(normalize(x.double()), n_projections=100_000, seed=0)
    error = np.hypot(losses.std(ddof=1) / np.sqrt(60), losses.std(ddof=1) * np.sqrt(40 / 100_000))
    # Five standard errors, and what the points themselves are rounded by.
    assert abs(losses.mean() - seeded) < 5 * error + 4 * float(seeded) * torch.finfo(dtype).eps
    assert len(np.unique(losses)) == 60


def test_members_of_a_batch_share_their_slices():
    x = points(10, 20, dtype=torch.float32).requires_grad_()
    each = UniformityLoss(reduction="none")(torch.stack([x, x]))
    assert each[0] == each[1]
    each.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_state_is_saved_loaded_and_copied(tmp_path):
    """This holds for fixed slices, and for the number of draws from a seed."""
    x = points(20, 3)
    fixed, streamed = UniformityLoss(fixed=True), UniformityLoss(seed=1)
    fixed(x), streamed(x)
    for loss, fresh in ((fixed, UniformityLoss(fixed=True)), (streamed, UniformityLoss(seed=1))):
        torch.save(loss.state_dict(), tmp_path / "loss.pt")
        fresh.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
        copied = copy.deepcopy(loss)
        expected = loss(x)
        assert fresh(x) == expected
        assert copied(x) == expected


def test_state_in_files(tmp_path):
    """The state has tensors only, so that safetensors accepts it; a loss without a seed has none."""
    safetensors = pytest.importorskip("safetensors.torch")
    x = points(20, 3)
    model = torch.nn.ModuleDict({"loss": UniformityLoss(seed=1), "fresh": UniformityLoss()})
    model["loss"](x)
    assert list(model.state_dict()) == ["loss.draws"]
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = UniformityLoss(seed=1)
    other.load_state_dict({"draws": safetensors.load_file(tmp_path / "model.safetensors")["loss.draws"]})
    assert other(x) == model["loss"](x)
    other.load_state_dict({})  # from before the loss was part of the model
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({"something": torch.zeros(1)})


def test_fixed_slices_load_where_they_fit():
    x = points(20, 3)
    used, fresh = UniformityLoss(fixed=True), UniformityLoss(fixed=True)
    before = fresh.state_dict()
    used(x)
    with pytest.raises(RuntimeError, match="frames: the state has 200 great circles, the loss 50"):
        UniformityLoss(n_projections=50, fixed=True).load_state_dict(used.state_dict())
    used.load_state_dict(before)
    assert used.frames is None


def test_seeded_slices_compiled():
    """The number of draws is not part of a compiled graph: it is compiled once, and continues the same stream."""
    x, y = points(20, 3), points(15, 3, shift=1)
    loss, plain = SSWLoss(seed=3, n_projections=5), SSWLoss(seed=3, n_projections=5)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for _ in range(12):
        assert_allclose(compiled(x, y), plain(x, y), rtol=1e-12)
    assert loss(x, y) == plain(x, y)


def test_reductions():
    x, y = (torch.stack([points(8, 3, seed=s, shift=k) for s in range(3)]) for k in (0, 1))
    each = SSWLoss(seed=0, reduction="none")(x, y)
    assert each.shape == (3,)
    assert_allclose(each[1], sphereot.ssw(x[1], y[1], seed=0))
    assert_allclose(SSWLoss(seed=0)(x, y), each.mean())
    assert_allclose(SSWLoss(seed=0, reduction="sum")(x, y), each.sum())
    assert SSWLoss(seed=0, reduction="none")(x[0], y[0]).shape == ()
    assert UniformityLoss(seed=0, reduction="none")(x, weights(8)).shape == (3,)


def test_repr_shows_the_options():
    assert repr(SSWLoss(p=1)) == "SSWLoss(p=1, n_projections=200, method='iid')"
    assert "normalize=True" in repr(UniformityLoss(normalize=True))


def test_unnormalized_input():
    x = 3 * points(10, 3)
    message = r"row 0 has length 3, .*sphereot\.sphere\.normalize.*, or give the loss normalize=True"
    with pytest.raises(ValueError, match="x: " + message):
        UniformityLoss()(x)
    with pytest.raises(ValueError, match="y: " + message):
        SSWLoss()(x / 3, x)
    assert_allclose(UniformityLoss(normalize=True, seed=0)(x), UniformityLoss(seed=0)(x / 3), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SSWLoss(n_projection=50), TypeError, "unexpected keyword argument 'n_projection'"),
        (lambda: SSWLoss(p=0.5), ValueError, "p: .*, got 0.5"),
        (lambda: SSWLoss(n_projections=0), ValueError, "n_projections: .*, got 0"),
        (lambda: SSWLoss(method="sobol"), ValueError, "method must be one of .*, got 'sobol'"),
        (lambda: SSWLoss(reduction="max"), ValueError, "reduction must be one of 'mean', 'sum', 'none', got 'max'"),
        (lambda: SSWLoss(block_size=0), ValueError, "block_size: .*, got 0"),
        (lambda: array_api_backend(block_size=-1).__enter__(), ValueError, "block_size: .*, got -1"),
        (
            lambda: UniformityLoss()(torch.ones(0, 5, 3)),
            ValueError,
            r"x must have at least one sample, got a batch of shape \(0, 5, 3\)",
        ),
        (
            lambda: UniformityLoss()(torch.ones(5, 1)),
            ValueError,
            "x must have points with at least 2 coordinates, got 1",
        ),
        (
            lambda: UniformityLoss(normalize=True)(torch.ones(2, 5, 3), torch.ones(3, 5)),
            ValueError,
            r"weights must have shape \(5,\) or \(2, 5\) for points \(2, 5, 3\), got \(3, 5\)",
        ),
        (
            lambda: SSWLoss(normalize=True)(torch.ones(5, 3), torch.ones(4, 3), None, torch.tensor(1.0)),
            ValueError,
            r"y_weights must have shape \(4,\) for points \(4, 3\), got \(\)",
        ),
        (
            lambda: SSWLoss(normalize=True)(torch.ones(5, 3), torch.ones(4, 3), [1.0] * 5),
            TypeError,
            r"x_weights must be a torch tensor of shape \(n,\) or \(B, n\), got list",
        ),
        (
            lambda: UniformityLoss()(np.eye(3)),
            TypeError,
            r"x must be a torch tensor of shape \(n, d\) or \(B, n, d\), got ndarray",
        ),
        (
            lambda: UniformityLoss()(torch.ones(3)),
            ValueError,
            r"x must have shape \(n, d\), or \(B, n, d\) for a batch, got \(3,\)",
        ),
        (
            lambda: UniformityLoss()(torch.eye(3, dtype=torch.int64)),
            TypeError,
            r"x must have a floating dtype, got torch\.int64",
        ),
        (lambda: SSWLoss()(torch.eye(3), torch.eye(3)[None]), ValueError, "same batch dimension"),
        (lambda: SSWLoss()(torch.eye(3), torch.eye(3).to("meta")), TypeError, "y is on the meta device"),
        (lambda: UniformityLoss()(torch.eye(3).to("meta")), TypeError, "x is on the meta device"),
    ],
)
def test_errors_of_modules(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_two_processes_equal_one():
    """Each rank holds half the batch; value and gradients are those of one process with all of it. Nothing warns.

    Batches that differ between the ranks get the same message on both, instead of an end of the process.
    """
    script = Path(__file__).parent / "two_ranks.py"
    root, others = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")
    done = start(
        sys.executable,
        *("-W", "error", script),
        env=os.environ | {"PYTHONPATH": os.pathsep.join([root, *([others] if others else [])])},
    )
    assert done.returncode == 0, done.stderr
    assert "ranks agree" in done.stdout
    assert "Warning" not in done.stderr


def test_fixed_slices_keep_their_precision_in_a_half_model():
    """Frames rounded to bfloat16 are off orthonormal by a percent; moving a model to half must not do that to them."""
    x = torch.nn.functional.normalize(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)))
    loss = UniformityLoss(seed=0, fixed=True)
    before = loss(x)
    loss.bfloat16()
    assert loss(x) == before


def test_fixed_state_loads_into_a_loss_of_fresh_slices():
    x = torch.nn.functional.normalize(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)))
    fixed = UniformityLoss(seed=0, fixed=True)
    fixed(x)
    state = fixed.state_dict()
    UniformityLoss(seed=0).load_state_dict(state)
    assert "frames" in state


@pytest.mark.parametrize("seed", [torch.Generator(), -1, 0.5])
def test_seed_of_a_loss_must_be_an_integer(seed):
    with pytest.raises(ValueError, match="seed"):
        UniformityLoss(seed=seed)


def test_options_are_shown_in_the_signature():
    assert list(inspect.signature(SSWLoss).parameters)[:3] == ["p", "n_projections", "method"]
