"""SSW and circle costs of CPU tensors as torch operators: one call of the kernel gives value and gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sphereot._arrays.libraries import aligned
from sphereot._backends.native import backend as native
from sphereot._backends.protocol import Measure, Measures, Wanted
from sphereot._backends.torch.derivatives import requires_grad
from sphereot._backends.torch.kernel_op import KernelOp
from sphereot._backends.torch.pairs import portable_pair_cost


def mean_cost(measures: Measures, frames: Tensor, p: float) -> Tensor:
    """SSW_p^p, differentiable in points and weights."""
    op = _MEAN_COST if len(measures) == 2 else _MEAN_COST_UNIFORM
    return op((*_points_then_weights(measures), frames), p, _wanted(measures))


def circle_costs(measures: Measures, p: float) -> Tensor:
    """W_p^p on the circle, row by row, differentiable in turns and weights."""
    op = _CIRCLE_COSTS if len(measures) == 2 else _CIRCLE_COSTS_UNIFORM
    return op(_points_then_weights(measures), p, _wanted(measures))


def pair_cost(measure: Measure, *, unbiased: bool) -> Tensor:
    """SSW_2^2 to the uniform distribution without slices, with first and second derivatives in points and weights."""
    return _PAIR_COST(tuple(measure), 2.0, _wanted([measure]), unbiased)


def _points_then_weights(measures: Measures) -> list[Tensor | None]:
    return [points for points, _ in measures] + [weights for _, weights in measures]


def _wanted(measures: Measures) -> list[bool]:
    """Whether autograd will ask for the gradient in the points and in the weights of each measure."""
    enabled = torch.is_grad_enabled()
    return [enabled and t is not None and requires_grad(t) for measure in measures for t in measure]


# ---- the operators ----

# `wanted` says which gradients to compute: in points and weights of the first measure, then of the second.


def _mean_cost(
    x: Tensor,
    y: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    frames: Tensor,
    p: float,
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    value, first, second = _mean_and_gradients([(x, a), (y, b)], frames, p, wanted)
    return value, *first, *second


def _fake_mean_cost(
    x: Tensor, y: Tensor, a: Any, b: Any, frames: Any, p: float, wanted: Sequence[bool]
) -> tuple[Tensor, ...]:
    return x.new_empty(()), *_fakes(x, wanted, [x.shape, x.shape[:1], y.shape, y.shape[:1]])


def _mean_cost_uniform(
    x: Tensor, a: Tensor | None, frames: Tensor, p: float, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    value, gradient = _mean_and_gradients([(x, a)], frames, p, wanted)
    return value, *gradient


def _fake_mean_cost_uniform(x: Tensor, a: Any, frames: Any, p: float, wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    return x.new_empty(()), *_fakes(x, wanted, [x.shape, x.shape[:1]])


def _circle_costs(
    u: Tensor, v: Tensor, a: Tensor | None, b: Tensor | None, p: float, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    costs, first, second = _costs_and_gradients([(u, a), (v, b)], p, wanted)
    return costs, *first, *second


def _fake_circle_costs(u: Tensor, v: Tensor, a: Any, b: Any, p: float, wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    return u.new_empty(u.shape[:1]), *_fakes(u, wanted, [u.shape, u.shape, v.shape, v.shape])


def _circle_costs_uniform(
    u: Tensor, a: Tensor | None, p: float, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    costs, gradient = _costs_and_gradients([(u, a)], p, wanted)
    return costs, *gradient


def _fake_circle_costs_uniform(u: Tensor, a: Any, p: float, wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    return u.new_empty(u.shape[:1]), *_fakes(u, wanted, [u.shape, u.shape])


def _pair_cost(
    x: Tensor, a: Tensor | None, p: float, wanted: Sequence[bool], unbiased: bool
) -> tuple[Tensor, Tensor, Tensor]:
    measure = Measure(*_numpy(x, a))
    value, gradient = native.pair_gradients(measure, Wanted(*wanted), unbiased=unbiased)
    points, weights = _gradient_tensors(x, gradient)
    return _scalar(value, x), points, weights


def _smooth_pair_cost(x: Tensor, a: Tensor | None, p: float, wanted: Sequence[bool], unbiased: bool) -> Tensor:
    return portable_pair_cost(Measure(x, a), unbiased=unbiased)


def _fake_pair_cost(x: Tensor, a: Any, p: float, wanted: Sequence[bool], unbiased: bool) -> tuple[Tensor, ...]:
    return x.new_empty(()), *_fakes(x, wanted, [x.shape, x.shape[:1]])


_MEAN_COST = KernelOp("sphereot::mean_cost", 2, _mean_cost, _fake_mean_cost)
_MEAN_COST_UNIFORM = KernelOp("sphereot::mean_cost_uniform", 1, _mean_cost_uniform, _fake_mean_cost_uniform)
_CIRCLE_COSTS = KernelOp("sphereot::circle_costs", 2, _circle_costs, _fake_circle_costs)
_CIRCLE_COSTS_UNIFORM = KernelOp("sphereot::circle_costs_uniform", 1, _circle_costs_uniform, _fake_circle_costs_uniform)
_PAIR_COST = KernelOp("sphereot::pair_cost", 1, _pair_cost, _fake_pair_cost, _smooth_pair_cost)


# ---- calls of the kernel ----


def _mean_and_gradients(
    tensors: Sequence[tuple[Tensor, Tensor | None]],
    frames: Tensor,
    p: float,
    wanted: Sequence[bool],
) -> list[Any]:
    """The mean cost, and for each measure the gradients in points and weights; empty if not wanted."""
    x = tensors[0][0]
    measures, (frames_array,) = [Measure(*_numpy(*pair)) for pair in tensors], _numpy(frames)
    if not any(wanted):
        value = native.mean_cost(measures, frames_array, p)
        return [_scalar(value, x), *(_empty_pair(x) for _ in measures)]
    value, pairs = native.mean_gradients(measures, frames_array, p, _wanted_by_measure(wanted))
    return [_scalar(value, x), *(_gradient_tensors(x, pair) for pair in pairs)]


def _costs_and_gradients(
    tensors: Sequence[tuple[Tensor, Tensor | None]], p: float, wanted: Sequence[bool]
) -> list[Any]:
    """The costs of rows of turns, and for each measure the gradients in turns and weights; empty if not wanted."""
    u = tensors[0][0]
    measures = [Measure(*_numpy(*pair)) for pair in tensors]
    if not any(wanted):
        return [torch.from_numpy(native.circle_costs(measures, p)), *(_empty_pair(u) for _ in measures)]
    costs, pairs = native.circle_gradients(measures, p, _wanted_by_measure(wanted))
    return [torch.from_numpy(costs), *(_gradient_tensors(u, pair) for pair in pairs)]


def _wanted_by_measure(wanted: Sequence[bool]) -> list[Wanted]:
    return [Wanted(*wanted[k : k + 2]) for k in range(0, len(wanted), 2)]


def _numpy(*tensors: Tensor | None) -> Any:
    return [None if t is None else aligned(t.detach().contiguous().numpy()) for t in tensors]


def _scalar(value: float, like: Tensor) -> Tensor:
    # By way of NumPy, in a third of the time of torch.tensor.
    return torch.from_numpy(np.asarray(value, np.float32 if like.dtype == torch.float32 else np.float64))


def _empty_pair(like: Tensor) -> list[Tensor]:
    return [like.new_empty((0,)), like.new_empty((0,))]


def _fakes(like: Tensor, wanted: Sequence[bool], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    return [like.new_empty(shape if want else (0,)) for want, shape in zip(wanted, shapes, strict=True)]


def _gradient_tensors(like: Tensor, gradient: Sequence[Any]) -> list[Tensor]:
    dtype = np.float32 if like.dtype == torch.float32 else np.float64
    return [
        like.new_empty((0,)) if part is None else torch.from_numpy(np.ascontiguousarray(part, dtype))
        for part in gradient
    ]
