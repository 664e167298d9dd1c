"""False alarms, power, time and memory of drift detectors on the same windows of sentence embeddings.

    python -m benchmarks.drift_tools [--repeats 400] [--power-repeats 60] [--quick] [--out out/embeddings]

Two kinds of windows of 200 sentences are compared with a reference of 1,000: sentences of movie reviews drawn one at a
time, with a share of sentences of product reviews; and whole newspaper editorials, with a share of whole product
reviews. Sentences of one document are similar. The second kind shows how tests that assume independent points react to
this.

Besides `drift_test` (order 1 and 2, of points and of groups): evidently with its defaults for embeddings, and its MMD
with a bootstrap; a domain classifier; the distance of the centroids. The tools are measured as they are installed:

    pip install -c constraints.txt -e '.[embeddings]' 'evidently>=0.7,<0.8'

alibi-detect is left out: its license does not allow every use.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sphereot
from benchmarks.embeddings import HOME, REFERENCE, SLICES, Points, embedded, mixed, read_topic, workers
from benchmarks.power import LEVEL, PERMUTATIONS, Rng, Row, markdown
from benchmarks.timing import machine, write_json
from sphereot._support.extras import progress_bar
from sphereot.stats import drift_test

ARTICLES, FOREIGN = "editorials", "products"
WINDOW = 200
SHARES = (0, 10, 20, 40)
SLOW_REPEATS = 20  # windows for tools that take seconds each

Labels = NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """A reference and a window, with the document of every sentence."""

    reference: Points
    window: Points
    reference_documents: Labels
    window_documents: Labels


# ---- the tools: whether each calls drift ----


def ssw(samples: Samples, rng: Rng, *, p: float | None, grouped: bool) -> bool:
    """`drift_test` of points, or of whole documents, on SSW_p only, or the combined test without `p`."""
    groups = [samples.reference_documents, samples.window_documents] if grouped else None
    frames = sphereot.great_circles(SLICES, samples.reference.shape[1], method="quasi", seed=rng, like=samples.window)
    result = drift_test(
        samples.reference,
        [samples.window],
        statistic="combined" if p is None else "ssw",
        p=p,
        groups=groups,
        alpha=LEVEL,
        permutations=PERMUTATIONS,
        projections=frames,
        seed=rng,
    )
    return result.drifted


def evidently_default(samples: Samples, rng: Rng) -> bool:
    """The method that EmbeddingsDriftMetric uses if none is given."""
    from evidently.legacy.metrics.data_drift.embedding_drift_methods import model

    return _evidently(model(bootstrap=len(samples.reference) < 1000), samples)


def evidently_mmd(samples: Samples, rng: Rng) -> bool:
    """Its MMD, with its defaults."""
    from evidently.legacy.metrics.data_drift.embedding_drift_methods import mmd

    return _evidently(mmd(), samples)


def evidently_mmd_bootstrap(samples: Samples, rng: Rng) -> bool:
    """Its MMD with a bootstrap, which replaces the threshold."""
    from evidently.legacy.metrics.data_drift.embedding_drift_methods import mmd

    return _evidently(mmd(bootstrap=True), samples)


def _evidently(method: Any, samples: Samples) -> bool:
    import pandas as pd

    frames = [pd.DataFrame(points.astype(float)) for points in (samples.window, samples.reference)]
    for frame in frames:
        frame.columns = [f"c{k}" for k in range(frame.shape[1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(method(*frames)[1])


def classifier(samples: Samples, rng: Rng) -> bool:
    """Logistic regression on half of the points; on the other half, a rank test of its scores."""
    from scipy.stats import mannwhitneyu
    from sklearn.linear_model import LogisticRegression

    points = np.concatenate([samples.reference, samples.window])
    labels = np.repeat([0, 1], [len(samples.reference), len(samples.window)])
    order = rng.permutation(len(points))
    half = len(points) // 2
    model = LogisticRegression(class_weight="balanced", max_iter=200).fit(points[order[:half]], labels[order[:half]])
    scores, held_out = model.decision_function(points[order[half:]]), labels[order[half:]]
    return bool(mannwhitneyu(scores[held_out == 1], scores[held_out == 0], alternative="greater").pvalue <= LEVEL)


def centroid(samples: Samples, rng: Rng) -> bool:
    """Distance of the means, with permutations of the points."""
    points = np.concatenate([samples.reference, samples.window]).astype(np.float64)
    first = np.tile(np.arange(len(points)) < len(samples.reference), (1 + PERMUTATIONS, 1))
    first[1:] = rng.permuted(first[1:], axis=1)
    weights = np.where(first, 1 / len(samples.reference), -1 / len(samples.window))
    values = np.linalg.norm(weights @ points, axis=1)
    return bool(np.mean(values >= values[0] * (1 - 1e-12)) <= LEVEL)


Tool = Callable[[Samples, Rng], bool]
TOOLS: dict[str, Tool] = {
    "combined, points": lambda samples, rng: ssw(samples, rng, p=None, grouped=False),
    "combined, groups": lambda samples, rng: ssw(samples, rng, p=None, grouped=True),
    "SSW_1, points": lambda samples, rng: ssw(samples, rng, p=1, grouped=False),
    "SSW_1, groups": lambda samples, rng: ssw(samples, rng, p=1, grouped=True),
    "SSW_2, groups": lambda samples, rng: ssw(samples, rng, p=2, grouped=True),
    "evidently, default": evidently_default,
    "evidently, mmd()": evidently_mmd,
    "evidently, mmd(bootstrap=True)": evidently_mmd_bootstrap,
    "classifier": classifier,
    "centroid": centroid,
}
SLOW = {"evidently, mmd(bootstrap=True)"}


# ---- windows ----


@dataclass(frozen=True)
class Sentences:
    """Sentences of movie reviews one at a time, a share of them of product reviews; each is its own document."""

    home: Path
    foreign: Path
    percent: int

    def samples(self, rng: Rng) -> Samples:
        """A reference and a window."""
        home, foreign = np.load(self.home, mmap_mode="r"), np.load(self.foreign, mmap_mode="r")
        first, same, others = mixed(len(home), len(foreign), REFERENCE, WINDOW, self.percent, rng)
        window = np.concatenate([home[same], foreign[others]])
        return Samples(home[first], window, np.arange(REFERENCE), REFERENCE + np.arange(WINDOW))


@dataclass(frozen=True)
class Documents:
    """Whole editorials, in the reference too; in the window a share of documents is product reviews."""

    home: Path
    foreign: Path
    percent: int
    home_documents: tuple[str, ...]
    foreign_documents: tuple[str, ...]

    def samples(self, rng: Rng) -> Samples:
        """A reference and a window."""
        home, foreign = np.load(self.home, mmap_mode="r"), np.load(self.foreign, mmap_mode="r")
        own, other = np.array(self.home_documents), np.array(self.foreign_documents)
        order = rng.permutation(np.unique(own))
        window, rest = whole_documents(own, order, WINDOW)
        reference, _ = whole_documents(own, rest, REFERENCE)
        count = round(len(window) * self.percent / 100)
        kept = window[count:]
        strange = rng.permutation(np.unique(other))[:count]
        rows = [np.flatnonzero(np.isin(own, chosen)) for chosen in (reference, kept)]
        new = np.flatnonzero(np.isin(other, strange))
        return Samples(
            home[rows[0]],
            np.concatenate([home[rows[1]], foreign[new]]),
            own[rows[0]],
            np.concatenate([own[rows[1]], np.char.add("product ", other[new])]),
        )


def whole_documents(documents: Labels, order: Labels, size: int) -> tuple[Labels, Labels]:
    """The first documents that have at least `size` sentences together, and the others."""
    sizes = np.cumsum([np.count_nonzero(documents == document) for document in order])
    taken = int(np.searchsorted(sizes, size)) + 1
    return order[:taken], order[taken:]


@dataclass(frozen=True)
class Trial:
    """One window by several tools; its seed does not depend on the order of trials."""

    windows: Sentences | Documents
    tools: tuple[str, ...]

    def __call__(self, number: int) -> dict[str, bool]:
        """Which of the tools call drift."""
        seed = [*type(self.windows).__name__.encode(), self.windows.percent, number]
        samples = self.windows.samples(np.random.default_rng(seed))
        return {tool: TOOLS[tool](samples, np.random.default_rng([*seed, *tool.encode()])) for tool in self.tools}


def alarms(windows: Sentences | Documents, tools: Sequence[str], repeats: int, pool: Executor) -> Row:
    """Percentage of windows in which each tool calls drift."""
    found = []
    label = f"{type(windows).__name__}, {windows.percent}%"
    with progress_bar(sys.stdout.isatty(), label, repeats) as show:
        for result in pool.map(Trial(windows, tuple(tools)), range(repeats), chunksize=2):
            found.append(result)
            show(len(found))
    return {tool: 100 * float(np.mean([result[tool] for result in found])) for tool in tools}


# ---- time and memory ----

_COST = """
import sys
from benchmarks.drift_tools import cost
print(*cost(sys.argv[1], sys.argv[2], sys.argv[3]))
"""


def cost(tool: str, home: str, foreign: str) -> tuple[float, float]:
    """Seconds of one call, the least of three, and peak memory beyond the points in MB; in a separate process."""
    samples = Sentences(Path(home), Path(foreign), 0).samples(np.random.default_rng(0))
    small = Samples(samples.reference[:50], samples.window[:50], np.arange(50), 50 + np.arange(50))
    TOOLS[tool](small, np.random.default_rng(0))  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for number in range(1 if tool in SLOW else 3):
        start = time.perf_counter()
        TOOLS[tool](samples, np.random.default_rng(number))
        seconds.append(time.perf_counter() - start)
    return min(seconds), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def measured_cost(tool: str, files: dict[str, Path]) -> Row:
    """`cost` in a separate process, with one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SPHEREOT_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _COST, tool, str(files[HOME]), str(files[FOREIGN])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, megabytes = map(float, done.stdout.split())
    return {"seconds": round(seconds, 3), "MB": round(megabytes)}


@cache
def available_tools() -> tuple[str, ...]:
    """The tools whose package is installed."""
    from importlib.util import find_spec

    if find_spec("evidently") is not None:
        return tuple(TOOLS)
    print("evidently is not installed: pip install 'evidently>=0.7,<0.8'; it is left out")
    return tuple(tool for tool in TOOLS if not tool.startswith("evidently"))


def main() -> None:
    """Measure all tools on all kinds of windows; print one table, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400, help="windows without drift, of each kind")
    parser.add_argument("--power-repeats", type=int, default=60, help="windows of each share")
    parser.add_argument("--quick", action="store_true", help="6 windows each")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--out", type=Path, default=Path("out/embeddings"), help="folder of embeddings and results")
    arguments = parser.parse_args()
    topics = {name: read_topic(name, arguments.out) for name in (HOME, FOREIGN, ARTICLES)}
    files = {name: embedded(topic, arguments.out) for name, topic in topics.items()}
    of_articles = (topics[ARTICLES].documents, topics[FOREIGN].documents)
    rows: dict[str, Row] = {tool: {"tool": tool} for tool in available_tools()}
    begin = time.perf_counter()
    with workers(arguments.workers) as pool:
        for percent in SHARES:
            repeats = 6 if arguments.quick else arguments.power_repeats if percent else arguments.repeats
            for name, windows in (
                ("sentences", Sentences(files[HOME], files[FOREIGN], percent)),
                ("documents", Documents(files[ARTICLES], files[FOREIGN], percent, *of_articles)),
            ):
                fast, slow = ([tool for tool in rows if (tool in SLOW) == wanted] for wanted in (False, True))
                found = alarms(windows, fast, repeats, pool)
                if percent in (SHARES[0], SHARES[2]) and slow:
                    found |= alarms(windows, slow, min(repeats, SLOW_REPEATS), pool)
                for tool, value in found.items():
                    rows[tool][f"{name}, {percent}%"] = round(value, 1)
                print(f"{name}, {percent}%: {found}", flush=True)
    for tool in rows:
        rows[tool] |= measured_cost(tool, files)
    table = list(rows.values())
    columns = dict.fromkeys(name for row in table[:1] for name in row)
    shown: list[Row] = [
        {name: f"{row[name]:.3f}" if name == "seconds" else row.get(name, "") for name in columns} for row in table
    ]
    print(f"\nWindows with an alarm, in percent; seconds and memory of one window, one thread\n\n{markdown(shown)}")
    print(f"\n{time.perf_counter() - begin:.0f} s")
    content = {"machine": machine(), "repeats": arguments.repeats, "power_repeats": arguments.power_repeats}
    write_json(arguments.out / "drift_tools.json", content | {"rows": table})


if __name__ == "__main__":
    main()
