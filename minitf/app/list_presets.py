"""`minitf presets`: the presets with their sizes, costs and published figures."""

from __future__ import annotations

from collections.abc import Sequence

from minitf.app.command_line import ArgumentParser
from minitf.config.presets import NAMED, Preset

HEADER = ("preset", "parameters", "published", "operations", "PPL", "BLEU", "what it is")
NOTES = """\
parameters   exact count, with the preset's vocabulary size; published: as printed, in millions
operations   whole training: 3 x those of the forward pass's matrix products, for updates of maximum size
PPL, BLEU    as published: Table 3 on newstest2013, Table 2 on newstest2014, recipes on their own test texts"""


def presets(argv: Sequence[str]) -> None:
    """Print the list of presets."""
    ArgumentParser(prog="minitf presets", description="List the presets with their sizes and costs.").parse_args(argv)
    print(list_presets())


def list_presets() -> str:
    """Format the table of presets, one per line, in groups, followed by notes."""
    chosen = list(NAMED.values())
    rows = [_row(preset) for preset in chosen]
    widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER) - 1)]
    lines, group = [_line(HEADER, widths)], ""
    for preset, row in zip(chosen, rows, strict=True):
        if preset.group != group:
            group = preset.group
            lines += ["", f"[{group}]"]
        lines.append(_line(row, widths))
    return "\n".join([*lines, "", NOTES])


def _row(preset: Preset) -> tuple[str, ...]:
    from minitf.model.counting import parameter_count, training_flops, with_vocabulary  # deferred: needs NumPy

    figures = (("parameters", "{:g} M"), ("perplexity", "{:.2f}"), ("bleu", "{:.4g}"))
    parameters, perplexity, bleu = (
        form.format(preset.published[name]) if name in preset.published else "" for name, form in figures
    )
    count, operations = parameter_count(with_vocabulary(preset.config)), training_flops(preset.config)
    return preset.name, f"{count:,}", parameters, f"{operations:.1e}", perplexity, bleu, preset.about


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Align names to the left, numbers to the right."""
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:], strict=True)]
    return "  ".join([cells[0].ljust(widths[0]), *numbers, cells[-1]]).rstrip()
