"""Check before the package is imported: a recent Python, and NumPy.

This file also runs on older Pythons.
"""

import importlib.util
import os
import sys
from types import TracebackType

OLDEST = (3, 11)


def require_python_and_numpy() -> None:
    """Raises: ImportError that says in one sentence what is missing or too old, and what to do

    Where nothing handles it, it ends the program as this sentence and exit status 2, without a traceback: the fault is
    in no line of the program.
    """
    if sys.version_info < OLDEST:
        found, needed = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
        unmet = f"Python {found} at {sys.executable} is too old; use Python {needed} to 3.14, such as python{needed}"
    elif importlib.util.find_spec("numpy") is None:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment = os.path.join(folder, ".venv")
        advice = f"run `make demo`, or `pip install .` in a virtual environment, in {folder}"
        if os.path.exists(os.path.join(environment, "bin", "python")) and sys.prefix != environment:
            advice = f"activate the environment that has it: . {environment}/bin/activate"
        unmet = f"NumPy is not installed for {sys.executable}; {advice}"
    else:
        return
    refusal, before = ImportError(unmet), sys.excepthook

    def hook(kind: "type[BaseException]", error: BaseException, traceback: "TracebackType | None") -> None:
        if error is refusal:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        before(kind, error, traceback)

    sys.excepthook = hook
    raise refusal


require_python_and_numpy()
