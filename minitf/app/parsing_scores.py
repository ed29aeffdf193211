"""The end of a training run that parses: the score on trees it has never seen, a few of them, and what to type next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from minitf.data.text import read_lines, write_atomically
from minitf.translation.parser import Parser

if TYPE_CHECKING:
    from minitf.training.run import Run, Say

SHOWN = 3


def report_parsing(run: Run, say: Say) -> None:
    """Parse the test sentences with the averaged checkpoints, score the trees, show some and the next command.

    The trees are kept in the run's folder as test.hypotheses, the scores as a line of the log.
    """
    folder = run.directory.path
    parser = Parser.load(folder, warn=lambda message: say(f"warning: {message}"))
    assert run.texts.test is not None  # a run that parses always holds trees out
    sentences = run.texts.test[0]
    gold = sentences.with_suffix(".trees")
    words = list(read_lines(sentences))
    say(f"parsing {len(words):,} held-out sentences (beam {run.config.beam}, α {run.config.alpha})")
    start = time.perf_counter()
    trees = parser.parse(words)
    elapsed_s = time.perf_counter() - start
    with write_atomically(run.directory.hypotheses_path) as file:
        file.writelines(f"{tree}\n" for tree in trees)
    score = parser.score(list(read_lines(gold)), list(map(str, trees)))
    run.log.append(
        {
            "step": run.state.step,
            "f1": score.f1,
            "recall": score.recall,
            "precision": score.precision,
            "complete_match": score.complete_match,
            "tagging_accuracy": score.tagging_accuracy,
            "error_sentences": score.errors,
            "repaired": parser.repaired,
        }
    )
    for sentence, tree in zip(words[:SHOWN], trees, strict=False):
        say(f"    {sentence}\n  → {tree}")
    say(
        f"held-out F1 {score.f1:.2f} (recall {score.recall:.2f}, precision {score.precision:.2f}), complete match "
        f"{score.complete_match:.1f} %, tagging accuracy {score.tagging_accuracy:.2f} %, {score.errors} error "
        f"sentences; {parser.summary()}; {elapsed_s:.0f} s"
    )
    say(f"\nthe run is in {folder}; parse with it, and score:")
    say(f"    python translate.py {folder} < sentences.txt > trees.txt")
    say(f"    minitf parse evalb {gold} {run.directory.hypotheses_path}")
