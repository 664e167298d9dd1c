"""Gradient flows: they arrive, they stop, they say when they diverge, and a saved one goes on as if never stopped."""

import math
from contextlib import contextmanager

import numpy as np
import pytest
from helpers.absent_modules import import_error
from helpers.generators import cloud

torch = pytest.importorskip("torch")

from helpers.unit_length import count_unit_length_checks
from numpy.testing import assert_allclose, assert_array_equal

import sphereot
from sphereot import DivergenceError, great_circles, sphere, ssw, ssw_uniform
from sphereot._support import checkpoints
from sphereot.optim import ParticleFlow, gradient_flow

MODES = np.concatenate([np.eye(3), -np.eye(3)])


def six_modes(n, seed):
    """Six clouds around the ends of the axes, about as wide as von Mises-Fisher distributions of concentration 10."""
    rng = np.random.default_rng(seed)
    return sphere.normalize(MODES[rng.integers(6, size=n)] + rng.normal(size=(n, 3)) / math.sqrt(10))


@pytest.mark.parametrize("retraction", ["exp", "normalize"])
def test_reaches_a_mixture_of_six_modes(retraction):
    """From five seeds: as close to a fresh sample, within a factor of 2, as two fresh samples are; no mode left out."""
    frames = great_circles(300, 3, method="quasi", seed=0)
    for seed in range(5):
        fresh = [six_modes(300, 10 * seed + k) for k in range(5)]
        result = gradient_flow(
            six_modes(3000, 100 + seed), n_particles=300, batch_size=300, steps=60, n_projections=100,
            retraction=retraction, seed=seed,
        )  # fmt: skip
        own = np.mean([ssw(result.particles, one, projections=frames) for one in fresh])
        between = np.mean([ssw(a, b, projections=frames) for i, a in enumerate(fresh) for b in fresh[:i]])
        assert own < 2 * between
        mass = np.bincount(np.argmax(result.particles @ MODES.T, axis=1), minlength=6) / 300
        assert mass.min() > 0.1
        assert mass.max() < 0.24


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("dim", [2, 3, 20])
def test_default_steps_serve_in_any_dimension(optimizer, dim):
    target = cloud(100, np.eye(dim)[0])
    result = gradient_flow(target, steps=150, n_projections=50, optimizer=optimizer, seed=1)
    assert result.losses[-10:].mean() < 0.1 * result.losses[0]


def test_becomes_more_uniform_than_chance():
    """Particles keep off each other: their distance to the uniform measure is far below that of independent points."""
    result = gradient_flow(
        "uniform", dim=3, n_particles=100, start=None, steps=150, n_projections=50, method="quasi", seed=0
    )
    frames = great_circles(300, 3, method="quasi", seed=9)
    chance = np.mean([ssw_uniform(sphere.random_uniform(100, 3, seed=k), projections=frames) for k in range(10)])
    assert ssw_uniform(result.particles, projections=frames) < 0.2 * chance
    assert_array_equal(
        gradient_flow(None, dim=3, steps=3, seed=0).losses, gradient_flow("uniform", dim=3, steps=3, seed=0).losses
    )


def test_barycenter_of_two_clouds_lies_between_them():
    """Copies turned about the pole by -40 and 40 degrees: it is turned to where turned copies are closest to both."""
    base = cloud(100, [1.0, 0.0, 0.0], spread=0.1)

    def turned(degrees):
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        return base @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])

    frames, angles, ends = (
        great_circles(200, 3, method="quasi", seed=0),
        np.linspace(-40, 40, 81),
        [turned(-40), turned(40)],
    )
    costs = np.array([[ssw(turned(angle), end, projections=frames) for end in ends] for angle in angles])
    for weights in (None, (3, 1)):
        result = gradient_flow(ends, weights=weights, start=turned(60), steps=150, n_projections=100, seed=0)
        mean = result.particles.mean(axis=0)
        expected = angles[np.argmin(costs @ (weights or (1, 1)))]
        assert math.degrees(math.atan2(mean[1], mean[0])) == pytest.approx(expected, abs=1.5)
    alone = gradient_flow(base, steps=5, start=turned(60), seed=0)
    weighted = gradient_flow([base, turned(40)], weights=[1, 0], steps=5, start=turned(60), seed=0)
    assert_allclose(weighted.losses, alone.losses, rtol=1e-12)


def test_gradient_has_no_mass_in_it():
    """Every particle and target point twice: the same path, so the step size does not depend on their number."""
    start, target = cloud(40, [0, 0, 1.0]), cloud(40, [1.0, 0, 0])
    once = gradient_flow(target, start=start, steps=20, n_projections=30, seed=0)
    twice = gradient_flow(np.repeat(target, 2, 0), start=np.repeat(start, 2, 0), steps=20, n_projections=30, seed=0)
    assert_allclose(twice.particles[::2], once.particles, atol=1e-9)


def test_first_step_is_the_papers():
    """x - step * gradient, normalized, with the gradient by finite differences of the distance itself."""
    start, target = cloud(6, [0, 0, 1.0]), cloud(6, [1.0, 0, 0])
    result = gradient_flow(target, start=start, steps=1, step_size=3.0, n_projections=4, retraction="normalize", seed=5)
    frames = great_circles(4, 3, seed=np.random.default_rng([5, 0]))
    gradient = np.zeros_like(start)
    for i in range(6):
        for tangent in np.linalg.svd(start[i : i + 1])[2][1:]:
            values = []
            for h in (1e-6, -1e-6):
                moved = start.copy()
                moved[i] = sphere.exp(start[i], h * tangent)
                values.append(ssw(moved, target, projections=frames))
            gradient[i] += (values[0] - values[1]) / 2e-6 * tangent
    assert_allclose(result.particles, sphere.normalize(start - 3.0 * 6 * gradient), atol=1e-6)


def test_kinds_and_dtypes_come_back():
    target = cloud(30, [1.0, 0, 0])
    for dtype in (np.float32, np.float64):
        result = gradient_flow(target.astype(dtype), n_particles=20, steps=3, seed=0, snapshots=[1])
        assert isinstance(result.particles, np.ndarray)
        assert result.particles.dtype == result.snapshots[1].dtype == dtype
        tensor = gradient_flow(torch.tensor(target.astype(dtype)), n_particles=20, steps=3, seed=0)
        assert isinstance(tensor.particles, torch.Tensor)
        assert not tensor.particles.requires_grad
        assert_array_equal(tensor.particles.numpy(), result.particles)
    frozen = target.copy()
    frozen.setflags(write=False)
    assert_array_equal(gradient_flow(frozen, start=frozen, steps=2, seed=0).particles.shape, (30, 3))
    assert gradient_flow(target.tolist(), n_particles=5, steps=1, seed=0).particles.shape == (5, 3)


def test_arrays_of_other_libraries_come_back():
    jnp = pytest.importorskip("jax.numpy")
    result = gradient_flow(jnp.asarray(cloud(30, [1.0, 0, 0]), dtype="float32"), steps=2, seed=0)
    assert type(result.particles).__module__.startswith("jax")


def test_inputs_are_left_alone():
    start, target = cloud(20, [0, 0, 1.0]), cloud(20, [1.0, 0, 0])
    tensors = torch.tensor(start), torch.tensor(target)
    state = torch.random.get_rng_state()
    gradient_flow(tensors[1], start=tensors[0], steps=3, seed=0)
    gradient_flow(target, start=start, steps=3, seed=0)
    assert_array_equal(tensors[0].numpy(), cloud(20, [0, 0, 1.0]))
    assert_array_equal(start, cloud(20, [0, 0, 1.0]))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_seeds():
    """One seed, one path; generators go on; None draws afresh."""
    target = cloud(30, [1.0, 0, 0])
    paths = {
        "int": [gradient_flow(target, steps=2, seed=3).losses for _ in range(2)],
        "numpy": [gradient_flow(target, steps=2, seed=np.random.default_rng(3)).losses for _ in range(2)],
        "torch": [
            gradient_flow(torch.tensor(target), steps=2, seed=torch.Generator().manual_seed(3)).losses for _ in range(2)
        ],
    }
    for first, second in paths.values():
        assert_array_equal(first, second)
    assert not np.array_equal(gradient_flow(target, steps=2).losses, gradient_flow(target, steps=2).losses)
    generator = np.random.default_rng(0)
    assert not np.array_equal(
        gradient_flow(target, steps=2, seed=generator).losses, gradient_flow(target, steps=2, seed=generator).losses
    )


def test_stops_on_its_tolerance():
    """A flow in batches cannot come to rest: it stops when the loss has settled; without a tolerance it goes on."""
    target = cloud(400, [1.0, 0, 0])
    options = {"n_particles": 50, "batch_size": 50, "n_projections": 30, "steps": 300, "seed": 0}
    settled = gradient_flow(target, tol=0.05, **options)
    assert settled.converged
    assert 100 <= settled.steps < 300
    last, before = settled.losses[-50:].mean(), settled.losses[-100:-50].mean()
    assert last >= 0.95 * before
    assert not gradient_flow(target, **options).converged


def test_snapshots_history_and_callback():
    target, seen = cloud(30, [1.0, 0, 0]), []

    def callback(steps, loss, particles):
        seen.append((steps, loss, particles))
        return steps == 4

    result = gradient_flow(target, steps=10, snapshots=(0, 2, 4, 9), callback=callback, seed=0)
    assert (result.steps, result.converged) == (4, False)
    assert [steps for steps, _, _ in seen] == [1, 2, 3, 4]
    assert_array_equal([loss for _, loss, _ in seen], result.losses)
    assert set(result.snapshots) == {0, 2, 4}
    assert_array_equal(result.snapshots[2], seen[1][2])
    assert_array_equal(result.snapshots[4], result.particles)
    assert_array_equal(result.snapshots[2], gradient_flow(target, steps=2, seed=0).particles)
    assert "after 4 steps" in str(result)


def test_step_sizes_may_fall():
    target = cloud(200, [1.0, 0, 0])
    options = {"n_particles": 50, "batch_size": 50, "n_projections": 30, "steps": 200, "seed": 0}
    frames = great_circles(200, 3, method="quasi", seed=1)
    ends = {
        name: ssw(gradient_flow(target, step_size=size, **options).particles, target, projections=frames)
        for name, size in {"constant": 15.0, "falling": lambda k: 15.0 / (1 + k / 10)}.items()
    }
    assert ends["falling"] < 0.7 * ends["constant"]


@pytest.mark.parametrize(
    ("optimizer", "retraction", "step_size"),
    [("sgd", "exp", 200.0), ("sgd", "normalize", 1e30), ("momentum", "exp", 100.0), ("adam", "normalize", 50.0)],
)
def test_an_exploding_step_names_its_size_and_keeps_the_last_good_state(optimizer, retraction, step_size):
    target = cloud(50, [1.0, 0, 0])
    options = {"n_projections": 30, "seed": 0, "optimizer": optimizer, "retraction": retraction, "step_size": step_size}
    with pytest.raises(DivergenceError, match=rf"step_size {step_size:g}".replace("+", r"\+")) as caught:
        gradient_flow(target, steps=200, **options)
    result = caught.value.result
    assert_allclose(np.linalg.norm(result.particles, axis=1), 1, atol=1e-12)
    assert_array_equal(result.particles, gradient_flow(target, steps=result.steps, **options).particles)


def test_a_loss_that_is_not_a_number_stops_the_flow(monkeypatch):
    from sphereot._backends.torch import backend

    calls = []
    mean_cost = backend.mean_cost

    def broken(measures, frames, p):
        calls.append(measures)
        return mean_cost(measures, frames, p) * (float("nan") if len(calls) == 4 else 1.0)

    monkeypatch.setattr(backend, "mean_cost", broken)
    with pytest.raises(DivergenceError, match=r"step 4 with step_size 10: the loss is nan") as caught:
        gradient_flow(cloud(20, [1.0, 0, 0]), steps=10, seed=0)
    assert caught.value.result.steps == 3
    assert np.isfinite(caught.value.result.particles).all()


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_a_saved_flow_goes_on_as_if_never_stopped(optimizer, tmp_path):
    start, target = (torch.tensor(cloud(30, center)) for center in ([0, 0, 1.0], [1.0, 0, 0]))
    options = {"optimizer": optimizer, "batch_size": 20, "n_projections": 20, "seed": 4}
    whole = ParticleFlow([target], start, **options)
    for k in range(12):
        if k == 7:
            torch.save(whole.state_dict(), tmp_path / "flow.pt")
        whole.step()
    again = ParticleFlow([target], start, **options)
    again.load_state_dict(torch.load(tmp_path / "flow.pt", weights_only=True))
    while len(again.losses) < 12:
        again.step()
    assert again.losses == whole.losses
    assert torch.equal(again.particles.detach(), whole.particles.detach())
    with pytest.raises(ValueError, match="same arguments"):
        ParticleFlow([target], start[:5], **options).load_state_dict(whole.state_dict())


def test_progress_bar_is_told_of_every_step(monkeypatch):
    told = []

    @contextmanager
    def bar(wanted, label, total, done):
        told.append((wanted, total))
        yield told.append

    monkeypatch.setattr(checkpoints, "progress_bar", bar)
    gradient_flow(cloud(20, [1.0, 0, 0]), steps=3, seed=0, progress=True)
    gradient_flow(cloud(20, [1.0, 0, 0]), steps=0, seed=0)
    assert told == [(True, 3), 1, 2, 3, (False, 0)]


def test_progress_may_be_a_function():
    shown = []
    gradient_flow(cloud(20, [1.0, 0, 0]), steps=3, seed=0, progress=lambda done, total: shown.append((done, total)))
    assert shown == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(TypeError, match=r"progress must be True.*got 'yes'"):
        gradient_flow(cloud(20, [1.0, 0, 0]), steps=3, progress="yes")


def test_zero_steps_are_the_start():
    start = cloud(20, [1.0, 0, 0])
    result = gradient_flow(cloud(10, [0, 1.0, 0]), start=start, steps=0)
    assert_array_equal(result.particles, start)
    assert result.steps == 0


TARGET = cloud(20, [1.0, 0, 0])


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"target": 3 * TARGET}, ValueError, "target: row 0 has length 3.*normalize"),
        ({"target": [TARGET, 3 * TARGET]}, ValueError, r"target\[1\]: row 0"),
        ({"target": "gauss"}, ValueError, "target must contain samples or be 'uniform', got 'gauss'"),
        ({"target": "uniform"}, ValueError, "dim must be given for the uniform distribution without start, got None"),
        ({"target": TARGET, "dim": 4}, ValueError, r"dim must be the dimension of target \(3\), got 4"),
        (
            {"target": TARGET, "start": TARGET, "n_particles": 7},
            ValueError,
            r"n_particles must match start, whose shape is \(20, 3\), got 7",
        ),
        ({"target": TARGET, "start": cloud(5, [1.0, 0])}, ValueError, "dimension"),
        ({"target": TARGET, "start": torch.tensor(TARGET)}, TypeError, "same library"),
        (
            {"target": [TARGET, TARGET], "weights": [1]},
            ValueError,
            r"weights must have one entry per target sample \(2\), got 1",
        ),
        (
            {"target": [TARGET, TARGET], "weights": [-1, 2]},
            ValueError,
            r"weights must be finite, at least 0, and not all zero, got \[-1\.0, 2\.0\]",
        ),
        ({"target": TARGET, "n_particles": 0}, ValueError, "n_particles"),
        ({"target": TARGET, "steps": -1}, ValueError, "steps"),
        ({"target": TARGET, "step_size": 0.0}, ValueError, r"step_size must be positive and finite, got 0\.0"),
        ({"target": TARGET, "step_size": math.nan}, ValueError, "step_size must be positive and finite, got nan"),
        (
            {"target": TARGET, "optimizer": "lbfgs"},
            ValueError,
            "optimizer must be one of 'sgd', 'momentum', 'adam', got 'lbfgs'",
        ),
        (
            {"target": TARGET, "retraction": "log"},
            ValueError,
            "retraction must be 'exp' or 'normalize', got 'log'",
        ),
        (
            {"target": TARGET, "method": "grid"},
            ValueError,
            "method must be one of 'iid', 'orthogonal', 'quasi', got 'grid'",
        ),
        ({"target": TARGET, "tol": 2.0}, ValueError, r"tol must be strictly between 0 and 1, got 2\.0"),
        ({"target": TARGET, "batch_size": 0}, ValueError, "batch_size"),
        ({"target": TARGET, "snapshots": [1.5]}, ValueError, "snapshots"),
        ({"target": TARGET, "n_projections": 0}, ValueError, "n_projections"),
        ({"target": TARGET, "p": 0.5}, ValueError, "p: .*, got 0.5"),
        ({"target": TARGET, "seed": -1}, ValueError, "seed: .*, got -1"),
        ({"target": TARGET, "seed": "a"}, TypeError, "seed: .*, got str"),
    ],
)
def test_bad_input_is_named(arguments, error, said):
    with pytest.raises(error, match=said):
        gradient_flow(**arguments)


def test_top_name_needs_torch_only_when_called():
    assert "pip install 'sphereot[torch]'" in import_error("sphereot.gradient_flow(np.eye(3))", absent="torch")
    assert sphereot.gradient_flow is gradient_flow


def test_every_array_is_checked_once(monkeypatch):
    """Not again in each of the steps."""
    start, target = cloud(12, [0, 0, 1.0]), cloud(10, [1.0, 0, 0])
    checks = count_unit_length_checks(monkeypatch)
    gradient_flow(target, start=start, steps=50, n_projections=50, seed=0)
    assert checks == {start.shape: 1, target.shape: 1}


def test_tables_are_samples():
    """A sample in a table moves particles as the same sample in an array does."""
    pl = pytest.importorskip("polars")
    sample = sphereot.sphere.random_uniform(20, 3, seed=0)
    table = pl.DataFrame(sample, schema=["x", "y", "z"])
    options = {"steps": 3, "n_projections": 10, "seed": 1}
    found = sphereot.gradient_flow(table, **options)
    np.testing.assert_array_equal(found.particles, sphereot.gradient_flow(sample, **options).particles)
