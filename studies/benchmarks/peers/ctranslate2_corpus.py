"""A trained run of ours translated by CTranslate2: the same weights, the same subwords.

A peer, not a dependency: run it from an environment of its own (`pip install ctranslate2 numpy`), on what
`studies/benchmarks/translate_ours.py export` and `minitf export --format ctranslate2` wrote.

    python ctranslate2_corpus.py exported.npz --model FOLDER --batches 1 64 --beams 1 5

Each core translates batches of its own, which is the faster way for many sentences. Prints one JSON line: output tokens
per second for each search and batch size, peak memory in MiB.
"""

import argparse
import json
import sys
from pathlib import Path

import ctranslate2
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import add_corpus_arguments, report_corpus


def main():
    parser = argparse.ArgumentParser()
    add_corpus_arguments(parser)
    parser.add_argument("--model", required=True, help="folder of the exported model")
    parser.add_argument("--compute-type", default="float32")
    args = parser.parse_args()
    with np.load(args.exported) as arrays:
        pieces, lines = json.loads(str(arrays["pieces"])), json.loads(str(arrays["lines"]))
    ids = {piece: number for number, piece in enumerate(pieces)}
    translator = ctranslate2.Translator(
        args.model, compute_type=args.compute_type, inter_threads=args.threads, intra_threads=1
    )

    def work(lines, beam, batch):
        settings = {"beam_size": beam, "max_batch_size": batch, "length_penalty": 1, "disable_unk": True}
        results = translator.translate_batch([[pieces[i] for i in line] for line in lines], **settings)
        return [[ids[piece] for piece in result.hypotheses[0]] for result in results]

    report_corpus("ctranslate2 " + ctranslate2.__version__, args, work, lines, compute=args.compute_type)


if __name__ == "__main__":
    main()
