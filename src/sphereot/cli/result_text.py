"""Text of the results of tests, with the unit of every distance."""

from typing import TYPE_CHECKING

from sphereot._support.text import cost_unit, plural, shortened
from sphereot.cli.outputs import drift_for_reader, for_reader
from sphereot.cli.units import Lengths

if TYPE_CHECKING:
    from sphereot.stats import DriftResult, MonitoredWindow, TwoSampleResult, UniformityResult

__all__ = ["drift_text", "monitor_text", "two_sample_text", "uniformity_text"]

_LABEL_WIDTH = 40


def two_sample_text(result: "TwoSampleResult", lengths: Lengths) -> str:
    """The result of a two-sample test."""
    chance = lengths.with_deviation(result.null_mean, result.null_deviation, 6)
    of_groups = "" if result.n_groups is None else f" of {result.n_groups[0]} and {result.n_groups[1]} groups"
    # SSW_1 is a distance itself, which other units can follow; powers need a line of their own.
    others = [unit for unit in lengths.units if lengths.p == 1 and unit != lengths.power_unit]
    also = "".join(f" = {lengths.root(result.statistic, unit):.4g} {unit}" for unit in others)
    lines = [
        f"Two-sample permutation test on {lengths.name}: "
        f"{result.n:,} against {plural(result.m, 'point')} in dimension {result.dim}",
        f"  distance  {lengths.text(result.statistic, 6)}{also}  (by chance {chance}; "
        f"{plural(result.permutations, 'permutation')}{of_groups}, {plural(result.n_projections, 'great circle')})",
        f"  effect    {result.effect:.2f} standard deviations, {result.ratio:.3g} times chance",
        f"  p-value   {result.p_value:.4g}",
    ]
    if lengths.p != 1:
        lines.insert(2, f"            SSW_{lengths.p:g} = {lengths.distance(result.statistic)}")
    if result.circles:
        best = result.circles[0]
        chance = lengths.with_deviation(best.null_mean, best.null_deviation, 4)
        lines.append(f"  differ most on a circle with cost {lengths.text(best.cost)} (by chance {chance})")
    return for_reader("\n".join([*lines, f"  {lengths.meaning}"]))


def uniformity_text(result: "UniformityResult", lengths: Lengths) -> str:
    """The result of a test of uniformity; the statistic of its table is in turns to the power p."""
    distance = f"SSW_{lengths.p:g} = {lengths.distance(result.statistic)}"
    text = f"{result}\n  {lengths.name} of the table is in {cost_unit(result.p)}; {distance}\n  {lengths.meaning}"
    return for_reader(text)


def drift_text(result: "DriftResult", lengths: Lengths) -> str:
    """The result of a drift test: its summary, and a table of the windows."""
    # Labels are as they are: only the names of distances are for readers.
    others = [unit for unit in lengths.units if unit != lengths.power_unit][-1:]
    heads = [for_reader(f"{lengths.name} ({lengths.power_unit})")]
    heads += [for_reader(f"SSW_{lengths.p:g} ({unit})") for unit in others]
    widths = [max(12, 2 + len(head)) for head in heads]
    names = [shortened(window.label, _LABEL_WIDTH) for window in result.windows]
    width = max(map(len, [*names, "window"]))
    columns = "".join(f"{head:>{size}}" for head, size in zip(heads, widths, strict=True))
    chance = for_reader(f"by chance ({lengths.power_unit})")  # of the first column of distances
    lines = [f"  {'window':<{width}}{'points':>9}{columns}{chance:>24}{'p-value':>10}{'corrected':>11}"]
    for name, window in zip(names, result.windows, strict=True):
        values = [lengths.power(window.value), *(lengths.root(window.value, unit) for unit in others)]
        columns = "".join(f"{_number(value, 4):>{size}}" for value, size in zip(values, widths, strict=True))
        band = " to ".join(_number(lengths.power(value), 3) for value in window.band)
        lines.append(
            f"  {name:<{width}}{window.n:>9}{columns}{band:>24}{window.p_value:>10.3g}"
            f"{window.adjusted_p_value:>11.3g}" + ("  drift" if window.drifted else "")
        )
    circles = plural(result.n_projections, "great circle")
    lines.append(
        f"  reference: {plural(result.n_reference, 'point')} in dimension {result.dim}; {circles}, "
        f"{plural(result.permutations, 'permutation')}"
    )
    return "\n".join([drift_for_reader(result.summary, result.p), *lines])


def _number(value: float, digits: int) -> str:
    """A number without an exponent for thousands of kilometers."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.{digits}g}"


def monitor_text(window: "MonitoredWindow", lengths: Lengths) -> str:
    """The result of one window of a monitor, in one line."""
    distance = f"SSW_{lengths.p:g} {lengths.distance(window.value)}"
    if lengths.p != 1:
        distance = f"{lengths.name} {lengths.text(window.value)} ({distance})"
    verdict = "DRIFT" if window.drifted else "no drift"
    return (
        f"{window.label}: {verdict}; {for_reader(distance)}, {window.ratio:.3g} times that of chance; "
        f"corrected p-value {window.adjusted_p_value:.2g}; {plural(window.n, 'point')}"
    )
