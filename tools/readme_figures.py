"""Draw the figures of the README, docs/figures/readme_*.png, with the programs of the gallery.

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
FIGURES = {
    "readme_slice": "plot_02_great_circles",
    "readme_flow": "plot_03_gradient_flow",
    "readme_density": "plot_05_cities",
}


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


def main() -> None:
    """Draw all figures."""
    plt.show = lambda: None
    for name, script in FIGURES.items():
        draw(ROOT / "examples" / "gallery" / f"{script}.py", ROOT / "docs" / "figures" / f"{name}.png")


if __name__ == "__main__":
    main()
