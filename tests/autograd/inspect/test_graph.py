"""The graph as data, as DOT text and as a picture in which nothing overlaps."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, checkpoint
from autograd.inspect import draw, graph
from autograd.inspect.graph import COLOURS
from autograd.inspect.layout import layout
from minitf.config import TransformerConfig
from minitf.model.transformer import Transformer
from tests.helpers.leaves import random_leaf

SVG = "{http://www.w3.org/2000/svg}"


def two_layer_net():
    x, w, v = random_leaf(2, 3), random_leaf(4, 3, seed=1), random_leaf(5, 4, seed=2)
    hidden = ag.relu(ag.linear(x, w))
    return {"x": x, "w": w, "v": v}, hidden, ag.linear(hidden, v)


@pytest.fixture(scope="module")
def transformer_loss():
    """A whole model of 2 + 2 layers with its loss."""
    model = Transformer(TransformerConfig(layers=2, d_model=64, d_ff=128, heads=4, vocab_size=100))
    source, target = np.random.default_rng(0).integers(4, 100, (2, 2, 7))
    loss = ag.cross_entropy(model(source, target), target, label_smoothing=0.1)
    return loss, model.named_parameters()


# ---- What the graph says ----


def test_nodes_edges_and_names():
    names, hidden, y = two_layer_net()
    made = graph(y, {**names, "hidden": hidden})
    assert [node.title for node in made.nodes] == ["x", "w", "Linear", "Relu", "v", "Linear"]
    assert made.edges == [(0, 2), (1, 2), (2, 3), (3, 5), (4, 5)]
    assert [node.kind for node in made.nodes] == ["leaf", "leaf", "products", "activations", "leaf", "products"]
    assert [node.name for node in made.nodes] == [None, None, None, "hidden", None, None]
    assert made.nodes[2].outputs == (((2, 4), "float64"),)


def test_every_kind_of_op_has_a_colour():
    assert {op.__module__.removeprefix("autograd.ops.") for op in Op.registry.values()} <= COLOURS.keys()


def test_the_line_that_made_an_op():
    x = random_leaf(3)
    y = ag.exp(x)
    line = test_the_line_that_made_an_op.__code__.co_firstlineno + 2
    *_, node = graph(y).nodes
    assert node.where == (__file__, line)
    assert node.lines[-1] == f"saves 24 B · test_graph.py:{line}"


def test_the_line_is_found_beside_a_folder_that_begins_with_the_packages_name():
    source = "y = ag.exp(x)"
    path = ag.__path__[0] + "-experiments/script.py"
    scope = {"ag": ag, "x": random_leaf(3)}
    exec(compile(source, path, "exec"), scope)
    assert graph(scope["y"]).nodes[-1].where == (path, 1)


def test_saved_bytes_count_shared_memory_once_and_leaves_never():
    x = random_leaf(4)  # 32 bytes
    y = ag.exp(x)  # saves y
    z = ag.relu(y * y)  # Multiply saves y twice, Relu its own result
    made = graph(ag.square(x) + z)  # Square saves x, which is a leaf
    assert {node.title: node.saved_bytes for node in made.nodes} == {
        "leaf": 0,
        "Exp": 32,
        "Multiply": 0,
        "Relu": 32,
        "Square": 0,
        "Add": 0,
    }
    assert made.saved_bytes == 64


def test_views_of_leaves_are_not_saved_memory():
    w, x = random_leaf(100, 100), Tensor(np.ones((4, 100)))
    plain = graph((x @ w).sum()).saved_bytes
    assert graph((x @ w.T).sum()).saved_bytes == plain
    assert graph((x @ w.reshape(50, 200).reshape(100, 100)).sum()).saved_bytes == plain


def test_after_a_backward_pass_nodes_are_freed():
    x = random_leaf(4)
    y = ag.sum(ag.exp(x))
    y.backward()
    made = graph(y)
    assert [node.freed for node in made.nodes] == [False, True, True]
    assert made.saved_bytes == 0
    assert made.nodes[1].lines[-1].startswith("freed · ")


def test_a_checkpoint_saves_nothing_in_the_graph():
    x = random_leaf(4)
    assert graph(ag.exp(ag.exp(x))).saved_bytes == 64
    assert graph(checkpoint(lambda x: ag.exp(ag.exp(x)), x)).saved_bytes == 0


def test_several_results_meet_in_one_graph():
    x = random_leaf(4)
    middle = ag.exp(x)
    made = graph([middle * 2.0, middle + 1.0, x])
    assert sorted(node.title for node in made.nodes) == ["Add", "Exp", "Multiply", "leaf"]


def test_ops_with_several_outputs_show_them_all():
    a, b = ag.split(random_leaf(4, 2), 2)
    (split,) = [node for node in graph(a * b).nodes if node.title == "Split"]
    assert split.outputs == (((2, 2), "float64"), ((2, 2), "float64"))


def test_a_tensor_without_graph_is_an_error():
    with pytest.raises(ValueError, match="no graph: it was made under no_grad"):
        graph(Tensor(np.ones(3)) * 2.0)


def test_long_chains_need_no_recursion():
    y = x = random_leaf(1)
    for _ in range(5000):
        y = y + 1.0
    assert len(graph(y, {"x": x}).nodes) == 5001


# ---- DOT ----


def test_dot_text():
    names, _, y = two_layer_net()
    dot = graph(y * y, names).dot()
    assert dot.startswith("digraph {\n")
    assert dot.endswith("}\n")
    assert re.search(r'n2 \[label="Linear\\n\[2, 4\] float64\\nsaves 0 B · test_graph.py:\d+", tooltip=', dot)
    assert 'n0 [label="x\\n[2, 3] float64", shape=ellipse' in dot
    assert "  n2 -> n3;" in dot
    assert '  n5 -> n6 [label="×2"];' in dot


def test_dot_escapes_what_names_may_hold():
    x = random_leaf(1)
    assert r'label="say \"x\" \\ twice' in graph(x * 2.0, {'say "x" \\ twice': x}).dot()


# ---- The picture ----


def boxes_and_texts(svg):
    """Rectangles (left, top, right, bottom) of the nodes, and of the lines of text in each."""
    found = []
    for group in svg.iter(f"{SVG}g"):
        if group.get("class") != "node":
            continue
        rect = group.find(f"{SVG}rect")
        left, top, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
        lines = []
        for text in group.findall(f"{SVG}text"):
            size = float(text.get("font-size", 11))
            centre, baseline, half = float(text.get("x")), float(text.get("y")), len(text.text) * size * 0.602 / 2
            lines.append((centre - half, baseline - 0.8 * size, centre + half, baseline + 0.25 * size))
        found.append(((left, top, left + width, top + height), lines))
    return found


def curves(svg):
    """Points along every arrow, from the path of its Bézier curves."""
    for path in svg.iter(f"{SVG}path"):
        if path.get("marker-end") is None:
            continue
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d"))]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        way = []
        for i in range(0, len(points) - 1, 3):
            p = np.array(points[i : i + 4])
            t = np.linspace(0, 1, 21)[:, None]
            way.extend((1 - t) ** 3 * p[0] + 3 * t * (1 - t) ** 2 * p[1] + 3 * t**2 * (1 - t) * p[2] + t**3 * p[3])
        yield np.array(way)


def overlap(a, b, gap=0.0):
    return a[0] < b[2] + gap and b[0] < a[2] + gap and a[1] < b[3] + gap and b[1] < a[3] + gap


def check_picture(text, nodes, arrows):
    svg = ET.fromstring(text)
    found = boxes_and_texts(svg)
    ways = list(curves(svg))
    assert len(found) == nodes
    assert len(ways) == arrows
    for (a, _), (b, _) in combinations(found, 2):
        assert not overlap(a, b, gap=5), "boxes overlap"
    for box, lines in found:
        for line in lines:
            assert box[0] <= line[0], "text leaves its box"
            assert line[2] <= box[2]
            assert box[1] <= line[1]
            assert line[3] <= box[3]
    for way in ways:
        assert (np.diff(way[:, 1]) >= -1e-6).all(), "an arrow goes up"
        starts = [box for box, _ in found if abs(box[3] - way[0, 1]) < 0.2 and box[0] <= way[0, 0] <= box[2]]
        ends = [box for box, _ in found if abs(box[1] - way[-1, 1]) < 0.2 and box[0] <= way[-1, 0] <= box[2]]
        assert len(starts) == len(ends) == 1, "an arrow ends beside its box"
        for box, _ in found:
            inside = (way > np.array(box[:2]) + 0.5) & (way < np.array(box[2:]) - 0.5)
            assert not inside.all(axis=1).any(), "an arrow runs through a box"
    width, height = float(svg.get("width")), float(svg.get("height"))
    shift = [g.get("transform") for g in svg.iter(f"{SVG}g") if g.get("transform")][-1]
    right, down = map(float, re.findall(r"[\d.]+", shift))
    for box, _ in found:
        assert min(box[:2]) >= 0, "a box leaves the picture"
        assert box[2] + right <= width
        assert box[3] + down <= height


def test_the_picture_of_a_whole_transformer(transformer_loss):
    loss, names = transformer_loss
    made = graph(loss, names)
    assert len(made.nodes) > 140
    svg = made.svg()
    check_picture(svg, len(made.nodes), len(set(made.edges)))
    text = "".join(ET.fromstring(svg).itertext())
    for name in ("ScaledDotProductAttention", "CrossEntropy", "self_attention.query.weight", "[2, 7, 64] float32"):
        assert name in text
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")  # nothing from elsewhere


@pytest.mark.parametrize("seed", range(8))
def test_pictures_of_random_graphs(seed):
    rng = np.random.default_rng(seed)
    made = [random_leaf(2, 2) for _ in range(rng.integers(1, 4))]
    for _ in range(rng.integers(2, 40)):
        a, b = (made[rng.integers(max(0, len(made) - 12), len(made))] for _ in range(2))
        made.append([ag.add, ag.matmul, lambda a, b: ag.concatenate([a, b])[:2]][rng.integers(3)](a, b))
    shown = graph(made[-3:], {"a" * int(rng.integers(1, 60)): made[0]})
    check_picture(shown.svg(), len(shown.nodes), len(set(shown.edges)))


def test_one_leaf_is_a_picture_too():
    check_picture(graph(random_leaf(2)).svg(), 1, 0)


def test_few_arrows_cross_in_the_picture_of_a_transformer(transformer_loss):
    """By chance, hundreds would: what can be drawn side by side is."""
    loss, names = transformer_loss
    ways = []
    for way in curves(ET.fromstring(graph(loss, names).svg())):
        ways.append(SimpleNamespace(x=way[:, 0], y=way[:, 1]))
    crossings = 0
    for a, b in combinations(ways, 2):
        low, high = max(a.y[0], b.y[0]), min(a.y[-1], b.y[-1])
        if low < high and (a.x[0], a.y[0]) != (b.x[0], b.y[0]):
            y = np.linspace(low + 1, high - 1, 200)
            side = np.sign(np.interp(y, a.y, a.x) - np.interp(y, b.y, b.x))
            crossings += int((np.diff(side[side != 0]) != 0).sum())
    assert crossings < 30


def test_layout_of_nothing():
    assert layout([], []).width == 0


def test_edges_of_low_boxes_go_down_beside_high_ones():
    """Every box leads to every box below, so some edge has to leave sideways, right beside the high box."""
    sizes = [(50.0, 20.0), (50.0, 300.0), (50.0, 20.0), (50.0, 20.0), (50.0, 20.0), (50.0, 20.0)]
    places = layout(sizes, [(a, b) for a in range(3) for b in range(3, 6)])
    for way in places.routes.values():
        for (x0, y0), (x1, y1) in pairwise(way):
            for t in np.linspace(0, 1, 101):
                x, y = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
                for (left, top), (width, height) in zip(places.corners, sizes, strict=True):
                    assert not (left < x < left + width and top + 0.01 < y < top + height - 0.01)


def test_draw_writes_what_the_ending_says(tmp_path):
    names, _, y = two_layer_net()
    draw(y, tmp_path / "graph.svg", names)
    draw(y, str(tmp_path / "graph.dot"), names)
    assert ET.parse(tmp_path / "graph.svg").getroot().tag == f"{SVG}svg"
    assert (tmp_path / "graph.dot").read_text(encoding="utf-8").startswith("digraph")
    with pytest.raises(ValueError, match=r"'graph\.png' ends in neither \.svg nor \.dot"):
        draw(y, tmp_path / "graph.png")


def test_names_are_escaped_in_the_picture():
    x = random_leaf(1)
    text = graph(x * 2.0, {"a<b>&c": x}).svg()
    assert "a<b>&c" in "".join(ET.fromstring(text).itertext())
