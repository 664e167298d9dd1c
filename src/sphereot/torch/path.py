"""Slice functions for torch arrays."""

from sphereot._portable.slices import (
    circle_costs,
    circle_costs_uniform,
    circle_cuts,
    mean_cost,
    mean_cost_uniform,
    on_grid,
    project,
    slice_costs,
    slice_costs_uniform,
    summed_pairwise_costs,
)

__all__ = [
    "circle_costs",
    "circle_costs_uniform",
    "circle_cuts",
    "mean_cost",
    "mean_cost_uniform",
    "on_grid",
    "project",
    "slice_costs",
    "slice_costs_uniform",
    "summed_pairwise_costs",
]
