"""The API reference: a directive that lists what a module exports, and docstrings as reStructuredText."""

import dataclasses
import importlib
import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FIELD = re.compile(r"(?P<name>[A-Za-z_]\w*(?:, \w+)*): +(?P<text>\S.*)")
SPECIAL = re.compile(r"([\\*_|<>])")


class Public(SphinxDirective):
    """The names in a module's __all__: a table, then each with its signature and docstring.

    With a second argument, only those that are defined in the module of that name.
    """

    required_arguments, optional_arguments = 1, 1

    def run(self) -> list[nodes.Node]:
        exporting = importlib.import_module(self.arguments[0])
        inside = self.arguments[1] if len(self.arguments) > 1 else ""
        names = [name for name in exporting.__all__ if not inside or _module_of(getattr(exporting, name)) == inside]
        if not names:
            raise self.error(f"{self.arguments[0]} exports nothing of {inside}")
        lines = [f".. currentmodule:: {self.arguments[0]}", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names if not isinstance(getattr(exporting, name), int)]
        for name in names:
            found = getattr(exporting, name)
            if isinstance(found, int):  # `autodata` would print the docstring of `int`
                lines += ["", f".. py:data:: {name}", f"   :value: {found}"]
                continue
            kind = "autofunction" if inspect.isroutine(found) else "autoclass" if inspect.isclass(found) else "autodata"
            lines += ["", f".. {kind}:: {name}", *(["   :members:"] if kind == "autoclass" else [])]
        return self.parse_text_to_nodes("\n".join(lines))


def _module_of(found: Any) -> str:
    return getattr(inspect.unwrap(found), "__module__", "")


def to_rst(lines: list[str]) -> list[str]:
    """A docstring of this project as reStructuredText.

    Indented paragraphs are code; `Name: text` is a field, which goes on in indented lines and, at the end of a
    paragraph, in others; the rest is text in which only `code` is marked.
    """
    result: list[str] = []
    kind = ""  # of the paragraph: text, field or code
    for line in lines:
        match = FIELD.fullmatch(line)
        if not line.strip():
            kind = ""
            result.append("")
        elif line.startswith("    ") and kind in ("", "code"):
            result += [line] if kind or _ends_with_code(result) else ["::", "", line]
            kind = "code"
        elif match:
            result += [*([""] if kind == "text" else []), f":{match['name']}: {_escape(match['text'])}"]
            kind = "field"
        else:
            result.append(("   " if kind == "field" else "") + _escape(line.strip()))
            kind = kind or "text"
    return result


def meanings(config: type) -> list[str]:
    """The fields of a configuration as lines of a docstring: what each means, which `--help` says too."""
    found = [each for each in dataclasses.fields(config) if "help" in each.metadata]
    return [f"{each.name}: {each.metadata['help']} (default: {each.default})" for each in found]


def _ends_with_code(lines: list[str]) -> bool:
    """Whether the last line that is not empty is code."""
    return next((line for line in reversed(lines) if line), "").startswith("    ")


def _escape(text: str) -> str:
    """Text in which nothing but `code` has a meaning."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return SPECIAL.sub(r"\\\1", text).replace("`", r"\`")
    return "".join(SPECIAL.sub(r"\\\1", part) if i % 2 == 0 else f"\\ ``{part}``\\ " for i, part in enumerate(parts))


def convert_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    fields = meanings(obj) if what == "class" and dataclasses.is_dataclass(obj) else []
    lines[:] = to_rst([*lines, "", *fields])
