"""`minitf completion`: a script for bash and zsh that completes commands, flags and paths."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress

from minitf.app.command_line import ArgumentParser
from minitf.config.presets import NAMED
from minitf.errors import UserError

SCRIPT = """\
_minitf() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"
    elif [ "${{COMP_WORDS[COMP_CWORD-1]}}" = --preset ]; then words="{presets}"
    elif [ "${{word#-}}" = "$word" ]; then words=; fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
[ -z "$ZSH_VERSION" ] || {{ autoload -U +X compinit && compinit; autoload -U +X bashcompinit && bashcompinit; }}
complete -o default -F _minitf minitf
"""


def main(argv: Sequence[str]) -> None:
    """Print the script."""
    parser = ArgumentParser(
        prog="minitf completion",
        description="Print a completion script for bash and zsh. To use it, add the line "
        'eval "$(minitf completion)" to ~/.bashrc or ~/.zshrc.',
    )
    parser.parse_args(argv)
    from minitf.app.commands import COMMANDS  # which names this module

    print(script({name: flags_of_command(name) for name in COMMANDS}), end="")


def script(flags: Mapping[str, Sequence[str]]) -> str:
    """Return the completion script.  flags: the flags of each command"""
    cases = [f'        {name}) words="{" ".join(names)}" ;;' for name, names in flags.items()]
    return SCRIPT.format(cases="\n".join(cases), commands=" ".join(flags), presets=" ".join(NAMED))


def flags_of_command(name: str) -> list[str]:
    """List the flags in the help of a command; none if its addition is not installed."""
    from minitf.app.commands import function_of

    if name == "completion":
        return ["--help"]
    try:
        return flags_of(function_of(name), [["--help"]])
    except UserError:
        return []


def flags_of(command: Callable[[Sequence[str]], object], helps: Sequence[Sequence[str]]) -> list[str]:
    """List the flags in what a command prints for each of `helps`."""
    printed = io.StringIO()
    for words in helps:
        with redirect_stdout(printed), suppress(SystemExit):
            command(words)
    entries = re.findall(r"^  (-\S.*?)(?:  |$)", printed.getvalue(), re.MULTILINE)  # what stands left of the texts
    return sorted(set(re.findall(r"--[a-z][\w.-]*", " ".join(entries))))
