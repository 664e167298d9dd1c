"""Divergences between latent codes and a sample of a prior, with which the paper compares SSW (Table 2).

Each is a plain loss `divergence(codes, target, seed=None)` of unit vectors (n, d) and (m, d).
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_int, as_positive
from sphereot._support.extras import require
from sphereot.torch.euclidean import mean_line_cost, random_directions, sliced_wasserstein


class Divergence(nn.Module):
    """Base of the divergences: it validates the codes and the sample.

    A subclass has `between(codes, target, seed)`, which gets tensors of one floating type and device, in float32 or
    float64, with autocast switched off.
    """

    takes_seed = True  # for `SphericalAutoencoder`

    def forward(self, codes: Tensor, target: Tensor, seed: int | torch.Generator | None = None) -> Tensor:
        """Divergence between codes (n, d) and a sample of the prior (m, d), as a scalar.

        Parameters
        ----------
        codes, target : tensor, shape (n, d) and (m, d)
            Unit vectors.
        seed : int, torch.Generator or None
            Where random slices come from; None draws new slices in every call.
        """
        if codes.ndim != 2 or codes.shape[0] == 0:
            raise ValueError(f"codes: shape is {tuple(codes.shape)}, but codes are rows of a tensor (n, d).")
        if target.ndim != 2 or target.shape[0] == 0 or target.shape[1] != codes.shape[1]:
            raise ValueError(
                f"target: shape is {tuple(target.shape)}, but codes {tuple(codes.shape)} are compared with points "
                f"(m, {codes.shape[1]}); give a sample on the same sphere."
            )
        if codes.dtype in (torch.float16, torch.bfloat16):
            codes = codes.float()  # differences of a divergence are smaller than the rounding of half precision
        with torch.autocast(codes.device.type, enabled=False):
            return self.between(codes, target.to(codes), seed)

    def between(self, codes: Tensor, target: Tensor, seed: int | torch.Generator | None) -> Tensor:
        """Divergence between codes (n, d) and points (m, d) of the prior."""
        raise NotImplementedError


class SW(Divergence):
    """Euclidean SW_2^2 to a sample of the prior: SWAE (Kolouri et al. 2018).

    Parameters
    ----------
    n_projections : int
        The number of directions.
    """

    def __init__(self, n_projections: int = 1000) -> None:
        super().__init__()
        self.n_projections = as_int("n_projections", n_projections, 1, "the number of directions")

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.n_projections}"

    def between(self, codes: Tensor, target: Tensor, seed: int | torch.Generator | None) -> Tensor:
        """SW_2^2 between codes and target."""
        return sliced_wasserstein(codes, target, self.n_projections, seed)


class CircularGSW(Divergence):
    """Generalized SW_2^2 with the circular defining function: circular GSWAE (Kolouri et al. 2019).

    A code z is projected to its distance from a random center, g(z, theta) = |z - radius * theta|.

    Parameters
    ----------
    n_projections : int
        The number of centers.
    radius : float
        Distance of the centers from the origin; 2 in the paper's public code.
    """

    def __init__(self, n_projections: int = 1000, radius: float = 2.0) -> None:
        super().__init__()
        self.n_projections = as_int("n_projections", n_projections, 1, "the number of centers")
        self.radius = as_positive("radius", radius, "the distance of the centers")

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.n_projections}, radius={self.radius:g}"

    def between(self, codes: Tensor, target: Tensor, seed: int | torch.Generator | None) -> Tensor:
        """Circular GSW_2^2 between codes and target."""
        centers = self.radius * random_directions(codes, self.n_projections, seed)
        # The product form of the distance loses half of the digits where a point lies near a center.
        exact = "donot_use_mm_for_euclid_dist"
        return mean_line_cost(*(torch.cdist(centers, points, compute_mode=exact) for points in (codes, target)))


class MMD(Divergence):
    """Maximum mean discrepancy, squared, as the unbiased estimate of WAE-MMD (Tolstikhin et al. 2018).

    Parameters
    ----------
    kernel : {"imq", "rbf"}
        Inverse multiquadric, C / (C + |x - y|^2), or Gaussian, exp(-|x - y|^2 / C).
    scale : float, optional
        C; by default 2 d, as in WAE for a prior of unit variance, and in the paper's public code.

    Notes
    -----
    The pairs of a point with itself are left out, so that the mean over samples is the squared MMD of the
    distributions, and the value can be negative.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.baselines import MMD
    >>> codes, target = torch.eye(3), -torch.eye(3)
    >>> round(float(MMD("rbf", scale=2.0)(codes, target)), 4)  # 2 e^-1 - 2 (e^-2 + 2 e^-1) / 3
    0.155
    """

    def __init__(self, kernel: Literal["imq", "rbf"] = "imq", scale: float | None = None) -> None:
        super().__init__()
        if kernel not in ("imq", "rbf"):
            raise ValueError(f"kernel: got {kernel!r}; choose 'imq' or 'rbf'.")
        self.kernel = kernel
        self.scale = None if scale is None else as_positive("scale", scale, "the scale of the kernel")

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.kernel!r}" + ("" if self.scale is None else f", scale={self.scale:g}")

    def between(self, codes: Tensor, target: Tensor, seed: int | torch.Generator | None) -> Tensor:
        """Unbiased estimate of the squared MMD."""
        n, m = codes.shape[0], target.shape[0]
        if min(n, m) < 2:
            raise ValueError(f"codes, target: got {n} and {m} points, but an unbiased MMD needs at least 2 of each.")
        within = [(k.sum() - k.diagonal().sum()) / (k.shape[0] * (k.shape[0] - 1))
                  for k in (self._matrix(codes, codes), self._matrix(target, target))]  # fmt: skip
        return within[0] + within[1] - 2.0 * self._matrix(codes, target).mean()

    def _matrix(self, x: Tensor, y: Tensor) -> Tensor:
        """Kernel of all pairs, (n, m)."""
        squares = ((x * x).sum(1)[:, None] + (y * y).sum(1) - 2.0 * x @ y.T).clamp(min=0.0)
        scale = 2.0 * x.shape[1] if self.scale is None else self.scale
        return scale / (scale + squares) if self.kernel == "imq" else torch.exp(-squares / scale)


class Sinkhorn(Divergence):
    """Sinkhorn divergence with half of the squared geodesic distance as cost, by geomloss: SAE (Patrini et al. 2020).

    Parameters
    ----------
    blur : float
        Square root of the entropic regularization, in radians.
    scaling : float
        Ratio of successive regularizations while they decrease to the last one, between 0 and 1: closer to 1 is more
        accurate and slower.

    Notes
    -----
    The cost is arc(x, y)^2 / 2, with the arc in radians; the code of the paper takes half the squared Euclidean
    distance, and stops after a few iterations (`diameter=0.01`). geomloss takes as many iterations as `scaling`
    says, and differentiates as if they had converged. Needs the package geomloss (extra `paper`).

    Examples
    --------
    >>> import torch
    >>> from paper.learning.baselines import Sinkhorn
    >>> x, y = torch.eye(2)[:1], torch.eye(2)[1:]
    >>> round(float(Sinkhorn()(x, y)), 3)  # (pi / 2)^2 / 2
    1.234
    """

    def __init__(self, blur: float = 0.05, scaling: float = 0.5) -> None:
        super().__init__()
        require("geomloss", "the Sinkhorn divergence", extra="paper")
        self.blur, self.scaling = as_positive("blur", blur, "the blur"), as_positive("scaling", scaling, "the ratio")
        if not self.scaling < 1:
            raise ValueError(f"scaling: got {scaling!r}, but a ratio strictly between 0 and 1 is needed.")

    def extra_repr(self) -> str:
        """The options."""
        return f"blur={self.blur:g}, scaling={self.scaling:g}"

    def between(self, codes: Tensor, target: Tensor, seed: int | torch.Generator | None) -> Tensor:
        """Sinkhorn divergence between codes and target."""
        from geomloss import SamplesLoss

        loss = SamplesLoss(
            "sinkhorn",
            p=2,
            blur=self.blur,
            scaling=self.scaling,
            diameter=math.pi,
            cost=half_squared_arcs,
            backend="tensorized",
        )
        value: Tensor = loss(codes, target)
        return value


def half_squared_arcs(x: Tensor, y: Tensor) -> Tensor:
    """Half of the squared geodesic distances in radians of all pairs of unit vectors (..., n, d) and (..., m, d).

    The gradient is finite at equal points, and at antipodes, where the distance itself has none.
    """
    squared_sines = (1.0 - x @ y.transpose(-1, -2)) / 2.0  # of half the arc
    tiny = torch.finfo(x.dtype).eps ** 1.5  # the root of less has a derivative that overflows with its products
    arcs = 2.0 * torch.asin(squared_sines.clamp(tiny, 1.0 - 2.0 * torch.finfo(x.dtype).eps).sqrt())
    return arcs * arcs / 2.0
