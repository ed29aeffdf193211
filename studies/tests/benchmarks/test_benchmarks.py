"""The measuring programs start, and what they import of the project is there; what they measure is not looked at."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.marks import parametrize_some

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
STUDIES = ROOT / "studies"
PROGRAMS = [path for folder in ("benchmarks", "recipes") for path in sorted((STUDIES / folder).glob("*.py"))]
COMMANDS = [path for path in PROGRAMS if "__main__" in path.read_text("utf-8")]
SCRIPTS = [
    *PROGRAMS,
    *sorted((STUDIES / "benchmarks" / "peers").glob("*.py")),
]


def name(path):
    return str(path.relative_to(ROOT))


@parametrize_some("path", COMMANDS, keep=range(0, len(COMMANDS), 16), ids=name)
def test_help(path):
    done = subprocess.run([sys.executable, "-W", "error", path, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")


def test_imports_in_functions_too():
    for path in SCRIPTS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("autograd", "minitf", "tests"):
                module = importlib.import_module(node.module)
                for each in node.names:
                    assert hasattr(module, each.name) or importlib.import_module(f"{node.module}.{each.name}")
