"""The commands of `minitf`. The module of a command is imported when the command is chosen.

Imports that need NumPy are deferred until the flags of a command have been parsed, so that `--help` and invalid flags
respond immediately. All other imports are at the top of their files.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitf.app.arguments import function_of, version
from minitf.errors import UserError, nearest, shortened
from minitf.system.process import require_numpy, uninterrupted

GROUPS = {
    "Train": {
        "corpus": ("corpora.corpus", "write the built-in corpus to a directory"),
        "statistics": ("corpora.statistics", "describe a corpus: lengths, problems, a suitable preset and vocabulary"),
        "split": ("corpora.split", "split a corpus into training, validation and test text without overlap"),
        "presets": ("corpora.presets", "list the presets of train, with their sizes and costs"),
        "train": ("train.main", "train a Transformer to translate or parse, or resume a run"),
    },
    "Translate": {
        "translate": ("translate.main", "translate or parse text with a trained run"),
        "shortlist": ("models.shortlist", "estimate translations of vocabulary pieces, for translate --shortlist"),
        "pack": ("models.pack", "copy the files that a run needs to translate or to be resumed elsewhere"),
        "page": ("additions.pages.commands.page", "write a trained model as a page that translates in a browser"),
    },
    "Evaluate and inspect": {
        "bleu": (
            "score.bleu",
            "score translations: seven definitions of BLEU, with signatures and confidence intervals",
        ),
        "parse": ("score.parse", "score trees like EVALB, tokenize text, write the built-in treebank"),
        "attention": (
            "additions.pages.commands.attention",
            "write attention weights as an interactive page or a figure",
        ),
        "report": ("additions.pages.commands.report", "write report.html, the learning curves of a run"),
        "step": ("additions.pages.commands.step", "write step.html, an interactive page of one training step"),
    },
    "Models of other programs": {
        "import": (
            "models.import_model",
            "import a model of Marian, OPUS-MT, Hugging Face, fairseq or CTranslate2",
        ),
        "export": ("models.export_model", "export a run to CTranslate2, Marian or Hugging Face"),
    },
    "Learn, and shell completion": {
        "learn": (
            "additions.course.commands.main",
            "exercises: write backward passes and have them checked, find bugs",
        ),
        "completion": ("completion.main", "print a completion script for bash and zsh"),
    },
}
"""The commands, grouped by purpose: the function of each command, in a module of this package, and its description."""
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}
WITHOUT_NUMPY = ("parse", "statistics", "split", "corpus", "learn", "completion")
"""Commands that never import NumPy, or only after parsing their arguments."""


def main(argv: Sequence[str]) -> int | None:
    """Run the command named by the first word, with the other words as arguments.

    Raises: UserError if the first word is missing or unknown.
    """
    if not argv:
        raise UserError(f"give a command: {', '.join(COMMANDS)}; minitf --help describes them")
    name, *rest = argv
    if name in ("-h", "--help"):
        print("usage: minitf COMMAND [arguments]; minitf COMMAND --help describes the arguments")
        for group, commands in GROUPS.items():
            print(f"\n{group}")
            print("\n".join(f"  {name:10} {about}" for name, (_, about) in commands.items()))
    elif name == "--version":
        print(version())
    elif name in COMMANDS:
        if name not in WITHOUT_NUMPY:
            require_numpy()
        with uninterrupted():
            command = function_of(COMMANDS[name][0])
        return command(rest)
    else:
        raise UserError(
            f"unknown command {shortened(name)}{nearest(name, COMMANDS) or '; minitf --help lists all commands'}"
        )
    return 0
