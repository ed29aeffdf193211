"""Pages as notebooks: each ```python block is a cell, and the output below it is computed when the book is built.

A page stays plain Markdown, which any viewer shows with highlighted code and with the output that `tests/test_docs.py`
compares. Code in a comment that begins with `<!-- picture` is a cell of which the site shows the output: it may use
`docs/book/pictures.py`, which is not part of an installed copy, and no block may need what it defines.
"""

from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from sphinx.application import Sphinx
from sphinx.config import Config

from docs.book.notebooks import CELL, parts
from extension.figures import with_figures

# Ops name the line that made them: without this, lines of files such as /tmp/ipykernel_417/2093484.py
SETUP = "get_ipython().compile.get_code_name = lambda raw, code, number: f'cell {number - 1}'"


def set_formats(app: Sphinx, config: Config) -> None:
    """Tell MyST-NB which pages have a block of Python."""
    pages = [*app.srcdir.glob("*.md"), *app.srcdir.glob("docs/**/*.md")]
    found = [str(page) for page in pages if CELL.search(Path(page).read_text("utf-8"))]
    config.nb_custom_formats = {page: ["extension.notebooks.read", {}] for page in found}


def read(text: str) -> NotebookNode:
    """The page as a notebook; the output that it states is left out."""
    cells, lines = [new_code_cell(SETUP, metadata={"tags": ["remove-cell"]})], [0]
    for kind, content, start in parts(text):
        if kind == "markdown" and not content.strip():
            continue
        if kind == "markdown":
            cells.append(new_markdown_cell(with_figures(content)))
        else:
            tags = {"tags": ["remove-input"]} if kind == "picture" else {}
            cells.append(new_code_cell(content.rstrip(), metadata=tags))
        lines.append(text.count("\n", 0, start) + (kind != "markdown"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "source_map": lines})
