"""`minitf COMMAND …`, `python -m minitf COMMAND …`. The module of a command is imported when the command is chosen.

Imports that need NumPy are deferred until the flags of a command have been parsed, so that `--help` and invalid flags
respond immediately. All other imports are at the top of their files.
"""

import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from minitf.errors import UserError, nearest, shortened
from minitf.system.environment import VERSION, is_installed, load, registered

GROUPS = {
    "Train": {
        "corpus": ("additions.corpora", "write the built-in corpus to a directory"),
        "statistics": ("additions.corpora", "describe a corpus: lengths, problems, a suitable preset and vocabulary"),
        "split": ("additions.corpora", "split a corpus into training, validation and test text without overlap"),
        "presets": ("additions.corpora", "list the presets of train, with their sizes and costs"),
        "train": ("train.main", "train a Transformer to translate, or resume a run"),
    },
    "Translate": {
        "translate": ("translate.main", "translate text with a trained run"),
        "pack": ("additions.interchange", "copy the files that a run needs to translate elsewhere"),
        "ensemble": ("additions.decoding", "translate text with several runs together"),
        "sample": ("additions.decoding", "draw translations at random"),
        "align": ("additions.decoding", "translate text, and print which word comes from which"),
        "page": ("additions.pages", "write a trained model as a page that translates in a browser"),
    },
    "Evaluate and inspect": {
        "bleu": ("score.main", "score translations: BLEU and chrF of sacreBLEU, with their signatures"),
        "parse": ("additions.parsing", "parse with a trained run; prepare treebanks, score trees like EVALB"),
        "attention": ("additions.pages", "write attention weights as an interactive page or a figure"),
        "report": ("additions.pages", "write report.html, the learning curves of a run"),
        "step": ("additions.pages", "write step.html, an interactive page of one training step"),
    },
    "Models of other programs": {
        "import": ("additions.interchange", "import a model of Marian, OPUS-MT, Hugging Face, fairseq or CTranslate2"),
        "export": ("additions.interchange", "export a run to CTranslate2, Marian or Hugging Face"),
    },
    "Learn": {"learn": ("additions.course", "exercises: write backward passes and have them checked, find bugs")},
}
"""The commands, grouped by purpose, each with its description and its function, in a module of `minitf.app`, or the
addition that registers it as an entry point of the group `minitf.commands`."""
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}


def function_of(name: str) -> Callable[[Sequence[str]], int | None]:
    """Import the function of a command.  Raises: UserError if its addition is not installed"""
    place = COMMANDS[name][0] if name in COMMANDS else ""
    if place.startswith("additions.") or not place:
        return load("minitf.commands", name, f"minitf {name}", place)
    module, _, function = place.partition(".")
    return getattr(import_module(f"minitf.app.{module}"), function)


def print_help() -> None:
    """Print the commands that are installed."""
    found = registered("minitf.commands")
    print("usage: minitf COMMAND [arguments]; minitf COMMAND --help describes the arguments")
    others = {name: ("", f"registered by {entry.module}") for name, entry in found.items() if name not in COMMANDS}
    for group, commands in {**GROUPS, "Others": others}.items():
        installed = {
            name: about
            for name, (place, about) in commands.items()
            if not place.startswith("additions.") or (name in found and is_installed(place))
        }
        if installed:
            print(f"\n{group}")
            print("\n".join(f"  {name:10} {about}" for name, about in installed.items()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status; default: the words of the command line."""
    without_traceback()
    from minitf.system.process import run_command  # deferred: until here, Ctrl-C during an import prints a traceback

    return run_command(run, argv)


def without_traceback() -> None:
    """Let SIGINT end the process at once, as SIGTERM does, until `run_command` handles both."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if our parent made us ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(argv: Sequence[str]) -> int | None:
    """Run the command named by the first word, with the other words as arguments.

    Raises: UserError if the first word is unknown.
    """
    name, *rest = argv or ["--help"]
    if name in ("-h", "--help"):
        print_help()
    elif name == "--version":
        print(f"minitf {VERSION}")
    elif name in COMMANDS or name in registered("minitf.commands"):
        return function_of(name)(rest)
    else:
        raise UserError(
            f"unknown command {shortened(name)}{nearest(name, COMMANDS) or '; minitf --help lists all commands'}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
