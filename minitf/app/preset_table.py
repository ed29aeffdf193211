"""The table of presets with their sizes and costs, and the published figures."""

from __future__ import annotations

from collections.abc import Iterable

from minitf.config.presets import NAMED, Preset
from minitf.config.tasks import presets_of_tasks
from minitf.model.counting import paper_flops, parameter_count, training_flops, with_vocabulary

HEADER = ("preset", "parameters", "published", "operations", "paper's way", "PPL", "BLEU", "what it is")

NOTES = """\
parameters   exact count, with the preset's vocabulary size; published: as printed, in millions
operations   whole training: 3 x those of the forward pass's matrix products, for updates of maximum size
paper's way  hours x 8 GPUs x 9.5 TFLOPS (section 6.1); ~ if the paper gives no time: base's time, scaled by operations
PPL, BLEU    as published: Table 3 on newstest2013, Table 2 on newstest2014, recipes on their own test texts

No single vocabulary size reproduces the published parameter counts. With 37,000 subwords, base has 63.1 million, not
65 million; ten rows of Table 3 fit about 41,000 subwords, big only 35,800. The differences between rows of the same
width agree:
"""


def list_presets(presets: Iterable[Preset] | None = None) -> str:
    """Format the table of presets, one per line, in groups, followed by notes and the differences from the paper."""
    chosen = list((NAMED | presets_of_tasks()).values() if presets is None else presets)
    rows = [_row(preset) for preset in chosen]
    widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER) - 1)]
    lines = [_line(HEADER, widths)]
    for number, (preset, row) in enumerate(zip(chosen, rows, strict=True)):
        if number == 0 or chosen[number - 1].group != preset.group:
            lines += ["", f"[{preset.group}]"]
        lines.append(_line(row, widths))
    return "\n".join([*lines, "", NOTES.rstrip(), "", *_differences()])


def operations_papers_way(preset: Preset) -> tuple[float, bool]:
    """Estimate the operations of a training by the paper's method; also return whether the paper gives the time."""
    if preset.published.hours is not None:
        return paper_flops(preset.published.hours), True
    base = NAMED["base"]
    assert base.published.hours is not None
    return paper_flops(base.published.hours) * training_flops(preset.config) / training_flops(base.config), False


def _row(preset: Preset) -> tuple[str, ...]:
    published = preset.published
    paper, is_given = operations_papers_way(preset)
    return (
        preset.name,
        f"{parameter_count(with_vocabulary(preset.config)):,}",
        "" if published.parameters_m is None else f"{published.parameters_m:g} M",
        f"{training_flops(preset.config):.1e}",
        f"{'' if is_given else '~'}{paper:.1e}",
        "" if published.perplexity is None else f"{published.perplexity:.2f}",
        _bleu(published.bleu),
        preset.about,
    )


def _bleu(score: float | None) -> str:
    """Format a score with the digits that were published: one in the paper, two elsewhere."""
    if score is None:
        return ""
    return f"{score:.1f}" if round(score, 1) == score else f"{score:.2f}"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Align names to the left, numbers to the right."""
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:], strict=True)]
    return "  ".join([cells[0].ljust(widths[0]), *numbers, cells[-1]]).rstrip()


def _differences() -> list[str]:
    """List the differences of parameters, in millions, between rows of base's width and base, here and in the paper."""
    base = NAMED["table3-base"]
    lines = []
    for preset in NAMED.values():
        published = preset.published.parameters_m
        if preset.group != "Table 3" or preset is base or published is None or preset.config.model.d_model != 512:
            continue
        mine = (parameter_count(preset.config.model) - parameter_count(base.config.model)) / 1e6
        assert base.published.parameters_m is not None
        lines.append(f"  {preset.name:24} {mine:+6.1f} M, printed {published - base.published.parameters_m:+.0f} M")
    return lines
