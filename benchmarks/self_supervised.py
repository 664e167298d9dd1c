"""Share of the loss in a training step of self-supervised learning at the paper's setting.

ResNet18 at full width, two views of 512 images of 32x32 pixels, embeddings on S^2. A step takes half a minute on two
cores, so that it is measured twice only, and its least time taken; the losses alone are measured often.

    python -m benchmarks.self_supervised
"""

import numpy as np
import torch

from benchmarks.timing import Row, argument_parser, best_of, report, sphere_sample
from paper.learning.augmentations import Augmentation
from paper.learning.resnet import ResNet18
from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SWUniformityLoss
from sphereot.torch import AlignmentUniformityLoss, UniformityLoss

LOSSES = {
    "SSW, L = 10": AlignmentUniformityLoss(20.0, UniformityLoss(n_projections=10)),
    "SSW without slices": AlignmentUniformityLoss(20.0),
    "SW, L = 10": AlignmentUniformityLoss(1.0, SWUniformityLoss(10)),
    "Gaussian potential": AlignmentUniformityLoss(1.0, GaussianPotentialLoss()),
    "NT-Xent": NTXentLoss(0.2),
}


def measure(n: int, width: int) -> list[Row]:
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random((n, 3, 32, 32), dtype=np.float32))
    encoder = ResNet18(3, width, seed=0).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
    augment = Augmentation(32)

    def step() -> None:
        optimizer.zero_grad()
        views = torch.cat(augment.two_views(images, seed=0)).contiguous(memory_format=torch.channels_last)
        LOSSES["SSW, L = 10"](*encoder(views).chunk(2)).backward()
        optimizer.step()

    (whole,) = best_of(step, repeats=2, min_seconds=0)
    rows = []
    for name, loss in LOSSES.items():
        a, b = (torch.from_numpy(sphere_sample(rng, n)).requires_grad_() for _ in range(2))
        (seconds,) = best_of(lambda loss=loss, a=a, b=b: loss(a, b).backward(), repeats=20)
        rows.append(Row(f"{name}, n={n}, S^2", seconds, "s", "a training step", whole, seconds / whole, 0.02, "less"))
    return rows


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--images", type=int, default=512, help="images per step (default: 512)")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage (default: 64)")
    arguments = parser.parse_args()
    report(measure(arguments.images, arguments.width), arguments.json)


if __name__ == "__main__":
    main()
