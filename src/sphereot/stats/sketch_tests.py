"""Two-sample permutation tests on sketches with groups: histograms of whole groups are permuted, without the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import sketch_backend
from sphereot._backends.protocol import OFFSET_BITS
from sphereot._support.extras import Progress, progress_bar
from sphereot.sketch import Sketch
from sphereot.sketch.bins import Bins, to_float
from sphereot.stats._circle_density import ProjectedDensities, histogram_densities
from sphereot.stats._testing import cost_tolerance, p_value, with_ties
from sphereot.stats.two_sample import TwoSampleResult, most_differing

_BLOCK_BYTES = 256 << 20
_LEAST_UNITS = 5  # of both sketches together: fewer have fewer than ten divisions

Floats = NDArray[np.float64]


def require_permutable(name: str, sketch: Sketch) -> None:
    """Raise unless a sketch has groups and points."""
    if sketch.groups < 2:
        raise ValueError(
            f"{name}: is a sketch without groups, and a test permutes groups; make it with Sketch(dim, groups=64) and "
            "update(x, groups=labels), with a label for every document or user."
        )
    if sketch.n == 0:
        raise ValueError(f"{name}: is an empty sketch; update it with points first.")


def sketch_permutation_result(
    x: Sketch,
    y: Sketch,
    p: float,
    permutations: int,
    generator: np.random.Generator,
    n_circles: int = 1,
    progress: Progress = False,
) -> TwoSampleResult:
    """The test of two sketches with groups: x is the reference, y the window.

    Groups are hashed to as many histograms in both, so that those of the larger sample hold more documents. Histograms
    of the smaller are added up until those of both hold about as many points; these units are permuted.
    """
    mass, moment, n_first = _units(x, y)
    chosen = np.zeros((1 + permutations, len(mass)))
    chosen[:, :n_first] = 1.0
    chosen[1:] = generator.permuted(chosen[1:], axis=1)
    frames = x.projections
    costs = np.empty((len(frames), 1 + permutations))
    most_labelings = max(1, _BLOCK_BYTES // (8 * 4 * x.bins))  # on one great circle
    size = max(1, most_labelings // len(chosen))
    with progress_bar(progress, "great circles", len(frames)) as show:
        for start in range(0, len(frames), size):
            block = slice(start, min(start + size, len(frames)))
            for first in range(0, len(chosen), most_labelings):
                rows = slice(first, first + most_labelings)
                costs[block, rows] = _costs(chosen[rows], mass[:, block], moment[:, block], p)
            show(block.stop)
    total = costs.sum(axis=0)
    observed = float(total[0])
    relabeled = with_ties(total[1:], observed, cost_tolerance(float(np.finfo(np.float64).eps), p, x.bins + len(frames)))
    return TwoSampleResult(
        statistic=observed / len(frames),
        p_value=p_value(observed, relabeled),
        null=relabeled / len(frames),
        circles=most_differing(frames, costs[:, 0], costs[:, 1:].mean(axis=1), costs[:, 1:].std(axis=1), n_circles),
        slice_costs=costs[:, 0],
        projections=frames,
        n=x.n,
        m=y.n,
        n_groups=(n_first, len(mass) - n_first),
        dim=x.dim,
        p=p,
    )


def sketch_densities(x: Sketch, y: Sketch, frame: NDArray[Any]) -> ProjectedDensities:
    """Densities of two sketches on one of their great circles."""
    index = int(np.argmin(np.abs(x.projections - frame).sum(axis=(1, 2))))
    first, second = (to_float(sketch.bins_of_all_groups().mass[0])[index] for sketch in (x, y))
    return histogram_densities(first, second, x.n, y.n)


def count_units(x: Sketch, y: Sketch) -> tuple[int, int]:
    """Numbers of units of either sketch that a test permutes."""
    counts = [[n for n in sketch.group_sizes() if n > 0] for sketch in (x, y)]
    first, second = (-(-len(sizes) // merged) for sizes, merged in zip(counts, _merged(counts), strict=True))
    return first, second


def _merged(counts: Sequence[Sequence[int]]) -> list[int]:
    """How many histograms of either sketch make a unit, by their numbers of points: one of the larger sample."""
    means = [sum(sizes) / len(sizes) for sizes in counts]
    return [max(1, round(other / own)) for own, other in zip(means, reversed(means), strict=True)]


def _units(x: Sketch, y: Sketch) -> tuple[Floats, Floats, int]:
    """Masses and moments (units, L, B) of both sketches, x first, and the number of units of x."""
    merged = _merged([[n for n in sketch.group_sizes() if n > 0] for sketch in (x, y)])
    (mass_x, moment_x), (mass_y, moment_y) = (
        _sums_of_groups(sketch.bins_by_group(), count) for sketch, count in zip((x, y), merged, strict=True)
    )
    if len(mass_x) + len(mass_y) < _LEAST_UNITS:
        raise ValueError(
            f"groups: {len(mass_x)} and {len(mass_y)} units of about equal size are too few to permute; make sketches "
            "with more groups, or compare samples of more similar size."
        )
    return np.concatenate([mass_x, mass_y]), np.concatenate([moment_x, moment_y]), len(mass_x)


def _sums_of_groups(bins: Bins, merged: int) -> tuple[Floats, Floats]:
    """Masses and moments (units, L, B), offsets in widths of a bin; so many groups with points make a unit."""
    filled = bins.n > 0
    starts = np.arange(0, int(np.count_nonzero(filled)), merged)
    mass, moment = (
        np.add.reduceat(to_float(array[filled].swapaxes(0, 1)), starts, axis=0) for array in (bins.mass, bins.moment)
    )
    if not np.all(np.any(mass[:, 0] > 0, axis=1)):
        raise ValueError("groups: one has points of weight zero only; leave such points out.")
    return mass, moment * (1.0 if bins.weighted else 0.5**OFFSET_BITS)


def _costs(chosen: Floats, mass: Floats, moment: Floats, p: float) -> Floats:
    """W_p^p (slices, labelings) between the units that each row of `chosen` selects and the others."""
    n_labelings, n_units = chosen.shape
    shape = (n_labelings * mass.shape[1], mass.shape[2])
    selected, others = [], []
    for array in (mass, moment):
        sums = chosen @ array.reshape(n_units, -1)
        selected.append(sums.reshape(shape))
        others.append((array.sum(axis=0).ravel() - sums).reshape(shape))
    backend = sketch_backend()
    pairs = [backend.histogram(*arrays) for arrays in (selected, others)]
    if p == 1:
        blocks = backend.level_distances(pairs, shape[0])
        costs = np.concatenate([cost[:, 0] for cost, _ in blocks])
    else:
        costs = backend.transport_distances(pairs[0], pairs[1], p, shape[0])[0]
    by_slice: Floats = costs.reshape(n_labelings, -1).T
    return by_slice
