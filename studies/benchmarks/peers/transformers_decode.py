"""Beam search with a Marian model in Hugging Face's transformers, as a yardstick for decoding speed.

A peer, not a dependency: run it from an environment of its own (`pip install torch transformers sentencepiece`).
Lengths are pinned so that every sentence costs the same work.

    python transformers_decode.py --model FOLDER --batch 32 --length 25 --new-tokens 30

Prints one JSON line: median seconds, output tokens per second, seconds to load, peak memory in MiB.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import median_seconds, report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="what foreign_model.py wrote for Hugging Face")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--new-tokens", type=int, default=30)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    start = time.perf_counter()
    model = transformers.MarianMTModel.from_pretrained(args.model).eval()
    load_seconds = time.perf_counter() - start
    torch.manual_seed(0)
    source = torch.randint(4, model.config.vocab_size - 1, (args.batch, args.length))
    source[:, -1] = model.config.eos_token_id
    search = {"num_beams": args.beam, "do_sample": False}
    search |= {"min_new_tokens": args.new_tokens, "max_new_tokens": args.new_tokens}

    @torch.inference_mode()
    def work():
        model.generate(input_ids=source, attention_mask=torch.ones_like(source), **search)

    seconds = median_seconds(work, args.runs)
    peer = f"transformers {transformers.__version__}, torch {torch.__version__}"
    report(peer, "decode", seconds, args.batch * args.new_tokens, load_seconds=round(load_seconds, 4))


if __name__ == "__main__":
    main()
