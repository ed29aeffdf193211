#!/usr/bin/env python3
"""Translate text with a trained run, one line out for each line in.

    python translate.py runs/tiny < input.en > output.de
    python translate.py runs/tiny --input input.en --output output.de --reference right.de
    python translate.py runs/tiny --input input.en --nbest 4 --format jsonl
    python translate.py runs/tiny --input input.en --score given.de

Lines of standard input are translated as they arrive. An output file appears when it is complete. The work is in
minitf/app/translate.py; `minitf translate` is the same command.
"""

import sys

from minitf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["translate", *sys.argv[1:]]))
