"""Sampling on the sphere: Langevin dynamics, importance weights, and variational inference with SSW."""

from sphereot._support.extras import require

require("torch", "sphereot.sampling")

from sphereot.sampling.importance_weights import effective_sample_size
from sphereot.sampling.langevin import Chains, langevin
from sphereot.sampling.samplers import NetworkSampler, PowerSphericalSampler
from sphereot.sampling.variational import SamplerFit, fit_sampler

__all__ = [
    "Chains",
    "NetworkSampler",
    "PowerSphericalSampler",
    "SamplerFit",
    "effective_sample_size",
    "fit_sampler",
    "langevin",
]
