#!/bin/sh
# The text-only Transformer-Tiny of Wu et al. 2021 ("Good for Misconceived Reasons", their README-baseline.md) on
# Multi30k, English to German. Published: 41.02 tokenized, lower-cased BLEU on test_2016_flickr, of one run.
#
#     sh studies/recipes/multi30k-transformer-tiny.sh --seed 1 --output runs/tiny-1
#
# Further flags are those of train.py: --data-dir FOLDER uses texts there, --resume RUN goes on, --devices cpu:2
# has a process on each of two cores, and --max-minutes 60 ends training after an hour.
# Three seeds: python studies/recipes/seeds.py --preset multi30k-transformer-tiny --output runs/tiny --jobs 2
# 4 + 4 layers, d_model 128, d_ff 256, 4 heads, dropout 0.3, a joint vocabulary of 10,000; Adam (0.9, 0.98, 1e-8), peak
# rate 0.005 after 2,000 updates, falling with the root; two batches of 4,096 slots an update; at most 8,000 updates,
# fewer when ten epochs bring no lower validation loss; the mean of the last ten epochs; beam 5, length penalty 1.
cd "$(dirname "$0")/../.." || exit 1
exec "${PYTHON:-python}" train.py --preset multi30k-transformer-tiny "$@"
