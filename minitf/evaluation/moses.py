"""The tokenization of the paper's BLEU: Moses' tokenizer.perl, after which hyphenated compounds are split.

From sacremoses, which gives Moses' own output for every tokenized line of Multi30k; sacrebleu and tqdm already bring
half of its dependencies.
"""

import re
from collections.abc import Callable

from sacremoses import MosesPunctNormalizer, MosesTokenizer

LANGUAGES = ("de", "en", "fr")


def tokenizer(language: str) -> Callable[[str], str]:
    """Return a function that sets punctuation apart from words and escapes what Moses escapes."""
    if language not in LANGUAGES:
        raise ValueError(f"language={language!r} is unknown; choose one of {', '.join(LANGUAGES)}")
    moses = MosesTokenizer(lang=language)
    return lambda line: moses.tokenize(line, return_str=True)


def replace_unicode_punctuation(line: str) -> str:
    """Replace full-width and typographic signs by ASCII, as Moses' replace-unicode-punctuation.perl does."""
    return MosesPunctNormalizer().replace_unicode_punct(line)


def split_compounds(line: str) -> str:
    """`Karl-Marx-Allee` -> `Karl ##AT##-##AT## Marx ##AT##-##AT## Allee`, as the paper's BLEU does on both sides."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)
