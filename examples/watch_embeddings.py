"""For an engineer who watches embeddings: sketch the reference, test one window per day, find a new kind of image.

The data are scikit-learn's digits: 1,797 images of 8 x 8 pixels, written by 43 people. They stand for what users send
to a model. The reference and the first seven days have no nines; from day 8 on, nines are among the images. Read the
cells from top to bottom, run them one at a time in an editor that supports `# %%`, or run all of them from the root of
the repository: `python -m examples.watch_embeddings` (a few seconds). It writes into out/watch.
"""

# %%
# The stream. All images are shuffled once, so that nothing but the nines changes over time, and each is sent only once:
# 600 before the watch begins, then 100 a day.

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import sphereot
from sphereot.report import monitor_page
from sphereot.stats import DriftMonitor

images, labels = load_digits(return_X_y=True)
rng = np.random.default_rng(1)
known, nines = (rng.permutation(np.flatnonzero(chosen)) for chosen in (labels != 9, labels == 9))
reference, rest = known[:600], known[600:]
days = []
for day in range(1, 10):
    n_nines = 0 if day < 8 else 40
    days.append(np.concatenate([rest[: 100 - n_nines], nines[:n_nines]]))
    rest, nines = rest[100 - n_nines :], nines[n_nines:]

# %%
# An encoder stands between images and monitor. Here it is the first 16 principal components of the reference, scaled to
# unit length; it stays as it is while the stream goes on.

encoder = PCA(16, random_state=0).fit(images[reference])


def embed(rows: np.ndarray) -> np.ndarray:
    """Unit vectors, one per image."""
    return sphereot.sphere.normalize(encoder.transform(images[rows]))


# %%
# A sketch is a small summary that replaces the points: histograms of them on 64 great circles. Name the group of every
# point: points of one group (a document, a user) may depend on each other, and the test exchanges whole groups between
# reference and window. Here every image is a group of its own.


def sketch(rows: np.ndarray) -> sphereot.Sketch:
    names = [f"image {row}" for row in rows]
    return sphereot.Sketch(16, n_projections=64, bins=128, groups=64).update(embed(rows), groups=names)


print(f"a sketch of {len(reference)} images takes {len(sketch(reference).to_bytes()) / 1024:.0f} kB")

# %%
# The monitor bounds the probability of any false alarm in 30 windows by 5 %. It raises an alarm on days 8 and 9, and
# on none before.

folder = Path("out/watch")
(folder / "history.jsonl").unlink(missing_ok=True)  # only here: the example starts again; keep a history in use
monitor = DriftMonitor(sketch(reference), history=folder / "history.jsonl", alpha=0.05, horizon=30)
for number, rows in enumerate(days, 1):
    result = monitor.check(sketch(rows), label=f"day {number}")
    print(result.summary(monitor.p))
alarms = [window.label for window in monitor.alarms]

# %%
# The page shows distances over time, and the great circle on which each day differs most.

monitor_page(folder / "drift.html", monitor, title="Images of digits")
print(f"Alarms: {', '.join(alarms) or 'none'}. Page: {folder / 'drift.html'}")
