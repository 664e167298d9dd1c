"""The exponential-map flow on S^2 in the compiled kernel, as a differentiable torch operation."""

from typing import Any

import torch
from torch import Tensor

from sphereot._backends import native
from sphereot._backends.native.expmap import Record, flow_backward, flow_forward
from sphereot.flows._expmap import refuse_second_derivatives

__all__ = ["kernel_forward", "kernel_forward_and_log_det", "kernel_serves"]


def kernel_serves(columns: Tensor, slopes: Tensor) -> bool:
    """Whether the kernel can take points (d, n) through blocks: those on S^2, in host memory, outside torch.compile."""
    return (
        native.serves(columns)
        and columns.shape[0] == 3
        and columns.shape[1] > 0
        and columns.dtype == slopes.dtype
        and not torch.compiler.is_compiling()
    )


def kernel_forward(columns: Tensor, slopes: Tensor, loads: Tensor) -> Tensor:
    """Images (3, n) of points (3, n) under blocks with slopes (B, K, 4) and loads (B, K, 3)."""
    images: Tensor = _Flow.apply(columns, slopes, loads)[0]
    return images


def kernel_forward_and_log_det(columns: Tensor, slopes: Tensor, loads: Tensor) -> tuple[Tensor, Tensor]:
    """Images (3, n) and sums over blocks of log-determinants (n,), with loads (B, K, 12)."""
    images, log_det = _Flow.apply(columns, slopes, loads)
    return images, log_det


class _Flow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slopes: Tensor, loads: Tensor) -> tuple[Tensor, Tensor | None]:
        arrays = [tensor.detach().contiguous().numpy() for tensor in (x, slopes, loads)]
        record = flow_forward(*arrays)
        saved = [record.states, record.moments, *([] if record.determinants is None else [record.determinants])]
        ctx.save_for_backward(slopes, loads, *map(torch.from_numpy, saved))
        ctx.set_materialize_grads(False)
        log_det = None if record.determinants is None else torch.from_numpy(record.determinants).log().sum(0)
        return torch.from_numpy(record.states[-1].copy()), log_det

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        slopes, loads, states, moments, *determinants = ctx.saved_tensors
        d_y, d_log_det = cotangents
        d_y = states.new_zeros(states.shape[1:]) if d_y is None else d_y
        if determinants and d_log_det is None:
            d_log_det = states.new_zeros(states.shape[2])
        record = Record(states.numpy(), moments.numpy(), determinants[0].numpy() if determinants else None)
        gradients = flow_backward(
            record,
            slopes.contiguous().numpy(),
            loads.contiguous().numpy(),
            d_y.contiguous().numpy(),
            None if d_log_det is None else d_log_det.contiguous().numpy(),
        )
        return tuple(map(torch.from_numpy, gradients))
