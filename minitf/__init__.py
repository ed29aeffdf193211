"""The Transformer of "Attention Is All You Need" on top of the autograd engine.

    from minitf import Transformer, TransformerConfig, Translator

Start-up time: the public names are imported when first used, so that `import minitf` and `--help` need no NumPy.
"""

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi")  # the names and their modules, also for type checkers (SPEC 1)
_MODULES = {name: module for module, name in re.findall(r"from (\S+) import (\w+) as", _STUB.read_text("utf-8"))}

__all__ = list(_MODULES)


def _check_autograd() -> None:
    """Check the package `autograd` without importing it: HIPS autograd, on PyPI, has the same import name.

    Raises: ImportError if it is HIPS autograd, or if installing or removing HIPS autograd has changed its files
    """
    spec = find_spec("autograd")
    if spec is None:
        return  # importing it will say so
    folder = next(iter(spec.submodule_search_locations or [spec.origin or ""]))
    found = [os.path.exists(os.path.join(folder, name)) for name in ("__init__.py", "engine.py", "tracer.py")]
    if found != [True, True, False]:  # tracer.py is a file of HIPS autograd
        raise ImportError(
            f"autograd in {folder} is not this project's package, or HIPS autograd, a package of the same name, has "
            "changed its files: use a virtual environment without HIPS autograd, or run `pip uninstall autograd` and "
            "install this project again with `pip install --force-reinstall --no-deps`"
        )


_check_autograd()
if sys.version_info < (3, 11):  # noqa: UP036 (for those who have it)
    import_module("autograd")  # refuses, in one sentence


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("minitf.system.environment").VERSION
    if name not in _MODULES:
        raise AttributeError(f"module 'minitf' has no attribute {name!r}")
    if find_spec("numpy") is None:
        import_module("autograd")  # refuses, in one sentence
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
