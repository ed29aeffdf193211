#!/bin/sh
# Ten minutes of two cores of a Zen 5 for a translator from English to German: Multi30k, the model of
# multi30k-transformer-tiny.sh, and that recipe's tokenized, lower-cased BLEU on test_2016_flickr.
#
#     sh studies/recipes/ten-minutes.sh --output runs/ten-minutes
#
# Further flags are those of train.py: --data-dir FOLDER uses texts there. It needs Numba and MPI: pip install -e '.[numba,parallel]'.
cd "$(dirname "$0")/../.." || exit 1
exec "${PYTHON:-python}" train.py --preset multi30k-ten-minutes "$@"
