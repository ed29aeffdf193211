#!/bin/sh
# Table 2 of the paper: 27.3 BLEU on newstest2014, cased, tokenized by Moses, compounds split; 12 hours on 8 P100.
#
#     sh studies/recipes/wmt14-en-de-base.sh --output runs/table2-base-en-de
#     minitf bleu runs/table2-base-en-de/test.hypotheses REFERENCE
#
# Of the second command, the line "the paper's" is the one to compare. The first one downloads the corpus (gigabytes)
# unless --data-dir FOLDER has it. An update is one batch here; with less memory, --max-tokens-per-batch 6250
# --accumulate 4 makes the same update of four parts.
cd "$(dirname "$0")/../.." || exit 1
exec "${PYTHON:-python}" train.py --preset table2-base-en-de "$@"
