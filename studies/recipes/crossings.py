"""Take runs across to transformers, CTranslate2 and Marian, and back, and write a table of what arrived.

Run: python studies/recipes/crossings.py --work FOLDER [--page docs/models.md]

FOLDER gets an environment with the newest release of each program, and four small runs trained on the built-in corpus;
what is there already is used. Each row of the table says how many of 50 translations are equal, how many of the others
have a better quotient of log-probability and length penalty in the second program than in the first, and the largest
difference of the log-probability of an equal one.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import resumable  # first: it finds minitf without an installation

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("transformers", "ctranslate2", "pymarian", "sentencepiece", "safetensors", "torch", "numpy")
TRAINING = [
    "--model.layers", "2", "--model.d-model", "64", "--model.d-ff", "128", "--model.heads", "4", "--max-steps", "400",
    "--max-tokens-per-batch", "1024", "--optimizer.decay-steps", "400", "--optimizer.peak-learning-rate", "0.008",
    "--optimizer.warmup-steps", "100", "--valid-every", "400", "--save-every", "400", "--vocab-size", "1000", "--quiet",
]  # fmt: skip
RUNS = {
    "tied": [],
    "untied": ["--set", "model.share_embeddings=none", "--set", "model.activation=silu"],
    "pre-norm": ["--model.norm", "pre", "--set", "model.share_embeddings=target-output"],
    "marian": [
        "--set", "model.decoder_start=zero", "--set", "model.activation=silu", "--set",
        "model.positions=sinusoidal-concatenated",
    ],
}  # fmt: skip
"""The flags by which each run differs from the demo's, which is tied, with ReLU and post-norm."""
SEARCHES = ((1, 1.0), (4, 0.6), (4, 1.0), (4, 0.8))
"""Beam, and the exponent p of the length in the penalty."""
TYPES = ("float32", "float16", "int16", "int8", "int8_float16")
LINES = 50


class Found(NamedTuple):
    """The best translation of a line."""

    text: str
    log_probability: float
    length: int
    """Tokens, the end token counted."""


class Row(NamedTuple):
    """A line of the table."""

    crossing: str
    run: str
    search: str
    equal: int
    better: int
    difference: float


def row(crossing: str, run: str, search: tuple[int, float], ours: list[Found], theirs: list[Found]) -> Row:
    """Compare two programs' translations of the same lines."""
    pairs = list(zip(ours, theirs, strict=True))
    equal = [abs(a.log_probability - b.log_probability) for a, b in pairs if a.text == b.text]
    quotients = [
        [each.log_probability / each.length ** search[1] for each in pair]
        for pair in pairs
        if pair[0].text != pair[1].text
    ]
    better = sum(theirs > ours + 1e-4 for ours, theirs in quotients)
    said = "greedy" if search[0] == 1 else f"beam {search[0]}, length^{search[1]:g}"
    return Row(crossing, run, said, len(equal), better, max(equal, default=float("nan")))


# ---- The programs ------------------------------------------------------------------------------------------------


def ours(path: Path, lines: list[str], beam: int, penalty: float) -> list[Found]:
    """minitf, of a run or of another program's model."""
    from minitf import Translator

    translator = Translator.load(path, warn=lambda message: None)
    found = translator.translate_nbest(lines, beam=beam, alpha=penalty, beta=0.0, n_best=1)
    lengths = [sum(len(target) for _, target in best.parts) + 1 for (best,) in found]
    return [Found(best.text, best.log_probability, n) for (best,), n in zip(found, lengths, strict=True)]


def huggingface(folder: Path, lines: list[str], beam: int, penalty: float) -> list[Found]:
    """`generate`, with the tokenizer of the folder; the log-probabilities are those of a forward pass."""
    import torch
    import transformers

    torch.set_num_threads(1)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    with torch.no_grad():
        ids = model.generate(**batch, num_beams=beam, length_penalty=penalty)
        logits = model(**batch, decoder_input_ids=ids[:, :-1]).logits.double()
    each = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
    after_end = (ids[:, 1:] == 0).cumsum(1) - (ids[:, 1:] == 0).int() > 0
    totals = each.masked_fill(after_end, 0.0).sum(1).tolist()
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    lengths = (~after_end).sum(1).tolist()
    return [Found(*each) for each in zip(texts, totals, lengths, strict=True)]


def ctranslate2(folder: Path, lines: list[str], beam: int, penalty: float, kind: str = "float32") -> list[Found]:
    """`translate_batch` with pieces of the folder's sentencepiece model, computed in a type."""
    import ctranslate2 as program
    import sentencepiece

    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target")
    )
    translator = program.Translator(str(folder), compute_type=kind, intra_threads=1)
    adds_end = json.loads((folder / "config.json").read_text())["add_source_eos"]  # else a tokenizer does
    pieces = [source.encode(line, out_type=str) + ([] if adds_end else ["</s>"]) for line in lines]
    search: dict[str, Any] = {"beam_size": beam, "length_penalty": penalty, "min_decoding_length": 0}
    results = translator.translate_batch(pieces, return_scores=True, max_decoding_length=100, **search)
    found = []
    for each in results:
        tokens = each.hypotheses[0]
        total = each.scores[0] * (len(tokens) + 1) ** penalty
        found.append(Found(" ".join(target.decode(tokens).split()), total, len(tokens) + 1))
    return found


def marian(folder: Path, lines: list[str], beam: int, penalty: float) -> list[Found]:
    """Marian's Python binding; its vocabulary is a list of pieces, so that text is cut before and joined after."""
    import pymarian
    import sentencepiece

    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target")
    )
    translator = pymarian.Translator(
        models=str(folder / "model.npz"), vocabs=[str(folder / "vocab.yml")] * 2, beam_size=beam, normalize=penalty,
        n_best=True, cpu_threads=1, max_length=100, quiet=True,
    )  # fmt: skip
    pieces = "\n".join(" ".join(source.encode(line, out_type=str)) for line in lines)
    best: dict[int, Found] = {}
    for line in translator.translate(pieces).strip().split("\n"):
        number, text, features, _ = (part.strip() for part in line.split("|||"))
        tokens = text.split()
        total = float(features.split("=")[-1])
        best.setdefault(int(number), Found(" ".join(target.decode(tokens).split()), total, len(tokens) + 1))
    return [best[number] for number in range(len(lines))]


# ---- The crossings -----------------------------------------------------------------------------------------------


def crossings(run: Path, work: Path, lines: list[str]) -> Iterator[Row]:
    """All crossings of a run, each search."""
    from additions.interchange.conversion import export_run

    name = run.name
    shutil.rmtree(work, ignore_errors=True)
    expected = {search: ours(run, lines, *search) for search in SEARCHES}
    export_run(run, work / "ctranslate2", "ctranslate2", None)
    for search, before in expected.items():
        yield row("minitf → CTranslate2", name, search, before, ctranslate2(work / "ctranslate2", lines, *search))
    yield row("minitf → CTranslate2 → minitf", name, (4, 0.6), expected[4, 0.6],
              ours(work / "ctranslate2", lines, 4, 0.6))  # fmt: skip
    if name != "pre-norm":
        yield from of_huggingface(run, work, lines, expected)
    if name == "marian":
        export_run(run, work / "marian", "marian", None)
        for search, before in expected.items():
            yield row("minitf → Marian", name, search, before, marian(work / "marian", lines, *search))
        yield row("minitf → Marian → minitf", name, (4, 0.6), expected[4, 0.6],
                  ours(work / "marian", lines, 4, 0.6))  # fmt: skip


def of_huggingface(
    run: Path, work: Path, lines: list[str], expected: dict[tuple[int, float], list[Found]]
) -> Iterator[Row]:
    """Crossings through a folder of transformers, and those that begin there."""
    import ctranslate2 as program
    import transformers

    from additions.interchange.conversion import export_run

    folder, again = work / "huggingface", work / "saved again"
    export_run(run, folder, "huggingface", None)
    for search, before in expected.items():
        yield row("minitf → transformers", run.name, search, before, huggingface(folder, lines, *search))
    transformers.MarianMTModel.from_pretrained(folder).save_pretrained(again)
    for file in ("vocab.json", "source.spm", "target.spm", "tokenizer_config.json"):
        shutil.copy(folder / file, again / file)
    yield row("minitf → transformers, saved there → minitf", run.name, (4, 0.6), expected[4, 0.6],
              ours(again, lines, 4, 0.6))  # fmt: skip
    for kind in TYPES if run.name == "marian" else ():
        converted = work / f"converted {kind}"
        converter = program.converters.TransformersConverter(str(folder), copy_files=["source.spm", "target.spm"])
        converter.convert(converted, quantization=kind)
        theirs = ctranslate2(converted, lines, 4, 0.6)
        crossing = f"transformers → CTranslate2's converter, {kind} → minitf, against CTranslate2"
        yield row(crossing, run.name, (4, 0.6), theirs, ours(converted, lines, 4, 0.6))
        if kind == "float32":
            yield row("transformers → CTranslate2's converter", run.name, (4, 0.6), expected[4, 0.6], theirs)


# ---- The table ---------------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """The rows as Markdown, below the versions and the day."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PROGRAMS)
    head = f"{datetime.date.today():%d %B %Y}: {versions}.\n\n"
    head += f"| crossing | run | search | equal of {LINES} | better there | log-probability |\n"
    head += "|---|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(map(str, each[:-1]))} | {each.difference:.1e} |\n" for each in rows)


def environment(folder: Path) -> Path:
    """The Python of an environment with the programs and this project, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PROGRAMS, "-e", str(ROOT)], check=True)
    return python


def main() -> None:
    """Make what is missing, cross, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    python = environment(given.work / "env")
    if Path(sys.prefix).resolve() != (given.work / "env").resolve():
        os.execv(python, [str(python), __file__, *sys.argv[1:]])
    from minitf.app.train import main as train
    from minitf.corpora.built_in import built_in_corpus, write_corpus

    corpus, texts = built_in_corpus(valid_pairs=100, test_pairs=LINES), given.work / "corpus"
    lines = [source for source, _ in corpus.test]
    if not texts.exists():
        write_corpus(texts, corpus)
    sets = [
        word
        for name in ("train", "valid")
        for word in (f"--{name}", *(str(texts / f"{name}.{side}") for side in ("en", "de")))
    ]
    rows = []
    for name, flags in RUNS.items():
        run = given.work / "runs" / name
        if not list(run.glob("checkpoints/step-*")):
            train([*TRAINING, *sets, *flags, "--output", str(run)])
        for each in crossings(run, given.work / "crossed" / name, lines):
            print(*each, sep="\t", flush=True)
            rows.append(each)
    text = table(rows)
    if given.page is not None:
        resumable.write_within(given.page, "crossings.py", text)
    print(text)


if __name__ == "__main__":
    main()
