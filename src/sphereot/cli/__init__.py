"""The command line `sphereot`."""

import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from typer import Typer

__all__ = ["build_app", "main"]


def main() -> None:
    """Run the command `sphereot`: exit code 0 after success, 2 after an error, 3 for drift or an exceeded limit."""
    try:
        import rich  # noqa: F401  (commands import it late)

        app = build_app()
    except KeyboardInterrupt:  # commands handle it themselves; this is Ctrl-C during the import
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        import sphereot

        if sys.argv[1:] == ["info"]:
            print(sphereot.info())
        elif sys.argv[1:] == ["--version"]:
            print(f"sphereot {sphereot.info().version}")
        else:
            needs = "typer and rich: pip install 'sphereot[cli]'. (`sphereot info` works without.)"
            print(f"Error: the command line needs {needs}", file=sys.stderr)
            sys.exit(2)
    else:
        app()


@cache
def build_app() -> "Typer":
    """Build the typer application with all commands; typer, an optional package, is imported here."""
    import typer

    import sphereot
    from sphereot.cli.density import evaluate, fit, plot, sample
    from sphereot.cli.distance import distance, pairwise
    from sphereot.cli.drift import drift
    from sphereot.cli.monitor import monitor
    from sphereot.cli.paired import paired
    from sphereot.cli.sketch import sketch
    from sphereot.cli.testing import two_samples, uniformity

    app = typer.Typer(
        help="Compare distributions on the sphere: distances, tests, drift monitoring and densities.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"sphereot {sphereot.info().version}")
            raise typer.Exit()

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version and exit.", callback=show_version, is_eager=True)
        ] = False,
    ) -> None:
        pass

    def info() -> None:
        """Show the version, the backend and the number of threads.

        Show them on this machine:
            sphereot info
        """
        typer.echo(str(sphereot.info()))

    def add(group: typer.Typer, panel: str | None, **commands: Callable[..., None]) -> None:
        for name, command in commands.items():
            paragraphs = (inspect.getdoc(command) or "").split("\n\n")
            examples = [text for text in paragraphs if "\n    " in text]
            # Other paragraphs become one line each: typer would keep the line breaks of the source.
            prose = [" ".join(text.split()) for text in paragraphs if text not in examples]
            text = "\n\n".join([*prose, "[bold]Examples:[/bold]", *examples])
            group.command(name, help=text, rich_help_panel=panel)(command)

    add(app, "Distances", distance=distance, pairwise=pairwise)
    add(app, "Tests", test=two_samples, paired=paired, uniformity=uniformity)
    add(app, "Drift and large data", drift=drift, monitor=monitor, sketch=sketch)
    density = typer.Typer(help="Fit, evaluate, sample and plot a density.", no_args_is_help=True)
    add(density, None, fit=fit, evaluate=evaluate, sample=sample, plot=plot)
    app.add_typer(density, name="density", rich_help_panel="Densities")
    add(app, "Installation", info=info)
    return app
