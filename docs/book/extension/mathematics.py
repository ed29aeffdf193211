"""Formulas as MathML, which browsers set by themselves: no script, and nothing from the network."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

THIN_SPACE = '<mspace width="0.167em" />'


def to_mathml(tex: str, display: str) -> str:
    """display: "inline" or "block".  Raises: ValueError for LaTeX that the converter does not know."""
    result = convert(tex.replace("{aligned}", "{align*}"), display=display)
    if "\\" in result or "<mi>&</mi>" in result:  # it passes on what it does not know, as it is
        raise ValueError(f"no MathML for the formula {tex}")
    result = result.replace('stretchy="false">&#x0007C;', 'stretchy="false" lspace="0" rspace="0">&#x0007C;')  # |x|
    # names of functions: no space around them, but a thin one before an argument without parentheses
    result = re.sub(r"<mo>([A-Za-z]{2,})</mo>", r"<mi>\1</mi>", result)
    return re.sub(r"(<mi>(?:log|sin|cos|tanh)</mi>)(?=<m(?:i|n|sub|under|frac)\b)", rf"\1{THIN_SPACE}", result)


def show(writer: Any, node: nodes.math) -> None:
    writer.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def show_displayed(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{to_mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode
