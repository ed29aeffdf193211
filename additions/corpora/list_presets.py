"""`minitf presets`: the presets with their sizes, costs and published figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minitf.app.command_line import ArgumentParser
from minitf.config import RunConfig, TransformerConfig
from minitf.config.presets import NAMED, Preset

SENTENCE_TOKENS = 30
"""Assumed tokens of a sentence, for attention: its scores are some 2 % of the base model's operations."""

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
    from minitf.model.transformer import Transformer  # deferred: needs NumPy

    figures = (("parameters", "{:g} M"), ("perplexity", "{:.2f}"), ("bleu", "{:.4g}"))
    parameters, perplexity, bleu = (
        form.format(preset.published[name]) if name in preset.published else "" for name, form in figures
    )
    model = Transformer(replace(preset.config.model, vocab_size=preset.config.vocab_size), seed=None)
    count, operations = model.parameter_count(), training_flops(preset.config)
    return preset.name, f"{count:,}", parameters, f"{operations:.1e}", perplexity, bleu, preset.about


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Align names to the left, numbers to the right."""
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:], strict=True)]
    return "  ".join([cells[0].ljust(widths[0]), *numbers, cells[-1]]).rstrip()


# ---- Operations ----


def update_flops(c: TransformerConfig, source_tokens: float, target_tokens: float, length: float) -> float:
    """Operations of the matrix products of one update; the backward pass has twice those of the forward pass.

    One multiply-add counts as two operations. Softmax, norms, dropout and Adam, some 2 to 4 % more, are left out.
    `length` is the number of tokens of each sentence, source and target alike, padding included.
    """
    keys, values = c.heads * c.head_d_k, c.heads * c.head_d_v
    projections = 2 * c.d_model * (2 * keys + values) + 2 * values * c.d_model  # query, key, value, output of a token
    scores = 2 * length * (keys + values)  # q kᵀ and p v of a query
    self_attention = projections + scores
    feed_forward = 4 * c.d_model * c.d_ff
    cross_query = 2 * c.d_model * keys + 2 * values * c.d_model + scores
    cross_memory = 2 * c.d_model * (keys + values)  # of a source token
    per_source_token = c.encoder_depth * (self_attention + feed_forward) + c.decoder_depth * cross_memory
    per_target_token = c.decoder_depth * (self_attention + cross_query + feed_forward)
    per_target_token += 2 * c.d_model * c.vocab_size
    return 3 * (source_tokens * per_source_token + target_tokens * per_target_token)


def training_flops(config: RunConfig) -> float:
    """Operations of a whole training run, if every batch is full."""
    slots = config.max_tokens_per_batch * config.accumulate
    model = replace(config.model, vocab_size=config.vocab_size)
    return config.max_steps * update_flops(model, slots, slots, SENTENCE_TOKENS)
