"""Langevin chains against exact distributions, effective sample sizes, and variational inference with SSW."""

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ot = pytest.importorskip("ot")
stats = pytest.importorskip("scipy.stats")
integrate = pytest.importorskip("scipy.integrate")
pytest.importorskip("matplotlib")

from sphereot import DivergenceError, sphere
from sphereot._support.checkpoints import StateFile
from sphereot.distributions import HypersphericalUniform, PowerSpherical, VonMisesFisher
from sphereot.sampling import (
    NetworkSampler,
    PowerSphericalSampler,
    effective_sample_size,
    fit_sampler,
    langevin,
)

KAPPA = 5.0


def vmf_potential(x):
    """Of a von Mises-Fisher distribution around the first axis."""
    return -KAPPA * x[..., 0]


def height_cdf(t):
    """Of the height of that distribution on S^2, where it is a truncated exponential."""
    return np.expm1(KAPPA * (np.asarray(t) + 1)) / np.expm1(2 * KAPPA)


def uniform(n, dim=3, seed=0):
    return sphere.random_uniform(n, dim, seed=seed, like=torch.empty(0, dtype=torch.float64))


# ---- Langevin ----


@pytest.mark.parametrize(("step_size", "steps"), [(0.05, 80), (0.2, 60), (0.5, 120)])
def test_corrected_langevin_is_exact(step_size, steps):
    """20,000 independent chains pass a Kolmogorov-Smirnov test, also where plain Langevin would be far off."""
    chains = langevin(vmf_potential, uniform(20_000), steps=steps, step_size=step_size, metropolis=True, seed=1)
    assert stats.kstest(chains.points[:, 0].numpy(), height_cdf).pvalue > 1e-3
    around = torch.atan2(chains.points[:, 2], chains.points[:, 1]) / (2 * math.pi) + 0.5
    assert stats.kstest(around.numpy(), "uniform").pvalue > 1e-3
    assert chains.acceptance.shape == (20_000,)


def test_correction_leaves_the_target_as_it_is():
    """Chains that start in the target stay in it, in d = 5 and with two modes, one long step after another."""
    distribution = VonMisesFisher(torch.eye(5, dtype=torch.float64)[0], 6.0)
    generator = torch.Generator().manual_seed(2)
    start = distribution.sample((20_000,), seed=generator)
    sign = torch.rand(20_000, 1, generator=generator) < 0.25
    start = torch.where(sign, -start, start)

    def potential(x):
        return -torch.logaddexp(math.log(0.75) + 6 * x[:, 0], math.log(0.25) - 6 * x[:, 0])

    end = langevin(potential, start, steps=10, step_size=0.3, metropolis=True, seed=generator).points
    assert not torch.equal(end, start)

    def density(t):
        return (0.75 * math.exp(6 * t) + 0.25 * math.exp(-6 * t)) * (1 - t * t)

    grid = np.linspace(-1, 1, 4001)
    cumulative = integrate.cumulative_simpson([density(t) for t in grid], x=grid, initial=0)
    found = stats.kstest(end[:, 0].numpy(), lambda t: np.interp(t, grid, cumulative / cumulative[-1]))
    assert found.pvalue > 1e-3


def test_history_of_one_long_chain_is_exact():
    """Ten chains, thinned so that what is kept is nearly independent (correlation below exp(-10))."""
    chains = langevin(vmf_potential, uniform(10), steps=6000, step_size=0.2, metropolis=True, keep_every=15, seed=3)
    assert chains.history.shape == (400, 10, 3)
    assert torch.equal(chains.history[-1], chains.points)
    assert stats.kstest(chains.history[5:, :, 0].flatten().numpy(), height_cdf).pvalue > 1e-3


def test_bias_of_plain_langevin_shrinks_with_the_step():
    """The mean height is too low by a bias of order gamma: seen at every step, and smaller with each halving."""
    exact = 1 / math.tanh(KAPPA) - 1 / KAPPA
    bias = []
    for step_size, steps in ((0.1, 40), (0.05, 60), (0.025, 100)):
        heights = langevin(vmf_potential, uniform(40_000), steps=steps, step_size=step_size, seed=4).points[:, 0]
        bias.append(exact - heights.mean().item())
        assert bias[-1] > 5 * heights.std().item() / math.sqrt(40_000)
    assert 1.5 < bias[0] / bias[1] < 3
    assert 1.5 < bias[1] / bias[2] < 3


def test_one_step_is_the_formula_of_the_paper():
    """x' = exp_x(Proj_x(-gamma grad V + sqrt(2 gamma) Z)), with `sphere.exp` and the same normals."""
    x, step_size = uniform(50, 4), 0.07
    seen = langevin(lambda y: (y**3).sum(-1), x, steps=1, step_size=step_size, seed=5).points
    normals = torch.randn(50, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    step = -step_size * 3 * x**2 + math.sqrt(2 * step_size) * normals
    torch.testing.assert_close(seen, sphere.exp(x, sphere.to_tangent(x, step)), rtol=0, atol=1e-12)


def test_chains_of_any_batch_shape_and_dtype():
    start = uniform(12).reshape(3, 4, 3).float()
    chains = langevin(vmf_potential, start, steps=3, step_size=0.1, metropolis=True, seed=0)
    assert chains.points.shape == (3, 4, 3)
    assert chains.points.dtype == torch.float32
    assert not chains.points.requires_grad
    assert chains.history is None
    assert langevin(vmf_potential, start, steps=3, step_size=0.1, seed=0).acceptance is None


def test_seed_decides_and_global_state_is_left_alone():
    before = torch.random.get_rng_state()
    one, two, other = (langevin(vmf_potential, uniform(9), steps=5, step_size=0.1, seed=s).points for s in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"start": np.eye(3)}, TypeError,
         r"start must be a torch tensor of unit vectors, shape \(\.\.\., d\), got ndarray"),
        ({"start": 2 * torch.eye(3)}, ValueError, "normalize"),
        ({"steps": 0}, ValueError, "steps"),
        ({"step_size": -0.1}, ValueError, "step_size: .*, got -0.1"),
        ({"step_size": "wide"}, ValueError, "step_size: .*, got 'wide'"),
        ({"keep_every": 0}, ValueError, "keep_every"),
        ({"potential": lambda x: x}, ValueError, "one value per point"),
        ({"potential": lambda x: x.detach().sum(-1)}, ValueError, "without a gradient"),
        ({"potential": lambda x: x.sum(-1) / 0}, ValueError,
         r"potential must have finite values and gradients at the points of start, got NaN or infinity.*Start"),
        ({"seed": -1}, ValueError, "seed: .*, got -1"),
        ({"seed": False}, TypeError, "seed: .*, got bool"),
        ({"seed": np.random.default_rng(0)}, TypeError, "seed: .*, got Generator"),
    ],
)  # fmt: skip
def test_bad_input_of_langevin(change, error, said):
    arguments = {"potential": vmf_potential, "start": torch.eye(3), "steps": 2, "step_size": 0.1} | change
    with pytest.raises(error, match=said):
        langevin(**arguments)


def test_chains_that_run_into_nan_name_the_step():
    """A potential that is not a number on one half of the sphere; the correction just stays out of there."""

    def potential(x):
        return torch.sqrt(x[:, 0] - 0.2)

    start = torch.eye(3, dtype=torch.float64)[:1].repeat(100, 1)
    with pytest.raises(FloatingPointError, match=r"step_size = 0\.2"):
        langevin(potential, start, steps=50, step_size=0.2, seed=0)
    stayed = langevin(potential, start, steps=50, step_size=0.2, metropolis=True, seed=0).points
    assert bool((stayed[:, 0] > 0.2).all())


# ---- effective sample size ----


def test_effective_sample_size_of_known_weights():
    weights = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [3.0, 1.0, 0.0, 0.0]])
    torch.testing.assert_close(effective_sample_size(weights.log()), torch.tensor([4.0, 1.0, 1.6]))
    torch.testing.assert_close(effective_sample_size(weights.log() + 1e4), torch.tensor([4.0, 1.0, 1.6]))
    assert effective_sample_size(weights.log(), relative=True)[0] == 1


def test_effective_sample_size_is_that_of_theory():
    """Uniform proposals, vMF target: the share tends to E[w]^2 / E[w^2] = A(k)^2 / A(2k), A(k) = sinh(k) / k."""
    points = HypersphericalUniform(3, dtype=torch.float64).sample((200_000,), seed=0)
    share = effective_sample_size(KAPPA * points[:, 0], relative=True)
    exact = (math.sinh(KAPPA) / KAPPA) ** 2 / (math.sinh(2 * KAPPA) / (2 * KAPPA))
    assert abs(share.item() / exact - 1) < 0.02


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([0.0], TypeError),
        (torch.tensor([1, 2]), TypeError),
        (torch.empty(0), ValueError),
        (torch.tensor([0.0, torch.nan]), ValueError),
        (torch.tensor([-torch.inf, -torch.inf]), ValueError),
        (torch.tensor([0.0, torch.inf]), ValueError),
    ],
)
def test_bad_weights_are_refused(given, error):
    with pytest.raises(error, match="log_weights"):
        effective_sample_size(given)


# ---- variational inference ----


def power_spherical_potential(mean, kappa):
    distribution = PowerSpherical(torch.tensor(mean), kappa, validate_args=False)
    return lambda x: -distribution.log_prob(x)


def test_power_spherical_target_is_recovered():
    """The paper's start and step sizes, with fewer slices and steps: mu within 5 degrees, kappa within 25 %."""
    from sphereot.optim import RiemannianSGD

    sampler = PowerSphericalSampler(torch.ones(3), 0.1)
    optimizers = [RiemannianSGD([sampler.loc], lr=2.0), torch.optim.SGD([sampler.concentration], lr=200.0)]
    potential = power_spherical_potential((0.0, 1.0, 0.0), 10.0)
    fit = fit_sampler(
        potential,
        sampler,
        steps=500,
        n_particles=300,
        step_size=1e-3,
        n_projections=30,
        optimizer=optimizers,
        seed=0,
    )
    distribution = sampler.distribution()
    assert math.degrees(math.acos(min(1.0, distribution.loc[1].item()))) < 5
    assert 7.5 < distribution.concentration.item() < 12.5
    # The loss has a floor, for points that drift at random do not stay: that of a sampler which is the target already.
    there = PowerSphericalSampler(torch.tensor([0.0, 1.0, 0.0]), 10.0)
    still = torch.optim.SGD(there.parameters(), lr=0.0)
    floor = fit_sampler(
        potential, there, steps=50, n_particles=300, step_size=1e-3, n_projections=30, optimizer=still, seed=0
    )
    assert np.mean(fit.losses[:5]) > 3 * np.mean(floor.losses)
    assert np.mean(fit.losses[-50:]) < 1.5 * np.mean(floor.losses)


def test_network_learns_a_distribution():
    """A small perceptron with normalized output: the mean vector of its points comes to that of the target."""
    torch_generator = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch_generator) * 0.5)
    sampler = NetworkSampler(network, 3)
    target = VonMisesFisher(torch.tensor([0.0, 0.0, 1.0]), 10.0, validate_args=False)
    fit_sampler(
        lambda x: -target.log_prob(x),
        sampler,
        steps=200,
        n_particles=200,
        step_size=0.05,
        metropolis=True,
        n_projections=30,
        lr=0.01,
        seed=0,
    )
    points = sampler.rsample((4000,), seed=torch_generator).detach()
    assert (points.mean(0) - target.mean).norm() < 0.08


def test_loss_sw_is_that_of_pot():
    """The first loss of a fit, with the numbers drawn again: POT's SW_2^2 between points and where they drifted to."""
    start = torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)
    fit = short_fit(PowerSphericalSampler(start, 1.0), loss="sw", steps=1)
    generator = torch.Generator().manual_seed(0)
    points = PowerSphericalSampler(start, 1.0).rsample((40,), seed=generator).detach()
    drifted = langevin(vmf_potential, points, steps=3, step_size=0.02, seed=generator).points
    directions = torch.randn(8, 3, generator=generator, dtype=torch.float64)
    directions = directions / directions.norm(dim=-1, keepdim=True)
    expected = ot.sliced_wasserstein_distance(points, drifted, projections=directions.T) ** 2
    assert fit.losses[0] == pytest.approx(expected.item(), rel=1e-9)


def short_fit(sampler, **change):
    arguments = {"potential": vmf_potential, "steps": 12, "n_particles": 40, "mcmc_steps": 3, "step_size": 0.02}
    return fit_sampler(sampler=sampler, **arguments | {"n_projections": 8, "lr": 0.05, "seed": 0} | change)


def interrupt(step, loss, sampler):
    if step == 6:
        raise KeyboardInterrupt


@pytest.mark.parametrize("loss", ["ssw", "sw"])
def test_a_broken_fit_goes_on_with_the_same_numbers(loss, tmp_path):
    """Killed in step 10: parameters, losses and records end as if nothing had happened."""

    class KilledError(Exception):
        pass

    def concentration(step, sampler):
        return sampler.concentration.item()

    def killed(step, loss, sampler):
        if step == 10:
            raise KilledError

    whole, broken = (PowerSphericalSampler(torch.ones(3), 1.0) for _ in range(2))
    options = {"evaluate": concentration, "evaluate_every": 3, "loss": loss}
    expected = short_fit(whole, **options)
    file = tmp_path / "state.pt"
    with pytest.raises(KilledError):
        short_fit(broken, callback=killed, checkpoint=StateFile(file, every=0.0), **options)
    again = PowerSphericalSampler(torch.ones(3), 1.0)
    fit = short_fit(again, checkpoint=file, **options)
    assert (fit.losses, fit.records) == (expected.losses, expected.records)
    assert [step for step, _ in fit.records] == [0, 3, 6, 9, 12]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
    assert not file.exists()


def test_a_callback_is_told_of_every_step_and_may_stop_the_fit(tmp_path):
    calls, shown = [], []

    def callback(step, loss, sampler):
        calls.append((step, loss, sampler))
        return step == 5

    def progress(done, total):
        shown.append((done, total))

    sampler, file = PowerSphericalSampler(torch.ones(3), 1.0), tmp_path / "state.pt"
    fit = short_fit(sampler, callback=callback, progress=progress, evaluate=lambda step, _: step, checkpoint=file)
    assert [step for step, _, _ in calls] == [1, 2, 3, 4, 5]
    assert [loss for _, loss, _ in calls] == fit.losses
    assert all(type(loss) is float for _, loss, _ in calls)
    assert calls[0][2] is sampler
    assert shown == [(step, 12) for step in range(1, 6)]
    assert fit.records == [(step, step) for step in range(6)]
    assert not file.exists()
    assert fit.losses == short_fit(PowerSphericalSampler(torch.ones(3), 1.0), steps=5).losses
    # Only True stops: a callback may return anything else.
    assert short_fit(PowerSphericalSampler(torch.ones(3), 1.0), callback=lambda *told: 1.0).steps == 12


def test_divergence_names_the_steps_and_keeps_the_last_good_state():
    """An optimizer that jumps to infinity after three good steps."""

    class Jump(torch.optim.SGD):
        taken = 0

        def step(self, closure=None):
            super().step(closure)
            self.taken += 1
            if self.taken == 3:
                kept.append(copy.deepcopy(sampler.state_dict()))
            if self.taken == 4:
                with torch.no_grad():
                    sampler.concentration.fill_(torch.nan)

    kept = []
    sampler = PowerSphericalSampler(torch.ones(3), 1.0)
    optimizer = Jump(sampler.parameters(), lr=0.375)
    with pytest.raises(DivergenceError, match=r"learning rate \(0\.375\).*step_size \(0\.02\)") as caught:
        short_fit(sampler, optimizer=optimizer)
    assert isinstance(caught.value, ArithmeticError)
    assert caught.value.result.steps == 4
    assert all(torch.equal(value, sampler.state_dict()[name]) for name, value in kept[0].items())


def test_divergence_in_the_last_step_is_seen():
    sampler = PowerSphericalSampler(torch.ones(3), 1.0)
    with pytest.raises(DivergenceError, match="a parameter is NaN"):
        short_fit(sampler, steps=1, optimizer=torch.optim.SGD(sampler.parameters(), lr=math.inf))
    assert all(torch.isfinite(one).all() for one in sampler.parameters())


def test_fit_repeats_and_leaves_global_state_alone():
    before = torch.random.get_rng_state()
    samplers = [PowerSphericalSampler(torch.ones(3), 1.0) for _ in range(3)]
    fits = [short_fit(one, seed=seed) for one, seed in zip(samplers, (7, 7, 8), strict=True)]
    assert fits[0].losses == fits[1].losses != fits[2].losses
    assert torch.equal(before, torch.random.get_rng_state())


class Frozen(PowerSphericalSampler):
    def rsample(self, sample_shape=(), *, seed=None):
        return super().rsample(sample_shape, seed=seed).detach()


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"loss": "kl"}, ValueError, "'ssw', 'sw'"),
        ({"steps": 0}, ValueError, "steps"),
        ({"n_particles": 0}, ValueError, "n_particles"),
        ({"mcmc_steps": 0}, ValueError, "mcmc_steps"),
        ({"step_size": 0.0}, ValueError, "step_size"),
        ({"n_projections": 0}, ValueError, "n_projections"),
        ({"evaluate_every": 0}, ValueError, "evaluate_every"),
        ({"progress": "yes"}, TypeError, "progress must be .*got 'yes'"),
        ({"lr": -1.0}, ValueError, "lr"),
        ({"optimizer": []}, TypeError, "optimizer"),
        ({"sampler": torch.nn.Linear(3, 3)}, TypeError, "NetworkSampler"),
        ({"sampler": HypersphericalUniform(3)}, ValueError,
         "optimizer must be given if the sampler is not a torch module with parameters, got None"),
        ({"sampler": Frozen(torch.ones(3), 1.0)}, ValueError,
         "sampler must have a differentiable rsample, got points without a gradient"),
    ],
)  # fmt: skip
def test_bad_input_of_fit(change, error, said):
    with pytest.raises(error, match=said):
        short_fit(**{"sampler": PowerSphericalSampler(torch.ones(3), 1.0)} | change)


def test_samplers_draw_by_their_seed_alone():
    network = torch.nn.Linear(3, 3)
    for sampler in (PowerSphericalSampler(torch.ones(3), 1.0), NetworkSampler(network, 3)):
        state = torch.random.get_rng_state()
        assert torch.equal(sampler.rsample((4,), seed=2), sampler.rsample((4,), seed=torch.Generator().manual_seed(2)))
        assert torch.equal(torch.random.get_rng_state(), state)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            points = sampler.rsample((4,))
            torch.manual_seed(0)
            assert not torch.equal(points, sampler.rsample((4,)))


def test_concentration_is_turned_back_at_zero():
    sampler = PowerSphericalSampler(torch.ones(3), 1.0)
    with torch.no_grad():
        sampler.concentration.fill_(-2.0)
    assert sampler.distribution().concentration == 2.0
    with pytest.raises(ValueError, match="positive"):
        PowerSphericalSampler(torch.ones(3), 0.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 7}, r"\(seed was 0, now 7\)"),
        ({"lr": 0.01}, "optimizer was"),
        ({"loss": "sw"}, r"\(loss was 'ssw', now 'sw'\)"),
        ({"steps": 3}, "after 5 steps"),
        ({"n_projections": 9}, "other settings"),
        ({"potential": lambda x: -3.0 * x[:, 0]}, "another target"),
        ({"sampler": PowerSphericalSampler(torch.ones(4), 1.0)}, r"\(parameters was"),
    ],
)
def test_a_state_is_taken_up_by_its_own_fit_only(change, said, tmp_path):
    file, sampler = tmp_path / "state.pt", PowerSphericalSampler(torch.ones(3), 1.0)
    with pytest.raises(KeyboardInterrupt):
        short_fit(PowerSphericalSampler(torch.ones(3), 1.0), callback=interrupt, checkpoint=StateFile(file, every=0.0))
    with pytest.raises(ValueError, match=said):
        short_fit(**{"sampler": sampler} | change, checkpoint=file)
    assert short_fit(sampler, checkpoint=file).steps == 12


def test_a_random_potential_is_not_taken_for_another_target(tmp_path):
    """A potential of random batches has new values at every call, and its fit goes on all the same."""
    source = torch.Generator().manual_seed(0)

    def noisy(x):
        return vmf_potential(x) + torch.rand(1, generator=source, dtype=x.dtype)

    file, arguments = tmp_path / "state.pt", {"steps": 8, "n_particles": 20, "mcmc_steps": 1, "n_projections": 8}
    sampler = PowerSphericalSampler(torch.ones(3), 1.0)
    with pytest.raises(KeyboardInterrupt):
        fit_sampler(noisy, sampler, callback=interrupt, checkpoint=StateFile(file, every=0.0), **arguments)
    assert fit_sampler(noisy, PowerSphericalSampler(torch.ones(3), 1.0), checkpoint=file, **arguments).steps == 8
