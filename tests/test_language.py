"""Docstrings begin with their subject, and what is public has one."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
NO_SUBJECT = re.compile(r"(What|Of|As|How|Which|From|Where|When|With|Without|By|For|On|If|Also)\b")


def documented():
    """Yield (file: name, docstring or None, is it a public function or class of its module) for all definitions."""
    for path in (path for folder in ("autograd", "minitf") for path in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                name = getattr(node, "name", "")
                is_overload = any(ast.unparse(each) == "overload" for each in getattr(node, "decorator_list", ()))
                is_public = node in tree.body and name[:1] != "_" and not is_overload
                yield f"{path.relative_to(ROOT)}: {name}", ast.get_docstring(node), is_public


def test_docstrings_begin_with_their_subject():
    lines = [(name, text.splitlines()[0]) for name, text, _ in documented() if text]
    assert [(name, line) for name, line in lines if NO_SUBJECT.match(line)] == []


def test_public_functions_and_classes_have_docstrings():
    assert [name for name, text, is_public in documented() if is_public and not text] == []
