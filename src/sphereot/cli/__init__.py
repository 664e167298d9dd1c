"""The command line `sphereot`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command `sphereot`: exit code 0 after success, 2 after an error, 3 if drift was found."""
    try:
        import rich  # noqa: F401  (commands import it late)

        from sphereot.cli.app import app
    except KeyboardInterrupt:  # commands handle it themselves; this is Ctrl-C during the import
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        _run_without_typer()
    else:
        app()


def _run_without_typer() -> None:
    """Run what works without typer and rich: `sphereot info` and `sphereot --version`."""
    import sphereot

    if sys.argv[1:] == ["info"]:
        print(sphereot.info())
    elif sys.argv[1:] == ["--version"]:
        print(f"sphereot {sphereot.info().version}")
    else:
        needs = "typer and rich: pip install 'sphereot[cli]'. (`sphereot info` works without.)"
        print(f"Error: the command line needs {needs}", file=sys.stderr)
        sys.exit(2)
