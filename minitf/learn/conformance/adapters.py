"""Modules of this project and of PyTorch as the functions that the checks call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd import Tensor
from minitf.fast.decoder import InferenceTransformer
from minitf.model.transformer import DecoderLayer, EncoderLayer, Transformer
from minitf.model.variants import ForeignTransformer

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
    """The weights of a PyTorch module's embeddings and output, found by their sizes; {} unless there are both."""
    modules = [module for _, module in model.named_modules()] if hasattr(model, "named_modules") else []
    embeddings = [each.weight for each in modules if getattr(each, "num_embeddings", None) == vocab_size]
    outputs = [each.weight for each in modules if getattr(each, "out_features", None) == vocab_size]
    if not (embeddings and outputs):
        return {}
    return {
        "weights": {
            "source_embedding": embeddings[0],
            "target_embedding": embeddings[-1],
            "output": outputs[-1],
        }
    }


def parts_of(model: Any, vocab_size: int) -> dict[str, Any]:
    """Return the parts of a Transformer of this project; of another module, the weights that its sizes identify."""
    if not isinstance(model, Transformer):
        return embeddings_in(model, vocab_size)
    decoder = InferenceTransformer(model)

    def embed(ids: Any) -> Any:
        x = model.source_positions(model.source_embedding(ids))
        return (
            model.source_embedding_norm(x)
            if isinstance(model, ForeignTransformer) and model.config.embedding_norm
            else x
        )

    layer = model.encoder.layers[0]
    return {
        "embed": embed,
        "weights": {
            "source_embedding": model.source_embedding.weight,
            "target_embedding": model.target_embedding.weight,
            "output": model.output_matrix,
        },
        "attention": layer.self_attention.attend if decoder.has_attention else None,
        "encoder_layer": layer,
        "start": decoder.start_decoding,
        "step": decoder.decode_step,
    }
