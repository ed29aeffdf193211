"""Names of devices and precisions, checked before anything that computes is imported."""

import re

from minitf.config.options import shown
from minitf.errors import UserError


def check_device(device: str) -> None:
    """Raises: UserError for a name that no device can have."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UserError(f"device={shown(device)} is not a device; choose cpu, or cuda:0 for the first GPU")


def check_precision(precision: str | None, on_gpu: bool) -> None:
    """Raises: UserError for a precision that needs a GPU where none computes."""
    if precision in ("tf32", "bf16") and not on_gpu:
        raise UserError(f"precision={precision} is for GPUs; choose --device cuda, or --precision float32")
