"""Uniformity terms of self-supervised learning on S^9: SSW with constant and rising weights, its even part, others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from paper.common import format_mean, load_subset, select
from paper.experiment import Experiment, Table
from paper.experiments.self_supervised import Training, evaluate, split_images, train_encoder
from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SIGRegLoss, koleo
from paper.run_context import Row, RunContext
from sphereot import plotting
from sphereot.torch import AlignmentUniformityLoss, UniformityLoss


@dataclass(frozen=True)
class RisingWeight:
    """Weight that rises geometrically from `start` to `end` in the first half of a training, and stays there."""

    start: float
    end: float
    steps: int

    def __call__(self, step: int) -> float:
        """Return the weight of a step."""
        share = min(1.0, step / (self.steps / 2))
        return float(self.start * (self.end / self.start) ** share)


def _rising(weight: float, steps: int, uniformity: nn.Module) -> nn.Module:
    return AlignmentUniformityLoss(RisingWeight(weight, 10 * weight, steps), uniformity)


# By method: the loss for a weight (the temperature of SimCLR), a factor of the even part, steps and a seed.
_LOSSES: dict[str, Callable[[float, float, int, int], nn.Module]] = {
    "align-uniform": lambda weight, even, steps, seed: AlignmentUniformityLoss(weight, GaussianPotentialLoss(2.0)),
    "SimCLR": lambda weight, even, steps, seed: NTXentLoss(weight),
    "SSW": lambda weight, even, steps, seed: AlignmentUniformityLoss(weight, UniformityLoss(method="exact")),
    "SSW, root": lambda weight, even, steps, seed: AlignmentUniformityLoss(
        weight, UniformityLoss(method="exact", root=True)
    ),
    "SSW, rising": lambda weight, even, steps, seed: _rising(weight, steps, UniformityLoss(method="exact")),
    "SSW, rising, even part": lambda weight, even, steps, seed: _rising(
        weight, steps, UniformityLoss(method="exact", even_weight=even)
    ),
    "KoLeo": lambda weight, even, steps, seed: AlignmentUniformityLoss(weight, koleo),
    "SIGReg": lambda weight, even, steps, seed: AlignmentUniformityLoss(weight, SIGRegLoss(seed=seed)),
}
_FAMILY = ("SSW", "SSW, root", "SSW, rising", "SSW, rising, even part")
_MEASURED = ("accuracy_features", "accuracy_sphere", "effective_rank")


@dataclass(frozen=True)
class Config(Training):
    """Also the dimension, and what is tried.

    Attributes
    ----------
    dim : int
        The sphere is S^{dim - 1}.
    grid : tuple of (method, tuple of (weight, even_weight))
        The settings of each method that are tried on a validation split.
    runs : int
        Training runs of each method with its best setting; one run of the methods in `once`.
    once : tuple of str
        See above.
    long_epochs : int
        Length of the runs of "align-uniform" and of the best method of SSW's family; 0 for none.
    """

    dim: int = 10
    grid: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = (
        ("align-uniform", ((0.25, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0))),
        ("SimCLR", ((0.1, 1.0), (0.2, 1.0), (0.5, 1.0), (1.0, 1.0))),
        ("SSW", ((20.0, 1.0), (60.0, 1.0), (200.0, 1.0))),
        ("SSW, root", ((1.0, 1.0), (3.0, 1.0), (10.0, 1.0))),
        ("SSW, rising", ((5.0, 1.0), (10.0, 1.0), (20.0, 1.0), (40.0, 1.0))),
        ("SSW, rising, even part", ((20.0, 5.0), (5.0, 10.0), (10.0, 10.0), (20.0, 10.0), (5.0, 20.0), (10.0, 20.0))),
        ("KoLeo", ((0.1, 1.0), (0.3, 1.0), (1.0, 1.0))),
        ("SIGReg", ((0.01, 1.0), (0.05, 1.0), (0.2, 1.0))),
    )
    runs: int = 3
    once: tuple[str, ...] = ("KoLeo", "SIGReg")
    long_epochs: int = 100


def run(config: Config, context: RunContext) -> list[Row]:
    """Try all settings on a validation split, then train the best setting of each method on all training images."""

    def train(
        method: str, weight: float, even_weight: float, run: int | str, checkpoint: Any, training: Training
    ) -> Row:
        seed = context.unit_seed({"dim": config.dim, "run": run})
        images = load_subset(config.data, config.image_limit)
        sets = split_images(images.train, seed) if run == "validation" else (images.train, images.test)
        batches = int(np.ceil(len(sets[0]) / config.batch_size))
        loss = _LOSSES[method](weight, even_weight, training.epochs * batches, seed)
        encoder, row = train_encoder(loss, config.dim, *sets, training, seed, checkpoint)
        return row | evaluate(encoder, *sets, training, seed)

    def work(method: str, weight: float, even_weight: float, run: int | str, seed: int, checkpoint: Any) -> Row:
        return train(method, weight, even_weight, run, checkpoint, config)

    def work_long(method: str, weight: float, even_weight: float, run: int, seed: int, checkpoint: Any) -> Row:
        return train(method, weight, even_weight, run, checkpoint, replace(config, epochs=config.long_epochs))

    def units(settings: list[tuple[str, tuple[float, float]]], run: int | str) -> list[Row]:
        return [
            {"method": name, "weight": weight, "even_weight": even, "run": run} for name, (weight, even) in settings
        ]

    trials = [(name, setting) for name, settings in config.grid for setting in settings]
    rows = context.measure("validation", units(trials, "validation"), work, checkpoints=True)
    best = _best_settings(rows, config)
    chosen = [
        unit
        for k in range(config.runs)
        for unit in units([(name, best[name]) for name in best if k == 0 or name not in config.once], k)
    ]
    rows += context.measure("comparison", chosen, work, checkpoints=True)
    if config.long_epochs:
        compared = {name: np.mean([row["accuracy_features"] for row in _compared(rows, name)]) for name in _FAMILY}
        winners = ["align-uniform", max(compared, key=lambda name: float(compared[name]))]
        rows += context.measure("long", units([(name, best[name]) for name in winners], 0), work_long, checkpoints=True)
    return rows


def _best_settings(rows: list[Row], config: Config) -> dict[str, tuple[float, float]]:
    best = {}
    for name, _ in config.grid:
        row = max(select(rows, part="validation", method=name), key=lambda row: row["accuracy_features"])
        best[name] = (row["weight"], row["even_weight"])
    return best


def _compared(rows: list[Row], method: str) -> list[Row]:
    return select(rows, part="comparison", method=method)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw accuracy and effective rank of all settings on the validation split, and the curves of the best."""
    from matplotlib.figure import Figure

    with plotting.style():
        figure = Figure(figsize=(6.8, 2.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for (name, _), color in zip(config.grid, [*plotting.PALETTE, "#8C6BB1", "#8C510A"], strict=False):
            tried = select(rows, part="validation", method=name)
            accuracy = [100 * row["accuracy_features"] for row in tried]
            left.plot([row["effective_rank"] for row in tried], accuracy, "o", color=color, markersize=4, label=name)
            curves = _compared(rows, name)
            mean = 100 * np.mean([row["curve"] for row in curves], axis=0)
            right.plot(curves[0]["curve_epochs"], mean, color=color)
        left.set(xlabel="effective rank of the embeddings", ylabel="accuracy on validation images [%]")
        left.legend(fontsize=6)
        right.set(xlabel="epoch", ylabel=f"{config.neighbors}-NN accuracy [%]", title="best settings, test images")
    return {"study": figure}


def summarize(rows: list[Row], config: Config) -> Table:
    """Accuracy of linear classifiers and effective rank for the best setting of each method."""
    lines = []
    for name, (weight, even) in _best_settings(rows, config).items():
        tried = select(rows, part="validation", method=name)
        settings = {(row["weight"], row["even_weight"]): f"{100 * row['accuracy_features']:.1f}" for row in tried}
        text = ", ".join(
            f"{a:g}" + (f" / {b:g}" if "even" in name else "") + f": {cell}" for (a, b), cell in settings.items()
        )
        selected = _compared(rows, name)
        features, sphere, rank = ([row[column] for row in selected] for column in _MEASURED)
        cells = [format_mean([100 * value for value in values], 1) for values in (features, sphere)]
        chosen = f"{weight:g} / {even:g}" if "even" in name else f"{weight:g}"
        lines.append([name, text, chosen, *cells, format_mean(rank, 1)])
    for row in select(rows, part="long"):
        cells = [f"{100 * row[column]:.1f}" for column in _MEASURED[:2]]
        label = f"{row['method']}, {config.long_epochs} epochs"
        lines.append([label, "", "", *cells, f"{row['effective_rank']:.1f}"])
    note = (
        f"Accuracy of a linear classifier in percent, on the features and on the sphere S^{config.dim - 1}, and the "
        f"effective rank of the embeddings (at most {config.dim}). {config.epochs} epochs, width {config.width}, "
        f"batches of {config.batch_size}, {config.data}. The setting (weight, or temperature; weight / even_weight) "
        f"that is best on a validation split, then mean ± standard deviation of {config.runs} training runs (one run "
        f"of {' and '.join(config.once)}). A rising weight ends at ten times the given weight."
    )
    return Table(("method", "validation, by setting", "chosen", "features", "sphere", "rank"), lines, note)


EXPERIMENT = Experiment(
    name="uniformity_study",
    title="Self-supervised learning on S^9: how to make SSW a good uniformity term",
    section="Appendix C.7, beyond the paper: ten dimensions in place of three",
    paper="The paper has S^2 only. Others report SSW ten points behind align-uniform on S^9 after 200 epochs.",
    needs="CIFAR10",
    presets={
        "quick": Config(
            data="cifar10_10k",
            width=4,
            epochs=2,
            batch_size=64,
            grid=(("align-uniform", ((0.5, 1.0),)), *((name, ((10.0, 5.0),)) for name in _FAMILY)),
            runs=1,
            long_epochs=0,
            linear_epochs=5,
            decay_epochs=(3, 4),
            curve_every=1,
            neighbors=5,
            image_limit=256,
        ),
        "cpu": Config(data="cifar10_10k", width=8, epochs=20, batch_size=128, curve_every=4),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("best_features", "best_sphere", "uniformity", "train_loss", *_MEASURED),
)
