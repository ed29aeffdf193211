"""The functions that NumPy has too give its values: each expression is computed on Tensors and on arrays.

`x23` is an array of shape (2, 3), `p23` one of positive numbers, `b23` one of booleans; `x23_1` is another one. The
functions of `ag` are also those of NumPy. Gradients are proven where their cases are drawn.
"""

import re
import zlib
from itertools import product

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor

PAIRS = [("", ""), ("3", ""), ("", "23"), ("23", "23"), ("23", "3"), ("3", "23"), ("21", "13"), ("213", "41"),
         ("1", "22"), ("11", "3"), ("03", "3"), ("13", "01")]  # fmt: skip
AXES = [("", "None"), ("", "()"), ("4", "None"), ("4", "0"), ("1", "0"), ("23", "None"), ("23", "0"), ("23", "-1"),
        ("23", "(0, 1)"), ("23", "()"), ("234", "(0, -1)"), ("234", "(-1, 0)"), ("234", "(1,)"), ("214", "1"),
        ("214", "(1, 2)")]  # fmt: skip
PRODUCTS = """
    3 3, 3 32, 23 3, 23 34, 3 234, 3 5234, 243 3, 5243 3, 243 32, 5243 32, 43 232, 43 5232, 243 232, 2143 532, 143 532,
    543 132, 143 32, 11 11, 0 0, 03 32, 20 03, 23 30, 203 32, 023 32, 023 3, 240 02, 43 032, 40 203, 043 032, 143 032
"""
SUMS = """
    ij,jk->ik 23 34; ij,jk 23 34; ij, jk -> ki 23 34; bhqd,bhkd->bhqk 2234 2254; i,j->ij 2 3; i,j->ji 2 3; i,i 3 3;
    i,i->i 3 3; ij->ji 23; ba 23; ij-> 23; ij->j 23; ij,k->jk 23 4; ij,kl-> 23 42; ij,j->i 23 3; ij,jk,kl->il 23 34 42;
    ij,jk,ki-> 23 34 42; a,b,c->cab 2 3 4; ii->i 33; ii 33; ii-> 33; iij->ij 332; iji->j 323; iii->i 333;
    ii,ij->j 33 32; ii,jj->ij 33 22; iij,jk->ik 332 22; ...ij,...jk->...ik 523 2134; ...ij,jk->...ik 523 34;
    ...,... 23 3; i...->... 23; ...i->i... 23; ...i->... 234; i...i->...i 323; ...ab 234; b...,a... 23 43; i,i->i 1 3;
    i,i-> 1 3; ij,ij->j 21 13; ij,ij-> 21 13; ij,jk->ik 03 32; ij,jk->ik 20 02; i-> 0; ...i->... 20
"""
INDICES = """
    0; -1; np.int64(2); :; 1:; ::-1; 2:0:-2; 5:9; (); None; ...; None, 1; :, 2; 1, 2, 0; ..., 0; 0, ..., None;
    0:2, None, ::2, -1; [0, 2]; [0, 0, -1, 2, 0]; []; range(3); range(2), [1, 1]; ([0, 1],); (0, 0), (1, 1);
    np.array(1); np.array([[0, 2], [2, -3]]); np.array([2, 0, 2], np.uint8); np.array([-1, 0], np.int8); :, [1, 1, 0];
    [0, 0, 2], [1, 1, 3]; [0, 0, 2], :, [1, 1, 0]; [1, 1], 0; np.array([[0], [2]]), np.array([1, 1, 3]);
    1:, [0, 0], None, 1; None, [1, 1]; ..., [1, 1, 0]; b3; b3.tolist(); ~(b3 | True); b3, 1; b3, 1:3;
    b3, [0] * b3.sum(); b342; b342.tolist(); :, b4; :, b42; True; False; np.bool_(True); True, 1
"""


def einsum(line):
    subscripts, *shapes = re.findall(r"^.*?(?= [\d ]+$)|\d+", line)
    return f"ag.einsum({subscripts!r}, {', '.join(f'x{shape}_{i}' for i, shape in enumerate(shapes))})"


EXPRESSIONS = {
    "two arrays": [
        f"ag.{name}({'p' if name == 'power' else 'x'}{a}, {'p' if name == 'power' else 'x'}{b}_1)"
        for (a, b) in PAIRS
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
    ],
    "operators": [
        *("p23 + p3", "p23 - p3", "p23 * p3", "p23 / p3", "p23**p3", "-p23", "abs(-p23)", "1 + p23", "1 - p23"),
        *("3 * p23", "1 / p23", "2**p23", "p23 @ p3", "p23 // 0.3", "p23 % 0.3", "1 // p23", "1 % p23",),
        *("x23 < 0", "x23 >= x3"),
    ],
    "one array": [
        f"ag.{name}(p{shape})"
        for name in ("abs negative square exp expm1 log log1p sqrt reciprocal sign sin cos tanh").split()  # noqa: SIM905
        for shape in ("", "23", "203")
    ],
    "reductions": [
        f"ag.{name}(x{shape}, axis={axis}, keepdims={keep})"
        for name in ("sum", "mean", "var", "std", "max", "min", "prod")
        for (shape, axis), keep in product(AXES, (False, True))
        if name != "prod" or "(" not in axis
    ],
    "degrees of freedom": [
        f"ag.{name}(x342, axis={axis}, ddof={ddof})"
        for name, axis, ddof in product(("var", "std"), (None, 1, (0, 2)), (0, 1, 0.5))
    ],
    "positions": [
        *("ag.argmax(x23)", "ag.argmin(x23, axis=1)", "ag.cumsum(x23, 1)", "ag.cumsum(x23)", "ag.tril(x33)"),
        *("ag.triu(x233, 1)", "ag.diagonal(x33)", "ag.diagonal(x234, 1, 0, 2)", "ag.repeat(x23, 2)",),
        "ag.repeat(x23, [1, 0, 2], 1)",
        "ag.take_along_axis(x23, np.array([[0, 2], [1, 1]]), 1)",
    ],
    "bounds": [
        f"ag.clip(x{shape}, {bounds})"
        for shape in ("3", "43", "03")
        for bounds in ("-0.5, 0.5", "None, 0.3", "-0.3, None", "np.array([-1.0, 0.0, 0.2]), 0.6", "0.5, -0.5")
    ],
    "choices": [f"ag.where(b{c}, x{a}, x{b}_1)" for (a, b), c in product(PAIRS, ("", "3", "13")) if b != "22"],
    "matrix products": [f"ag.matmul(x{a}, x{b}_1)" for a, b in map(str.split, PRODUCTS.split(","))],
    "Einstein's summation": [einsum(line.strip()) for line in SUMS.split(";")],
    "indices": [f"x342[{index.strip()}]" for index in INDICES.split(";")],
    "elements taken": [
        f"ag.take(x342, {indices}, axis={axis})"
        for axis in (None, 0, 1, 2, -1)
        for indices in ("0", "-1", "[1, 1, 0, -1]", "[[0, 1], [1, -2]]", "np.array([], int)", "np.array([1], np.uint8)")
    ],
    "shapes": [
        *(f"ag.reshape(x23, {new})" for new in ("(3, 2)", "6", "-1", "(1, -1, 2)", "[6]")),
        *("x23.reshape(3, 2)", "x23.reshape(-1)", "ag.reshape(x, (1, 1))", "ag.reshape(x1, ())"),
        *(f"ag.transpose(x{shape}, {axes})" for shape, axes in [("", None), ("3", None), ("23", (1, 0))]),
        *(f"ag.transpose(x234, {axes})" for axes in ((2, 0, 1), (-2, 2, 0))),
        *("x234.T", "x234.transpose()", "x234.transpose(2, 0, 1)", "x234.transpose((1, 0, 2))", "x234.swapaxes(0, -1)"),
        *(f"ag.swapaxes(x234, {axes})" for axes in ("0, 1", "0, -1", "1, 1", "-1, -3")),
        *(f"ag.expand_dims(x23, {axis})" for axis in (0, 1, 2, -1, (0, 1), (0, -1), (1, 3))),
        *(f"ag.squeeze(x131, {axis})" for axis in (None, 0, -1, (0, 2), ())),
        *(f"ag.broadcast_to({a}, {new})" for a, new in [("x", (2, 3)), ("x21", (2, 3)), ("x13", (4, 2, 3)), ("x1", 5)]),
    ],
    "arrays joined": [
        *("ag.concatenate([x23, x13])", "ag.concatenate([x23, x21, x22], 1)", "ag.concatenate([x23, x21], -1)"),
        *("ag.concatenate([x23, x03])", "ag.concatenate([x23])", "ag.concatenate([x23, x4, x], None)"),
        *(f"ag.stack([x23, x23_1, x23_2], {axis})" for axis in (0, 1, 2, -1, -3)),
        *("ag.stack([x, x_1])", "ag.stack([x02], 1)"),
    ],
    "arrays split": [
        *(f"ag.split(x46, {sections}, {axis})" for sections, axis in [(2, 1), (1, 0), (3, -1), ([1, 3], 0)]),
        *(f"ag.split(x6, {sections})" for sections in (3, [2, 2, 5], [-2], [9], [])),
    ],
    "edges": [
        *(f"ag.pad(x23, {width})" for width in ("0", "(1, 0)", "((0, 1), (2, 0))", "((1, 2),)")),
        *("ag.pad(x23, 1, constant_values=5.0)", "ag.pad(x, 1)", "ag.pad(x3, (1, 2))", "ag.pad(x03, 1)"),
    ],
    "functions made of other ops": [
        *("ag.tan(x23)", "ag.log2(p23)", "ag.dot(x23, x23.T)", "ag.dot(x3, x3_1)", "ag.dot(x23, 3.0)"),
        *("ag.dot(x1213, x3)", "ag.outer(x23, x3)", "ag.flip(x23)", "ag.flip(x23, 1)", "ag.roll(x23, 2)"),
        *("ag.roll(x23, (1, -1), (0, 1))", "ag.tile(x23, 2)", "ag.tile(x23, (2, 1, 3))"),
        *("ag.sort(x23)", "ag.sort(x23, 0)", "ag.sort(x23, None)"),
    ],
}  # fmt: skip


class Functions:
    """The functions of NumPy by the arguments of `ag`."""

    def __getattr__(self, name):
        return getattr(np, name)

    def pad(self, x, width, constant_values=0.0):
        return np.pad(x, width, constant_values=constant_values)


def drawn(name):
    kind, shape, _ = re.fullmatch(r"([xpb])(\d*)(_\d)?", name).groups()
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    numbers = rng.standard_normal(tuple(map(int, shape)))
    return {"x": numbers, "p": np.asarray(rng.uniform(0.5, 2, numbers.shape)), "b": np.asarray(numbers > 0)}[kind]


def both(expression):
    """The value of an expression on Tensors and on arrays."""
    names = set(re.findall(r"\b[xpb]\d*(?:_\d)?\b", expression))
    arrays = {name: np.asarray(drawn(name)) for name in names}
    tensors = {name: array if array.dtype == bool else Tensor(array) for name, array in arrays.items()}
    return eval(expression, {"np": np, "ag": ag, **tensors}), eval(expression, {"np": np, "ag": Functions(), **arrays})


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_values_are_numpys(group):
    for expression in EXPRESSIONS[group]:
        ours, numpys = both(expression)
        ours, numpys = ([*each] if isinstance(each, tuple | list) else [each] for each in (ours, numpys))
        assert len(ours) == len(numpys), expression
        for one, other in zip(ours, numpys, strict=True):
            assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype), expression
            np.testing.assert_allclose(one.data, other, rtol=1e-13, atol=1e-14, err_msg=expression)
