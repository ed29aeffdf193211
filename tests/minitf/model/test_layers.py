"""Modules: the names, order and sharing of parameters, starting values, and each layer against its formula."""

import math

import numpy as np
import pytest

from autograd import Tensor, random
from minitf import (
    Embedding,
    FeedForward,
    Initializer,
    LayerNorm,
    Linear,
    Module,
    MultiHeadAttention,
    Parameter,
    UserError,
)  # fmt: skip


def parameter(*values):
    return Parameter(np.array(values, np.float64))


class Leaf(Module):
    def __init__(self, *values):
        self.weight = parameter(*values)
        self.size = len(values)  # neither a parameter nor a module


class Tree(Module):
    def __init__(self):
        self.first = Leaf(1.0)
        self.own = parameter(2.0, 3.0)
        self.branches = [Leaf(4.0), Leaf(5.0, 6.0)]
        self.table = Tensor(np.zeros(3))  # fixed: not learned
        self.last = Leaf(7.0)


# ---- Parameters ----


def test_names_tell_the_way_and_keep_an_order():
    """A module's own parameters come first, then its children, in the order in which they were assigned."""
    named = Tree().named_parameters()
    assert list(named) == ["own", "first.weight", "branches.0.weight", "branches.1.weight", "last.weight"]
    assert [p.tolist() for p in named.values()] == [[2, 3], [1], [4], [5, 6], [7]]
    assert list(Tree().named_parameters()) == list(named)


def test_parameters_and_their_count():
    tree = Tree()
    assert [id(p) for p in tree.parameters()] == [id(p) for p in tree.named_parameters().values()]
    assert tree.parameter_count() == 7
    assert all(p.requires_grad for p in tree.parameters())


def test_a_shared_parameter_is_listed_once_under_its_first_name():
    tree = Tree()
    tree.last = tree.first
    tree.branches[1].weight = tree.own
    assert list(tree.named_parameters()) == ["own", "first.weight", "branches.0.weight"]
    assert tree.parameter_count() == 4


def test_parts_may_stand_in_lists_tuples_and_dicts():
    tree = Tree()
    tree.branches = {"left": Leaf(4.0), "right": (Leaf(5.0), [parameter(6.0)])}
    names = ["own", "first.weight", "branches.right.1.0", "branches.left.weight", "branches.right.0.weight"]
    assert sorted(tree.named_parameters()) == sorted([*names, "last.weight"])
    assert not any(module.training for module in tree.eval().modules())


def test_train_and_eval_reach_every_module():
    tree = Tree()
    modules = [tree, tree.first, tree.last, *tree.branches]
    assert all(module.training for module in modules)
    assert tree.eval() is tree
    assert not any(module.training for module in modules)
    assert tree.train() is tree
    assert all(module.training for module in modules)
    tree.branches[0].eval()
    assert [module.training for module in modules] == [True, True, True, False, True]
    assert Tree().training  # another one is not switched


# ---- Loading ----


def arrays_of(module):
    return {name: p.data.copy() for name, p in module.named_parameters().items()}


def test_loading_copies_into_the_parameters():
    tree = Tree()
    arrays = {name: a + 10 for name, a in arrays_of(tree).items()}
    parameters = tree.parameters()
    places = [p.data for p in parameters]
    tree.load_parameters({name: arrays[name] for name in reversed(arrays)})
    assert [p.tolist() for p in parameters] == [[12, 13], [11], [14], [15, 16], [17]]
    assert all(p.data is place for p, place in zip(parameters, places, strict=True))
    arrays["own"][...] = 0
    assert tree.own.tolist() == [12, 13]


def test_loading_is_noticed_by_graphs_of_the_old_values():
    layer = Linear(2, 2, Initializer(0))
    y = layer(Tensor(np.ones((1, 2), np.float32), requires_grad=True))
    layer.load_parameters(arrays_of(layer))
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward(np.ones((1, 2)))


def test_names_that_differ_are_refused_and_nothing_is_loaded():
    tree = Tree()
    before = arrays_of(tree)
    without = {name: a + 1 for name, a in before.items() if name != "own"}
    with pytest.raises(ValueError, match=r"the weights do not fit: missing \['own'\], unknown none"):
        tree.load_parameters(without)
    with pytest.raises(ValueError, match=r"missing none, unknown \['extra', 'other'\]"):
        tree.load_parameters({**before, "other": np.zeros(1), "extra": np.zeros(1)})
    with pytest.raises(ValueError, match=r"missing \['branches.0.weight', 'branches.1.weight', 'first.weight'\]"):
        tree.load_parameters({})
    np.testing.assert_equal(arrays_of(tree), before)


def test_shapes_that_differ_are_refused_and_nothing_is_loaded():
    """Also where they would broadcast."""
    tree = Tree()
    before = arrays_of(tree)
    arrays = {name: a + 1 for name, a in before.items()}
    arrays["branches.1.weight"] = np.zeros(1)
    with pytest.raises(ValueError, match=r"branches\.1\.weight has shape \(1,\), expected \(2,\)"):
        tree.load_parameters(arrays)
    np.testing.assert_equal(arrays_of(tree), before)


# ---- Starting values ----


def test_glorot_uniform():
    """Uniform in ±√(6 / (n_in + n_out)): every bound is reached, and the variance is that of the interval."""
    weight = Initializer(1).glorot_uniform(300, 100).data
    bound = math.sqrt(6 / 400)
    assert weight.shape == (300, 100)
    assert weight.dtype == np.float32
    assert 0.999 * bound < weight.max() <= bound
    assert -0.999 * bound > weight.min() >= -bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.01)


def test_embeddings_start_with_unit_variance_after_scaling():
    layer = Embedding(1000, 64, Initializer(1))
    assert layer.weight.data.std() == pytest.approx(1 / 8, rel=0.01)
    assert layer(np.arange(1000)[None]).data.std() == pytest.approx(1, rel=0.01)


def test_one_stream_for_all_and_the_same_for_every_dtype():
    single, double = Initializer(5), Initializer(5, np.float64)
    for _ in range(2):
        one, two = single.glorot_uniform(3, 4).data, double.glorot_uniform(3, 4).data
        np.testing.assert_array_equal(one, two.astype(np.float32))
        assert two.dtype == np.float64
    again = Initializer(5)
    first, second = again.glorot_uniform(3, 4).data, again.glorot_uniform(3, 4).data
    assert (first != second).all()
    np.testing.assert_array_equal(second, one)
    assert (Initializer(6).glorot_uniform(3, 4).data != first).all()


def test_layers_without_an_initializer_draw_from_the_seed_of_the_process():
    """Each array differs, and is the same again after the same seed."""
    before = random.get_state()
    try:
        drawn = []
        for seed in (1, 1, 2):
            random.manual_seed(seed)
            layers = (Linear(4, 4), Linear(4, 4), Embedding(4, 4), MultiHeadAttention(4, 2))
            drawn.append([p.data for layer in layers for p in layer.parameters() if p.ndim == 2])
    finally:
        random.set_state(before)
    first, again, other = drawn
    np.testing.assert_array_equal(first, again)
    assert len({a.tobytes() for a in [*first, *other]}) == len([*first, *other])
    assert first[0].dtype == np.float32
    assert LayerNorm(3)(np.array([[1.0, 2.0, 3.0]])).data.std() == pytest.approx(1, rel=1e-5)
    assert [p.shape for p in FeedForward(4, 6).parameters()] == [(6, 4), (6,), (4, 6), (4,)]


def test_a_tensor_that_would_not_be_trained_is_an_error():
    tree, weight = Tree(), Tensor(np.ones(2), requires_grad=True)
    with pytest.raises(TypeError, match=r"^scale is a Tensor that requires a gradient; make it a Parameter"):
        tree.scale = weight
    with pytest.raises(TypeError, match=r"^shifts\.1 is a Tensor"):
        tree.first.shifts = [Tensor(np.ones(2)), weight]
    tree.scale = weight * 2  # a result is no weight
    tree.own = weight  # in the place of a parameter, as a function of the weights has it
    assert "own" not in tree.named_parameters()


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(UserError, match="d_model=4 is not divisible by heads=3"):
        MultiHeadAttention(4, 3)


# ---- Files ----


def test_parameters_are_saved_and_loaded(tmp_path):
    tree, other = Tree(), Tree()
    tree.own.data[:] = [-1.0, -2.0]
    tree.save(tmp_path / "tree.safetensors")
    other.load(tmp_path / "tree.safetensors")
    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in tree.parameters()]
    assert [path.name for path in tmp_path.iterdir()] == ["tree.safetensors"]


def test_a_file_that_is_none_of_parameters_is_refused(tmp_path):
    path = tmp_path / "tree.safetensors"
    with pytest.raises(UserError, match=r"tree\.safetensors"):
        Tree().load(path)
    path.write_bytes(b"PK not a model")
    with pytest.raises(UserError, match="no complete safetensors file"):
        Tree().load(path)
    Leaf(1.0).save(path)
    with pytest.raises(ValueError, match="do not fit: missing"):
        Tree().load(path)


# ---- Layers ----

INIT_SEED = 3


def init():
    return Initializer(INIT_SEED, np.float64)


def test_embedding_is_scaled_by_the_root_of_its_width():
    """Section 3.4."""
    layer = Embedding(10, 16, init())
    ids = np.array([[1, 9, 1]])
    np.testing.assert_array_equal(layer(ids).data, 4 * layer.weight.data[ids])
