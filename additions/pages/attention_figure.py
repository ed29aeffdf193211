"""Attention weights as a figure for a paper or a slide, by matplotlib: PNG, SVG or PDF.

save_figure(attention_figure(attention(translator, "the cat sat"), layer=2, head=1), "head.png")
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from additions.pages.attention_page import Kind, check_choice
from additions.pages.sentence_attention import SentenceAttention
from minitf.errors import UserError
from minitf.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
MOST_NAMED = 60  # tokens along an axis; names of more would be too small to read
FAINT = 0.01  # lines of less weight are not drawn
INVISIBLE = {"Cc", "Cf", "Zl", "Zp"}  # control, format and separator characters
BLUE = "#1f5fae"
DOTS_PER_INCH = 150
GAMMA = 0.55  # exponent of the colour scale, so that small weights can be seen
Labels = tuple[str, ...]


def require_matplotlib() -> None:
    """Raises: UserError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise UserError(
            "figures of attention need matplotlib; pip install '.[plot]' in the project's directory, or write an "
            ".html page"
        )


def attention_figure(
    sentence: SentenceAttention, *, kind: Kind = "cross", layer: int | None = None, head: int | None = None
) -> Figure:
    """The weights of one head, as lines (as in the paper's Figures 3 to 5) and as a matrix, or a matrix per head.

    layer, head: counted from 1; default: all
    Raises: UserError if the model has no such layer or head, or matplotlib is not installed
    """
    require_matplotlib()
    check_choice(sentence.layers_of(kind), sentence.heads, layer, head)
    weights = getattr(sentence, kind)  # [L, H, T, S]
    queries, keys = labels(sentence, kind)
    layers = range(sentence.layers_of(kind)) if layer is None else [layer - 1]
    heads = range(sentence.heads) if head is None else [head - 1]
    if len(layers) == len(heads) == 1:
        title = f"{kind}, layer {layers[0] + 1}, head {heads[0] + 1}"
        return _one_head(weights[layers[0], heads[0]], queries, keys, title)
    return _many_heads(weights, queries, keys, list(layers), list(heads), kind)


def labels(sentence: SentenceAttention, kind: Kind) -> tuple[Labels, Labels]:
    """Return the queries and keys of the weights: tokens that attend, in rows, and tokens attended to, in columns."""
    return {
        "encoder": (sentence.source, sentence.source),
        "decoder": (sentence.target_out, sentence.target_in),
        "cross": (sentence.target_out, sentence.source),
    }[kind]


def save_figure(figure: Figure, path: Path, warn: Callable[[str], object]) -> None:
    """Write the file atomically in the format of its suffix; call `warn` for characters that the font lacks."""
    with warnings.catch_warnings(record=True) as caught, atomic_write(path) as file:
        warnings.simplefilter("always")
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=DOTS_PER_INCH, bbox_inches="tight")
    missing = {found[1] for each in caught if (found := re.match(r"Glyph (\d+) ", str(each.message)))}
    if missing:
        warn(
            f"{path} shows boxes for {len(missing)} characters that its font lacks; an .html page shows the characters"
        )
    for each in caught:
        if not str(each.message).startswith("Glyph "):
            warn(str(each.message))


# ---- Drawing -----------------------------------------------------------------------------------------------------


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure  # an optional dependency

    return Figure(figsize=(width, height), layout="constrained")


def _one_head(weights: np.ndarray, queries: Labels, keys: Labels, title: str) -> Figure:
    longest = max(len(queries), len(keys))
    height = max(2.5, 0.24 * min(longest, MOST_NAMED) + 1)
    figure = _new_figure(4.2 + 0.9 * height, height)
    lines, cells = figure.subplots(1, 2, width_ratios=(4.2, max(2.5, 0.9 * height)))
    _draw_lines(lines, weights, queries, keys)
    image = _draw_cells(cells, weights, queries, keys)
    _draw_scale(figure, image, cells)
    figure.suptitle(title)
    return figure


def _many_heads(
    weights: np.ndarray, queries: Labels, keys: Labels, layers: list[int], heads: list[int], kind: str
) -> Figure:
    side = float(np.clip(0.09 * max(len(queries), len(keys)), 1.5, 4.0))
    figure = _new_figure(side * len(heads) + 1.5, side * len(layers) + 1.5)
    grid = figure.subplots(len(layers), len(heads), squeeze=False)
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            axes = grid[row, column]
            outer_rows = queries if column == 0 else None
            image = _draw_cells(axes, weights[layer, head], outer_rows, keys if row == len(layers) - 1 else None)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
    _draw_scale(figure, image, grid)
    figure.suptitle(f"{kind} attention")
    return figure


def _draw_cells(axes: Axes, weights: np.ndarray, queries: Labels | None, keys: Labels | None) -> Any:
    """Draw the weights as a matrix of colours, with the same scale in all figures."""
    from matplotlib.colors import PowerNorm  # an optional dependency

    image = axes.imshow(weights, cmap="Blues", norm=PowerNorm(GAMMA, 0, 1), interpolation="nearest", aspect="auto")
    for axis, names, count in ((axes.yaxis, queries, weights.shape[0]), (axes.xaxis, keys, weights.shape[1])):
        axis.set_tick_params(length=0)
        if names is None or count > MOST_NAMED:
            axis.set_ticks([])
            continue
        turn = 90 if axis is axes.xaxis else 0
        axis.set_ticks(range(count), [shown(name) for name in names], fontsize=7, parse_math=False, rotation=turn)
    return image


def _draw_scale(figure: Figure, image: Any, beside: Any) -> None:
    bar = figure.colorbar(image, ax=beside, shrink=0.6, ticks=[0, 0.05, 0.2, 0.5, 1])
    bar.ax.set_yticklabels(["0", "5 %", "20 %", "50 %", "100 %"], fontsize=7)


def _draw_lines(axes: Axes, weights: np.ndarray, queries: Labels, keys: Labels) -> None:
    """Draw the tokens in two columns, and for each weight a line that is as wide and opaque as the weight."""
    from matplotlib.collections import LineCollection  # an optional dependency

    rows, columns = np.nonzero(weights >= FAINT)
    strength = weights[rows, columns]
    ends = np.stack([np.stack([np.zeros(len(rows)), rows], 1), np.stack([np.ones(len(rows)), columns], 1)], 1)
    axes.add_collection(
        LineCollection(list(ends), colors=[BLUE] * len(rows), alpha=strength, linewidths=0.4 + 2.2 * strength)
    )
    size = 8 if max(len(queries), len(keys)) <= MOST_NAMED else 4
    for x, names, side in ((-0.04, queries, "right"), (1.04, keys, "left")):
        for y, name in enumerate(names):
            axes.text(x, y, shown(name), ha=side, va="center", fontsize=size, parse_math=False)
    axes.set(xlim=(-0.75, 1.75), ylim=(max(len(queries), len(keys)) - 0.5, -0.5))
    axes.axis("off")


def shown(piece: str) -> str:
    """Return a piece in which invisible characters are replaced by their numbers."""
    return "".join(f"⟨U+{ord(c):04X}⟩" if unicodedata.category(c) in INVISIBLE else c for c in piece)
