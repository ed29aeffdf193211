"""Numbers and tables as text."""

from __future__ import annotations

import os
from collections.abc import Sequence


def readable_bytes(count: float) -> str:
    """1536 -> "1.5 KiB"."""
    units = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
    size, unit = next((unit for unit in units if abs(count) >= unit[0]), (1, "B"))
    return f"{count:.0f} B" if size == 1 else f"{count / size:.1f} {unit}"


def readable_place(where: tuple[str, int]) -> str:
    """("/…/minitf/model/layers.py", 117) -> "layers.py:117"."""
    return f"{os.path.basename(where[0])}:{where[1]}"


def readable_array(shape: Sequence[int], dtype: object) -> str:
    """((2, 7, 64), "float32") -> "[2, 7, 64] float32"."""
    return f"[{', '.join(map(str, shape))}] {dtype}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text: the first column is aligned to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *others]).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])
