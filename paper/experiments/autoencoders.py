"""Autoencoders with a latent sphere: the paper's Table 2 and figures (Section 5.2, Appendix C.6), and a study."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ot
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily

from paper.common import Curve, format_mean, load_subset, measure_seconds, select
from paper.experiment import Experiment, Table
from paper.experiments.autoencoder_figures import pages, plot
from paper.learning.autoencoder_training import encode_all, reconstruction_error, train
from paper.learning.baselines import MMD, SW, CircularGSW, Sinkhorn
from paper.learning.features import EfficientNetFeatures, LeNet, accuracy, train_lenet
from paper.learning.frechet import FrechetDistance
from paper.learning.images import ImageData
from paper.learning.networks import paper_networks
from paper.run_context import Row, RunContext
from sphereot import ssw_uniform
from sphereot.distributions import VonMisesFisher
from sphereot.torch import SphericalAutoencoder, SSWLoss, UniformityLoss

_METHODS: dict[str, Callable[[int], nn.Module]] = {
    "SSWAE": lambda n_projections: UniformityLoss(n_projections=n_projections),
    "SSWAE without slices": lambda n_projections: UniformityLoss(method="exact"),
    "SWAE": lambda n_projections: SW(n_projections),
    "WAE-MMD IMQ": lambda n_projections: MMD("imq"),
    "WAE-MMD RBF": lambda n_projections: MMD("rbf"),
    "SAE": lambda n_projections: Sinkhorn(),
    "Circular GSWAE": lambda n_projections: CircularGSW(n_projections),
}
_PAPER = {
    ("SSWAE", "mnist"): "14.91 ± 0.32", ("SSWAE", "fashion"): "43.94 ± 0.81", ("SSWAE", "cifar10"): "98.57 ± 0.35",
    ("SWAE", "mnist"): "15.18 ± 0.32", ("SWAE", "fashion"): "44.78 ± 1.07", ("SWAE", "cifar10"): "98.5 ± 0.45",
    ("WAE-MMD IMQ", "mnist"): "18.12 ± 0.62", ("WAE-MMD IMQ", "fashion"): "68.51 ± 2.76",
    ("WAE-MMD IMQ", "cifar10"): "100.14 ± 0.67", ("WAE-MMD RBF", "mnist"): "20.09 ± 1.42",
    ("WAE-MMD RBF", "fashion"): "70.58 ± 1.75", ("WAE-MMD RBF", "cifar10"): "100.27 ± 0.74",
    ("SAE", "mnist"): "19.39 ± 0.56", ("SAE", "fashion"): "56.75 ± 1.7", ("SAE", "cifar10"): "99.34 ± 0.96",
    ("Circular GSWAE", "mnist"): "15.01 ± 0.26", ("Circular GSWAE", "fashion"): "44.65 ± 1.2",
    ("Circular GSWAE", "cifar10"): "98.8 ± 0.68",
}  # fmt: skip
_CURVES = ("SSWAE", "SSWAE without slices", "SWAE")  # methods whose distance to test images is followed
_DRAWN = ("SSWAE", "SWAE", "SAE")  # methods whose samples are shown
_PRIORS = ("uniform", "mixture")


@dataclass(frozen=True)
class Config:
    """Data with the number of training runs of each method, networks, length of training, and sizes of samples.

    Attributes
    ----------
    data : tuple of (name, runs)
        Data sets, as in `load_images`, and the number of training runs of each method.
    gray_width, color_width : float
        Factors of the numbers of channels of the networks for 28 and 32 pixels; 1 in the paper.
    latent_epochs : int
        Length of the training runs on S^2, for the figures of the latent space.
    study : tuple of (label, method, weight, n_projections, epochs)
        Further training runs of the first data set.
    image_limit : int or None
        Number of training images; all if None.
    """

    data: tuple[tuple[str, int], ...] = (("mnist", 5), ("fashion", 5), ("cifar10", 5))
    methods: tuple[str, ...] = tuple(_METHODS)
    gray_width: float = 1.0
    color_width: float = 1.0
    gray_epochs: int = 800
    color_epochs: int = 800
    latent_epochs: int = 800
    latent_runs: int = 5
    gray_batch: int = 500
    color_batch: int = 128
    gray_weight: float = 10.0
    color_weight: float = 0.1
    lr: float = 1e-3
    n_projections: int = 1000
    kappa: float = 10.0
    n_samples: int = 10_000
    lenet_epochs: int = 5
    feature_pixels: int = 224
    curve_images: int = 2000
    drawn_images: int = 25
    drawn_codes: int = 3000
    timed_steps: int = 5
    study: tuple[tuple[str, str, float, int, int], ...] = ()
    image_limit: int | None = None


@dataclass(frozen=True)
class _Setting:
    """What the training of one data set needs."""

    images: ImageData
    size: int
    latent_dim: int
    width: float
    epochs: int
    batch_size: int
    weight: float


def run(config: Config, context: RunContext) -> list[Row]:
    """Measure times, train feature networks and autoencoders, and evaluate them."""

    def measure_times(data: str, method: str, seed: int) -> Row:
        return _times(_setting(data, config), method, config, seed)

    def describe_features(data: str, seed: int) -> Row:
        return _feature_row(_setting(data, config), config, context)

    def train_one(data: str, method: str, run: int, seed: int, checkpoint: Any) -> Row:
        # One seed for all methods of a run: they start from the same weights and see the same batches.
        seed = context.unit_seed({"data": data, "run": run})
        setting = _setting(data, config)
        follow = data == config.data[0][0] and method in _CURVES
        model, row = _train(setting, _METHODS[method](config.n_projections), config, seed, checkpoint, follow=follow)
        row |= _evaluation(model, setting, config, context, seed)
        if run == 0 and data == config.data[0][0] and method in _DRAWN:
            drawn = model.sample(config.drawn_images, seed=0)
            row["samples"] = (255 * drawn[:, 0]).round().to(torch.uint8).flatten().tolist()
        return row

    def train_latent(prior: str, method: str, run: int, seed: int, checkpoint: Any) -> Row:
        seed = context.unit_seed({"latent": prior, "run": run})
        setting = _setting(config.data[0][0], config, latent_dim=3)
        divergence = _METHODS[method](config.n_projections)
        if method == "SSWAE" and prior == "mixture":
            divergence = SSWLoss(n_projections=config.n_projections)
        distribution = None if prior == "uniform" else _mixture(config.kappa)
        model, row = _train(
            setting, divergence, config, seed, checkpoint, follow=prior == "uniform", prior=distribution
        )
        row["reconstruction"] = reconstruction_error(model, torch.from_numpy(setting.images.test.images))
        if run == 0:
            test = setting.images.test
            codes = encode_all(model, torch.from_numpy(test.images[: config.drawn_codes]))
            row["codes"] = [round(value, 4) for value in codes.flatten().tolist()]
            row["labels"] = test.labels[: config.drawn_codes].tolist()
        return row

    def train_variant(label: str, run: int, seed: int, checkpoint: Any) -> Row:
        _, method, weight, n_projections, epochs = next(item for item in config.study if item[0] == label)
        seed = context.unit_seed({"data": config.data[0][0], "run": run})
        setting = _setting(config.data[0][0], config, weight=weight, epochs=epochs)
        model, row = _train(setting, _METHODS[method](n_projections), config, seed, checkpoint)
        return row | _evaluation(model, setting, config, context, seed)

    units = [{"data": data, "method": method} for data, _ in config.data for method in config.methods]
    rows = context.measure("times", units, measure_times)
    rows += context.measure("features", [{"data": data} for data, _ in config.data], describe_features)

    def trainings(first: int, last: int) -> list[Row]:
        units = [
            {"data": data, "method": method, "run": k}
            for k in range(first, last)
            for data, runs in config.data
            if k < runs
            for method in config.methods
        ]
        return context.measure("trainings", units, train_one, checkpoints=True)

    # One run of everything first: a run that is still unfinished already shows all methods.
    rows += trainings(0, 1)
    latent = [
        {"prior": prior, "method": method, "run": k}
        for k in range(config.latent_runs)
        for prior in _PRIORS
        for method in ("SWAE", "SSWAE")
        if k == 0 or prior == "uniform"
    ]
    rows += context.measure("latent space", latent, train_latent, checkpoints=True)
    study = [{"label": item[0], "run": 0} for item in config.study]
    rows += context.measure("study", study, train_variant, checkpoints=True)
    return rows + trainings(1, max(runs for _, runs in config.data))


def _setting(data: str, config: Config, **changes: Any) -> _Setting:
    images = load_subset(data, config.image_limit)
    gray = images.train.images.shape[1] == 1
    values = {
        "images": images,
        "size": images.train.images.shape[-1],
        "latent_dim": 11 if gray else 65,
        "width": config.gray_width if gray else config.color_width,
        "epochs": config.gray_epochs if gray else config.color_epochs,
        "batch_size": config.gray_batch if gray else config.color_batch,
        "weight": config.gray_weight if gray else config.color_weight,
    }
    if changes.get("latent_dim") == 3:
        values["epochs"] = config.latent_epochs
    return _Setting(**(values | changes))


def _mixture(kappa: float) -> MixtureSameFamily:
    """Equal von Mises-Fisher distributions around the six unit vectors of the axes."""
    modes = torch.cat([torch.eye(3), -torch.eye(3)])
    return MixtureSameFamily(Categorical(probs=torch.full((6,), 1 / 6)), VonMisesFisher(modes, kappa))


def _model(setting: _Setting, divergence: nn.Module, seed: int, prior: Any = None) -> SphericalAutoencoder:
    networks = paper_networks(setting.size, setting.latent_dim, setting.width, seed=seed)
    return SphericalAutoencoder(*networks, divergence, setting.weight, latent_dim=setting.latent_dim, prior=prior)


def _train(
    setting: _Setting,
    divergence: nn.Module,
    config: Config,
    seed: int,
    checkpoint: Any,
    *,
    follow: bool = False,
    prior: Any = None,
) -> tuple[SphericalAutoencoder, Row]:
    """A trained autoencoder, and the row of its training; with `follow`, W_2 to the test images after every epoch."""
    model = _model(setting, divergence, seed, prior)
    store = Curve(checkpoint, "distance")
    test = torch.from_numpy(setting.images.test.images[: config.curve_images])

    def measure(epoch: int, loss: float, model: SphericalAutoencoder) -> None:
        if follow:
            store.add(distance=_image_distance(model.sample(len(test), seed=epoch), test))

    history = train(
        model,
        torch.from_numpy(setting.images.train.images),
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        lr=config.lr,
        seed=seed,
        checkpoint=store,
        callback=measure,
    )
    row: Row = {
        "epochs": setting.epochs,
        "weight": setting.weight,
        "train_reconstruction": history.reconstruction[-1],
        "train_divergence": history.divergence[-1],
    }
    return model, row | ({"curve": store.values["distance"]} if follow else {})


def _image_distance(generated: Tensor, test: Tensor) -> float:
    """W_2 between two sets of images as points of Euclidean space, by a linear program."""
    x, y = (images.reshape(len(images), -1).double() for images in (generated, test))
    return math.sqrt(ot.emd2([], [], (torch.cdist(x, y) ** 2).numpy(), numItermax=10_000_000))


def _evaluation(model: SphericalAutoencoder, setting: _Setting, config: Config, context: RunContext, seed: int) -> Row:
    """Fréchet distance of samples, reconstruction error of test images, and SSW of their codes to uniform."""
    test = torch.from_numpy(setting.images.test.images)
    distance = _frechet(setting.images.name, config, context)
    codes = encode_all(model, test)
    value = float(ssw_uniform(codes.double(), method="exact", unbiased=True))
    return {
        "frechet": distance(model.sample(config.n_samples, seed=seed)),
        "reconstruction": reconstruction_error(model, test),
        "ssw_to_uniform": value,
    }


_DISTANCES: dict[Any, FrechetDistance] = {}  # of the last data set


def _frechet(data: str, config: Config, context: RunContext) -> FrechetDistance:
    """Fréchet distance to the test images, or to the training images where there are fewer test images than samples."""
    key = (data, config, id(context))
    if key not in _DISTANCES:
        setting = _setting(data, config)
        _DISTANCES.clear()
        _DISTANCES[key] = FrechetDistance(_reference(setting, config), _features(setting, config, context))
    return _DISTANCES[key]


def _reference(setting: _Setting, config: Config) -> Tensor:
    train_set, test_set = setting.images.train, setting.images.test
    enough = len(test_set) >= config.n_samples
    return torch.from_numpy((test_set if enough else train_set).images[: config.n_samples])


def _features(setting: _Setting, config: Config, context: RunContext) -> Any:
    """LeNet trained on the same data for gray images, EfficientNet-lite0 for color images."""
    if setting.size != 28:
        return EfficientNetFeatures(config.feature_pixels)
    name = setting.images.name

    def make(seed: int) -> dict[str, Tensor]:
        images, labels = setting.images.train.images, setting.images.train.labels
        network = train_lenet(torch.from_numpy(images), torch.from_numpy(labels), epochs=config.lenet_epochs, seed=seed)
        weights: dict[str, Tensor] = network.state_dict()
        return weights

    network = LeNet()
    network.load_state_dict(context.shared(f"lenet-{name}", make))
    return network.eval().to(memory_format=torch.channels_last)


def _feature_row(setting: _Setting, config: Config, context: RunContext) -> Row:
    """What the features are, how well they classify, and the distance of real images that nothing was trained for."""
    distance = _frechet(setting.images.name, config, context)
    train_set, test_set = (
        torch.from_numpy(part.images[: config.n_samples]) for part in (setting.images.train, setting.images.test)
    )
    other = train_set if len(test_set) >= config.n_samples else test_set
    row: Row = {
        "label": distance.label,
        "title": setting.images.title,
        "reference": "training images" if other is test_set else "test images",
        "frechet_real": distance(other),
    }
    if setting.size == 28:
        network = _features(setting, config, context)
        test = setting.images.test
        row["accuracy"] = accuracy(network, torch.from_numpy(test.images), torch.from_numpy(test.labels))
    return row


def _times(setting: _Setting, method: str, config: Config, seed: int) -> Row:
    """Seconds of a training step and of its divergence alone, with gradient: the least of several."""
    model = _model(setting, _METHODS[method](config.n_projections), seed).to(memory_format=torch.channels_last)
    images = torch.from_numpy(setting.images.train.images[: setting.batch_size])
    images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    generator = torch.Generator().manual_seed(seed)
    codes = encode_all(model, images).requires_grad_()

    def step() -> None:
        optimizer.zero_grad()
        model.losses(images, seed=generator).total.backward()
        optimizer.step()

    def divergence() -> None:
        model.code_divergence(codes, seed=generator).backward()

    seconds = {}
    for name, action in (("step_seconds", step), ("divergence_seconds", divergence)):
        action()
        seconds[name] = min(measure_seconds(action) for _ in range(config.timed_steps))
    steps = math.ceil(len(setting.images.train) / setting.batch_size)
    share = seconds["divergence_seconds"] / seconds["step_seconds"]
    return seconds | {"epoch_seconds": steps * seconds["step_seconds"], "divergence_share": share}


def summarize(rows: list[Row], config: Config) -> Table:
    """The paper's table, with reconstruction error, SSW of the codes, and times."""
    lines = []
    for data, _ in config.data:
        title = select(rows, part="features", data=data)[0]["title"]
        for method in config.methods:
            selected = select(rows, part="trainings", data=data, method=method)
            times = select(rows, part="times", data=data, method=method)[0]
            paper = _PAPER.get((method, data.removesuffix("_10k")), "")
            lines.append(
                [
                    title,
                    method,
                    format_mean([row["frechet"] for row in selected], 2),
                    paper,
                    format_mean([row["reconstruction"] for row in selected], 4),
                    format_mean([1e4 * row["ssw_to_uniform"] for row in selected], 2),
                    f"{times['epoch_seconds']:.1f}",
                    f"{100 * times['divergence_share']:.1f} %",
                ]
            )
    columns = (
        "data",
        "method",
        "Fréchet",
        "paper's FID",
        "reconstruction",
        "SSW [1e-4 turns²]",
        "s/epoch",
        "divergence",
    )
    return Table(columns, lines, _note(rows, config))


def _note(rows: list[Row], config: Config) -> str:
    labels = {row["label"] for row in select(rows, part="features")}
    runs = ", ".join(f"{name}: {count}" for name, count in config.data)
    compared = {row["title"]: row["reference"] for row in select(rows, part="features")}
    references = ", ".join(f"{title}: {reference}" for title, reference in compared.items())
    study = [
        f"{row['label']}: {row['frechet']:.2f}, {row['reconstruction']:.4f}, {1e4 * row['ssw_to_uniform']:.2f}"
        for row in select(rows, part="study")
    ]
    note = (
        f"{'; '.join(sorted(labels))}, of {config.n_samples:,} samples to as many real images ({references}). "
        "Mean ± standard deviation over training runs "
        f"({runs}); networks of {config.gray_width:g} (gray) and {config.color_width:g} (color) of the paper's width, "
        f"{config.gray_epochs} and {config.color_epochs} epochs. Distances with other features than Inception cannot "
        "be compared with the paper's FID, nor between data sets. SSW_2^2 of the test codes to uniform is the unbiased "
        "exact value. Divergence: its share of a step, with gradient. SAE has the geodesic cost here, the Euclidean "
        "one in the paper."
    )
    return note + (f" Study (Fréchet, reconstruction, SSW): {'; '.join(study)}." if study else "")


EXPERIMENT = Experiment(
    name="autoencoders",
    title="Autoencoders with a latent sphere: SSW, SW, MMD, Sinkhorn and GSW as divergence to the prior",
    section="Section 5.2, Table 2 and Figure 'Latent space of SWAE and SSWAE'; Appendix C.6",
    paper="FID of SSWAE is least on MNIST and Fashion, and within the spread of it on CIFAR10; SWAE and circular "
    "GSWAE are close, WAE-MMD and SAE behind.",
    needs="MNIST, Fashion-MNIST, CIFAR10",
    presets={
        "quick": Config(
            data=(("mnist", 1),),
            gray_width=0.125,
            gray_epochs=4,
            latent_epochs=4,
            latent_runs=1,
            gray_batch=50,
            n_projections=100,
            n_samples=500,
            lenet_epochs=2,
            curve_images=200,
            drawn_images=9,
            drawn_codes=500,
            timed_steps=2,
            study=(("weight 1", "SSWAE", 1.0, 100, 4),),
            image_limit=2000,
        ),
        "cpu": Config(
            data=(("mnist", 3), ("fashion", 1), ("cifar10_10k", 1)),
            gray_width=0.25,
            color_width=0.25,
            gray_epochs=10,
            color_epochs=20,
            latent_epochs=10,
            latent_runs=1,
            feature_pixels=64,
            curve_images=1000,
            study=(
                ("weight 1", "SSWAE", 1.0, 1000, 10),
                ("weight 100", "SSWAE", 100.0, 1000, 10),
                ("10 slices", "SSWAE", 10.0, 10, 10),
            ),
        ),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=(
        "frechet", "reconstruction", "ssw_to_uniform", "train_reconstruction", "train_divergence",
        "step_seconds", "divergence_seconds", "epoch_seconds", "divergence_share", "accuracy", "frechet_real",
    ),
    pages=pages,
)  # fmt: skip
