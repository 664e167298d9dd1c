"""Learn image embeddings without labels: alignment of two views and SSW to the uniform distribution, in five minutes.

An encoder learns from augmented views of CIFAR10 (the 10k subset) or MNIST; its features are then compared by the
accuracy of their nearest neighbors, before and after. Run it in a clone, by `python -m examples.self_supervised`:
network and training are those of the folder paper. The data are read from the folder that SPHEREOT_DATA names; MNIST is
downloaded otherwise.
"""

import argparse
import time

import torch

from paper.learning.augmentations import Augmentation
from paper.learning.images import ImageData, load_images
from paper.learning.pretraining import embed_all, pretrain
from paper.learning.resnet import ResNet18
from sphereot.torch import AlignmentUniformityLoss
from sphereot.torch.metrics import knn_accuracy


def neighbor_accuracy(encoder: ResNet18, data: ImageData, n: int = 5000) -> float:
    """Accuracy of the 20 nearest neighbors among training images, by the features of the encoder."""
    points, reference = (
        torch.nn.functional.normalize(embed_all(encoder.features, part.images[:n]), dim=1)
        for part in (data.test, data.train)
    )
    labels, classes = (torch.from_numpy(part.labels[:n]) for part in (data.test, data.train))
    return float(knn_accuracy(points, labels, reference, classes))


def learn(data: ImageData, seconds: float, width: int = 8, epochs: int = 1000) -> tuple[float, float]:
    """Accuracies of nearest neighbors before and after training for about this time."""
    train = torch.from_numpy(data.train.images[:10_000])
    channels = train.shape[1]
    mean, std = train.mean((0, 2, 3)).tolist(), train.std((0, 2, 3)).tolist()
    encoder = ResNet18(latent_dim=32, width=width, mean=mean, std=std, seed=0)
    before = neighbor_accuracy(encoder, data)
    start = time.perf_counter()

    def out_of_time(epoch: int, loss: float, encoder: ResNet18) -> bool:
        passed = time.perf_counter() - start
        print(f"epoch {epoch:3d}  loss {loss:.4f}  {passed:.0f} s")
        return passed * (epoch + 1) / epoch > seconds  # another epoch would end later

    loss = AlignmentUniformityLoss(weight=100.0)  # SSW_2^2 is small in many dimensions
    augmentation = Augmentation(train.shape[-1], channels)
    pretrain(
        encoder, train, loss, epochs=epochs, batch_size=256, augmentation=augmentation, progress=True,
        callback=out_of_time,
    )  # fmt: skip
    return before, neighbor_accuracy(encoder, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", default="cifar10_10k", choices=["cifar10_10k", "mnist"])
    parser.add_argument("--seconds", type=float, default=300.0, help="time to train (default: 300)")
    arguments = parser.parse_args()
    before, after = learn(load_images(arguments.data), arguments.seconds)
    print(f"accuracy of nearest neighbors: {100 * before:.1f} % before, {100 * after:.1f} % after")


if __name__ == "__main__":
    main()
