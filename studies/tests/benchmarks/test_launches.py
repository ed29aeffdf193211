"""Launches of a step are counted without a GPU, and no part of a step launches more than was counted before."""

import argparse

import pytest

pytest.importorskip("ml_dtypes")

from studies.benchmarks import launches

SMALL = {"layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "dropout": 0.1, "vocab_size": 50}


def counted(epilogues):
    return launches.count_step(argparse.Namespace(config="base", batch=2, length=4, epilogues=epilogues, **SMALL))


@pytest.fixture(scope="module")
def parts():
    return counted(False)


def test_every_product_and_kernel_of_a_step_is_counted(parts):
    """Of 2 + 2 layers: query, key and value of self-attention are one product, and so are all keys and values of the
    encoder's output; the output projections, queries to the encoder, 2 products a feed-forward network, and the logits.
    """
    forward, backward, update = (parts[name].launches for name in ("forward", "backward", "Adam"))
    products = 4 + 1 + 6 + 2 + 4 * 2
    assert forward["matrix product"] == forward["bias_"] + 3 == products + 3  # with the gradients of the loss
    assert backward["matrix product"] == 2 * products
    assert (forward["attention"], backward["attention_backward"]) == (6, 6)
    assert (forward["layer_norm"], backward["layer_norm_backward"]) == (10, 10)
    assert forward["cross_entropy"] == 1
    assert update == {"adam_": 1}


def test_the_gradients_of_parameters_are_not_copied(parts):
    assert "CuPy: copy" not in parts["backward"].launches


def test_bias_and_relu_are_one_launch_each_way(parts):
    assert "CuPy: maximum" not in parts["forward"].launches
    assert "relu_backward" not in parts["backward"].launches
    assert parts["backward"].launches["column_sum"] == parts["forward"].launches["bias_"]


def test_products_with_epilogues_save_the_launches_of_biases_and_sums(parts):
    with_epilogues = counted(True)
    for name in ("forward", "backward"):
        ours, theirs = with_epilogues[name], parts[name]
        assert ours.launches["matrix product"] == theirs.launches["matrix product"]
        sums = theirs.launches["CuPy: add"]  # of [2 · 4, 16] in bfloat16, which products read
        assert ours.bytes["matrix product"] == theirs.bytes["matrix product"] + sums * 2 * 4 * 16 * 2
    assert sums == 10  # at residual connections
    assert not {"bias_", "column_sum", "CuPy: add"} & {*with_epilogues["forward"].launches, *ours.launches}


def test_bytes_are_those_of_the_arrays(parts):
    rows, width, heads = 2 * 4, 16, 2
    attention = 4 * rows * width * 2 + rows * heads * 4  # q, k, v and y in bfloat16, a float32 a row
    padding = 2 * 2 * 4  # bool, of the encoder's own attention and of that to it
    assert parts["forward"].bytes["attention"] == 6 * attention + 2 * padding + 2 * 4 * 4
