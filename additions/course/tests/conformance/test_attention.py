"""Attention functions: right ones, and the mistakes that people make."""

import math

import numpy as np
import pytest

import autograd as ag
from additions.course.conformance import check_attention
from additions.course.exercise import find
from additions.course.tests.conformance.numpy_transformer import attention, softmax

ANSWER: dict = {}
exec(find("attention").solution, ANSWER)


def scores(q, k):
    return q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])


def after_softmax(q, k, v, mask):
    return softmax(scores(q, k)) * mask @ v


def too_weak(q, k, v, mask):
    return softmax(scores(q, k) - 50 * ~mask) @ v


def without_itself(q, k, v, mask):
    mask = mask & ~np.eye(*mask.shape[-2:], dtype=bool) | ~mask.any(-1, keepdims=True)
    return attention(q, k, v, mask)


def names(table, outcome):
    return [row.name for row in table.rows if row.outcome == outcome]


def test_the_op_of_this_project_is_right_in_everything():
    table = check_attention(ag.scaled_dot_product_attention)
    assert [row.outcome for row in table.rows] == ["right"] * 6


def test_a_function_of_numpy_arrays_with_its_gradient():
    assert check_attention(ANSWER["attention"], vjp=ANSWER["attention_vjp"]).is_right
    assert names(check_attention(attention), "not given") == ["gradients"]
    wrong = check_attention(ANSWER["attention"], vjp=lambda g, *x: [2 * a for a in ANSWER["attention_vjp"](g, *x)])
    assert names(wrong, "wrong") == ["gradients"]
    assert "times the right one" in str(wrong)


def test_what_its_mask_means_can_be_told_and_is_guessed_if_told_wrong():
    def forbidding(q, k, v, mask):
        return attention(q, k, v, ~mask)

    def additive(q, k, v, mask):
        return softmax(scores(q, k) + mask) @ v

    assert check_attention(forbidding, mask="forbidden").is_right
    assert check_attention(additive, mask="additive").is_right
    assert "its mask seems to mean 'forbidden', not 'allowed': give mask='forbidden'" in str(
        check_attention(forbidding)
    )
    unmasked = check_attention(lambda q, k, v: attention(q, k, v, True), mask="none")
    assert names(unmasked, "not given") == ["future", "padding", "gradients"]
    with pytest.raises(ValueError, match="mask='true' is not one of"):
        check_attention(attention, mask="true")


@pytest.mark.parametrize(
    ("function", "wrong", "message"),
    [
        (lambda q, k, v, m: attention(q * math.sqrt(8), k, v, m), ["scale 1/√d_k"], "is the division by √d_k missing?"),
        (lambda q, k, v, m: attention(q / math.sqrt(8), k, v, m), ["scale 1/√d_k"], "is 1/d_k"),
        (after_softmax, ["future", "padding"], "is the mask not used, applied after the softmax"),
        (too_weak, ["future", "padding"], "too small a number"),
        (without_itself, ["scale 1/√d_k", "future", "padding", "gradients"], "does not see itself"),
        (lambda q, k, v, m: attention(q, k, v, m) * 2, ["scale 1/√d_k", "padding", "weights add up to 1"],
         "values of 1 give an output of 2"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(function, wrong, message):
    table = check_attention(function)
    assert {*names(table, "wrong")} <= {*wrong}
    assert names(table, "wrong")
    assert message in " ".join(str(table).split())


def test_float32():
    assert check_attention(attention, dtype=np.float32).is_right


def test_a_result_in_float64_of_float32_inputs_has_the_rounding_of_its_inputs():
    """A division by np.sqrt(…), a float64 number, makes float64 of them."""
    table = check_attention(lambda *given: attention(*given).astype(np.float64), dtype=np.float32)
    assert table.is_right, str(table)


def test_a_function_that_changes_its_argument_is_told_so():
    def changing(q, k, v, mask):
        q += 1
        return attention(q - 1, k, v, mask)

    assert "the function changes its argument 0 in place" in " ".join(str(check_attention(changing)).split())
