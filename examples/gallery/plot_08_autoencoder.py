"""
Autoencoder with a latent sphere
================================

An autoencoder can have codes on a sphere, and SSW to the uniform distribution makes them cover all of it. New images
then come from uniform points of the sphere. This example trains a small network on the digits of scikit-learn (8 x 8
pixels) for a few seconds, with and without the SSW term. It needs PyTorch.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import sphereot
from sphereot import plotting, sphere
from sphereot.torch import SphericalAutoencoder, UniformityLoss

# %%
# The model is any encoder and any decoder, a divergence, and its weight in the loss. `method="exact"` is SSW_2^2 to the
# uniform distribution without great circles to draw.

digits = load_digits()
images = torch.from_numpy(digits.images[:, None] / 16).float()


def fit(weight):
    """Train an autoencoder with codes on S^2."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 3))
    hidden = [nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    decoder = nn.Sequential(*hidden, nn.Linear(256, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8)))
    model = SphericalAutoencoder(encoder, decoder, UniformityLoss(method="exact"), weight, latent_dim=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(60):
        for batch in images[torch.randperm(len(images))].split(200):
            optimizer.zero_grad()
            model.losses(batch).total.backward()
            optimizer.step()
    return model


models = {weight: fit(weight) for weight in (0.0, 10.0)}

# %%
# The codes of all images, by digit. With the SSW term (right) they cover the sphere, without it (left) large regions
# are empty.

with plotting.style():
    fig = plt.figure(figsize=(7, 3.6))
    for k, (weight, model) in enumerate(models.items()):
        codes = model.encode(images).detach().numpy()
        ax = plotting.sphere_axes(fig.add_subplot(1, 2, k + 1, projection="3d"))
        for digit, color in enumerate([*plotting.PALETTE, "#8C6BB1", "#8C510A"]):
            plotting.scatter_sphere(codes[digits.target == digit], ax=ax, color=color, size=3, label=str(digit))
        value = sphereot.ssw_uniform(codes, method="exact")
        ax.set_title(f"weight {weight:g}: SSW$_2^2$ to uniform {value:.4f} turns$^2$")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=10)
plt.show()

# %%
# Images decoded on a grid of longitudes and latitudes: every point of the sphere is the code of a digit, and similar
# digits are neighbors. Rows near the poles are stretched, as on any map.

longitude, latitude = np.meshgrid(np.arange(-170, 180, 20), np.arange(80, -90, -20))
grid = sphere.from_lonlat(np.stack([longitude.ravel(), latitude.ravel()], axis=1))
with torch.no_grad():
    decoded = models[10.0].decode(torch.from_numpy(grid).float())
with_margin = nn.functional.pad(decoded, (1, 1, 1, 1)).reshape(9, 18, 10, 10)
mosaic = with_margin.permute(0, 2, 1, 3).reshape(90, 180).numpy()

with plotting.style():
    fig, ax = plt.subplots(figsize=(7, 3.8))
    ax.imshow(mosaic, cmap="gray_r", extent=(-180, 180, -90, 90))
    ax.set(xlabel="longitude of the code (degrees)", ylabel="latitude (degrees)")
    ax.set(xticks=range(-180, 181, 60), yticks=range(-90, 91, 30))
plt.show()
