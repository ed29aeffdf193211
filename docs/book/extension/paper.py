"""docs/paper-map.md in the book: each statement of the paper beside the code that implements it."""

from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

from extension.sources import code_of

COLUMNS = ["the paper says", "done by", "shown by"]


class CodeBesidePaper(SphinxTransform):
    """Replace each row of the page's tables by the statement, its tests and its code."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for table in list(self.document.findall(nodes.table)):
            head, *rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
            if [entry.astext() for entry in head] == COLUMNS:
                table.replace_self([_beside(*row) for row in rows])


def _beside(says: nodes.entry, done: nodes.entry, shown: nodes.entry) -> nodes.container:
    left = nodes.container(classes=["paper-says"])
    left += [*says.children, nodes.paragraph("", "shown by", classes=["paper-shown"]), *shown.children]
    for literal in shown.findall(nodes.literal):
        literal["place"] = literal.astext()
        literal[:] = [nodes.Text(literal.astext().rpartition(":")[2])]
    right = nodes.container(classes=["paper-code"])
    for literal in done.findall(nodes.literal):
        code = code_of(literal.astext())
        right += nodes.paragraph("", "", nodes.literal("", literal.astext()), classes=["paper-name"])
        right += nodes.literal_block(code, code, language="python")
    return nodes.container("", left, right, classes=["paper-row"])
