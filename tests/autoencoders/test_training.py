"""Training: it learns, resumes to the same numbers after a kill in mid-epoch, and refuses bad input before any work."""

import copy
import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from sphereot._support.checkpoints import StateFile
from sphereot._support.errors import DivergenceError
from sphereot.autoencoders import (
    SW,
    SphericalAutoencoder,
    UniformSSW,
    encode_all,
    paper_networks,
    reconstruction_error,
    train,
)
from sphereot.torch import UniformityLoss


def images(n=60):
    """Bright squares at random locations, which an autoencoder can learn."""
    generator = torch.Generator().manual_seed(0)
    corners = torch.randint(0, 18, (n, 2), generator=generator)
    result = torch.zeros(n, 1, 28, 28)
    for image, (row, column) in zip(result, corners.tolist(), strict=True):
        image[0, row : row + 10, column : column + 10] = 1.0
    return result


def model(divergence=None, dim=3, seed=0):
    encoder, decoder = paper_networks(28, dim, width=0.125, seed=seed)
    return SphericalAutoencoder(encoder, decoder, divergence or UniformSSW(20), weight=10.0)


def weights(trained):
    return torch.cat([p.detach().flatten() for p in trained.parameters()])


def test_training_lowers_both_losses():
    trained = model(UniformSSW(method="exact"))
    history = train(trained, images(400), epochs=15, batch_size=40)
    assert history.reconstruction[-1] < 0.8 * history.reconstruction[0]
    assert history.divergence[-1] < 0.5 * history.divergence[0]
    assert len(history) == 15
    # After the last epoch, whose mean is over its course.
    assert 0.5 * history.reconstruction[-1] < reconstruction_error(trained, images(400)) < history.reconstruction[-1]


@pytest.mark.parametrize("divergence", [UniformSSW(20), SW(20), UniformityLoss(n_projections=20, seed=3)])
def test_a_killed_training_resumes_to_the_same_numbers(divergence, tmp_path):
    """Killed in the second epoch, between two batches: weights, history and random numbers go on as if nothing was."""
    whole = model(copy.deepcopy(divergence))
    expected = train(whole, images(), epochs=3, batch_size=20, seed=7)

    class KilledError(Exception):
        pass

    def kill(done, total):
        assert total == 9
        if done == 5:
            raise KilledError

    store = StateFile(tmp_path / "state.pt", every=0.0)
    with pytest.raises(KilledError):
        train(
            model(copy.deepcopy(divergence)), images(), epochs=3, batch_size=20, seed=7, checkpoint=store, progress=kill
        )
    resumed = model(copy.deepcopy(divergence), seed=1)  # other initial weights, which the state replaces
    seen = []
    history = train(
        resumed,
        images(),
        epochs=3,
        batch_size=20,
        seed=7,
        checkpoint=store,
        progress=lambda done, total: seen.append(done),
    )
    assert seen == [5, 6, 7, 8, 9]  # the fifth batch was not saved before the kill
    assert history == expected
    assert torch.equal(weights(resumed), weights(whole))


def test_a_finished_training_is_not_repeated(tmp_path):
    path = tmp_path / "state.pt"
    first = model()
    history = train(first, images(), epochs=1, batch_size=20, checkpoint=path)
    again = model(seed=1)
    assert train(again, images(), epochs=1, batch_size=20, checkpoint=path) == history
    assert torch.equal(weights(first), weights(again))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, r"seed was 7, now 8"),
        ({"epochs": 4}, r"epochs was 1, now 4"),
        ({"images": images(50)}, r"other images"),
        ({"model": model(UniformSSW(99))}, r"model was"),
    ],
)
def test_a_state_of_another_training_is_refused(changes, message, tmp_path):
    path = tmp_path / "state.pt"
    train(model(), images(), epochs=1, batch_size=20, seed=7, checkpoint=path)
    options = {"model": model(), "images": images(), "epochs": 1, "batch_size": 20, "seed": 7} | changes
    with pytest.raises(ValueError, match=message):
        train(checkpoint=path, **options)


def test_a_damaged_state_is_named(tmp_path):
    path = tmp_path / "state.pt"
    train(model(), images(), epochs=1, batch_size=20, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"state.pt: is no state of unfinished work, or is damaged"):
        train(model(), images(), epochs=1, batch_size=20, checkpoint=path)


def test_callback_sees_epochs_and_stops():
    calls = []

    def callback(epoch, loss, trained):
        calls.append((epoch, loss))
        trained.eval()  # may be left so
        return epoch == 2

    history = train(model(), images(), epochs=5, batch_size=20, callback=callback)
    assert [epoch for epoch, _ in calls] == [1, 2]
    assert calls[0][1] == pytest.approx(history.reconstruction[0] + 10 * history.divergence[0])


def test_last_batch_of_one_is_left_out():
    """Batch normalization has no variance of one image."""
    encoder, decoder = paper_networks(32, 4, width=0.0625, seed=0)
    trained = SphericalAutoencoder(encoder, decoder, UniformSSW(10), 0.1)
    color = torch.rand(9, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    seen = []
    train(trained, color, epochs=1, batch_size=4, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_vectors_can_be_trained_too():
    """Any encoder, decoder and shape: rows of a table."""
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(5, 3), nn.Sequential(nn.Linear(3, 5), nn.Sigmoid())
    trained = SphericalAutoencoder(encoder, decoder, SW(10), 1.0)
    rows = torch.rand(30, 5, generator=torch.Generator().manual_seed(0))
    train(trained, rows, epochs=2, batch_size=10)
    assert encode_all(trained, rows, batch_size=7).shape == (30, 3)


def test_divergence_of_the_loss_is_told():
    class Infinite(UniformSSW):
        def _to_uniform(self, codes, seed):
            return super()._to_uniform(codes, seed) * math.inf

    trained = model(Infinite(10))
    before = weights(trained)
    with pytest.raises(DivergenceError, match=r"the loss is not finite .*lr=0.001") as caught:
        train(trained, images(), epochs=1, batch_size=20)
    assert len(caught.value.result) == 0
    assert torch.equal(before, weights(trained))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"images": 255 * images()}, ValueError, r"images: values are between 0 and 255.*divide them by 255"),
        ({"images": (255 * images()).to(torch.uint8)}, TypeError, r"images: dtype is torch.uint8.*divide by 255"),
        ({"images": images() - 0.5}, ValueError, r"images: values are between -0.5"),
        ({"images": images() * math.nan}, ValueError, r"images: values are between nan"),
        ({"images": images().numpy()}, TypeError, r"images: got ndarray; give a torch tensor"),
        ({"images": images()[:1]}, ValueError, r"at least 2 images"),
        ({"images": images()[:0]}, ValueError, r"give at least one image"),
        ({"images": images()[:, :, :20]}, ValueError, r"images: shape is \(20, 1, 20, 28\), but Encoder28 takes"),
        ({"epochs": 0}, ValueError, r"epochs: got 0"),
        ({"batch_size": 1}, ValueError, r"batch_size: got 1"),
        ({"lr": 0.0}, ValueError, r"lr: got 0.0"),
        ({"seed": -1}, ValueError, r"seed: got -1"),
        ({"progress": "bar"}, TypeError, r"progress: got 'bar'"),
    ],
)
def test_bad_input(changes, error, message):
    options = {"images": images(), "epochs": 1, "batch_size": 20} | changes
    with pytest.raises(error, match=message):
        train(model(), **options)
