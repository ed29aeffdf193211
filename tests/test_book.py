"""The book: its contents; and, where Sphinx is installed (`make book`), the site that is built of it, in a browser."""

import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from additions.course.exercise import ALL
from tests.helpers.browser import browser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
CHAPTERS = sorted((DOCS / "book").glob("[0-9][0-9]-*.md"))
WIDTHS = (320, 400, 1024, 1280, 1366, 1600, 2560)
SHOTS = ["docs/index.html", "docs/paper-map.html", "docs/book/api-ops.html", "docs/book/11-translation.html"]


# ---- The pages as they are -----------------------------------------------------------------------------------------


def test_every_page_is_in_the_table_of_contents():
    linked = re.findall(r"\]\(([^):#]+\.md)\)", (DOCS / "index.md").read_text("utf-8"))
    assert PAGES - set(linked) == set()
    assert len(linked) == len(set(linked))


def test_every_chapter_ends_with_its_exercises_and_each_has_one_place():
    listed = []
    for chapter in CHAPTERS:
        end = chapter.read_text("utf-8").partition("\n## Exercises\n")[2]
        found = re.findall(r"^- ([\w-]+): (.+)$", end, re.MULTILINE)
        judged_elsewhere = chapter.name == "14-one-file.md"  # by the tests of the file
        assert found or judged_elsewhere, f"{chapter.name} has no exercise"
        listed += found
    assert len(CHAPTERS) == 14
    assert sorted(listed) == sorted((each.label, each.title) for each in ALL.values())


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


@pytest.mark.slow
def test_outputs_are_kept_while_the_code_is_the_same(tmp_path, monkeypatch):
    needs_sphinx()
    page = tmp_path / "source" / "docs" / "index.md"
    page.parent.mkdir(parents=True)

    def shown(text, code):
        page.write_text(f"# {text}\n\n```python\n{code}\n```\n", "utf-8")
        result = build(tmp_path / "source", tmp_path / "site")
        assert result.returncode == 0, result.stderr
        return re.findall(r"\d{19}", (tmp_path / "site" / "docs" / "index.html").read_text("utf-8"))

    first = shown("Page", "import time\nprint(time.time_ns())")
    assert len(first) == 1
    assert shown("Other text", "import time\nprint(time.time_ns())") == first
    assert shown("Other text", "import time\n\nprint(time.time_ns())") != first

    monkeypatch.syspath_prepend(str(DOCS / "book"))
    from extension import cache

    monkeypatch.setattr(cache, "ROOT", tmp_path)
    names = []
    for text in ("y = x", "y = 2 * x", "y = x"):
        (tmp_path / "autograd").mkdir(exist_ok=True)
        (tmp_path / "autograd" / "ops.py").write_text(text)
        names.append(cache.kept(SimpleNamespace(doctreedir=tmp_path)).name)
    assert names[0] == names[2] != names[1]


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


CUT_OFF = """return [...document.querySelectorAll("article pre")]
    .filter(code => code.scrollWidth > code.clientWidth + 1)
    .map(code => Array.from(code.innerText).slice(0, 60).join(""))"""
SMALLEST_TEXT = """return Math.min(...[...document.querySelectorAll("article svg text")].map(text => {
    const matrix = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(matrix.a, matrix.b);
}))"""


WIDE_FORMULAS = """return [...document.querySelectorAll("article math[display=block]")]
    .filter(formula => formula.scrollWidth > formula.clientWidth + 1).map(formula => formula.textContent)"""


@pytest.mark.slow
def test_code_and_pictures_of_chapters_can_be_read(site):
    """No line of code is cut off on a laptop; on a telephone, no formula is, and no label of a picture is too small."""
    with browser() as window:
        cut, small = [], []
        for page in sorted(site.glob("docs/book/[01]*.html")):
            window.open(page)
            for width in (1280, 1366, 1600):
                window.viewport(width, 900)
                cut += [(page.stem, width, code) for code in window.run(CUT_OFF)]
            window.viewport(400, 900)
            cut += [(page.stem, 400, formula) for formula in window.run(WIDE_FORMULAS)]
            if (size := window.run(SMALLEST_TEXT)) and size < 8:
                small.append((page.stem, size))
    assert cut == []
    assert small == []


@pytest.mark.slow
def test_no_page_is_wider_than_its_window(site):
    with browser() as window:
        wide = []
        for page in [*site.glob("*.html"), *site.glob("docs/**/*.html"), *site.glob("source/autograd/*.html")]:
            window.open(page)
            for width in WIDTHS:
                window.viewport(width, 900)
                if window.run("return document.documentElement.scrollWidth > innerWidth"):
                    wide.append((str(page.relative_to(site)), width))
    assert wide == []


@pytest.mark.slow
def test_a_page_in_a_chapter_can_be_played_and_fills_the_screen_on_a_key(site):
    frames = list(re.findall(r"<!-- playable ", "".join(chapter.read_text("utf-8") for chapter in CHAPTERS)))
    assert len(frames) >= 4
    with browser() as window:
        window.open(site / "docs/book/02-backward.html")
        window.run("document.querySelector('.playable').scrollIntoView()")
        window.wait_for("document.querySelector('.playable button')")
        window.press("f")
        window.wait_for("document.fullscreenElement?.tagName === 'IFRAME'")
        assert window.complaints() == []
        for page in sorted((site / "playable").glob("*.html")):
            window.open(page)
            window.wait_for("document.body.dataset.ready")
            assert window.complaints() == [], page


NOTE_FOCUS = """window.way = part => part === document.body ? ""
        : `${way(part.parentElement)} ${[...part.parentElement.children].indexOf(part)}`;
    window.reached = new Map();  // by the place in the page, since a page may draw its parts again
    document.addEventListener("focusin", event => reached.set(way(event.target), event.target));"""
UNREACHED = """const names = part => part.name || Object.keys(part.dataset).join();
    const ofOneGroup = (a, b) => a.tagName === b.tagName && names(a) && names(a) === names(b);
    return [...document.querySelectorAll("button, input, select, textarea, a[href], summary")]
        .filter(control => control.checkVisibility() && !control.disabled && !reached.has(way(control))
            && !control.closest("#phases")  // Shift and an arrow key go from phase to phase
            && !((control.type === "radio" || control.tabIndex < 0)
                && [...reached.values()].some(other => ofOneGroup(other, control))))
        .map(control => control.outerHTML.slice(0, 120))"""
FOR_THE_MOUSE_ALONE = """return [...document.querySelectorAll("body *")]
    .filter(part => part.checkVisibility() && getComputedStyle(part).cursor === "pointer"
        && getComputedStyle(part.parentElement).cursor !== "pointer"
        && !part.closest("button, a, label, summary, select, input, [tabindex]")
        && !part.querySelector("button, a, [tabindex]"))
    .map(part => part.outerHTML.slice(0, 120))"""


@pytest.mark.slow
def test_the_tab_key_reaches_every_control_of_an_interactive_page(site):
    """Of a group of radio buttons, or of a table of buttons, it reaches one; the arrow keys reach the others."""
    pages = sorted((site / "playable").glob("*.html"))
    assert len(pages) >= 4
    with browser() as window:
        for page in pages:
            window.open(page)
            window.wait_for("document.body.dataset.ready")
            window.run(NOTE_FOCUS)
            window.press(*["Tab"] * 100)
            assert window.run("return reached.size") > 5
            found = window.run(UNREACHED), window.run(FOR_THE_MOUSE_ALONE)
            assert found == ([], []), page


@pytest.mark.slow
def test_search_without_a_network(site):
    with browser() as window:
        window.open(site / "search.html")
        window.run("location.search = '?q=unbroadcast'")
        window.wait_for("document.querySelectorAll('#search-results li a').length > 0")
        assert window.complaints() == []
