"""The configuration of a resumed run: the saved one, with the flags that may change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from minitf.app.command_line import absolute, changed, flags_of
from minitf.config import RunConfig
from minitf.config.options import shown
from minitf.errors import UserError
from minitf.storage.run_directory import CONFIG_NAME, load_config
from minitf.system.files import os_errors_explained


def resumed_config(folder: Path, given: dict[str, Any]) -> RunConfig:
    """Return the configuration of a saved run with the values that may change; `output` is where the run is now."""
    with os_errors_explained(f"look into {folder}"):
        found = (folder / CONFIG_NAME).is_file()
    if not found:
        raise UserError(f"{folder} contains no run to resume: {CONFIG_NAME} is missing; check the path")
    saved: RunConfig = replace(load_config(folder / CONFIG_NAME), output=folder)
    for flag in flags_of(RunConfig):
        before = flag.value_in(saved)
        after = given.get(flag.dest, before)
        moved = flag.field.metadata["may_move"] and None not in (before, after)  # its content is compared later
        if not (absolute(after) == absolute(before) or flag.field.metadata["may_change"] or moved):
            raise UserError(
                f"{flag.name} {shown(after)} differs from the run's {shown(before)}, which cannot change; omit the "
                "flag, or start a new run with another --output"
            )
    return changed(saved, {**_one_place(saved, given), "output": folder})


def _one_place(saved: RunConfig, given: dict[str, Any]) -> dict[str, Any]:
    """Let a --device replace the run's --devices, and the reverse.

    Raises: UserError for --devices none alone, with which a run on GPUs would continue on the CPU
    """
    if "device" in given:
        return {"devices": None, **given}
    if given.get("devices") is not None:
        return {"device": "cpu", **given}
    if "devices" in given and saved.devices is not None and saved.on_gpu:
        raise UserError(
            f"--devices none removes the run's devices {saved.devices}; give --device cuda, or --device cpu"
        )
    return given
