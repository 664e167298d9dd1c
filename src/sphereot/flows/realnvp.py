"""RealNVP on R^m, and after a stereographic projection of the sphere: the model "Stereo" of the paper (Appendix B.4).

RealNVP consists of affine couplings, which move one half of the coordinates by a function of the other half.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from sphereot import sphere
from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_int
from sphereot.flows.flow import FlowTransform, StandardNormal, flow_points

_SLOPE = 0.2  # of the leaky rectifier, as in the paper
_LARGEST_LOG_SCALE = 5.0


class RealNVP(FlowTransform):
    """RealNVP, a normalizing flow on R^m: couplings (a, b) -> (a, exp(s(a)) b + t(a)), then a and b exchange roles.

    Parameters
    ----------
    features : int
        Dimension m of the space, at least 2.
    n_blocks : int, default 10
        Number of couplings.
    hidden : sequence of int, default (25, 25, 25)
        Widths of the hidden layers of the networks s and t.
    seed : int, torch.Generator or None, default None
        Seed of the initial weights. With None, every flow has other weights. Torch's global random state is not used.
    dtype, device : optional
        Dtype and device of the parameters; by default those of torch.

    Notes
    -----
    Dinh et al., "Density estimation using Real NVP", 2017, https://arxiv.org/abs/1605.08803. For R^2, the default has
    27,520 parameters as in the paper: this is the number for three hidden layers of 25 units, not for ten. The last
    layers start at zero, so the untrained map is the identity. Logarithms of scales are bounded by s / (1 + |s| / 5),
    which has slope 1 at 0, so that a large step in training cannot overflow.

    Examples
    --------
    >>> import torch
    >>> from sphereot.flows import RealNVP
    >>> flow = RealNVP(2)
    >>> sum(p.numel() for p in flow.parameters())
    27520
    >>> flow(torch.ones(1, 2))
    tensor([[1., 1.]], grad_fn=<CatBackward0>)
    """

    def __init__(
        self,
        features: int,
        n_blocks: int = 10,
        hidden: Sequence[int] = (25, 25, 25),
        *,
        seed: int | torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.features = as_int("features", features, 2, "the dimension, for it to have two halves,")
        self.n_blocks = as_int("n_blocks", n_blocks, 1, "the number of couplings")
        widths = [as_int("hidden", width, 1, "the width of a layer") for width in hidden]
        generator = torch_generator(seed, device or "cpu")
        halves = (self.features // 2, self.features - self.features // 2)
        self.log_scales, self.shifts = nn.ModuleList(), nn.ModuleList()
        for k in range(self.n_blocks):
            held, moved = halves if k % 2 == 0 else halves[::-1]
            for networks in (self.log_scales, self.shifts):
                networks.append(_network([held, *widths, moved], generator, dtype, device))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the images of vectors (..., m)."""
        return self.forward_and_log_det(x)[0]  # the determinant is a sum of numbers that the image needs too

    def forward_and_log_det(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the images of vectors (..., m), and the sums of the logarithms of the scales (...)."""
        x = self._vectors("x", x)
        log_det = x.new_zeros(x.shape[:-1])
        for k in range(self.n_blocks):
            held, moved = self._halves(x, k)
            log_scale = self._log_scale(k, held)
            moved = moved * torch.exp(log_scale) + self.shifts[k](held)
            x = self._merge_halves(held, moved, k)
            log_det = log_det + log_scale.sum(-1)
        return x, log_det

    def inverse(self, y: Tensor) -> Tensor:
        """Compute the vectors whose images are `y` (..., m), in closed form."""
        y = self._vectors("y", y)
        for k in reversed(range(self.n_blocks)):
            held, moved = self._halves(y, k)
            y = self._merge_halves(held, (moved - self.shifts[k](held)) * torch.exp(-self._log_scale(k, held)), k)
        return y

    def default_base(self) -> StandardNormal:
        """Return the standard normal distribution."""
        like = next(self.parameters())
        return StandardNormal(self.features, dtype=like.dtype, device=like.device)

    def _log_scale(self, k: int, held: Tensor) -> Tensor:
        raw: Tensor = self.log_scales[k](held)
        return raw / (1 + raw.abs() / _LARGEST_LOG_SCALE)

    def _halves(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        first, second = x[..., : self.features // 2], x[..., self.features // 2 :]
        return (first, second) if k % 2 == 0 else (second, first)

    def _merge_halves(self, held: Tensor, moved: Tensor, k: int) -> Tensor:
        return torch.cat([held, moved] if k % 2 == 0 else [moved, held], dim=-1)

    def _vectors(self, name: str, vectors: Tensor) -> Tensor:
        if not isinstance(vectors, Tensor) or not vectors.is_floating_point():
            got = f"dtype {vectors.dtype}" if isinstance(vectors, Tensor) else type(vectors).__name__
            raise TypeError(f"{name} must be a floating torch tensor of shape (..., {self.features}), got {got}.")
        if vectors.ndim == 0 or vectors.shape[-1] != self.features:
            raise ValueError(f"{name} must have shape (..., {self.features}), got {tuple(vectors.shape)}.")
        return vectors


class StereographicFlow(FlowTransform):
    """Normalizing flow from the sphere S^{d-1} to R^{d-1}: stereographic projection from (-1, 0, ..., 0), then RealNVP.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere S^{d-1}, at least 3, because couplings need two coordinates.
    n_blocks, hidden, seed, dtype, device : optional
        As in `RealNVP`.

    Notes
    -----
    The untrained flow is the projection. The point that has no projection is replaced by a point at the distance of
    rounding, so its density is very small and finite.

    Examples
    --------
    >>> import torch
    >>> from sphereot.flows import StereographicFlow
    >>> StereographicFlow(3)(torch.tensor([[0.0, 0.6, 0.8]])).detach()
    tensor([[0.6000, 0.8000]])
    """

    def __init__(
        self,
        dim: int,
        n_blocks: int = 10,
        hidden: Sequence[int] = (25, 25, 25),
        *,
        seed: int | torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim = as_int("dim", dim, 3, "the dimension of the space around the sphere")
        self.plane = RealNVP(self.dim - 1, n_blocks, hidden, seed=seed, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the images of unit vectors (..., d), shape (..., d-1)."""
        images: Tensor = self.plane(self._project(x))
        return images

    def forward_and_log_det(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the images of unit vectors (..., d), shape (..., d-1), and log |det J| (...)."""
        u = self._project(x)
        z, log_det = self.plane.forward_and_log_det(u)
        return z, log_det + stereographic_log_det(u)

    def inverse(self, y: Tensor) -> Tensor:
        """Compute the unit vectors (..., d) whose images are `y` (..., d-1)."""
        points: Tensor = sphere.inverse_stereographic(self.plane.inverse(y))
        return points

    def inverse_and_log_det(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the unit vectors (..., d) whose images are `y` (..., d-1), and log |det J| of the inverse (...)."""
        u, log_det = self.plane.inverse_and_log_det(y)
        return sphere.inverse_stereographic(u), log_det - stereographic_log_det(u)

    def default_base(self) -> StandardNormal:
        """Return the standard normal distribution on R^{d-1}."""
        return self.plane.default_base()

    def _project(self, x: Tensor) -> Tensor:
        x = flow_points("x", x, self.dim, next(self.parameters()))
        at_pole = (x[..., :1] < 0) & (x[..., 1:] == 0).all(-1, keepdim=True)
        near_pole = torch.eye(1, self.dim, dtype=x.dtype, device=x.device)[0].neg()
        near_pole[1] = torch.finfo(x.dtype).eps
        projected: Tensor = sphere.stereographic(torch.where(at_pole, near_pole, x))
        return projected


def stereographic_log_det(u: Tensor) -> Tensor:
    """Compute the log-determinant of the stereographic projection at points with the images `u` (..., d-1).

    It is (d - 1) log((1 + |u|^2) / 2), because the projection stretches every direction of the tangent space by
    (1 + |u|^2) / 2. The paper prints the exponent d, with which densities on S^{d-1} do not integrate to 1.

    >>> stereographic_log_det(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))
    tensor([0.0000, 0.8109])
    """
    return u.shape[-1] * (torch.log1p((u * u).sum(-1)) - math.log(2.0))


def _network(
    widths: list[int],
    generator: torch.Generator,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        # Torch's own initialization would use the global random state.
        layer = nn.utils.skip_init(nn.Linear, before, after, dtype=dtype, device=device or "cpu")
        nn.init.kaiming_uniform_(layer.weight, _SLOPE, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.LeakyReLU(_SLOPE)]
    nn.init.zeros_(layers[-2].weight)
    return nn.Sequential(*layers[:-1])
