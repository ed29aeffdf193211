"""A model of OPUS-MT's size with random weights, in the formats of Hugging Face and CTranslate2.

    python studies/benchmarks/foreign_model.py FOLDER

Writes FOLDER/huggingface and FOLDER/ctranslate2: 6 + 6 layers of width 512, 58,000 pieces, one matrix for all
embeddings, SiLU, and the decoder's start from a zero vector, as Marian trains them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

from additions.interchange.formats import write_foreign
from additions.interchange.outgoing import LearnedModel
from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config import RunConfig, TransformerConfig
from minitf.model.transformer import Transformer
from studies.benchmarks.workload import CONFIGS, FIELDS

OF_MARIAN = {
    "activation": "silu", "positions": "sinusoidal-halves", "norm_epsilon": 1e-5, "decoder_start": "zero",
    "output_bias": True, "masked_tokens": (0, 2),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write both")
    folder = parser.parse_args().folder
    sizes = dict(zip(FIELDS, CONFIGS["opus-mt"], strict=True))
    words = [f"w{index}" for index in range(int(sizes["vocab_size"]) - 4)]
    vocabulary = PieceVocabulary("words", ["<pad>", "<unk>", "<s>", "</s>", *words])
    config = TransformerConfig(**sizes, **OF_MARIAN)  # type: ignore[arg-type]
    weights = {name: each.data for name, each in Transformer(config).named_parameters().items()}
    weights["source_embedding.weight"][[*config.masked_tokens]] = 0
    learned = LearnedModel(RunConfig(model=config), VocabularyPair(vocabulary, vocabulary), weights)
    for name in ("huggingface", "ctranslate2"):
        write_foreign(learned, folder / name, name)


if __name__ == "__main__":
    main()
