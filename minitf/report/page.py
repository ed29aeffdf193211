"""Self-contained HTML pages: style, script and data in one file that loads nothing from the network.

The page's content security policy allows only the scripts of this package, by their SHA-256: a token such as `<script>`
is always written as text, and would not be executed even if it were read as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from minitf.data.text import write_atomically

SCRIPTS = {
    "attention": ("base.js", "attention-weights.js", "attention.js"),
    "run": ("base.js", "run.js"),
}


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
    style = _asset("base.css") + _asset(f"{name}.css")
    script = "".join(map(_asset, SCRIPTS[name]))
    policy = f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        head,
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        _asset(f"{name}.html") if body is None else body,
        *(f'<script type="application/json" id="{key}">{to_json(value)}</script>' for key, value in data.items()),
        *(
            f'<script type="application/octet-stream" id="{key}">{base64.b64encode(value).decode()}</script>'
            for key, value in (blobs or {}).items()
        ),
        f"<script>{script}</script>",
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(part for part in parts if part or part is parts[-1])


def write_page(path: Path, text: str) -> None:
    """Write the page atomically, or to a device or pipe.  Raises: UserError if it cannot be written."""
    with write_atomically(path, binary=True) as file:
        file.write(text.encode(errors="backslashreplace"))


def to_json(value: Any) -> str:
    """JSON that is safe inside a <script> element: no text in it can end the element or begin a comment.

    Raises: ValueError for numbers that are not finite, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # these characters occur only in strings, where an escape sequence has the same meaning
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\0", "\\u0000")


@cache
def _asset(name: str) -> str:
    return files("minitf.report").joinpath("web", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
