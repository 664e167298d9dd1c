"""Normalizing flows on the sphere: the exponential-map flow, and RealNVP behind a stereographic projection.

A transform is a module that maps points, gives the logarithm of its determinant if asked, and is inverted; `Flow` makes
a law of it, with densities and samples (Appendix B.4).
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
