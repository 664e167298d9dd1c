"""Places on the earth as a geoscientist has them: how far apart, whether alike, where they differ, which density.

Earthquakes are compared with floods; any two tables with columns of longitude and latitude will do
(`sphereot.sphere.from_table`).

    python -m examples.places [--out out/places]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import sphereot
from sphereot import datasets, plotting
from sphereot.plotting.coastlines import has_coastlines
from sphereot.stats import SphericalKDE, difference_map, two_sample_test


def compare(first: Any, second: Any, names: tuple[str, str], folder: Path) -> list[Path]:
    """Print what distances and tests say of two samples (n, 3), and draw where they differ."""
    estimate = sphereot.ssw_estimate(first, second, p=1, bootstrap=100, seed=0)
    low, high = (360 * value for value in estimate.sampling_interval())
    print(f"{names[0]} and {names[1]}: SSW_1 = {360 * estimate.value:.2f} degrees, the mean displacement along circles")
    print(f"  over the draw of the points {low:.2f} to {high:.2f}; by chance {360 * estimate.noise_floor:.2f}")
    some = [points[:: max(1, len(points) // 500)] for points in (first, second)]
    print(f"  alike? p-value {two_sample_test(*some, p=1, permutations=199, seed=0).p_value:.3g}")
    difference = difference_map(first, second, permutations=199, seed=0)
    print(f"  {difference}")
    kde = SphericalKDE().fit(first)
    maps = [
        plotting.difference_map(difference, labels=names, coastlines=has_coastlines()),
        plotting.density_map(kde.density, label=f"density of {names[0]} [1/sr]", coastlines=has_coastlines()),
    ]
    titles = ("difference", "density")
    return [
        file
        for ax, name in zip(maps, titles, strict=True)
        for file in plotting.save(ax, folder / name, formats=("png",))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/places"), help="folder of the pictures")
    folder = parser.parse_args().out
    names = ("earthquake", "flood")
    files = compare(*(np.asarray(datasets.load(name).points) for name in names), names, folder)
    print(f"Written: {', '.join(map(str, files))}")


if __name__ == "__main__":
    main()
