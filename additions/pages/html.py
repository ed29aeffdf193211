"""Self-contained HTML pages: style, script and data in one file that loads nothing from the network.

The page's content security policy allows only its own script, by its SHA-256: a text such as `<script>` is always
written as text, and would not be executed even if it were read as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import Any

BASE_STYLE, BASE_SCRIPT = "base.css", "base.js"  # colours, fonts and the choice of the theme, of all pages


def html_page(
    title: str,
    body: str,
    *,
    style: str,
    script: str,
    data: Mapping[str, Any],
    blobs: Mapping[str, bytes] = MappingProxyType({}),
    head: str = "",
) -> str:
    """Return the page as HTML.

    body, head: markup
    style, script: contents of their elements, without `</`
    data: values for the script, by id, as JSON
    blobs: bytes for the script, by id, in base64
    """
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"  # default-src says nothing about these two
    )
    scripts = {key: ("json", to_json(value)) for key, value in data.items()}
    scripts |= {key: ("octet-stream", base64.b64encode(value).decode()) for key, value in blobs.items()}
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
        body,
        *(f'<script type="application/{kind}" id="{key}">{text}</script>' for key, (kind, text) in scripts.items()),
        f"<script>{script}</script>",
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(part for part in parts if part or part is parts[-1])


def to_json(value: Any) -> str:
    """JSON that is safe inside a <script> element: no text in it can end the element or begin a comment.

    Raises: ValueError for numbers that are not finite, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # these characters occur only in strings, where an escape sequence has the same meaning
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\0", "\\u0000")


@cache
def asset(name: str, package: str = "additions.pages") -> str:
    """Return the text of a file in the folder `web` of a package."""
    return files(package).joinpath("web", name).read_text(encoding="utf-8")


@cache
def dagre() -> str:
    """Return the script that lays out graphs, with its licence."""
    licence = asset("dagre.LICENSE").replace("*/", "")
    return f"/*! dagre\n{licence}*/\n" + asset("dagre.min.js").partition("/*! For license information")[0]


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
