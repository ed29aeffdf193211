"""Damage to layers and the model: branches that lose their gradient, shared weights, masks that let through too much.

Layers are made of ops, so their gradients are those of what they compute: cut from the graph where they should not be,
they are wrong; looking where they should not, they are right gradients of the wrong function, which only exact zeros
can tell.
"""

from tests.mutants.damage import Mutant

L = "minitf.model.layers"
A = "minitf.model.attention"
T = "minitf.model.transformer"
DECODER = "minitf.decoding.decoder:InferenceTransformer"
STATE = "minitf.decoding.state:DecodingState"
DECODING = ("tests/minitf/decoding/test_decoder.py",)

# fmt: off
MUTANTS = [
    # ---- Layers ----
    Mutant(f"{L}:Linear.__call__", "the bias gets no gradient", "self.bias)", "self.bias.detach())"),
    Mutant(f"{L}:Linear.__call__", "the weight gets half its gradient", "ag.linear(x, self.weight, self.bias)",
           "0.5 * ag.linear(x, self.weight, self.bias) + 0.5 * ag.linear(x, self.weight.detach(), self.bias)"),
    Mutant(f"{L}:Embedding.__call__", "the scale is not differentiated",
           "ag.embedding(ids, self.weight, scale=self.scale)",
           "ag.embedding(ids, self.weight) + ag.embedding(ids, self.weight, scale=self.scale - 1).detach()"),
    Mutant(f"{L}:LayerNorm.__call__", "x gets no gradient", "ag.layer_norm(x,", "ag.layer_norm(x.detach(),"),
    Mutant(f"{L}:Dropout.__call__", "the gradient passes as if nothing had been dropped",
           "ag.dropout(x, self.p, self.training)", "x + (ag.dropout(x, self.p, self.training) - x).detach()"),
    Mutant(f"{L}:FeedForward.__call__", "the gradient passes as if there were no activation",
           "self.activation(self.up(x))", "(lambda y: y + (self.activation(y) - y).detach())(self.up(x))"),
    Mutant(f"{L}:FeedForward.__call__", "x gets no gradient", "self.up(x)", "self.up(x.detach())"),
    # ---- Attention ----
    Mutant(f"{A}:MultiHeadAttention.__call__", "queries pass no gradient on",
           "self.query(query)", "self.query(query.detach())"),
    Mutant(f"{A}:MultiHeadAttention.__call__", "keys pass no gradient on", "self.key(key)", "self.key(key.detach())"),
    Mutant(f"{A}:MultiHeadAttention.__call__", "values pass no gradient on",
           "self.value(value)", "self.value(value.detach())"),
    Mutant(f"{A}:MultiHeadAttention.__call__", "the projection of the keys learns nothing",
           "self.split_heads(self.key(key))", "self.split_heads(self.key(key)).detach()"),
    Mutant(f"{A}:MultiHeadAttention.__call__", "the causal mask is forgotten",
           "mask, is_causal)", "mask, False)", near=("exact zeros",)),
    Mutant("minitf.model.mixing:_neighbours", "a convolution sees padding",
           "ag.where(mask[:, 0, 0, :, None], x, 0)", "x", near=("tests/minitf/model/test_mixing.py",)),
    Mutant("minitf.model.mixing:_neighbours", "a convolution is shifted by one position",
           "(width // 2, (width - 1) // 2)", "(width // 2 + 1, (width - 1) // 2)",
           near=("tests/minitf/model/test_mixing.py",)),
    Mutant(f"{A}:MultiHeadAttention.__call__", "the padding mask is forgotten",
           "(q, k, v, mask,", "(q, k, v, None,", near=("exact zeros",)),
    Mutant(f"{A}:padding_mask", "polarity: padding alone is seen", "ids != PAD", "ids == PAD", near=("exact zeros",)),
    Mutant(f"{A}:padding_mask", "padding is seen too", "ids != PAD", "ids >= PAD", near=("exact zeros",)),
    Mutant(f"{A}:padding_mask", "off by one: the last real token is not seen",
           "(ids != PAD)", "((ids != PAD) & (ids[:, [*range(1, ids.shape[1]), 0]] != PAD))",
           near=("exact zeros",)),
    # ---- Residual connections ----
    Mutant(f"{T}:Residual.__call__", "post-norm: the gradient passes through the sub-layer only",
           "sublayer(x), x,", "sublayer(x), x.detach(),"),
    Mutant(f"{T}:Residual.__call__", "post-norm: the gradient passes by the sub-layer only",
           "sublayer(x), x,", "sublayer(x.detach()), x,"),
    Mutant(f"{T}:Residual.__call__", "pre-norm: the gradient passes through the sub-layer only",
           "x + self.dropout(", "x.detach() + self.dropout("),
    Mutant(f"{T}:Residual.__call__", "pre-norm: the gradient passes by the sub-layer only",
           "sublayer(self.norm(x))", "sublayer(self.norm(x.detach()))"),
    Mutant(f"{T}:Residual.__call__", "the bias of the norm gets no gradient",
           "self.norm.bias", "self.norm.bias.detach()"),
    # ---- Encoder and decoder ----
    Mutant(f"{T}:EncoderLayer.mix", "self-attention: one of three uses passes no gradient on",
           "(x, x, x, mask)", "(x, x.detach(), x, mask)"),
    Mutant(f"{T}:EncoderLayer.mix", "the padding mask is forgotten",
           "(x, x, x, mask)", "(x, x, x)", near=("exact zeros",)),
    Mutant(f"{T}:DecoderLayer.__call__", "the future is seen",
           "is_causal=True", "is_causal=False", near=("exact zeros",)),
    Mutant(f"{T}:DecoderLayer.__call__", "memory as keys passes no gradient on",
           "memory, memory, memory_mask)", "memory.detach(), memory, memory_mask)"),
    Mutant(f"{T}:DecoderLayer.__call__", "memory as values passes no gradient on",
           "memory, memory, memory_mask)", "memory, memory.detach(), memory_mask)"),
    Mutant(f"{T}:DecoderLayer.__call__", "padding of the source is seen",
           "memory, memory, memory_mask)", "memory, memory)", near=("exact zeros",)),
    Mutant(f"{T}:Encoder.__call__", "only the last layer passes a gradient on",
           "layer(x, mask)", "layer(x.detach(), mask)"),
    Mutant(f"{T}:Decoder.__call__", "memory passes no gradient on",
           "x, memory, memory_mask, each", "x, memory.detach(), memory_mask, each"),
    Mutant(f"{T}:Encoder.__call__", "pre-norm: nothing passes the last norm", "self.norm(x)", "self.norm(x.detach())"),
    Mutant(f"{T}:Positions.rows", "learned positions learn nothing",
           "self.weight[start:stop]", "self.weight[start:stop].detach()"),
    Mutant(f"{T}:Positions.__call__", "learned positions pass no gradient on",
           "x + self.rows", "x.detach() + self.rows"),
    # ---- The model ----
    Mutant(f"{T}:Transformer.output_matrix", "the shared matrix gets no gradient as the output projection",
           "self.target_embedding.weight if", "self.target_embedding.weight.detach() if"),
    Mutant(f"{T}:Transformer.encode", "the shared matrix gets no gradient as the source embedding",
           '"source")', '"source").detach()'),
    Mutant(f"{T}:Transformer.decode", "the shared matrix gets no gradient as the target embedding",
           '"target")', '"target").detach()'),
    Mutant(f"{T}:Transformer.__call__", "the encoder gets no gradient",
           "self.encode(source)", "self.encode(source).detach()"),
    Mutant(f"{T}:Transformer.__call__", "the decoder sees padding",
           "padding_mask(source))", "padding_mask(source) | True)", near=("exact zeros",)),
    Mutant(f"{T}:Transformer.encode", "the encoder sees padding",
           "padding_mask(source)", "padding_mask(source) | True", near=("exact zeros",)),
    # ---- Decoding ----
    Mutant(f"{DECODER}._after", "pre-norm: the residual branch is forgotten", "y += x", "pass", near=DECODING),
    Mutant(f"{STATE}.begin_step", "the beams of a sentence attend to each other",
           "xp.eye(self.beams, dtype=bool)", "xp.ones((self.beams, self.beams), bool)", near=DECODING),
    Mutant(f"{STATE}.reorder", "a beam keeps its ancestors when it takes another's place",
           "[self.backend.asarray(rows)]", "[self.backend.asarray(rows // self.beams * self.beams)]", near=DECODING),
]
