#!/usr/bin/env bash
# All that a quarter of an hour with a GPU can tell, in one call of at most 8 minutes; see README.md.
#   bash studies/benchmarks/gpu_window/window.sh                    every part, the most telling first
#   END=170 bash studies/benchmarks/gpu_window/window.sh step rates   these parts
# Writes $OUT/summary.txt and results.jsonl as results come, and logs.tgz after each phase.  The exit status is 0 only
# if a part has passed and none has failed.  SMALL=1 SLOWLY=20: small sizes and longer limits, to try
# the programs where a kernel takes long.
set -u
cd "$(dirname "$0")/../../.." || exit 1
HERE=studies/benchmarks/gpu_window CARRIED=${CARRIED:-build/gpu-window} PEER=studies/benchmarks/peers/torch_transformer.py
T0=$(date +%s) END=${END:-475} OUT=${OUT:-build/gpu-window/out} P=${PYTHON:-python3}
PARTS=${*:-card kernels models cases demo curves suspects nccl step peer rates translate graphs sanitizers ncu}
R=$(mktemp -d)
mkdir -p "$OUT"
export RESULTS="$OUT/results.jsonl" PYTHONUNBUFFERED=1 CUPY_CACHE_DIR="${CUPY_CACHE_DIR:-/tmp/cupy}" TORCHINDUCTOR_CACHE_DIR=/tmp/inductor
: > "$OUT/results.jsonl"; : > "$OUT/summary.txt"

now() { echo $(($(date +%s) - T0)); }
say() { echo "[$(now) s] $*" | tee -a "$OUT/summary.txt"; }
keep() { tar -C "$R" -czf "$R.part" --exclude=checkpoints --exclude=data . && mv "$R.part" "$OUT/logs.tgz"; }
wanted() { case " $PARTS " in *" $1 "*) ;; *) false ;; esac; }
# part NAME SECONDS COMMAND…: within its limit and what is left of END; a log, and a line of the summary
part() {
  local name=$1 limit=$(($2 * ${SLOWLY:-1})) left=$((END - $(now))) start status
  shift 2
  [ $left -ge "$limit" ] || limit=$left
  if [ "$limit" -lt 5 ]; then say "$name: no time left"; echo 1 > "$R/$name.status"; return; fi
  start=$(date +%s)
  timeout -k 3 "$limit" "$@" > "$R/$name.log" 2>&1
  status=$?
  echo $status > "$R/$name.status"
  say "$name: exit $status after $(($(date +%s) - start)) s of $limit: $(tail -n 1 "$R/$name.log" | cut -c1-200)"
  [ $status = 0 ] || tail -n 6 "$R/$name.log" | cut -c1-220 | sed 's/^/      | /' | tee -a "$OUT/summary.txt"
}
trap keep EXIT

# ---- 0. Packages ----
if ls $CARRIED/wheels/*.whl > /dev/null 2>&1; then
  install="$P -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target"
  part wheels 30 $install /tmp/site $CARRIED/wheels/*.whl
  export PYTHONPATH=/tmp/site${PYTHONPATH:+:$PYTHONPATH}
  if ! $P -c 'import nvmath.bindings.cublasLt'; then
    part more 30 $install /tmp/site2 $CARRIED/more/*.whl
    export PYTHONPATH=/tmp/site2:$PYTHONPATH
  fi
fi
command -v nvidia-smi > /dev/null &&
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv | tee -a "$OUT/summary.txt"

# ---- 1. Is it right?  Side by side: nothing is timed here, but the peer is compiled into a cache ----
peer() { echo "$P $PEER train --device cuda --amp bf16 --config base --batch 500 --length 50 $*"; }
wanted peer && part peer-warm 170 $(peer --compile --runs 1 --warmup 2) &
wanted card && part card 75 $P $HERE/card.py # with every kernel compiled, for all that follow
tests="$P -m pytest -q -m gpu -rs -p no:cacheprovider -W default -n 4"
(
  export OPENBLAS_NUM_THREADS=2 # of each of twenty processes
  wanted kernels && part kernels 130 $tests tests/autograd/fast/test_cuda.py tests/autograd/fast/test_self_test.py &
  wanted models && part models 130 $tests tests/minitf/test_on_gpu.py tests/minitf/fast/test_step_graphs.py &
  if wanted cases; then
    $P -c 'import tests.cases; from autograd.engine import Op; print(*sorted(Op.registry), sep="\n")' > "$R/ops"
    for i in 0 1 2 3 4; do
      part cases-$i 130 $P -m tests.cases --device cuda --examples 1 --ops $(awk "NR % 5 == $i" "$R/ops") &
    done
  fi
  wanted demo && part demo 100 $P train.py --preset demo --device cuda --output "$R/demo" &
  wanted curves && part curves 170 $P $HERE/curves.py "$R" &
  wanted suspects && part suspects 120 $P $HERE/suspects.py &
  wanted nccl && part nccl 60 $P $HERE/nccl_one.py &
  wait
)
wait
keep

# ---- 2. How fast?  Alone on the card, ours before and after the peer ----
wanted step && part step 60 $P $HERE/step.py
if wanted peer; then
  part peer-compiled 60 $(peer --compile --runs 20 --warmup 5)
  part peer-eager 30 $(peer --runs 20 --warmup 5)
  wanted step && part step-again 45 $P $HERE/step.py
fi
wanted rates && part rates 90 $P $HERE/rates.py
text=$CARRIED/multi30k/test_2016_flickr.en
wanted translate && [ -e "$text" ] && part translate 60 $P studies/benchmarks/translate_ours.py corpus --device cuda \
  --run "$R/demo" --input $text --lines 256 --batches 64 256 --beams 1 5
wanted graphs && part graphs 60 $P $HERE/suspects.py memory_of_a_graph
keep

# ---- 3. What checks the code itself ----
if wanted sanitizers; then
  check="compute-sanitizer --report-api-errors no --error-exitcode 9 --tool"
  part memcheck 110 $check memcheck $P $HERE/small_step.py &
  part racecheck 110 $check racecheck $P $HERE/small_step.py pool &
  wait
fi
kernels='^(attention|attention_backward|layer_norm|layer_norm_backward|relu_backward_sum|cross_entropy)$'
wanted ncu && part ncu 60 ncu --target-processes all --clock-control none -k "regex:$kernels" --launch-skip 150 \
  --launch-count 20 --section SpeedOfLight --section Occupancy --section WarpStateStats --csv $P $HERE/step.py --once
if wanted bleu; then # with texts of Multi30k, in a call of its own
  part bleu 300 $P train.py --preset multi30k-transformer-tiny --model.norm pre --model.dropout 0.2 \
    --optimizer.peak-learning-rate 0.0035 --optimizer.warmup-steps 600 --optimizer.decay-steps 5400 --max-steps 5400 \
    --max-tokens-per-batch 1536 --accumulate 1 --average-checkpoints 1 --device cuda --data-dir $CARRIED/multi30k \
    --max-minutes 1.7 --output "$R/multi30k"
fi
grep -hE '"(step|profile|curve|suspect|NCCL|buckets)|"right": false|"error"' "$RESULTS" | cut -c1-330 | tee -a "$OUT/summary.txt"
ls "$R"/*.status > /dev/null 2>&1 || { say "done; nothing ran: there is no part $PARTS"; exit 1; }
failed=$(grep -Lx 0 "$R"/*.status | sed 's|.*/||; s|\.status||' | tr '\n' ' ')
grep -q '"right": false' "$RESULTS" && failed="$failed(a wrong number)"
say "done; failed: ${failed:-nothing}"
[ -z "$failed" ]
