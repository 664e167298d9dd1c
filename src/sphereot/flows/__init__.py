"""Normalizing flows on the sphere: exponential-map flow, and RealNVP after a stereographic projection.

A transform is an invertible module that maps points and computes the log-determinant of the map. `Flow` combines a
transform and a base distribution into a distribution with densities and samples (Appendix B.4).
"""

from sphereot._support.extras import require

require("torch", "sphereot.flows")

from sphereot.flows.exponential import Components, ExponentialMapFlow
from sphereot.flows.flow import Flow, FlowTransform, StandardNormal
from sphereot.flows.realnvp import RealNVP, StereographicFlow

__all__ = [
    "Components",
    "ExponentialMapFlow",
    "Flow",
    "FlowTransform",
    "RealNVP",
    "StandardNormal",
    "StereographicFlow",
]
