"""The command line."""

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command `sphereot`."""
    try:
        from sphereot.cli.app import app
    except KeyboardInterrupt:  # the commands hear it themselves; this is Ctrl-C before there are any
        sys.exit(_INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        if sys.argv[1:] == ["info"]:  # works with the core alone
            import sphereot

            print(sphereot.info())
            return
        sys.exit("The command line needs typer and rich: pip install 'sphereot[cli]'. (`sphereot info` works without.)")
    app()
