"""Self-supervised learning: views, the network, training that resumes, linear evaluation, bad input."""

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")

from torch import nn

from paper.learning.augmentations import Augmentation
from paper.learning.linear_evaluation import linear_evaluation
from paper.learning.pretraining import embed_all, pretrain, train_classifier
from paper.learning.resnet import ResNet18
from paper.learning.view_losses import NTXentLoss, SWUniformityLoss
from sphereot._support.checkpoints import DivergenceError, StateFile
from sphereot.torch import AlignmentUniformityLoss, UniformityLoss


def stripes(n=48, size=16, seed=0):
    """Colored stripes at two angles: two classes that survive cropping and flipping."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (n,), generator=generator)
    phase = torch.rand(n, 1, 1, 1, generator=generator)
    ramp = torch.linspace(0, 1, size)
    across, down = ramp.expand(n, 1, size, size), ramp[:, None].expand(n, 1, size, size)
    wave = torch.sin(2 * math.pi * (4 * torch.where(labels[:, None, None, None] == 0, across, down) + phase))
    colors = torch.rand(n, 3, 1, 1, generator=generator)
    return (0.5 + 0.5 * wave * colors).clamp(0, 1), labels


def encoder(seed=0, dim=3):
    return ResNet18(dim, width=4, n_features=16, seed=seed)


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_views_are_random_seeded_and_in_range():
    images, _ = stripes()
    augment = Augmentation(16)
    state = torch.random.get_rng_state()
    a, b = augment.two_views(images, seed=3)
    again = augment.two_views(images, seed=torch.Generator().manual_seed(3))
    assert torch.equal(a, again[0])
    assert torch.equal(b, again[1])
    assert not torch.equal(a, b)
    assert not torch.equal(a, augment.two_views(images, seed=4)[0])
    assert a.shape == images.shape
    assert 0 <= float(a.min()) <= float(a.max()) <= 1
    assert torch.equal(state, torch.random.get_rng_state())


def test_gray_images_keep_their_handedness():
    """A crop of the left half is bright in no image whose right half is bright: nothing is mirrored."""
    images = torch.zeros(40, 1, 16, 16)
    images[..., 8:] = torch.linspace(0.1, 1.0, 8)
    views = Augmentation(16, channels=1)(images, seed=0)
    rising = (views[..., 1:] - views[..., :-1]).min()
    assert float(rising) > -1e-4


def test_each_kind_of_augmentation_acts():
    images, _ = stripes(200)
    plain = {"crop": (1.0, 1.0), "jitter": 0.0, "gray": 0.0, "flip": False}
    same = Augmentation(16, **plain)(images, seed=0)
    gray = Augmentation(16, **(plain | {"gray": 1.0}))(images, seed=0)
    assert float((gray.amax(1) - gray.amin(1)).max()) < 1e-5
    flipped = Augmentation(16, **(plain | {"flip": True}))(images, seed=0)
    is_same = (flipped - same).flatten(1).abs().amax(1) < 1e-4
    is_mirrored = (flipped - same.flip(-1)).flatten(1).abs().amax(1) < 1e-4
    assert bool((is_same | is_mirrored).all())
    differ = (same - same.flip(-1)).flatten(1).abs().amax(1) > 0.01
    share = float(is_mirrored[differ].float().mean())
    assert abs(share - 0.5) < 5 * 0.5 / math.sqrt(int(differ.sum()))
    assert not torch.allclose(Augmentation(16, **(plain | {"jitter": 0.4}))(images, seed=0), same, atol=0.01)


@pytest.mark.parametrize(("width", "dim"), [(64, 3), (16, 10)])
def test_parameters_of_resnet18(width, dim):
    """Stage by stage: 3x3 convolutions, 1x1 shortcuts where the size changes, two numbers per channel of each norm."""
    stem = 27 * width + 2 * width
    total, inputs = stem, width
    for factor in (1, 2, 4, 8):
        c = factor * width
        total += 9 * inputs * c + 9 * c * c + 4 * c + 2 * 9 * c * c + 4 * c
        if inputs != c:
            total += inputs * c + 2 * c
        inputs = c
    total += inputs * 1024 + 1024 + 1024 * dim
    assert sum(p.numel() for p in ResNet18(dim, width).parameters()) == total


def test_embeddings_and_features():
    network = encoder()
    images, _ = stripes(5)
    assert torch.allclose(network(images).norm(dim=1), torch.ones(5), atol=1e-6)
    assert network.features(images).shape == (5, 16)
    assert torch.equal(weights(encoder(3)), weights(encoder(3)))
    embedded = embed_all(network, images)
    assert torch.allclose(embedded, embed_all(network, images.numpy(), batch_size=2), atol=1e-6)
    assert network.training
    assert embed_all(network.features, images).shape == (5, 16)


def test_training_spreads_the_embeddings():
    """The loss and the distance to uniform fall."""
    images, _ = stripes(128)
    history = pretrain(encoder(), images, AlignmentUniformityLoss(20.0), epochs=6, batch_size=32, lr=0.01)
    assert history.loss[-1] < 0.7 * history.loss[0]
    assert history.uniformity[-1] < 0.6 * history.uniformity[0]
    assert len(history.alignment) == len(history.uniformity) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: AlignmentUniformityLoss(20.0),
        lambda: AlignmentUniformityLoss(20.0, UniformityLoss(n_projections=10, seed=1)),
        lambda: AlignmentUniformityLoss(1.0, SWUniformityLoss(10, seed=1)),
        lambda: NTXentLoss(0.2),
    ],
)
@pytest.mark.parametrize("at", [1, 3, 4])
def test_a_killed_training_resumes_to_the_same_numbers(make, at, tmp_path):
    """Killed in the first epoch, at its end, or in the second: the same weights, history and statistics."""
    images, _ = stripes()
    whole = encoder()
    expected = pretrain(whole, images, make(), epochs=2, batch_size=16, seed=5)

    def kill(done, total):
        if done == at + 1:
            raise KeyboardInterrupt

    store = StateFile(tmp_path / "state.pt", every=0.0)
    with pytest.raises(KeyboardInterrupt):
        pretrain(encoder(), images, make(), epochs=2, batch_size=16, seed=5, checkpoint=store, progress=kill)
    resumed = encoder(seed=9)
    history = pretrain(resumed, images, make(), epochs=2, batch_size=16, seed=5, checkpoint=store)
    assert history == expected
    for a, b in zip(resumed.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_supervised_baseline_learns():
    """Two classes of stripes, from augmented views."""
    images, labels = stripes(256)
    network = encoder()
    augment = Augmentation(16, crop=(0.8, 1.0))
    history = train_classifier(network, images, labels, epochs=8, batch_size=32, augmentation=augment)
    assert history.loss[-1] < 0.7 * history.loss[0]
    features, test = embed_all(network.features, images), stripes(100, seed=7)
    result = linear_evaluation(features, labels, embed_all(network.features, test[0]), test[1], epochs=20, lr=0.01)
    assert result.accuracy > 0.8
    assert result.best >= result.accuracy


def test_linear_evaluation_equals_logistic_regression_where_it_converges():
    """On overlapping clusters both reach the same accuracy, within the noise of a few points."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    generator = torch.Generator().manual_seed(0)
    labels, test_labels = (torch.randint(3, (400,), generator=generator) for _ in range(2))
    centers = torch.randn(3, 4, generator=generator)
    x, y = (centers[c] + torch.randn(400, 4, generator=generator) for c in (labels, test_labels))
    result = linear_evaluation(x, labels, y, test_labels, epochs=60, lr=0.05, decay_epochs=(40, 50))
    expected = linear_model.LogisticRegression(C=1e6).fit(x.numpy(), labels.numpy()).score(y, test_labels)
    assert result.accuracy == pytest.approx(expected, abs=0.02)
    assert result == linear_evaluation(x, labels, y, test_labels, epochs=60, lr=0.05, decay_epochs=(40, 50))


def test_a_diverging_training_is_told(tmp_path):
    """The encoder has the last parameters with finite embeddings, and the state is removed."""
    images, _ = stripes()
    path, network = tmp_path / "state.pt", encoder()
    with pytest.raises(DivergenceError, match=r"the loss is not finite .*lr=1e\+30 is too large") as caught:
        pretrain(network, images, NTXentLoss(), epochs=20, batch_size=16, lr=1e30, checkpoint=path)
    assert len(caught.value.result.loss) < 20
    assert bool(torch.isfinite(weights(network)).all())
    assert not path.exists()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pretrain(encoder(), 255 * stripes()[0], NTXentLoss(), epochs=1), ValueError, r"images: values"),
        (lambda: pretrain(encoder(), stripes()[0][0], NTXentLoss(), epochs=1), ValueError, r"images: shape is"),
        (lambda: pretrain(encoder(), [1], NTXentLoss(), epochs=1), TypeError, r"images: got list"),
        (lambda: pretrain(encoder(), stripes()[0], NTXentLoss(), epochs=0), ValueError, r"epochs: .*, got 0"),
        (lambda: pretrain(encoder(), stripes()[0], NTXentLoss(), epochs=1, lr=-1), ValueError, r"lr: .*, got -1"),
        (lambda: pretrain(encoder(), stripes()[0], NTXentLoss(), epochs=1, batch_size=1), ValueError, r"batch_size"),
        (lambda: train_classifier(encoder(), *stripes(8)[:1], torch.zeros(7), epochs=1), ValueError, r"labels: shape"),
        (lambda: linear_evaluation(torch.ones(4, 2), torch.arange(3), torch.ones(2, 2), torch.arange(2)),
         ValueError, r"labels: shape is \(3,\)"),
        (lambda: Augmentation(16, channels=2), ValueError, r"channels: got 2"),
        (lambda: Augmentation(16, crop=(0.5, 0.2)), ValueError, r"crop: got"),
        (lambda: Augmentation(16, jitter=0.7), ValueError, r"jitter: got 0.7"),
        (lambda: Augmentation(16)(torch.rand(2, 1, 16, 16)), ValueError, r"images: shape is \(2, 1, 16, 16\)"),
        (lambda: encoder()(torch.rand(2, 1, 16, 16)), ValueError, r"this network takes \(n, 3, height, width\)"),
        (lambda: ResNet18(1), ValueError, r"latent_dim: .*, got 1"),
        (lambda: ResNet18(3, mean=(0.5,), std=(0.5, 0.5)), ValueError, r"mean, std: got"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_gray_images():
    """A network of one channel, with the augmentation for gray images."""
    gray = torch.rand(8, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    network = ResNet18(3, width=4, n_features=8, mean=(0.5,), std=(0.25,), seed=0)
    history = pretrain(network, gray, AlignmentUniformityLoss(1.0), epochs=1, batch_size=4)
    assert math.isfinite(history.loss[0])
    assert isinstance(network.projection, nn.Linear)
