"""Pages that need nothing but themselves: style, script and data in one file, which asks no network for anything.

The page's own policy lets a browser run the scripts that this package ships, by their SHA-256, and nothing else: a
token such as `<script>` could do nothing even if it came to stand where markup is read, which it never does.
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

from minitf.system.files import atomic_write

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
    """The page `name` of this package, as HTML.

    body: markup; default: the page's own
    data: by the id under which the script finds it; anything that JSON can hold
    blobs: bytes by id, in base64
    head: more markup for the head
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
    """The file appears complete, or not at all.  Raises: UserError where the system refuses."""
    with atomic_write(path) as file:
        file.write(text.encode(errors="backslashreplace"))


def to_json(value: Any) -> str:
    """JSON that may stand inside a <script> element: no text in it can end the element or begin a comment.

    Raises: ValueError for numbers that are not finite, which JSON lacks.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # the characters occur in strings only, where an escape means the same
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\0", "\\u0000")


@cache
def _asset(name: str) -> str:
    return files("minitf.report").joinpath("web", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
