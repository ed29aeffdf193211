"""Docstrings begin with their subject."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
NO_SUBJECT = re.compile(r"(What|Of|As|How|Which|From|Where|When|With|Without|By|For|On|If|Also)\b")


def documented():
    """Yield (file: name, docstring or None) for all definitions."""
    for path in (path for folder in ("autograd", "minitf") for path in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                yield f"{path.relative_to(ROOT)}: {getattr(node, 'name', '')}", ast.get_docstring(node)


def test_docstrings_begin_with_their_subject():
    lines = [(name, text.splitlines()[0]) for name, text in documented() if text]
    assert [(name, line) for name, line in lines if NO_SUBJECT.match(line)] == []
