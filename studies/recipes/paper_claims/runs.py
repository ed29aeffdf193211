"""The models that are trained for claims: small ones, three seeds of each variant, on the built-in corpus.

The base has 2 + 2 layers, d_model 64, d_ff 256 and 4 heads, 297,472 parameters, and takes 600 updates of up to 1,024
tokens per side, two epochs, in half a minute of one core; it then translates the test text with 92 to 94 BLEU, so that
variants can be worse and better. Each variant changes what its claim is about. All of them with three seeds take an
hour of one core; no run is trained twice, and one that was interrupted goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import resumable
import train_fields

from additions.corpora.public import find
from additions.pages.run_log import read_log
from additions.parsing.aligned_text import ParsingConfig, prepare
from additions.parsing.treebank import built_in_treebank, write_treebank
from minitf.corpora.built_in import built_in_corpus, split, write_corpus
from minitf.data.text import read_lines
from minitf.data.vocabulary import Vocabulary
from minitf.evaluation.metrics import bleu
from minitf.system.process import say
from minitf.translation.translator import Translator
from paper_claims.claim import Figure, Rule, claim, sampled

SEEDS = (1, 2, 3)
FEW = 2_000  # pairs, of which 600 updates see each some 30 times
SHORT = 12  # tokens with the end token; longer pairs are left out of the training of "short-…"

BASE = [
    *("--preset", "tiny", "--threads", "1", "--model.layers", "2", "--model.d-model", "64", "--model.d-ff", "256"),
    *("--model.heads", "4", "--max-steps", "600", "--valid-every", "200", "--save-every", "10", "--log-every", "20"),
]
QUICK = [
    *("--model.layers", "1", "--model.d-model", "16", "--model.d-ff", "16", "--max-steps", "4", "--valid-every", "4"),
    *("--save-every", "2", "--max-tokens-per-batch", "512"),
]
_ONE = ["--model.heads", "1"]
_NARROW, _WIDE = [*_ONE, "--set", "model.d_k=4"], [*_ONE, "--set", "model.d_k=128"]
_DOT, _ADDITIVE = ["@attention=dot-product"], ["@attention=additive"]
_AT_ONCE = ["--optimizer.warmup-steps", "1", "--optimizer.peak-learning-rate", "0.03674"]  # 0.003 · √150
_PARSING = ["--preset", "parsing-tiny", "--threads", "1", *BASE[4:12], "--max-steps", "800", "--beam", "4"]
SPLITS = ("train", "valid", "test")
VARIANTS: dict[str, list[str]] = {
    "base": ["--set", "keep_checkpoints=20"],
    "heads-1": _ONE,
    "heads-2": ["--model.heads", "2"],
    "heads-8": ["--model.heads", "8"],
    "heads-16": ["--model.heads", "16"],
    "d-k-4": ["--set", "model.d_k=4"],  # a quarter
    "learned": ["--set", "model.positions=learned"],
    "smoothing-0": ["--optimizer.label-smoothing", "0"],
    "unshared": ["--set", "model.share_embeddings=none"],
    "no-warm-up": _AT_ONCE,
    "pre": ["--model.norm", "pre"],
    "pre-no-warm-up": [*_AT_ONCE, "--model.norm", "pre"],
    "narrow-dot": [*_NARROW, *_DOT],
    "narrow-additive": [*_NARROW, *_ADDITIVE],
    "wide-dot": [*_WIDE, *_DOT],
    "wide-additive": [*_WIDE, *_ADDITIVE],
    "wide-scaled": _WIDE,
    "short-sinusoidal": ["--max-length", str(SHORT)],
    "short-learned": ["--max-length", str(SHORT), "--set", "model.positions=learned"],
    "few-base": [],
    "few-dropout": ["--model.dropout", "0.1"],
    "few-dropout-elsewhere": ["--set", "model.attention_dropout=0.1", "--set", "model.activation_dropout=0.1"],
    "restricted": ["@mixing=restricted", "@neighbourhood=5"],
    "recurrent": ["@mixing=recurrent"],
    "convolutional": ["@mixing=convolutional"],
    "separable": ["@mixing=separable-convolutional"],
    "additive": _ADDITIVE,
    "dot": _DOT,
    "parsing": [],
    "half-width": ["--model.d-model", "32", "--model.d-ff", "128"],
}


@dataclass(eq=False)
class Study:
    """What claims are measured with."""

    output: Path
    quick: bool = False
    data_dir: Path | None = None
    loaded: dict[tuple[str, int, int | None], Translator] = field(default_factory=dict)

    @property
    def seeds(self) -> Sequence[int]:
        return SEEDS[:1] if self.quick else SEEDS

    @cached_property
    def texts(self) -> dict[str, tuple[Path, Path]]:
        """The text of each split, source and target; Multi30k's if its folder is given."""
        if self.data_dir is not None:
            found = find("multi30k-tok", self.data_dir, say)
        else:
            folder = self.output / "data"
            found = {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "valid", "test")}
            if not all(path.exists() for pair in found.values() for path in pair):
                sizes = {"train_pairs": 400, "valid_pairs": 40, "test_pairs": 40} if self.quick else {}
                write_corpus(folder, built_in_corpus(**sizes))
        few = self.output / "few.source", self.output / "few.target"
        for path, whole in zip(few, found["train"], strict=True):
            if not path.exists():
                resumable.write(path, "".join(f"{line}\n" for line in list(read_lines(whole))[:FEW]))
        return {**found, "few": few}

    @cached_property
    def trees(self) -> Path:
        """The folder of the built-in treebank with 200 test trees, prepared to learn from."""
        folder = self.output / "treebank"
        if not (folder / "vocabulary.model").exists():
            train, valid, test = (60, 5, 5) if self.quick else (30_000, 200, 200)
            whole = built_in_treebank()
            trees = [*whole.valid, *whole.test, *whole.train][: train + valid + test]
            write_treebank(folder, split(trees, valid, test))
            files = {"trees": "train", "valid_trees": "valid", "test_trees": "test"}
            given: Any = {name: folder / f"{file}.mrg" for name, file in files.items()}
            prepare(ParsingConfig(**given), folder, 1_200, say)
        return folder

    @cached_property
    def vocabulary(self) -> Path:
        """The joint vocabulary of all runs."""
        path = self.output / "vocabulary.model"
        if not path.exists():
            lines = (line for text in self.texts["train"] for line in read_lines(text))
            size = 400 if self.quick else 1_000 if self.data_dir is None else 5_000
            Vocabulary.train(lines, size, path)
        return path

    def flags(self, variant: str, seed: int) -> list[str]:
        """The flags of a run."""
        tiny = QUICK if self.quick else []
        if variant == "parsing":
            of = {split: [str(self.trees / f"{split}.{side}") for side in ("words", "tokens")] for split in SPLITS}
            given = [word for split, pair in of.items() for word in (f"--{split}", *pair)]
            given += ["--vocabulary", str(self.trees / "vocabulary.model")]
            return [*_PARSING, *tiny, *given, "--seed", str(seed)]
        texts = self.texts
        names = {"--train": texts["few" if variant.startswith("few-") else "train"]}
        names |= {"--valid": texts["valid"], "--test": texts["test"]}
        given = [str(word) for flag, pair in names.items() for word in (flag, *pair)]
        tokenized = ["--set", "bleu_tokenize=none"] if self.data_dir else []
        own = [*given, "--vocabulary", str(self.vocabulary), *tokenized, "--seed", str(seed)]
        return [*BASE, *tiny, *VARIANTS[variant], *own]

    def run(self, variant: str, seed: int) -> Path:
        """The folder of a run that has been trained to its end."""
        folder = self.output / variant / f"seed-{seed}"
        if resumable.final_score(folder) is None:
            resumable.train(folder, self.flags(variant, seed), self._train_quietly if self.quick else None)
        return folder

    def _train_quietly(self, argv: list[str]) -> int:
        """train.py in this process; what it says goes into a file."""
        with (self.output / "train.log").open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
            return train_fields.main(argv)

    def scores(self, variant: str) -> list[float]:
        """The BLEU of the test text, by the mean of five checkpoints and a beam of 4, of each seed."""
        return [resumable.final_score(self.run(variant, seed))["bleu"] for seed in self.seeds]

    def perplexities(self, variant: str) -> list[float]:
        """The perplexity of the validation text after the last update, of each seed."""
        logs = [read_log(self.run(variant, seed) / "log.jsonl") for seed in self.seeds]
        return [[record for record in log if "valid_perplexity" in record][-1]["valid_perplexity"] for log in logs]

    def translator(self, variant: str, seed: int, average: int | None = None) -> Translator:
        """The translator of a run, with the mean of as many checkpoints; it never cuts a line into pieces."""
        key = variant, seed, average
        if key not in self.loaded:
            self.loaded[key] = Translator.load(self.run(variant, seed), average=average, warn=lambda message: None)
            self.loaded[key].max_source_length = 1_000
        return self.loaded[key]

    def test_text(self) -> tuple[list[str], list[str]]:
        """Sources and references."""
        sources, references = (list(read_lines(path)) for path in self.texts["test"])
        return sources, references

    def bleu(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        """BLEU with the tokenization of the study's text."""
        return bleu(hypotheses, references, tokenize="none" if self.data_dir else "13a", force=True).score

    def test_bleu(self, variant: str, average: int | None = None, **search: Any) -> list[float]:
        """The BLEU of the test text of each seed, with other checkpoints or another search than a run ends with."""
        sources, references = self.test_text()
        outputs = [self.translator(variant, seed, average).translate(sources, **search) for seed in self.seeds]
        return [self.bleu(hypotheses, references) for hypotheses in outputs]


def compare(
    name: str, section: str, sentence: str, rule: Rule, variants: dict[str, str], done: str, *, perplexity: bool = False
) -> None:
    """Register a claim about trained models: the BLEU of the first variant minus that of the second, seed by seed.

    variants: what the page calls each, and its name in `VARIANTS`; those after the second are listed beside them
    perplexity: whether to list the perplexity of the validation text as well
    """

    @claim(name, section, sentence, rule, done)
    def difference(study: Study) -> Figure:
        scores = {label: study.scores(variant) for label, variant in variants.items()}
        text = f"BLEU, {labelled(scores)}"
        if perplexity:
            found = {label: study.perplexities(variant) for label, variant in variants.items()}
            text += f"; validation perplexity, {labelled(found)}"
        one, other, *_ = scores.values()
        return sampled(minus(one, other), text)


def minus(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The differences, seed by seed."""
    return [a - b for a, b in zip(one, other, strict=True)]


def labelled(values: Mapping[Any, Sequence[float]], digits: int = 2) -> str:
    """The values of the seeds of each variant or setting, for the reader."""
    return "; ".join(f"{label}: {listed(each, digits)}" for label, each in values.items())


def listed(values: Sequence[float], digits: int = 2) -> str:
    """The values of the seeds, for the reader."""
    return ", ".join(f"{value:.{digits}f}" for value in values)
