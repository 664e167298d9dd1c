"""The commands of `sphereot`, as typer sees them."""

import typer

import sphereot
from sphereot.cli.reproduce import reproduce

__all__ = ["app"]

app = typer.Typer(
    help="Compare and shape distributions on the sphere with the Spherical Sliced-Wasserstein distance.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("info")
def _info() -> None:
    """Tell what is active here: version, native or portable path, instruction set, threads.

    Example: sphereot info
    """
    typer.echo(str(sphereot.info()))


app.command("reproduce")(reproduce)
