"""The chapters of the book as Jupyter notebooks: `make notebooks`, or `python -m docs.book.notebooks FOLDER`.

Each block of Python is a cell; outputs are left out, since running the notebook computes them. The pictures and the
file of chapter 14, which are not installed, are copied beside the notebooks. To run them: `pip install jupyterlab
matplotlib` in an environment that has minitf.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# A block of Python, and the block without a language that may follow as its output; or a comment that draws a picture
CELL = re.compile(
    r"^```python\n(?P<block>.*?)^```\n(?:\n*^```\n.*?^```\n)?|^<!-- picture\n(?P<picture>.*?)^-->\n",
    re.MULTILINE | re.DOTALL,
)
BESIDE = ("docs/book/pictures.py", "examples/one_file.py")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def notebook(page: Path, folder: Path) -> dict[str, Any]:
    """A page in the format of Jupyter, version 4; its links lead from `folder` to the project."""
    text = LINK.sub(lambda found: os.path.relpath(page.parent / found[1], folder), page.read_text("utf-8"))
    cells = [_cell(kind, part) for kind, part, _ in parts(text)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {"kernelspec": kernel}, "cells": cells}


def parts(text: str) -> Iterator[tuple[str, str, int]]:
    """("markdown", "block" or "picture", text, where it begins) of each cell of a page."""
    end = 0
    for found in CELL.finditer(text):
        yield "markdown", text[end : found.start()], end
        yield found.lastgroup or "", found[found.lastgroup or 0], found.start()
        end = found.end()
    yield "markdown", text[end:], end


def _cell(kind: str, text: str) -> dict[str, Any]:
    code = {} if kind == "markdown" else {"execution_count": None, "outputs": []}
    return {"cell_type": "code" if code else kind, "metadata": {}, "source": text.strip("\n"), **code}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in BESIDE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    chapters = sorted(HERE.glob("[0-9][0-9]-*.md"))
    for page in chapters:
        made = json.dumps(notebook(page, folder), ensure_ascii=False, indent=1)
        (folder / f"{page.stem}.ipynb").write_text(made + "\n", "utf-8")
    print(f"{folder}: {len(chapters)} notebooks; pip install jupyterlab matplotlib, then jupyter lab {folder}")


if __name__ == "__main__":
    main()
