"""The hyperparameters of the Transformer (section 3) and their checks."""

from dataclasses import dataclass
from typing import Any, Literal

from minitf.config.options import check_fields, hidden, option
from minitf.errors import UserError

__all__ = ["BOS", "EOS", "PAD", "UNK"]

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, unknown, beginning of sequence and end of sequence: the first four of every vocabulary."""

MOST_LAYERS, WIDEST, MOST_HEADS = 150, 2**17, 2**12
"""Sizes beyond which a number is a mistake: NumPy could not compute how much memory an array would take."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Hyperparameters of the model. The defaults are the paper's base model.

    Hidden fields have no flag: presets set them, or the vocabulary, a model of another program, or `--set`.
    """

    vocab_size: int = hidden(0, "rows of the embeddings; 0: the size of the vocabulary", at_least=0)
    layers: int = option(6, "layers in the encoder and in the decoder (Table 3, N)", at_least=1, at_most=MOST_LAYERS)
    d_model: int = option(
        512, "width of embeddings and of the outputs of all sub-layers (section 3.1)", at_least=1, at_most=WIDEST
    )
    heads: int = option(8, "number of attention heads (section 3.2.2, h)", at_least=1, at_most=MOST_HEADS)
    d_ff: int = option(2048, "inner width of the feed-forward networks (section 3.3)", at_least=1, at_most=WIDEST)
    d_k: int | None = hidden(
        None, "width of queries and keys in a head; none: d_model / heads (section 3.2.2)", at_least=1, at_most=WIDEST
    )
    d_v: int | None = hidden(
        None, "width of values in a head; none: d_model / heads (section 3.2.2)", at_least=1, at_most=WIDEST
    )
    dropout: float = option(
        0.1, "dropout of sub-layer outputs and embedding sums (probability; section 5.4)", at_least=0, below=1
    )
    attention_dropout: float = hidden(
        0.0, "dropout of attention weights; not mentioned in the paper (probability)", at_least=0, below=1
    )
    activation_dropout: float = hidden(
        0.0, "dropout inside the feed-forward networks; not mentioned in the paper (probability)", at_least=0, below=1
    )
    positions: Literal["sinusoidal", "sinusoidal-concatenated", "sinusoidal-halves", "learned"] = hidden(
        "sinusoidal",
        "sinusoidal: alternating sin and cos, as in the paper; sinusoidal-concatenated: all sin, then all cos, with "
        "the frequencies of the paper's first public code; sinusoidal-halves: all sin, then all cos, with the paper's"
        " frequencies, as in Hugging Face's Marian; learned: a table, as in Table 3 row E (section 3.5)",
    )
    norm: Literal["post", "pre"] = option(
        "post", "post: LayerNorm(x + f(x)), as in the paper; pre: x + f(LayerNorm(x)), for deep models (section 3.1)"
    )
    encoder_layers: int | None = hidden(
        None, "layers in the encoder; none: --model.layers (Table 3, N)", at_least=1, at_most=MOST_LAYERS
    )
    decoder_layers: int | None = hidden(
        None, "layers in the decoder; none: --model.layers (Table 3, N)", at_least=1, at_most=MOST_LAYERS
    )

    # ---- Set by presets and models of other programs ----

    max_positions: int = hidden(
        1024, "rows of the table of learned positions; limits the length of sentences", at_least=1, at_most=2**24
    )
    share_embeddings: Literal["all", "source-target", "target-output", "none"] = hidden(
        "all",
        "share one matrix between source embedding, target embedding and output projection, or between two of them; "
        "in config.json, true means all and false means none (section 3.4)",
    )
    norm_epsilon: float = hidden(
        1e-06, "constant added to the variance in layer normalisation; as in the paper's first public code", above=0
    )
    first_position: int = hidden(0, "number of the first position; fairseq counts from 2", at_least=0, at_most=10**6)
    attention_bias: bool = hidden(
        True, "biases in the attention projections; not mentioned in the paper, present in its first public code"
    )
    attention_gain: float = hidden(
        1.0, "factor on the initial weights of query, key and value projections; fairseq uses 0.7071", above=0
    )
    source_vocab_size: int | None = hidden(
        None, "rows of the source embedding; none: as many as of the target embedding", at_least=1
    )
    activation: Literal["relu", "gelu", "silu"] = hidden(
        "relu", "activation function of the feed-forward networks (section 3.3)"
    )
    scale_embeddings: bool = hidden(True, "multiply embeddings by the square root of d_model (section 3.4)")
    embedding_norm: bool = hidden(
        False, "layer normalisation after adding positions to embeddings; optional in fairseq"
    )
    decoder_start: Literal["bos", "eos", "zero"] = hidden(
        "bos",
        "first input of the decoder: bos, the embedding of the start token; eos, that of the end-of-sentence token, "
        "as in fairseq; zero, a zero vector, as in Marian",
    )
    source_eos: bool = hidden(True, "end each source sentence with an end-of-sentence token")
    output_bias: bool = hidden(False, "bias on the logits; present in Marian")
    masked_tokens: tuple[int, ...] = hidden((), "tokens that the model never produces: their logits are minus infinity")

    def __post_init__(self) -> None:
        if isinstance(self.share_embeddings, bool):  # a config.json may have true or false
            object.__setattr__(self, "share_embeddings", "all" if self.share_embeddings else "none")
        check_fields(self)
        self._check_vocabularies()
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
    def attention_arguments(self) -> dict[str, Any]:
        """The arguments of a layer's `MultiHeadAttention`."""
        widths = {"d_model": self.d_model, "heads": self.heads, "d_k": self.head_d_k, "d_v": self.head_d_v}
        return {**widths, "dropout": self.attention_dropout, "bias": self.attention_bias, "gain": self.attention_gain}

    @property
    def feed_forward_arguments(self) -> dict[str, Any]:
        """The arguments of a layer's `FeedForward`."""
        settings = {"activation": self.activation, "dropout": self.activation_dropout}
        return {"d_model": self.d_model, "d_ff": self.d_ff, **settings}

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
