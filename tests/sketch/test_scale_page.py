"""The example with a pool of processes of docs/guide/large_data.md runs as printed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from sphereot import Sketch, sphere

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "large_data.md"


def test_pool_of_processes(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## A pool of processes")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    points = sphere.random_uniform(300, 3, seed=0)
    paths = [str(tmp_path / f"{k}.npy") for k in range(3)]
    for path, part in zip(paths, np.array_split(points, 3), strict=True):
        np.save(path, part)
    script = tmp_path / "pool.py"
    result = tmp_path / "total.sketch"
    script.write_text(f"paths = {paths!r}\n{code}\n        total.save({str(result)!r})\n", encoding="utf-8")
    subprocess.run([sys.executable, str(script)], check=True, timeout=120)
    assert Sketch.load(result) == Sketch(3, n_projections=50).update(points)
