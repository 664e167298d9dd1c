"""Embeddings in production: sketch a reference, test one window per day, find the first day with a new topic.

Documents of a few sentences stand for users' texts. From day 8 on, a tenth of them is of a topic that the reference
does not have. The monitor sees sketches alone, and whole documents are permuted.

    python -m examples.watch_embeddings [--out out/watch]
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sphereot
from sphereot.report import monitor_page
from sphereot.stats import DriftMonitor

DIM = 32


def documents(count: int, share_of_new_topic: float, rng: np.random.Generator) -> tuple[NDArray[np.float64], list[str]]:
    """Unit vectors of sentences, and the document of each; sentences of one document are alike."""
    topics = sphereot.sphere.random_uniform(6, DIM, seed=0)
    sizes = rng.integers(2, 8, count)
    of_document = np.where(rng.random(count) < share_of_new_topic, 5, rng.integers(0, 5, count))
    centers = topics[of_document] + 0.15 * rng.normal(size=(count, DIM))
    sentences = np.repeat(centers, sizes, axis=0)
    points = sphereot.sphere.normalize(sentences + 0.1 * rng.normal(size=sentences.shape))
    names = [f"document {number}" for number in np.repeat(rng.integers(2**60, size=count), sizes)]
    return points, names


def watch(days: int, folder: Path) -> list[str]:
    """The days on which the monitor raised an alarm; its history and its page are in the folder."""
    rng = np.random.default_rng(1)

    def sketch(count: int, share: float) -> sphereot.Sketch:
        points, names = documents(count, share, rng)
        return sphereot.Sketch(DIM, n_projections=64, bins=256, groups=64).update(points, groups=names)

    monitor = DriftMonitor(sketch(2000, 0.0), history=folder / "history.jsonl", alpha=0.05, horizon=30)
    for day in range(1, days + 1):
        result = monitor.check(sketch(400, 0.1 if day >= 8 else 0.0), label=f"day {day}")
        print(result.summary(monitor.p))
    monitor_page(folder / "drift.html", monitor, title="Texts of users")
    return [window.label for window in monitor.alarms]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/watch"), help="folder of the history and the page")
    arguments = parser.parse_args()
    (arguments.out / "history.jsonl").unlink(missing_ok=True)
    alarms = watch(arguments.days, arguments.out)
    print(f"Alarms: {', '.join(alarms) or 'none'}. Page: {arguments.out / 'drift.html'}")


if __name__ == "__main__":
    main()
