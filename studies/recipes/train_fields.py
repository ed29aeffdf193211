"""train.py with layers that the paper compares with its own: `@mixing=restricted` (compared_layers.py)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import compared_layers

from minitf.app.train import main as train
from minitf.system.process import run_command


def main(argv: Sequence[str]) -> int:
    """Train as `train.py` does, and return the exit status."""
    chosen = dict(word[1:].split("=", 1) for word in argv if word.startswith("@"))
    compared_layers.choose(**{name: int(text) if text.isdigit() else text for name, text in chosen.items()})
    return run_command(train, [word for word in argv if not word.startswith("@")])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
