"""The command line."""

import sys
import traceback

from sphereot._support.startup_errors import FAILURE, end_with_message

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command `sphereot`. Every failure is exit code 2; 1 means that `drift` has found drift."""
    try:
        from sphereot.cli.app import app
    except KeyboardInterrupt:  # the commands hear it themselves; this is Ctrl-C before there are any
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
        # typer ends with 1 where it aborts or a pipe is closed; the exit codes of commands are raised as typer.Exit.
        if end.code == 1 and type(end.__context__).__name__ != "Exit":
            sys.exit(FAILURE)
        raise
    except MemoryError as error:
        end_with_message(error)
    except Exception:
        traceback.print_exc()
        sys.exit(FAILURE)


def _run_without_typer() -> None:
    """What works with the core alone: `sphereot info` and `sphereot --version`."""
    import sphereot

    if sys.argv[1:] == ["info"]:
        print(sphereot.info())
    elif sys.argv[1:] == ["--version"]:
        print(f"sphereot {sphereot.info().version}")
    else:
        needs = "typer and rich: pip install 'sphereot[cli]'. (`sphereot info` works without.)"
        print(f"Error: the command line needs {needs}", file=sys.stderr)
        sys.exit(FAILURE)
