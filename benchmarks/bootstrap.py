"""The bootstrap of the points: its time against one `ssw`, and how often its intervals hold the true distance.

`python -m benchmarks.bootstrap`
"""

import numpy as np

import sphereot
from benchmarks.timing import best_of
from sphereot._arrays.random import numpy_generator
from sphereot._backends.protocol import Measure
from sphereot.distance.bootstrap import resample_points
from sphereot.sphere import normalize, random_uniform

RESAMPLES = 200
TRIALS = 600
LEVEL = 0.9


def measure_time():
    print(f"{'n = m':>8} {'d':>4} {'p':>3} {'one ssw':>10} {'per resample':>13} {'ratio':>6} {RESAMPLES:>5} resamples")
    for n, dim in ((1_000, 3), (10_000, 3), (10_000, 128)):
        x, y = (random_uniform(n, dim, seed=seed).astype(np.float32) for seed in (0, 1))
        measures = [Measure(x), Measure(y)]
        for p in (1.0, 2.0):
            one, all_of_them = best_of(
                lambda p=p, x=x, y=y: sphereot.ssw(x, y, p=p, seed=0),
                lambda p=p, m=measures, x=x: resample_points(m, p, RESAMPLES, numpy_generator(0, x), False),
            )
            each = all_of_them / (RESAMPLES + 24)  # with the samples of the noise floor
            times = f"{1e3 * one:>8.2f}ms {1e3 * each:>11.2f}ms {each / one:>6.2f}"
            print(f"{n:>8} {dim:>4} {p:>3g} {times} {all_of_them:>7.2f} s")


def measure_coverage():
    frames = sphereot.great_circles(100, 3, method="quasi", seed=0)
    error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / TRIALS)
    print(f"Intervals of level {LEVEL:.0%} that hold the distance, {TRIALS} pairs of samples (± {error:.1f} %)")
    for p in (1, 2):
        for sizes in ((80, 60), (300, 250)):
            rng = np.random.default_rng(0)

            def samples(sizes, rng=rng):
                return [normalize(rng.normal(size=(n, 3)) + k * np.eye(3)[0]) for k, n in enumerate(sizes)]

            truth = float(sphereot.ssw(*samples((40_000, 40_000)), p=p, projections=frames))
            held = 0
            for trial in range(TRIALS):
                estimate = sphereot.ssw_estimate(*samples(sizes), p=p, bootstrap=RESAMPLES, seed=trial)
                low, high = estimate.sampling_interval(LEVEL)
                held += low <= truth <= high
            print(f"  p = {p}, n = {sizes[0]}, m = {sizes[1]}: {held / TRIALS:.1%}")


if __name__ == "__main__":
    measure_time()
    measure_coverage()
