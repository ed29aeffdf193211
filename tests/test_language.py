"""Documents, messages and docstrings are written in plain English: subject first, in the field's terms."""

import ast
import functools
import itertools
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for folder in ("autograd", "minitf", "additions")
    for path in (ROOT / folder).rglob("*.py")
    if "tests" not in path.parts and path.name != "conftest.py"
]
PAGES = [
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),  # which tells what was said before
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("*/*/README.md"),
    *(path for folder in ("autograd", "minitf", "additions") for path in (ROOT / folder).rglob("web/*.*")),
]
TRANSLATED = {  # literal translations, and what to write
    "of one's own": "your own …",
    "needs of a run": "what translation needs",
    "states its own": "training estimates its duration",
    "checker judges": "graded by a gradient checker",
    "is proved before": "is checked before",
    "tries them on": "tests for each",
    "bits on every side": "identically on every process",
    "computed like words": "padding costs as much as words",
    "with the same bits": "exactly, bit for bit",
    "lies between the matrix products": "everything except matrix products",
    "settings of the search are those": "the first run's search settings apply",
    "cannot be made faster can be": "use a smaller decoder",
    "will do for all": "works with all",
    "a moment on or back": "one op forward or back",
    "by the reason that": "grouped by purpose",
    "no chance in it": "is deterministic",
    "all damages": "all mutants",
    "is nothing that": "is not supported by …",
    "belong into": "belong in",
    "belongs into": "belongs in",
    "exclude each other": "cannot be combined",
    "leave it out": "omit it",
    "leave one out": "omit one of them",
    "leave one of them out": "omit one of them",
    "put it back": "restore it",
    "holds no run": "contains no run",
    "led by coverage": "coverage-guided",
    "belongs to no flag": "unexpected argument",
    "for anything that cannot be": "for invalid arguments",
    "put to the test": "tested",
}
NO_SUBJECT = re.compile(r"(What|Of|As|How|Which|From|Where|When|With|Without|By|For|On|If|Also)\b")
STEPS = "additions/course/path/"  # programs of learners and their checks, which the text of a step explains


def test_no_phrase_is_translated_word_for_word():
    files = [*PAGES, *SOURCES, ROOT / "train.py", ROOT / "translate.py"]
    found = []
    for path in files:
        for text in texts_of(path):
            found += [(path.name, f"{phrase} -> {plain}") for phrase, plain in TRANSLATED.items() if phrase in text]
    assert len(files) > 300
    assert not found


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def texts_of(path):
    """Return the strings of a Python file, including docstrings, or the text of another file, in single spaces."""
    text = path.read_text(encoding="utf-8")
    texts = [text]
    if path.suffix == ".py":
        constants = [each.value for each in ast.walk(tree_of(path)) if isinstance(each, ast.Constant)]
        texts = [each for each in constants if isinstance(each, str)]
    return [" ".join(each.lower().split()) for each in texts]


def test_docstrings_begin_with_their_subject():
    found = [(name, text.splitlines()[0]) for name, text, _ in documented() if text]
    assert len(found) > 2500
    assert not [(name, line) for name, line in found if NO_SUBJECT.match(line)]


def test_public_functions_and_classes_have_docstrings():
    missing = [name for name, text, is_public in documented() if is_public and not text]
    assert not [name for name in missing if not name.startswith(STEPS)]


def documented():
    """Yield (file: name, docstring or None, is it a public function or class of its module) for all definitions."""
    for path in SOURCES:
        file, tree = path.relative_to(ROOT).as_posix(), tree_of(path)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and not is_overload(node):
                name = getattr(node, "name", "")
                yield f"{file}: {name}", ast.get_docstring(node), node in tree.body and name[:1] != "_"
                yield from ((f"{file}: {ast.unparse(each)}", text, False) for each, text in described(node.body))


def described(body):
    """Yield (assignment, the string below it that describes what is assigned)."""
    for assignment, below in itertools.pairwise(body):
        if isinstance(assignment, (ast.Assign, ast.AnnAssign)) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str):
                yield assignment, text


def is_overload(node):
    return any(ast.unparse(each) == "overload" for each in getattr(node, "decorator_list", ()))
