"""Loss modules: `SSWLoss` between two batches, `UniformityLoss` to the uniform measure on the sphere."""

import secrets
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sphereot._arrays.libraries import is_torch_traced, take_root
from sphereot._arrays.random import seed_of_draw
from sphereot._arrays.types import Method, UniformMethod
from sphereot._arrays.validation import (
    InvalidValuesError,
    as_int,
    as_method,
    as_order,
    as_points,
    as_slice_count,
    as_weights,
    in_precision_of_order,
    require_same_dim,
    require_same_kind,
    require_values,
)
from sphereot._backends import torch_backend as backend
from sphereot._backends.protocol import Measure
from sphereot.distance.ssw import require_exact_options
from sphereot.slicing.circles import great_circles
from sphereot.slicing.operators import next_great_circles_operator
from sphereot.torch.distributed import (
    gather_batch,
    local_slices,
    mean_over_ranks,
    require_equal_batches,
    world_size,
)

_REDUCTIONS = ("mean", "sum", "none")

NORMALIZE_REMEDY = "give the loss normalize=True"


class _SlicedLoss(nn.Module):
    """Base of the losses: great circles and their state, reduction over a batch, distribution over processes."""

    frames: Tensor | None

    def __init__(
        self,
        p: float = 2,
        n_projections: int = 200,
        *,
        method: Method = "iid",
        fixed: bool = False,
        seed: int | None = None,
        normalize: bool = False,
        root: bool = False,
        reduction: Literal["mean", "sum", "none"] = "mean",
        gather: bool = False,
        block_size: int | None = None,
        nan_on_invalid: bool = False,
    ) -> None:
        super().__init__()
        self.p = as_order(p)
        self.n_projections = as_slice_count(n_projections)
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction: got {reduction!r}; choose one of {', '.join(map(repr, _REDUCTIONS))}.")
        if block_size is not None:
            as_int("block_size", block_size, 1, "the number of slices per block")
        if seed is not None:
            seed = as_int("seed", seed, 0, "the seed of a loss, which counts on from it,")
        self.method, self.fixed, self.seed = as_method(method), fixed, seed
        self.normalize, self.root, self.reduction = normalize, root, reduction
        self.gather, self.block_size, self.nan_on_invalid = gather, block_size, nan_on_invalid
        # Circles that are kept must not depend on the transform of torch.func in which they are drawn.
        self._fixed_seed = secrets.randbits(63) if fixed and seed is None else seed
        # Not a buffer: those move with the model, and to ask a device for the number would wait for it.
        with torch.inference_mode(False):
            self._draws = torch.zeros((), dtype=torch.int64, device="cpu")
        self.register_buffer("frames", None)

    def extra_repr(self) -> str:
        """The options that are not the default."""
        shown = {"p": f"{self.p:g}"} | ({} if self.method == "exact" else {"n_projections": self.n_projections})
        shown["method"] = repr(self.method)
        defaults = {"fixed": False, "seed": None, "normalize": False, "root": False, "reduction": "mean"}
        defaults |= {"gather": False, "block_size": None, "nan_on_invalid": False, "unbiased": False}
        for name, default in defaults.items():
            value = getattr(self, name, default)
            if value != default:
                shown[name] = repr(value)
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """With a seed: how many times slices were drawn, so that the stream goes on where a saved training stopped."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.seed is not None and not self.fixed:
            destination[prefix + "draws"] = self._draws.clone()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # Torch hands over a copy. A state without draws is from before the loss was part of the model.
        frames, draws = (state_dict.pop(prefix + name, None) for name in ("frames", "draws"))
        if draws is not None:
            self._draws.copy_(draws)
        if self.fixed and frames is not None and frames.shape[0] != self.n_projections:
            error_msgs.append(f"{prefix}frames: the state has {frames.shape[0]} slices, the loss {self.n_projections}.")
        elif self.fixed and frames is not None:
            device = frames.device if self.frames is None else self.frames.device
            self.frames = frames.detach().clone().to(device)
        elif self.fixed:
            self.frames = None  # saved before the first call
        loaded_frames, self.frames = self.frames, None
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self.frames = loaded_frames

    def _apply(self, fn: Any, recurse: bool = True) -> "_SlicedLoss":
        """Move with the model, but keep the precision of the frames: rounded to half they are not orthonormal."""
        frames, self.frames = self.frames, None
        super()._apply(fn, recurse)
        self.frames = None if frames is None else frames.to(fn(frames).device)
        return self

    @property
    def takes_seed(self) -> bool:
        """Whether slices can come from the `seed` of a call: the loss has slices, but no seed and no fixed ones."""
        return self.method != "exact" and self.seed is None and not self.fixed

    def _slices(self, x: Tensor, seed: int | torch.Generator | None = None) -> Tensor:
        """The great circles of this call; the same on every rank when the batch is shared."""
        if self.fixed and self.frames is not None:
            if self.frames.shape[1] != x.shape[-1]:
                raise ValueError(
                    f"the loss holds great circles for points in dimension {self.frames.shape[1]}, but these have "
                    f"dimension {x.shape[-1]}; make a new loss for them."
                )
            return self.frames.to(x.device)
        if self.gather and world_size() > 1 and self.seed is None and seed is None:
            raise ValueError("gather: the ranks must draw the same slices; give the loss a seed.")
        dim, method = x.shape[-1], self.method
        if self.fixed or self.seed is None:
            seed = self._fixed_seed if seed is None else seed
            frames = great_circles(self.n_projections, dim, method=method, seed=seed, like=x)
        elif is_torch_traced():  # counted by the operator: torch.func forbids `+=` on a tensor from outside
            frames = next_great_circles_operator(self.n_projections, dim, method, self.seed, self._draws, x)
        else:
            drawn = seed_of_draw(self.seed, int(self._draws))
            frames = great_circles(self.n_projections, dim, method=method, seed=drawn, like=x)
            self._draws += 1
        if self.fixed:
            self.frames = _take_out_of_transforms(frames)
        return frames

    def _require_no_seed_of_its_own(self, seed: int | torch.Generator | None) -> None:
        if seed is not None and not self.takes_seed:
            raise ValueError(
                "seed: the loss has a seed, keeps its slices or has none; leave out the seed of the call, or make the "
                "loss without seed, fixed and method='exact'."
            )

    def _points(self, name: str, points: Tensor) -> Tensor:
        if not isinstance(points, Tensor):
            raise TypeError(f"{name}: got {type(points).__name__}; pass a torch tensor of shape (n, d) or (B, n, d).")
        if points.ndim not in (2, 3):
            raise ValueError(
                f"{name}: shape is {tuple(points.shape)}, but points are (n, d), or (B, n, d) for a batch."
            )
        if points.ndim == 3 and points.shape[0] == 0:
            raise ValueError(f"{name}: shape is {tuple(points.shape)}, a batch of no samples; give at least one.")
        if points.shape[-1] < 2:
            raise ValueError(f"{name}: points have {points.shape[-1]} coordinate, but a sphere needs at least 2.")
        if not points.is_floating_point():
            raise TypeError(f"{name}: dtype is {points.dtype}, but a floating dtype is needed.")
        require_values(name, points)
        return scale_to_unit(points) if self.normalize else points

    def _reduce(self, values: list[Tensor], batched: bool) -> Tensor:
        if not batched:
            return values[0]
        stacked = torch.stack(values)
        if self.reduction == "none":
            return stacked
        return stacked.mean() if self.reduction == "mean" else stacked.sum()

    def _over_ranks(self, frames: Tensor) -> Tensor:
        return local_slices(frames) if self.gather else frames

    def _gather(self, points: Tensor) -> Tensor:
        return gather_batch(points) if self.gather else points

    def _rooted(self, value: Tensor) -> Tensor:
        if self.gather:
            value = mean_over_ranks(value)
        return torch.as_tensor(take_root(value, self.p, self.root))


class SSWLoss(_SlicedLoss):
    """Spherical Sliced-Wasserstein distance between two batches of unit vectors, SSW_p^p.

    Parameters
    ----------
    p : float
        Order, from 1 to 16.
    n_projections : int
        The number of great circles.
    method : {"iid", "orthogonal", "quasi"}
        How they are drawn; see `sphereot.great_circles`.
    fixed : bool
        Draw the great circles in the first call and keep them (they are part of `state_dict`), instead of new ones in
        every call. The first call must not be inside a compiled transform of `torch.func`.
    seed : int, optional
        Makes the slices reproducible, the first ones those of `ssw(seed=seed)`; the number of draws is part of
        `state_dict`, so that a resumed training goes on in the same stream. A recomputation in the backward pass
        (`torch.utils.checkpoint`) counts as a draw: there, use `fixed=True`.
    normalize : bool
        Scale the points to unit length first. Without it, points that are not unit vectors are an error.
    root : bool
        Return SSW_p instead of SSW_p^p.
    reduction : {"mean", "sum", "none"}
        For input of shape (B, n, d): what to do with the B values. A single pair of samples (n, d) gives a scalar.
    gather : bool
        Under `torch.distributed`, compare the whole batch of all ranks: points are gathered (differentiably), the
        slices divided among the ranks, and value and gradients are those of one process with the whole batch. Needs
        a `seed`, and batches of the same shape and dtype on each rank. `DistributedDataParallel` averages the
        parameters' gradients over ranks: multiply the loss by the number of ranks there.
    block_size : int, optional
        Off the CPU: the number of slices per block in memory.
    nan_on_invalid : bool
        Return NaN for values that are not valid (NaN, infinity, other lengths than 1, negative weights), instead of
        raising an error, so that a training can skip the step.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import SSWLoss
    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.randn(64, 8, generator=generator, requires_grad=True)
    >>> y = torch.randn(64, 8, generator=generator)
    >>> loss = SSWLoss(n_projections=50, seed=0, normalize=True)
    >>> loss
    SSWLoss(p=2, n_projections=50, method='iid', seed=0, normalize=True)
    >>> loss(x, y).backward()
    >>> x.grad.shape
    torch.Size([64, 8])
    """

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        x_weights: Tensor | None = None,
        y_weights: Tensor | None = None,
        *,
        seed: int | torch.Generator | None = None,
    ) -> Tensor:
        """The loss between `x` (n, d) and `y` (m, d), or between batches of them (B, n, d) and (B, m, d).

        A loss without a seed and fixed slices can get a `seed` for those of this call.
        """
        self._require_no_seed_of_its_own(seed)
        x, y = self._points("x", x), self._points("y", y)
        if x.ndim != y.ndim or (x.ndim == 3 and x.shape[0] != y.shape[0]):
            raise ValueError(
                f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; both need the same batch dimension."
            )
        if self.gather and (x_weights is not None or y_weights is not None):
            raise ValueError("gather: weights are not gathered; leave them out.")
        if self.gather:
            require_equal_batches(x=x, y=y)
        frames = self._over_ranks(self._slices(x, seed))
        weights = (_weights("x_weights", x_weights, x), _weights("y_weights", y_weights, y))
        values = [
            self._rooted(self._between(self._gather(member_x), self._gather(member_y), a, b, frames))
            for member_x, member_y, a, b in zip(*(_members(t, x.ndim) for t in (x, y)), *weights, strict=True)
        ]
        return self._reduce(values, x.ndim == 3)

    def _between(self, x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None, frames: Tensor) -> Tensor:
        """SSW_p^p on frames that the loss has drawn, and that need no check of their own."""
        try:
            x, y = (as_points(name, points, remedy=NORMALIZE_REMEDY) for name, points in (("x", x), ("y", y)))
            require_same_kind(x=x, y=y)
            require_same_dim("x", x, "y", y)
            dtype = torch.promote_types(x.dtype, y.dtype)
            x, y = (in_precision_of_order(points.to(dtype), self.p) for points in (x, y))
            measures = Measure(x, as_weights("x_weights", a, "x", x)), Measure(y, as_weights("y_weights", b, "y", y))
        except InvalidValuesError:
            if self.nan_on_invalid:
                return make_nan(x, y)
            raise
        frames = frames.to(measures[0].points.dtype)
        return backend.mean_cost(measures, frames, self.p, block_size=self.block_size)


class UniformityLoss(_SlicedLoss):
    """SSW_p^p between a batch of unit vectors and the uniform measure on the sphere.

    It needs no temperature and no negative samples, and does not blow up on small batches. For p = 2 every slice is a
    closed form (Proposition 1).

    Parameters
    ----------
    method : {"iid", "orthogonal", "quasi", "exact"}
        How great circles are drawn; or "exact", for p = 2: the mean over all great circles without drawing any, as
        `sphereot.ssw_uniform(method="exact")`. Its gradient has no noise, and its cost is O(n^2 d).
    unbiased : bool
        With `method="exact"`: leave out the pairs of a point with itself. As a metric the value is then comparable
        between batch sizes: its mean for uniform points is 0, for every n of at least 2.
    p, n_projections, fixed, seed, normalize, root, reduction, gather, block_size, nan_on_invalid
        As in `SSWLoss`; `n_projections`, `fixed`, `seed` and `block_size` have no meaning for `method="exact"`.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import UniformityLoss
    >>> embeddings = torch.nn.functional.normalize(torch.randn(32, 16, generator=torch.Generator().manual_seed(0)))
    >>> UniformityLoss(seed=0)(embeddings).shape
    torch.Size([])
    >>> UniformityLoss(method="exact", unbiased=True)
    UniformityLoss(p=2, method='exact', unbiased=True)
    """

    to_uniform = True  # for `SphericalAutoencoder`: it needs no sample of the prior

    def __init__(
        self,
        p: float = 2,
        n_projections: int = 200,
        *,
        method: UniformMethod = "iid",
        fixed: bool = False,
        seed: int | None = None,
        normalize: bool = False,
        root: bool = False,
        reduction: Literal["mean", "sum", "none"] = "mean",
        gather: bool = False,
        block_size: int | None = None,
        unbiased: bool = False,
        nan_on_invalid: bool = False,
    ) -> None:
        exact = method == "exact"
        super().__init__(
            p,
            n_projections,
            method="iid" if method == "exact" else method,
            fixed=fixed,
            seed=seed,
            normalize=normalize,
            root=root,
            reduction=reduction,
            gather=gather,
            block_size=block_size,
            nan_on_invalid=nan_on_invalid,
        )
        if exact:
            require_exact_options(self.p, 2, root, unbiased, {"seed": seed, "fixed": fixed or None})
            self.method = "exact"
        elif unbiased:
            raise ValueError(f"unbiased: got True with method={method!r}, but it needs method='exact'.")
        self.unbiased = unbiased

    def forward(self, x: Tensor, weights: Tensor | None = None, *, seed: int | torch.Generator | None = None) -> Tensor:
        """The loss of `x` (n, d), or of a batch (B, n, d); `seed` as in `SSWLoss`."""
        self._require_no_seed_of_its_own(seed)
        x = self._points("x", x)
        if self.gather and weights is not None:
            raise ValueError("gather: weights are not gathered; leave them out.")
        if self.gather:
            require_equal_batches(x=x)
        frames = None if self.method == "exact" else self._over_ranks(self._slices(x, seed))
        values = [
            self._rooted(self._to_uniform(self._gather(member), a, frames))
            for member, a in zip(_members(x, x.ndim), _weights("weights", weights, x), strict=True)
        ]
        return self._reduce(values, x.ndim == 3)

    def _to_uniform(self, x: Tensor, weights: Tensor | None, frames: Tensor | None) -> Tensor:
        try:
            points = in_precision_of_order(as_points("x", x, remedy=NORMALIZE_REMEDY), self.p)
            measure = Measure(points, as_weights("weights", weights, "x", points))
        except InvalidValuesError:
            if self.nan_on_invalid:
                return make_nan(x)
            raise
        if frames is None:
            require_exact_options(self.p, points.shape[0], self.root, self.unbiased, {})
            return backend.pair_cost(measure, unbiased=self.unbiased)
        return backend.mean_cost((measure,), frames.to(points.dtype), self.p, block_size=self.block_size)


def _take_out_of_transforms(frames: Tensor) -> Tensor:
    """The frames as a tensor that outlives the transforms of torch.func around the call."""
    if torch.compiler.is_compiling():
        if torch._C._functorch.get_dynamic_layer_stack_depth() > 0:
            raise RuntimeError(
                "fixed: the loss draws its great circles in the first call, and cannot keep what is drawn inside a "
                "compiled transform of torch.func; call the loss once before."
            )
        return frames.detach()
    while torch._C._functorch.is_functorch_wrapped_tensor(frames):
        frames = torch._C._functorch.get_unwrapped(frames)
    return frames


def _members(points: Tensor, ndim: int) -> list[Tensor]:
    return [points] if ndim == 2 else list(points.unbind(0))


def _weights(name: str, weights: Tensor | None, points: Tensor) -> list[Tensor | None]:
    """Weights of each member of the batch; one row of weights is used for all members."""
    *batch, n, _ = points.shape
    if weights is None:
        return [None] * (batch[0] if batch else 1)
    if not isinstance(weights, Tensor):
        raise TypeError(f"{name}: got {type(weights).__name__}; pass a torch tensor of shape (n,) or (B, n).")
    if weights.shape == (n,):
        return [weights] * (batch[0] if batch else 1)
    if not batch or weights.shape != (*batch, n):
        expected = f"({n},)" + (f" or {(*batch, n)}" if batch else "")
        raise ValueError(f"{name}: shape is {tuple(weights.shape)}, but points {tuple(points.shape)} need {expected}.")
    return list(weights.unbind(0))


def scale_to_unit(points: Tensor) -> Tensor:
    """Points (..., d) scaled to unit length, in float32 or float64."""
    return nn.functional.normalize(widen(points), dim=-1)


def make_nan(*tensors: Tensor) -> Tensor:
    """NaN, with NaN as the gradient in the tensors: the value of a loss whose input is not valid."""
    return torch.stack([widen(tensor).sum() for tensor in tensors]).sum() * torch.nan


def widen(points: Tensor) -> Tensor:
    """Points of half precision in float32."""
    return points.float() if points.dtype in (torch.float16, torch.bfloat16) else points
