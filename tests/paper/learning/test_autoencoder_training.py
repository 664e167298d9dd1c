"""Training: it learns, resumes to the same numbers after a kill in mid-epoch, and refuses bad input before any work."""

import copy
import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from paper.learning.autoencoder_training import encode_all, reconstruction_error, train
from paper.learning.baselines import SW
from paper.learning.networks import paper_networks
from sphereot._support.checkpoints import DivergenceError, StateFile
from sphereot.distributions import VonMisesFisher
from sphereot.torch import SphericalAutoencoder, UniformityLoss


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
    return SphericalAutoencoder(
        encoder, decoder, divergence or UniformityLoss(n_projections=20), weight=10.0, latent_dim=dim
    )


def weights(trained):
    return torch.cat([p.detach().flatten() for p in trained.parameters()])


def test_training_lowers_both_losses():
    trained = model(UniformityLoss(method="exact"))
    history = train(trained, images(400), epochs=15, batch_size=40)
    assert history.reconstruction[-1] < 0.8 * history.reconstruction[0]
    assert history.divergence[-1] < 0.5 * history.divergence[0]
    assert len(history) == 15
    # After the last epoch, whose mean is over its course.
    assert 0.5 * history.reconstruction[-1] < reconstruction_error(trained, images(400)) < history.reconstruction[-1]


@pytest.mark.parametrize(
    "divergence", [UniformityLoss(n_projections=20), SW(20), UniformityLoss(n_projections=20, seed=3)]
)
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


def killed(path, trained=None):
    """Train for one batch, and leave the state behind."""

    def kill(done, total):
        if done == 2:
            raise KeyboardInterrupt

    store = StateFile(path, every=0.0)
    with pytest.raises(KeyboardInterrupt):
        train(trained or model(), images(), epochs=1, batch_size=20, seed=7, checkpoint=store, progress=kill)


def test_the_file_is_removed_at_the_end(tmp_path):
    """As other long work of the library does; a state that is there is used before."""
    path = tmp_path / "state.pt"
    killed(path)
    assert path.exists()
    seen = []
    train(
        model(), images(), epochs=1, batch_size=20, seed=7, checkpoint=path, progress=lambda done, _: seen.append(done)
    )
    assert seen == [2, 3]
    assert not path.exists()


class Memory:
    """A store that keeps states in memory, as they are given."""

    state = None

    def load(self):
        return self.state

    def save(self, state):
        self.state = state()


def test_a_store_in_memory_can_continue_for_more_epochs():
    """The state is a copy, and does not depend on the number of epochs: one more epoch is as if asked for at once."""
    whole = model()
    expected = train(whole, images(), epochs=2, batch_size=20)
    store, first = Memory(), model()
    train(first, images(), epochs=1, batch_size=20, checkpoint=store)
    state = store.state
    longer = model(seed=5)
    assert train(longer, images(), epochs=2, batch_size=20, checkpoint=store) == expected
    assert torch.equal(weights(longer), weights(whole))
    assert state["position"]["epoch"] == 1  # unchanged since


def test_an_early_stop_is_remembered():
    """A training that a callback ended does not go on when it is repeated."""
    store = Memory()
    history = train(model(), images(), epochs=9, batch_size=20, checkpoint=store, callback=lambda *_: True)
    assert train(model(), images(), epochs=9, batch_size=20, checkpoint=store) == history
    assert len(history) == 1


@pytest.mark.parametrize("change", ["dropout", "weight"])
def test_dropout_and_a_changing_weight_resume_too(change):
    """Random layers are seeded by the training and leave the global state; the weight is part of the state."""

    def make():
        made = model()
        if change == "dropout":
            made.encoder.layers.insert(3, nn.Dropout(0.5))
        return made

    def anneal(epoch, loss, trained):
        if change == "weight":
            trained.weight = 10.0 * epoch

    state = torch.random.get_rng_state()
    whole = make()
    expected = train(whole, images(), epochs=3, batch_size=20, callback=anneal)
    store = Memory()
    train(make(), images(), epochs=2, batch_size=20, checkpoint=store, callback=anneal)
    resumed = make()
    assert train(resumed, images(), epochs=3, batch_size=20, checkpoint=store, callback=anneal) == expected
    assert torch.equal(weights(resumed), weights(whole))
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, r"seed was 7, now 8"),
        ({"lr": 0.1}, r"lr was 0.001, now 0.1"),
        ({"images": images(50)}, r"other images"),
        ({"model": model(UniformityLoss(n_projections=99))}, r"divergence was .UniformityLoss\(p=2, n_projections=20"),
        ({"model": model(dim=4)}, r"other networks"),
    ],
)
def test_a_state_of_another_training_is_refused(changes, message, tmp_path):
    path = tmp_path / "state.pt"
    killed(path)
    options = {"model": model(), "images": images(), "epochs": 1, "batch_size": 20, "seed": 7} | changes
    with pytest.raises(ValueError, match=message) as caught:
        train(checkpoint=path, **options)
    assert len(str(caught.value)) < 500


def test_another_prior_is_another_training(tmp_path):
    """Even where its type is the same."""
    path = tmp_path / "state.pt"
    priors = [VonMisesFisher(torch.eye(3)[0], kappa) for kappa in (1.0, 500.0)]
    models = [
        SphericalAutoencoder(*paper_networks(28, 3, 0.125, seed=0), SW(10), 1.0, latent_dim=3, prior=prior)
        for prior in priors
    ]
    killed(path, models[0])
    with pytest.raises(ValueError, match="other prior"):
        train(models[1], images(), epochs=1, batch_size=20, seed=7, checkpoint=path)


def test_a_damaged_state_is_named(tmp_path):
    path = tmp_path / "state.pt"
    killed(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"state.pt: is not a state of unfinished work, or is damaged"):
        train(model(), images(), epochs=1, batch_size=20, seed=7, checkpoint=path)


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
    trained = SphericalAutoencoder(encoder, decoder, UniformityLoss(n_projections=10), 0.1, latent_dim=4)
    color = torch.rand(9, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    seen = []
    train(trained, color, epochs=1, batch_size=4, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_vectors_can_be_trained_too():
    """Any encoder, decoder and shape: rows of a table."""
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(5, 3), nn.Sequential(nn.Linear(3, 5), nn.Sigmoid())
    trained = SphericalAutoencoder(encoder, decoder, SW(10), 1.0, latent_dim=3)
    rows = torch.rand(30, 5, generator=torch.Generator().manual_seed(0))
    train(trained, rows, epochs=2, batch_size=10)
    assert encode_all(trained, rows, batch_size=7).shape == (30, 3)


@pytest.mark.parametrize(
    ("lr", "divergence"),
    [(1e6, UniformityLoss(n_projections=10)), (1e30, SW(10)), (1e30, UniformityLoss(n_projections=10))],
)
def test_a_diverging_training_is_told(lr, divergence, tmp_path):
    """The model has the last parameters with a finite loss, and the state does not stand in the way of another try."""
    trained = model(divergence)
    with pytest.raises(DivergenceError, match=r"the loss is not finite .*lr=1e\+\d+ is too large") as caught:
        train(trained, images(), epochs=5, batch_size=20, lr=lr, checkpoint=tmp_path / "state.pt")
    assert len(caught.value.result) < 5
    assert math.isfinite(trained.losses(images(), seed=0).total.item())
    assert not (tmp_path / "state.pt").exists()


def test_own_optimizer():
    trained = model()
    before = weights(trained)
    train(trained, images(), epochs=1, batch_size=20, optimizer=lambda p: torch.optim.SGD(p, lr=0.0))
    assert torch.equal(before, weights(trained))


def test_arrays_double_precision_and_volumes():
    """NumPy images, images in another dtype than the model, and three-dimensional convolutions."""
    train(model(), images().numpy(), epochs=1, batch_size=20)
    train(model(), images().double(), epochs=1, batch_size=20)
    train(model(SW(5)).bfloat16(), images().bfloat16(), epochs=1, batch_size=20, checkpoint=Memory())
    encoder = nn.Sequential(nn.Conv3d(1, 2, 3), nn.Flatten(), nn.Linear(16, 3))
    decoder = nn.Sequential(nn.Linear(3, 64), nn.Unflatten(1, (1, 4, 4, 4)), nn.Sigmoid())
    volumes = torch.rand(8, 1, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    volumetric = SphericalAutoencoder(encoder, decoder, SW(10), 1.0, latent_dim=3)
    train(volumetric, volumes, epochs=1, batch_size=4)
    assert encode_all(volumetric, volumes.numpy()).shape == (8, 3)


def test_evaluation_does_not_depend_on_batches():
    """Batch normalization uses its running statistics, and modes are put back."""
    encoder, decoder = paper_networks(32, 4, width=0.0625, seed=0)
    trained = SphericalAutoencoder(encoder, decoder, UniformityLoss(n_projections=10), 0.1, latent_dim=4)
    color = torch.rand(9, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(encode_all(trained, color), encode_all(trained, color, batch_size=2), atol=1e-5)
    one, two = (reconstruction_error(trained, color, batch_size=size) for size in (9, 2))
    assert one == pytest.approx(two, rel=1e-5)
    assert trained.training


def test_modes_are_kept_during_training():
    """A callback that evaluates does not change what is trained; a frozen part stays frozen."""
    encoder, decoder = paper_networks(32, 4, width=0.0625, seed=0)
    trained = SphericalAutoencoder(encoder, decoder, UniformityLoss(n_projections=10), 0.1, latent_dim=4)
    encoder.layers[1].eval()
    color = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    modes = []

    def callback(epoch, loss, trained):
        modes.append((trained.training, trained.encoder.layers[1].training, trained.encoder.layers[4].training))
        trained.eval()

    train(trained, color, epochs=2, batch_size=4, callback=callback)
    assert modes == [(True, False, True)] * 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"images": 255 * images()}, ValueError, r"images must .*got values between 0 and 255.*Divide them by 255"),
        ({"images": (255 * images()).to(torch.uint8)}, TypeError, r"images must .*got torch.uint8.*Divide by 255"),
        ({"images": images() - 0.5}, ValueError, r"images must .*got values between -0.5"),
        ({"images": images() * math.nan}, ValueError, r"images must .*got values between nan"),
        ({"images": [1, 2]}, TypeError, r"images: got list; give a tensor.*model.losses\(batch\)"),
        ({"images": images()[:1]}, ValueError, r"at least 2 images"),
        ({"images": images()[:0]}, ValueError, r"at least one image"),
        ({"images": images()[:, :, :20]}, ValueError, r"images: shape is \(20, 1, 20, 28\), but Encoder28 takes"),
        ({"epochs": 0}, ValueError, r"epochs: .*, got 0"),
        ({"batch_size": 1}, ValueError, r"batch_size: .*, got 1"),
        ({"lr": 0.0}, ValueError, r"lr: .*, got 0.0"),
        ({"seed": -1}, ValueError, r"seed: .*, got -1"),
        ({"progress": "bar"}, TypeError, r"progress must be .*got 'bar'"),
    ],
)
def test_bad_input(changes, error, message):
    options = {"images": images(), "epochs": 1, "batch_size": 20} | changes
    with pytest.raises(error, match=message):
        train(model(), **options)
