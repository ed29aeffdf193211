"""The table of contents: the links of docs/index.md, section by section."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FIRST = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">\n'


def add_toctrees(app: Sphinx, docname: str, content: list[str]) -> None:
    """Append a hidden toctree for each section with links to pages."""
    if docname != app.config.root_doc:
        return
    for section in re.split(r"^## ", content[0], flags=re.MULTILINE)[1:]:
        pages = re.findall(r"\]\(([^):#]+\.md)\)", section)
        if pages:
            caption = section.partition("\n")[0]
            content[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def write_first_page(app: Sphinx, error: Exception | None) -> None:
    """index.html at the top of the site leads to the page of contents."""
    if error is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(FIRST, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", add_toctrees)
    app.connect("build-finished", write_first_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
