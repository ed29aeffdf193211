"""The names that a file of the project defines."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@functools.cache
def names_in(path):
    """Functions, classes and assignments of a module, and those of its classes as Class.name."""
    found = set()

    def visit(body, prefix):
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(prefix + node.target.id)
            elif isinstance(node, ast.Assign):
                found.update(prefix + target.id for target in node.targets if isinstance(target, ast.Name))

    visit(ast.parse((ROOT / path).read_text(encoding="utf-8")).body, "")
    return found
