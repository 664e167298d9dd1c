"""Normalizing flows on the sphere: exponential-map flow, and RealNVP after a stereographic projection.

A transform is a module that maps points, gives the log-determinant of the map if needed, and can be inverted. `Flow`
turns a transform and a base distribution into a distribution with densities and samples (Appendix B.4).
"""

from sphereot._support.extras import require

require("torch", "sphereot.flows")

from sphereot.flows.exponential import Components, ExponentialMapFlow
from sphereot.flows.flow import Flow
from sphereot.flows.normal import StandardNormal
from sphereot.flows.realnvp import RealNVP
from sphereot.flows.stereographic import StereographicFlow
from sphereot.flows.transform import FlowTransform

__all__ = [
    "Components",
    "ExponentialMapFlow",
    "Flow",
    "FlowTransform",
    "RealNVP",
    "StandardNormal",
    "StereographicFlow",
]
