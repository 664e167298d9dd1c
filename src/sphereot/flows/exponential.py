"""The exponential-map flow (Appendix B.4): each block moves points along the gradient of a potential."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from sphereot._arrays.libraries import full_precision, in_host_memory
from sphereot._arrays.validation import as_int
from sphereot._backends import FlowRecord, flow_backward, flow_forward, kernel_serves
from sphereot.distributions.uniform import HypersphericalUniform, check_points, wide
from sphereot.flows._expmap import (
    attach_gradient,
    moments,
    move,
    move_with_log_det,
    refuse_second_derivatives,
    solve,
)
from sphereot.flows.flow import FlowTransform, flow_points


@dataclass(frozen=True)
class Components:
    """Parameters of the potentials of an `ExponentialMapFlow`: weights, concentrations and centers.

    Attributes
    ----------
    alpha : tensor, shape (B, K)
        Weights of the components of each block: positive, with a sum below 1.
    beta : tensor, shape (B, K)
        Concentrations, positive.
    mu : tensor, shape (B, K, d)
        Centers, unit vectors.
    """

    alpha: Tensor
    beta: Tensor
    mu: Tensor


class ExponentialMapFlow(FlowTransform):
    """Exponential-map flow: a normalizing flow from the sphere S^{d-1} to itself.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere S^{d-1}, at least 2.
    n_blocks : int, default 1
        Number B of blocks.
    n_components : int, default 10
        Number K of components of each potential. A block has K (d + 2) parameters.
    strength : float, default 0.01
        Initial sum of the alpha_i of each block, in (0, 1). It bounds how far a block moves a point, in radians. With
        the default, the density of the untrained flow is nearly uniform: the mean of log p differs by less than 0.001.
        The gradient in the weights grows with `strength`, so use 0.1 or more with small learning rates.
    seed : int, torch.Generator or None, default None
        Seed of the initial mu, which are uniform on the sphere. With None, every flow has other mu. Torch's global
        random state is not used.
    dtype, device : optional
        Dtype and device of the parameters; by default those of torch.

    Notes
    -----
    Each block is T(x) = exp_x(Proj_x(grad phi(x))) with phi(x) = sum_i alpha_i / beta_i exp(beta_i (<x, mu_i> - 1)).
    Every block is a diffeomorphism for any value of the parameters, because alpha is a softmax with one additional
    constant term, beta a softplus, and mu a normalized vector (Rezende et al., "Normalizing Flows on Tori and Spheres",
    2020, https://arxiv.org/abs/2002.02428). Second derivatives raise an error.

    Examples
    --------
    >>> import torch
    >>> from sphereot.flows import ExponentialMapFlow
    >>> flow = ExponentialMapFlow(3, n_blocks=2, n_components=5, strength=0.5, seed=0)
    >>> x = torch.eye(3)
    >>> y, log_det = flow.forward_and_log_det(x)
    >>> bool((flow.inverse(y) - x).abs().max() < 1e-5)
    True
    """

    def __init__(
        self,
        dim: int,
        n_blocks: int = 1,
        n_components: int = 10,
        *,
        strength: float = 0.01,
        seed: int | torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim = as_int("dim", dim, 2, "the dimension of the space around the sphere")
        self.n_blocks = as_int("n_blocks", n_blocks, 1, "the number of blocks")
        self.n_components = as_int("n_components", n_components, 1, "the number of components")
        if not 0 < strength < 1:
            raise ValueError(f"strength must be in (0, 1), got {strength}.")
        shape = (self.n_blocks, self.n_components)
        mu = HypersphericalUniform(self.dim, dtype=dtype, device=device).sample(shape, seed=seed)
        # Initially equal weights of the given sum, and beta = 1.
        logit = math.log(strength / (1 - strength) / self.n_components)
        self.alpha_logits = nn.Parameter(torch.full_like(mu[..., 0], logit))
        self.beta_roots = nn.Parameter(torch.full_like(mu[..., 0], math.log(math.e - 1)))
        self.mu_vectors = nn.Parameter(mu)

    def extra_repr(self) -> str:
        """Return the sizes of the flow, for the printed module."""
        return f"dim={self.dim}, n_blocks={self.n_blocks}, n_components={self.n_components}"

    def components(self) -> Components:
        """Compute alpha, beta and mu of all blocks, differentiable in the parameters."""
        return Components(*_constrain(self.alpha_logits, self.beta_roots, self.mu_vectors))

    def forward(self, x: Tensor) -> Tensor:
        """Map unit vectors (..., d) through all blocks, without the determinant."""
        columns = self._columns("x", x)
        with full_precision(x):
            slopes, loads = self._coefficients(columns.dtype, hessian=False)
            if _kernel_serves(columns, slopes):
                columns = _KernelFlow.apply(columns, slopes, loads)[0]
            else:
                for block in zip(slopes.unbind(0), loads.unbind(0), strict=True):
                    columns = move(columns, moments(columns, *block))
        return _rows(columns).reshape(x.shape)

    def forward_and_log_det(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map unit vectors (..., d) through all blocks, and compute the log-determinant (...) of the map.

        It is the determinant of the differential between tangent spaces: 1/2 log det(E^T J^T J E) in the paper.
        """
        columns = self._columns("x", x)
        with full_precision(x):
            slopes, loads = self._coefficients(columns.dtype, hessian=True)
            if _kernel_serves(columns, slopes):
                columns, log_det = _KernelFlow.apply(columns, slopes, loads)
            else:
                log_det = columns.new_zeros(columns.shape[1])
                for block in zip(slopes.unbind(0), loads.unbind(0), strict=True):
                    columns, of_block = move_with_log_det(columns, moments(columns, *block))
                    log_det = log_det + of_block
        return _rows(columns).reshape(x.shape), log_det.reshape(x.shape[:-1])

    def inverse(self, y: Tensor) -> Tensor:
        """Compute the points (..., d) that the flow maps to unit vectors `y`, by Newton's method on the sphere.

        They are computed in double precision, and are differentiable in `y` and in the parameters. A RuntimeError is
        raised if the image of a solution is not `y`, because the flow is too steep for its precision.
        """
        given = self._columns("y", y)
        columns = normalize(wide(given), dim=0)  # unit vectors in double precision too
        with full_precision(y):
            all_slopes, all_loads = self._coefficients(columns.dtype, hessian=True)
            for k in reversed(range(self.n_blocks)):
                slopes, loads = all_slopes[k], all_loads[k]
                solution = solve(columns.detach(), slopes.detach(), loads.detach(), block=k)
                tracked = torch.is_grad_enabled() and (columns.requires_grad or slopes.requires_grad)
                columns = attach_gradient(solution, columns, slopes, loads) if tracked else solution
        return _rows(columns).reshape(y.shape).to(given.dtype)

    def default_base(self) -> HypersphericalUniform:
        """Return the uniform distribution on the sphere, without checks of points, which the transform has checked."""
        like = {"dtype": self.mu_vectors.dtype, "device": self.mu_vectors.device}
        return HypersphericalUniform(self.dim, validate_args=False, **like)

    def _coefficients(self, dtype: torch.dtype, *, hessian: bool) -> tuple[Tensor, Tensor]:
        """Compute slopes (B, K, d + 1), and loads (B, K, d), or (B, K, d + d^2) with the Hessian, of all blocks."""
        free = (p.to(dtype) for p in (self.alpha_logits, self.beta_roots, self.mu_vectors))
        return _Coefficients.apply(*free, hessian)

    def _columns(self, name: str, points: Tensor) -> Tensor:
        """Validate points, and return them as columns (d, n) in the wider type of points and parameters."""
        points = flow_points(name, points, self.dim, self.mu_vectors)
        columns = torch.stack(points.reshape(-1, self.dim).unbind(1))  # half the time of .T.contiguous()
        if columns.numel() > 0 and in_host_memory(columns):
            squares = (columns.detach() * columns.detach()).sum(0)
            # Much faster than the check that explains what is wrong. Comparisons with NaN are false.
            if not squares.sub_(1.0).abs_().max().item() < 2e-6:
                check_points(name, points)
        return columns


def _rows(columns: Tensor) -> Tensor:
    return torch.stack(columns.unbind(0), dim=1)


def _constrain(logits: Tensor, roots: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Map free parameters to weights alpha (B, K), concentrations beta (B, K) and centers mu (B, K, d)."""
    rest = logits.new_zeros(logits.shape[0], 1)
    alpha = torch.softmax(torch.cat([logits, rest], dim=-1), dim=-1)[..., :-1]
    return alpha, softplus(roots), normalize(vectors, dim=-1)


class _Coefficients(torch.autograd.Function):
    """Slopes (beta mu, -beta), and loads alpha mu, followed by alpha beta mu mu^T for the Hessian, of all blocks.

    Gradients are written by hand, because autograd needs longer for its records than for these small arrays.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, roots: Tensor, vectors: Tensor, hessian: bool) -> tuple[Tensor, Tensor]:
        alpha, beta, mu = _constrain(logits, roots, vectors)
        ctx.save_for_backward(alpha, beta, mu, roots, vectors)
        alpha, beta = alpha[..., None], beta[..., None]
        slopes = torch.cat([beta * mu, -beta], dim=-1)
        loads = alpha * mu
        if hessian:
            outer = mu[..., :, None] * (beta * loads)[..., None, :]
            loads = torch.cat([loads, outer.flatten(-2)], dim=-1)
        return slopes, loads

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        refuse_second_derivatives()
        d_slopes, d_loads = cotangents
        alpha, beta, mu, roots, vectors = ctx.saved_tensors
        dim = mu.shape[-1]
        d_beta_mu, d_alpha_mu = d_slopes[..., :dim], d_loads[..., :dim]
        d_mu = (beta[..., None] * d_beta_mu).addcmul_(alpha[..., None], d_alpha_mu)
        d_alpha = (mu * d_alpha_mu).sum(-1)
        d_beta = (mu * d_beta_mu).sum(-1).sub_(d_slopes[..., dim])
        if d_loads.shape[-1] > dim:
            d_outer = d_loads[..., dim:].unflatten(-1, (dim, dim))
            pull = ((d_outer + d_outer.mT) * mu[..., None, :]).sum(-1)
            d_product = (mu * pull).sum(-1).mul_(0.5)  # of alpha beta
            d_mu.addcmul_((alpha * beta)[..., None], pull)
            d_alpha.addcmul_(beta, d_product)
            d_beta.addcmul_(alpha, d_product)
        d_logits = alpha * (d_alpha - (alpha * d_alpha).sum(-1, keepdim=True))
        d_vectors = torch.addcmul(d_mu, mu, (mu * d_mu).sum(-1, keepdim=True), value=-1)
        d_vectors.div_(torch.linalg.vector_norm(vectors, dim=-1, keepdim=True))
        return d_logits, d_beta.mul_(torch.sigmoid(roots)), d_vectors, None


def _kernel_serves(columns: Tensor, slopes: Tensor) -> bool:
    """Whether the compiled kernel can map points (d, n): on S^2, in host memory, outside torch.compile."""
    return (
        kernel_serves(columns)
        and columns.shape[0] == 3
        and columns.shape[1] > 0
        and columns.dtype == slopes.dtype
        and not torch.compiler.is_compiling()
    )


class _KernelFlow(torch.autograd.Function):
    """Images (3, n) under all blocks, and log-determinants (n,) if loads include the Hessian, in one kernel call."""

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
        record = FlowRecord(states.numpy(), moments.numpy(), determinants[0].numpy() if determinants else None)
        gradients = flow_backward(
            record,
            slopes.contiguous().numpy(),
            loads.contiguous().numpy(),
            d_y.contiguous().numpy(),
            None if d_log_det is None else d_log_det.contiguous().numpy(),
        )
        return tuple(map(torch.from_numpy, gradients))
