"""For a PyTorch researcher: train embeddings without labels, kept from collapsing by `UniformityLoss`.

The data are scikit-learn's digits: 1,797 images of 8 x 8 pixels, written by 43 people. An encoder maps them to the
sphere S^2. Two altered views of one image should be close (alignment), and a batch should cover the sphere (uniformity,
SSW_2^2 to the uniform distribution). There is no temperature to choose and there are no negative pairs. Read the cells
from top to bottom, run them one at a time in an editor that supports `# %%`, or run all of them from the root of the
repository: `python -m examples.uniform_embeddings` (a few seconds).
"""

# %%
# Images with values in [0, 1]. The last 597 are kept for the tests.

import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

import sphereot
from sphereot.torch import UniformityLoss

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
train, test = images[:1200], images[1200:]

# %%
# A view is the image, moved by at most one pixel, with a little noise.


def view(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An altered copy of each image of a batch."""
    down, right = torch.randint(-1, 2, (2,), generator=generator).tolist()
    moved = batch.reshape(-1, 8, 8).roll((down, right), dims=(1, 2)).flatten(1)
    return moved + 0.1 * torch.randn(moved.shape, generator=generator)


# %%
# The training loop is an ordinary one. `UniformityLoss(method="exact")` is SSW_2^2 over all great circles, without
# drawing any: no noise, and as fast as 200 great circles for batches of this size. It is at most 1/12, which it reaches
# if all points are equal. A weight of 20 brings it to the size of the alignment.


def fit(weight: float, steps: int = 300) -> nn.Module:
    """Train an encoder with this weight of the uniformity."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 3))
    uniformity = UniformityLoss(method="exact")
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    for step in range(steps):
        batch = train[torch.randint(len(train), (256,), generator=generator)]
        first, second = (nn.functional.normalize(encoder(view(batch, generator))) for _ in range(2))
        alignment = (first - second).square().sum(dim=1).mean()
        loss = alignment + weight * (uniformity(first) + uniformity(second))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(1, steps // 5) == 0:
            print(f"step {step:4d}  alignment {alignment.item():.4f}  loss {loss.item():.4f}")
    return encoder.eval()


def embed(encoder: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return nn.functional.normalize(encoder(batch))


def spread(encoder: nn.Module) -> float:
    """SSW_2^2 of the test images to the uniform distribution: 0 is perfectly spread, 1/12 = 0.083 a single point."""
    return float(sphereot.ssw_uniform(embed(encoder, test), method="exact"))


# %%
# With the uniformity, embeddings of new images cover the sphere: SSW_2^2 is less than a quarter of that of the
# untrained encoder. With the alignment alone they collapse to nearly one point.

untrained, trained, collapsed = fit(20.0, steps=0), fit(20.0), fit(0.0)
for name, encoder in (("untrained", untrained), ("trained", trained), ("alignment alone", collapsed)):
    print(f"SSW_2^2 to uniform, {name}: {spread(encoder):.4f} of at most {1 / 12:.4f}")

# %%
# No label was used, yet images of one digit are neighbors: 20 neighbors vote for the digit of a new image, which is
# right for more than half of them. Guessing is right for one in ten.

neighbors = KNeighborsClassifier(20).fit(embed(trained, train), labels[:1200])
accuracy = neighbors.score(embed(trained, test), labels[1200:])
print(f"accuracy of the 20 nearest neighbors on S^2: {accuracy:.1%}")
