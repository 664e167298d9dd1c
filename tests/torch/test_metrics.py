"""Metrics of embeddings against definitions, scikit-learn and known cases; batch by batch as all at once."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")

from numpy.testing import assert_allclose
from torchmetrics import MetricCollection

import sphereot
from sphereot.torch import metrics as functional
from sphereot.torch.metrics import Alignment, EffectiveRank, KNNAccuracy, SSWDistance, Uniformity


def points(n, dim, seed=0):
    return sphereot.sphere.random_uniform(n, dim, seed=seed, like=torch.empty(0))


def test_alignment():
    a, b = points(20, 4), points(20, 4, 1)
    expected = np.mean(np.sum((a.numpy() - b.numpy()) ** 2, axis=1))
    assert_allclose(functional.alignment(a, b), expected, rtol=1e-6)
    metric = Alignment()
    for rows in (slice(0, 3), slice(3, 20)):
        metric.update(a[rows], b[rows])
    assert_allclose(metric.compute(), expected, rtol=1e-6)


def test_uniformity_is_unbiased_and_exact():
    """The mean over samples of uniform points is 0, for small and large batches; all equal points have 1/12."""
    for n in (3, 30):
        values = [float(functional.uniformity(points(n, 5, k))) for k in range(300)]
        assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(300)
    assert float(functional.uniformity(points(1, 5).expand(6, 5))) == pytest.approx(1 / 12, rel=1e-6)
    metric, x = Uniformity(), points(25, 4)
    metric.update(x[:10])
    metric.update(x[10:])
    assert_allclose(metric.compute(), sphereot.ssw_uniform(x, method="exact", unbiased=True), rtol=1e-6)


def test_effective_rank():
    """Against the entropy of SciPy; equal singular values count whole, a line counts 1, mixing does not change it."""
    stats = pytest.importorskip("scipy.stats")
    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(0)) * torch.tensor([5.0, 3, 1, 0.5, 0.1, 0.0])
    singular = np.linalg.svd(x.numpy(), compute_uv=False)
    expected = math.exp(stats.entropy(singular))
    assert_allclose(functional.effective_rank(x), expected, rtol=1e-5)
    metric = EffectiveRank(6)
    metric.update(x[:20])
    metric.update(x[20:])
    assert_allclose(metric.compute(), expected, rtol=1e-4)
    assert float(functional.effective_rank(x[:, :1] @ torch.ones(1, 6))) == pytest.approx(1.0, abs=1e-3)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1)))[0]
    assert_allclose(functional.effective_rank(x @ rotation), expected, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 5])
def test_knn_equals_scikit_learn(k):
    """With equal votes; k = 1 and odd k with two classes have no ties."""
    neighbors = pytest.importorskip("sklearn.neighbors")
    reference, x = points(80, 3), points(40, 3, 1)
    labels, truth = (reference[:, 0] > 0).long(), (x[:, 0] > 0).long()
    classifier = neighbors.KNeighborsClassifier(k, metric="cosine").fit(reference.numpy(), labels.numpy())
    expected = classifier.score(x.numpy(), truth.numpy())
    ours = functional.knn_accuracy(x, truth, reference, labels, k=k, temperature=math.inf)
    assert float(ours) == pytest.approx(expected)
    metric = KNNAccuracy(reference, labels, k=k, temperature=math.inf)
    metric.update(x[:7], truth[:7])
    metric.update(x[7:], truth[7:])
    assert float(metric.compute()) == pytest.approx(expected)


def test_near_neighbors_count_more():
    """One neighbor of the right class at hand outweighs two farther ones."""
    reference = torch.nn.functional.normalize(torch.tensor([[1.0, 0.01], [1.0, 0.6], [1.0, -0.6]]), dim=1)
    labels = torch.tensor([0, 1, 1])
    x = torch.tensor([[1.0, 0.0]])
    assert functional._vote(x, reference, labels, k=3, temperature=0.07).tolist() == [0]
    assert functional._vote(x, reference, labels, k=3, temperature=math.inf).tolist() == [1]


def test_blocks_of_neighbors(monkeypatch):
    reference, x = points(30, 4), points(20, 4, 1)
    labels = torch.arange(30) % 3
    whole = functional._vote(x, reference, labels, k=4, temperature=0.1)
    monkeypatch.setattr(functional, "_BLOCK", 90)
    assert torch.equal(functional._vote(x, reference, labels, k=4, temperature=0.1), whole)


def test_in_a_collection():
    """As any torchmetrics metric: reset, forward, state."""
    metrics = MetricCollection([Uniformity(), EffectiveRank(4)])
    x = points(10, 4)
    assert set(metrics(x)) == {"Uniformity", "EffectiveRank"}
    before = {name: float(value) for name, value in metrics.compute().items()}
    metrics.reset()
    metrics.update(x)
    assert {name: float(value) for name, value in metrics.compute().items()} == pytest.approx(before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: functional.alignment(points(3, 4), points(2, 4)), r"view_b must have the shape of .*got \(2, 4\)"),
        (lambda: functional.alignment(2 * points(3, 4), points(3, 4)), r"view_a: row 0 has length 2"),
        (lambda: functional.uniformity(points(1, 4)), r"unbiased"),
        (lambda: functional.effective_rank(torch.ones(3)), r"x must contain floats .*got shape \(3,\)"),
        (lambda: functional.effective_rank(torch.full((2, 2), math.nan)), "x must be finite, got NaN or infinity"),
        (lambda: EffectiveRank(3).update(points(3, 4)), r"x must have shape \(n, 3\), got \(3, 4\)"),
        (lambda: KNNAccuracy(points(5, 3), torch.arange(5), k=6), r"k must be at most .* \(5\), got 6"),
        (lambda: KNNAccuracy(points(5, 3), torch.arange(4), k=2), r"labels must have one .* \(5,\), got \(4,\)"),
        (lambda: KNNAccuracy(points(5, 3), torch.arange(5) - 1, k=2), "reference_labels must be nonnegative, got -1"),
        (lambda: KNNAccuracy(points(5, 3), torch.arange(5), k=2, temperature=0.0), r"temperature must be pos.*got 0.0"),
        (lambda: KNNAccuracy(points(5, 3), torch.arange(5), k=2).update(points(3, 4), torch.arange(3)),
         r"x must have the dimension of the reference \(3\), got 4"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.filterwarnings("ignore:The ``compute`` method")  # before an update, on purpose
def test_distance_of_two_streams():
    """Batches do not matter: the value is that of all embeddings, on the great circles of the seed."""
    x, y = points(90, 4), points(90, 4, 1)
    frames = sphereot.great_circles(30, 4, method="quasi", seed=7, like=x)
    for p in (1, 2):
        metric = SSWDistance(p, n_projections=30, seed=7)
        for part in x.split(40):
            metric.update(part, real=True)
        for part in y.split(25):
            metric.update(part, real=False)
        assert torch.equal(metric.compute(), sphereot.ssw(x, y, p=p, projections=frames, root=True))
        metric.reset()
        with pytest.raises(ValueError, match="SSWDistance needs embeddings of both streams, got none with real=True"):
            metric.compute()
