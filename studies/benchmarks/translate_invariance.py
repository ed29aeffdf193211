"""Does a line's translation depend on its company?  One at a time, in batches of 7 and of 256, and shuffled.

    python studies/benchmarks/translate_invariance.py --run runs/multi30k --input sentences.en --lines 2000

Prints for each way how many lines, and how many scores to the last bit, differ from those one at a time; ends with
status 1 if any line does.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

from minitf.data.text import read_lines
from minitf.system.process import set_up_device
from minitf.translation.translator import Translator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--beam", type=int)
    parser.add_argument("--threads", type=int, help="default: one a core")
    args = parser.parse_args()
    set_up_device(args.threads)
    translator = Translator.load(args.run)
    lines = list(read_lines(args.input))[: args.lines]

    def translate(lines: list[str], at_once: int) -> list[tuple[str, float]]:
        found = translator.translate_nbest(lines, n_best=1, beam=args.beam, max_sentences_per_batch=at_once)
        return [(best.text, best.log_probability) for best, *_ in found]

    alone = translate(lines, 1)
    order = random.Random(0).sample(range(len(lines)), len(lines))
    ways = {"batches of 7": translate(lines, 7), "batches of 256": translate(lines, 256)}
    shuffled = dict(zip(order, translate([lines[i] for i in order], 256), strict=True))
    ways["shuffled, batches of 256"] = [shuffled[i] for i in range(len(lines))]
    wrong = 0
    for way, found in ways.items():
        pairs = list(zip(found, alone, strict=True))
        texts = sum(one[0] != other[0] for one, other in pairs)
        bits = sum(one[1] != other[1] for one, other in pairs)
        worst = max((abs(one[1] - other[1]) for one, other in pairs if one[0] == other[0]), default=0.0)
        print(
            f"{way}: {texts} of {len(lines):,} lines differ, {bits} log-probabilities, by at most {worst:.1e}",
            flush=True,
        )
        wrong += texts
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
