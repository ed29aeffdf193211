"""The checks of the model: each layer beside ours of the same weights, both on the learner's engine."""

# ruff: noqa: E501 (a mistake to a line)

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from additions.course.expect import Wrong, equal, told, true
from additions.course.path.checks import Work, compare, of
from additions.course.path.ours import by_rule
from additions.course.path.steps import find_step
from additions.course.path.system import CONFIG, SOURCE, TARGET, model_on
from autograd import random
from minitf.config.model import EOS, PAD
from minitf.model import layers, transformer

Array = np.ndarray
Results = Callable[[Any], Iterator[tuple[str, Any]]]


def part(step: str, names: str, results: dict[str, Results], mistakes: Sequence[tuple[str, ...]]) -> None:
    """Enter the checks of parts of the model.

    names: of the learner's functions and classes, which ours are compared with
    results: description: yields the results of a model, which is the learner's, ours, or ours with a mistake
    mistakes: what the verdict says; a text of our source and its replacement, maybe several
    """
    without = frozenset(names.split())

    def run(work: Work, each: Results) -> None:
        def variants() -> Iterator[tuple[str, Any]]:
            for message, *texts in mistakes:
                yield message, model_on(work, without, texts)

        def rules() -> Iterator[tuple[str, Any]]:
            return rules_of(without, model_on(work, without), find_step(step).statement)

        compare(each, model_on(work), model_on(work, without), variants, rules)

    for what, each in results.items():
        check = partial(run, each=each)
        check.__doc__ = what
        PARTS.append((without, each, mistakes))
        of(step)(check)


def rules_of(names: Collection[str], model: SimpleNamespace, said: str) -> Iterator[tuple[str, SimpleNamespace]]:
    """Yield mistakes that a rule makes in our parts of these names, and the model that has them."""
    things = [
        thing
        for name in sorted(names)
        for thing in WITH.get(name, (getattr(transformer, name, None) or getattr(layers, name),))
    ]
    for message, defined in by_rule(things, vars(model), said):
        yield message, SimpleNamespace(**defined)


WITH = {
    "MultiHeadAttention": (transformer.join_heads, transformer.MultiHeadAttention),
    "Transformer": (transformer.Encoder, transformer.Decoder, transformer.Transformer),
}
"""Parts of ours that consist of several functions and classes."""
PARTS: list[tuple[frozenset[str], Results, Sequence[tuple[str, ...]]]] = []
"""The names, results and mistakes of each check of `part`, for tests."""


def random_array(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def of_layer(make: Callable[[Any, Any], Any], call: Callable[..., Any], *shapes: tuple[int, ...]) -> Results:
    """Results of a layer: its output for random inputs, and the gradients by these and by its parameters.

    make: from a model and an initializer; call: from the layer and the inputs
    """

    def results(m: Any) -> Iterator[tuple[str, Any]]:
        random.manual_seed(3)  # of dropout
        layer = make(m, m.Initializer(0, np.float64))
        layer.train()
        for k, p in enumerate(layer.named_parameters().values()):
            p.data[...] += 0.3 * random_array(k, *p.shape)  # biases of 0 and weights of 1 would hide what they do
        inputs = [m.Tensor(random_array(100 + k, *shape), requires_grad=True) for k, shape in enumerate(shapes)]
        y = call(layer, *inputs)
        yield "the result", y.data
        y.backward(random_array(7, *y.shape))
        for k, x in enumerate(inputs):
            name = "x" if not k else "the memory"
            yield f"the gradient of {name}", np.zeros(x.shape) if x.grad is None else x.grad.data
        for name, p in layer.named_parameters().items():
            yield f"the gradient of {name}", np.zeros(p.shape) if p.grad is None else p.grad.data

    return results


# ---- Modules and initial values ----------------------------------------------------------------------------------


@of("module")
def check_names(work: Work) -> None:
    """the parameters of modules in modules, and in lists"""
    m = work.model
    p = [m.Parameter(np.full(2, float(k))) for k in range(4)]
    true(p[0].requires_grad, "a Parameter does not require a gradient")
    true(isinstance(p[0], work.engine.Tensor), "a Parameter is no Tensor")
    inner, whole = m.Module(), m.Module()
    inner.bias, inner.size = p[1], 3
    whole.weight, whole.part, whole.layers, whole.rows = p[0], inner, [m.Module(), m.Module()], [p[3], 5, "x"]
    whole.constant = work.engine.Tensor(np.ones(2))
    whole.layers[1].weight = p[2]
    named = whole.named_parameters()
    true(isinstance(named, dict), f"named_parameters() returns a {type(named).__name__}, expected a dict")
    true("constant" not in named, "a Tensor that is no Parameter is among the parameters")
    true("part.bias" in named, f"the names are {[*named]}: part.bias, of a module in the module, is missing")
    true("layers.1.weight" in named, "a list of modules is not looked into: layers.1.weight is missing")
    equal("the number of parameters", len(named), 4)
    true([*named] == ["weight", "part.bias", "layers.1.weight", "rows.0"], f"the names are {[*named]}, in the order of assignment: "
         "weight, part.bias, layers.1.weight, rows.0")  # fmt: skip
    true(
        all(found is each for found, each in zip(named.values(), p, strict=True)),
        "the values are not the Parameters themselves",
    )


@of("module")
def check_shared(work: Work) -> None:
    """a parameter that two modules share, and equal ones"""
    m = work.model
    whole, one, other = m.Module(), m.Module(), m.Module()
    one.weight = other.weight = m.Parameter(np.ones(2))
    other.bias = m.Parameter(np.ones(2))
    whole.one, whole.other = one, other
    named = [*whole.named_parameters()]
    true("other.weight" not in named, "a shared parameter is there twice: Adam would update it twice in a step")
    true(
        named == ["one.weight", "other.bias"],
        f"the names are {named}, expected one.weight, which two modules share, and other.bias",
    )


@of("module")
def check_training(work: Work) -> None:
    """train() and eval()"""
    m = work.model
    whole = m.Module()
    whole.part, whole.layers = m.Module(), [m.Module()]
    every = [whole, whole.part, whole.layers[0]]
    true(whole.eval() is whole, "eval() does not return the module")
    true(not whole.training, "eval() leaves `training` true")
    true(not any(each.training for each in every), "eval() does not reach the modules below")
    whole.train()
    true(all(each.training for each in every), "train() does not reach all modules")
    true(m.Module().training, "training is set in the class: a new module is in evaluation mode")


@of("initializer")
def check_weights(work: Work) -> None:
    """glorot_uniform"""
    init = work.model.Initializer(0)
    w = init.glorot_uniform(200, 100)
    true(isinstance(w, work.model.Parameter), "a weight is no Parameter")
    equal("the shape of glorot_uniform(200, 100)", w.shape, (200, 100))
    true(w.dtype == np.float32, f"a weight is of type {w.dtype}, expected float32, the default")
    bound, largest = math.sqrt(6 / 300), float(abs(w.data).max())
    for name, other in {
        "√(6 / n_in) is the bound; it is √(6 / (n_in + n_out))": math.sqrt(6 / 100),
        "√(6 / n_out) is the bound; it is √(6 / (n_in + n_out))": math.sqrt(6 / 200),
        "the root of the bound is missing": 6 / 300,
        "the numbers are in ±1": 1.0,
    }.items():
        true(abs(largest - other) > 0.02 * other, f"glorot_uniform: {name}")
    true(w.data.min() < -0.9 * bound, "glorot_uniform: there are no negative numbers; it is uniform in ± the bound")
    true(
        largest <= bound,
        f"glorot_uniform: the largest number is {largest:.4f}, the bound {bound:.4f}; is it a normal distribution?",
    )
    true(largest > 0.98 * bound, f"glorot_uniform: the largest number is {largest:.4f}, the bound {bound:.4f}")
    wide = abs(work.model.Initializer(0).glorot_uniform(200, 100, gain=0.5).data).max()
    true(abs(wide - bound / 2) < 0.02, "glorot_uniform: gain is not used")


@of("initializer")
def check_normal(work: Work) -> None:
    """normal, zeros, ones, and what the seed does"""
    Initializer = work.model.Initializer
    init = Initializer(0, np.float64)
    w = init.normal(300, 25)
    equal("the shape of normal(300, 25)", w.shape, (300, 25))
    told("the standard deviation of normal(300, 25), rounded", round(float(w.data.std()), 1), 0.2, {
        "it is 1; it is to be 1/√width": 1.0, "it is 1 / width": round(1 / 25, 1), "it is 1/√rows": 0.1,
    })  # fmt: skip
    true(init.zeros(3).dtype == np.float64, "the dtype is not used")
    equal("zeros(3)", init.zeros(3).data, np.zeros(3))
    equal("ones(3)", init.ones(3).data, np.ones(3))
    true(
        not np.array_equal(init.normal(2, 3).data, init.normal(2, 3).data),
        "each call draws the same: one generator serves all",
    )
    one, same, other = (Initializer(seed).normal(2, 3).data for seed in (1, 1, 2))
    true(np.array_equal(one, same), "the same seed gives other numbers")
    true(not np.array_equal(one, other), "the seed is not used")


# ---- Layers ------------------------------------------------------------------------------------------------------


def embedded(m: Any) -> Iterator[tuple[str, Any]]:
    layer = m.Embedding(5, 4, m.Initializer(0, np.float64))
    y = layer(np.array([[1, 3, 3]]))
    yield "the result", y.data
    y.backward(random_array(7, *y.shape))
    yield "the gradient of weight", layer.weight.grad.data


part("layers", "Linear LayerNorm Embedding", {
    "Linear": of_layer(lambda m, init: m.Linear(3, 4, init), lambda layer, x: layer(x), (2, 5, 3)),
    "Linear without bias": of_layer(lambda m, init: m.Linear(3, 4, init, bias=False), lambda layer, x: layer(x), (2, 5, 3)),
    "LayerNorm": of_layer(lambda m, init: m.LayerNorm(4, 0.1, init), lambda layer, x: layer(x), (2, 3, 4)),
    "Embedding": embedded,
}, [
    ("eps is not the one of the layer", "eps=self.eps", "eps=1e-6"),
])  # fmt: skip


@of("dropout_layer")
def check_dropout(work: Work) -> None:
    """while training, and in evaluation mode"""
    layer, x = work.model.Dropout(0.25), work.engine.Tensor(np.ones((100, 100)), requires_grad=True)
    y = layer(x)
    share = float((y.data != 0).mean())
    true(y.data.any() and share < 1, "nothing is dropped while training")
    true(abs(share - 0.75) < 0.05, f"{share:.0%} are kept with p = 0.25, expected 75%")
    equal("the largest of the results for ones", y.data.max(), 1 / 0.75)
    true(not np.array_equal(layer(x).data, y.data), "two calls drop the same elements; draw a new Mask each time")
    y.backward()
    told(
        "the gradient of x", x.grad.data, y.data, {"what is dropped still gets a gradient": np.full(x.shape, 1 / 0.75)}
    )
    layer.eval()
    true(np.array_equal(layer(x).data, x.data), "in evaluation mode, elements are still dropped, or scaled")
    true(np.array_equal(work.model.Dropout(0.0)(x).data, x.data), "with p = 0, the result differs from x")


part("feed_forward", "FeedForward", {
    "without dropout": of_layer(lambda m, init: m.FeedForward(4, 6, "relu", 0.0, init), lambda layer, x: layer(x), (2, 3, 4)),
    "with dropout": of_layer(lambda m, init: m.FeedForward(4, 6, "relu", 0.3, init), lambda layer, x: layer(x), (2, 3, 4)),
}, [
    ("the activation stands behind the second layer, too", "return self.down(self.dropout", "return self.activation(self.down(self.dropout", "(self.up(x))))", "(self.up(x)))))"),
    ("the activation stands behind the second layer, not between the two", "self.down(self.dropout(self.activation(self.up(x))))", "self.activation(self.down(self.dropout(self.up(x))))"),
    ("x is added: the residual connection is a layer of its own", "return self.down(", "return x + self.down("),
])  # fmt: skip


def positions(m: Any) -> Iterator[tuple[str, Any]]:
    for length, width in ((7, 8), (40, 6), (1, 4)):
        yield f"the table of {length} positions of {width}", m.sinusoids(length, width)


part("sinusoids", "sinusoids", {"tables of several sizes": positions}, [
    ("all sines stand before all cosines; they alternate", "axis=-1).reshape", "axis=1).reshape"),
    ("sine and cosine are exchanged", "[np.sin(angle), np.cos(angle)]", "[np.cos(angle), np.sin(angle)]"),
    ("positions count from 1; the first is 0", "np.arange(length)[:, None]", "np.arange(1, length + 1)[:, None]"),
    ("the exponent is i / d_model; a pair (2i, 2i + 1) has 2i / d_model", "(np.arange(0, d_model, 2) / d_model)", "(np.arange(d_model // 2) / d_model)"),
    ("the exponent counts each element; a pair has one frequency", "10000.0 ** (np.arange(0, d_model, 2) / d_model)", "10000.0 ** (np.arange(0, d_model, 2) * 2 / d_model)"),
    ("the base is 1000; it is 10000", "10000.0", "1000.0"),
])  # fmt: skip


def masks(m: Any) -> Iterator[tuple[str, Any]]:
    yield "the mask", m.padding_mask(np.array([[5, 6, EOS], [7, EOS, PAD]]))
    yield "the mask without padding", m.padding_mask(np.array([[5, EOS]]))


part("padding_mask", "padding_mask", {"two sentences, one with padding": masks}, [
    ("padding may be attended to", "ids != PAD", "ids >= PAD"),
    ("the end-of-sentence token is masked, too; it is a token", "ids != PAD", "(ids != PAD) & (ids != 3)"),
    ("off by one: the last real token is masked, too", "(ids != PAD)", "((ids != PAD) & (ids[:, [*range(1, ids.shape[1]), 0]] != PAD))"),
    ("padding is masked as a query; it is as a key, the last axis", "[:, None, None, :]", "[:, None, :, None]"),
    ("the axis of the heads is missing: sentences would broadcast against heads", "[:, None, None, :]", "[:, None, :]"),
    ("it is of numbers, not boolean", "(ids != PAD)[:, None, None, :]", "(ids != PAD)[:, None, None, :].astype(float)"),
])  # fmt: skip

PADDED = np.array([[1, 1, 1], [1, 1, 0]], bool)[:, None, None, :]
SMALL = CONFIG


def attends(call: Callable[..., Any], *shapes: tuple[int, ...]) -> Results:
    return of_layer(lambda m, init: m.MultiHeadAttention(SMALL.d_model, SMALL.heads, 0.0, init), call, *shapes)


HEADS = [
    ("heads are not split: positions and heads are mixed up by a reshape without swapaxes", "return x.reshape(b, t, self.heads, width // self.heads).swapaxes(1, 2)", "return x.reshape(b, self.heads, t, width // self.heads)"),
    ("each head has every second element; it has neighbours: the axis of the heads comes before that of their elements",
     "return x.reshape(b, t, self.heads, width // self.heads).swapaxes(1, 2)", "return x.reshape(b, t, width // self.heads, self.heads).swapaxes(2, 3).swapaxes(1, 2)"),
    ("there is one head: the split is missing", "return ag.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=self.dropout_now)",
     "return self.split_heads(ag.scaled_dot_product_attention(join_heads(q), join_heads(k), join_heads(v), None if mask is None else mask[:, 0], is_causal=is_causal))"),
    ("the scale is 1/√d_model; it is 1/√d_k, of a head", "ag.scaled_dot_product_attention(q, k,", "ag.scaled_dot_product_attention(q * (1 / math.sqrt(self.heads)), k,"),
    ("the scale 1/√d_k is missing", "ag.scaled_dot_product_attention(q, k,", "ag.scaled_dot_product_attention(q * math.sqrt(q.shape[-1]), k,"),
    ("the queries come from the keys' input", "query, *self.keys_and_values", "key, *self.keys_and_values"),
    ("keys and values come from the queries' input", "*self.keys_and_values(key, value)", "*self.keys_and_values(query, query)"),
]  # fmt: skip
part("heads", "MultiHeadAttention", {
    "self-attention": attends(lambda layer, x: layer(x, x, x), (2, 3, 8)),
    "attention to a longer memory": attends(lambda layer, x, memory: layer(x, memory, memory), (2, 3, 8), (2, 4, 8)),
    "padding": attends(lambda layer, x: layer(x, x, x, PADDED), (2, 3, 8)),
    "causal": attends(lambda layer, x: layer(x, x, x, is_causal=True), (2, 3, 8)),
    "causal, with padding": attends(lambda layer, x: layer(x, x, x, PADDED, True), (2, 3, 8)),
}, HEADS)  # fmt: skip

part("residual", "Residual", {
    "around a product": of_layer(lambda m, init: m.Residual(SMALL, init), lambda layer, x: layer(x, lambda y: y * y), (2, 3, 8)),
}, [
    ("pre-norm: x + sublayer(norm(x)); the paper has norm(x + sublayer(x))", "self.norm(x + self.dropout(sublayer(x)))", "x + self.dropout(sublayer(self.norm(x)))"),
])  # fmt: skip

part("encoder_layer", "EncoderLayer", {
    "two sentences, one with padding": of_layer(lambda m, init: m.EncoderLayer(SMALL, init), lambda layer, x: layer(x, PADDED), (2, 3, 8)),
}, [])  # fmt: skip

CROSS = "self.cross_attention(x, memory, memory, memory_mask)"
part("decoder_layer", "DecoderLayer", {
    "two sentences, one with padding": of_layer(
        lambda m, init: m.DecoderLayer(SMALL, init), lambda layer, x, memory: layer(x, memory, PADDED), (2, 4, 8), (2, 3, 8)),
}, [
    ("attention to the memory is causal; the whole source may be seen", CROSS, "self.cross_attention(x, memory, memory, memory_mask, True)"),
    ("attention to the source has the target as memory", CROSS, "self.cross_attention(x, x, x)"),
])  # fmt: skip


def whole(what: str) -> Results:
    """Results of a Transformer: those of one of its functions, and gradients by all parameters."""

    def results(m: Any) -> Iterator[tuple[str, Any]]:
        model = m.Transformer(SMALL, 0, np.float64).eval()
        for k, p in enumerate(model.named_parameters().values()):
            p.data[...] = 0.3 * random_array(k, *p.shape)
        memory = model.encode(SOURCE)
        if what == "encode":
            y = memory
        else:
            y = (
                model.logits(model.decode(TARGET, memory, m.padding_mask(SOURCE)))
                if what == "decode"
                else model(SOURCE, TARGET)
            )
        yield {"encode": "the memory", "decode": "the logits of decode", "call": "the logits"}[what], y.data
        y.backward(random_array(7, *y.shape))
        for name, p in model.named_parameters().items():
            yield f"the gradient of {name}", np.zeros(p.shape) if p.grad is None else p.grad.data

    return results


part("transformer", "Transformer", {"encode": whole("encode"), "decode": whole("decode"), "logits": whole("call")}, [
    ("the encoder sees padding", "self.encoder(self.embed_source(source), padding_mask(source))", "self.encoder(self.embed_source(source), padding_mask(source) | True)"),
    ("the decoder sees padding of the source", "self.encode(source), padding_mask(source)", "self.encode(source), padding_mask(source) | True"),
    ("positions are not added to the embeddings times √d_model, but are multiplied with them", "return self.dropout(self.source_positions(self.source_embedding(ids)))",
     "return self.source_embedding(ids) * self.source_positions(Tensor(np.zeros((*ids.shape, self.config.d_model)))).data"),
    ("the shared matrix gets no gradient from the output", "ag.linear(hidden, self.output_matrix)", "ag.linear(hidden, self.output_matrix.data)"),
    ("the source reads the target's ids", "embed_source(source)", "embed_source(source * 0 + 5)"),
    ("the embedding gets no gradient from the target", "self.embed_target(target, start)", "Tensor(self.embed_target(target, start).data)"),
    ("they are probabilities; the loss takes the softmax itself", "ag.linear(hidden, self.output_matrix)", "(lambda z: Tensor(np.exp(z.data) / np.exp(z.data).sum(-1, keepdims=True)))(ag.linear(hidden, self.output_matrix))"),
])  # fmt: skip


@of("transformer")
def check_loss(work: Work) -> None:
    """the loss"""
    model = work.model.Transformer(SMALL, 0, np.float64).eval()
    for k, p in enumerate(model.named_parameters().values()):
        p.data[...] = 0.3 * random_array(k, *p.shape)
    labels = np.array([[10, 11, 5, EOS], [6, 10, EOS, PAD]])
    loss = model.loss(SOURCE, TARGET, labels, 0.1)
    true(isinstance(loss, work.engine.Tensor), f"loss is a {type(loss).__name__}, expected a Tensor")
    logits = model(SOURCE, TARGET).data

    def of_labels(epsilon: float, counted: Any, logits: Array = logits) -> float:
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        q = (1 - epsilon) * np.eye(12)[labels] + epsilon / 12
        return float(-(q * log_p).sum(-1)[counted].sum())

    real = labels != PAD
    told("the loss", loss.data, of_labels(0.1, real), {
        "padding counts": of_labels(0.1, real | True), "label smoothing has no part in it": of_labels(0.0, real),
        "it is a mean over tokens; it is their sum": of_labels(0.1, real) / 7,
        "it is a mean over all positions; it is the sum over tokens": of_labels(0.1, real) / 8,
    })  # fmt: skip
    if not np.ndim(loss.data) == 0:
        raise Wrong(f"the loss has shape {loss.shape}, expected a single number")
