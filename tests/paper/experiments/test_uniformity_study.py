"""The study of uniformity terms on S^9: the rising weight, KoLeo and SIGReg, and how the settings are chosen."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
for package in ("kornia", "torchmetrics"):
    pytest.importorskip(package)
distance = pytest.importorskip("scipy.spatial.distance")

from paper.experiments.uniformity_study import _LOSSES, Config, RisingWeight, _best_settings
from paper.learning.view_losses import SIGRegLoss, koleo


def points(n, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(n, dim, generator=generator, dtype=torch.float64))


def test_weight_rises_geometrically_in_the_first_half():
    weight = RisingWeight(10.0, 100.0, 200)
    assert_allclose([weight(0), weight(50), weight(100), weight(199)], [10, 10 * math.sqrt(10), 100, 100])


def test_koleo_is_the_mean_log_distance_of_the_nearest():
    """Against SciPy's distance matrix; equal points give a large finite value."""
    x = points(40, 5)
    distances = distance.squareform(distance.pdist(x.numpy()))
    np.fill_diagonal(distances, np.inf)
    assert_allclose(float(koleo(x)), -np.log(distances.min(axis=1) + 1e-8).mean(), rtol=1e-12)
    assert float(koleo(torch.cat([x, x]))) == pytest.approx(-math.log(1e-8), rel=1e-6)


def test_sigreg_is_the_distance_of_characteristic_functions():
    """Against a mean of complex exponentials over many other directions."""
    loss, x = SIGRegLoss(200, seed=0), points(50, 6)
    value = float(loss(x))
    directions = points(20_000, 6, seed=3).numpy()
    t = np.linspace(-5, 5, 17)
    phases = math.sqrt(6) * directions @ x.numpy().T
    errors = []
    for at in t:
        empirical = np.exp(1j * at * phases).mean(axis=1)
        errors.append(np.abs(empirical - np.exp(-(at**2) / 2)) ** 2 * np.exp(-(at**2) / 2))
    statistics = 50 * np.trapezoid(np.array(errors), t, axis=0)
    # 200 random directions against 20,000: four standard errors.
    assert abs(value - statistics.mean()) < 4 * statistics.std() / math.sqrt(200)


def test_sigreg_draws_new_directions_and_resumes():
    loss, x = SIGRegLoss(50, seed=0), points(50, 6)
    first, second = float(loss(x)), float(loss(x))
    assert first != second
    resumed = SIGRegLoss(50, seed=0)
    resumed.load_state_dict({"draws": torch.tensor(1)})
    assert float(resumed(x)) == second


def test_settings_are_chosen_by_the_validation_accuracy():
    tried = [("SSW", 20.0, 0.38), ("SSW", 60.0, 0.40), ("SimCLR", 0.5, 0.45)]
    rows = [
        {"part": "validation", "method": name, "weight": weight, "even_weight": 1.0, "accuracy_features": accuracy}
        for name, weight, accuracy in tried
    ]
    config = Config(grid=(("SSW", ((20.0, 1.0), (60.0, 1.0))), ("SimCLR", ((0.5, 1.0),))))
    assert _best_settings(rows, config) == {"SSW": (60.0, 1.0), "SimCLR": (0.5, 1.0)}


@pytest.mark.parametrize("method", _LOSSES)
def test_every_loss_has_a_finite_gradient(method):
    a, b = points(12, 10).requires_grad_(), points(12, 10, seed=1)
    _LOSSES[method](0.5, 10.0, 100, 0)(a, b).backward()
    assert bool(a.grad.isfinite().all())
    assert bool((a.grad != 0).any())
