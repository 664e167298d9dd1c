"""Two-sample permutation tests on sketches with groups: histograms of whole groups are permuted, without the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._backends import native
from sphereot._backends.native import sketches as native_sketches
from sphereot._support.progress import Progress, progress_bar
from sphereot.sketch import Sketch
from sphereot.sketch.bins import Bins
from sphereot.sketch.histograms import cells_of
from sphereot.sketch.layout import OFFSET_BITS
from sphereot.stats._circle_density import ProjectedDensities, histogram_densities
from sphereot.stats._ties import cost_tolerance, p_value, with_ties
from sphereot.stats.two_sample import TwoSampleResult, most_differing

__all__ = ["require_permutable", "sketch_densities", "sketch_permutation_result"]

_BLOCK_BYTES = 256 << 20
_LEAST_UNITS = 5  # of both sketches together: fewer have fewer than ten divisions

Floats = NDArray[np.float64]


def require_permutable(name: str, sketch: Sketch) -> None:
    """Raise unless a sketch has groups and points, and the kernel is there."""
    if not native.available:
        raise RuntimeError("tests of sketches need the compiled kernel; install sphereot where there is a compiler.")
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
    chosen[0, :n_first] = 1.0
    for row in chosen[1:]:
        row[generator.permutation(len(mass))[:n_first]] = 1.0
    frames = x.projections
    costs = np.empty((len(frames), 1 + permutations))
    size = max(1, _BLOCK_BYTES // (8 * 4 * len(chosen) * x.bins))
    with progress_bar(progress, "great circles", len(frames)) as show:
        for start in range(0, len(frames), size):
            block = slice(start, min(start + size, len(frames)))
            costs[block] = _costs(chosen, mass[:, block], moment[:, block], p)
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
    first, second = (_cells(sketch.bins_of_all_groups())[0][index] for sketch in (x, y))
    return histogram_densities(first, second, x.n, y.n)


def _units(x: Sketch, y: Sketch) -> tuple[Floats, Floats, int]:
    """Masses and moments (units, L, B) of both sketches, x first, and the number of units of x."""
    parts = [[part for part in sketch.group_sketches() if part.n > 0] for sketch in (x, y)]
    points = [sum(part.n for part in group) / len(group) for group in parts]  # per histogram
    arrays = []
    for group, own, other in zip(parts, points, reversed(points), strict=True):
        merged = max(1, round(other / own))
        sums = [sum(group[k + 1 : k + merged], group[k]) for k in range(0, len(group), merged)]
        cells = [_cells(unit.bins_of_all_groups()) for unit in sums]
        arrays.append((np.stack([mass for mass, _ in cells]), np.stack([moment for _, moment in cells])))
    (mass_x, moment_x), (mass_y, moment_y) = arrays
    if len(mass_x) + len(mass_y) < _LEAST_UNITS:
        raise ValueError(
            f"groups: {len(mass_x)} and {len(mass_y)} units of about equal size are too few to permute; make sketches "
            "with more groups, or compare samples of more similar size."
        )
    return np.concatenate([mass_x, mass_y]), np.concatenate([moment_x, moment_y]), len(mass_x)


def _cells(bins: Bins) -> tuple[Floats, Floats]:
    """Masses and moments (L, B) of a sketch of one group, offsets in widths of a bin."""
    mass, moment = cells_of(bins)
    return mass.astype(np.float64), moment * (1.0 if bins.weighted else 0.5**OFFSET_BITS)


def _costs(chosen: Floats, mass: Floats, moment: Floats, p: float) -> Floats:
    """W_p^p (slices, labelings) between the units that each row of `chosen` selects and the others."""
    n_labelings, n_units = chosen.shape
    shape = (n_labelings * mass.shape[1], mass.shape[2])
    pairs = []
    for selected in (chosen, 1.0 - chosen):
        sums = [(selected @ array.reshape(n_units, -1)).reshape(shape) for array in (mass, moment)]
        pairs.append(native_sketches.histogram(*sums))
    if p == 1:
        blocks = native_sketches.level_distances(pairs, shape[0])
        costs = np.concatenate([cost[:, 0] for cost, _ in blocks])
    else:
        costs = native_sketches.transport_distances(pairs[0], pairs[1], p, False, shape[0])[0]
    by_slice: Floats = costs.reshape(n_labelings, -1).T
    return by_slice
