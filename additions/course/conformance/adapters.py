"""Modules of this project and of PyTorch as the functions that the checks call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from additions.course.conformance.table import NotGiven
from autograd import Tensor
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import DecoderLayer, EncoderLayer, Transformer

Function = Callable[..., Any]


def layer_function(layer: Any) -> tuple[Function, str | None]:
    """layer(x, mask) of a known module, and what its mask means; the layer itself and None for any other callable."""
    if isinstance(layer, EncoderLayer):
        return lambda x, real: layer(x, real[:, None, None, :]), "allowed"
    if isinstance(layer, DecoderLayer):
        return lambda x: layer(x, Tensor(_memory(len(x), x.shape[2])), np.ones((1, 1, 1, 3), bool)), "none"
    torch = sys.modules.get("torch")
    if torch is None:
        return layer, None
    if isinstance(layer, torch.nn.TransformerEncoderLayer):
        order = _batch_first(layer.self_attn)
        return lambda x, padding: order(layer(order(x), src_key_padding_mask=padding)), "forbidden"
    if isinstance(layer, torch.nn.TransformerDecoderLayer):
        order = _batch_first(layer.self_attn)

        def decoder_layer(x: Any) -> Any:
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            memory = torch.from_numpy(_memory(len(x), x.shape[2])).to(x.dtype)
            return order(layer(order(x), order(memory), tgt_mask=future))

        return decoder_layer, "none"
    return layer, None


def attention_function(attention: Any) -> tuple[Function, str | None]:
    """attention(q, k, v, mask) of torch.nn.MultiheadAttention, with all projections the identity."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(attention, torch.nn.MultiheadAttention):
        return attention, None

    def call(q: Any, k: Any, v: Any, forbidden: Any) -> Any:
        b, h, t, width = q.shape
        module = torch.nn.MultiheadAttention(h * width, h, bias=False, batch_first=True, dtype=q.dtype).eval()
        with torch.no_grad():
            unit = torch.eye(h * width, dtype=q.dtype)
            module.in_proj_weight.copy_(unit.repeat(3, 1))
            module.out_proj.weight.copy_(unit)
        module.__class__ = type(attention)  # its own forward
        joined = [a.transpose(1, 2).flatten(2) for a in (q, k, torch.nn.functional.pad(v, (0, width - v.shape[-1])))]
        mask = forbidden.expand(b, h, t, k.shape[2]).flatten(0, 1)
        y = module(*joined, attn_mask=mask, need_weights=False)[0]
        return y.unflatten(2, (h, width)).transpose(1, 2)[..., : v.shape[-1]]

    return call, "forbidden"


def _memory(sentences: int, width: int) -> np.ndarray:
    """Return the memory that a decoder layer attends to, the same at each call.  Shapes: -> [B, 3, D]"""
    return np.tile(np.sin(7 * np.arange(3 * width)).reshape(1, 3, width), (sentences, 1, 1))


def _batch_first(attention: Any) -> Function:
    return (lambda x: x) if attention.batch_first else (lambda x: x.transpose(0, 1))


def embeddings_in(model: Any, vocab_size: int) -> dict[str, Any]:
    """The weights of a model's embeddings and output, found by their sizes; {} if there are none.

    Of a PyTorch module, those of its embeddings and linear layers; of anything else, matrices that it can reach
    """
    if hasattr(model, "named_modules"):
        modules = [module for _, module in model.named_modules()]
        embeddings = [each.weight for each in modules if getattr(each, "num_embeddings", None) == vocab_size]
        outputs = [each.weight for each in modules if getattr(each, "out_features", None) == vocab_size]
    else:
        found = [
            a for a in matrices_in(model) if a.ndim == 2 and (a.shape[0] == vocab_size) != (a.shape[1] == vocab_size)
        ]
        embeddings = outputs = found if len({a.size for a in found}) == 1 and len(found) <= 3 else []
    if not (embeddings and outputs):
        return {}
    return {
        "weights": {
            "source_embedding": embeddings[0],
            "target_embedding": embeddings[min(1, len(embeddings) - 1)],
            "output": outputs[-1],
        }
    }


def matrices_in(thing: Any) -> list[np.ndarray]:
    """The matrices of floats that a function or an object can reach: attributes, globals, variables around it."""
    found: list[np.ndarray] = []
    seen: set[int] = set()
    stack = [thing]
    while stack:
        each = stack.pop()
        if id(each) in seen or isinstance(each, ModuleType | type | str | bytes | Tensor):
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            if each.dtype.kind == "f" and each.size > max(each.shape, default=1):  # no row of a bias
                found.append(each)
        elif isinstance(each, FunctionType):
            names = {name for code in _codes(each.__code__) for name in code.co_names}
            stack += [each.__globals__[name] for name in sorted(names & each.__globals__.keys(), reverse=True)]
            stack += [cell.cell_contents for cell in each.__closure__ or ()] + [*(each.__defaults__ or ())]
        elif isinstance(each, MethodType):
            stack += [each.__func__, each.__self__]
        elif isinstance(each, Mapping):
            stack += [*each.values()][::-1]
        elif isinstance(each, list | tuple):
            stack += each[::-1]
        elif hasattr(each, "__dict__"):
            methods = [value for value in vars(type(each)).values() if isinstance(value, FunctionType)]
            stack += [*methods, *[*vars(each).values()][::-1]]
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _torch_parts(model: Any) -> dict[str, Any]:
    """The parts of a PyTorch module that are modules of PyTorch: encoder layer, attention, and what enters them."""
    torch = sys.modules.get("torch")
    modules = [*model.modules()] if torch is not None and isinstance(model, torch.nn.Module) else []
    parts: dict[str, Any] = {}
    for name, kind in (("encoder_layer", "TransformerEncoderLayer"), ("attention", "MultiheadAttention")):
        found = [each for each in modules if torch is not None and isinstance(each, getattr(torch.nn, kind))]
        if found:
            parts[name] = found[0]
    if "encoder_layer" in parts:
        assert torch is not None
        encoders = [each for each in modules if isinstance(each, torch.nn.TransformerEncoder)]
        order = _batch_first(parts["encoder_layer"].self_attn)
        parts["embed"] = lambda ids: order(_entering(model, [*encoders, parts["encoder_layer"]][0], ids))
    return parts


def _entering(model: Any, module: Any, ids: Any) -> Any:
    """Return the input of the first call of a submodule while the model computes.  Raises: NotGiven if there is none"""
    found: list[Any] = []
    handle = module.register_forward_pre_hook(
        lambda _, words, named: found.append(words[0] if words else named["src"]), with_kwargs=True
    )
    try:
        model(ids, ids)
    finally:
        handle.remove()
    if not found:
        raise NotGiven("give embed")
    return found[0]


def parts_of(model: Any, vocab_size: int) -> dict[str, Any]:
    """Return the parts of a Transformer of this project; of another model, those that can be found in it."""
    if not isinstance(model, Transformer):
        return {**embeddings_in(model, vocab_size), **_torch_parts(model)}
    decoder = InferenceTransformer(model)

    def embed(ids: Any) -> Any:
        x = model.source_positions(model.source_embedding(ids))
        norm = getattr(model, "source_embedding_norm", None)  # of some models of other programs
        return x if norm is None else norm(x)

    layer = model.encoder.layers[0]
    return {
        "embed": embed,
        "weights": {
            "source_embedding": model.source_embedding.weight,
            "target_embedding": model.target_embedding.weight,
            "output": model.output_matrix,
        },
        "attention": layer.self_attention.attend,
        "encoder_layer": layer,
        "start": decoder.start_decoding,
        "step": decoder.decode_step,
    }
