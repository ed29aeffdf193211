"""The architecture of the Transformer (section 3): hyperparameters (model_settings.py) and their checks."""

from dataclasses import dataclass

from minitf.config.model_settings import ComparedSettings, OtherProgramsSettings, PaperSettings
from minitf.config.options import check_fields
from minitf.errors import UserError

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, unknown, beginning of sequence and end of sequence: the first four of every vocabulary."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(OtherProgramsSettings, ComparedSettings, PaperSettings):
    """Hyperparameters of the model. The defaults are the paper's base model."""

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
