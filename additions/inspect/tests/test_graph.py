"""The graph as data."""

import numpy as np
import pytest

import autograd as ag
from additions.inspect import graph
from additions.inspect.graph import COLOURS, kind_of
from autograd import Op, Tensor
from tests.helpers.leaves import random_leaf


def two_layer_net():
    x, w, v = random_leaf(2, 3), random_leaf(4, 3, seed=1), random_leaf(5, 4, seed=2)
    hidden = ag.relu(ag.linear(x, w))
    return {"x": x, "w": w, "v": v}, hidden, ag.linear(hidden, v)


# ---- What the graph says ----


def test_nodes_edges_and_names():
    names, hidden, y = two_layer_net()
    made = graph(y, {**names, "hidden": hidden})
    assert [node.title for node in made.nodes] == ["x", "w", "Linear", "Relu", "v", "Linear"]
    assert made.edges == [(0, 2), (1, 2), (2, 3), (3, 5), (4, 5)]
    assert [node.kind for node in made.nodes] == ["leaf", "leaf", "nn", "nn", "leaf", "nn"]
    assert [node.name for node in made.nodes] == [None, None, None, "hidden", None, None]
    assert made.nodes[2].outputs == (((2, 4), "float64"),)


def test_every_kind_of_op_has_a_colour():
    assert {kind_of(op) for op in Op.registry.values()} <= COLOURS.keys()


def test_the_line_that_made_an_op():
    x = random_leaf(3)
    y = ag.exp(x)
    line = test_the_line_that_made_an_op.__code__.co_firstlineno + 2
    *_, node = graph(y).nodes
    assert node.where == (__file__, line)
    assert node.lines[-1] == f"saves 24 B · test_graph.py:{line}"


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


def test_a_tensor_without_graph_is_an_error():
    with pytest.raises(ValueError, match="no graph: it was made under no_grad"):
        graph(Tensor(np.ones(3)) * 2.0)
