"""The hyperparameters of the Transformer (section 3) and their checks."""

from dataclasses import dataclass
from typing import Literal

from minitf.config.options import check_fields, option
from minitf.errors import UserError

__all__ = ["BOS", "EOS", "PAD", "UNK"]

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, unknown, beginning of sequence and end of sequence: the first four of every vocabulary."""

MOST_LAYERS, WIDEST, MOST_HEADS = 150, 2**17, 2**12
"""Sizes beyond which a number is a mistake: NumPy could not compute how much memory an array would take."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Hyperparameters of the model. The defaults are the paper's base model.

    Hidden fields have no flag: presets of other toolkits set them, or the vocabulary, or a model of another program.
    """

    vocab_size: int = option(0, "rows of the embeddings; 0: the size of the vocabulary", at_least=0, hidden=True)
    layers: int = option(
        6, "layers in the encoder and in the decoder", source="Table 3, N", at_least=1, at_most=MOST_LAYERS
    )
    d_model: int = option(
        512, "width of embeddings and of the outputs of all sub-layers", source="3.1", at_least=1, at_most=WIDEST
    )
    heads: int = option(8, "number of attention heads", source="3.2.2, h", at_least=1, at_most=MOST_HEADS)
    d_ff: int = option(2048, "inner width of the feed-forward networks", source="3.3", at_least=1, at_most=WIDEST)
    d_k: int | None = option(
        None, "width of queries and keys in a head; none: d_model / heads", source="3.2.2", at_least=1, at_most=WIDEST
    )
    d_v: int | None = option(
        None, "width of values in a head; none: d_model / heads", source="3.2.2", at_least=1, at_most=WIDEST
    )
    dropout: float = option(
        0.1,
        "dropout of sub-layer outputs and of the sums of embeddings and positions",
        unit="probability",
        source="5.4",
        at_least=0,
        below=1,
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
    positions: Literal["sinusoidal", "sinusoidal-concatenated", "sinusoidal-halves", "learned"] = option(
        "sinusoidal",
        "sinusoidal: alternating sin and cos, as in the paper; sinusoidal-concatenated: all sin, then all cos, with "
        "the frequencies of the paper's first public code; sinusoidal-halves: all sin, then all cos, with the paper's "
        "frequencies, as in Hugging Face's Marian; learned: a table, as in Table 3 row E",
        source="3.5",
    )
    norm: Literal["post", "pre"] = option(
        "post",
        "post: LayerNorm(x + f(x)), as in the paper; pre: x + f(LayerNorm(x)), more stable in deep models",
        source="3.1",
    )
    encoder_layers: int | None = option(
        None, "layers in the encoder; none: --model.layers", source="Table 3, N", at_least=1, at_most=MOST_LAYERS
    )
    decoder_layers: int | None = option(
        None, "layers in the decoder; none: --model.layers", source="Table 3, N", at_least=1, at_most=MOST_LAYERS
    )

    # ---- Set by presets and models of other programs ----

    max_positions: int = option(
        1024,
        "rows of the table of learned positions; limits the length of sentences",
        unit="tokens",
        at_least=1,
        at_most=2**24,
        hidden=True,
    )
    share_embeddings: Literal["all", "source-target", "target-output", "none"] = option(
        "all",
        "share one matrix between source embedding, target embedding and output projection, or between two of them; in "
        "config.json, true means all and false means none",
        source="3.4",
        hidden=True,
    )
    norm_epsilon: float = option(
        1e-6,
        "constant added to the variance in layer normalisation; as in the paper's first public code",
        above=0,
        hidden=True,
    )
    first_position: int = option(
        0, "number of the first position; fairseq counts from 2", at_least=0, at_most=10**6, hidden=True
    )
    attention_bias: bool = option(
        True,
        "biases in the attention projections; not mentioned in the paper, present in its first public code",
        hidden=True,
    )
    attention_gain: float = option(
        1.0,
        "factor on the initial weights of query, key and value projections; fairseq uses 0.7071",
        above=0,
        hidden=True,
    )
    source_vocab_size: int | None = option(
        None, "rows of the source embedding; none: as many as of the target embedding", at_least=1, hidden=True
    )
    activation: Literal["relu", "gelu", "silu"] = option(
        "relu", "activation function of the feed-forward networks", source="3.3", hidden=True
    )
    scale_embeddings: bool = option(
        True, "multiply embeddings by the square root of d_model", source="3.4", hidden=True
    )
    embedding_norm: bool = option(
        False, "layer normalisation after adding positions to embeddings; optional in fairseq", hidden=True
    )
    decoder_start: Literal["bos", "eos", "zero"] = option(
        "bos",
        "first input of the decoder: bos, the embedding of the start token; eos, that of the end-of-sentence token, as "
        "in fairseq; zero, a zero vector, as in Marian",
        hidden=True,
    )
    source_eos: bool = option(True, "end each source sentence with an end-of-sentence token", hidden=True)
    output_bias: bool = option(False, "bias on the logits; present in Marian", hidden=True)
    masked_tokens: tuple[int, ...] = option(
        (), "tokens that the model never produces: their logits are minus infinity", hidden=True
    )

    attention: Literal["scaled-dot-product", "dot-product", "additive"] = option(
        "scaled-dot-product", "attention scores", source="3.2.1", hidden=True
    )
    mixing: Literal["self-attention", "restricted", "recurrent", "convolutional", "separable-convolutional"] = option(
        "self-attention", "layer that relates the positions of a sequence", source="Table 1, section 4", hidden=True
    )
    neighbourhood: int = option(
        32, "positions that restricted self-attention attends to", source="4, r", at_least=1, hidden=True
    )
    kernel_width: int = option(3, "width of convolutions", source="Table 1, k", at_least=1, hidden=True)

    def __post_init__(self) -> None:
        if isinstance(self.share_embeddings, bool):  # a config.json may have true or false
            object.__setattr__(self, "share_embeddings", "all" if self.share_embeddings else "none")
        check_fields(self)
        self._check_vocabularies()
        if None in (self.d_k, self.d_v) and self.d_model % self.heads:
            raise UserError(
                f"d_model={self.d_model} is not divisible by heads={self.heads}; choose a multiple of {self.heads}"
            )
        if self.mixing == "restricted" and self.attention == "additive":
            raise UserError(
                "mixing=restricted requires dot products; choose attention=scaled-dot-product or dot-product"
            )
        if self.positions != "learned" and self.d_model % 2:
            raise UserError(
                f"d_model={self.d_model} is odd, but positions={self.positions} pairs sines with cosines; "
                "choose an even d_model or learned positions"
            )
        if self.positions == "learned" and self.first_position >= self.max_positions:
            raise UserError(
                f"first_position={self.first_position} is not among the max_positions={self.max_positions} of learned "
                f"positions; choose at least {self.first_position + 1} of them"
            )
        if self.positions == "sinusoidal-concatenated" and self.d_model < 4:
            raise UserError(f"d_model={self.d_model} is too small for positions={self.positions}; choose 4 or more")

    def _check_vocabularies(self) -> None:
        source, target = self.source_vocab_size, self.vocab_size
        if source not in (None, target) and self.ties_source:
            raise UserError(
                f"source_vocab_size={source} and vocab_size={target} differ, but share_embeddings="
                f"{self.share_embeddings} uses one matrix for both; choose target-output or none"
            )
        wrong = [token for token in self.masked_tokens if token < 0 or token == EOS or 0 < target <= token]
        if wrong:
            raise UserError(
                f"masked_tokens has {wrong[0]}; choose ids of the vocabulary of {target} tokens, except the "
                f"end-of-sentence token {EOS}, which every sentence needs"
            )
        if list(self.masked_tokens) != sorted({*self.masked_tokens}):
            raise UserError(
                f"masked_tokens={list(self.masked_tokens)} is not in ascending order or has a duplicate id; sort the "
                "ids and list each once"
            )

    @property
    def encoder_depth(self) -> int:
        """Layers of the encoder: encoder_layers, or layers."""
        return self.layers if self.encoder_layers is None else self.encoder_layers

    @property
    def decoder_depth(self) -> int:
        """Layers of the decoder: decoder_layers, or layers."""
        return self.layers if self.decoder_layers is None else self.decoder_layers

    @property
    def source_rows(self) -> int:
        """Rows of the source embedding: source_vocab_size, or vocab_size."""
        return self.vocab_size if self.source_vocab_size is None else self.source_vocab_size

    @property
    def ties_source(self) -> bool:
        """Whether one matrix is the source embedding and the target embedding."""
        return self.share_embeddings in ("all", "source-target")

    @property
    def ties_output(self) -> bool:
        """Whether one matrix is the target embedding and the output projection."""
        return self.share_embeddings in ("all", "target-output")

    @property
    def head_d_k(self) -> int:
        """Width of queries and keys in a head: d_k, or d_model / heads."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    @property
    def head_d_v(self) -> int:
        """Width of values in a head: d_v, or d_model / heads, whatever d_k: Table 3 row B shrinks d_k alone."""
        return self.d_model // self.heads if self.d_v is None else self.d_v
