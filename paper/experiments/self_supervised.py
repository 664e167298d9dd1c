"""Self-supervised learning on the sphere: the paper's Table 3, figures and complexity (Appendix C.7), and S^9."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paper.common import Curve, format_mean, load_subset, measure_seconds, select
from paper.experiment import Experiment, Table
from paper.experiments import term_cost
from paper.experiments.self_supervised_figures import pages, plot
from paper.learning.augmentations import Augmentation
from paper.learning.image_files import ImageSet
from paper.learning.linear_evaluation import linear_evaluation
from paper.learning.pretraining import embed_all, pretrain, train_classifier
from paper.learning.resnet import ResNet18
from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SWUniformityLoss
from paper.run_context import Row, RunContext
from sphereot.torch import AlignmentUniformityLoss, UniformityLoss
from sphereot.torch.metrics import effective_rank, knn_accuracy, uniformity

# Each loss by its parameter: the weight of the uniformity, or the temperature of SimCLR.
_LOSSES: dict[str, Callable[[float, int], nn.Module]] = {
    "SimCLR": lambda value, seed: NTXentLoss(value),
    "align-uniform": lambda value, seed: AlignmentUniformityLoss(value, GaussianPotentialLoss(2.0)),
    "SW-SSL, L = 10": lambda value, seed: AlignmentUniformityLoss(value, SWUniformityLoss(10, seed=seed)),
    "SW-SSL, L = 3": lambda value, seed: AlignmentUniformityLoss(value, SWUniformityLoss(3, seed=seed)),
    "SSW-SSL, L = 10": lambda value, seed: AlignmentUniformityLoss(value, UniformityLoss(n_projections=10, seed=seed)),
    "SSW-SSL, L = 3": lambda value, seed: AlignmentUniformityLoss(value, UniformityLoss(n_projections=3, seed=seed)),
    "SSW-SSL without slices": lambda value, seed: AlignmentUniformityLoss(value, UniformityLoss(method="exact")),
}
_PRINTED = {"SimCLR": 0.2, "align-uniform": 1.0, "SW-SSL, L = 10": 1.0, "SW-SSL, L = 3": 1.0}
_SSW_WEIGHT = 20.0
_PAPER = {
    "supervised": (82.26, 81.43),
    "SimCLR": (66.55, 59.09),
    "align-uniform": (60.53, 55.86),
    "SW-SSL, L = 10": (62.65, 57.77),
    "SW-SSL, L = 3": (62.46, 57.64),
    "SSW-SSL, L = 10": (64.89, 58.91),
    "SSW-SSL, L = 3": (63.75, 59.75),
}


@dataclass(frozen=True)
class Training:
    """Data, network, and length of training.

    Attributes
    ----------
    data : str
        Data set, as in `load_images`.
    curve_every : int
        Epochs between two measurements of the accuracy of nearest neighbors.
    image_limit : int or None
        Number of training images; all if None.
    """

    data: str = "cifar10"
    width: int = 64
    epochs: int = 200
    batch_size: int = 512
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-3
    linear_epochs: int = 100
    decay_epochs: tuple[int, ...] = (60, 80)
    curve_every: int = 10
    neighbors: int = 20
    image_limit: int | None = None


@dataclass(frozen=True)
class Config(Training):
    """Also what is compared on which sphere.

    Attributes
    ----------
    methods : tuple of str
        Methods of the table on S^2, one training run each; "supervised" and "random start" besides the losses.
    compared : tuple of str
        Losses that are compared on S^{compared_dim - 1}, their parameter chosen on a validation split.
    grid : tuple of (str, tuple of float)
        The values that are tried for each of them.
    """

    methods: tuple[str, ...] = ("supervised", *_LOSSES, "random start")
    compared: tuple[str, ...] = ("SSW-SSL, L = 10", "SSW-SSL without slices", "align-uniform", "SimCLR")
    compared_dim: int = 10
    compared_runs: int = 3
    grid: tuple[tuple[str, tuple[float, ...]], ...] = (
        ("SSW-SSL, L = 10", (20.0, 60.0, 200.0)),
        ("SSW-SSL without slices", (20.0, 60.0, 200.0)),
        ("align-uniform", (0.5, 1.0, 2.0)),
        ("SimCLR", (0.1, 0.2, 0.5)),
    )
    drawn: int = 2000
    batches: tuple[int, ...] = (256, 1024, 4096, 16384, 32768)
    term_dim: int = 128
    timed_steps: int = 3


def run(config: Config, context: RunContext) -> list[Row]:
    """Measure times and memory, train every method, choose parameters on a validation split, and evaluate."""

    def measure_share(method: str, seed: int) -> Row:
        return _share_of_step(method, config, seed)

    def measure_term(term: str, n: int, seed: int) -> Row:
        return term_cost.measure(term, n, config.term_dim, config.timed_steps)

    def train_on_s2(method: str, run: int, seed: int, checkpoint: Any) -> Row:
        seed = context.unit_seed({"dim": 3, "run": run})
        images = load_subset(config.data, config.image_limit)
        value = _PRINTED.get(method, _SSW_WEIGHT)
        encoder, row = train_encoder(
            _make_loss(method, value, seed), 3, images.train, images.test, config, seed, checkpoint
        )
        row |= evaluate(encoder, images.train, images.test, config, seed)
        points = embed_all(encoder, images.test.images[: config.drawn])
        row["codes"] = [round(coordinate, 4) for coordinate in points.flatten().tolist()]
        row["labels"] = images.test.labels[: config.drawn].tolist()
        return row | {"value": value}

    def try_value(method: str, value: float, seed: int, checkpoint: Any) -> Row:
        seed = context.unit_seed({"dim": config.compared_dim, "run": "validation"})
        sets = split_images(load_subset(config.data, config.image_limit).train, seed)
        loss = _make_loss(method, value, seed)
        encoder, row = train_encoder(loss, config.compared_dim, *sets, config, seed, checkpoint)
        return row | evaluate(encoder, *sets, config, seed)

    def train_chosen(method: str, value: float, run: int, seed: int, checkpoint: Any) -> Row:
        seed = context.unit_seed({"dim": config.compared_dim, "run": run})
        images = load_subset(config.data, config.image_limit)
        loss = _make_loss(method, value, seed)
        encoder, row = train_encoder(loss, config.compared_dim, images.train, images.test, config, seed, checkpoint)
        return row | evaluate(encoder, images.train, images.test, config, seed)

    rows = context.measure("share", [{"method": method} for method in _LOSSES], measure_share)
    terms = [{"term": term, "n": n} for term in term_cost.TERMS for n in config.batches]
    rows += context.measure("complexity", terms, measure_term)
    table = [{"method": method, "run": 0} for method in config.methods]
    rows += context.measure("table", table, train_on_s2, checkpoints=True)
    trials = [{"method": method, "value": value} for method, values in config.grid for value in values]
    tried = context.measure("validation", trials, try_value, checkpoints=True)
    chosen = {
        method: max(select(tried, method=method), key=lambda row: row["accuracy_features"])["value"]
        for method in config.compared
    }
    units = [
        {"method": method, "value": chosen[method], "run": k}
        for k in range(config.compared_runs)
        for method in config.compared
    ]
    return rows + tried + context.measure("comparison", units, train_chosen, checkpoints=True)


def _make_loss(method: str, value: float, seed: int) -> nn.Module | str:
    """The loss of a method, or its name if it has none."""
    return _LOSSES[method](value, seed) if method in _LOSSES else method


def split_images(images: ImageSet, seed: int) -> tuple[ImageSet, ImageSet]:
    """Split off a fifth of the training images for validation."""
    order = np.random.default_rng(seed).permutation(len(images))
    held_out = len(images) // 5
    return tuple(  # type: ignore[return-value]
        ImageSet(images.images[rows], images.labels[rows]) for rows in (order[held_out:], order[:held_out])
    )


def train_encoder(
    loss: nn.Module | str,
    dim: int,
    train_set: ImageSet,
    test_set: ImageSet,
    config: Training,
    seed: int,
    checkpoint: Any,
) -> tuple[ResNet18, Row]:
    """Train an encoder; also return the row of its training, with the accuracy of nearest neighbors along it.

    The loss is a module for two views, or the name of a baseline: "supervised" or "random start".
    """
    encoder = ResNet18(dim, config.width, seed=seed)
    if loss == "random start":
        return encoder, {"epochs": 0}
    curve = Curve(checkpoint, "epoch", "accuracy")
    reference, test = _few(train_set, 2000), _few(test_set, 1000)

    def follow(epoch: int, mean_loss: float, encoder: ResNet18) -> None:
        if epoch % config.curve_every == 0 or epoch == config.epochs:
            curve.add(epoch=epoch, accuracy=_neighbor_accuracy(encoder, reference, test, config.neighbors))

    options: dict[str, Any] = {
        "epochs": config.epochs,
        "batch_size": config.batch_size,
        "lr": config.lr,
        "momentum": config.momentum,
        "weight_decay": config.weight_decay,
        "augmentation": Augmentation(train_set.images.shape[-1], train_set.images.shape[1]),
        "seed": seed,
        "checkpoint": curve,
        "callback": follow,
    }
    images = torch.from_numpy(train_set.images)
    if isinstance(loss, str):
        history = train_classifier(encoder, images, torch.from_numpy(train_set.labels), **options)
    else:
        history = pretrain(encoder, images, loss, **options)
    row: Row = {"epochs": config.epochs, "train_loss": history.loss[-1]}
    return encoder, row | {"curve_epochs": curve.values["epoch"], "curve": curve.values["accuracy"]}


def _few(images: ImageSet, n: int) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(images.images[:n]), torch.from_numpy(images.labels[:n])


def _neighbor_accuracy(
    encoder: ResNet18, reference: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], neighbors: int
) -> float:
    """Accuracy of nearest neighbors by the features, which are scaled to unit length."""
    points, others = (
        nn.functional.normalize(embed_all(encoder.features, part[0]) + 1e-12, dim=1) for part in (test, reference)
    )
    k = min(neighbors, len(others))
    return float(knn_accuracy(points, test[1], others, reference[1], k=k))


def evaluate(encoder: ResNet18, train_set: ImageSet, test_set: ImageSet, config: Training, seed: int) -> Row:
    """Evaluate linear classifiers on features and on the sphere, and uniformity and rank of the test embeddings."""
    labels, test_labels = (torch.from_numpy(part.labels) for part in (train_set, test_set))
    row: Row = {}
    for name, function in (("features", encoder.features), ("sphere", encoder)):
        train_points, test_points = (embed_all(function, part.images) for part in (train_set, test_set))
        result = linear_evaluation(
            train_points,
            labels,
            test_points,
            test_labels,
            epochs=config.linear_epochs,
            decay_epochs=config.decay_epochs,
            seed=seed,
        )
        row |= {f"accuracy_{name}": result.accuracy, f"best_{name}": result.best}
    row["uniformity"] = float(uniformity(test_points))
    row["effective_rank"] = float(effective_rank(test_points))
    return row


def _share_of_step(method: str, config: Config, seed: int) -> Row:
    """Seconds of a training step, and of its loss alone with gradient: the least of several."""
    images = load_subset(config.data, config.image_limit).train.images[: config.batch_size]
    encoder = ResNet18(3, config.width, seed=seed).to(memory_format=torch.channels_last)
    loss = _LOSSES[method](_PRINTED.get(method, _SSW_WEIGHT), seed)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=config.lr, momentum=config.momentum)
    augment, batch = Augmentation(images.shape[-1], images.shape[1]), torch.from_numpy(images)
    codes = embed_all(encoder, torch.cat([batch, batch])).requires_grad_()

    def step() -> None:
        optimizer.zero_grad()
        views = torch.cat(augment.two_views(batch, seed=0)).contiguous(memory_format=torch.channels_last)
        loss(*encoder(views).chunk(2)).backward()
        optimizer.step()

    seconds = {
        name: min(measure_seconds(action) for _ in range(config.timed_steps + 1))
        for name, action in (("step_seconds", step), ("loss_seconds", lambda: loss(*codes.chunk(2)).backward()))
    }
    return seconds | {"loss_share": seconds["loss_seconds"] / seconds["step_seconds"]}


def summarize(rows: list[Row], config: Config) -> Table:
    """The paper's table, then the comparison on the larger sphere."""
    lines = []
    for method in config.methods:
        row = select(rows, part="table", method=method)[0]
        paper = _PAPER.get(method)
        printed = "" if paper is None else f"{paper[0]:.2f} / {paper[1]:.2f}"
        lines.append(["S^2", method, _percent(row, "features"), _percent(row, "sphere"), printed, ""])
    sphere = f"S^{config.compared_dim - 1}"
    for method in config.compared:
        selected = select(rows, part="comparison", method=method)
        cells = [format_mean([100 * row[f"accuracy_{name}"] for row in selected]) for name in ("features", "sphere")]
        lines.append([sphere, method, *cells, "", f"{selected[0]['value']:g}"])
    columns = ("sphere", "method", "features", "sphere", "paper", "chosen")
    shares = select(rows, part="share")
    largest = max(shares, key=lambda row: row["loss_share"])
    note = (
        f"Accuracy of a linear classifier in percent, on the features and on the sphere; {config.epochs} epochs, width "
        f"{config.width}, batches of {config.batch_size}, {config.data}. One training run on S^2; on {sphere} mean ± "
        f"standard deviation of {config.compared_runs} training runs with the parameter (weight, or temperature of "
        "SimCLR) that was best on a validation split. The paper reports the best epoch on the test set; here it is "
        "the last. "
        f"The loss takes at most {100 * largest['loss_share']:.2f} % of a step ({largest['method']})."
    )
    return Table(columns, lines, note)


def _percent(row: Row, name: str) -> str:
    return f"{100 * row[f'accuracy_{name}']:.2f}"


EXPERIMENT = Experiment(
    name="self_supervised",
    title="Self-supervised learning: SSW, SW, Gaussian potential and SimCLR as what keeps embeddings apart",
    section="Appendix C.7, Table 'Linear evaluation on CIFAR10' and Figure 'The CIFAR10 validation set on S^2'",
    paper="On S^2, SSW-SSL with 10 projections reaches 64.89 / 58.91 (features / sphere), SimCLR 66.55 / 59.09, "
    "align-uniform 60.53 / 55.86, SW-SSL 62.65 / 57.77, supervised 82.26 / 81.43.",
    needs="CIFAR10",
    presets={
        "quick": Config(
            data="cifar10_10k",
            width=4,
            epochs=2,
            batch_size=64,
            compared=("SSW-SSL without slices", "SimCLR"),
            compared_runs=1,
            grid=(("SSW-SSL without slices", (20.0,)), ("SimCLR", (0.2,))),
            linear_epochs=5,
            decay_epochs=(3, 4),
            curve_every=1,
            neighbors=5,
            drawn=200,
            batches=(512,),
            timed_steps=1,
            image_limit=256,
        ),
        "cpu": Config(
            data="cifar10_10k",
            width=8,
            epochs=20,
            batch_size=128,
            curve_every=4,
        ),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=(
        "accuracy_features", "accuracy_sphere", "best_features", "best_sphere", "uniformity", "effective_rank",
        "train_loss", "step_seconds", "loss_seconds", "loss_share", "seconds", "megabytes",
    ),
    pages=pages,
)  # fmt: skip
