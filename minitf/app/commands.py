"""The commands of `minitf`, whose modules are imported when they are chosen.

Start-up time: imports are deferred here, and in the function of a command until its flags have been read where the work
needs NumPy: `--help` and a wrong flag are answered without it. All other imports stand at the top of their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from minitf.app.command_line import version
from minitf.errors import UserError, nearest, shortened
from minitf.system.process import require_numpy, uninterrupted

GROUPS = {
    "Train": {
        "corpus": ("corpora.corpus", "write the built-in corpus to a folder"),
        "statistics": ("corpora.statistics", "describe a corpus: lengths, faults, which preset and vocabulary suit it"),
        "split": ("corpora.split", "cut a corpus into training, validation and test text without overlap"),
        "presets": ("corpora.presets", "list the presets of train, with their sizes and costs"),
        "train": ("train.main", "train a Transformer to translate or to parse, or resume a run"),
    },
    "Translate": {
        "translate": ("translate.main", "translate or parse text with a trained run"),
        "shortlist": ("models.shortlist", "estimate how pieces are translated, for translate --shortlist"),
        "pack": ("models.pack", "copy what a run needs to translate, or to be resumed elsewhere"),
        "page": ("pages.page", "write a page that translates in a browser, with the trained model inside"),
    },
    "Measure and look inside": {
        "bleu": (
            "score.bleu",
            "score translations: BLEU in seven definitions, with signatures and confidence intervals",
        ),
        "parse": ("score.parse", "score trees as EVALB does, tokenize text, write the built-in treebank"),
        "report": ("pages.report", "write report.html, the learning curves of a run"),
        "step": ("pages.step", "write step.html, a training step to walk through in a browser"),
    },
    "Models of other programs": {
        "import": (
            "models.import_model",
            "make a run of a model of Marian, OPUS-MT, Hugging Face, fairseq, CTranslate2",
        ),
        "export": ("models.export_model", "write a run for CTranslate2, Marian or Hugging Face"),
    },
    "Learn, and the shell": {
        "learn": (
            "learn.main",
            "exercises: write backward passes that are checked, find bugs, check your model",
        ),
        "completion": ("completion.main", "print a script that completes commands, flags and paths in bash and zsh"),
    },
}
"""The commands by what people do: the function of each, in a module of this package, and what it does."""
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}
WITHOUT_NUMPY = ("parse", "statistics", "split", "corpus", "learn", "completion")
"""Commands that never import NumPy, or not before they have read their arguments."""


def main(argv: Sequence[str]) -> int | None:
    """Run the command that the first word names, with the other words.

    Raises: UserError where the first word is missing or unknown.
    """
    if not argv:
        raise UserError(f"give a command: {', '.join(COMMANDS)}; minitf --help describes them")
    name, *rest = argv
    if name in ("-h", "--help"):
        print("usage: minitf COMMAND [arguments]; minitf COMMAND --help lists these")
        for group, commands in GROUPS.items():
            print(f"\n{group}")
            print("\n".join(f"  {name:10} {about}" for name, (_, about) in commands.items()))
    elif name == "--version":
        print(version())
    elif name in COMMANDS:
        if name not in WITHOUT_NUMPY:
            require_numpy()
        with uninterrupted():
            module, _, function = COMMANDS[name][0].partition(".")
            command = getattr(import_module(f"minitf.app.{module}"), function)
        return command(rest)
    else:
        raise UserError(f"unknown command {shortened(name)}{nearest(name, COMMANDS) or '; minitf --help lists all'}")
    return 0
