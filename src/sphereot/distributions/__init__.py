"""Probability distributions on the sphere as `torch.distributions`: uniform, von Mises-Fisher, power spherical.

They broadcast, expand and have gradients as the distributions of torch. `sample` and `rsample` also accept a `seed`: an
int, a torch.Generator, or None for new points in every call. Torch's global random state is not used. For mixtures use
`torch.distributions.MixtureSameFamily`, which does not pass a seed to its components.
`torch.distributions.kl_divergence` computes the divergences that have a closed form.
"""

from sphereot._support.extras import require

require("torch", "sphereot.distributions")

from sphereot.distributions.axial import PowerSpherical, VonMisesFisher
from sphereot.distributions.projected import projected_von_mises_fisher_density
from sphereot.distributions.uniform import HypersphericalUniform, unit_vector

__all__ = [
    "HypersphericalUniform",
    "PowerSpherical",
    "VonMisesFisher",
    "projected_von_mises_fisher_density",
    "unit_vector",
]
