#!/bin/sh
# Table 2 of the paper: 38.1 BLEU on newstest2014, cased, tokenized by Moses, compounds split; 12 hours on 8 P100.
#
#     sh studies/recipes/wmt14-en-fr-base.sh --output runs/table2-base-en-fr
#     minitf bleu runs/table2-base-en-fr/test.hypotheses REFERENCE
#
# Of the second command, the line "the paper's" is the one to compare. The first one downloads the corpus (gigabytes)
# unless --data-dir FOLDER has it. An update is one batch here; with less memory, --max-tokens-per-batch 6250
# --accumulate 4 makes the same update of four parts.
cd "$(dirname "$0")/../.." || exit 1
exec "${PYTHON:-python}" train.py --preset table2-base-en-fr "$@"
