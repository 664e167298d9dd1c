"""Figures and pages of the experiment on self-supervised learning."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from paper.common import select
from paper.run_context import Row
from sphereot import plotting
from sphereot.plotting.globe import globe_figure, html_page

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CLASS_COLORS = [*plotting.PALETTE, "#8C6BB1", "#8C510A"]
_SHOWN = ("SSW-SSL, L = 10", "SW-SSL, L = 10", "align-uniform", "SimCLR", "supervised", "random start")


def plot(rows: list[Row], config: Any) -> dict[str, Any]:
    """Draw the test set on maps of S^2, the accuracy over the epochs, and the cost of the terms."""
    with plotting.style():
        return {
            "embeddings": _maps(rows, config),
            "accuracy": _accuracy(rows, config),
            "complexity": _complexity(rows, config),
        }


def pages(rows: list[Row], config: Any) -> Mapping[str, str]:
    """Globes of the embeddings, to rotate, with the class of every image."""
    sections = []
    for method in _methods(rows):
        classes = _codes_by_class(rows, method)
        globe = globe_figure(
            points=list(classes.values()),
            labels=[_CLASSES[label] for label in classes],
            colors=[_CLASS_COLORS[label] for label in classes],
            name=f"Embeddings of test images: {method}",
            coastlines=False,
            turn=True,
        )
        sections.append(f"<h2>{method}</h2>\n{globe}")
    intro = f"<p>Embeddings of test images of CIFAR10 on the sphere S², one color per class ({_scale(config)}).</p>"
    return {"embedding_globes": html_page("Embeddings of CIFAR10 on the sphere", "\n".join([intro, *sections]))}


def _scale(config: Any) -> str:
    """The size of network and training, for titles: what is smaller than in the paper must be seen."""
    images = "the 10k subset" if config.data == "cifar10_10k" else "all images"
    limit = images if config.image_limit is None else f"{config.image_limit} images"
    return f"width {config.width} of 64, {config.epochs} of 200 epochs, {limit}"


def _methods(rows: list[Row]) -> list[str]:
    return [method for method in _SHOWN if select(rows, part="table", method=method)]


def _codes_by_class(rows: list[Row], method: str) -> dict[int, Any]:
    row = select(rows, part="table", method=method)[0]
    codes, labels = np.array(row["codes"]).reshape(-1, 3), np.array(row["labels"])
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)  # they are stored with four digits
    return {int(label): codes[labels == label] for label in np.unique(labels)}


def _maps(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure

    methods = _methods(rows)
    figure = Figure(figsize=(6.4, 5.4))
    for k, method in enumerate(methods):
        ax = figure.add_subplot(3, 2, k + 1, projection="mollweide")
        for label, codes in _codes_by_class(rows, method).items():
            plotting.scatter_map(codes, ax=ax, color=_CLASS_COLORS[label], size=1.5, label=_CLASSES[label])
        ax.set_title(method)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    figure.suptitle(f"Test images of CIFAR10 on $S^2$ ({_scale(config)})", fontsize=8)
    return figure


def _accuracy(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.1))
    panels = {
        "$S^2$": select(rows, part="table"),
        f"$S^{{{config.compared_dim - 1}}}$": select(rows, part="comparison"),
    }
    followed = {title: [row for row in selected if row.get("curve")] for title, selected in panels.items()}
    methods = list(dict.fromkeys(row["method"] for selected in followed.values() for row in selected))
    colors = dict(zip(methods, _CLASS_COLORS, strict=False))  # the same in both panels
    for k, (title, selected) in enumerate(followed.items()):
        ax = figure.add_subplot(1, 2, k + 1)
        for method in dict.fromkeys(row["method"] for row in selected):
            curves = 100 * np.array([row["curve"] for row in selected if row["method"] == method])
            epochs = selected[0]["curve_epochs"]
            plotting.evolution(epochs, curves, ax=ax, color=colors[method], label=method, band="range")
        ax.set(xlabel="epoch", title=title)
        ax.set_ylabel("accuracy of nearest neighbors [%]" if k == 0 else "")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=6)
    figure.suptitle(f"Nearest neighbors by the features ({_scale(config)})", fontsize=8)
    return figure


def _complexity(rows: list[Row], config: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 2.8))
    for k, (column, label) in enumerate((("seconds", "time [s]"), ("megabytes", "peak memory [MB]"))):
        ax = figure.add_subplot(1, 2, k + 1)
        selected = [row for row in select(rows, part="complexity") if row.get(column, 0) > 0]
        for term, color in zip(dict.fromkeys(row["term"] for row in selected), plotting.PALETTE, strict=False):
            points = sorted((row["n"], row[column]) for row in selected if row["term"] == term)
            ax.loglog(*zip(*points, strict=True), "o-", color=color, label=term, markersize=3)
        ax.set(xlabel="batch size", ylabel=label)
    figure.axes[0].legend(fontsize=6)
    figure.suptitle(f"Uniformity terms of two views, forward and backward, d = {config.term_dim}", fontsize=8)
    return figure
