"""Train an autoencoder whose codes cover the sphere S^2, and draw them: MNIST in two minutes on two cores.

SSW_2 over all great circles pushes the codes to the uniform distribution, so that every point of the sphere decodes to
a digit. Run it in a clone with `python -m examples.latent_sphere`, because it uses networks of the folder paper. MNIST
is downloaded at the first run, or read from the folder that SPHEREOT_DATA names.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paper.learning.autoencoder_training import encode_all, train
from paper.learning.image_files import ImageSet
from paper.learning.images import load_images
from paper.learning.networks import paper_networks
from sphereot import plotting, sphere, ssw_uniform
from sphereot.torch import SphericalAutoencoder, UniformityLoss

COLORS = [*plotting.PALETTE, "#8C6BB1", "#8C510A"]  # one per digit


def fit(images: torch.Tensor, seconds: float, *, width: float = 0.25, **options: Any) -> SphericalAutoencoder:
    """Train for about this time; whole epochs, at least one."""
    encoder, decoder = paper_networks(28, latent_dim=3, width=width, seed=0)
    model = SphericalAutoencoder(encoder, decoder, UniformityLoss(method="exact"), weight=10.0, latent_dim=3)
    start = time.perf_counter()

    def out_of_time(epoch: int, loss: float, model: SphericalAutoencoder) -> bool:
        passed = time.perf_counter() - start
        print(f"epoch {epoch:3d}  loss {loss:.4f}  {passed:.0f} s")
        return passed * (epoch + 1) / epoch > seconds  # another epoch would end later

    train(model, images, **({"epochs": 1000} | options), progress=True, callback=out_of_time)
    return model


def draw(model: SphericalAutoencoder, test: ImageSet, folder: Path) -> list[Path]:
    """Draw the codes of test images by digit, images decoded all over the sphere, and a page with a globe."""
    from matplotlib.figure import Figure

    codes = encode_all(model, torch.from_numpy(test.images)).numpy()
    by_digit = [codes[test.labels == digit] for digit in range(10)]
    with plotting.style():
        latent = Figure(figsize=(3.2, 3.5))
        ax = plotting.sphere_axes(latent.add_subplot(projection="3d"))
        for digit, points in enumerate(by_digit):
            plotting.scatter_sphere(points, ax=ax, color=COLORS[digit], size=1.5, label=str(digit), fade=0.1)
        latent.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=10, markerscale=3)
        latent.suptitle(f"Codes of {len(codes):,} test images on $S^2$", fontsize=8)
    files = plotting.save(latent, folder / "latent", formats=("png",))
    files += plotting.save(decoded_map(model), folder / "decoded", formats=("png",))
    page = plotting.globe_page(
        folder / "latent.html",
        points=by_digit,
        labels=[str(digit) for digit in range(10)],
        colors=COLORS,
        title="Codes of MNIST test images",
        coastlines=False,
        turn=True,
    )
    return [*files, page]


def decoded_map(model: SphericalAutoencoder, rows: int = 9, columns: int = 18) -> Any:
    """Images decoded on a grid of longitudes and latitudes, as on a map."""
    from matplotlib.figure import Figure

    longitudes, latitudes = np.meshgrid(
        (np.arange(columns) + 0.5) / columns * 360 - 180, 90 - (np.arange(rows) + 0.5) / rows * 180
    )
    grid = sphere.from_lonlat(np.stack([longitudes.ravel(), latitudes.ravel()], axis=-1))
    with torch.no_grad():
        images = model.eval().decode(torch.from_numpy(grid).float())[:, 0].numpy()
    mosaic = images.reshape(rows, columns, 28, 28).transpose(0, 2, 1, 3).reshape(rows * 28, columns * 28)
    with plotting.style():
        figure = Figure(figsize=(6.0, 3.3))
        ax = figure.subplots()
        ax.imshow(mosaic, cmap="gray", vmin=0, vmax=1, extent=(-180, 180, -90, 90), interpolation="nearest")
        ax.set(xlabel="longitude of the code [degrees]", ylabel="latitude [degrees]")
        ax.set(xticks=range(-180, 181, 60), yticks=range(-90, 91, 30), title="Images decoded all over the sphere")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="time to train (default: 120)")
    parser.add_argument("--out", type=Path, default=Path("out", "latent_sphere"), help="folder for the pictures")
    arguments = parser.parse_args()
    data = load_images("mnist")
    model = fit(torch.from_numpy(data.train.images), arguments.seconds)
    codes = encode_all(model, torch.from_numpy(data.test.images))
    print(f"SSW_2^2 of the test codes to uniform: {float(ssw_uniform(codes, method='exact')):.5f} (at most 0.0833)")
    print("Written:", *draw(model, data.test, arguments.out))


if __name__ == "__main__":
    main()
