"""`translate.py --attention FILE`: what the model looked at in the first sentences of a text, as a page or picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from minitf.errors import UserError
from minitf.report.attention_figure import SUFFIXES, attention_figure, require_matplotlib, save_figure
from minitf.report.attention_page import attention_page, check_choice
from minitf.report.page import write_page

if TYPE_CHECKING:
    from minitf.config import TranslateConfig
    from minitf.model.transformer import Transformer
    from minitf.translation.attention_weights import SentenceAttention
    from minitf.translation.translator import Translator

PAGE_SUFFIXES = (".html", ".htm")
LARGE = 60_000_000  # characters of a page


def attention_writer(
    config: TranslateConfig, translator: Translator, search: dict[str, Any], warn: Callable[[str], object]
) -> AttentionWriter | None:
    """What writes the file that `config` asks for; None where it asks for none.

    search: how the lines are translated
    Raises: UserError at once for what cannot be: a file of another kind, a layer or head that the model lacks.
    """
    if config.attention is not None:
        return AttentionWriter(config, config.attention, translator, search, warn)
    if config.attention_layer is not None or config.attention_head is not None:
        given = "layer" if config.attention_layer is not None else "head"
        raise UserError(f"attention_{given} is given without attention; give the file to write, too: --attention FILE")
    return None


class AttentionWriter:
    """Keeps the first lines that are not blank while they are translated, then writes the file."""

    def __init__(
        self,
        config: TranslateConfig,
        path: Path,
        translator: Translator,
        search: dict[str, Any],
        warn: Callable[[str], object],
    ):
        self.config, self.path, self.translator, self.search, self.warn = config, path, translator, search, warn
        self.lines: list[tuple[int, str]] = []  # numbered from 1
        self.left_out = 0
        if self._is_picture:
            require_matplotlib()
        elif self.path.suffix.lower() not in PAGE_SUFFIXES:
            known = ", ".join((PAGE_SUFFIXES[0], *SUFFIXES))
            raise UserError(f"attention={self.path} is no kind of file that can be drawn; choose one of {known}")
        model = cast("Transformer", translator.model).config
        check_choice(model.layers, model.heads, config.attention_layer, config.attention_head)

    @property
    def _is_picture(self) -> bool:
        return self.path.suffix.lower() in SUFFIXES

    def listen(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines as they come, those to be drawn kept."""
        wanted = 1 if self._is_picture else self.config.attention_lines
        for number, line in enumerate(lines, start=1):
            if line.strip():
                if len(self.lines) < wanted:
                    self.lines.append((number, line))
                else:
                    self.left_out += 1
            yield line

    def write(self) -> str:
        """Write the file, and give a sentence about it."""
        config = self.config
        found = [(number, each) for number, line in self.lines for each in self._attentions(line)]
        if not found:
            raise UserError(f"there is no attention to write to {self.path}: every line is blank")
        numbers, sentences = zip(*found, strict=True)
        kind, layer, head = config.attention_kind, config.attention_layer, config.attention_head
        if self._is_picture:
            save_figure(attention_figure(sentences[0], kind=kind, layer=layer, head=head), self.path, self.warn)
        else:
            name = str(config.run)
            text = attention_page(sentences, name, kind=kind, layer=layer, head=head, numbers=numbers)
            if len(text) > LARGE:
                self.warn(
                    f"{self.path} has {len(text) / 1e6:,.0f} MB, which browsers are slow with; "
                    "choose fewer --attention-lines"
                )
            write_page(self.path, text)
        count = len(self.lines)
        all_lines = count + self.left_out
        of_all = f" of {all_lines:,}" if self.left_out else ""
        return f"attention of {count}{of_all} {'line' if all_lines == 1 else 'lines'}: {self.path}"

    def _attentions(self, line: str) -> list[SentenceAttention]:
        return self.translator.attentions(line, **self.search)
