"""Random numbers from a seed or generator of any array library; no global random state is read or changed."""

import sys
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeAlias

import array_api_compat as compat
import numpy as np

from sphereot._arrays.libraries import (
    Array,
    device,
    floating_dtype,
    is_torch,
    is_torch_traced,
    kind_of,
    namespace,
    to_numpy,
)

Seed: TypeAlias = Any
"""An int, None, or a generator of the array's own library: numpy Generator, torch.Generator, JAX key."""


def is_own_generator(seed: Seed) -> bool:
    """Whether `seed` is a torch.Generator or a JAX key, which draws in its library instead of in NumPy."""
    return _is_torch_generator(seed) or (not isinstance(seed, Integral | None) and bool(compat.is_jax_array(seed)))


def fresh_generator(like: Array | None) -> Seed:
    """A new torch.Generator for a tensor `like`, seeded from entropy; None (NumPy draws) for other libraries."""
    if like is None or not is_torch(like) or is_torch_traced():
        return None
    generator = sys.modules["torch"].Generator(like.device)
    generator.seed()
    return generator


def require_seed_when_staged(seed: Seed, like: Array | None) -> None:
    """Raise an error if random numbers would become constants of a JAX program, which runs Python only once.

    `jax.grad` and `jax.vmap` without `jax.jit` run Python in every call, and may draw.
    """
    if not isinstance(seed, np.random.Generator | None) or like is None or not compat.is_jax_array(like):
        return
    jax = sys.modules["jax"]
    # While JAX stages a program, constants are tracers too, for any transforms inside or outside of it.
    if isinstance(jax.numpy.zeros(()), jax.core.Tracer):
        kind = "None" if seed is None else "a numpy Generator"
        raise ValueError(
            f"seed: got {kind} while JAX traces a program (jax.jit, jax.lax.scan, jax.checkpoint), where random "
            "numbers are drawn once and are the same in every call. Pass a JAX key (seed=jax.random.key(0), as an "
            "argument of the function) for new ones with every key, or an int for fixed ones."
        )


def seed_of_draw(seed: int, draw: int) -> int:
    """Seed of the `draw`-th batch of great circles.

    Draw 0 uses `seed` itself; later draws hash (seed, draw), so streams of neighboring seeds do not overlap.

    >>> seed_of_draw(7, 0), seed_of_draw(7, 1) == seed_of_draw(8, 0)
    (7, False)
    """
    if draw == 0:
        return seed
    hashed = np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0]
    return int(hashed >> 1)  # torch accepts signed 64-bit integers


def normal_source(seed: Seed, like: Array | None = None) -> Callable[[tuple[int, ...]], Array]:
    """Return a function `draw(shape)` of standard normal numbers; its calls continue one stream.

    The numbers have the library, dtype and device of `like` (float64 NumPy if None). An int or None seeds NumPy's
    generator for every library, so that one seed gives the same great circles everywhere; a torch.Generator or a JAX
    key draws on its own device.
    """
    if is_own_generator(seed):
        return _torch_normals(seed, like) if _is_torch_generator(seed) else _jax_normals(seed, like)
    if isinstance(seed, bool) or not isinstance(seed, Integral | np.random.Generator | None):
        raise TypeError(
            "seed: the seed must be an int, None, or a generator of the array library (numpy Generator, "
            f"torch.Generator, JAX key), got {type(seed).__name__}."
        )
    if isinstance(seed, Integral) and seed < 0:
        raise ValueError(f"seed: the seed must be at least 0, got {seed}.")
    require_seed_when_staged(seed, like)
    generator = np.random.default_rng(int(seed) if isinstance(seed, Integral) else seed)  # a Generator passes through
    if like is None:
        return lambda shape: generator.standard_normal(shape)
    xp, dtype, target = namespace(like), floating_dtype(like), device(like)
    return lambda shape: xp.asarray(generator.standard_normal(shape), dtype=dtype, device=target)


def numpy_generator(seed: Seed, like: Array | None = None) -> np.random.Generator:
    """NumPy generator for a seed of any kind; a torch.Generator or a JAX key seeds it with a draw."""
    draw = normal_source(seed, like)  # raises an error for what is not a seed
    if is_own_generator(seed):
        return np.random.default_rng(np.frombuffer(to_numpy(draw((8,))).tobytes(), np.uint32))
    return np.random.default_rng(seed)


def _is_torch_generator(seed: Seed) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(seed, torch.Generator)


def _torch_normals(seed: Seed, like: Array | None) -> Callable[[tuple[int, ...]], Array]:
    if like is None or not is_torch(like):
        raise TypeError(f"seed: a torch.Generator goes with torch tensors, not with {_like_kind(like)}. Use an int.")
    torch = sys.modules["torch"]
    return lambda shape: torch.randn(shape, generator=seed, dtype=floating_dtype(like), device=seed.device).to(
        like.device
    )


def _jax_normals(seed: Seed, like: Array | None) -> Callable[[tuple[int, ...]], Array]:
    if like is None or not compat.is_jax_array(like):
        raise TypeError(f"seed: a JAX key goes with JAX arrays, not with {_like_kind(like)}. Use an int.")
    import jax

    key_of_old_style = seed.dtype == jax.numpy.uint32 and seed.ndim > 0
    if not key_of_old_style and not jax.numpy.issubdtype(seed.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"seed: a JAX array must be a key, got dtype {seed.dtype} and shape {seed.shape}. Pass "
            "jax.random.key(seed), which also accepts an integer under jax.jit."
        )
    key = seed

    def draw(shape: tuple[int, ...]) -> Array:
        nonlocal key
        key, draw_key = jax.random.split(key)
        return jax.random.normal(draw_key, shape, dtype=floating_dtype(like))

    return draw


def _like_kind(like: Array | None) -> str:
    return "NumPy arrays" if like is None else f"{kind_of(like)}s"


def torch_generator(seed: Seed, device: Any) -> Any:
    """Return a torch.Generator on `device` for an int, a torch.Generator (itself) or None (a new one, from entropy).

    torch.compile cannot trace this function: it breaks the graph here, and raises an error under `fullgraph=True`.
    """
    torch = sys.modules["torch"]
    device = torch.device(device)
    if isinstance(seed, torch.Generator):
        if seed.device != device:
            raise ValueError(
                f"seed: the torch.Generator must be on {device}, where random numbers are drawn, got one on "
                f"{seed.device}. Create it with torch.Generator({str(device)!r})."
            )
        return seed
    if isinstance(seed, bool) or not isinstance(seed, Integral | None):
        raise TypeError(f"seed: the seed must be an int, a torch.Generator, or None, got {type(seed).__name__}.")
    if seed is not None and not 0 <= int(seed) < 2**64:
        raise ValueError(f"seed: the seed must be at least 0 and below 2^64, got {seed}.")
    if device.type == "meta":  # torch draws no numbers there, and has no generators
        return None
    generator = torch.Generator(device)
    if seed is not None:
        return generator.manual_seed(int(seed))
    generator.seed()
    return generator
