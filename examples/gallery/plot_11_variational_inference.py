"""
Sampling a density known up to a constant
=========================================

Posterior distributions are often known only up to a constant, p(x) proportional to exp(-V(x)). `langevin` draws from
them by chains that move along the gradient of V. `fit_sampler` trains a network that draws new points in one pass:
SSW pulls its points to the ones that Langevin steps make of them (SSW variational inference). Both need PyTorch.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from sphereot import plotting, sphere, ssw
from sphereot.distributions import VonMisesFisher
from sphereot.sampling import NetworkSampler, fit_sampler, langevin

# %%
# The target has four modes. V is any function of points that PyTorch can differentiate; the constant is not needed.
# Here the target is a mixture of von Mises-Fisher distributions, so an exact sample is known too, to compare with.

KAPPA = 12.0
modes = sphere.normalize(torch.tensor([[1.0, 1.0, 0.7], [1.0, -1.0, 0.7], [1.0, 0.0, -1.2], [-1.0, 0.3, 0.2]]))


def potential(x):
    """Minus the logarithm of the density, up to a constant."""
    return -torch.logsumexp(KAPPA * x @ modes.T, dim=-1)


exact, other = (VonMisesFisher(modes, KAPPA).sample((250,), seed=seed).reshape(-1, 3) for seed in (0, 1))

# %%
# Langevin chains, with a Metropolis correction, so that the target is their exact stationary distribution.

start = sphere.random_uniform(1000, 3, seed=0, like=modes)
chains = langevin(potential, start, steps=300, step_size=0.06, metropolis=True, seed=0)
print(f"accepted {100 * float(chains.acceptance.mean()):.0f} % of the steps")
print(f"SSW_2^2 between chains and exact sample: {float(ssw(chains.points, exact, seed=0)):.1e} turns^2")

# %%
# The sampler is a network that maps uniform points to points of the target. Each step moves its points by 20 Langevin
# steps, and descends the gradient of SSW between both.

torch.manual_seed(0)
layers = [nn.Linear(3, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 3)]
sampler = NetworkSampler(nn.Sequential(*layers), 3)


def distance(step, sampler):
    """SSW_2^2 between new points of the sampler and the exact sample."""
    with torch.no_grad():
        return float(ssw(sampler.rsample((1000,), seed=step), exact, seed=0))


fit = fit_sampler(potential, sampler, steps=400, step_size=0.02, n_projections=50, lr=2e-3, seed=0, evaluate=distance)

# %%
# The points of the chains and of the trained sampler (orange) follow the density. In 300 steps few chains go from one
# mode to another, so the mode on the right, near which most chains start, has too many of them (dashed line). The
# sampler comes closer to the target, whose own sampling error is the dotted line.

with torch.no_grad():
    drawn = {"chains": chains.points, "sampler": sampler.rsample((1000,), seed=1)}
    density = torch.exp(-potential(torch.from_numpy(plotting.map_points()).float()))

with plotting.style():
    fig = plt.figure(figsize=(7.2, 4))
    grid = fig.add_gridspec(2, 2, height_ratios=(1, 0.8))
    for k, (name, points) in enumerate(drawn.items()):
        ax = fig.add_subplot(grid[0, k], projection="mollweide")
        plotting.density_map(density, ax=ax, cmap="Blues", colorbar=False, graticule="lines")
        plotting.scatter_map(points, ax=ax, color=plotting.PALETTE[1], size=1.5)
        ax.set_title(f"density and points of the {name}")
    ax = fig.add_subplot(grid[1, :])
    ax.semilogy(*zip(*fit.records, strict=True), label="sampler")
    ax.axhline(float(ssw(chains.points, exact, seed=0)), color="0.5", ls="--", label="chains")
    ax.axhline(float(ssw(other, exact, seed=0)), color="0.5", ls=":", label="another exact sample")
    ax.set(xlabel="step of the optimizer", ylabel="SSW$_2^2$ to the target (turns$^2$)")
    ax.legend()
plt.show()
