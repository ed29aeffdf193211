"""The picture of a graph, in which nothing overlaps."""

from itertools import combinations, pairwise

import numpy as np
import pytest

import autograd as ag
from additions.inspect import graph
from additions.pages import GraphFigure, draw_graph
from minitf.config import TransformerConfig
from minitf.model.transformer import Transformer
from tests.helpers.leaves import random_leaf

HOSTILE = "</script><script>document.title='gone'</script>"


@pytest.fixture(scope="module")
def transformer_loss():
    """A whole model of 2 + 2 layers with its loss."""
    model = Transformer(TransformerConfig(layers=2, d_model=64, d_ff=128, heads=4, vocab_size=100))
    source, target = np.random.default_rng(0).integers(4, 100, (2, 2, 7))
    loss = ag.cross_entropy(model(source, target), target, label_smoothing=0.1)
    return loss, model.named_parameters()


# ---- The picture in a browser ----

BOXES = """
    const corners = ({ x, y, width, height }) => [x, y, x + width, y + height];
    return [...document.querySelectorAll(arguments[0] + " .node")].map((node) => ({
        box: corners(node.querySelector("rect").getBBox()),
        texts: [...node.querySelectorAll("text")].map((text) => corners(text.getBBox())) }))"""
ARROWS = """
    return [...document.querySelectorAll(arguments[0] + " path[marker-end]")].map((path) => {
        const length = path.getTotalLength();
        const points = Array.from({ length: 41 }, (_, i) => path.getPointAtLength(length * i / 40));
        return points.map(({ x, y }) => [x, y]); })"""
SIZE = "return document.querySelector(arguments[0]).getAttribute('viewBox')"


def overlap(a, b, gap=0.0):
    return a[0] < b[2] + gap and b[0] < a[2] + gap and a[1] < b[3] + gap and b[1] < a[3] + gap


def check_picture(window, made, svg="svg"):
    found = window.run(BOXES, svg)
    ways = window.run(ARROWS, svg)
    assert len(found) == len(made.nodes)
    assert len(ways) == len(set(made.edges))
    for a, b in combinations([each["box"] for each in found], 2):
        assert not overlap(a, b, gap=5), "boxes overlap"
    for each in found:
        box = each["box"]
        for line in each["texts"]:
            assert box[0] <= line[0] < line[2] <= box[2], "text leaves its box"
            assert box[1] - 1 <= line[1] < line[3] <= box[3] + 1
    for way in ways:
        assert all(after[1] >= before[1] - 1e-6 for before, after in pairwise(way)), "an arrow goes up"
        for x, y in (way[0], way[-1]):
            assert any(b[0] - 1 <= x <= b[2] + 1 and b[1] - 1 <= y <= b[3] + 1 for b in (each["box"] for each in found))
    _, _, width, height = map(float, window.run(SIZE, svg).split())
    for each in found:
        assert min(each["box"]) >= 0, "a box leaves the picture"
        assert each["box"][2] <= width
        assert each["box"][3] <= height


@pytest.mark.look
@pytest.mark.heavy
def test_the_picture_of_a_whole_transformer(transformer_loss, chromium, tmp_path):
    loss, names = transformer_loss
    made = graph(loss, names)
    assert len(made.nodes) > 100
    path = tmp_path / "graph.html"
    draw_graph(loss, path, names)
    chromium.complaints()
    chromium.requests()
    chromium.open(path)
    check_picture(chromium, made)
    text = chromium.run("return document.querySelector('svg').textContent")
    for name in ("ScaledDotProductAttention", "CrossEntropy", "self_attention.query.", "[2, 7, 64] float32"):
        assert name in text
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []


@pytest.mark.heavy
def test_a_notebook_shows_pictures_of_any_graphs(chromium, tmp_path):
    """Several in one page, of random graphs, of one leaf, and with names that hold markup."""
    graphs = [graph(random_leaf(2)), graph(random_leaf(1) * 2.0, {})]
    for seed in range(6):
        rng = np.random.default_rng(seed)
        made = [random_leaf(2, 2) for _ in range(rng.integers(1, 4))]
        for _ in range(rng.integers(2, 40)):
            a, b = (made[rng.integers(max(0, len(made) - 12), len(made))] for _ in range(2))
            made.append([ag.add, ag.matmul, lambda a, b: ag.concatenate([a, b])[:2]][rng.integers(3)](a, b))
        graphs.append(graph(made[-3:], {"a" * int(rng.integers(1, 60)): made[0], HOSTILE: made[-1]}))
    path = tmp_path / "notebook.html"
    outputs = [f'<div id="cell-{i}">{GraphFigure(each)._repr_html_()}</div>' for i, each in enumerate(graphs)]
    path.write_text("<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,>" + "".join(outputs), "utf-8")
    chromium.complaints()
    chromium.open(path)
    for i, each in enumerate(graphs):
        check_picture(chromium, each, f"#cell-{i} svg")
    assert HOSTILE in chromium.run("return document.querySelector('#cell-2').textContent")
    assert chromium.run("return document.title") == ""
    assert chromium.complaints() == []
