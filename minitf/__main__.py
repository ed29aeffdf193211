"""`minitf COMMAND …`, `python -m minitf COMMAND …`."""

import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status; default: the words of the command line."""
    without_traceback()
    from minitf.app.commands import main as run  # deferred: until here, Ctrl-C during an import prints a traceback
    from minitf.system.process import run_command

    return run_command(run, argv)


def without_traceback() -> None:
    """Let SIGINT end the process at once, as SIGTERM does, until `run_command` handles both."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if our parent made us ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
