"""Source files as pages: `autograd/engine.py` and `autograd/engine.py:Op.save` in the text lead to the code."""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

ROOT = Path(__file__).parents[3]
REFERENCE = re.compile(r"(?P<path>[\w/.-]+\.(?:py|cu|sh))(?::(?P<name>[\w.]+))?")


@functools.cache
def definitions(path: str) -> dict[str, tuple[int, int]]:
    """First and last line of every class, function and variable of a module, those of a class as Class.name."""
    found: dict[str, tuple[int, int]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            for name in _names(node):
                found.setdefault(prefix + name, (first, node.end_lineno or first))
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    if path.endswith(".py"):
        visit(ast.parse((ROOT / path).read_text("utf-8")).body, "")
    return found


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def code_of(reference: str) -> str:
    """The lines of a definition, or of a whole file."""
    path, _, name = reference.partition(":")
    lines = (ROOT / path).read_text("utf-8").splitlines()
    if not name:
        return "\n".join(lines)
    first, last = definitions(path)[name]
    return inspect.cleandoc("\n" + "\n".join(lines[first - 1 : last]))


def place_of(text: str) -> str | None:
    """The page and anchor of what the text names: "source/autograd/engine.py.html#Op"; None if it names no file."""
    match = REFERENCE.fullmatch(text)
    if not match or "/" not in match["path"] or not (ROOT / match["path"]).is_file():
        return None
    if match["name"] and match["name"] not in definitions(match["path"]):
        raise LookupError(f"{match['path']} has no {match['name']}")
    return f"source/{match['path']}.html" + (f"#{match['name']}" if match["name"] else "")


class LinkSources(SphinxPostTransform):
    """Turn the names of files and of what is in them, written as code, into links."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        here = self.app.builder.get_target_uri(self.env.docname)
        for literal in list(self.document.findall(nodes.literal)):
            place = place_of(literal.get("place", literal.astext()))
            if place and not isinstance(literal.parent, nodes.reference):
                referenced(self.app).add(place.partition("#")[0])
                link = nodes.reference("", "", internal=True, refuri=relative_uri(here, place))
                literal.replace_self(link)
                link += literal
                if any(isinstance(each, nodes.entry) for each in _parents(link)):  # in a table, the name says enough
                    literal[:] = [nodes.Text(literal.astext().rpartition(":")[2])]


def _parents(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def referenced(app: Sphinx) -> set[str]:
    """The pages of source files that other pages lead to."""
    if not hasattr(app, "source_pages"):
        app.source_pages = set()  # type: ignore[attr-defined]
    return app.source_pages  # type: ignore[attr-defined, no-any-return]


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """The code of what the API reference describes, seen from a page in docs/book/."""
    place = _place_of_object(info["module"], info["fullname"])
    return f"../../{place}" if place else None


def _place_of_object(module: str, fullname: str) -> str | None:
    found: Any = importlib.import_module(module)
    for name in fullname.split("."):
        if not hasattr(found, name):  # a field of a dataclass without a default
            return None
        found = getattr(found, name)
    found = inspect.unwrap(found.fget if isinstance(found, property) else found)
    try:
        path = Path(inspect.getsourcefile(found) or "").resolve()
    except TypeError:
        return None
    if not path.is_relative_to(ROOT):
        return None
    name = found.__qualname__
    file = str(path.relative_to(ROOT))
    return f"source/{file}.html#{name}" if name in definitions(file) else f"source/{file}.html"


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """The pages that are referenced, highlighted, with an anchor at each definition."""
    described = {obj.docname for obj in app.env.domains.python_domain.objects.values()}
    if described:
        for name, entry in app.env.domains.python_domain.objects.items():
            if entry.objtype in ("function", "class", "exception", "method", "property"):
                referenced(app).update(_page_of(name))
    for page in sorted(referenced(app)):
        path = page.removeprefix("source/").removesuffix(".html")
        yield f"source/{path}", {"title": path, "body": _body(path)}, "page.html"


def _page_of(dotted: str) -> list[str]:
    """The page of an object of the API reference, given by its full name."""
    parts = dotted.split(".")
    for i in range(len(parts) - 1, 0, -1):
        try:
            place = _place_of_object(".".join(parts[:i]), ".".join(parts[i:]))
        except ImportError:
            continue
        return [place.partition("#")[0]] if place else []
    return []


def _body(path: str) -> str:
    text = (ROOT / path).read_text("utf-8")
    lexer = get_lexer_for_filename("kernels.cpp" if path.endswith(".cu") else path)
    code = highlight(text, lexer, HtmlFormatter(linespans="line", cssclass="highlight"))
    anchors: dict[int, str] = {}
    for name, (first, _) in definitions(path).items():
        anchors[first] = anchors.get(first, "") + f'<a id="{escape(name)}"></a>'
    code = re.sub(r'<span id="line-(\d+)">', lambda m: anchors.get(int(m[1]), "") + m[0], code)
    return f'<h1>{escape(path)}</h1>\n<div class="source-page">{code}</div>'
