#!/usr/bin/env bash
# Fill build/gpu-window/ for a machine without a network: the packages that it lacks, and texts of Multi30k, 25 MB.
#   bash studies/benchmarks/gpu_window/prepare.sh [DIRECTORY OF MULTI30K'S TOKENIZED TEXTS]
# Wheels are those for Python 3.12 on Linux; PACKAGES names others.
set -eu
cd "$(dirname "$0")/../../.."
to=build/gpu-window
mkdir -p $to/wheels $to/more
platforms=$(printf -- '--platform manylinux_2_%s_x86_64 ' 28 27 24 17; printf -- '--platform manylinux%s_x86_64 ' 2014 1)
get() { python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp $platforms -d "$@"; }
get $to/wheels ${PACKAGES:-nvmath-python==1.0.0 sacremoses==0.2.0}
python3 -m pip wheel -q --no-deps -w $to/wheels . # for the additions' entry points: the tree comes before it on the path
get $to/more cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.1 # where nvmath-python does not import
[ $# = 0 ] || { mkdir -p $to/multi30k && cp "$1"/*.en "$1"/*.de $to/multi30k/; }
du -sh $to
