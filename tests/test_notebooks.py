"""The chapters as notebooks: the same text and the same code, which runs in an installed copy."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.book.notebooks import LINK, notebook

ROOT = Path(__file__).parent.parent
CHAPTERS = sorted((ROOT / "docs" / "book").glob("[0-9][0-9]-*.md"))


def code_of(made):
    return [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.name)
def test_each_block_of_python_is_a_cell(page, tmp_path):
    made = notebook(page, tmp_path)
    text = page.read_text("utf-8")
    blocks = [code.strip("\n") for code in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    assert [code for code in code_of(made) if code in blocks] == blocks
    text = "".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "```python" not in text
    for link in LINK.findall(text):
        assert (tmp_path / link).exists(), link


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["01-tensors", pytest.param("14-one-file", marks=pytest.mark.slow)])
def test_they_run_where_they_are_with_nothing_but_the_installed_packages(name, tmp_path):
    folder, installed = tmp_path / "notebooks", tmp_path / "site-packages"
    program = [sys.executable, "-m", "docs.book.notebooks", folder]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{len(CHAPTERS)} notebooks" in done.stdout
    assert len(CHAPTERS) == len(sorted(folder.glob("*.ipynb"))) == 14
    installed.mkdir()
    for package in ("autograd", "minitf"):
        (installed / package).symlink_to(ROOT / package)
    made = json.loads((folder / f"{name}.ipynb").read_text("utf-8"))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 4)
    program = [sys.executable, "-c", "\n".join(code_of(made))]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
