"""Riemannian SGD and Adam for parameters on spheres, and the steps along geodesics that they take.

The exponential map goes as far as the tangent vector is long. The retraction of projected gradient descent, which adds
the tangent vector and normalizes, stays on the same geodesic and goes as far as the arc tangent of that length
(Appendices B.2 and C.3). So both are an arc: a direction and an angle.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from sphereot._arrays.validation import as_unit_vectors

RETRACTIONS = ("exp", "normalize")
"""How a tangent vector moves a point: by the exponential map, or by adding the vector and normalizing."""


class _SphereOptimizer(Optimizer):
    """Base class of both optimizers: validation, the Riemannian gradient, the step, and transport of the momentum."""

    step_length: float = 0.0

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, with options of its own; called for the first groups too.

        A group with the key "validated" set to True holds points whose unit length was checked before.
        """
        validated = param_group.pop("validated", False)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        if not 0 <= float(group["lr"]) < float("inf"):
            raise ValueError(
                f"lr: got {group['lr']}, but the learning rate must be finite and at least 0; give such a number."
            )
        if group["retraction"] not in RETRACTIONS:
            choices = ", ".join(map(repr, RETRACTIONS))
            raise ValueError(f"retraction: got {group['retraction']!r}; choose one of {choices}.")
        shares = {"momentum": group["momentum"]} if "momentum" in group else {}
        shares |= {f"betas[{k}]": beta for k, beta in enumerate(group.get("betas", ()))}
        for name, share in shares.items():
            if not 0 <= share < 1:
                raise ValueError(f"{name}: got {share}, but a number in [0, 1) is needed; give such a number.")
        if group.get("nesterov") and group["momentum"] == 0:
            raise ValueError("nesterov: got True without momentum; give momentum too, e.g. 0.9.")
        if "eps" in group and not group["eps"] > 0:
            raise ValueError(f"eps: got {group['eps']}, but a positive number is needed; give such a number.")
        if not validated:
            for k, points in enumerate(group["params"]):
                as_unit_vectors(f"params[{k}]", points)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `step_length` is then its length.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.
        """
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
                        "params: got a sparse gradient; make it dense, e.g. with Embedding(..., sparse=False)."
                    )
                step = -group["lr"] * self._direction(points, group)
                squares += float(torch.sum(step * step))
                count += points[..., 0].numel()
                self._move(points, step, group["retraction"])
        self.step_length = (squares / count) ** 0.5 if count else 0.0
        return loss

    def _move(self, points: Tensor, step: Tensor, retraction: str) -> None:
        way = arc(step, retraction)
        moved = move(points, way)
        momentum = self.state[points].get("momentum")
        if momentum is not None:
            momentum.copy_(tangent_part(moved, carry(points, way, momentum)))
        points.copy_(moved)

    def _direction(self, points: Tensor, group: dict[str, Any]) -> Tensor:
        """The tangent vectors, shaped as `points`, that a step of length `lr` follows backwards."""
        raise NotImplementedError


class RiemannianSGD(_SphereOptimizer):
    """Riemannian stochastic gradient descent on spheres, with the interface of `torch.optim.SGD` (Appendix B.2).

        x <- exp_x(-lr grad f(x)),   grad f(x) = the part of the gradient that is orthogonal to x

    Parameters
    ----------
    params : iterable of tensors, shapes (..., d), or of dicts
        Unit vectors along the last axis, or groups of them with options of their own, as in `torch.optim`.
    lr : float
        Learning rate: radians per unit of the gradient.
    momentum : float
        Momentum factor, in [0, 1). The momentum is moved with the point by parallel transport.
    nesterov : bool
        Use Nesterov momentum.
    retraction : {"exp", "normalize"}
        Follow geodesics by the exponential map; or add the step and normalize, as projected gradient descent does.

    Attributes
    ----------
    step_length : float
        Root mean square, over the points, of the length of the last tangent step, in radians.

    Notes
    -----
    Euclidean gradients of a loss that depends on directions alone, such as SSW, are orthogonal to x: then
    "normalize" is the paper's projected gradient descent to the letter. Other gradients lose their part along x first.
    Schedulers of `torch.optim.lr_scheduler`, closures, parameter groups and `state_dict` work as for torch's own.

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

    Parameters
    ----------
    params : iterable of tensors, shapes (..., d), or of dicts
        Unit vectors along the last axis, or groups of them with options of their own, as in `torch.optim`.
    lr : float
        Learning rate: radians per step while the gradient of a point keeps its direction.
    betas : (float, float)
        Decay rates, in [0, 1), of the running means of the gradient and of its squared length.
    eps : float
        Added to the root of the mean squared length.
    retraction : {"exp", "normalize"}
        As in `RiemannianSGD`.

    Attributes
    ----------
    step_length : float
        Root mean square, over the points, of the length of the last tangent step, in radians.

    Notes
    -----
    Running means of squares per coordinate would depend on the choice of axes. Here each point has one, of the squared
    length of its gradient.

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


@dataclass(frozen=True)
class Arc:
    """Arcs from points: unit tangent vectors (..., d), zero where there is no step; cosine and sine of the angles."""

    direction: Tensor
    cosine: Tensor
    sine: Tensor


def tangent_part(x: Tensor, v: Tensor) -> Tensor:
    """Project vectors (..., d) on the tangent spaces at unit vectors `x`; maps Euclidean to Riemannian gradients."""
    return v - (x * v).sum(-1, keepdim=True) * x


def arc(step: Tensor, retraction: str) -> Arc:
    """Arcs of tangent steps (..., d), by the exponential map or by normalization (see `RETRACTIONS`).

    >>> arc(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), "normalize").sine  # 45 degrees for a step as long as the radius
    tensor([[0.7071],
            [0.0000]])
    """
    length = torch.linalg.vector_norm(step, dim=-1, keepdim=True)
    direction = step / torch.where(length > 0, length, 1.0)
    if retraction == "normalize":
        longer = torch.hypot(length, torch.ones_like(length))
        return Arc(direction, 1.0 / longer, length / longer)
    # By sinc(t) = sin(pi t) / (pi t): torch's own sine and cosine wake threads, even for a few numbers, which then
    # compete with those that compute SSW.
    half = length / 2 * torch.sinc(length / (2 * torch.pi))
    return Arc(direction, 1.0 - 2.0 * half * half, length * torch.sinc(length / torch.pi))


def move(x: Tensor, arc: Arc) -> Tensor:
    """Move unit vectors (..., d) along arcs."""
    moved = arc.cosine * x + arc.sine * arc.direction
    return moved / torch.linalg.vector_norm(moved, dim=-1, keepdim=True)  # rounding must not add up over many steps


def carry(x: Tensor, arc: Arc, v: Tensor) -> Tensor:
    """Parallel transport of tangent vectors (..., d) at `x` along arcs: only the part along the arc changes.

    >>> x, v = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, 1.0])
    >>> carry(x, arc(torch.tensor([0.0, torch.pi / 2, 0.0]), "exp"), v).round()
    tensor([-2.,  0.,  1.])
    """
    along = (arc.direction * v).sum(-1, keepdim=True)
    return v + along * ((arc.cosine - 1.0) * arc.direction - arc.sine * x)
