"""The study of the paired test: how the embeddings are changed, and the cells of its table."""

import numpy as np
import pytest
from helpers.generators import sphere_sample

pytest.importorskip("ot")

from benchmarks.paired import changed, row
from sphereot.stats import paired_test


def test_changes_and_table():
    points = sphere_sample(np.random.default_rng(0), 60, 8, dtype=np.float32)
    copies = changed(points, np.random.default_rng(1))
    assert [copy.shape[1] for copy in copies.values()] == [8, 8, 4, 8]
    rows = [row(name, paired_test(points, copy, permutations=19, seed=0), 1.0) for name, copy in copies.items()]
    assert len({tuple(cells) for cells in rows}) == 1  # the same columns
    assert [cells["explained, %"] for cells in rows][1:3] == ["100.0", "-"]
    assert rows[1]["neighbors kept, %"] == "100.0"
    assert rows[2]["neighbors kept, %"] == rows[3]["neighbors kept, %"]
