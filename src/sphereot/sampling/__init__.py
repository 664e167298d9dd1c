"""Sampling on the sphere: Langevin dynamics, importance weights, and variational inference with SSW."""

from sphereot._support.extras import require

require("torch", "sphereot.sampling")

from sphereot.sampling.langevin import Chains, effective_sample_size, langevin
from sphereot.sampling.variational import NetworkSampler, PowerSphericalSampler, SamplerFit, fit_sampler

__all__ = [
    "Chains",
    "NetworkSampler",
    "PowerSphericalSampler",
    "SamplerFit",
    "effective_sample_size",
    "fit_sampler",
    "langevin",
]
