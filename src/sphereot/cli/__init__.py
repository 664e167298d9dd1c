"""The command line `sphereot`."""

import sys
import traceback

from sphereot._support.startup_errors import FAILURE, end_with_message

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command `sphereot`. The exit code is 2 after every failure; 1 means that `sphereot drift` found drift."""
    try:
        from sphereot.cli.app import app
    except KeyboardInterrupt:  # commands handle it themselves; this is Ctrl-C during the import
        sys.exit(_INTERRUPTED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            end_with_message(error)
        _run_without_typer()
        return
    except Exception as error:
        end_with_message(error)
    try:
        app()
    except SystemExit as end:
        # typer exits with 1 after an abort or a closed pipe; commands raise their exit codes as typer.Exit.
        if end.code == 1 and type(end.__context__).__name__ != "Exit":
            sys.exit(FAILURE)
        raise
    except MemoryError as error:
        end_with_message(error)
    except Exception:
        traceback.print_exc()
        sys.exit(FAILURE)


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
        sys.exit(FAILURE)
