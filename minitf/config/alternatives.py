"""Checks of options that replace the default way to compute: several devices, and the plain implementation."""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from minitf.config.options import shown
from minitf.errors import UserError

MAX_PROCESSES = 1024


def check_plain(config: Any, names: Sequence[str]) -> None:
    """Check that nothing is set that the fast implementation alone has: options in `names`, and precisions.

    Raises: UserError for the first one that is
    """
    given = [each.name for each in fields(config) if each.name in names and getattr(config, each.name) != each.default]
    given += ["precision"] if config.precision in ("tf32", "bf16", "int8") else []
    if given:
        raise UserError(
            f"plain and {given[0]}={shown(getattr(config, given[0]))} cannot be combined: plain uses no fast "
            "implementation; omit one of them"
        )


def parse_devices(devices: str) -> tuple[str, int]:
    """Parse `--devices`: `8` or `cuda:8` -> ("cuda", 8), `cpu:4` -> ("cpu", 4).

    Raises: UserError for any other text
    """
    match = re.fullmatch(r"(?:(cpu|cuda):)?([0-9]{1,4})", devices)
    if not match or not 1 <= int(match[2]) <= MAX_PROCESSES:
        raise UserError(
            f"devices={shown(devices)} is not a number of devices; choose 8 for eight GPUs on this host, or cpu:4 for "
            f"four processes on its CPU, at most {MAX_PROCESSES:,}"
        )
    return match[1] or "cuda", int(match[2])
