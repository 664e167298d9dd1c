"""
Self-supervised features
========================

Two views of one image should have similar embeddings, and all embeddings together should cover the sphere:
`AlignmentUniformityLoss` has one term for each, and needs neither labels nor negative samples. This example trains a
small encoder on the digits of scikit-learn for a few seconds. It needs PyTorch and torchmetrics.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from sphereot import plotting
from sphereot.torch import AlignmentUniformityLoss
from sphereot.torch.metrics import knn_accuracy

# %%
# A view is an image shifted by at most one pixel, with noise. The encoder maps 8 x 8 pixels to S^2.

digits = load_digits()
images, labels = torch.from_numpy(digits.images / 16).float(), torch.from_numpy(digits.target)
generator = torch.Generator().manual_seed(0)
torch.manual_seed(0)
encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 3))


def view(batch):
    """Shift the images of a batch by at most one pixel, and add noise."""
    padded, pixel = nn.functional.pad(batch, (1, 1, 1, 1)), torch.arange(8)
    row, column = torch.randint(0, 3, (2, len(batch), 1), generator=generator) + pixel
    shifted = padded[torch.arange(len(batch))[:, None, None], row[:, :, None], column[:, None, :]]
    return shifted + 0.2 * torch.randn(batch.shape, generator=generator)


def embed():
    """Embeddings of all images."""
    with torch.no_grad():
        return nn.functional.normalize(encoder(images))


# %%
# `loss(a, b)` is the total. `forward_components` returns the total and its two parts.

before = embed()
loss = AlignmentUniformityLoss(weight=20.0, normalize=True)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
history = []
for _ in range(100):
    epoch = []
    for batch in images[torch.randperm(len(images), generator=generator)].split(256):
        parts = loss.forward_components(encoder(view(batch)), encoder(view(batch)))
        optimizer.zero_grad()
        parts.total.backward()
        optimizer.step()
        epoch.append((parts.alignment.item(), parts.uniformity.item()))
    history.append(torch.tensor(epoch).mean(dim=0).tolist())
after = embed()

# %%
# Before the training all embeddings are in one region; afterwards they cover the sphere, and each digit (color) has
# regions of its own, though the training had no labels. The accuracy is that of nearest neighbors: every second image
# is classified by its neighbors among the others.

accuracies = [knn_accuracy(z[::2], labels[::2], z[1::2], labels[1::2]) for z in (before, after)]
with plotting.style():
    fig = plt.figure(figsize=(7.2, 2.9))
    for k, (z, name) in enumerate(((before, "before"), (after, "after"))):
        ax = plotting.sphere_axes(fig.add_subplot(1, 3, k + 1, projection="3d"))
        for digit, color in enumerate([*plotting.PALETTE, "#8C6BB1", "#8C510A"]):
            plotting.scatter_sphere(z[labels == digit], ax=ax, color=color, size=2, label=str(digit))
        ax.set_title(f"{name} training: accuracy {100 * float(accuracies[k]):.0f} %")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=10)
    ax = fig.add_subplot(1, 3, 3)
    ax.semilogy([alignment for alignment, _ in history], label="alignment (squared length)")
    ax.semilogy([uniformity for _, uniformity in history], label="uniformity, SSW$_2^2$ (turns$^2$)")
    ax.set(xlabel="epoch", ylabel="part of the loss", ylim=(1e-4, 10))
    ax.legend(loc="upper right")
plt.show()
