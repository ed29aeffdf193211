"""The end of a training run: scores on the test set, samples of the output, and suggested commands."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from shlex import quote

from minitf.corpora.built_in import SAMPLES
from minitf.data.text import read_lines
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.evaluation.metrics import bleu, chrf, exact_match
from minitf.fast.accelerate import accelerate
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import Checkpoints, average
from minitf.system.files import atomic_write
from minitf.system.process import Say, shell_command
from minitf.training.run import Run

__all__ = ["show", "write_hypotheses"]

SAMPLE_LINES = 5  # of the test or validation text


def score_translations(run: Run, say: Say) -> None:
    """Translate the test set with the run's weights, print scores, samples and the next commands.

    The output is kept in the run's directory as test.hypotheses, the scores as a line of the log.
    """
    config, texts, folder = run.config, run.data.texts, run.directory.path
    translator = LineTranslator(
        trained_model(run),
        run.data.vocabulary,
        max_source_length=config.max_length - 1,
        warn=lambda message: say(f"warning: {message}"),
    )
    plan = Plan(search_of(config))

    def translate(lines: list[str]) -> list[str]:
        return [best.text for best, *_ in translator.nbest(lines, plan)]

    if texts.test is not None:
        source, reference = (list(read_lines(path)) for path in texts.test)
        say(f"translating {len(source):,} held-out lines (beam {config.beam}, α {config.alpha})")
        hypotheses = translate(source)
        write_hypotheses(run, hypotheses)
        score = bleu(hypotheses, reference, tokenize=config.bleu_tokenize)
        characters, exact = chrf(hypotheses, reference).score, exact_match(hypotheses, reference)
        scores = {"bleu": score.score, "chrf": characters, "exact_match": exact, "signature": score.signature}
        run.log.append({"step": run.state.step, **scores})
        say(f"held-out BLEU {score.score:.2f}, chrF {characters:.2f}, exact match {100 * exact:.1f} %")
        say(f"    signature of BLEU: {score.signature}")
    if config.train is None and config.data is None:
        samples = list(SAMPLES)
    else:
        found = [pair[0] for pair in (texts.test, texts.valid, texts.train) if pair is not None and pair[0].exists()]
        samples = list(islice(read_lines(found[0]), SAMPLE_LINES)) if found else []
    show(samples, translate(samples), say)
    say(f"\nthe run is in {folder}; translate with it:")
    say(f"    {shell_command('translate')} {quote(str(folder))} < input.txt > output.txt")


def trained_model(run: Run) -> Transformer:
    """Return the model that translates, of the run's checkpoints, on the CPU: as `minitf translate` loads it."""
    precision = "float64" if run.config.dtype == "float64" else "float32"
    store = Checkpoints(run.directory.checkpoints_path)
    model = Transformer(run.config.model, seed=None, dtype=precision)
    model.load_parameters(average(*store.translating(run.config.weights, run.config.average_checkpoints)), copy=False)
    return (model if run.config.plain else accelerate(model)).eval()


def write_hypotheses(run: Run, lines: Iterable[str]) -> None:
    """Write the output of the test set into the run's directory."""
    with atomic_write(run.directory.hypotheses_path, "w") as file:
        file.writelines(line + "\n" for line in lines)


def show(sources: list[str], outputs: list[str], say: Say) -> None:
    """Print sources, each with its output."""
    for source, output in zip(sources, outputs, strict=True):
        say(f"    {source}\n  → {output}")
