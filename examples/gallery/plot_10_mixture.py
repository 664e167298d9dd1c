"""
Fitting von Mises-Fisher distributions
======================================

The von Mises-Fisher distribution is the analog of the normal distribution on the sphere: a mean direction, and a
concentration kappa. `VonMisesFisherMixture` fits a sum of several by expectation maximization. This example shows how
to choose the number of components, and what a fit looks like.
"""

import matplotlib.pyplot as plt
import numpy as np

from sphereot import plotting, sphere
from sphereot.density import VonMisesFisherComponents, VonMisesFisherMixture

# %%
# The true distribution has four components of different concentrations and weights. Half of the points are for
# the fit, the other half for its evaluation.

means = sphere.from_lonlat(np.array([[-100.0, 40.0], [-60.0, -20.0], [20.0, 10.0], [100.0, 35.0]]))
truth = VonMisesFisherComponents(means, np.array([40.0, 20.0, 8.0, 40.0]), np.array([0.2, 0.2, 0.4, 0.2]))
points = truth.sample(2000, np.random.default_rng(0))
train, test = points[::2], points[1::2]

# %%
# Expectation maximization can end in a local maximum, so each number of components is fitted from five starts, and the
# fit with the largest likelihood is taken.

numbers = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32]
starts = [[VonMisesFisherMixture(number, seed=seed).fit(train) for seed in range(5)] for number in numbers]
fits = [max(mixtures, key=lambda mixture: mixture.score(train)) for mixtures in starts]
mixture = fits[numbers.index(4)]
lonlat, components = sphere.to_lonlat(mixture.components_.means), mixture.components_
for k in np.argsort(lonlat[:, 0]):
    print(f"mean at {lonlat[k, 0]:6.1f} {lonlat[k, 1]:5.1f} degrees, concentration {components.concentrations[k]:4.1f}")

# %%
# Left: with more components the likelihood of the training points rises, while that of other points does not rise
# beyond the true number, and then falls. Right: the density of four components, with some of the points.

with plotting.style():
    fig = plt.figure(figsize=(7.2, 2.8))
    grid = fig.add_gridspec(1, 2, width_ratios=(1, 1.4))
    ax = fig.add_subplot(grid[0])
    ax.plot(numbers, [fit.score(train) for fit in fits], "o-", label="training points")
    ax.plot(numbers, [fit.score(test) for fit in fits], "o-", label="other points")
    ax.axvline(4, color="0.7", ls="--", zorder=0)
    ax.set_xscale("log", base=2)
    ax.set(xlabel="number of components", ylabel="mean log-likelihood (nats)")
    ax.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    ax.legend(loc="lower right")
    ax = fig.add_subplot(grid[1], projection="mollweide")
    plotting.density_map(mixture.density, points=train[:300], ax=ax, graticule="lines")
plt.show()
