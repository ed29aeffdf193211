"""A run as an import makes it: two vocabularies of characters, and an architecture unlike the paper's in all it may."""

from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config import TransformerConfig

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
PAIR = VocabularyPair(
    PieceVocabulary("characters", [*SPECIAL, *"abcdefgh"]), PieceVocabulary("characters", [*SPECIAL, *"ABCDEFGHIJ"])
)
MODEL = TransformerConfig(
    encoder_layers=3,
    decoder_layers=2,
    d_model=16,
    d_ff=24,
    heads=2,
    dropout=0.0,
    norm="pre",
    positions="sinusoidal-halves",
    first_position=1,
    share_embeddings="none",
    embedding_norm=True,
    decoder_start="zero",
    source_eos=False,
    output_bias=True,
    masked_tokens=(0, 2),
)
