"""`minitf COMMAND …`, `python -m minitf COMMAND …`."""

import sys
from collections.abc import Sequence

from minitf.system.signals import without_traceback


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status; default: the words of the command line."""
    without_traceback()
    from minitf.app.cli import run_command  # deferred: until here, Ctrl-C during an import would print a traceback
    from minitf.app.commands import main as run

    return run_command(run, argv)


if __name__ == "__main__":
    sys.exit(main())
