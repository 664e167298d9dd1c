"""Pictures of `sphereot test --map`: outlines on the globe, and the plane of the most differing great circles."""

import re

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from helpers.cli import run
from numpy.testing import assert_allclose

from sphereot import plotting, sphere
from sphereot.plotting import difference, globe

DIM = 24


@pytest.fixture
def topics(tmp_path):
    """Sentences of eight topics; a fifth of those of friday is of a ninth."""
    rng = np.random.default_rng(0)
    centers = np.linalg.qr(rng.normal(size=(DIM, 9)))[0].T

    def sentences(which):
        return sphere.normalize(centers[which] + 0.1 * rng.normal(size=(len(which), DIM)))

    np.save(tmp_path / "monday.npy", sentences(rng.integers(0, 8, 1300)))
    np.save(tmp_path / "$fri_$day <b>.npy", sentences(np.where(np.arange(200) < 40, 8, rng.integers(0, 8, 200))))
    return [tmp_path / "monday.npy", tmp_path / "$fri_$day <b>.npy", "--permutations", 39]


@pytest.fixture
def halves(tmp_path):
    """Points around 0 E and around 90 E, 0 N."""
    rng = np.random.default_rng(0)
    for name, axis in (("first", 0), ("second", 1)):
        np.save(tmp_path / f"{name}.npy", sphere.normalize(rng.normal(size=(150, 3)) + 2 * np.eye(3)[axis]))
    return [tmp_path / "first.npy", tmp_path / "second.npy", "--permutations", 39]


def test_image_shows_the_plane_of_a_planted_topic(topics, tmp_path, monkeypatch):
    """The new topic lies apart from all other sentences along the first axis."""
    calls = []
    draw = difference.plane_scatter
    monkeypatch.setattr(difference, "plane_scatter", lambda *args: calls.append((*args, draw(*args))) or calls[-1][-1])
    done = run("test", *topics, "--map", tmp_path / "plane.png")
    assert done.exit_code == 0, done.output
    assert "plane.png: both files in the plane of the great circles that differ most" in " ".join(done.stdout.split())
    assert (tmp_path / "plane.png").read_bytes().startswith(b"\x89PNG")
    (before, after), labels, axis_names, note, ax = calls[0]
    assert (before.shape, after.shape) == ((1000, 2), (200, 2))
    others = np.concatenate([before[:, 0], after[40:, 0]])
    assert (after[:40, 0].mean() - others.mean()) / others.std() > 3
    assert labels == ["monday (1,000 of 1,300 points)", r"\$fri_\$day <b>"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == axis_names
    assert [text.get_text() for text in ax.get_legend().get_texts()] == labels
    assert "8 great circles with the largest difference" in note
    share = int(re.search(r"contains (\d+)% of the squared distance", note).group(1))
    assert 50 < share <= 100


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [375, 1280])
def test_page_of_a_plane(topics, tmp_path, open_page, width, dark):
    done = run("test", *topics, "--map", tmp_path / "plane.html")
    assert done.exit_code == 0, done.output
    page = open_page(tmp_path / "plane.html", width=width, height=800, dark=dark)
    assert page.evaluate("document.querySelector('h1').textContent") == "Where monday and $fri_$day <b> differ"
    caption = page.evaluate("document.querySelector('figcaption').textContent")
    assert "monday (1,000 of 1,300 points)" in caption
    assert "$fri_$day <b>" in caption
    assert "the plane lies in the span of the 8 great circles" in caption.lower()
    assert "p-value of the test" in page.evaluate("document.querySelector('main > p').textContent")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    left, right = page.evaluate("(b => [b.left, b.right])(document.querySelector('.chart').getBoundingClientRect())")
    assert 0 <= left < right <= width
    assert page.contrast("figcaption", "color") > 4.5


def test_plane_from_fewer_circles(tmp_path):
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", sphere.random_uniform(30, 5, seed=ord(name)))
    files = [tmp_path / "x.npy", tmp_path / "y.npy"]
    done = run("test", *files, "--permutations", 19, "--projections", 3, "--map", tmp_path / "p.html")
    assert done.exit_code == 0, done.output
    assert "in the span of the 3 great circles" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_globe_outlines_the_regions(halves, tmp_path, monkeypatch):
    """The page gets the regions of the map, names both kinds of lines, and states shares and level."""
    calls = []
    write = globe.globe_page
    monkeypatch.setattr(globe, "globe_page", lambda *args, **kw: calls.append(kw) or write(*args, **kw))
    done = run("test", *halves, "--map", tmp_path / "map.html")
    assert done.exit_code == 0, done.output
    regions = calls[0]["regions"]
    cells = plotting.map_points(len(regions))
    for sign, axis in ((1, 0), (-1, 1)):
        middle = cells[sign * regions > 0.5].mean(axis=0)
        assert_allclose(middle[axis] / np.linalg.norm(middle), 1, atol=0.2)
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert '<span class="globe-outline"></span> first is significantly denser' in text
    assert '<span class="globe-outline dashed"></span> second is significantly denser' in text
    (note,) = re.findall('<p class="globe-note">(.*)</p>', text)
    assert re.match(r"first is significantly denser on [\d.]+% of the sphere, second on [\d.]+% \(alpha = 0.05\)", note)
    assert "at most 5%" in note


def test_globe_without_regions(tmp_path):
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", sphere.random_uniform(40, 3, seed=ord(name)))
    done = run("test", tmp_path / "x.npy", tmp_path / "y.npy", "--permutations", 19, "--map", tmp_path / "map.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "No region is outlined." in text
    assert '<p class="globe-regions">' not in text
