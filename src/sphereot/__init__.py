"""Optimal transport on the sphere: exact, fast Spherical Sliced-Wasserstein distances."""

from sphereot import circle, radon, sphere
from sphereot._info import info
from sphereot._native import get_num_threads, set_num_threads
from sphereot.distance import SSWEstimate, pairwise_ssw, ssw, ssw_estimate, ssw_uniform
from sphereot.gradient_flow import flow
from sphereot.slicing import great_circles, project

__all__ = [
    "SSWEstimate",
    "circle",
    "flow",
    "get_num_threads",
    "great_circles",
    "info",
    "pairwise_ssw",
    "project",
    "radon",
    "set_num_threads",
    "sphere",
    "ssw",
    "ssw_estimate",
    "ssw_uniform",
]
