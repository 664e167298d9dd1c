"""Exact optimal transport on the circle with the array API: any library, any device, any batch.

It serves arrays that the compiled kernel does not support, and the kernel is tested against it. The circle is R/Z,
measured in turns. With F, G the cumulative distributions of the two measures and quantiles lifted by
F^-1(t + 1) = F^-1(t) + 1, Section 3.1 of the paper gives

    W_p^p = min over the cut alpha of C(alpha),    C(alpha) = integral over [0, 1] of |F^-1(t) - G^-1(t + alpha)|^p dt.

C is convex, and between discrete measures affine from one difference of cumulative masses to the next. Here masses
are integer multiples of a small unit, so every candidate for the cut is an integer, and the number of bisection steps
depends only on the shapes. No loop depends on values: everything traces under `jax.jit` and `torch.compile`, and no
value is copied to the host.

Gradients follow the envelope theorem: cut, order and masses are integers, constant to automatic differentiation, and
the displacements of the matched pairs carry the derivative to the atoms. Weights of two discrete measures have no
automatic derivative, because the best cut moves with them; see `weight_gradients`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from sphereot._arrays.libraries import Array, device, namespace, running_sums, take_in_rows, wide_dtype

Rows: TypeAlias = tuple[Array, Array | None]
"""Turns (B, n) of B measures, and their weights (B, n) or (1, n); None means equal weights."""


class Atoms(NamedTuple):
    """A batch of measures on the circle, sorted."""

    turn: Array  # (B, n), ascending in [0, 1)
    order: Array  # (B, n), the index of each atom in the input
    level: Array  # (B, n) or (1, n), the cumulative mass up to and with each atom, in integer units
    share: int | None  # units per atom if all weights are equal


def circle_cost(first: Rows, second: Rows, p: float) -> Array:
    """W_p^p between two measures, row by row, shape (B,)."""
    xp = namespace(first[0])
    u, v, valid = _valid_rows(first, second)
    source, target, unit = _atoms_in_units(u, v)
    i, j, winding, mass = _pairs(source, target, unit, _optimal_cut(source, target, unit, p))
    x, y = take_in_rows(source.turn, i), take_in_rows(target.turn, j)
    # x - y - winding: whole turns are taken from the larger of x and y, which is exact near the seam.
    forward = (winding + xp.abs(winding)) / 2
    displacement = (x - forward) - (y + (winding - forward))
    costs = xp.astype(_sum(xp, mass * _power(xp, displacement, p)), u[0].dtype)
    return _nan_unless(xp, valid, costs)[:, 0]


def circle_cost_uniform(measure: Rows, p: float) -> Array:
    """W_p^p to the uniform measure on the circle, row by row, shape (B,).

    The uniform quantile is t, so C(alpha) adds up the integrals of |s|^p over the intervals of width w_i around
    x_i - mid_i - alpha, with mid_i the middle of the levels that the atom i fills.
    """
    xp = namespace(measure[0])
    (u, a), valid = _valid_rows(measure)
    x, order = _sorted(xp, u)
    weight, level = _normalized(xp, u, order, a)
    offset = xp.astype(x, weight.dtype) - (level - weight / 2)  # of the sorted atoms from the middles of their levels
    if p == 2:
        # Proposition 1, weighted: C is a parabola, lowest at mean(x) - 1/2. Its expanded closed form cancels; a
        # variance plus the second moments of the intervals does not.
        centered = offset - xp.sum(weight * offset, axis=-1, keepdims=True)
        terms = weight * (centered * centered + weight * weight / 12)
    else:
        terms = _interval_integral(xp, offset - _uniform_cut(xp, offset, weight / 2, p), weight / 2, p)
    return _nan_unless(xp, valid, xp.astype(xp.sum(terms, axis=-1, keepdims=True), u.dtype))[:, 0]


def weight_gradients(first: Rows, second: Rows, p: float) -> tuple[Array, Array]:
    """The gradients (B, n) of `circle_cost` in the weights of both measures: the dual potentials."""
    xp = namespace(first[0])
    u, v, valid = _valid_rows(first, second)
    source, target, unit = _atoms_in_units(u, v)
    cut = _optimal_cut(source, target, unit, p)
    potentials = _potential(source, target, unit, cut, p, u[1]), _potential(target, source, unit, -cut, p, v[1])
    return _nan_unless(xp, valid, potentials[0]), _nan_unless(xp, valid, potentials[1])


def circle_cut(first: Rows, second: Rows, p: float) -> Array:
    """A cut alpha in [-1, 1] that minimizes C, one for each row.

    It is in float64 if that exists: a cut rounded to float32 sends 6e-8 of the mass around the circle, which is more
    than the whole cost between concentrated measures.
    """
    source, target, unit = _atoms_in_units(first, second)
    return namespace(first[0]).astype(_optimal_cut(source, target, unit, p)[:, 0], wide_dtype(first[0])) / unit


def matched_pairs(first: Rows, second: Rows, cut: Array) -> tuple[Array, Array, Array]:
    """The coupling of a cut (1,) of one row: the indices of its pairs of atoms, and their mass, which is positive.

    t in [0, 1] pairs F^-1(t) with G^-1(t + cut). At the cut of `circle_cut` the coupling is optimal.
    """
    xp = namespace(first[0])
    source, target, unit = _atoms_in_units(first, second)
    units = xp.astype(xp.round(xp.astype(cut, wide_dtype(first[0])) * unit), source.order.dtype)
    i, j, _, mass = _pairs(source, target, unit, units[:, None])
    mass = xp.broadcast_to(mass, i.shape)[0, :]
    moved = mass > 0
    return take_in_rows(source.order, i)[0, :][moved], take_in_rows(target.order, j)[0, :][moved], mass[moved]


def _potential(x: Atoms, y: Atoms, unit: int, cut: Array, p: float, weights: Array | None) -> Array:
    """The derivative of the cost in the weights of `x`, (B, n), in the order of the input.

    The potentials of neighbors x_i, x_{i+1} that share a y differ by the difference of their costs to it. If a level of
    x meets a level of y, they share none: any step between their differences for the y after and before that level is
    optimal. At the best cut there is at least one such level, and the steps around the whole circle must add up to 0.
    """
    xp, wide = namespace(x.turn), wide_dtype(x.turn)
    turn, y_turn = xp.astype(x.turn, wide), xp.astype(y.turn, wide)
    next_turn = xp.concat([turn[:, 1:], turn[:, :1] + 1], axis=-1)
    reached = xp.broadcast_to(x.level, x.turn.shape) + cut
    y_level = xp.broadcast_to(y.level, y.turn.shape)

    def step(lap: Array, past: int) -> Array:
        index = _ranks(y_level, reached - lap * unit + past, 4 * unit)
        paid_for = take_in_rows(y_turn, index) + xp.astype(lap, wide)
        return _power_difference(xp, paid_for, turn, next_turn, p)

    # The level within its lap: in (0, 1] for the y before it, and in [0, 1) for the y after it.
    before, after = step(-(-reached // unit) - 1, 0), step(reached // unit, 1)
    short = -xp.sum(after, axis=-1, keepdims=True)
    room = xp.sum(before - after, axis=-1, keepdims=True)
    share = xp.clip(short / xp.where(room > 0, room, xp.ones_like(room)), 0, 1)
    steps = after + share * (before - after)
    potential = running_sums(steps) - steps
    mass = xp.astype(_masses(xp, x.level), wide) / unit
    centered = potential - xp.sum(mass * potential, axis=-1, keepdims=True)
    total = 1 if weights is None else xp.sum(xp.astype(weights, wide), axis=-1, keepdims=True)
    return xp.astype(take_in_rows(centered / total, xp.argsort(x.order, axis=-1)), x.turn.dtype)


def _optimal_cut(source: Atoms, target: Atoms, unit: int, p: float) -> Array:
    """A best cut, (B, 1), in units of mass.

    C falls for alpha < -1, when every target atom is below its source atom, and does not fall for alpha >= 1. So the
    first alpha in [-1, 1] whose slope to the right is not negative is a minimum.
    """
    xp = namespace(source.turn)
    if source.share is None and target.share is not None:
        return -_optimal_cut(target, source, unit, p)  # equal shares need no search for a quantile
    if p == 1 and not _one_to_one(source, target):
        return -_level_median(source, target)

    # All three turns that B_j - alpha can reach, so that no index or level ever needs wrapping.
    x = xp.concat([source.turn - 1, source.turn, source.turn + 1], axis=-1)
    level = xp.concat([source.level - unit, source.level, source.level + unit], axis=-1)
    y = target.turn
    next_y = xp.concat([y[:, 1:], y[:, :1] + 1], axis=-1)

    def source_index(tried: Array) -> Array:
        if source.share is None:
            return _ranks(level, (target.level + unit) - tried, 4 * unit)
        index = (target.level + (2 * unit - 1)) - tried
        return index if source.share == 1 else index // source.share

    def falls(tried: Array) -> Array:
        # Just right of alpha = tried - unit, the level B_j - alpha goes over from the target atom j to the next one.
        return _sum(xp, _power_difference(xp, take_in_rows(x, source_index(tried)), y, next_y, p)) < 0

    start = xp.zeros_like(source.order[:, :1])
    return _count_while(2 * unit, falls, start) - unit


def _level_median(source: Atoms, target: Atoms) -> Array:
    """LevMed(F - G), (B, 1), in units of mass: minus the best cut for p = 1 (Equation 11)."""
    xp = namespace(source.turn)
    z = xp.concat([source.turn, target.turn], axis=-1)
    order = xp.argsort(z, axis=-1, stable=False)
    z = take_in_rows(z, order)
    rise, fall = (xp.broadcast_to(_masses(xp, atoms.level), atoms.turn.shape) for atoms in (source, target))
    jump = xp.concat([rise, -fall], axis=-1)
    difference = running_sums(take_in_rows(jump, order))
    # The arc before the first atom counts too: it is one arc with the arc after the last atom, on which F - G = 0.
    arc = xp.concat([z[:, 1:] - z[:, :-1], (1 - z[:, -1:]) + z[:, :1]], axis=-1)

    ascending = xp.argsort(difference, axis=-1, stable=False)
    length = xp.astype(take_in_rows(arc, ascending), wide_dtype(z))
    covered = running_sums(length)
    below = xp.astype(covered < covered[:, -1:] / 2, order.dtype)
    median = xp.sum(below, axis=-1, keepdims=True, dtype=order.dtype)
    return take_in_rows(difference, take_in_rows(ascending, median))


def _uniform_cut(xp: Any, offset: Array, half: Array, p: float) -> Array:
    """The best cut against the uniform measure, (B, 1): F^-1(t) - t lies in [-1, 1], and with it every minimum."""
    grid = _grid(xp, offset.dtype)

    def alpha(tried: Array) -> Array:
        return xp.astype(tried, offset.dtype) / grid - 1

    def falls(tried: Array) -> Array:
        return _sum(xp, _power_difference(xp, offset - alpha(tried), -half, half, p)) < 0

    start = xp.zeros((offset.shape[0], 1), dtype=_positions(xp, offset).dtype, device=device(offset))
    return alpha(_count_while(2 * grid, falls, start))


def _pairs(source: Atoms, target: Atoms, unit: int, cut: Array) -> tuple[Array, Array, Array, Array]:
    """Sorted indices i, j, winding and mass of the pairs of a cut: x_i meets y_j + winding."""
    xp = namespace(source.turn)
    n, m = source.turn.shape[-1], target.turn.shape[-1]
    dtype = source.turn.dtype
    if _one_to_one(source, target):
        i = _positions(xp, source.turn)
        shifted, mass = i + cut, xp.full((1, 1), 1 / n, dtype=dtype, device=device(source.turn))
    else:
        # The levels where either quantile jumps, merged: between two of them both stand still.
        start = cut % unit
        passed = target.level <= start
        shifted_level = target.level - start + unit * xp.astype(passed, cut.dtype)
        level = xp.concat([xp.broadcast_to(source.level, source.turn.shape), shifted_level], axis=-1)
        order = xp.argsort(level, axis=-1, stable=False)
        level = take_in_rows(level, order)
        from_source = xp.astype(order < n, order.dtype)
        seen = running_sums(from_source) - from_source
        i = seen - xp.astype(seen == n, order.dtype)  # past the last level there is no mass, but there must be an index
        first = xp.sum(xp.astype(passed, order.dtype), axis=-1, keepdims=True)
        shifted = _positions(xp, level) - seen + first + (cut // unit) * m
        mass = xp.astype(xp.astype(_masses(xp, level), wide_dtype(source.turn)) / unit, dtype)
    winding = shifted // m
    return xp.broadcast_to(i, shifted.shape), shifted - winding * m, xp.astype(winding, dtype), mass


def _atoms_in_units(first: Rows, second: Rows) -> tuple[Atoms, Atoms, int]:
    """Both measures sorted, and the number of units of the whole mass.

    The common multiple of n and m fits equal weights without rounding. Other weights are rounded once, after they are
    added up, so that the roundings do not add up.
    """
    (u, a), (v, b) = first, second
    xp, n, m = namespace(u), u.shape[-1], v.shape[-1]
    # Two digits to spare: a cut divided by the unit, and multiplied again, is still the same integer.
    finest = _grid(xp, wide_dtype(u)) // 4
    common = _common_multiple(n, m)
    if a is None and b is None and 4 * common <= _largest_index(xp, u):
        unit = common
    elif a is None or b is None:
        equal = n if a is None else m
        unit = equal * max(1, finest // equal)
    else:
        unit = finest
    return _atoms(xp, u, a, unit), _atoms(xp, v, b, unit), unit


def _atoms(xp: Any, u: Array, weights: Array | None, unit: int) -> Atoms:
    n = u.shape[-1]
    turn, order = _sorted(xp, u)
    if weights is None and unit % n == 0:
        return Atoms(turn, order, (_positions(xp, u) + 1) * (unit // n), unit // n)
    _, level = _normalized(xp, u, order, weights)
    return Atoms(turn, order, xp.astype(xp.round(level * unit), order.dtype), None)


def _normalized(xp: Any, u: Array, order: Array, weights: Array | None) -> tuple[Array, Array]:
    """Weights in the order of the turns and their sums, in wide precision, scaled so that the last sum is exactly 1."""
    n, dtype = u.shape[-1], wide_dtype(u)
    if weights is None:
        level = xp.astype(_positions(xp, u) + 1, dtype) / n
        return xp.full((1, n), 1 / n, dtype=dtype, device=device(u)), level
    weight = take_in_rows(xp.astype(xp.broadcast_to(weights, u.shape), dtype), order)
    weight = weight / xp.max(weight, axis=-1, keepdims=True)  # sums of extreme weights stay within range
    level = running_sums(weight)
    total = level[:, -1:]
    # A parallel sum may pass its own last value by a rounding.
    return weight / total, xp.where(level > total, total, level) / total


def _valid_rows(*measures: Rows) -> Any:
    """The measures with ones for the weights of invalid rows, and which rows are valid in all of them, (B, 1).

    Values cannot be validated while a graph is traced, and a level that is NaN would become an index out of range.
    """
    xp = namespace(measures[0][0])
    rows, all_valid = [], None
    for turns, weights in measures:
        if weights is not None:
            valid = xp.all(xp.isfinite(weights) & (weights >= 0), axis=-1, keepdims=True)
            valid = valid & xp.any(weights > 0, axis=-1, keepdims=True)
            weights = xp.where(valid, weights, xp.ones_like(weights))
            all_valid = valid if all_valid is None else all_valid & valid
        rows.append((turns, weights))
    return *rows, all_valid


def _nan_unless(xp: Any, valid: Array | None, values: Array) -> Array:
    return values if valid is None else xp.where(valid, values, xp.full_like(values, xp.nan))


def _one_to_one(source: Atoms, target: Atoms) -> bool:
    """The same number of atoms on both sides, of equal mass: a cut is a shift of indices, and no atom is split."""
    return source.share == target.share == 1


def _masses(xp: Any, levels: Array) -> Array:
    """The differences of ascending levels, the first of them from 0."""
    return xp.concat([levels[:, :1], levels[:, 1:] - levels[:, :-1]], axis=-1)


def _sorted(xp: Any, u: Array) -> tuple[Array, Array]:
    """The turns in [0, 1) of any real coordinates, ascending, and their indices in the input."""
    turn = u - xp.floor(u)
    turn = turn - xp.astype(turn >= 1, u.dtype)  # just below an integer, the difference rounds up to 1
    order = xp.argsort(turn, axis=-1, stable=False)
    return take_in_rows(turn, order), order


def _power(xp: Any, s: Array, p: float) -> Array:
    """|s|^p, with derivative 0 at s = 0."""
    if p == 2:
        return s * s
    size = xp.abs(s)
    return size if p == 1 else size**p


def _power_difference(xp: Any, x: Array, y: Array, next_y: Array, p: float) -> Array:
    """|x - next_y|^p - |x - y|^p, term by term."""
    if p == 2:
        return (next_y - y) * ((next_y - x) + (y - x))
    return _power(xp, x - next_y, p) - _power(xp, x - y, p)


def _interval_integral(xp: Any, center: Array, half: Array, p: float) -> Array:
    """The integral of |s|^p over [center - half, center + half]: the difference of s|s|^p / (p + 1) at its ends.

    Far from 0 these are nearly equal, and the difference is a product: with e = half / |center| and q = p + 1,
    (1 + e)^q - (1 - e)^q = 2 (1 - e^2)^(q/2) sinh(q artanh e).
    """
    q = p + 1
    distance = xp.abs(center)
    far = distance > 2 * half
    # Both branches are evaluated, so each gets values without overflow where the other one is used.
    distance = xp.where(far, distance, xp.ones_like(distance))
    e = xp.where(far, half / distance, xp.zeros_like(distance))
    product = (distance * distance * (1 - e * e)) ** (q / 2) * xp.sinh(q * xp.atanh(e)) * (2 / q)
    low, high = center - half, center + half
    return xp.where(far, product, (high * _power(xp, high, p) - low * _power(xp, low, p)) / q)


def _sum(xp: Any, terms: Array) -> Array:
    return xp.sum(terms, axis=-1, keepdims=True, dtype=wide_dtype(terms))


def _count_while(size: int, holds: Callable[[Array], Array], start: Array) -> Array:
    """How many of 0, 1, ..., size - 1 satisfy `holds`, which is first true and then false.

    A bisection with one step for each binary digit of `size`, in every element of `start` (zeros) at once.
    """
    xp = namespace(start)
    count = start
    for digit in reversed(range(size.bit_length())):
        candidate = count + (1 << digit)
        fits = candidate <= size
        grows = fits & holds(xp.where(fits, candidate - 1, start))
        count = xp.where(grows, candidate, count)
    return count


def _ranks(ascending: Array, queries: Array, span: int) -> Array:
    """For each integer query (B, m), how many values of its row (B, n) are below it: a batched searchsorted.

    If the index type has room, rows are moved `span` apart, which must exceed all differences, and searched as one.
    """
    xp = namespace(ascending)
    rows, n = ascending.shape
    if rows * span <= _largest_index(xp, ascending):
        row = xp.arange(rows, dtype=queries.dtype, device=device(queries))[:, None]
        joined, sought = ascending + row * span, queries + row * span
        ranks = xp.searchsorted(xp.reshape(joined, (-1,)), xp.reshape(sought, (-1,)))
        return xp.reshape(xp.astype(ranks, queries.dtype), queries.shape) - row * n
    return _count_while(n, lambda k: take_in_rows(ascending, k) < queries, xp.zeros_like(queries))


def _positions(xp: Any, like: Array) -> Array:
    """0, 1, ..., n - 1 as one row (1, n), in the library's own index type."""
    return xp.arange(like.shape[-1], device=device(like))[None, :]


def _grid(xp: Any, dtype: Any) -> int:
    """How many numbers of the floating type lie in [1, 2), evenly spaced: 2^52 in float64."""
    return round(1 / float(xp.finfo(dtype).eps))


def _common_multiple(n: int, m: int) -> int:
    """The least common multiple, in steps that `torch.compile` follows if the sizes are symbols (not `math.lcm`)."""
    divisor, rest = n, m
    while rest:
        divisor, rest = rest, divisor % rest
    return n // divisor * m


def _largest_index(xp: Any, like: Array) -> int:
    return int(xp.iinfo(_positions(xp, like).dtype).max)
