"""The book: its contents; and, where Sphinx is installed (`make book`), the site that is built of it, in a browser."""

import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
CHAPTERS = sorted((DOCS / "book").glob("[0-9][0-9]-*.md"))
SHOTS = ["docs/index.html", "docs/paper-map.html", "docs/book/api-ops.html", "docs/book/11-translation.html"]


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


# ---- The site ------------------------------------------------------------------------------------------------------


def build(source, output):
    """Build the site of a directory as `make book` does; the finished process."""
    options = ["-q", "-T", "-W", "--keep-going", "-E", "-c", DOCS / "book"]
    command = [sys.executable, "-m", "sphinx", *options, source, output]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    needs_sphinx()
    output = tmp_path_factory.mktemp("site")
    start = time.monotonic()
    result = build(ROOT, output)
    assert result.returncode == 0, result.stderr
    print(f"built in {time.monotonic() - start:.0f} s")
    return output


def needs_sphinx():
    needed = ("sphinx", "myst_nb", "furo", "matplotlib", "hypothesis", "latex2mathml")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: `make book` installs the extra `docs`")


@pytest.mark.slow
def test_a_block_that_fails_fails_the_build(tmp_path):
    needs_sphinx()
    folder = tmp_path / "source" / "docs"
    folder.mkdir(parents=True)
    page = folder / "index.md"
    page.write_text("# Page\n\n```python\nprint(6 * 7)\n```\n\n```\n0\n```\n", "utf-8")
    assert build(folder.parent, tmp_path / "right").returncode == 0
    shown = (tmp_path / "right" / "docs" / "index.html").read_text("utf-8")
    assert re.search(r"<pre>(<span></span>)?42\n", shown), "the output is computed, not copied"
    page.write_text("# Page\n\n```python\n6 / 0\n```\n", "utf-8")
    result = build(folder.parent, tmp_path / "wrong")
    assert result.returncode != 0
    assert "ZeroDivisionError" in result.stderr


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


EMPTY = """return [...document.querySelectorAll("article img, article svg[role=img]")].filter(picture => {
    const box = picture.getBoundingClientRect();
    return box.width < 40 || box.height < 40 || (picture.tagName === "IMG" && !picture.naturalWidth);
}).map(picture => picture.outerHTML.slice(0, 200))"""
LUMINANCE = """const [a, b] = ["color", "backgroundColor"].map(name => {
    const parts = getComputedStyle(document.body)[name].match(/[\\d.]+/g).map(Number);
    return 0.3 * parts[0] + 0.6 * parts[1] + 0.1 * parts[2];
}); return [a, b]"""


@pytest.mark.slow
def test_in_a_browser(site, tmp_path):
    """No page reports an error or asks for anything but files; pictures are not empty; light and dark."""
    browser = pytest.importorskip("additions.pages.tests.browser", reason="the pages are not here").browser
    with browser() as window:
        for page in [*site.glob("*.html"), *site.glob("docs/**/*.html"), *site.glob("source/autograd/*.html")]:
            window.open(page)
            window.wait_for("document.readyState === 'complete'")
            assert window.run(EMPTY) == [], page
            assert window.complaints() == [], page
            outside = [url for url in window.requests() if not url.startswith(("file:", "data:"))]
            assert outside == [], page
        for name in SHOTS:
            for colours in ("light", "dark"):
                window.prefer(colours)
                window.open(site / name)
                ink, paper = window.run(LUMINANCE)
                assert ink < 80 < 200 < paper if colours == "light" else paper < 80 < 180 < ink
                window.screenshot(tmp_path / f"{Path(name).stem}-{colours}.png")
            window.open(site / name, width=400, height=800)
            assert window.run("return document.documentElement.scrollWidth <= innerWidth"), f"{name} on a phone"
            window.screenshot(tmp_path / f"{Path(name).stem}-phone.png")
