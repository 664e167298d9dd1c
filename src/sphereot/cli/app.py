"""The commands of `sphereot`, as typer sees them."""

import typer

import sphereot
from sphereot.cli.bench import bench
from sphereot.cli.density import density
from sphereot.cli.distance import distance, pairwise
from sphereot.cli.drift import drift
from sphereot.cli.reproduce import reproduce
from sphereot.cli.testing import two_samples, uniformity

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


app.command("distance")(distance)
app.command("pairwise")(pairwise)
app.command("reproduce")(reproduce)
app.command("test")(two_samples)
app.command("uniformity")(uniformity)
app.command("drift")(drift)
app.command("bench")(bench)
app.add_typer(density, name="density")
