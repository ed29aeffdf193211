"""Numbers and tables as a person reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence


def readable_bytes(count: float) -> str:
    """1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def readable_place(where: tuple[str, int]) -> str:
    """("/…/minitf/model/layers.py", 117) -> "layers.py:117"."""
    return f"{os.path.basename(where[0])}:{where[1]}"


def readable_array(shape: Sequence[int], dtype: object) -> str:
    """The shape and dtype: "[2, 7, 64] float32"."""
    return f"[{', '.join(map(str, shape))}] {dtype}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *others]).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])
