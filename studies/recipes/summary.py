"""The summary of a run that is done, as Markdown: scores, the learning curve and examples from the test text."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import resumable  # first: it finds minitf without an installation

from additions.pages.run_log import read_log
from minitf.data.text import read_lines
from minitf.storage.run_directory import HYPOTHESES_NAME, LOG_NAME

EXAMPLES, SEED = 10, 1


def of_run(run: Path, corpus: str, source: Path, reference: Path, further_rows: Iterable[str] = ()) -> str:
    """The summary of a run whose test text, held out from a corpus, is given.

    further_rows: of other texts, by `score_row`
    """
    final = resumable.final_score(run)
    assert final is not None  # or `resumable.train` had failed
    test = list(zip(*map(read_lines, (source, run / HYPOTHESES_NAME, reference)), strict=True))
    lines = [
        "| text | BLEU | |",
        "|---|---|---|",
        score_row(f"held-out {corpus}", len(test), final["bleu"], final["signature"]),
        *further_rows,
        f"\nAfter {final['step']:,} updates in {resumable.minutes(run):.0f} minutes. The learning curve:\n",
        "| update | million target tokens | validation perplexity |",
        "|---|---|---|",
        *learning_curve(run),
        "\nTen sentences of the test text, drawn before it was translated (source, translation, reference):\n",
        *examples(test),
    ]
    return "\n".join(lines) + "\n"


def score_row(text: str, pairs: int, bleu: float, signature: str) -> str:
    """A text, and the BLEU of its translations."""
    escaped = signature.replace("|", "\\|")  # or the cell would end there
    return f"| {text}, {pairs:,} pairs | **{bleu:.2f}** | `{escaped}` |"


def learning_curve(run: Path) -> list[str]:
    """A row for each validation."""
    log = read_log(run / LOG_NAME)
    tokens = itertools.accumulate(record.get("target_tokens", 0) for record in log)
    return [
        f"| {record['step']:,} | {seen / 1e6:.1f} | {record['valid_perplexity']:.2f} |"
        for record, seen in zip(log, tokens, strict=True)
        if "valid_perplexity" in record
    ]


def examples(test: list[tuple[str, ...]]) -> list[str]:
    """Source, translation and reference of the first pairs of a permutation, which depends on their number alone."""
    drawn = np.random.default_rng(SEED).permutation(len(test))[:EXAMPLES]
    return ["- {}\\\n  → {}\\\n  {}".format(*test[i]) for i in drawn]
