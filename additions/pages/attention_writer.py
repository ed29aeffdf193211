"""`minitf attention`: attention weights of the first sentences of a text, as a page or figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from additions.pages.attention_figure import SUFFIXES, attention_figure, require_matplotlib, save_figure
from additions.pages.attention_page import Kind, attention_page, check_choice
from additions.pages.page import write_page
from additions.pages.sentence_attention import attentions
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.translation.translator import Translator

PAGE_SUFFIXES = (".html", ".htm")
LINES = 20
LARGE = 60_000_000  # characters of a page from which there is a warning


def write_attention(
    path: Path,
    translator: Translator,
    lines: Iterable[str],
    title: str,
    warn: Callable[[str], object],
    *,
    most: int = LINES,
    kind: Kind = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> str:
    """Translate the first non-blank lines, and write their attention as a page or figure; return a message about it.

    most: lines on a page; a figure has one
    kind, layer, head: shown first, or drawn

    Raises: UserError for an unknown suffix, a layer or head that the model does not have, or missing matplotlib; and
        for a text whose lines are all blank.
    """
    is_figure = path.suffix.lower() in SUFFIXES
    if is_figure:
        require_matplotlib()
    elif path.suffix.lower() not in PAGE_SUFFIXES:
        known = ", ".join((PAGE_SUFFIXES[0], *SUFFIXES))
        raise UserError(f"output={path} has an unknown suffix; choose one of {known}")
    model = cast(Transformer, translator.model).config
    check_choice(model.encoder_depth if kind == "encoder" else model.decoder_depth, model.heads, layer, head)
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    chosen = numbered[: 1 if is_figure else most]
    found = [(number, each) for number, line in chosen for each in attentions(translator, line)]
    if not found:
        raise UserError(f"there is no attention to write to {path}: every line is blank")
    numbers, sentences = zip(*found, strict=True)
    if is_figure:
        save_figure(attention_figure(sentences[0], kind=kind, layer=layer, head=head), path, warn)
    else:
        text = attention_page(sentences, title, numbers=numbers, kind=kind, layer=layer, head=head)
        if len(text) > LARGE:
            warn(f"{path} has {len(text) / 1e6:,.0f} MB, which is slow in a browser; choose fewer --lines")
        write_page(path, text, chosen=True)
    of_all = f" of {len(numbered):,}" if len(numbered) > len(chosen) else ""
    return f"attention of {len(chosen)}{of_all} {'line' if len(numbered) == 1 else 'lines'}: {path}"
