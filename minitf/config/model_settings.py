"""The hyperparameters of the model: those that the paper varies or compares with, and those of other programs' models.

model.py combines and checks them.
"""

from dataclasses import dataclass
from typing import Literal

from minitf.config.fields import option

WIDEST, MOST_HEADS = 2**17, 2**12
"""Sizes beyond which NumPy could not compute how much memory an array would take."""
COMPARED = "Model: alternatives that the paper compares (section 3.2.1, Table 1)"
OTHERS = "Model: options beyond the paper, mostly for models of other programs"


@dataclass(frozen=True, kw_only=True)
class PaperSettings:
    """The hyperparameters that the paper varies, in Table 3. The defaults are its base model."""

    vocab_size: int = option(0, "rows of the embeddings; 0: the size of the vocabulary", at_least=0, hidden=True)
    layers: int = option(
        6, "number of layers in the encoder and in the decoder", source="Table 3, N", at_least=1, limit=150
    )
    d_model: int = option(
        512, "width of embeddings and of the outputs of all sub-layers", source="3.1", at_least=1, limit=WIDEST
    )
    heads: int = option(8, "number of attention heads", source="3.2.2, h", at_least=1, limit=MOST_HEADS)
    d_ff: int = option(2048, "inner width of the feed-forward networks", source="3.3", at_least=1, limit=WIDEST)
    d_k: int | None = option(
        None, "width of queries and keys in a head; none: d_model / heads", source="3.2.2", at_least=1, limit=WIDEST
    )
    d_v: int | None = option(
        None, "width of values in a head; none: d_model / heads", source="3.2.2", at_least=1, limit=WIDEST
    )
    dropout: float = option(
        0.1,
        "dropout of sub-layer outputs and of the sums of embeddings and positions",
        unit="probability",
        source="5.4",
        at_least=0,
        below=1,
    )
    positions: Literal["sinusoidal", "sinusoidal-concatenated", "sinusoidal-halves", "learned"] = option(
        "sinusoidal",
        "sinusoidal: alternating sin and cos, as in the paper; sinusoidal-concatenated: all sin, then all cos, with "
        "the frequencies of the paper's first public code; sinusoidal-halves: all sin, then all cos, with the paper's "
        "frequencies, as in Hugging Face's Marian; learned: a table, as in Table 3 row E",
        source="3.5",
    )
    max_positions: int = option(
        1024,
        "rows of the table of learned positions; limits the length of sentences",
        unit="tokens",
        at_least=1,
        limit=2**24,
    )
    share_embeddings: Literal["all", "source-target", "target-output", "none"] = option(
        "all",
        "share one matrix between source embedding, target embedding and output projection, or between two of them; in "
        "config.json, true means all and false means none",
        source="3.4",
    )


@dataclass(frozen=True, kw_only=True)
class ComparedSettings:
    """The alternatives to scaled dot-product attention that the paper compares (section 3.2.1, Table 1)."""

    attention: Literal["scaled-dot-product", "dot-product", "additive"] = option(
        "scaled-dot-product",
        "attention scores: scaled-dot-product, q k / sqrt(d_k), as in the paper; dot-product, without the scale; "
        "additive, w tanh(q + k), with which the paper compares",
        source="3.2.1",
        section=COMPARED,
    )
    mixing: Literal["self-attention", "restricted", "recurrent", "convolutional", "separable-convolutional"] = option(
        "self-attention",
        "layer that relates the positions of a sequence: self-attention, as in the paper; restricted, self-attention "
        "to a neighbourhood in encoder and decoder; or, in the encoder only, a gated recurrent unit or a convolution",
        source="Table 1, section 4",
    )
    neighbourhood: int = option(
        32, "positions that restricted self-attention attends to: around its own, in the decoder up to its own",
        unit="tokens", source="4, r", at_least=1,
    )  # fmt: skip
    kernel_width: int = option(3, "width of convolutions", unit="tokens", source="Table 1, k", at_least=1)


@dataclass(frozen=True, kw_only=True)
class OtherProgramsSettings:
    """Options that the paper leaves open or lacks, mostly for models of other programs."""

    source_vocab_size: int | None = option(
        None, "rows of the source embedding; none: as many as of the target embedding", at_least=1, hidden=True
    )
    encoder_layers: int | None = option(
        None,
        "number of layers in the encoder; none: --model.layers",
        source="Table 3, N",
        at_least=1,
        limit=150,
        section=OTHERS,
    )
    decoder_layers: int | None = option(
        None, "number of layers in the decoder; none: --model.layers", source="Table 3, N", at_least=1, limit=150
    )
    attention_dropout: float = option(
        0.0, "dropout of attention weights; not mentioned in the paper", unit="probability", at_least=0, below=1
    )
    activation_dropout: float = option(
        0.0,
        "dropout inside the feed-forward networks; not mentioned in the paper",
        unit="probability",
        at_least=0,
        below=1,
    )
    activation: Literal["relu", "gelu", "silu"] = option(
        "relu", "activation function of the feed-forward networks", source="3.3"
    )
    norm: Literal["post", "pre"] = option(
        "post",
        "post: LayerNorm(x + f(x)), as in the paper; pre: x + f(LayerNorm(x)), more stable in deep models",
        source="3.1",
    )
    norm_epsilon: float = option(
        1e-6, "constant added to the variance in layer normalisation; as in the paper's first public code", above=0
    )
    first_position: int = option(
        0, "number of the first position; fairseq counts from 2", unit="positions", at_least=0, limit=10**6
    )
    attention_bias: bool = option(
        True, "biases in the attention projections; not mentioned in the paper, present in its first public code"
    )
    attention_gain: float = option(
        1.0, "factor on the initial weights of query, key and value projections; fairseq uses 0.7071", above=0
    )
    scale_embeddings: bool = option(True, "multiply embeddings by the square root of d_model", source="3.4")
    embedding_norm: bool = option(
        False, "layer normalisation after adding positions to embeddings; not in the paper, optional in fairseq"
    )
    decoder_start: Literal["bos", "eos", "zero"] = option(
        "bos",
        "first input of the decoder: bos, the embedding of the start token; eos, that of the end-of-sentence token, as "
        "in fairseq; zero, a zero vector, as in Marian",
    )
    source_eos: bool = option(True, "end each source sentence with an end-of-sentence token")
    output_bias: bool = option(False, "bias on the logits; not mentioned in the paper, present in Marian")
    masked_tokens: tuple[int, ...] = option(
        (), "tokens that the model never produces: their logits are minus infinity", hidden=True
    )
