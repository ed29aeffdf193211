#!/usr/bin/env python3
"""Train a Transformer to translate: `python train.py` for the built-in corpus, `--help` for everything else.

The loop, before the details in minitf/training/loop.py:

    while there is something to do:
        schedule     the learning rate of this update (equation 3)
        accumulate   sum the loss and its gradients over the batches of one update
        step         Adam, with the gradient divided by the target tokens of the whole update
        log          one JSON line, and the progress bar
        validate and save, every so often

A run that is killed at any instant and resumed ends with results bit-identical to those of an uninterrupted run.
`minitf train` is the same command.
"""

import sys

from minitf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
