"""Spherical Sliced-Wasserstein distances: means over great circles of the optimal transport cost (Section 3.2).

    SSW_p^p(mu, nu) = E_U [ W_p^p(P^U mu, P^U nu) ]

The functions return SSW_p^p, as Algorithm 1 does. Lengths are in turns of the great circle (1 turn = 360 degrees).
"""

from sphereot.distance.estimates import SSWEstimate, ssw_estimate
from sphereot.distance.pairwise import PairwiseSSWEstimate, pairwise_ssw, pairwise_ssw_estimate
from sphereot.distance.ssw import ssw, ssw_uniform
from sphereot.distance.uniform_kernel import uniform_kernel

__all__ = [
    "PairwiseSSWEstimate",
    "SSWEstimate",
    "pairwise_ssw",
    "pairwise_ssw_estimate",
    "ssw",
    "ssw_estimate",
    "ssw_uniform",
    "uniform_kernel",
]
