"""`minitf presets`: print the presets, or put them into a page of the documents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser, list_presets
from minitf.errors import UserError
from minitf.system.files import atomic_write, read_small_file


def main(argv: Sequence[str]) -> None:
    """Print the list, or replace the one in a page.  Raises: UserError for a page without one"""
    parser = ArgumentParser(prog="minitf presets", description="List the presets with their sizes and costs.")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the list in this Markdown file instead")
    page = parser.parse_args(argv).write
    if page is None:
        print(list_presets())
        return
    text = read_small_file(page).decode(errors="surrogateescape")
    if not (block := re.search(r"^```text\npreset .*?^```$", text, re.MULTILINE | re.DOTALL)):
        raise UserError(f"{page} has no block of text that begins with the heading of the list")
    with atomic_write(page) as file:
        file.write(
            f"{text[: block.start()]}```text\n{list_presets()}\n```{text[block.end() :]}".encode(
                errors="surrogateescape"
            )
        )
