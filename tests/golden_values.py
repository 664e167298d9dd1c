"""Golden values: results of every public function for fixed input, to detect any change of a value.

    python tests/golden_values.py            compare with golden_values.json
    python tests/golden_values.py --write    write golden_values.json anew

Values agree to the tolerance of their precision on every machine. Files of stored formats have a test of their own
(`test_stored_formats.py`).
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("JAX_ENABLE_X64", "1")  # as in the tests

FILE = Path(__file__).with_suffix(".json")

Value = tuple[str, float]


def cloud(n: int, dim: int, seed: int, shift: float = 0.0, dtype: str = "float64") -> Any:
    """Unit vectors that lean toward the first axis."""
    points = np.random.default_rng(seed).normal(size=(n, dim))
    points[:, 0] += shift
    return (points / np.sqrt((points**2).sum(axis=1, keepdims=True))).astype(dtype)


def weights(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(0.1, 1.0, n)


def digest(name: str, value: Any) -> Iterator[Value]:
    """A number itself; of an array the correctly rounded sum, and its first and last element."""
    if hasattr(value, "detach"):
        value = value.detach()
    array = np.asarray(value, dtype=np.float64).ravel()
    if array.size == 1:
        yield name, float(array[0])
        return
    yield f"{name} sum", math.fsum(array)
    yield f"{name} first", float(array[0])
    yield f"{name} last", float(array[-1])


# ---- NumPy ----


def distances(dtype: str) -> Iterator[Value]:
    import sphereot

    for dim, n, m in ((2, 30, 30), (3, 60, 60), (3, 60, 45), (16, 40, 50), (128, 30, 30)):
        x, y = cloud(n, dim, 1, dtype=dtype), cloud(m, dim, 2, 0.7, dtype)
        name = f"{dtype} d={dim} {n},{m}"
        for p in (1, 1.5, 2, 3):
            yield f"ssw {name} p={p}", float(sphereot.ssw(x, y, p=p, n_projections=30, seed=0))
        a, b = weights(n, 3), weights(m, 4)
        for p in (1, 2):
            weighted = sphereot.ssw(x, y, p=p, x_weights=a, y_weights=b, n_projections=30, seed=0)
            yield f"ssw weighted {name} p={p}", float(weighted)
            yield f"ssw_uniform {name} p={p}", float(sphereot.ssw_uniform(x, p=p, n_projections=30, seed=0))
        uniform = sphereot.ssw_uniform(x, weights=a, n_projections=30, seed=0, root=True)
        yield f"ssw_uniform weighted {name}", float(uniform)
    x, y, z = (cloud(50, 3, k, 0.3 * k, dtype) for k in range(3))
    yield from digest(f"pairwise_ssw {dtype}", sphereot.pairwise_ssw([x, y, z], n_projections=20, seed=0))
    estimate = sphereot.ssw_estimate(x, y, seed=0, n_projections=50)
    yield f"ssw_estimate {dtype}", estimate.value
    yield f"ssw_estimate error {dtype}", estimate.standard_error
    yield f"ssw_estimate rtol {dtype}", sphereot.ssw_estimate(x, y, seed=0, rtol=0.02).value


def slices() -> Iterator[Value]:
    import sphereot

    for dim in (3, 8):
        for method in ("iid", "orthogonal", "quasi"):
            frames = sphereot.great_circles(12, dim, method=method, seed=0)
            yield from digest(f"great_circles d={dim} {method}", frames)
            yield from digest(f"project d={dim} {method}", sphereot.project(cloud(20, dim, 1), frames))


def circles() -> Iterator[Value]:
    from sphereot import circle

    rng = np.random.default_rng(5)
    u, v = rng.uniform(size=(3, 12)), rng.uniform(size=(3, 9))
    a, b = weights(12, 6), weights(9, 7)
    for p in (1, 2, 2.5):
        yield from digest(f"circle.wasserstein p={p}", circle.wasserstein(u, v, p=p))
        yield from digest(f"circle.wasserstein_uniform p={p}", circle.wasserstein_uniform(u, p=p, weights=a))
    yield from digest("circle.wasserstein weighted", circle.wasserstein(u, v, u_weights=a, v_weights=b))
    plan = circle.transport_plan(u[0], v[0], u_weights=a, v_weights=b)
    yield from digest("circle.transport_plan mass", plan.mass)
    yield "circle.transport_plan cost", float(plan.cost)
    yield "circle.transport_plan cut", float(plan.cut)


def geometry() -> Iterator[Value]:
    from sphereot import radon, sphere

    x, y = cloud(10, 4, 1), cloud(10, 4, 2)
    v = sphere.to_tangent(x, y)
    yield from digest("sphere.to_tangent", v)
    yield from digest("sphere.exp", sphere.exp(x, v))
    yield from digest("sphere.log", sphere.log(x, y))
    yield from digest("sphere.geodesic_distance", sphere.geodesic_distance(x, y))
    yield from digest("sphere.parallel_transport", sphere.parallel_transport(x, y, v))
    yield from digest("sphere.frechet_mean", sphere.frechet_mean(cloud(30, 3, 8, 2.0)))
    yield from digest("sphere.normalize", sphere.normalize(3 * x + 0.1))
    yield from digest("sphere.random_uniform", sphere.random_uniform(5, 4, seed=0))
    yield from digest("sphere.stereographic", sphere.stereographic(x))
    yield from digest("sphere.inverse_stereographic", sphere.inverse_stereographic(y[:, :3]))
    points = cloud(10, 3, 9)
    yield from digest("sphere.to_lonlat", sphere.to_lonlat(points))
    yield from digest("sphere.from_lonlat", sphere.from_lonlat(np.array([[10.0, 20.0], [-170.0, -45.0]])))
    theta, phi = sphere.to_spherical(points)
    yield from digest("sphere.from_spherical", sphere.from_spherical(theta, phi))
    frame = np.eye(3)[:, :2]

    def bump(q: Any) -> Any:
        return np.exp(q[..., 0])

    turns = np.array([0.1, 0.6])
    yield from digest("radon_transform", radon.radon_transform(bump, frame[None], turns))
    yield from digest("hemispherical_transform", radon.hemispherical_transform(bump, points[:3]))
    dual = radon.dual_radon_transform(lambda t, frames: np.cos(t), points[:3], n_projections=20, seed=0)
    yield from digest("dual_radon_transform", dual)
    yield from digest("integration_set", radon.integration_set(frame, 0.25).weights)


def statistics() -> Iterator[Value]:
    from sphereot import density, stats

    x, y = cloud(40, 3, 1), cloud(35, 3, 2, 0.5)
    test = stats.two_sample_test(x, y, permutations=99, n_projections=20, seed=0)
    yield "two_sample_test statistic", test.statistic
    yield "two_sample_test p_value", test.p_value
    yield from digest("two_sample_test null", test.null)
    uniformity = stats.uniformity_test(y, simulations=99, n_projections=20, seed=0)
    yield "uniformity_test statistic", uniformity.statistic
    yield "uniformity_test p_value", uniformity.p_value
    yield from digest("uniformity_test classical", [test.statistic for test in uniformity.classical])
    exact = stats.uniformity_test(y)
    yield "uniformity_test exact statistic", exact.statistic
    yield "uniformity_test exact p_value", exact.p_value
    yield from digest("uniformity_test exact classical p_values", [test.p_value for test in exact.classical])
    drift = stats.drift_test(x, [y, cloud(30, 3, 3)], permutations=199, n_projections=20, seed=0)
    for k, window in enumerate(drift.windows):
        yield f"drift_test window {k} statistic", window.test.statistic
        yield from digest(f"drift_test window {k} densities", window.densities.window)
    kde = density.SphericalKDE().fit(x)
    yield "SphericalKDE bandwidth", float(kde.bandwidth_)
    yield from digest("SphericalKDE log_density", kde.log_density(y))
    yield from digest("SphericalKDE sample", kde.sample(4, 0))


# ---- PyTorch ----


def torch_distances() -> Iterator[Value]:
    import torch

    import sphereot
    from sphereot.torch import SSWLoss, UniformityLoss, euclidean

    for dtype in (torch.float32, torch.float64):
        for dim, n, m in ((3, 40, 40), (3, 40, 30), (20, 30, 30)):
            name = f"torch {str(dtype)[6:]} d={dim} {n},{m}"
            x, y = (torch.tensor(cloud(k, dim, s, t)).to(dtype) for k, s, t in ((n, 1, 0.0), (m, 2, 0.7)))
            a = torch.tensor(weights(n, 3)).to(dtype)
            for p in (1, 2, 2.5):
                leaf = x.clone().requires_grad_()
                value = sphereot.ssw(leaf, y, p=p, n_projections=20, seed=0)
                value.backward()
                yield f"{name} ssw p={p}", float(value.detach())
                yield from digest(f"{name} ssw gradient p={p}", leaf.grad)
            leaf, mass = x.clone().requires_grad_(), a.clone().requires_grad_()
            value = sphereot.ssw_uniform(leaf, weights=mass, n_projections=20, seed=0)
            value.backward()
            yield f"{name} ssw_uniform", float(value.detach())
            yield from digest(f"{name} ssw_uniform gradient", leaf.grad)
            yield from digest(f"{name} ssw_uniform weight gradient", mass.grad)
    x = torch.tensor(cloud(30, 8, 1, dtype="float32"))
    y = torch.tensor(cloud(30, 8, 2, 0.5, "float32"))
    pair, uniform = SSWLoss(seed=0, n_projections=20), UniformityLoss(seed=0, n_projections=20, root=True)
    for step in range(2):
        yield f"SSWLoss step {step}", float(pair(x, y))
        yield f"UniformityLoss step {step}", float(uniform(x))
    generator = torch.Generator().manual_seed(0)
    yield "sliced_wasserstein", float(euclidean.sliced_wasserstein(x, y, 20, generator))


def torch_models() -> Iterator[Value]:
    import torch

    from sphereot import distributions, flows

    points = torch.tensor(cloud(20, 3, 1))
    mean = torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64)
    for kind in (distributions.VonMisesFisher, distributions.PowerSpherical):
        distribution = kind(mean, torch.tensor(7.0, dtype=torch.float64))
        yield from digest(f"{kind.__name__} log_prob", distribution.log_prob(points))
        yield f"{kind.__name__} entropy", float(distribution.entropy())
        yield from digest(f"{kind.__name__} mean", distribution.mean)
        generator = torch.Generator().manual_seed(0)
        yield from digest(f"{kind.__name__} sample", distribution.sample((5,), seed=generator))
    uniform = distributions.HypersphericalUniform(3)
    yield "HypersphericalUniform log_prob", float(uniform.log_prob(points[0].float()))
    frame = np.eye(3)[:, :2]
    projected = distributions.projected_von_mises_fisher_density(np.array([0.1, 0.4]), mean.numpy(), 5.0, frame)
    yield from digest("projected_von_mises_fisher_density", projected)
    generator = torch.Generator().manual_seed(0)
    for transform in (
        flows.ExponentialMapFlow(3, 3, 5, seed=generator, dtype=torch.float64),
        flows.StereographicFlow(3, 3, seed=generator, dtype=torch.float64),
    ):
        name = type(transform).__name__
        yield from digest(f"{name} log_prob", flows.Flow(transform).log_prob(points))
        yield from digest(f"{name} transform", transform(points))


def torch_training() -> Iterator[Value]:
    import torch

    from sphereot import optim, sampling
    from sphereot.density import FlowDensity, SphericalKDE
    from sphereot.optim import gradient_flow

    x, y = cloud(60, 3, 1, 1.0), cloud(40, 3, 2)
    options = {"expmap": {"n_blocks": 2, "n_components": 4, "epochs": 20}, "stereo": {"n_blocks": 2, "epochs": 20}}
    for model in ("expmap", "stereo", "kde"):
        estimator = SphericalKDE() if model == "kde" else FlowDensity(model, seed=0, **options[model])
        estimator.fit(x)
        yield f"density {model} score", estimator.score(y)
        yield from digest(f"density {model} sample", estimator.sample(4, 0))
    for optimizer in ("sgd", "adam"):
        result = gradient_flow(x, start=y, steps=10, n_projections=20, seed=0, optimizer=optimizer)
        yield from digest(f"flow {optimizer} particles", result.particles)
        yield from digest(f"flow {optimizer} losses", result.losses)
    for kind in (optim.RiemannianSGD, optim.RiemannianAdam):
        particles = torch.nn.Parameter(torch.tensor(y))
        steps = kind([particles], 0.1)
        for _ in range(3):
            steps.zero_grad()
            (particles @ torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64)).sum().backward()
            steps.step()
        yield from digest(kind.__name__, particles)

    def potential(q: Any) -> Any:
        return -4.0 * q[..., 0]

    chains = sampling.langevin(potential, torch.tensor(y), steps=5, step_size=0.01, metropolis=True, seed=0)
    yield from digest("langevin", chains.points)
    yield "effective_sample_size", float(sampling.effective_sample_size(torch.tensor(y[:, 0])))
    sampler = sampling.PowerSphericalSampler(torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64), 3.0)
    fit = sampling.fit_sampler(potential, sampler, steps=5, n_particles=50, mcmc_steps=3, seed=0)
    yield from digest("fit_sampler losses", fit.losses)


# ---- JAX ----


def jax_distances() -> Iterator[Value]:
    import jax
    import jax.numpy as jnp

    import sphereot

    x, y = jnp.asarray(cloud(30, 3, 1, dtype="float32")), jnp.asarray(cloud(25, 3, 2, 0.7, "float32"))
    frames = jnp.asarray(sphereot.great_circles(20, 3, seed=0).astype("float32"))
    for p in (1, 2, 2.5):
        yield f"jax ssw p={p}", float(sphereot.ssw(x, y, p=p, projections=frames))
        gradient = jax.grad(lambda q, p=p: sphereot.ssw(q, y, p=p, projections=frames))(x)
        yield from digest(f"jax ssw gradient p={p}", gradient)
    yield "jax ssw_uniform", float(jax.jit(lambda q: sphereot.ssw_uniform(q, projections=frames))(x))
    yield from digest("jax great_circles", sphereot.great_circles(5, 4, seed=jax.random.key(0), like=x))


# ---- the command line ----


def command_line() -> Iterator[Value]:
    from typer.testing import CliRunner

    from sphereot.cli import build_app

    with tempfile.TemporaryDirectory() as folder:
        names = []
        for k in range(3):
            names.append(str(Path(folder, f"{k}.npy")))
            np.save(names[-1], cloud(40 + 5 * k, 3, k, 0.4 * k))
        few = ["--projections", "20", "--seed", "0", "--json"]
        for command in (
            ["distance", *names[:2], *few],
            ["pairwise", *names, *few],
            ["test", *names[:2], "--permutations", "99", *few, "--frames"],
            ["uniformity", names[0], "--simulations", "99", *few],
        ):
            output = CliRunner().invoke(build_app(), command)
            if output.exit_code != 0:
                raise RuntimeError(f"{command}: {output.output}")
            yield from numbers(f"sphereot {command[0]}", json.loads(output.stdout))
        output = CliRunner().invoke(build_app(), ["drift", *names, "--permutations", "199", *few])
        for k, window in enumerate(json.loads(output.stdout)["windows"]):
            yield from numbers(f"sphereot drift {k}", {n: window[n] for n in ("statistic", "ratio") if n in window})


def numbers(name: str, record: Any) -> Iterator[Value]:
    """Every floating-point number of a JSON record, by its path; long lists by their digest."""
    if isinstance(record, dict):
        for key, value in record.items():
            yield from numbers(f"{name} {key}", value)
    elif isinstance(record, list) and record and not isinstance(record[0], dict | str):
        yield from digest(name, record)
    elif isinstance(record, list) and record and isinstance(record[0], dict):
        yield from numbers(f"{name} 0", record[0])
    elif isinstance(record, float):
        yield name, record


GROUPS: dict[str, Any] = {
    "distances float64": lambda: distances("float64"),
    "distances float32": lambda: distances("float32"),
    "slices": slices,
    "circles": circles,
    "geometry": geometry,
    "statistics": statistics,
    "torch distances": torch_distances,
    "torch models": torch_models,
    "torch training": torch_training,
    "jax": jax_distances,
    "command line": command_line,
}


def recorded() -> dict[str, Any]:
    """The recorded values by group."""
    values: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return values


def differences(group: str) -> list[str]:
    """The values of a group that are not those recorded, a line each."""
    before, now = recorded()[group], dict(GROUPS[group]())
    lines = [f"{name}: recorded, but not computed" for name in before if name not in now]
    # A training amplifies differences of rounding between processors; elsewhere there are values in float32.
    rel_tol, abs_tol = (1e-3, 1e-5) if group == "torch training" else (1e-5, 1e-7)
    for name, value in now.items():
        old = before.get(name)
        same = old is not None and math.isclose(value, old, rel_tol=rel_tol, abs_tol=abs_tol)
        if not same and not (old is not None and math.isnan(old) and math.isnan(value)):
            lines.append(f"{name}: {old!r} -> {value!r}")
    return lines


def main() -> None:
    """Write the values, or compare with those that were written."""
    if "--write" in sys.argv:
        values = {group: dict(work()) for group, work in GROUPS.items()}
        FILE.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        print(f"{sum(map(len, values.values()))} values written")
        return
    lines = [f"{group}: {line}" for group in GROUPS for line in differences(group)]
    print("\n".join(lines) or f"{sum(map(len, recorded().values()))} values, all equal")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
