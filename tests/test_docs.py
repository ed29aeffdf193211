"""Every block of Python in the documentation runs, and prints what the page says it prints."""

import ast
import contextlib
import functools
import io
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from autograd import random
from minitf.__main__ import COMMANDS, function_of
from minitf.errors import UserError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|^<!-- (picture)\n(.*?)^-->$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(language, text) of every fenced block of a page; "picture" is the language of code that only the book runs."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language or picture, text or drawing) for language, text, picture, drawing in found]


def cells(page):
    """(code, the output that the page states or None) of every block of Python and every picture."""
    for (language, code), (next_language, following) in itertools.pairwise([*blocks(page), ("", "")]):
        if language in ("python", "picture"):
            yield code, following if next_language == "" and following else None


def run(page):
    """Run the page's Python in one namespace; yield (code, what it printed, what the page says it prints or None)."""
    namespace = {"__name__": "__page__"}
    for code, expected in cells(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            name = f"<{page.name}>"  # no file: Hypothesis would read the whole page as Python
            try:
                exec(compile(code, name, "exec"), namespace)
            except ModuleNotFoundError as error:
                if str(error.name).startswith("additions."):
                    pytest.skip(f"{error.name} is not here")
                raise
        yield code, printed.getvalue(), expected


@pytest.fixture(autouse=True)
def no_clock():
    """Hypothesis also looks at the time that examples take, which a busy machine can upset."""
    before = settings.default
    settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("no clock")
    yield
    settings.register_profile("before", before)
    settings.load_profile("before")


def with_marks(page):
    """Pages that train are heavy, and slow if they train for long, by a command, in processes or by examples/."""
    if page.name in (
        "06-transformer.md",
        "07-loss.md",
        "08-learning.md",
        "09-training.md",
        "11-translation.md",
        "12-processes.md",
        "13-second-derivatives.md",
        "14-one-file.md",
    ):  # `make prove` runs them, and the book
        return pytest.param(page, id=page.name, marks=pytest.mark.slow)
    heavy = [pytest.mark.heavy] if re.search("digits|subprocess", page.read_text("utf-8")) else []
    return pytest.param(page, id=page.name, marks=heavy)


@pytest.mark.parametrize("page", [with_marks(page) for page in PAGES])
def test_page(page):
    state = random.get_state()
    try:
        with np.errstate():
            for code, printed, expected in run(page):
                if expected is not None or printed:
                    assert printed == expected, f"{page.name}: this prints something else than the page says:\n{code}"
    finally:
        random.set_state(state)


def test_the_pages_have_code_and_output():
    checked = {page.name: sum(expected is not None for _, expected in cells(page)) for page in PAGES}
    assert checked["README.md"] >= 1
    chapters = {name: count for name, count in checked.items() if re.match(r"\d\d-", name)}
    assert len(chapters) == 14
    assert all(count >= 2 for count in chapters.values()), chapters


def modules(code):
    """The packages that a block of Python imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_blocks_run_in_an_installed_copy():
    """They import nothing that stands beside the packages, but for the chapter about a file of examples/."""
    for page in PAGES:
        imported = {name for language, code in blocks(page) if language == "python" for name in modules(code)}
        beside = {path.stem for path in ROOT.iterdir()} - {"autograd", "minitf", "additions"}
        assert imported & beside == ({"examples"} if page.name == "14-one-file.md" else set()), page.name


def anchors(page):
    """The names of the headings, as GitHub and the book make them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    for page in [*PAGES, *ROOT.glob("*/*/README.md")]:
        for target, anchor in re.findall(
            r"\]\(([^)#\s]*)#?([^)\s]*)\)", BLOCK.sub("", page.read_text(encoding="utf-8"))
        ):
            if not target.startswith("https://") and not is_gone(target):
                found = page.parent / target if target else page
                assert found.exists(), f"{page.name} links to {target}"
                assert not anchor or anchor in anchors(found), f"{page.name} links to #{anchor} of {found.name}"


def flags_of(command, *words):
    """The flags in the help of a command."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        command([*words, "--help"])
    entries = re.findall(r"^  (-\S.*?)(?:  |$)", printed.getvalue(), re.MULTILINE)  # what stands left of the texts
    return {*re.findall(r"--[a-z][\w.-]*", " ".join(entries))}


@pytest.fixture(scope="module")
def flags():
    """The flags of each command that is installed."""
    found = {name: set() for name in COMMANDS}
    for name in COMMANDS:
        with contextlib.suppress(UserError):
            found[name] = flags_of(function_of(name))
    for name, *words in (("learn", "build"), ("parse", "prepare"), ("parse", "test"), ("parse", "evalb")):
        with contextlib.suppress(UserError):
            found[name] |= flags_of(function_of(name), *words)
    return found


def is_gone(name):
    """Whether a path is of an addition that was deleted with its folder."""
    room, _, rest = name.lstrip("./").partition("/")
    return room == "additions" and not (ROOT / room / rest.partition("/")[0]).is_dir()


def test_commands_and_their_flags_exist(flags):
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        shell = [code for language, code in blocks(page) if language == "sh"]
        code = "\n".join([*shell, *re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))]).replace("\\\n", " ")
        for command, words in re.findall(r"(?:^|\| |-m )minitf ([a-z]+)([^|<>;#\n]*)", code, re.MULTILINE):
            assert command in flags, f"minitf {command}"
            if not flags[command]:  # its addition is not here
                continue
            unknown = {*re.findall(r"(?<= )--[a-z][\w.-]*", words)} - flags[command]
            assert unknown <= {"--presett"}, (
                f"minitf {command} has no {unknown}"
            )  # the misspelled one of troubleshooting.md


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


def test_names_in_files_exist():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for path, name in re.findall(r"`([\w.-]+/[\w/.-]+\.py):([\w.]+)`", text):
            assert is_gone(path) or name in names_in(path), f"{page.name} names {name} of {path}"


def test_files_named_exist():
    for page in [*PAGES, *ROOT.glob("*/*/README.md")]:
        rooms = "autograd|minitf|additions|tests|studies|examples|docs"
        for name in re.findall(rf"`((?:{rooms})/[\w./-]*)`", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists() or is_gone(name), f"{page.name} names {name}"
