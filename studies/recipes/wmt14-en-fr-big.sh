#!/bin/sh
# Table 2 of the paper: 41.8 BLEU on newstest2014, cased, tokenized by Moses, compounds split; 3.5 days on 8 P100.
#
#     sh studies/recipes/wmt14-en-fr-big.sh --output runs/table2-big-en-fr
#     minitf bleu runs/table2-big-en-fr/test.hypotheses REFERENCE
#
# Of the second command, the line "the paper's" is the one to compare. The first one downloads the corpus (gigabytes)
# unless --data-dir FOLDER has it. An update is one batch here; with less memory, --max-tokens-per-batch 6250
# --accumulate 4 makes the same update of four parts.
cd "$(dirname "$0")/../.." || exit 1
exec "${PYTHON:-python}" train.py --preset table2-big-en-fr "$@"
