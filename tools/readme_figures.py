"""Draw the figure of the README, docs/figures/readme_slice.png, with a program of the gallery.

Run with `python tools/readme_figures.py`.
"""

import io
import os
import runpy
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image

ROOT = Path(__file__).parents[1]
WIDTH = 800  # pixels
PROGRAM = ROOT / "examples" / "gallery" / "plot_02_great_circles.py"
FIGURE = ROOT / "docs" / "figures" / "readme_slice.png"


def draw(script: Path, target: Path) -> None:
    """Run a program and save its first figure, scaled to the width."""
    plt.close("all")
    runpy.run_path(str(script))
    buffer = io.BytesIO()
    plt.figure(plt.get_fignums()[0]).savefig(buffer, dpi=240, bbox_inches="tight", pad_inches=0.05)
    image = Image.open(buffer).convert("RGB")
    small = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    small.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=2).save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    plt.show = lambda: None
    draw(PROGRAM, FIGURE)
