"""`minitf report`, `attention`, `page` and `step`: learning curves, attention, a translating model, a training step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from additions.pages.run_log import is_training
from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import say

# ---- minitf report RUN ----


def report(argv: Sequence[str]) -> None:
    """Write the page of learning curves, and print its path."""
    parser = ArgumentParser(prog="minitf report", description="Write a page with the learning curves of a run.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--output", type=Path, metavar="FILE", help="page to write (default: report.html)")
    given = parser.parse_args(argv)
    from additions.pages.learning_curves import LogSeries  # deferred: `--help` and invalid flags need no NumPy
    from additions.pages.page import write_page
    from additions.pages.run_page import FINISHED, RUNNING, STOPPED, run_page

    directory = RunDirectory.open(given.run)
    output = given.output or Path("report.html")
    config = directory.config()
    if not directory.log_path.exists():
        raise UserError(f"{given.run} has no log, because it was imported or packed; give a run that was trained here")
    log = LogSeries(directory.log_path)
    log.read_on()
    finished = "bleu" in log.newest or log.number("step") >= config.max_steps
    status = RUNNING if is_training(directory) else FINISHED if finished else STOPPED
    write_page(output, run_page(log, config, str(given.run), status), chosen=given.output is not None)
    print(output)


# ---- minitf attention RUN ----


def attention(argv: Sequence[str]) -> None:
    """Write the page or figure of the attention of a text's first lines, and print its path."""
    parser = ArgumentParser(
        prog="minitf attention",
        description="Translate the first lines of a text, and write the attention weights of all heads as an "
        "interactive page, or as a figure of the first line.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE", help="text to translate, one sentence per line"
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help=".html for an interactive page; .png, .svg or .pdf for a figure of the first line",
    )
    parser.add_argument("--lines", type=int, default=20, metavar="N", help="lines on the page (default 20)")
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        default="cross",
        help="attention to draw or to show first: encoder, source to source; decoder, target to target; cross, target "
        "to source (default)",
    )
    parser.add_argument("--layer", type=int, metavar="N", help="layer to draw or to show first, from 1 (default: all)")
    parser.add_argument("--head", type=int, metavar="N", help="head to draw or to show first, from 1 (default: all)")
    given = parser.parse_args(argv)
    from additions.pages.attention_writer import write_attention  # deferred: `--help` and invalid flags need no NumPy
    from minitf.data.text import read_lines
    from minitf.system.process import set_up_device
    from minitf.translation.translator import Translator

    set_up_device(None)

    def warn(message: str) -> None:
        say(f"warning: {message}")

    translator = Translator.load(given.run, warn=warn)
    shown = {"kind": given.kind, "layer": given.layer, "head": given.head}
    lines = read_lines(given.input)
    print(write_attention(given.output, translator, lines, str(given.run), warn, most=given.lines, **shown))


# ---- minitf page RUN ----


def page(argv: Sequence[str]) -> None:
    """Write the page, and print its path."""
    parser = ArgumentParser(
        prog="minitf page",
        description="Write a trained model as a page that translates in a browser, in one self-contained file. The "
        "page shows how the model and its search work.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--output", type=Path, metavar="FILE", help="page to write (default: translator.html)")
    parser.add_argument(
        "--weights",
        choices=("int8", "float16", "float32"),
        default="int8",
        help="number format of the weights (default: %(default)s, the smallest); float32 gives minitf's translations",
    )
    parser.add_argument(
        "--sentence",
        action="append",
        metavar="TEXT",
        help="sentence to offer, before some sentences of the validation text; the first one is translated when the "
        "page opens; may be given several times",
    )
    parser.add_argument(
        "--checkpoints",
        type=int,
        default=0,
        metavar="N",
        help="also include N checkpoints of the run, each as large as the model, with a slider over training",
    )
    given = parser.parse_args(argv)
    from additions.pages.page import write_page  # deferred: `--help` and invalid flags need no NumPy
    from additions.pages.translator_page import example_sentences, spread, translator_page
    from minitf.storage.checkpoints import Checkpoints
    from minitf.translation.translator import load_learned

    def warn(message: str) -> None:
        say(f"warning: {message}")

    learned = load_learned(given.run, warn=warn)
    steps = Checkpoints(RunDirectory(given.run).checkpoints_path).steps()
    earlier = {step: load_learned(given.run, checkpoint=step, warn=warn) for step in spread(steps, given.checkpoints)}
    sentences = [*dict.fromkeys([*(given.sentence or ()), *example_sentences(given.run, learned.vocabulary)])]
    text = translator_page(learned, str(given.run), sentences, weights=given.weights, earlier=earlier)
    output = given.output or Path("translator.html")
    write_page(output, text, chosen=given.output is not None)
    say(f"{len(text.encode()) / 1e6:.2f} MB")
    print(output)


# ---- minitf step [RUN] ----


def step(argv: Sequence[str]) -> None:
    """Write the page, and print its path."""
    parser = ArgumentParser(
        prog="minitf step",
        description="Record one training step (forward, backward and Adam), and write it as an interactive page: the "
        "graph, the arrays and source lines of every op, gradients, and memory.",
    )
    parser.add_argument(
        "run",
        type=Path,
        nargs="?",
        metavar="RUN",
        help="run directory (default: a small model on the built-in corpus)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="page to write (default: step.html)")
    parser.add_argument(
        "--pair",
        nargs=2,
        action="append",
        metavar=("SOURCE", "TARGET"),
        help="a sentence and its translation, instead of three from the corpus; may be given several times",
    )
    parser.add_argument(
        "--fast",
        action="store_true",
        help="show the fast parts that minitf train uses, in the place of the code of autograd/ops and minitf/model",
    )
    given = parser.parse_args(argv)
    if not given.fast:
        os.environ["AUTOGRAD_PLAIN"] = "1"  # before autograd is imported
    from additions.pages.single_step import default_step, step_of_run
    from minitf.system.process import set_up_device

    set_up_device(None, plain=not given.fast)

    def warn(message: str) -> None:
        say(f"warning: {message}")

    fast = given.fast
    step = (
        default_step(given.pair, fast=fast)
        if given.run is None
        else step_of_run(given.run, warn, given.pair, fast=fast)
    )
    output = given.output or Path("step.html")
    loss, _ = step.write_page(output, chosen=given.output is not None)
    say(f"loss {loss.item() / step.batch.target_tokens:.4f} a token")
    print(output)
