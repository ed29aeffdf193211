"""Translation speed, ours against PyTorch and CTranslate2, in turn on this machine: medians, ratios, peak memory.

    python studies/benchmarks/translate.py --peer pytorch=PYTHON --peer ctranslate2=PYTHON --peers FOLDER
    python studies/benchmarks/translate.py … --rounds 1 --run runs/multi30k --input test.en
    python studies/benchmarks/translate.py … --opus-mt

Two comparisons: the base model with random weights, 32 sentences of 25 tokens to 30 new tokens by beam 4; the latency
of one sentence of 10 words. FOLDER holds the peers' scripts; the peers are given by the Python that has them, and left
out where they are not given. --opus-mt compares one model of OPUS-MT's size instead, by beam 4 and greedily, in the
files of Hugging Face and CTranslate2 that the others read, and the time to load it.

--run compares a trained run over a whole text instead, with 1, 8 and 64 sentences at once, greedily and by beam 5:
the same weights and subwords in all, for CTranslate2 by `minitf export`. Batches are shared out on all cores where a
program can do that (minitf, CTranslate2). The table says how many of the peers' translations are the same as ours: all
but those that differ by rounding when greedy; with beams, both stop a search at as many ended hypotheses as there are
beams, and minitf may choose one that ended outside the beam.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

from studies.benchmarks.side_by_side import (
    HERE,
    Contestant,
    add_arguments,
    machine,
    ours,
    peers_given,
    table,
    take_turns,
)

OURS = [sys.executable, str(HERE / "translate_ours.py")]
COMPUTE_TYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8"}  # as CTranslate2 names them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--peers", type=Path, default=HERE / "peers", help="folder of the peers' scripts")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of a process")
    parser.add_argument("--run", type=Path, help="a trained run")
    parser.add_argument("--input", type=Path, help="the text to translate with it")
    parser.add_argument("--lines", type=int, metavar="N", help="only its first N lines")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64], help="sentences of it at once")
    precisions = ["float32", "bf16", "int8"]
    parser.add_argument("--precision", choices=precisions, default="float32", help="of minitf and CTranslate2")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5], help="1 is greedy search")
    parser.add_argument("--opus-mt", action="store_true", help="only a model of OPUS-MT's size, 58,000 pieces")
    args = parser.parse_args()
    if (args.run is None) != (args.input is None):
        parser.error("--run and --input belong together; give both or neither")

    given = peers_given(parser, args.peer, ("pytorch", "ctranslate2"))
    args.torch, args.ctranslate2 = given.get("pytorch"), given.get("ctranslate2")
    show(args.write, machine())
    if args.opus_mt:
        compare_opus_mt(args)
        return

    if args.run is not None:
        compare_run(args)
        return
    compare(args, "base, random weights, 32 sentences, beam 4", decoders(args, 32, 25, 30))
    compare(args, "latency: one sentence of 10 words, 13 subwords to 13", decoders(args, 1, 13, 13))


def compare_opus_mt(args: argparse.Namespace) -> None:
    """One model in all; PyTorch runs it in transformers."""
    work = ["--batch", "32", "--length", "25", "--new-tokens", "30", "--runs", str(args.runs)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        subprocess.run([sys.executable, str(HERE / "foreign_model.py"), str(folder)], check=True)
        for beam in (4, 1):
            size = ["--beam", str(beam), *work]
            found = ours("translate_ours.py", "decode", "--model", str(folder / "ctranslate2"), *size)
            for name, python, script, written in (
                ("PyTorch, transformers", args.torch, "transformers_decode.py", "huggingface"),
                ("CTranslate2, float32", args.ctranslate2, "ctranslate2_decode.py", "ctranslate2"),
            ):
                if python:
                    command = [python, str(args.peers / script), "--model", str(folder / written), *size]
                    found.append(Contestant(name, command))
            search = "greedily" if beam == 1 else f"by beam {beam}"
            compare(args, f"OPUS-MT's size, random weights, 32 sentences of 25 tokens to 30 {search}", found)
            loading = [(each.name, each.median("load_seconds")) for each in found]
            listed = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in loading if seconds is not None)
            read = found[0].median("read_seconds")
            show(args.write, f"\nloading: {listed}" + (f"; reading the bytes {read:.3f} s" if read else ""))


def ours_of(args: argparse.Namespace, *arguments: str) -> list[Contestant]:
    """minitf in the precision that is compared; in bf16 with Numba alone."""
    found = ours("translate_ours.py", *arguments, "--precision", args.precision)
    return [each for each in found if args.precision != "bf16" or each.name == "minitf, Numba"]


def decoders(args: argparse.Namespace, batch: int, length: int, new_tokens: int) -> list[Contestant]:
    """All with random weights, to one length."""
    work = ["--batch", str(batch), "--length", str(length), "--new-tokens", str(new_tokens), "--runs", str(args.runs)]
    found = ours_of(args, "decode", *work)
    if args.torch:
        found.append(Contestant("PyTorch", [args.torch, str(args.peers / "torch_transformer.py"), "decode", *work]))
    if args.ctranslate2:
        peer = [str(args.peers / "ctranslate2_decode.py"), *work, "--compute-type", COMPUTE_TYPES[args.precision]]
        found.append(Contestant("CTranslate2", [args.ctranslate2, *peer]))
    return found


def compare_run(args: argparse.Namespace) -> None:
    """One table: a line for each search and batch size."""
    lines = [] if args.lines is None else ["--lines", str(args.lines)]
    text = ["--run", str(args.run), "--input", str(args.input), *lines]
    work = ["--batches", *map(str, args.batches), "--beams", *map(str, args.beams)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run([*OURS, "export", *text, "--output", str(folder / "exported.npz")], check=True)
        found = ours_of(args, "corpus", *text, *work)
        for each in found:
            each.command += ["--tokens", str(folder / each.name)]
        if args.ctranslate2:
            export = [sys.executable, "-m", "minitf", "export", str(args.run), str(folder / "model")]
            subprocess.run([*export, "--format", "ctranslate2"], check=True, cwd=HERE.parent)
            script = [args.ctranslate2, str(args.peers / "ctranslate2_corpus.py"), str(folder / "exported.npz")]
            command = [*script, "--model", str(folder / "model"), *work, "--tokens", str(folder / "CTranslate2")]
            command += ["--compute-type", COMPUTE_TYPES[args.precision]]
            found.append(Contestant("CTranslate2", command))
        if args.torch:
            script = [args.torch, str(args.peers / "torch_corpus.py"), str(folder / "exported.npz")]
            found.append(Contestant("PyTorch", [*script, *work, "--tokens", str(folder / "PyTorch")]))
        title = f"{args.run.name} over {args.input.name}"
        take_turns(found, args.rounds, title)
        show(args.write, f"\n{title}, output tokens per second\n\n{table_of_run(args, found, folder)}")


def table_of_run(args: argparse.Namespace, contestants: list[Contestant], folder: Path) -> str:
    """Markdown: medians, ours ÷ theirs, and the share of translations that are the same as ours."""
    first, *others = contestants
    names = "".join(f" {each.name} | minitf ÷ this | same |" for each in others)
    rows = [f"| | {first.name} |{names}", "|---|---|" + "---|---|---|" * len(others)]
    tokens = {each.name: json.loads((folder / each.name).read_text()) for each in contestants if not each.failure}
    for beam, batch in itertools.product(args.beams, args.batches):
        setting = f"beam {beam}, batch {batch}"
        mine = first.median(setting)
        cells = [setting if beam > 1 else f"greedy, batch {batch}", "failed" if mine is None else f"{mine:,.0f}"]
        for each in others:
            theirs = each.median(setting)
            if theirs is None or mine is None:
                cells += ["failed", "", ""]
                continue
            pairs = list(zip(tokens[first.name][setting], tokens[each.name][setting], strict=True))
            same = sum(one == other for one, other in pairs) / len(pairs)
            cells += [f"{theirs:,.0f}", f"{mine / theirs:.2f}", f"{same:.1%}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def compare(args: argparse.Namespace, title: str, contestants: list[Contestant]) -> None:
    take_turns(contestants, args.rounds, title)
    show(args.write, f"\n{title}\n\n{table(contestants)}")


def show(path: Path | None, text: str) -> None:
    """Print, and add to the file of results, so that an interrupted comparison leaves what it has."""
    print(text, flush=True)
    if path is not None:
        with path.open("a") as file:
            print(text, file=file)


if __name__ == "__main__":
    main()
