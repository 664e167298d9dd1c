"""Golden values: results for fixed input, to detect a change of a convention, a seed stream or a formula.

    python tests/golden_values.py            compare with golden_values.json
    python tests/golden_values.py --write    write golden_values.json again

Values agree to the tolerance of their precision on every machine. Files of stored formats have a test of their own
(`test_stored_formats.py`).
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

os.environ.setdefault("JAX_ENABLE_X64", "1")  # as in the tests

FILE = Path(__file__).with_suffix(".json")


def cloud(n: int, dim: int, seed: int, shift: float = 0.0, dtype: str = "float64") -> Any:
    """Unit vectors that lean toward the first axis."""
    points = np.random.default_rng(seed).normal(size=(n, dim))
    points[:, 0] += shift
    return (points / np.sqrt((points**2).sum(axis=1, keepdims=True))).astype(dtype)


def weights(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(0.1, 1.0, n)


def first(array: Any) -> float:
    """The first element of an array of any library."""
    return float(array.reshape(-1)[0].item())


# ---- NumPy ----


def distances(dtype: str) -> dict[str, float]:
    import sphereot

    few: dict[str, Any] = {"n_projections": 30, "seed": 0}
    x, y = cloud(60, 3, 1, dtype=dtype), cloud(45, 3, 2, 0.7, dtype)
    wide_x, wide_y = cloud(30, 128, 1, dtype=dtype), cloud(30, 128, 2, 0.7, dtype)
    a, b = weights(30, 3), weights(30, 4)
    samples = [cloud(50, 3, k, 0.3 * k, dtype) for k in range(3)]
    return {
        "ssw": float(sphereot.ssw(x, y, **few)),
        "ssw weighted": float(sphereot.ssw(wide_x, wide_y, p=1, x_weights=a, y_weights=b, **few)),
        "ssw_uniform weighted": float(sphereot.ssw_uniform(x, weights=weights(60, 3), root=True, **few)),
        "pairwise_ssw": float(sphereot.pairwise_ssw(samples, n_projections=20, seed=0).sum()),
        "ssw_estimate": sphereot.ssw_estimate(*samples[:2], seed=0, rtol=0.02).value,
    }


def slices() -> dict[str, float]:
    from sphereot import great_circles

    return {
        "quasi d=3": first(great_circles(12, 3, method="quasi", seed=0)),
        "quasi d=8": first(great_circles(12, 8, method="quasi", seed=0)),
        "orthogonal": first(great_circles(12, 8, method="orthogonal", seed=0)),
        "iid": first(great_circles(12, 8, method="iid", seed=0)),
    }


def circles() -> dict[str, float]:
    from sphereot import circle

    rng = np.random.default_rng(5)
    u, v = rng.uniform(size=(3, 12)), rng.uniform(size=(3, 9))
    a, b = weights(12, 6), weights(9, 7)
    return {
        "wasserstein_uniform": first(circle.wasserstein_uniform(u, p=2.5, weights=a)),
        "transport_plan cut": float(circle.transport_plan(u[0], v[0], u_weights=a, v_weights=b).cut),
    }


def geometry() -> dict[str, float]:
    from sphereot import radon, sphere

    x, y, points = cloud(10, 4, 1), cloud(10, 4, 2), cloud(10, 3, 9)
    lonlat = np.array([[10.0, 20.0], [-170.0, -45.0]])
    frame = np.eye(3)[:, :2]

    def bump(q: Any) -> Any:
        return np.exp(q[..., 0])

    dual = radon.dual_radon_transform(lambda t, frames: np.cos(t), points[:3], n_projections=20, seed=0)
    return {
        "random_uniform": first(sphere.random_uniform(5, 4, seed=0)),
        "parallel_transport": first(sphere.parallel_transport(x, y, sphere.to_tangent(x, y))),
        "frechet_mean": first(sphere.frechet_mean(cloud(30, 3, 8, 2.0))),
        "stereographic": first(sphere.stereographic(x)),
        "to_lonlat": first(sphere.to_lonlat(points)),
        "from_lonlat": first(sphere.from_lonlat(lonlat)),
        "radon_transform": first(radon.radon_transform(bump, frame[None], np.array([0.1, 0.6]))),
        "hemispherical_transform": first(radon.hemispherical_transform(bump, points[:3])),
        "dual_radon_transform": first(dual),
        "integration_set": float(radon.integration_set(frame, 0.25).weights[-1]),
    }


def statistics() -> dict[str, float]:
    from sphereot import density, stats

    x, y, z = cloud(40, 3, 1), cloud(35, 3, 2, 0.5), cloud(30, 3, 3)
    few: dict[str, Any] = {"n_projections": 20, "seed": 0}
    uniformity = stats.uniformity_test(y, simulations=99, **few)
    drift: Any = stats.drift_test(x, [y, z], permutations=199, **few).windows[1]
    kde = density.SphericalKDE().fit(x)
    return {
        "two_sample_test null": first(stats.two_sample_test(x, y, permutations=99, **few).null),
        "uniformity_test p_value": uniformity.p_value,
        "uniformity_test classical": uniformity.classical[-1].statistic,
        "uniformity_test exact p_value": stats.uniformity_test(y).p_value,
        "drift_test statistic": drift.test.statistic,
        "drift_test densities": first(drift.densities.window),
        "SphericalKDE bandwidth": float(kde.bandwidth_),
        "SphericalKDE sample": first(kde.sample(4, 0)),
    }


# ---- PyTorch ----


def torch_distances() -> dict[str, float]:
    import torch

    import sphereot
    from sphereot.torch import SSWLoss, UniformityLoss, euclidean

    few: dict[str, Any] = {"n_projections": 20, "seed": 0}
    double = torch.tensor(cloud(30, 20, 1)).requires_grad_()
    sphereot.ssw(double, torch.tensor(cloud(30, 20, 2, 0.7)), p=2.5, **few).backward()
    single = torch.tensor(cloud(40, 3, 1, dtype="float32")).requires_grad_()
    sphereot.ssw(single, torch.tensor(cloud(30, 3, 2, 0.7, "float32")), p=1, **few).backward()
    mass = torch.tensor(weights(40, 3)).requires_grad_()
    sphereot.ssw_uniform(torch.tensor(cloud(40, 3, 1)), weights=mass, **few).backward()
    x, y = torch.tensor(cloud(30, 8, 1, dtype="float32")), torch.tensor(cloud(30, 8, 2, 0.5, "float32"))
    pair, uniform = SSWLoss(**few), UniformityLoss(root=True, **few)
    return {
        "ssw gradient": float(double.grad.sum()),
        "ssw gradient float32": first(single.grad),
        "ssw_uniform weight gradient": first(mass.grad),
        "SSWLoss step 1": [float(pair(x, y)) for _ in range(2)][1],
        "UniformityLoss step 1": [float(uniform(x)) for _ in range(2)][1],
        "sliced_wasserstein": float(euclidean.sliced_wasserstein(x, y, 20, torch.Generator().manual_seed(0))),
    }


def torch_models() -> dict[str, float]:
    import torch

    from sphereot import distributions, flows

    points = torch.tensor(cloud(20, 3, 1))
    mean, concentration = torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64), torch.tensor(7.0, dtype=torch.float64)
    fisher, power = (
        kind(mean, concentration).sample((5,), seed=torch.Generator().manual_seed(0))
        for kind in (distributions.VonMisesFisher, distributions.PowerSpherical)
    )
    projected = distributions.projected_von_mises_fisher_density(
        np.array([0.1, 0.4]), mean.numpy(), 5.0, np.eye(3)[:, :2]
    )
    generator = torch.Generator().manual_seed(0)
    exponential = flows.ExponentialMapFlow(3, 3, 5, seed=generator, dtype=torch.float64)
    stereographic = flows.StereographicFlow(3, 3, seed=generator, dtype=torch.float64)
    return {
        "VonMisesFisher sample": first(fisher),
        "PowerSpherical sample": first(power),
        "projected_von_mises_fisher_density": first(projected),
        "ExponentialMapFlow log_prob": first(flows.Flow(exponential).log_prob(points)),
        "StereographicFlow log_prob": first(flows.Flow(stereographic).log_prob(points)),
    }


def torch_training() -> dict[str, float]:
    import torch

    from sphereot import optim, sampling
    from sphereot.density import FlowDensity

    x, y = cloud(60, 3, 1, 1.0), cloud(40, 3, 2)
    pole = torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64)

    def flow(optimizer: Literal["sgd", "adam"]) -> Any:
        return optim.gradient_flow(x, start=y, steps=10, n_projections=20, seed=0, optimizer=optimizer)

    def descend(kind: Any) -> Any:
        particles = torch.nn.Parameter(torch.tensor(y))
        steps = kind([particles], 0.1)
        for _ in range(3):
            steps.zero_grad()
            (particles @ pole).sum().backward()
            steps.step()
        return particles

    def potential(q: Any) -> Any:
        return -4.0 * q[..., 0]

    sampler = sampling.PowerSphericalSampler(pole, 3.0)
    fit = sampling.fit_sampler(potential, sampler, steps=5, n_particles=50, mcmc_steps=3, seed=0)
    chains = sampling.langevin(potential, torch.tensor(y), steps=5, step_size=0.01, metropolis=True, seed=0)
    exponential = FlowDensity("expmap", seed=0, n_blocks=2, n_components=4, epochs=20).fit(x)
    stereographic = FlowDensity("stereo", seed=0, n_blocks=2, epochs=20).fit(x)
    return {
        "density expmap score": exponential.score(y),
        "density stereo sample": first(stereographic.sample(4, 0)),
        "gradient_flow sgd loss": float(flow("sgd").losses[-1]),
        "gradient_flow adam particles": first(flow("adam").particles),
        "RiemannianSGD": first(descend(optim.RiemannianSGD)),
        "RiemannianAdam": first(descend(optim.RiemannianAdam)),
        "langevin": first(chains.points),
        "effective_sample_size": float(sampling.effective_sample_size(torch.tensor(y[:, 0]))),
        "fit_sampler losses": math.fsum(fit.losses),
    }


# ---- JAX ----


def jax_distances() -> dict[str, float]:
    import jax
    import jax.numpy as jnp

    import sphereot

    x, y = jnp.asarray(cloud(30, 3, 1, dtype="float32")), jnp.asarray(cloud(25, 3, 2, 0.7, "float32"))
    frames = jnp.asarray(sphereot.great_circles(20, 3, seed=0).astype("float32"))
    gradient = jax.grad(lambda q: sphereot.ssw(q, y, p=1, projections=frames))(x)
    return {
        "ssw": float(sphereot.ssw(x, y, p=2.5, projections=frames)),
        "ssw gradient": first(gradient),
        "ssw_uniform": float(jax.jit(lambda q: sphereot.ssw_uniform(q, projections=frames))(x)),
        "great_circles": first(sphereot.great_circles(5, 4, seed=jax.random.key(0), like=x)),
    }


# ---- the command line ----


def command_line() -> dict[str, float]:
    from typer.testing import CliRunner

    from sphereot.cli import build_app

    def run(*command: str) -> Any:
        result = CliRunner().invoke(build_app(), [*command, "--projections", "20", "--seed", "0", "--json"])
        return json.loads(result.stdout)

    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder, f"{k}.npy")) for k in range(3)]
        for k, name in enumerate(names):
            np.save(name, cloud(40 + 5 * k, 3, k, 0.4 * k))
        return {
            "distance": run("distance", *names[:2])["value"],
            "pairwise": float(np.sum(run("pairwise", *names)["values"])),
            "test": run("test", *names[:2], "--permutations", "99")["effect"],
            "uniformity": run("uniformity", names[0], "--simulations", "99")["ratio"],
            "drift": run("drift", *names, "--permutations", "199")["windows"][1]["ratio"],
        }


GROUPS: dict[str, Callable[[], dict[str, float]]] = {
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


def differences(group: str) -> list[str]:
    """The values of a group that are not those recorded, a line each."""
    before, now = json.loads(FILE.read_text(encoding="utf-8"))[group], GROUPS[group]()
    # A training amplifies differences of rounding between processors; elsewhere there are values in float32.
    rel_tol, abs_tol = (1e-3, 1e-5) if group == "torch training" else (1e-5, 1e-7)
    return [
        f"{name}: {before.get(name)} -> {now.get(name)}"
        for name in before | now
        if name not in before
        or name not in now
        or not math.isclose(now[name], before[name], rel_tol=rel_tol, abs_tol=abs_tol)
    ]


def main() -> None:
    """Write the values, or compare with those that were written."""
    if "--write" in sys.argv:
        values = {group: work() for group, work in GROUPS.items()}
        FILE.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        print(f"{sum(map(len, values.values()))} values written")
        return
    lines = [f"{group}: {line}" for group in GROUPS for line in differences(group)]
    print("\n".join(lines) or "all values are those recorded")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
