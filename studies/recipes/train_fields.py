"""train.py with fields of the configuration that have no flag, in the form `@model.mixing=restricted`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import compared_layers  # noqa: F401 (enters layers that fields ask for)

from minitf.app.train import main as train
from minitf.system.process import run_command


def main(argv: Sequence[str]) -> int:
    """Train as `train.py` does, and return the exit status."""
    fields = dict(word[1:].split("=", 1) for word in argv if word.startswith("@"))
    flags = [word for word in argv if not word.startswith("@")]
    return run_command(partial(train, fields={name: _value(text) for name, text in fields.items()}), flags)


def _value(text: str) -> object:
    """Read a number, true, false or null as JSON does, and everything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
