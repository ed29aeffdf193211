"""Damage to layers and the model: branches that lose their gradient, shared weights, masks that let through too much.

Layers are made of ops, so their gradients are those of what they compute: cut from the graph where they should not be,
they are wrong; looking where they should not, they are right gradients of the wrong function, which only exact zeros
can tell.
"""

from tests.mutants.damage import Mutant

L = "minitf.model.layers"
T = "minitf.model.transformer"
V = "minitf.model.variants"
DECODER = "minitf.fast.decoder:InferenceTransformer"
STATE = "minitf.fast.state:DecodingState"
F = "minitf.fast.layers"
FAST = ("tests/minitf/fast/test_accelerate.py",)
DECODING = ("tests/minitf/decoding/test_decoder.py",)

# fmt: off
MUTANTS = [
    # ---- Layers ----
    Mutant(f"{L}:Linear.__call__", "the bias gets no gradient", "self.bias)", "self.bias.detach())"),
    Mutant(f"{L}:Linear.__call__", "the weight gets half its gradient", "ag.linear(x, self.weight, self.bias)",
           "0.5 * ag.linear(x, self.weight, self.bias) + 0.5 * ag.linear(x, self.weight.detach(), self.bias)"),
    Mutant(f"{L}:Embedding.__call__", "the scale is not differentiated",
           "ag.embedding(ids, self.weight) * self.scale",
           "(lambda x: x + (self.scale - 1) * x.detach())(ag.embedding(ids, self.weight))"),
    Mutant(f"{L}:LayerNorm.__call__", "x gets no gradient", "ag.layer_norm(x,", "ag.layer_norm(x.detach(),"),
    Mutant(f"{L}:Dropout.__call__", "the gradient passes as if nothing had been dropped",
           "ag.dropout(x, self.p, self.training)", "x + (ag.dropout(x, self.p, self.training) - x).detach()"),
    Mutant(f"{L}:FeedForward.__call__", "the gradient passes as if there were no activation",
           "self.activation(self.up(x))", "(lambda y: y + (self.activation(y) - y).detach())(self.up(x))"),
    Mutant(f"{L}:FeedForward.__call__", "x gets no gradient", "self.up(x)", "self.up(x.detach())"),
    # ---- Attention ----
    Mutant(f"{T}:MultiHeadAttention.over", "queries pass no gradient on",
           "self.query(query)", "self.query(query.detach())"),
    Mutant(f"{T}:MultiHeadAttention.keys_and_values", "keys pass no gradient on",
           "self.key(key)", "self.key(key.detach())"),
    Mutant(f"{T}:MultiHeadAttention.keys_and_values", "values pass no gradient on",
           "self.value(value)", "self.value(value.detach())"),
    Mutant(f"{T}:MultiHeadAttention.keys_and_values", "the projection of the keys learns nothing",
           "self.split_heads(self.key(key))", "self.split_heads(self.key(key)).detach()"),
    Mutant(f"{T}:MultiHeadAttention.over", "the causal mask is forgotten",
           "mask, is_causal)", "mask, False)", near=("exact zeros",)),
    Mutant("minitf.model.mixing:_neighbours", "a convolution sees padding",
           "ag.where(mask[:, 0, 0, :, None], x, 0)", "x", near=("tests/minitf/model/test_mixing.py",)),
    Mutant("minitf.model.mixing:_neighbours", "a convolution is shifted by one position",
           "(width // 2, (width - 1) // 2)", "(width // 2 + 1, (width - 1) // 2)",
           near=("tests/minitf/model/test_mixing.py",)),
    Mutant(f"{T}:MultiHeadAttention.over", "the padding mask is forgotten",
           "(q, k, v, mask,", "(q, k, v, None,", near=("exact zeros",)),
    Mutant(f"{T}:padding_mask", "polarity: padding alone is seen", "ids != PAD", "ids == PAD", near=("exact zeros",)),
    Mutant(f"{T}:padding_mask", "padding is seen too", "ids != PAD", "ids >= PAD", near=("exact zeros",)),
    Mutant(f"{T}:padding_mask", "off by one: the last real token is not seen",
           "(ids != PAD)", "((ids != PAD) & (ids[:, [*range(1, ids.shape[1]), 0]] != PAD))",
           near=("exact zeros",)),
    # ---- Residual connections ----
    Mutant(f"{T}:Residual.__call__", "post-norm: the gradient passes through the sub-layer only",
           "norm(x +", "norm(x.detach() +"),
    Mutant(f"{T}:Residual.__call__", "post-norm: the gradient passes by the sub-layer only",
           "sublayer(x)", "sublayer(x.detach())"),
    Mutant(f"{V}:PreNormResidual.__call__", "pre-norm: the gradient passes through the sub-layer only",
           "x + self.dropout(", "x.detach() + self.dropout(", near=("Residual",)),
    Mutant(f"{V}:PreNormResidual.__call__", "pre-norm: the gradient passes by the sub-layer only",
           "sublayer(self.norm(x))", "sublayer(self.norm(x.detach()))", near=("Residual",)),
    Mutant(f"{L}:LayerNorm.__call__", "the bias of the norm gets no gradient",
           "self.bias", "self.bias.detach()"),
    # ---- Encoder and decoder ----
    Mutant(f"{T}:EncoderLayer.__call__", "self-attention: one of three uses passes no gradient on",
           "(y, y, y, mask)", "(y, y.detach(), y, mask)"),
    Mutant(f"{T}:EncoderLayer.__call__", "the padding mask is forgotten",
           "(y, y, y, mask)", "(y, y, y)", near=("exact zeros",)),
    Mutant(f"{T}:DecoderLayer.attend_to_target", "the future is seen",
           "is_causal=True", "is_causal=False", near=("exact zeros",)),
    Mutant(f"{T}:DecoderLayer.attend_to_source", "memory as keys passes no gradient on",
           "memory, memory, memory_mask)", "memory.detach(), memory, memory_mask)"),
    Mutant(f"{T}:DecoderLayer.attend_to_source", "memory as values passes no gradient on",
           "memory, memory, memory_mask)", "memory, memory.detach(), memory_mask)"),
    Mutant(f"{T}:DecoderLayer.attend_to_source", "padding of the source is seen",
           "memory, memory, memory_mask)", "memory, memory)", near=("exact zeros",)),
    Mutant(f"{T}:Encoder.__call__", "only the last layer passes a gradient on",
           "layer(x, mask)", "layer(x.detach(), mask)"),
    Mutant(f"{T}:Decoder.__call__", "memory passes no gradient on",
           "layer(x, memory,", "layer(x, memory.detach(),"),
    Mutant(f"{V}:PreNormEncoder.__call__", "pre-norm: nothing passes the last norm",
           "super().__call__(x, mask)", "super(PreNormEncoder, self).__call__(x, mask).detach()",
           near=("Encoder",)),
    Mutant(f"{V}:LearnedPositions.rows", "learned positions learn nothing",
           "self.weight[start:stop]", "self.weight[start:stop].detach()", near=("Positions",)),
    Mutant(f"{T}:Positions.__call__", "learned positions pass no gradient on",
           "x + self.rows", "x.detach() + self.rows"),
    # ---- The model ----
    Mutant(f"{T}:Transformer.output_matrix", "the shared matrix gets no gradient as the output projection",
           "self.target_embedding.weight if", "self.target_embedding.weight.detach() if"),
    Mutant(f"{T}:Transformer.encode", "the shared matrix gets no gradient as the source embedding",
           "self.embed_source(source)", "self.embed_source(source).detach()"),
    Mutant(f"{T}:Transformer.decode", "the shared matrix gets no gradient as the target embedding",
           "self.embed_target(target, start)", "self.embed_target(target, start).detach()"),
    Mutant(f"{T}:Transformer.__call__", "the encoder gets no gradient",
           "self.encode(source)", "self.encode(source).detach()"),
    Mutant(f"{T}:Transformer.__call__", "the decoder sees padding",
           "padding_mask(source))", "padding_mask(source) | True)", near=("exact zeros",)),
    Mutant(f"{T}:Transformer.encode", "the encoder sees padding",
           "padding_mask(source)", "padding_mask(source) | True", near=("exact zeros",)),
    # ---- Fast parts ----
    Mutant(f"{F}:FusedFeedForward.__call__", "dropout forgotten", "self.dropout(ag", "(ag", near=FAST),
    Mutant(f"{F}:FusedResidual.__call__", "dropout in evaluation, too", "training=self.training", "training=True",
           near=FAST),
    Mutant(f"{F}:PackedAttention.__call__", "keys and values exchanged",
           "q, k, v = linear_heads", "q, v, k = linear_heads", near=FAST),
    Mutant(f"{F}:PackedAttention.attend", "the causal mask is forgotten", "is_causal=is_causal", "is_causal=False",
           near=FAST),
    Mutant(f"{F}:PackedDecoder.__call__", "keys and values exchanged",
           "of_all[::2], of_all[1::2]", "of_all[1::2], of_all[::2]", near=FAST),
    Mutant(f"{F}:FastTransformer.embedded", "scale forgotten", "scale=embedding.scale", "scale=1.0", near=FAST),
    Mutant(f"{F}:FastTransformer.loss", "padding counts", "ignore_index=PAD", "ignore_index=-100", near=FAST),
    # ---- Decoding ----
    Mutant(f"{DECODER}._after", "pre-norm: the residual branch is forgotten", "y += x", "pass", near=DECODING),
    Mutant(f"{STATE}.begin_step", "the beams of a sentence attend to each other",
           "xp.eye(self.beams, dtype=bool)", "xp.ones((self.beams, self.beams), bool)", near=DECODING),
    Mutant(f"{STATE}.reorder", "a beam keeps its ancestors when it takes another's place",
           "[self.backend.asarray(rows)]", "[self.backend.asarray(rows // self.beams * self.beams)]", near=DECODING),
]
