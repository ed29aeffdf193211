"""Numbers as an HTML table, for the `_repr_html_` of notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

__all__ = ["table"]

MOST = 12  # rows and columns that are shown; beyond, the middle is left out


def table(a: Any, caption: str, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> str:
    """A NumPy array [N, M] as a table with a caption: the larger a number beside the others, the darker its cell.

    rows, columns: N and M labels; default: none
    """
    down, across = (_shown(size) for size in a.shape)
    largest = max((abs(float(a[i, j])) for i in down for j in across if None not in (i, j)), default=0.0)

    def cell(i: int | None, j: int | None) -> str:
        if i is None or j is None:
            return "<td>…</td>"
        share = abs(float(a[i, j])) / largest if 0 < largest < float("inf") else 0.0
        colour = "224,120,58" if float(a[i, j]) < 0 else "74,143,208"  # below zero, above
        shade = f"rgba({colour},{share:.2f})" if share == share else "none"
        return f'<td style="background:{shade};text-align:right">{float(a[i, j]):.4g}</td>'

    def label(labels: Sequence[str], k: int | None) -> str:
        return f"<th>{'…' if k is None else escape(labels[k])}</th>" if labels else ""

    head = "".join(label(columns, j) for j in across)
    lines = [f"<tr>{'<th></th>' if rows else ''}{head}</tr>"] if columns else []
    lines += [f"<tr>{label(rows, i)}{''.join(cell(i, j) for j in across)}</tr>" for i in down]
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def _shown(size: int) -> list[int | None]:
    """Return the indices that are shown; None stands for those that are left out."""
    if size <= MOST:
        return [*range(size)]
    return [*range(MOST // 2), None, *range(size - MOST // 2, size)]
