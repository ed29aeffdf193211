"""`minitf step [RUN]`: record one training step and write it as a page to walk through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.system.messages import say
from minitf.system.process import uninterrupted


def main(argv: Sequence[str]) -> None:
    """Write the page, and print its path."""
    parser = ArgumentParser(
        prog="minitf step",
        description="Record one training step, forward, backward and Adam, and write it as a page to walk through in a "
        "browser: the graph, the arrays and source lines of every op, gradients, and memory.",
    )
    parser.add_argument(
        "run",
        type=Path,
        nargs="?",
        metavar="RUN",
        help="run directory; default: a small model on the built-in corpus",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("step.html"), metavar="FILE", help="page to write (default: step.html)"
    )
    parser.add_argument(
        "--pair",
        nargs=2,
        action="append",
        metavar=("SOURCE", "TARGET"),
        help="a sentence and its translation, instead of three of the corpus; may be given several times",
    )
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.system.device import set_up_device
        from minitf.training.single_step import default_step, step_of_run
    set_up_device(None)

    def warn(message: str) -> None:
        say(f"warning: {message}")

    step = default_step(given.pair) if given.run is None else step_of_run(given.run, warn, given.pair)
    loss, _ = step.write_page(given.output)
    say(f"loss {loss.item() / step.batch.target_tokens:.4f} a token")
    print(given.output)
