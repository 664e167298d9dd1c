"""Detection of array libraries (NumPy, PyTorch, JAX, CuPy), and the operations that differ between them."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import array_api_compat as compat
import numpy as np
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def namespace(*arrays: Array) -> Any:
    """The array API namespace that all `arrays` share."""
    if all(type(array) is np.ndarray for array in arrays):  # `array_namespace` takes ten times as long
        return numpy_namespace
    torch = sys.modules.get("torch")
    if torch is not None and all(isinstance(array, torch.Tensor) for array in arrays):
        from array_api_compat import torch as torch_namespace

        return torch_namespace
    return compat.array_namespace(*arrays)


def framework(array: Array) -> str:
    """The library of `array` if there is a backend for it, "numpy", "torch" or "jax"; else an empty string."""
    if is_torch(array):
        return "torch"
    if is_numpy(array):
        return "numpy"
    return "jax" if compat.is_jax_array(array) else ""


def is_numpy(array: Array) -> bool:
    """Whether `array` is a NumPy array."""
    return isinstance(array, (np.ndarray, np.generic))  # torch.compile cannot follow a union


def aligned(array: Array) -> Array:
    """A NumPy `array` with aligned memory, as the compiled kernel needs it; copied only if necessary."""
    return array if array.flags.aligned else array.copy()


def is_torch(array: Array) -> bool:
    """Whether `array` is a torch tensor; torch.compile can trace this check."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def device(array: Array) -> Any:
    """The device that `array` is on; None if JAX chooses it: under a trace, uncommitted, or spread over several."""
    if is_torch(array):
        return array.device
    if compat.is_jax_array(array):
        on_one = not _is_jax_traced(array) and array.committed and len(array.devices()) == 1
        return array.device if on_one else None
    return compat.device(array)


def kind_of(array: Array) -> str:
    """Library and type of an array, for error messages: "torch Tensor"."""
    return f"{type(array).__module__.partition('.')[0]} {type(array).__name__}"


def is_half(dtype: Any) -> bool:
    """Whether a dtype of any library is float16 or bfloat16."""
    return str(dtype).rpartition(".")[2] in {"float16", "bfloat16"}


def floating_dtype(like: Array) -> Any:
    """The dtype for computations on `like`: its dtype if that is float32 or float64, else float32."""
    xp = namespace(like)
    return like.dtype if like.dtype in (xp.float32, xp.float64) else xp.float32


def wide_dtype(like: Array) -> Any:
    """float64 where the library and device have it, else the array's own type: masses and sums are kept in it."""
    if str(device(like)).startswith("mps"):
        return like.dtype  # torch lists float64 for every device, but this one refuses it
    info = namespace(like).__array_namespace_info__()
    return info.dtypes(kind="real floating").get("float64", like.dtype)


def is_double(array: Array) -> bool:
    """Whether the dtype of an array is float64."""
    return bool(array.dtype == namespace(array).float64)


def take_in_rows(values: Array, indices: Array) -> Array:
    """values[row, indices[row, k]], for values (B, n) or (1, n) and indices (B, k), all of them in range."""
    if is_torch(values):
        # `take_along_dim` would first wrap the indices, in three times the time of the gather itself.
        return values.expand(indices.shape[0], -1).gather(-1, indices)
    return namespace(values).take_along_axis(values, indices, axis=-1)


def take_root(costs: Array, p: float, root: bool) -> Array:
    """Costs, or their p-th roots if `root` is set; the gradient of a root at 0 is 0, and NaN stays NaN."""
    if not root or p == 1:
        return costs
    xp = namespace(costs)
    zero = costs <= 0
    roots = xp.where(zero, xp.zeros_like(costs), xp.where(zero, xp.ones_like(costs), costs) ** (1.0 / p))
    return roots[()] if roots.ndim == 0 else roots


def running_sums(values: Array) -> Array:
    """Cumulative sums along the last axis; torch.compile traces them without a warning."""
    return values.cumsum(-1) if is_torch(values) else namespace(values).cumulative_sum(values, axis=-1)


def to_numpy(array: Array) -> Any:
    """Copy or view `array` as a NumPy array in main memory, without its gradient."""
    if is_torch(array):
        return array.detach().cpu().numpy()
    if is_numpy(array):
        return np.asarray(array)
    if compat.is_jax_array(array):
        if _is_jax_traced(array):
            raise TypeError(
                "This function needs values, but arrays have none while JAX traces a program (jax.jit, jax.vmap, "
                "jax.grad). Call it outside of the program. sphereot.ssw, ssw_uniform and pairwise_ssw work inside."
            )
        return np.asarray(array)
    return array.get() if compat.is_cupy_array(array) else np.from_dlpack(array)


def to_kind(values: Any, like: Array | None) -> Array:
    """Convert NumPy `values` to the library, floating dtype and device of `like`, if it is given."""
    if like is None:
        return values
    xp, dtype = namespace(like), floating_dtype(like)
    # Cast in NumPy: torch would start threads for it.
    values = values.astype(np.float32 if dtype == xp.float32 else np.float64, copy=False)
    return xp.asarray(values, device=device(like))


def without_gradient(array: Array) -> Array:
    """Detach a torch tensor from automatic differentiation; arrays of other libraries are returned unchanged."""
    return array.detach() if is_torch(array) else array


def readable(array: Array) -> Array | None:
    """The values of `array` for checks on the host, or None if it has none yet or reading them would stall a device.

    Arrays have no values while a graph is traced (jax.jit, torch.compile, torch.func.vmap). CPU tensors are read
    through NumPy: no gradient, no threads for little work.
    """
    if is_torch(array):
        return None if array.device.type != "cpu" or is_torch_traced() else array.detach().numpy()
    if compat.is_jax_array(array):
        if _is_jax_traced(array) or any(d.platform != "cpu" for d in array.devices()):
            return None
        return np.asarray(array)  # with jax.numpy, a check of a constant would become part of a trace around the call
    return None if compat.is_cupy_array(array) else array


def _is_jax_traced(array: Array) -> bool:
    return isinstance(array, sys.modules["jax"].core.Tracer)


def peek(array: Array) -> float | None:
    """The number in an `array` of shape (), or None if it cannot be read (see `readable`)."""
    value = readable(array)
    return None if value is None else float(value)


def in_host_memory(array: Array | None) -> bool:
    """Whether `array` is a torch tensor whose memory NumPy can share."""
    return array is not None and is_torch(array) and array.device.type == "cpu" and not is_torch_traced()


def is_torch_traced() -> bool:
    """Whether torch traces: inside torch.compile, or under a transform of torch.func."""
    torch = sys.modules["torch"]
    return bool(torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None)


def constant_when_compiled(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Decorator for functions with a cache: torch.compile calls them while it traces; the result is a constant."""

    @wraps(function)
    def called(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        return function(*args, **kwargs)

    # As `torch.compiler.assume_constant_result` does, without an import of torch.
    called._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return called


def full_precision(array: Array | None) -> AbstractContextManager[Any]:
    """Context manager that turns torch.autocast off, so that matrix products have the precision of their arrays."""
    if array is None or not is_torch(array):
        return nullcontext()
    context: AbstractContextManager[Any] = sys.modules["torch"].autocast(array.device.type, enabled=False)
    return context


def product(first: Array, second: Array) -> Array:
    """The product of matrices, (n, d) with (d, m) or (L, d, m), which torch.autocast does not round to half precision.

    Autocast does not round its derivatives either, in which small gradients would become 0. A context that turns
    autocast off would cover the forward pass only.
    """
    if is_torch(first):
        torch = sys.modules["torch"]
        # Autocast may be on when a derivative is computed; a trace has the derivative with it.
        followed = torch.is_grad_enabled() and (first.requires_grad or second.requires_grad)
        if torch.is_autocast_enabled(first.device.type) or (followed and not is_torch_traced()):
            if second.ndim == first.ndim:
                return _full_precision_product(first, second)
            # As one product of two matrices: one for each matrix of the batch would need as many gradients of points.
            rows = second.mT.reshape(-1, second.shape[1])
            return _full_precision_product(rows, first.mT).reshape(second.shape[0], second.shape[2], -1).mT
    return namespace(first, second).matmul(first, second)


def _full_precision_product(first: Array, second: Array) -> Array:
    _define_products()
    kind = "compiled" if sys.modules["torch"].compiler.is_compiling() else "with forward mode"
    return _PRODUCTS[kind].apply(first, second)


_PRODUCTS: dict[str, Any] = {}  # torch.compile can follow functions in a global variable, not in a constant result


@constant_when_compiled
@cache
def _define_products() -> None:
    """Define the product as a function of torch, which is imported by now."""
    torch: Any = sys.modules["torch"]

    class Product(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = True

        @staticmethod
        def forward(first: Array, second: Array) -> Array:
            with full_precision(first):
                return first @ second

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Array, Array], output: Array) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *upstream: Array) -> Any:
            first, second = ctx.saved_tensors
            # Under a compiled transform of torch.func the flags are wrong; there, the graph drops what nothing uses.
            of_first, of_second = (True, True) if torch.compiler.is_compiling() else ctx.needs_input_grad
            return (
                _full_precision_product(upstream[0], second.mT) if of_first else None,
                _full_precision_product(first.mT, upstream[0]) if of_second else None,
            )

    class ForwardModeProduct(Product):  # torch.compile cannot trace `jvp`
        @staticmethod
        def jvp(ctx: Any, *tangents: Array | None) -> Any:
            first, second = ctx.saved_tensors
            terms = ((tangents[0], second), (first, tangents[1]))
            return sum(_full_precision_product(*term) for term in terms if None not in term)

    _PRODUCTS.update({"compiled": Product, "with forward mode": ForwardModeProduct})


_numpy_check: Callable[[NDArray[Any], float], bool] | None = None


def check_numpy_rows_with(check: Callable[[NDArray[Any], float], bool]) -> None:
    """Use `check(rows, tolerance of the squared length)` for contiguous NumPy arrays: the compiled kernel is faster."""
    global _numpy_check
    _numpy_check = check


def have_unit_length(points: Array, half: bool) -> bool:
    """Whether all rows (n, d) are finite and of length 1, up to the tolerance for their dtype."""
    tolerance = unit_length_tolerance(float(namespace(points).finfo(points.dtype).eps), half=half)
    if _numpy_check is not None and is_numpy(points) and points.flags.c_contiguous and points.flags.aligned:
        return _numpy_check(points, 2.0 * tolerance)
    xp = namespace(points)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = xp.vecdot(points, points)
    return bool(xp.all(xp.abs(squares - 1.0) <= 2.0 * tolerance))  # comparisons with NaN are false


def unit_length_tolerance(eps: float, *, half: bool) -> float:
    """How far the length of a unit vector may be from 1, in a floating type with this machine epsilon.

    It is wide enough for vectors normalized in their own precision, and narrow enough to detect vectors that were never
    normalized. `half`: whether they had a half-precision type before they were converted.

    >>> unit_length_tolerance(2.0**-52, half=False), unit_length_tolerance(2.0**-23, half=True)
    (1e-06, 0.05)
    """
    return 0.05 if half else max(1e-6, 1e3 * eps)
