"""The book: its contents; and, where Sphinx is installed (`make book`), the links of the site that is built of it."""

import re
import runpy
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from minitf import OptimizerConfig, RunConfig, TransformerConfig

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
CHAPTERS = sorted((DOCS / "book").glob("[0-9][0-9]-*.md"))


# ---- The pages as they are -----------------------------------------------------------------------------------------


def test_every_page_is_in_the_table_of_contents():
    linked = re.findall(r"\]\(([^):#]+\.md)\)", (DOCS / "index.md").read_text("utf-8"))
    assert PAGES - set(linked) == set()
    assert len(linked) == len(set(linked))


def test_every_chapter_ends_with_its_exercises_and_each_has_one_place():
    exercises = pytest.importorskip("additions.course.exercise", reason="the course is not here").ALL
    listed = []
    for chapter in CHAPTERS:
        end = chapter.read_text("utf-8").partition("\n## Exercises\n")[2]
        found = re.findall(r"^- ([\w-]+): (.+)$", end, re.MULTILINE)
        judged_elsewhere = chapter.name == "14-one-file.md"  # by the tests of the file
        assert found or judged_elsewhere, f"{chapter.name} has no exercise"
        listed += found
    assert len(CHAPTERS) == 14
    assert sorted(listed) == sorted((each.label, each.title) for each in exercises.values())


def test_the_reference_says_what_each_field_of_a_configuration_means():
    pytest.importorskip("sphinx", reason="sphinx is not installed: `make book` installs the extra `docs`")
    reference = runpy.run_path(str(DOCS / "book/extension/reference.py"))
    for config in (TransformerConfig, OptimizerConfig, RunConfig):
        lines = config.__doc__.splitlines()
        reference["convert_docstring"](None, "class", config.__name__, config, {}, lines)
        told = {line.split(":")[1] for line in lines if line.startswith(":")}
        assert told >= {each.name for each in fields(config) if "help" in each.metadata}
        assert len(told) > 5


# ---- The site ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `make book` does."""
    needed = ("sphinx", "myst_nb", "furo", "matplotlib", "hypothesis", "latex2mathml")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: `make book` installs the extra `docs`")
    output = tmp_path_factory.mktemp("site")
    options = ["-q", "-T", "-W", "--keep-going", "-E", "-c", DOCS / "book"]
    command = [sys.executable, "-m", "sphinx", *options, ROOT, output]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    return output


class Links(HTMLParser):
    """What a page refers to, its anchors, and its pictures without a description."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors, self.mute = [], set(), []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        is_picture = tag == "img" or (tag == "svg" and given.get("role") == "img") or tag == "iframe"
        if is_picture and not (given.get("alt") or given.get("aria-label") or given.get("title")):
            self.mute.append(self.get_starttag_text())
        for name, value in attributes:
            if name in ("href", "src") and value and not (tag == "use" or value.startswith(("data:", "mailto:"))):
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


@pytest.mark.slow
def test_no_link_is_dead_and_every_picture_is_described(site):
    found = {page: Links(page) for page in site.rglob("*.html")}
    assert len(found) > 100
    dead = []
    for page, links in found.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme:
                assert parts.scheme == "https", f"{page} links to {target}"
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not path.is_file() or (
                parts.fragment
                and path.suffix == ".html"
                and path in found
                and unquote(parts.fragment) not in found[path].anchors
            ):
                dead.append(f"{page.relative_to(site)} -> {target}")
    assert dead == []
    assert {page.name: links.mute for page, links in found.items() if links.mute} == {}
