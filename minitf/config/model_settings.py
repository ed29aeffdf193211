"""The hyperparameters of the model: those that the paper varies, those that it compares with, those of other programs.

model.py puts them together, and checks them.
"""

from dataclasses import dataclass
from typing import Literal

from minitf.config.options import option

WIDEST, MOST_HEADS = 2**17, 2**12
"""Sizes beyond which NumPy could not say how much memory an array would take."""
COMPARED = "Model: what the paper compares with (section 3.2.1, Table 1)"
OTHERS = "Model: what the paper leaves open or lacks, and models of other programs have"


@dataclass(frozen=True, kw_only=True)
class PaperSettings:
    """The hyperparameters that the paper varies, in Table 3. The defaults are its base model."""

    vocab_size: int = option(0, "rows of the embeddings; 0: as many as the vocabulary", at_least=0, hidden=True)
    layers: int = option(6, "layers of the encoder, and of the decoder", source="Table 3, N", at_least=1, limit=150)
    d_model: int = option(
        512, "width of embeddings and of every sub-layer's output", source="3.1", at_least=1, limit=WIDEST
    )
    heads: int = option(8, "attention heads", source="3.2.2, h", at_least=1, limit=MOST_HEADS)
    d_ff: int = option(2048, "inner width of the feed-forward networks", source="3.3", at_least=1, limit=WIDEST)
    d_k: int | None = option(
        None, "width of queries and keys in a head; none: d_model / heads", source="3.2.2", at_least=1, limit=WIDEST
    )
    d_v: int | None = option(
        None, "width of values in a head; none: d_model / heads", source="3.2.2", at_least=1, limit=WIDEST
    )
    dropout: float = option(
        0.1, "dropout of sub-layer outputs and of embedding sums", unit="probability", source="5.4", at_least=0, below=1
    )
    positions: Literal["sinusoidal", "sinusoidal-concatenated", "sinusoidal-halves", "learned"] = option(
        "sinusoidal",
        "sinusoidal: sin and cos in turn, as in the paper; sinusoidal-concatenated: all sin, then all cos, with the "
        "frequencies of its first public code; sinusoidal-halves: all sin, then all cos, with the paper's frequencies, "
        "as Hugging Face's Marian; learned: a table, Table 3 row E",
        source="3.5",
    )
    max_positions: int = option(
        1024,
        "rows of the table of learned positions, which bounds the length of sentences",
        unit="tokens",
        at_least=1,
        limit=2**24,
    )
    share_embeddings: Literal["all", "source-target", "target-output", "none"] = option(
        "all",
        "one matrix for all: source embedding, target embedding and output projection; or only for two of them; in "
        "config.json also true for all and false for none",
        source="3.4",
    )


@dataclass(frozen=True, kw_only=True)
class ComparedSettings:
    """Attention, and what stands in its place, with which the paper compares (section 3.2.1, Table 1)."""

    attention: Literal["scaled-dot-product", "dot-product", "additive"] = option(
        "scaled-dot-product",
        "scores of attention: scaled-dot-product, q k / sqrt(d_k), as in the paper; dot-product, without the scale; "
        "additive, w tanh(q + k), which the paper compares with",
        source="3.2.1",
        section=COMPARED,
    )
    mixing: Literal["self-attention", "restricted", "recurrent", "convolutional", "separable-convolutional"] = option(
        "self-attention",
        "how positions of one sequence see others: self-attention, as in the paper; restricted, self-attention to a "
        "neighbourhood in encoder and decoder; or, in the encoder alone, a gated recurrent unit or a convolution",
        source="Table 1, section 4",
    )
    neighbourhood: int = option(
        32, "positions that restricted self-attention sees: around its own, in the decoder up to its own",
        unit="tokens", source="4, r", at_least=1,
    )  # fmt: skip
    kernel_width: int = option(3, "width of convolutions", unit="tokens", source="Table 1, k", at_least=1)


@dataclass(frozen=True, kw_only=True)
class OtherProgramsSettings:
    """What the paper leaves open or does not have, and models of other programs do."""

    source_vocab_size: int | None = option(
        None, "rows of the source embedding; none: as many as of the target's", at_least=1, hidden=True
    )
    encoder_layers: int | None = option(
        None,
        "layers of the encoder; none: --model.layers",
        source="Table 3, N",
        at_least=1,
        limit=150,
        section=OTHERS,
    )
    decoder_layers: int | None = option(
        None, "layers of the decoder; none: --model.layers", source="Table 3, N", at_least=1, limit=150
    )
    attention_dropout: float = option(
        0.0, "dropout of attention weights; the paper names none", unit="probability", at_least=0, below=1
    )
    activation_dropout: float = option(
        0.0, "dropout inside the feed-forward networks; the paper names none", unit="probability", at_least=0, below=1
    )
    activation: Literal["relu", "gelu", "silu"] = option(
        "relu", "non-linearity of the feed-forward networks", source="3.3"
    )
    norm: Literal["post", "pre"] = option(
        "post", "post: LayerNorm(x + f(x)), as in the paper; pre: x + f(LayerNorm(x)), steadier if deep", source="3.1"
    )
    norm_epsilon: float = option(
        1e-6, "added to the variance in layer normalisation; as in the paper's first public code", above=0
    )
    first_position: int = option(
        0, "number of the first position; fairseq counts from 2", unit="positions", at_least=0, limit=10**6
    )
    attention_bias: bool = option(
        True, "biases in the projections of attention; the paper names none, its first public code has them"
    )
    attention_gain: float = option(
        1.0, "factor on the initial weights of query, key and value projections; fairseq has 0.7071", above=0
    )
    scale_embeddings: bool = option(True, "embeddings times the square root of d_model", source="3.4")
    embedding_norm: bool = option(
        False, "layer normalisation of embeddings with their positions; the paper has none, fairseq offers it"
    )
    decoder_start: Literal["bos", "eos", "zero"] = option(
        "bos",
        "first input of the decoder: bos, the embedding of the start token; eos, that of the end token, as in fairseq; "
        "zero, a zero vector, as in Marian",
    )
    source_eos: bool = option(True, "an end token after each source sentence")
    output_bias: bool = option(False, "a bias on the logits; the paper names none, Marian has one")
    masked_tokens: tuple[int, ...] = option(
        (), "tokens that the model never produces: their logits are minus infinity", hidden=True
    )
