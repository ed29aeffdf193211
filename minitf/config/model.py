"""The architecture of the Transformer (section 3)."""

from dataclasses import dataclass
from typing import Literal

from minitf.config.options import check_fields, option
from minitf.errors import UserError


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Hyperparameters of the model. The defaults are the paper's base model."""

    vocab_size: int = option(0, "rows of the embedding; 0: as many as the vocabulary", at_least=0, hidden=True)
    layers: int = option(6, "layers of the encoder, and of the decoder", source="Table 3, N", at_least=1)
    d_model: int = option(512, "width of embeddings and of every sub-layer's output", source="3.1", at_least=1)
    heads: int = option(8, "attention heads", source="3.2.2, h", at_least=1)
    d_ff: int = option(2048, "inner width of the feed-forward networks", source="3.3", at_least=1)
    d_k: int | None = option(
        None, "width of queries and keys in a head; none: d_model / heads", source="3.2.2", at_least=1
    )
    d_v: int | None = option(None, "width of values in a head; none: d_model / heads", source="3.2.2", at_least=1)
    dropout: float = option(
        0.1, "dropout of sub-layer outputs and of embedding sums", unit="probability", source="5.4", at_least=0, below=1
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
    positions: Literal["sinusoidal", "sinusoidal-concatenated", "learned"] = option(
        "sinusoidal",
        "sinusoidal: sin and cos in turn, as in the paper; sinusoidal-concatenated: all sin, then all cos, as in its "
        "first public code; learned: a table, Table 3 row E",
        source="3.5",
    )
    max_positions: int = option(
        1024, "rows of the table of learned positions, which bounds the length of sentences", unit="tokens", at_least=1
    )
    first_position: int = option(0, "number of the first position; fairseq counts from 2", unit="positions", at_least=0)
    attention_bias: bool = option(
        True, "biases in the projections of attention; the paper names none, its first public code has them"
    )
    attention_gain: float = option(
        1.0, "factor on the initial weights of query, key and value projections; fairseq has 0.7071", above=0
    )
    share_embeddings: bool = option(
        True, "one matrix for source embedding, target embedding and output projection", source="3.4"
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if None in (self.d_k, self.d_v) and self.d_model % self.heads:
            raise UserError(
                f"d_model={self.d_model} is not divisible by heads={self.heads}; choose a multiple of {self.heads}"
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

    @property
    def head_d_k(self) -> int:
        """Width of queries and keys in a head: d_k, or d_model / heads."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    @property
    def head_d_v(self) -> int:
        """Width of values in a head: d_v, or d_model / heads, whatever d_k: Table 3 row B shrinks d_k alone."""
        return self.d_model // self.heads if self.d_v is None else self.d_v
