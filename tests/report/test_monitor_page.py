"""The page of a drift monitor, in a real browser: what it shows, hostile labels, many windows on a phone."""

from datetime import UTC, datetime

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from helpers.kernel import needs_kernel

from sphereot import Sketch, sphere
from sphereot.report import drift_page, monitor_page
from sphereot.stats import DriftMonitor, drift_test

pytestmark = needs_kernel

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'&amp;"


def sample(rng, shift=0.0, count=120):
    points = sphere.normalize(rng.normal(size=(count, 5)) + shift * np.eye(5)[0])
    return Sketch(5, n_projections=4, bins=32, groups=16).update(points, groups=range(count))


@pytest.fixture(scope="module")
def monitor():
    rng = np.random.default_rng(4)
    monitor = DriftMonitor(sample(rng), horizon=20)
    for day, shift in enumerate((0.0, 0.0, 1.0)):
        monitor.check(sample(rng, shift), label=f"day {day}", time=datetime(2026, 5, 1 + day, tzinfo=UTC))
    return monitor


def count(page, selector):
    return page.evaluate(f"document.querySelectorAll({selector!r}).length")


def test_shows_all_windows(monitor, open_page, tmp_path):
    page = open_page(monitor_page(tmp_path / "page.html", monitor, title="Texts", columns=list("abcde")))
    assert page.evaluate("document.querySelector('h1').textContent") == "Texts"
    assert page.evaluate("document.querySelector('.summary').textContent").startswith(
        "Drift detected in 1 of 3 windows"
    )
    assert count(page, "tbody tr") == count(page, "details") == 3
    assert count(page, ".chart-wide .drift-mark") == 1
    assert page.evaluate("document.querySelector('details[open] summary').textContent").startswith("day 2: drift")
    text = page.evaluate("document.body.textContent")
    assert "3, tested from 2026-05-01T00:00:00+00:00 to 2026-05-03T00:00:00+00:00" in text
    assert "Its plane lies nearest to the columns" in text
    assert "in 20 consecutive windows" in " ".join(text.split())


@pytest.mark.parametrize("width", [375, 1000])
def test_hostile_labels_are_text(open_page, tmp_path, width):
    rng = np.random.default_rng(0)
    hostile = DriftMonitor(sample(rng), horizon=1)
    hostile.check(sample(rng), label=HOSTILE)
    page = open_page(
        monitor_page(tmp_path / "page.html", hostile, title=HOSTILE, settings={HOSTILE: HOSTILE}), width=width
    )
    assert page.evaluate("window.hacked") is None
    assert count(page, "img") == 0
    assert HOSTILE in page.evaluate("document.querySelector('tbody th').textContent")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_last_of_many_windows(open_page, tmp_path):
    rng = np.random.default_rng(0)
    long = DriftMonitor(sample(rng), horizon=50, permutations=999)
    for _ in range(30):
        long.check(sample(rng))
    page = open_page(monitor_page(tmp_path / "page.html", long, last=25), width=400)
    assert count(page, "tbody tr") == 25
    assert "Not shown: 5 earlier windows of the history." in page.evaluate("document.body.textContent")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_page_of_a_test_of_sketches(open_page, tmp_path):
    """Without points there is neither a scatter plot nor a globe."""
    rng = np.random.default_rng(0)
    result = drift_test(sample(rng), [sample(rng), sample(rng, 1.0)], permutations=199, seed=0)
    page = open_page(drift_page(tmp_path / "page.html", result))
    assert count(page, "details") == 2
    assert count(page, "details figure") == 2
    assert count(page, ".globe") == 0


def test_messages(monitor, tmp_path):
    empty = DriftMonitor(sample(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="The monitor must have at least one window"):
        monitor_page(tmp_path / "page.html", empty)
    with pytest.raises(ValueError, match=r"columns must have one name per coordinate \(5\), got 2"):
        monitor_page(tmp_path / "page.html", monitor, columns=["a", "b"])
    result = drift_test(np.eye(3), [np.eye(3)], permutations=19, seed=0)
    with pytest.raises(ValueError, match=r"rows must have one entry per window \(1\), got 2"):
        drift_page(tmp_path / "page.html", result, rows=[None, None])
    assert not any(tmp_path.iterdir())
