"""Probability distributions on the sphere as `torch.distributions`: uniform, von Mises-Fisher, power spherical.

They broadcast, expand and take gradients as torch's own do. `sample` and `rsample` take a `seed` besides: an int, a
torch.Generator, or None for new points in every call; torch's global random state is neither read nor changed. Mixtures
are `torch.distributions.MixtureSameFamily`, which passes no seed to its components.
`torch.distributions.kl_divergence` knows the pairs with a closed form.
"""

from sphereot._support.extras import require

require("torch", "sphereot.distributions")

from sphereot.distributions.axial import unit_vector
from sphereot.distributions.power_spherical import PowerSpherical
from sphereot.distributions.projected import projected_von_mises_fisher_density
from sphereot.distributions.uniform import HypersphericalUniform
from sphereot.distributions.von_mises_fisher import VonMisesFisher

__all__ = [
    "HypersphericalUniform",
    "PowerSpherical",
    "VonMisesFisher",
    "projected_von_mises_fisher_density",
    "unit_vector",
]
