"""The end of a training run: the score on text it has never seen, a few translations, and what to type next."""

from __future__ import annotations

from minitf.data.text import read_lines, write_atomically
from minitf.evaluation.metrics import bleu, exact_match
from minitf.training.run import Run, Say
from minitf.translation.translator import Translator

SAMPLE_LINES = 5  # of the user's own test or validation text


def report_held_out(run: Run, say: Say) -> None:
    """Translate the test text with the averaged checkpoints, score it, show samples and the next command.

    The translations are kept in the run's folder as test.hypotheses, the scores as a line of the log.
    """
    if run.config.task == "parsing":
        from minitf.app.parsing_scores import report_parsing

        report_parsing(run, say)
        return
    folder = run.directory.path
    translator = Translator.load(folder, warn=lambda message: say(f"warning: {message}"))
    if run.texts.test is not None:
        source, reference = (list(read_lines(path, errors=run.config.errors)) for path in run.texts.test)
        say(f"translating {len(source):,} held-out lines (beam {run.config.beam}, α {run.config.alpha})")
        hypotheses = translator.translate(source)
        with write_atomically(run.directory.hypotheses_path) as file:
            file.writelines(line + "\n" for line in hypotheses)
        score = bleu(hypotheses, reference, tokenize=run.config.bleu_tokenize)
        exact = exact_match(hypotheses, reference)
        run.log.append(
            {"step": run.state.step, "bleu": score.score, "exact_match": exact, "signature": score.signature}
        )
        say(f"held-out BLEU {score.score:.2f} ({score.signature}), exact match {100 * exact:.1f} %")
    show_samples(run, translator, say)
    say(f"\nthe run is in {folder}; translate with it:")
    say(f"    python translate.py {folder} < input.txt > output.txt")


def show_samples(run: Run, translator: Translator, say: Say) -> None:
    """A few sentences and their translations."""
    if run.config.train is None and run.config.data is None:
        from minitf.corpora.phrases import SAMPLES

        samples = list(SAMPLES)
    else:
        pair = run.texts.test or run.texts.valid or run.texts.train
        lines = read_lines(pair[0], errors=run.config.errors)
        samples = [line for line, _ in zip(lines, range(SAMPLE_LINES), strict=False)]
    for source, target in zip(samples, translator.translate(samples), strict=True):
        say(f"    {source}\n  → {target}")
