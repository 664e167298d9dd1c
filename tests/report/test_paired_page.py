"""The report of a paired test in a real browser: the histogram to scale, the limit, the rows, with hostile names."""

import re

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose

pytest.importorskip("matplotlib")

from sphereot.report import paired_page
from sphereot.report.charts import angle_histogram
from sphereot.sphere import normalize
from sphereot.stats import paired_test

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'&amp; " + "long" * 400
RNG = np.random.default_rng(0)
X = sphere_sample(RNG, 300, 6)
Y = normalize(X + 0.05 * RNG.normal(size=X.shape))
Y[5] = X[6]
FEW = {"permutations": 19, "n_projections": 5, "seed": 0}
RESULT = paired_test(X, Y, max_angle=10, **FEW)


def test_bars_count_the_rows():
    """The bars have the heights of NumPy's histogram, and even a single row is seen."""
    drawn = angle_histogram(RESULT, 860.0)
    chart = drawn["chart"]
    counts, edges = np.histogram(RESULT.angles, bins=71, range=chart.x_range)
    filled = counts > 0
    assert_allclose([x for x, _ in drawn["bars"]], chart.x(edges[:-1][filled]))
    assert_allclose(
        [height for _, height in drawn["bars"]], np.maximum(chart.bottom - chart.y(counts[filled]), 2.0), rtol=1e-9
    )
    assert chart.left <= chart.x(drawn["limit"]) <= chart.right


@pytest.mark.parametrize("limit", [None, 0, 120])
def test_equal_rows_and_far_limits_have_a_page(tmp_path, limit):
    for after in (X, Y):
        page = paired_page(tmp_path / "page.html", paired_test(X, after, max_angle=limit, **FEW)).read_text("utf-8")
        text = page[page.index("<main>") : page.index("</main>")]
        assert "nan" not in text
        assert ("limit" in re.sub("<[^>]+>", "", text)) == (limit is not None)


@pytest.mark.parametrize("width", [375, 1280])
def test_page(open_page, tmp_path, width):
    names = [f"text {k}" for k in range(300)]
    names[5] = HOSTILE
    page = open_page(
        paired_page(tmp_path / "page.html", RESULT, title=HOSTILE, names=names, settings={HOSTILE: HOSTILE}),
        width=width,
    )
    assert page.evaluate("document.querySelector('.summary').textContent") == RESULT.summary
    assert page.evaluate("document.querySelector('.summary').classList.contains('drift')")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 20
    first, second = (page.evaluate(f"document.querySelectorAll('tbody tr')[{k}].innerText") for k in (0, 1))
    rows = RESULT.moved(2)
    assert rows[0][0] == 5
    assert f"{rows[0][1]:.4g}" in first
    assert f"text {rows[1][0]}" in second
    chart = ".chart-narrow" if width < 600 else ".chart-wide"
    box = "(b => [b.left, b.right])(document.querySelector('{} {}').getBoundingClientRect())"
    left, right = page.evaluate(box.format(chart, ".limit"))
    boxes = f"[...document.querySelectorAll('{chart} rect')].map(e => e.getBoundingClientRect())"
    bars = page.evaluate(f"{boxes}.map(box => (box.left + box.right) / 2)")
    assert min(bars) < left <= right < max(bars)


def test_different_dimensions_have_no_chart(open_page, tmp_path):
    result = paired_test(X, normalize(Y[:, :4]), **FEW)
    page = open_page(paired_page(tmp_path / "page.html", result))
    assert page.evaluate("document.querySelector('h1').textContent") == "Paired comparison"
    assert page.evaluate("document.querySelectorAll('svg, table').length") == 0
    assert "only the nearest neighbors are compared" in page.evaluate("document.body.textContent")


def test_names_are_one_per_row(tmp_path):
    with pytest.raises(ValueError, match=r"names must have one name per row \(300\), got 2"):
        paired_page(tmp_path / "page.html", RESULT, names=["a", "b"])
    assert list(tmp_path.iterdir()) == []
