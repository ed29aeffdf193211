"""Checks before the package is imported: a recent Python, and NumPy.

This file also runs on older Pythons.
"""

import importlib.util
import os
import sys
from types import TracebackType

OLDEST = (3, 11)


class RequirementError(ImportError):
    """Raised when Python or NumPy is missing or too old.

    Where nothing handles it, it ends the program as one sentence and exit status 2, without a traceback: the fault is
    in no line of the program.
    """


def unmet_requirement() -> "str | None":
    """State in one sentence what is missing and what to do; None if nothing is."""
    if sys.version_info < OLDEST:
        found, needed = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
        return f"Python {found} at {sys.executable} is too old; use Python {needed} to 3.14, such as python{needed}"
    if importlib.util.find_spec("numpy") is None:
        return f"NumPy is not installed for {sys.executable}; {advice()}"
    return None


def advice() -> str:
    """Say how to install the packages that this project needs, in the environment made by make or in your own."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = os.path.join(folder, ".venv")
    if os.path.exists(os.path.join(environment, "bin", "python")) and sys.prefix != environment:
        return f"activate the environment that has it: . {environment}/bin/activate"
    return f"run `make demo`, or `pip install .` in a virtual environment, in {folder}"


def refuse() -> None:
    """Raises: RequirementError that states the unmet requirement"""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: "TracebackType | None") -> None:
        if not issubclass(kind, RequirementError):
            before(kind, error, traceback)
            return
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

    sys.excepthook = hook
    raise RequirementError(unmet_requirement())
