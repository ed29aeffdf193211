#!/bin/sh
# Table 2 of the paper: 28.4 BLEU on newstest2014, cased, tokenized by Moses, compounds split; 3.5 days on 8 P100.
#
#     sh studies/recipes/wmt14-en-de-big.sh --output runs/table2-big-en-de
#     minitf bleu runs/table2-big-en-de/test.hypotheses REFERENCE
#
# Of the second command, the line "the paper's" is the one to compare. The first one downloads the corpus (gigabytes)
# unless --data-dir FOLDER has it. An update is one batch here; with less memory, --max-tokens-per-batch 6250
# --accumulate 4 makes the same update of four parts.
cd "$(dirname "$0")/../.." || exit 1
exec "${PYTHON:-python}" train.py --preset table2-big-en-de "$@"
