"""`SphericalAutoencoder`: codes on the sphere, separate losses, priors, samples, any divergence, bad input."""

import math
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.distributions import Categorical, Dirichlet, MixtureSameFamily, Normal

from sphereot import ssw, ssw_uniform
from sphereot.distributions import HypersphericalUniform, PowerSpherical, VonMisesFisher
from sphereot.torch import SphericalAutoencoder, SSWLoss, UniformityLoss
from sphereot.torch.latent import sample_prior


def small(dim=3, **options):
    """An autoencoder of vectors of 6 numbers."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, dim))
    decoder = nn.Sequential(nn.Linear(dim, 6), nn.Sigmoid())
    defaults = {"divergence": UniformityLoss(n_projections=20), "weight": 10.0, "latent_dim": dim}
    return SphericalAutoencoder(encoder, decoder, **(defaults | options))


def mean_distance(codes, target):
    return (codes.mean(0) - target.mean(0)).norm()


def batch(n=12):
    return torch.rand(n, 6, generator=torch.Generator().manual_seed(1))


class Zero(nn.Module):
    def forward(self, x):
        return x.new_zeros(len(x), 3)


def autoencoder(encoder, decoder, **options):
    return SphericalAutoencoder(encoder, decoder, mean_distance, 1.0, latent_dim=3, **options)


def mixture(kappa=10.0):
    modes = torch.cat([torch.eye(3), -torch.eye(3)])
    return MixtureSameFamily(Categorical(probs=torch.full((6,), 1 / 6)), VonMisesFisher(modes, kappa))


def test_codes_are_unit_vectors_and_forward_reconstructs():
    model = small()
    codes = model.encode(batch())
    assert torch.allclose(codes.norm(dim=1), torch.ones(12), atol=1e-6)
    assert torch.equal(model(batch()), model.decode(codes))


def test_losses_are_separate_and_add_up():
    """Against binary cross-entropy in NumPy and the divergence of the codes."""
    model = small(weight=2.5)
    losses = model.losses(batch(), seed=3)
    output, x = model(batch()).detach().double().numpy(), batch().double().numpy()
    by_hand = -np.mean(x * np.log(output) + (1 - x) * np.log(1 - output))
    assert float(losses.reconstruction.detach()) == pytest.approx(by_hand, rel=1e-5)
    assert float(losses.divergence.detach()) == float(model.code_divergence(model.encode(batch()), seed=3).detach())
    assert torch.equal(losses.total, losses.reconstruction + 2.5 * losses.divergence)
    with pytest.raises(TypeError):  # a tuple of parts would be differentiated without the weight
        torch.autograd.grad(losses, list(model.parameters()))
    losses.total.backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())


@pytest.mark.parametrize(
    "divergence",
    [
        UniformityLoss(n_projections=20, seed=0),
        UniformityLoss(method="exact"),
        SSWLoss(n_projections=20, seed=0),
        lambda codes, target: ((codes - target) ** 2).sum(),
        lambda *pair: (pair[0] - pair[1]).abs().sum(),
    ],
)
def test_any_divergence(divergence):
    """Losses of sphereot.torch, and plain functions of codes and a sample of the prior."""
    model = small(divergence=divergence)
    losses = model.losses(batch(), seed=0)
    losses.total.backward()
    assert losses.divergence.shape == ()


def test_seed_decides_slices_and_target():
    model = small(divergence=SSWLoss(n_projections=10))
    first, again, other = (float(model.losses(batch(), seed=seed).divergence.detach()) for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize(
    "prior",
    [
        HypersphericalUniform(3),
        VonMisesFisher(torch.eye(3)[0], 20.0),
        PowerSpherical(torch.eye(3)[1], 20.0),
        mixture(),
        nn.functional.normalize(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), dim=1),
    ],
)
def test_priors(prior):
    """Samples repeat by seed, lie on the sphere, and the loss has a gradient; the global state stays."""
    model = small(divergence=SSWLoss(n_projections=20), prior=prior)
    state = torch.random.get_rng_state()
    first, second = (model.sample(20, seed=4) for _ in range(2))
    model.losses(batch(), seed=0).total.backward()
    assert torch.equal(first, second)
    assert first.shape == (20, 6)
    codes = sample_prior(prior, 70, torch.Generator().manual_seed(0))
    assert codes.shape == (70, 3)
    assert torch.allclose(codes.norm(dim=1), torch.ones(70), atol=1e-5)
    assert torch.equal(state, torch.random.get_rng_state())


def test_mixture_has_its_modes():
    """Each of six modes gets its share of 6,000 points, within four standard errors, and a mean cosine of A_3(10)."""
    points = sample_prior(mixture(), 6000, torch.Generator().manual_seed(0))
    modes = torch.cat([torch.eye(3), -torch.eye(3)])
    cosines = points @ modes.T
    shares = torch.bincount(cosines.argmax(1), minlength=6) / 6000
    assert float((shares - 1 / 6).abs().max()) < 4 * math.sqrt(5 / 36 / 6000)
    # The mean of all points is zero, so the second moment tells the concentration: E x_1^2 = 1/3 for the mixture.
    assert float((points**2).mean(0).sub(1 / 3).abs().max()) < 0.02
    mean_of_mode = 1 / math.tanh(10) - 1 / 10
    assert float(cosines.max(1).values.mean()) == pytest.approx(mean_of_mode, abs=0.01)


def test_other_distributions_draw_from_a_seed():
    """A mixture of normal distributions, normalized, is torch's own: its global state is put back."""

    class Axis(Normal):
        event_shape = torch.Size([2])
        batch_shape = torch.Size([])

        def sample(self, shape=()):
            return nn.functional.normalize(torch.randn(*shape, 2), dim=-1)

    axis = Axis(0.0, 1.0)
    state = torch.random.get_rng_state()
    first, second = (sample_prior(axis, 5, torch.Generator().manual_seed(9)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(state, torch.random.get_rng_state())


def test_sample_uses_evaluation_mode_and_restores():
    """Batch normalization would make samples depend on each other."""
    model = small(divergence=UniformityLoss(n_projections=10))
    model.decoder.insert(0, nn.BatchNorm1d(3))
    whole, parts = model.sample(9, seed=0), model.sample(9, seed=0, batch_size=2)
    assert torch.allclose(whole, parts, atol=1e-6)
    assert model.training
    assert not whole.requires_grad


def test_state_goes_with_the_module():
    """A state dict restores the same outputs; a state of codes in another dimension is refused."""
    model, other = (small(divergence=mean_distance) for _ in range(2))
    with torch.no_grad():
        model.decoder[0].weight.mul_(2.0)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.sample(3, seed=0), other.sample(3, seed=0))
    copied = pickle.loads(pickle.dumps(model))
    assert torch.equal(model.sample(3, seed=0), copied.sample(3, seed=0))
    assert model.get_extra_state() == {"latent_dim": 3}
    with pytest.raises(ValueError, match="latent_dim must be 4 in the state, got 3"):
        small(dim=4).set_extra_state(model.get_extra_state())


def test_seeds_decide_the_slices_of_a_call():
    """Those of `ssw` and `ssw_uniform` with the same seed; a loss with a seed of its own goes its own way."""
    codes = small().encode(batch()).detach()
    target = codes.flip(0)
    for make_seed in (lambda: 4, lambda: torch.Generator().manual_seed(4)):
        value = UniformityLoss(n_projections=50)(codes, seed=make_seed())
        assert float(value) == float(ssw_uniform(codes, n_projections=50, seed=make_seed()))
    value = SSWLoss(n_projections=50)(codes, target, seed=4)
    assert float(value) == float(ssw(codes, target, n_projections=50, seed=4))
    own = [UniformityLoss(n_projections=50, seed=1) for _ in range(2)]
    assert float(small(divergence=own[0]).code_divergence(codes, seed=9)) == float(own[1](codes))
    for loss in (own[0], UniformityLoss(fixed=True), UniformityLoss(method="exact")):
        with pytest.raises(ValueError, match="seed must be left out of calls if the loss has its own seed"):
            loss(codes, seed=0)


def test_the_prior_is_what_codes_are_compared_with():
    """Codes at the mode of a tight prior are near it, and far from its antipode."""
    mode = torch.eye(3)[0]
    near, far = (VonMisesFisher(sign * mode, 500.0) for sign in (1.0, -1.0))
    codes = near.sample((200,), seed=0)
    for divergence in (SSWLoss(n_projections=100), mean_distance):
        values = [
            float(small(divergence=divergence, prior=prior).code_divergence(codes, seed=0)) for prior in (near, far)
        ]
        assert abs(values[0]) < 0.01 * values[1]


def test_rows_of_a_sample_prior_are_drawn_at_random():
    """Without replacement while there are enough, so that all rows occur."""
    sample = nn.functional.normalize(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    drawn = sample_prior(sample, 20, torch.Generator().manual_seed(1))
    assert not torch.equal(drawn, sample)
    assert torch.equal(drawn[drawn[:, 0].argsort()], sample[sample[:, 0].argsort()])
    few = sample_prior(sample, 5, torch.Generator().manual_seed(1))
    assert not torch.equal(few, sample[:5])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype):
    """Models in double and half precision, with a prior in single precision."""
    model = small(divergence=SSWLoss(n_projections=20), prior=VonMisesFisher(torch.eye(3)[0], 5.0)).to(dtype)
    losses = model.losses(batch().to(dtype), seed=0)
    losses.total.backward()
    assert losses.reconstruction.dtype == dtype
    assert bool(torch.isfinite(losses.total.detach()))
    assert model.sample(2, seed=0).dtype == dtype


@pytest.mark.parametrize(
    "divergence",
    [UniformityLoss(n_projections=20), UniformityLoss(method="exact"), SSWLoss(n_projections=20), mean_distance],
)
@pytest.mark.filterwarnings("ignore")  # torch warns while it breaks a graph
def test_compiled(divergence):
    """`torch.compile` of the losses runs; graph breaks are allowed where random numbers are drawn."""
    torch.compiler.reset()
    model = small(divergence=divergence)
    losses = torch.compile(model.losses, backend="aot_eager")(batch())
    losses.total.backward()
    assert bool(torch.isfinite(losses.total.detach()))
    wrapped = torch.compile(UniformityLoss(n_projections=20), backend="aot_eager")
    with pytest.raises(ValueError, match="compares the codes with the uniform"):
        small(divergence=wrapped, prior=mixture())


def test_modes_of_parts_are_kept():
    """A frozen part stays in evaluation mode."""
    model = small()
    model.encoder[1].eval()
    model.sample(2, seed=0)
    assert model.training
    assert not model.encoder[1].training


def test_own_reconstruction_losses():
    """A function may compare an output of another shape; a module is stored once."""
    encoder, decoder = nn.Linear(6, 3), nn.Linear(3, 2)
    model = SphericalAutoencoder(
        encoder,
        decoder,
        mean_distance,
        1.0,
        latent_dim=3,
        reconstruction=lambda output, x: (output - x[:, :2]).abs().mean(),
    )
    assert model.losses(batch(), seed=0).reconstruction.shape == ()
    model = SphericalAutoencoder(
        encoder, nn.Linear(3, 6), mean_distance, 1.0, latent_dim=3, reconstruction=nn.BCEWithLogitsLoss()
    )
    assert bool(torch.isfinite(model.losses(batch(), seed=0).total.detach()))


def test_numpy_numbers_and_priors():
    points = np.eye(3, dtype=np.float32)
    model = small(weight=np.float32(2.0), divergence=SSWLoss(n_projections=5), prior=points, latent_dim=np.int64(3))
    assert model.losses(batch(), seed=0).weight == 2.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: small(prior=HypersphericalUniform(4)), ValueError,
         r"prior must have points in dimension latent_dim \(3\), got 4"),
        (lambda: small(prior=torch.eye(5), divergence=SSWLoss()), ValueError, r"prior must have points .* got 5"),
        (lambda: small(prior=mixture()), ValueError, "prior must be uniform, because this divergence"),
        (lambda: small(latent_dim=1), ValueError, r"latent_dim: .*, got 1"),
        (lambda: small(prior=2 * torch.eye(3), divergence=SSWLoss()), ValueError, r"prior: row 0 has length 2"),
        (lambda: small(prior=VonMisesFisher(torch.eye(3), 5.0), divergence=SSWLoss()), ValueError,
         r"prior must be one distribution of vectors, got batch shape \(3,\)"),
        (lambda: small(prior=Dirichlet(torch.ones(3)), divergence=SSWLoss()), ValueError,
         "prior must draw unit vectors, got length"),
        (lambda: small(prior="uniform"), TypeError, r"prior must be None \(uniform\), a distribution .*, got str"),
        (lambda: small(weight=-1.0), ValueError, r"weight: .*, got -1.0"),
        (lambda: small(weight=math.nan), ValueError, r"weight: .*, got nan"),
        (lambda: small(divergence=3), TypeError, "divergence must be a loss module or a function of codes, got int"),
        (lambda: small(reconstruction="l1"), ValueError, r"reconstruction must be 'bce', 'mse', .*got 'l1'"),
        (lambda: small().losses(255 * batch()), ValueError, r"batch must have .*Divide them by 255"),
        (lambda: small().losses(batch() - 1), ValueError, r"batch must have values in \[0, 1\], got values between -"),
        (lambda: small().losses(torch.full((3, 6), math.nan)), ValueError, "encoder must return finite .*got NaN"),
        (lambda: small().sample(0), ValueError, r"n: .*, got 0"),
        (lambda: small().sample(3, seed=-1), ValueError, r"seed: .*, got -1"),
        (lambda: autoencoder(print, nn.Linear(3, 6)), TypeError, r"encoder must be a torch.nn.Module, got builtin"),
        (lambda: autoencoder(nn.Linear(6, 3), nn.Linear(3, 6)).losses(batch()), ValueError,
         r"decoder must return values in \[0, 1\] for binary cross-entropy, got other values.*nn.Sigmoid"),
        (lambda: autoencoder(nn.Linear(6, 3), nn.Linear(3, 5)).losses(batch()), ValueError,
         r"decoder must return the shape of the batch \(12, 6\), got \(12, 5\)"),
        (lambda: autoencoder(nn.Linear(6, 1), nn.Linear(3, 6)).encode(batch()), ValueError,
         r"encoder must return vectors \(n, d\) with d of at least 2, got shape \(12, 1\)"),
        (lambda: autoencoder(nn.Linear(6, 4), nn.Linear(3, 6)).encode(batch()), ValueError,
         r"encoder must return codes in dimension latent_dim \(3\), got 4"),
        (lambda: autoencoder(Zero(), nn.Linear(3, 6)).encode(batch()), ValueError,
         "encoder must not return zero vectors, which have no direction, got one in row 0"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_squared_error_takes_any_range():
    model = SphericalAutoencoder(
        nn.Linear(6, 3), nn.Linear(3, 6), mean_distance, 1.0, latent_dim=3, reconstruction="mse"
    )
    losses = model.losses(100 * batch() - 50, seed=0)
    expected = float(((model(100 * batch() - 50) - (100 * batch() - 50)) ** 2).mean().detach())
    assert float(losses.reconstruction.detach()) == pytest.approx(expected, rel=1e-6)
