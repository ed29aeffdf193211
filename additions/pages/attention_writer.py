"""`minitf translate --attention FILE`: attention weights of the first sentences of a text, as a page or figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from additions.pages.attention_figure import SUFFIXES, attention_figure, require_matplotlib, save_figure
from additions.pages.attention_page import attention_page, check_choice
from additions.pages.page import write_page
from minitf.config import TranslateConfig
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.translation.translator import Translator

PAGE_SUFFIXES = (".html", ".htm")
LINES = 20
LARGE = 60_000_000  # characters of a page from which there is a warning


class AttentionWriter:
    """Records the first non-blank lines while they are translated, then writes a page or figure of their attention."""

    def __init__(
        self,
        config: TranslateConfig,
        path: Path,
        translator: Translator,
        search: dict[str, Any],
        warn: Callable[[str], object],
    ):
        """
        search: arguments of the search that translates the lines

        Raises: UserError for an unknown suffix, a layer or head that the model does not have, or missing matplotlib.
        """
        self.config, self.path, self.translator, self.search, self.warn = config, path, translator, search, warn
        self.is_figure = path.suffix.lower() in SUFFIXES
        self.wanted = 1 if self.is_figure else config.attention_lines or LINES
        self.kind = config.attention_kind or "cross"
        self.lines: list[tuple[int, str]] = []  # numbered from 1
        self.line_count = 0  # of all non-blank lines
        if self.is_figure:
            require_matplotlib()
        elif path.suffix.lower() not in PAGE_SUFFIXES:
            known = ", ".join((PAGE_SUFFIXES[0], *SUFFIXES))
            raise UserError(f"attention={path} has an unknown suffix; choose one of {known}")
        model = cast(Transformer, translator.model).config
        layers = model.encoder_depth if self.kind == "encoder" else model.decoder_depth
        check_choice(layers, model.heads, config.attention_layer, config.attention_head)

    def listen(self, lines: Iterable[str]) -> Iterator[str]:
        """Pass on `lines` and record those that are wanted."""
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self.line_count += 1
                if len(self.lines) < self.wanted:
                    self.lines.append((number, line))
            yield line

    def write(self) -> str:
        """Write the file; return a message about it."""
        found = [(n, each) for n, line in self.lines for each in self.translator.attentions(line, **self.search)]
        if not found:
            raise UserError(f"there is no attention to write to {self.path}: every line is blank")
        numbers, sentences = zip(*found, strict=True)
        config = self.config
        shown: Any = {"kind": self.kind, "layer": config.attention_layer, "head": config.attention_head}
        if self.is_figure:
            save_figure(attention_figure(sentences[0], **shown), self.path, self.warn)
        else:
            text = attention_page(sentences, str(config.run), numbers=numbers, **shown)
            if len(text) > LARGE:
                self.warn(
                    f"{self.path} has {len(text) / 1e6:,.0f} MB, which is slow in a browser; "
                    "choose fewer --attention-lines"
                )
            write_page(self.path, text, chosen=True)
        of_all = f" of {self.line_count:,}" if self.line_count > len(self.lines) else ""
        return f"attention of {len(self.lines)}{of_all} {'line' if self.line_count == 1 else 'lines'}: {self.path}"
