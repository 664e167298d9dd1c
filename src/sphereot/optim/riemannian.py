"""Riemannian SGD and Adam for parameters on spheres, and their steps along geodesics.

A step is an arc, with a direction and an angle. For the exponential map, the angle is the length of the tangent vector.
Projected gradient descent adds the tangent vector and normalizes: it moves along the same geodesic, by the arc tangent
of this length (Appendices B.2 and C.3).
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from sphereot._arrays.validation import as_unit_vectors

_RETRACTIONS = ("exp", "normalize")


class _SphereOptimizer(Optimizer):
    """Base class of both optimizers: validation, the step, and transport of the momentum."""

    step_length: float = 0.0

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with its own options; the constructor calls it too.

        If the group has the key "validated" with the value True, its unit length was checked before.
        """
        validated = param_group.pop("validated", False)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        if not 0 <= float(group["lr"]) < float("inf"):
            raise ValueError(f"lr must be finite and at least 0, got {group['lr']}.")
        if group["retraction"] not in _RETRACTIONS:
            raise ValueError(f"retraction must be 'exp' or 'normalize', got {group['retraction']!r}.")
        shares = {"momentum": group["momentum"]} if "momentum" in group else {}
        shares |= {f"betas[{k}]": beta for k, beta in enumerate(group.get("betas", ()))}
        for name, share in shares.items():
            if not 0 <= share < 1:
                raise ValueError(f"{name} must be in [0, 1), got {share}.")
        if group.get("nesterov") and group["momentum"] == 0:
            raise ValueError("nesterov must be False without momentum, got True. Give a momentum, e.g. 0.9.")
        if "eps" in group and not group["eps"] > 0:
            raise ValueError(f"eps must be positive, got {group['eps']}.")
        if not validated:
            for k, points in enumerate(group["params"]):
                as_unit_vectors(f"params[{k}]", points)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step, and set `step_length`. `closure`, if given, computes the loss and gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        squares, count = 0.0, 0
        for group in self.param_groups:
            for points in group["params"]:
                if points.grad is None:
                    continue
                if points.grad.is_sparse:
                    raise ValueError(
                        "params must have dense gradients, got a sparse one. Use e.g. Embedding(..., sparse=False)."
                    )
                step = -group["lr"] * self._direction(points, group)
                squares += float(torch.sum(step * step))
                count += points[..., 0].numel()
                self._move(points, step, group["retraction"])
        self.step_length = (squares / count) ** 0.5 if count else 0.0
        return loss

    def _move(self, points: Tensor, step: Tensor, retraction: str) -> None:
        """Move points along arcs, and their momentum by parallel transport."""
        length = torch.linalg.vector_norm(step, dim=-1, keepdim=True)
        direction = step / torch.where(length > 0, length, 1.0)
        if retraction == "normalize":
            longer = torch.hypot(length, torch.ones_like(length))
            cosine, sine = 1.0 / longer, length / longer
        else:
            # By sinc(t) = sin(pi t) / (pi t): torch's sine and cosine start threads even for a few numbers, which then
            # compete with the threads that compute SSW.
            half = length / 2 * torch.sinc(length / (2 * torch.pi))
            cosine, sine = 1.0 - 2.0 * half * half, length * torch.sinc(length / torch.pi)
        moved = cosine * points + sine * direction
        moved = moved / torch.linalg.vector_norm(
            moved, dim=-1, keepdim=True
        )  # rounding must not add up over many steps
        momentum = self.state[points].get("momentum")
        if momentum is not None:
            # Parallel transport changes only the part along the arc.
            along = (direction * momentum).sum(-1, keepdim=True)
            transported = momentum + along * ((cosine - 1.0) * direction - sine * points)
            momentum.copy_(tangent_part(moved, transported))
        points.copy_(moved)

    def _direction(self, points: Tensor, group: dict[str, Any]) -> Tensor:
        """Compute tangent vectors of the shape of `points`; a step is -`lr` times these vectors."""
        raise NotImplementedError


class RiemannianSGD(_SphereOptimizer):
    """Riemannian stochastic gradient descent on spheres, with the interface of `torch.optim.SGD` (Appendix B.2).

        x <- exp_x(-lr grad f(x)),   grad f(x) = the part of the gradient that is orthogonal to x

    Parameters
    ----------
    params : iterable of tensors, shapes (..., d), or of dicts
        Unit vectors along the last axis, or groups of them with their own options, as in `torch.optim`.
    lr : float
        Learning rate, in radians per unit of the gradient.
    momentum : float, default 0
        Momentum factor, in [0, 1). The momentum is moved with the point by parallel transport.
    nesterov : bool, default False
        Use Nesterov momentum.
    retraction : {"exp", "normalize"}, default "exp"
        Follow geodesics by the exponential map, or add the step and normalize (projected gradient descent).

    Attributes
    ----------
    step_length : float
        Root mean square, over the points, of the length of the last tangent step, in radians.

    Notes
    -----
    The component of the gradient along x is removed. For a loss that depends only on directions, such as SSW, this
    component is zero, and "normalize" is the projected gradient descent of the paper. Schedulers of
    `torch.optim.lr_scheduler`, closures, parameter groups and `state_dict` work as for the optimizers of torch.

    References
    ----------
    Bonnabel, Stochastic gradient descent on Riemannian manifolds, IEEE TAC 58(9), 2013. https://arxiv.org/abs/1111.5280

    Examples
    --------
    >>> import torch
    >>> from sphereot.optim import RiemannianSGD
    >>> x = torch.tensor([[1.0, 0.0, 0.0]], requires_grad=True)
    >>> optimizer = RiemannianSGD([x], lr=0.1)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (-x[:, 2].sum()).backward()  # up, toward the pole
    ...     optimizer.step()
    >>> x.detach().round(decimals=3)
    tensor([[0., 0., 1.]])
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        retraction: Literal["exp", "normalize"] = "exp",
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "retraction": retraction})

    def _direction(self, points: Tensor, group: dict[str, Any]) -> Tensor:
        gradient = tangent_part(points, points.grad)
        factor, state = group["momentum"], self.state[points]
        if factor == 0:
            return gradient
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(gradient)
        momentum = state["momentum"].mul_(factor).add_(gradient)
        return gradient + factor * momentum if group["nesterov"] else momentum


class RiemannianAdam(_SphereOptimizer):
    """Riemannian Adam on spheres, with the interface of `torch.optim.Adam`; each point has its own step size.

    The running mean of squares is that of the squared length of the gradient of a point. Means for each coordinate, as
    in `torch.optim.Adam`, would depend on the choice of axes.

    Parameters
    ----------
    params : iterable of tensors, shapes (..., d), or of dicts
        As in `RiemannianSGD`.
    lr : float, default 0.001
        Learning rate, in radians per step while the gradient of a point keeps its direction.
    betas : (float, float), default (0.9, 0.999)
        Decay rates, in [0, 1), of the running means of the gradient and of its squared length.
    eps : float, default 1e-8
        Added to the root of the mean squared length.
    retraction : {"exp", "normalize"}, default "exp"
        As in `RiemannianSGD`.

    Attributes
    ----------
    step_length : float
        As in `RiemannianSGD`.

    References
    ----------
    Becigneul and Ganea, Riemannian Adaptive Optimization Methods, ICLR 2019. https://arxiv.org/abs/1810.00760

    Examples
    --------
    >>> import torch
    >>> from sphereot.optim import RiemannianAdam
    >>> x = torch.tensor([[1.0, 0.0, 0.0]], requires_grad=True)
    >>> optimizer = RiemannianAdam([x], lr=0.01)
    >>> (-x[:, 2].sum()).backward()
    >>> optimizer.step()
    >>> round(optimizer.step_length, 6)
    0.01
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        retraction: Literal["exp", "normalize"] = "exp",
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "retraction": retraction})

    def _direction(self, points: Tensor, group: dict[str, Any]) -> Tensor:
        gradient = tangent_part(points, points.grad)
        squared_length = (gradient * gradient).sum(-1, keepdim=True)
        state, (first, second) = self.state[points], group["betas"]
        if "momentum" not in state:
            state |= {"step": 0, "momentum": torch.zeros_like(gradient), "square": torch.zeros_like(squared_length)}
        state["step"] += 1
        momentum = state["momentum"].mul_(first).add_(gradient, alpha=1 - first)
        square = state["square"].mul_(second).add_(squared_length, alpha=1 - second)
        mean, mean_square = momentum / (1 - first ** state["step"]), square / (1 - second ** state["step"])
        return mean / (mean_square.sqrt() + group["eps"])


def tangent_part(x: Tensor, v: Tensor) -> Tensor:
    """Project vectors (..., d) on the tangent spaces at unit vectors `x`; maps Euclidean to Riemannian gradients."""
    return v - (x * v).sum(-1, keepdim=True) * x
