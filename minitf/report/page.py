"""The pages of this package: their style, script and markup, and the file they are written to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from autograd.inspect.page import BASE_SCRIPT, BASE_STYLE, asset, html_page
from minitf.data.text import write_atomically

SCRIPTS = {"attention": ("attention-weights.js", "attention.js"), "run": ("run.js",)}

_own = partial(asset, package="minitf.report")


def page(
    name: str,
    title: str,
    data: Mapping[str, Any],
    *,
    body: str | None = None,
    head: str = "",
    blobs: Mapping[str, bytes] | None = None,
) -> str:
    """The page `name` as HTML.

    data: values for the script, by id, as JSON
    body: markup; default: the HTML file of the page
    head: additional markup of the head
    blobs: bytes for the script, by id, in base64
    """
    return html_page(
        title,
        _own(f"{name}.html") if body is None else body,
        style=asset(BASE_STYLE) + _own(f"{name}.css"),
        script=asset(BASE_SCRIPT) + "".join(map(_own, SCRIPTS[name])),
        data=data,
        blobs=blobs,
        head=head,
    )


def write_page(path: Path, text: str) -> None:
    """Write the page atomically, or to a device or pipe.  Raises: UserError if it cannot be written."""
    with write_atomically(path, binary=True) as file:
        file.write(text.encode(errors="backslashreplace"))
