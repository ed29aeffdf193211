"""HTML pages with the style sheets and scripts of this package, and the file they are written to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from additions.pages.html import BASE_SCRIPT, BASE_STYLE, asset, html_page
from minitf.system.files import atomic_write

_own = partial(asset, package="additions.pages")


def page(name: str, title: str, *scripts: str, body: str = "", styles: Sequence[str] = (), **content: Any) -> str:
    """Return the page as HTML: the `body`, by default NAME.html, with `styles`, NAME.css and the scripts.

    content: see `html_page`
    """
    style = asset(BASE_STYLE) + "".join(map(_own, [*styles, f"{name}.css"]))
    script = asset(BASE_SCRIPT) + "".join(map(_own, scripts))
    return html_page(title, body or _own(f"{name}.html"), style=style, script=script, **content)


def write_page(path: Path, text: str, *, chosen: bool = False) -> None:
    """Write the page atomically; `chosen`: see `atomic_write`.  Raises: UserError if it cannot be written."""
    with atomic_write(path, chosen=chosen) as file:
        file.write(text.encode(errors="backslashreplace"))
