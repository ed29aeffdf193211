"""Checks of the settings that say where and how to compute: devices, precision, kernels, the plain implementation."""

import re
from typing import Any

from minitf.config.options import shown
from minitf.errors import UserError

MAX_PROCESSES = 1024


def check_device(device: str) -> None:
    """Check the name of a device.  Raises: UserError for a name that no device can have."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UserError(f"device={shown(device)} is not a device; choose cpu, or cuda:0 for the first GPU")


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


def check_precision(precision: str | None, on_gpu: bool, kernels: str) -> None:
    """Check that the device supports a precision, a CPU with `kernels`.

    Raises: UserError for a precision of the other device.
    """
    if precision in ("tf32", "bf16") and not on_gpu and (precision, kernels) != ("bf16", "numba"):
        others = ", --kernels numba" if precision == "bf16" else ""
        raise UserError(f"precision={precision} requires a GPU; choose --device cuda{others}, or --precision float32")
    if precision == "int8" and on_gpu:
        raise UserError("precision=int8 requires --device cpu; on a GPU, choose --precision bf16")


FAST_ONLY = {"threads": None, "kernels": "numpy", "checkpoint_activations": False, "alignment": False}
"""Settings that the fast implementation alone has, with the values that leave them unused."""


def check_plain(config: Any) -> None:
    """Check that a plain run uses nothing that the fast implementation alone has.

    Raises: UserError for the first setting that does
    """
    if not config.plain:
        return
    given = [name for name, unused in FAST_ONLY.items() if getattr(config, name, unused) != unused]
    given += ["precision"] if config.precision in ("tf32", "bf16", "int8") else []
    if given:
        raise UserError(
            f"plain and {given[0]}={shown(getattr(config, given[0]))} cannot be combined: plain uses no fast "
            "implementation; omit one of them"
        )
