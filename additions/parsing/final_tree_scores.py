"""The end of a run that has learned to parse: scores on the test trees, samples, and suggested commands."""

from __future__ import annotations

import time
from shlex import quote

from additions.parsing.parser import Parser
from minitf.data.text import read_lines
from minitf.run.final_scores import show, write_hypotheses
from minitf.system.process import Say, shell_command
from minitf.training.run import Run

SAMPLE_TREES = 3


def score_trees(run: Run, say: Say) -> None:
    """Parse the test set as `score_translations` translates it."""
    config, folder = run.config, run.directory.path
    parser = Parser.load(folder, plain=run.config.plain, warn=lambda message: say(f"warning: {message}"))
    assert run.data.texts.test is not None  # a parsing run always has a test set
    sentences = run.data.texts.test[0]
    gold = sentences.with_suffix(".trees")
    words = list(read_lines(sentences))
    say(f"parsing {len(words):,} held-out sentences (beam {config.beam}, α {config.alpha})")
    start = time.perf_counter()
    trees = list(map(str, parser.parse(words)))
    elapsed_s = time.perf_counter() - start
    write_hypotheses(run, trees)
    score = parser.score(list(read_lines(gold)), trees)
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
    show(words[:SAMPLE_TREES], trees[:SAMPLE_TREES], say)
    say(
        f"held-out F1 {score.f1:.2f} (recall {score.recall:.2f}, precision {score.precision:.2f}), complete match "
        f"{score.complete_match:.1f} %, tagging accuracy {score.tagging_accuracy:.2f} %, {score.errors} error "
        f"sentences; {parser.summary()}; {elapsed_s:.0f} s"
    )
    say(f"\nthe run is in {folder}; parse with it, and score:")
    say(f"    {shell_command('translate')} {quote(str(folder))} < sentences.txt > trees.txt")
    say(f"    minitf parse evalb {quote(str(gold))} {quote(str(run.directory.hypotheses_path))}")
