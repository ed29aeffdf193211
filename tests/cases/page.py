"""docs/gradients.md, from the tables of checks."""

from __future__ import annotations

import math

from tests.cases.table import Row


def page(tables: dict[str, list[Row]], examples: int, seed: int) -> str:
    """The text of docs/gradients.md; errors are rounded up to powers of ten, to depend little on the machine."""
    command = f"python -m tests.cases --examples {examples} --seed {seed} --write docs/gradients.md"
    parts = [_PAGE.replace("COMMAND", command)]
    for what, rows in tables.items():
        parts.append(
            f"\n## {what[0].upper() + what[1:]}\n\n| | cases | examples | differences | complex steps | plain form |\n"
        )
        parts.append("|---|--:|--:|--:|--:|--:|\n")
        for row in rows:
            errors = " | ".join("" if error is None else _bound(error) for error in row.errors)
            parts.append(f"| {row.name} | {row.cases} | {row.examples} | {errors} |\n")
    return "".join(parts)


def _bound(error: float) -> str:
    """The next power of ten above an error."""
    return "0" if error == 0 else f"< 1e{math.floor(math.log10(error)) + 1}"


_PAGE = """\
# Gradient checks

This page is written by

    COMMAND

which fails and writes nothing if any gradient is wrong. It differentiates every op of `autograd`, every layer of
`minitf` and whole Transformers in float64 at random inputs: random shapes, strides and masks, broadcasting, repeated
indices, queries that may attend to nothing, arrays without elements. The masks of dropout are held fixed. The cases are
in `tests/cases/`. The gradients are compared with three other sources:

| source | definition | must agree within |
|---|---|---|
| differences | (f(x + h) - f(x - h)) / 2h with h = 5e-6 | 1e-7 + 1e-6 · \\|derivative\\| |
| complex steps | Im f(x + ih) / h with h = 1e-20: no difference is taken, so no digits are lost | 1e-12 |
| plain form | for a fused op, the same function composed of simpler ops: its values and gradients | 1e-12 |

The tables give the largest error found, |analytic - other| / max(1, |other|), rounded up to a power of ten (which may
be one step more on another processor, as it rounds differently). A field is empty if a source does not apply: functions
that compute with |x| (abs, sigmoid, silu, gelu) are not analytic, and most ops have no simpler form. Ops and small
layers are compared derivative by derivative; from EncoderLayer on, along one random direction in each input and each
parameter. `make prove` also compares all layers and two of the Transformers derivative by derivative, and checks 1,000
examples of each op. With PyTorch installed, `tests/autograd/ops/test_against_pytorch.py` compares the same cases with
PyTorch's functions, in float64 and float32.

What must be exactly zero is tested to be exactly zero: the gradient of a prediction by later target tokens, the
gradients of the loss by padding positions, the gradients of queries that may attend to nothing.

Deliberate errors in the code prove that these checks detect a wrong gradient: [mutants.md](mutants.md).

## Checking an op of your own

```python
import numpy as np
from autograd import Op, apply, gradcheck


class Cube(Op):
    def forward(self, x):
        self.save(x)
        return x**3

    def backward(self, g_y):
        (x,) = self.saved
        return 3 * x**2 * g_y


def cube(x):
    return apply(Cube, x)


x = np.random.default_rng(0).standard_normal((2, 4))
gradcheck(cube, x)
```

`gradcheck` returns True or raises `GradcheckError`, which names the input, the element and both numbers, and often the
mistake. With `return x**2 * g_y` in the place of the last line of `backward`:

```text
wrong gradient of the input: 8 of 64 derivatives looked at differ, most that of the output[1, 2] by the input[1, 2]:
  analytic   1.700416118
  numerical  5.101248353
likely cause: every value is 0.3333 times the right one: a constant factor is wrong
```

The function may be any composition of ops; its inputs are float64 arrays, or Tensors that require a gradient, such as
the parameters of a model. `autograd.gradcheck.Options` chooses what is compared and checked:

| `Options(mode=…)` | numerical derivatives | must agree within |
|---|---|---|
| `"auto"` | the default: complex steps where they work, else central differences | 1e-9 + 1e-9 · \\|d\\| |
| `"complex"` | Im f(x + ih) / h with h = 1e-20 | 1e-12 + 1e-12 · \\|d\\| |
| `"central"` | (f(x + h) - f(x - h)) / 2h with h = 1e-6 | 1e-7 + 1e-6 · \\|d\\|, and the error of the difference |

Complex steps detect relative errors down to about 1e-8, central differences down to about 1e-5. Complex steps need a
function that computes with complex numbers and is analytic, without |x|, casts to real numbers or `math.exp`. For any
other function, `gradcheck` compares with central differences, and gives the reason in the error message.
`gradcheck(autograd.silu, x, options=Options(verbose=True))` prints:

```text
gradients right: compared with central differences (complex steps do not suit this function: its complex steps disagree
with its differences, so something in it is not analytic), largest error 4e-11
```

Pass `atol` and `rtol` for other tolerances; PyTorch's are `atol=1e-5, rtol=1e-3`. `fast=True` compares along random
directions, for functions of many inputs. At a kink (relu at 0, equal values in max), the error says so and asks for
another input.

The backward pass is also run under other circumstances, in which it must be right, too:

- a graph of another point is alive: static buffers, values kept in the class or from the first call;
- each input is frozen in turn (`requires_grad=False`);
- inputs and incoming gradients have other memory layouts: Fortran order, gaps, negative strides, strides of 0;
  `Options(layouts=False)` omits this;
- at other points: the inputs in another order, times factors down to 1e-8, half of them 0, and with random numbers and
  ±1000 added, as far as the function is defined there. A gradient may be wrong beyond a kink that is not near the
  inputs, or where exp overflows. `Options(elsewhere=False)` omits this and what follows;
- at inputs of other shapes: larger arrays, axes of size 1, empty arrays, numbers, other broadcasts; and with repeated
  indices, an inverted mask, and one array in the place of two. A function that stops there refuses them, and is not
  wrong. `Options(shapes=False)` omits this;
- in float32: its gradients may differ from those in float64 by 1e-4 of the value, 1e-5 of the largest value, and ten
  times what moving the inputs by a few roundings changes. `Options(float32=False)` omits this, and `float32=True` asks
  for it of a function that refuses float32, too.

A `GradcheckWarning` says what a check that passes leaves open: a Tensor that the function closes over, or a reference
derivative that rounding hides, as that of (x + 1e8) - 1e8 in a function that takes neither complex numbers nor larger
steps.

`python benchmarks/checkers.py --peer pytorch=PYTHON --peer jax=PYTHON` tries 54 wrong gradients and 75 right ones with
default settings: `gradcheck` finds all 54 and flags no right one, `torch.autograd.gradcheck` of PyTorch 2.13 finds
15 and flags 8, `check_grads` of JAX 0.10.2 finds 17 and flags 8 ([checkers.md](checkers.md)). Both lists were written
beside this checker.

`gradcheck(f, x, order=2)` checks second derivatives, too: those of `grad(..., create_graph=True)` by the inputs and by
the gradients that arrive. What the backward pass keeps as a constant is found so, and an op whose backward pass cannot
be recorded says so by name. `recipes/hunt.py` takes the checker to the functions of PyTorch and JAX:
[what it found](hunt.md).

The recipes below each find one such mistake.

### A NumPy function with a hand-written gradient

`autograd.testing.from_vjp(f, vjp)` makes a function of arrays and its gradient one that `gradcheck` can check, and that
models can use. `vjp(g, *inputs)` returns the gradient of `(g * f(*inputs)).sum()` by each input: for an element-wise
function with derivative `slope(x)`, that is `g * slope(x)`.

```python
from autograd.gradcheck import Options
from autograd.testing import from_vjp


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_vjp(g, x):
    y = softmax(x)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


x = np.random.default_rng(1).standard_normal((2, 3))
gradcheck(from_vjp(softmax, softmax_vjp), x, options=Options(float32=True))

try:
    gradcheck(from_vjp(softmax, lambda g, x: g * softmax(x)), x)
except RuntimeError as error:
    print(str(error).partition("likely cause: ")[2].partition(":")[0])
```

```
a missing or wrong projection
```

### With Hypothesis

[Hypothesis](https://hypothesis.readthedocs.io) chooses shapes, memory layouts and a seed with
`autograd.testing.strategies`, and simplifies what fails. `away_from` keeps a distance from kinks, `distinct` keeps
numbers apart, `min_side=1` leaves out empty arrays, and `negative_strides=False` and `read_only=False` leave out
layouts that a function refuses.

```python
from hypothesis import given
from autograd.testing import strategies


@given(strategies.arrays())
def test_cube(x):
    gradcheck(cube, x)


@given(strategies.arrays(strategies.shapes(min_ndim=1, min_side=1), negative_strides=False))
def test_softmax(x):
    gradcheck(from_vjp(softmax, softmax_vjp), x)


test_cube()
test_softmax()
```

### A PyTorch function

`autograd.testing.from_torch(f)` takes a function of PyTorch tensors, such as the `apply` of a `torch.autograd.Function`
or an `nn.Module`. Without PyTorch, this recipe does nothing:

```python
from importlib.util import find_spec

if find_spec("torch"):
    import torch
    from autograd.testing import from_torch

    gradcheck(from_torch(torch.nn.functional.silu), x, options=Options(float32=True))
```

### A static buffer

```python
class Buffered(Cube):
    kept = np.empty((2, 3))

    def forward(self, x):
        self.kept[...] = x
        return x**3

    def backward(self, g_y):
        return 3 * self.kept**2 * g_y


def says(function, inputs, options=None):
    try:
        gradcheck(function, inputs, options=options)
    except RuntimeError as error:
        print(str(error).split("; ")[0].split(": ")[0])  # the beginning


says(lambda x: apply(Buffered, x), x)
```

```
the gradient of the input is wrong once the function has been called at another point before the backward pass
```

### A frozen input

```python
class Product(Op):
    def forward(self, a, b):
        self.save(a, b)
        return a * b

    def backward(self, g_y):
        a, b = self.saved
        needs_a, needs_b = self.needs_gradient
        return g_y * b if needs_b else g_y, g_y * a


says(lambda a, b: apply(Product, a, b), [x, x + 1])
```

```
the gradient of input 0 is wrong when input 1 requires no gradient (requires_grad=False, a frozen parameter)
```

### Memory layouts

```python
says(from_vjp(np.sin, lambda g, x: g.ravel(order="K").reshape(g.shape) * np.cos(x)), x)
```

```
the gradient of the input is wrong for an incoming gradient in Fortran order
```

### Beyond a kink

```python
says(from_vjp(lambda x: np.clip(x, -5, 5), lambda g, x: g), x)
```

```
the gradient is right at the inputs, and wrong at another point (10 times the inputs)
```

### float32

```python
def half(g, x):
    slope = np.cos(x)
    return g * (slope.astype(np.float16) if x.dtype == np.float32 else slope)


gradcheck(from_vjp(np.sin, half), x, options=Options(float32=False))
says(from_vjp(np.sin, half), x)
```

```
wrong gradient of the input in float32, where it is right in float64
```

### Other shapes, repeated indices

```python
def overwritten(g, x, rows):
    g_x = np.zeros_like(x)
    g_x[rows] = g  # np.add.at(g_x, rows, g) adds what arrives for a row twice
    return g_x, None


says(from_vjp(lambda x, rows: x[rows], overwritten), [x, np.array([1, 0])])
says(from_vjp(lambda x: x.mean(axis=0), lambda g, x: g / max(2, len(x)) + 0 * x), x)
```

```
the gradient is right for the given inputs, and wrong for repeated indices in input 1
the gradient is right for the given inputs, and wrong for axes of size 1, of shape (1, 3)
```

### A small error

```python
try:
    gradcheck(from_vjp(np.sin, lambda g, x: 1.0000001 * g * np.cos(x)), x)
except RuntimeError as error:
    print(str(error).partition("likely cause: ")[2])
```

```
every value is 1 +1e-07 times the right one: a constant factor is wrong
```

### What the message names

Among the mistakes that are named: a sign, a factor 2, a mean over the wrong number of elements, `n` for `n - 1`, a
missing 1/√d; a missing sum over a broadcast axis, a gradient that is not broadcast back (keepdims), a transposed
factor, exchanged inputs; rows that overwrite each other, an offset of one, elements in another order; a forgotten or
inverted mask; a factor of the input or the output that is missing (`1 - y`, `2 · x`); statistics of a normalisation
that are treated as constants, or a projection that is missing:

```python
def normalise(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True))


def without_projection(g, x):  # lacks - x̂ · mean(g · x̂)
    centred = x - x.mean(axis=-1, keepdims=True)
    return (g - g.mean(axis=-1, keepdims=True)) / np.sqrt((centred**2).mean(axis=-1, keepdims=True))


try:
    gradcheck(from_vjp(normalise, without_projection), x)
except RuntimeError as error:
    print(str(error).partition("likely cause: ")[2].partition(":")[0])
```

```
a missing or wrong projection
```
"""
