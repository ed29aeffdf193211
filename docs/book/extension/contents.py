"""The table of contents: the links of docs/index.md, section by section, those to chapters with their first picture."""

import re
from pathlib import Path

from sphinx.application import Sphinx

CHAPTER = re.compile(r'<li><p><a class="reference internal" href="(book/\d\d-[\w-]+\.html)">.*?</li>', re.DOTALL)
# Not a graph, which a script draws when the page is shown: it is empty
PICTURE = re.compile(r'<svg [^>]*role="img" aria-label="[^"]*"[^>]*>(?!</svg>).*?</svg>', re.DOTALL)
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


def add_pictures(app: Sphinx, error: Exception | None) -> None:
    """Put the first picture of each chapter, which has been drawn by now, below its entry."""
    page = Path(app.outdir, f"{app.config.root_doc}.html")
    if error is None and app.builder.format == "html":
        page.write_text(CHAPTER.sub(lambda match: _with_picture(match, page.parent), page.read_text("utf-8")), "utf-8")


def _with_picture(entry: re.Match[str], folder: Path) -> str:
    chapter = (folder / entry[1]).read_text("utf-8")
    (picture, *_) = PICTURE.findall(chapter) or [""]
    picture = re.sub(r'role="img" aria-label="[^"]*"', 'aria-hidden="true"', re.sub(r"</?a\b[^>]*>", "", picture))
    return entry[0].replace("</li>", f"{picture}</li>")
