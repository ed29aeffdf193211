"""`minitf presets`."""

from __future__ import annotations

from collections.abc import Sequence

from minitf.app.command_line import ArgumentParser
from minitf.system.process import uninterrupted


def presets(argv: Sequence[str]) -> None:
    """Print the list of presets."""
    ArgumentParser(prog="minitf presets", description="List the presets with their sizes and costs.").parse_args(argv)
    with uninterrupted():  # deferred: `--help` and invalid flags need no NumPy
        from minitf.app.preset_table import list_presets
    print(list_presets())
