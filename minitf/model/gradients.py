"""Cases of every layer and of the whole model; `python -m minitf.model.gradients` checks them and all ops.

`autograd.testing` has the cases of the ops.  Here, each case differentiates a module by its inputs and by all of its
parameters at once.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor, modes, random
from autograd.engine import Op
from autograd.gradcheck.__main__ import natural, positive
from autograd.testing import Case, Example, cases_for
from autograd.testing.check import HEADER, Row, check_cases, summary
from minitf.config import PRESETS, TransformerConfig
from minitf.config.special_tokens import BOS, EOS, PAD
from minitf.errors import UserError
from minitf.model.attention import MultiHeadAttention, padding_mask
from minitf.model.layers import Dropout, Embedding, FeedForward, Initializer, LayerNorm, Linear, Module
from minitf.model.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer, Positions, Residual, Transformer
from minitf.system.files import atomic_write

Array = np.ndarray
Rng = np.random.Generator

D, HEADS, FF, VOCABULARY = 4, 2, 6, 11
CONFIG = replace(
    PRESETS["base"].model,
    vocab_size=VOCABULARY, layers=2, d_model=D, d_ff=FF, heads=HEADS,
    dropout=0.2, attention_dropout=0.2, activation_dropout=0.2,
)  # fmt: skip


# ---- From a module to an example ----


def bind(module: Module, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
    """Put `tensors` in the place of the parameters of these names."""
    for name, tensor in zip(names, tensors, strict=True):
        *path, last = name.split(".")
        owner: Any = module
        for part in path:
            owner = owner[int(part)] if part.isdecimal() else getattr(owner, part)
        setattr(owner, last, tensor)


def example_of(module: Module, call: Callable[..., Any], inputs: Sequence[Array], rng: Rng) -> Example:
    """`call` on some inputs, as a function of them and of all parameters of `module`.

    The parameters are moved from where they start: a bias of 0 or a scale of 1 would hide mistakes.  Dropout draws the
    same masks at every call.
    """
    parameters = module.named_parameters()
    names = list(parameters)
    arrays = [p.data + rng.normal(0, 0.3, p.shape) for p in parameters.values()]
    state = int(rng.integers(2**32)), int(rng.integers(1000)), 0

    def function(*tensors: Tensor) -> Any:
        random.set_state(state)
        bind(module, names, tensors[len(inputs) :])
        return call(*tensors[: len(inputs)])

    return Example(function, [*inputs, *arrays])


class _Roughness(modes.Watcher):
    """How near the forward pass comes to where differences are worthless."""

    nearest_kink = math.inf  # of relu
    steepest_norm = 0.0  # 1/σ in layer normalisation

    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        if type(op).__name__ == "Relu":
            self.nearest_kink = min(self.nearest_kink, float(abs(arrays[0]).min(initial=math.inf)))

    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        if type(op).__name__.endswith("LayerNorm"):
            *_, inverse_std, _weight = op.saved_arrays
            self.steepest_norm = max(self.steepest_norm, float(inverse_std.max(initial=0)))


def smooth(draw: Callable[[Rng], Example]) -> Callable[[Rng], Example]:
    """Draw until no relu is near its kink, and no layer norm has so little variance that it is nearly a step."""

    def drawn(rng: Rng) -> Example:
        while True:
            example, seen = draw(rng), _Roughness()
            with modes.watch(seen), modes.no_grad():
                example.function(*[Tensor(array) for array in example.arrays])
            if seen.nearest_kink > 1e-3 and seen.steepest_norm < 10:
                return example

    return drawn


def _init(rng: Rng) -> Initializer:
    return Initializer(int(rng.integers(2**32)), np.float64)


def _x(rng: Rng, t: int, width: int = D) -> Array:
    """Shapes: -> [B, T, width]"""
    return rng.uniform(-2, 2, (2, t, width))


def _ids(rng: Rng, t: int) -> Array:
    """Two sentences, padded at the end to the longer one.  Shapes: -> int [B, T]"""
    ids = rng.integers(EOS + 1, VOCABULARY, (2, t))
    lengths = np.array([t, rng.integers(1, t, endpoint=True)])
    ids[np.arange(2), lengths - 1] = EOS
    return np.where(np.arange(t) < rng.permutation(lengths)[:, None], ids, PAD)


# ---- Layers ----


def _linear(rng: Rng) -> Example:
    module = Linear(D, 3, _init(rng))
    return example_of(module, module, [_x(rng, 3)], rng)


def _embedding(rng: Rng) -> Example:
    module, ids = Embedding(VOCABULARY, D, _init(rng)), _ids(rng, 4)
    return example_of(module, lambda: module(ids), [], rng)


def _layer_norm(rng: Rng) -> Example:
    module = LayerNorm(D, 1e-6, _init(rng))
    return example_of(module, module, [_x(rng, 3)], rng)


def _dropout(rng: Rng) -> Example:
    module = Dropout(0.3)
    return example_of(module, module, [_x(rng, 3)], rng)


def _positions(kind: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = Positions(replace(CONFIG, positions=kind, max_positions=5), _init(rng))
        return example_of(module, lambda x: module(x, start=1), [_x(rng, 3)], rng)

    return draw


def _feed_forward(activation: str) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = FeedForward(D, FF, activation, 0.2, _init(rng))
        return example_of(module, module, [_x(rng, 2)], rng)

    return draw


def _attention(kind: str) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = MultiHeadAttention(D, HEADS, d_k=3, d_v=1, dropout=0.2, init=_init(rng))
        mask = padding_mask(_ids(rng, 3))
        if kind == "cross":  # queries of one sequence, keys and values of another
            return example_of(module, lambda x, m: module(x, m, m, mask), [_x(rng, 2), _x(rng, 3)], rng)
        if kind == "causal":
            return example_of(module, lambda x: module(x, x, x, is_causal=True), [_x(rng, 3)], rng)
        if kind == "apart":
            inputs = [_x(rng, 2), _x(rng, 3), _x(rng, 3)]
            return example_of(module, lambda q, k, v: module(q, k, v, mask), inputs, rng)
        mask = mask & (rng.random(mask.shape) < 0.5)  # also sentences of which nothing may be seen
        return example_of(module, lambda x: module(x, x, x, mask), [_x(rng, 3)], rng)

    return draw


def _residual(norm: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = Residual(replace(CONFIG, norm=norm), _init(rng))
        return example_of(module, lambda x: module(x, ag.tanh), [_x(rng, 3)], rng)

    return draw


def _encoder(kind: type[EncoderLayer] | type[Encoder], norm: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module, mask = kind(replace(CONFIG, norm=norm), _init(rng)), padding_mask(_ids(rng, 3))
        return example_of(module, lambda x: module(x, mask), [_x(rng, 3)], rng)

    return draw


def _decoder(kind: type[DecoderLayer] | type[Decoder], norm: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module, mask = kind(replace(CONFIG, norm=norm), _init(rng)), padding_mask(_ids(rng, 3))
        return example_of(module, lambda x, memory: module(x, memory, mask), [_x(rng, 3), _x(rng, 3)], rng)

    return draw


def _cases(what: str, draws: dict[str, Callable[[Rng], Example]], *, fast: bool = False) -> list[Case]:
    real_only = ("gelu", "silu")  # they compute with |x|
    return [Case(what, name, smooth(draw), not name.startswith(real_only), fast) for name, draw in draws.items()]


LAYERS: dict[str, list[Case]] = {
    "Linear": _cases("Linear layer", {"with bias": _linear}),
    "Embedding": _cases("Embedding layer", {"padded sentences": _embedding}),
    "LayerNorm": _cases("LayerNorm layer", {"any rows": _layer_norm}),
    "Dropout": _cases("Dropout layer", {"a fixed mask": _dropout}),
    "Positions": _cases(
        "Positions", {kind: _positions(kind) for kind in ("sinusoidal", "sinusoidal-concatenated", "learned")}
    ),
    "FeedForward": _cases("FeedForward", {kind: _feed_forward(kind) for kind in ("relu", "gelu", "silu")}),
    "MultiHeadAttention": _cases(
        "MultiHeadAttention", {kind: _attention(kind) for kind in ("self", "causal", "cross", "apart")}
    ),
    "Residual": _cases("Residual", {norm: _residual(norm) for norm in ("post", "pre")}),
    "EncoderLayer": _cases("EncoderLayer", {norm: _encoder(EncoderLayer, norm) for norm in ("post", "pre")}, fast=True),
    "DecoderLayer": _cases("DecoderLayer", {norm: _decoder(DecoderLayer, norm) for norm in ("post", "pre")}, fast=True),
    "Encoder": _cases("Encoder", {norm: _encoder(Encoder, norm) for norm in ("post", "pre")}, fast=True),
    "Decoder": _cases("Decoder", {norm: _decoder(Decoder, norm) for norm in ("post", "pre")}, fast=True),
}


# ---- The whole model ----


def _transformer(**changes: Any) -> Callable[[Rng], Example]:
    """The training loss, smoothed and over real tokens only, by all parameters."""
    config: TransformerConfig = replace(CONFIG, **changes)

    def draw(rng: Rng) -> Example:
        model = Transformer(config, seed=int(rng.integers(2**32)), dtype=np.float64)
        source, target = _ids(rng, 4), _ids(rng, 3)
        shifted = np.concatenate([np.full((2, 1), BOS), target[:, :-1]], axis=1)

        def loss() -> Tensor:
            return ag.cross_entropy(model(source, shifted), target, label_smoothing=0.1, ignore_index=PAD)

        return example_of(model, loss, [], rng)

    return draw


_VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 6},
    "concatenated sinusoids": {"positions": "sinusoidal-concatenated"},
    "matrices apart": {"share_embeddings": False},
    "other widths of keys and values": {"d_k": 3, "d_v": 1},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
}

MODELS: dict[str, list[Case]] = {
    name: _cases("Transformer", {name: _transformer(**changes)}, fast=True) for name, changes in _VARIANTS.items()
}


# ---- The command, and the page it writes ----


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    tables: dict[str, list[Row]] = {}
    groups = {"ops": {name: cases_for(name) for name in sorted(Op.registry)}, "layers": LAYERS, "Transformers": MODELS}
    for what, cases in groups.items():
        print(what + HEADER[len(what) :])
        tables[what] = []
        for name, some in cases.items():
            row = check_cases(name, some, options.examples, options.seed)
            tables[what].append(row)
            print(row, *row.failures, sep="\n", flush=True)
    for what, rows in tables.items():
        print(summary(rows, what))
    if any(row.failures for rows in tables.values() for row in rows):
        return 1
    if options.write is not None:
        try:
            with atomic_write(options.write) as file:
                file.write(page(tables, options.examples, options.seed).encode())
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m minitf.model.gradients",
        description="Check the gradients of every op, every layer and whole models.",
    )
    parser.add_argument("--examples", type=positive, default=3, metavar="N", help="random examples a case (default: 3)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of the random numbers (default: 0)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the results as a page of the documentation")
    return parser.parse_args(arguments)


def page(tables: dict[str, list[Row]], examples: int, seed: int) -> str:
    """docs/gradients.md: facts that do not depend on the machine, so errors are rounded up to powers of ten."""
    command = f"python -m minitf.model.gradients --examples {examples} --seed {seed} --write docs/gradients.md"
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
# Gradients, and what they were held against

This page is written by

    COMMAND

which fails, and writes nothing, where any gradient is wrong. Every op of `autograd`, every layer of `minitf` and whole
Transformers are differentiated in float64 at random inputs: random shapes, strides and masks, broadcasting, repeated
indices, rows that may attend to nothing, arrays without elements. Random masks of dropout are held fixed. The gradients
are compared with three other sources.

| source | what it is | must agree within |
|---|---|---|
| differences | (f(x + h) - f(x - h)) / 2h with h = 5e-6 | 1e-7 + 1e-6 · \\|derivative\\| |
| complex steps | Im f(x + ih) / h with h = 1e-20: nothing is subtracted, so nothing is lost | 1e-12 |
| plain form | for a fused op, the same function composed of simpler ops: its values and gradients | 1e-12 |

The tables give the worst error met, |analytic - other| / max(1, |other|), rounded up to a power of ten (the rounding of
another processor may move one by a step). A field is empty where a source does not apply: what computes with |x| (abs,
sigmoid, silu, gelu) is not written for complex numbers, and most ops are as plain as can be. Ops and small layers are
compared derivative by derivative; from EncoderLayer on, along one random direction in each input and each parameter.
`make prove` compares all layers and two of the Transformers derivative by derivative, too, and checks 1,000 examples of
each op.

What must be exactly zero is tested to be exactly zero: the gradient of a prediction by later target tokens, the
gradients of the loss by padding positions, the gradients of queries that may attend to nothing.

That these checks would notice a wrong gradient is proven by damaging the code: [mutants.md](mutants.md).

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


gradcheck(cube, np.random.default_rng(0).standard_normal((2, 4)))
```

`gradcheck` returns True or raises `GradcheckError`, which names the input, the place and both numbers, and often the
mistake: with `return x**2 * g_y` it says

```text
wrong gradient of the input: 8 of 64 derivatives looked at differ, most that of the output[1, 2] by the input[1, 2]:
  analytic   1.700416118
  numerical  5.101248353
likely cause: every value is 0.3333 times the right one: a constant factor is wrong
```

`gradcheck(cube, x, mode="complex")` asks for an agreement of 1e-12; `fast=True` compares along random directions, for
functions of many inputs. At a kink (relu at 0, equal values in max) it says so and asks to move the input. With
[Hypothesis](https://hypothesis.readthedocs.io), `autograd.testing.strategies` draws the inputs:

```python
from hypothesis import given
from autograd.testing import strategies


@given(strategies.arrays())
def test_cube(x):
    gradcheck(cube, x)


test_cube()
```
"""


if __name__ == "__main__":
    sys.exit(main())
