"""A trained run of ours translated by CTranslate2: the same weights, the same subwords, beam 4.

A peer, not a dependency: run it from an environment of its own (`pip install ctranslate2 numpy`), on what
`benchmarks/translate_ours.py export` wrote.

    python ctranslate2_corpus.py exported.npz --batch 64

Prints one JSON line: median seconds, output tokens per second, peak memory in MiB.
"""

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import add_corpus_arguments


def linear(spec, arrays, *names):
    spec.weight = np.concatenate([arrays[name + ".weight"] for name in names])
    spec.bias = np.concatenate([arrays[name + ".bias"] for name in names])


def norm(spec, arrays, name):
    spec.gamma, spec.beta = arrays[name + ".weight"], arrays[name + ".bias"]


def build(arrays):
    about = json.loads(str(arrays["about"]))
    table = arrays["source_embedding.weight"]
    spec = transformer_spec.TransformerSpec.from_config(
        (about["layers"], about["layers"]), about["heads"], pre_norm=False, activation=common_spec.Activation.RELU
    )
    spec.config.layer_norm_epsilon = about["norm_epsilon"]
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = table
        embeddings.multiply_by_sqrt_depth = True
        side.scale_embeddings = True
        side.position_encodings.encodings = arrays["positions"]
        for number, layer in enumerate(side.layer):
            place = f"{name}.layers.{number}."
            attention = place + "self_attention."
            linear(layer.self_attention.linear[0], arrays, *(attention + part for part in ("query", "key", "value")))
            linear(layer.self_attention.linear[1], arrays, attention + "output")
            norm(layer.self_attention.layer_norm, arrays, place + "self_attention_residual.norm")
            if name == "decoder":
                attention = place + "cross_attention."
                linear(layer.attention.linear[0], arrays, attention + "query")
                linear(layer.attention.linear[1], arrays, attention + "key", attention + "value")
                linear(layer.attention.linear[2], arrays, attention + "output")
                norm(layer.attention.layer_norm, arrays, place + "cross_attention_residual.norm")
            linear(layer.ffn.linear_0, arrays, place + "feed_forward.up")
            linear(layer.ffn.linear_1, arrays, place + "feed_forward.down")
            norm(layer.ffn.layer_norm, arrays, place + "feed_forward_residual.norm")
    spec.decoder.projection.weight = table
    spec.decoder.projection.bias = np.zeros(len(table), np.float32)
    words = ["<blank>", "<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(4, len(table))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    return spec, words


def main():
    parser = argparse.ArgumentParser()
    add_corpus_arguments(parser)
    parser.add_argument("--compute-type", default="float32")
    args = parser.parse_args()
    with np.load(args.exported) as arrays:
        spec, words = build(arrays)
        lines = json.loads(str(arrays["lines"]))[: args.lines]
    source = [[words[i] for i in (*ids, 3)] for ids in lines]
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.save(folder)
        del spec
        translator = ctranslate2.Translator(folder, compute_type=args.compute_type, intra_threads=args.threads)
        seconds = []
        for run in range(args.runs + 1):
            start = time.perf_counter()
            results = translator.translate_batch(
                source, beam_size=args.beam, max_batch_size=args.batch, length_penalty=0.6
            )
            if run:
                seconds.append(time.perf_counter() - start)
    tokens = sum(len(result.hypotheses[0]) + 1 for result in results)
    if args.tokens:
        with open(args.tokens, "w") as file:
            json.dump([[words.index(word) for word in result.hypotheses[0]] for result in results], file)
    median = statistics.median(seconds)
    record = {"peer": "ctranslate2 " + ctranslate2.__version__, "mode": "corpus", "compute": args.compute_type}
    record |= {"seconds": round(median, 4), "tokens_per_second": round(tokens / median, 1)}
    record["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
