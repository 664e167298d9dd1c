"""The typer application: registers all commands of `sphereot`."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

import sphereot
from sphereot.cli.density import density
from sphereot.cli.distance import distance, pairwise
from sphereot.cli.drift import drift
from sphereot.cli.monitor import monitor
from sphereot.cli.sketch import sketch
from sphereot.cli.testing import two_samples, uniformity

app = typer.Typer(
    help="Compare and shape distributions on the sphere with the Spherical Sliced-Wasserstein distance.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sphereot {sphereot.info().version}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _info() -> None:
    """Show version, backend (compiled kernel or array-API code), instruction set and number of threads.

    Example: sphereot info
    """
    typer.echo(str(sphereot.info()))


def _help_text(command: Callable[..., Any]) -> str:
    """Docstring with each paragraph on one line: typer would keep the line breaks of the source."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


_PANELS: dict[str, dict[str, Callable[..., Any]]] = {
    "Compare files of points": {
        "distance": distance,
        "pairwise": pairwise,
        "test": two_samples,
        "uniformity": uniformity,
        "drift": drift,
        "sketch": sketch,
        "monitor": monitor,
    },
    "This machine": {"info": _info},
}

for _panel, _commands in _PANELS.items():
    for _name, _function in _commands.items():
        app.command(_name, help=_help_text(_function), rich_help_panel=_panel)(_function)
for _command in density.registered_commands:
    if _command.callback is not None:
        _command.help = _help_text(_command.callback)
app.add_typer(density, name="density", rich_help_panel="Densities")
