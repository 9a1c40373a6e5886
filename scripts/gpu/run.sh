#!/usr/bin/env bash
# Checks and measures gemmaudit on a machine with an NVIDIA driver; needs neither Go nor
# a compiler. Made by `make gpu-bundle`; run from any folder.
#
#   ./run.sh                  everything below, in this order
#   ./run.sh test             the GPU tests: the correctness gate of every kernel, the driver
#                             layer, the libraries beside our kernels
#   ./run.sh sanitize         every kernel at small sizes under compute-sanitizer's memcheck,
#                             racecheck, synccheck and initcheck, as many at a time as
#                             there are processors
#   ./run.sh older            the device code for 7.5, 8.0, 8.6 and 8.9, compiled by the driver from PTX, through the
#                             gate and the small sizes, then under the sanitizers (needs the PTX: `make older-ptx`
#                             ahead of `make gpu-bundle`)
#   ./run.sh reach            our kernels beside cuBLAS, interleaved
#   ./run.sh attention        flash and decode attention, the operations of a decoder, and a
#                             token's products in one graph; then PyTorch's attention, and an audit of ours
#   ./run.sh article          8192 batches of one product through cuBLAS, and its medians
#                             against a plain loop of library calls (needs PyTorch);
#                             then its splits and its report
#   ./run.sh mistral          models: the fixtures against transformers' logits, then a 7B
#                             model of random weights: tokens a second, where the time goes,
#                             perplexity against transformers (needs it, numpy and PyTorch),
#                             and prompts with the lookup table of this card's own audit
#   ./run.sh choices          what kernels say that they would run: held against what runs, timed by case, then 32768
#                             M of five products in four types, the two layouts compared, and cuBLASLt's fp8
#   ./run.sh audit            gemmaudit run, as a user starts it: the quick preset, then one
#                             square product through cuBLAS, its next choices and our kernels
#   ./run.sh pair             two audits of 4096 cases, the second after two minutes of load, and one
#                             more that executes all candidates for remedies; then the two compared.
#                             `make bench PAIR=cold.db,hot.db,all.db` prints how well they agree
#   ./run.sh noise            4096 comparisons of one kernel with itself under two names
#
# AUDITS are the audits of pair (default: cold hot all), LOAD how long the load before the hot one
# takes (default 2m), LAYOUT how the weights of pair are stored (default kn), OLDER the
# compute capabilities of older (default 75 80 86 89).
# OUT is the folder for logs and results (default ./out beside this script); DEVICE the
# card of article and audit (default cuda:0), where the other sections take the first;
# SANITIZE a regular expression of the tests that sanitize runs (default: all).
set -uo pipefail
started_in=$PWD
cd "$(dirname "$0")" || exit
here=$PWD
out=${OUT:-$here/out}
[[ $out == /* ]] || out=$started_in/$out
device=${DEVICE:-cuda:0}

declare -a summary
failed=0

# The folders of kernels that have a test program, mistral's aside, which has a section.
rooms=(cuda cuda/attention cuda/cublas cuda/decoder cuda/management)

# step runs a command with its output in a log, shows the log's last lines, and
# keeps the outcome for the table.
step() {
  local name=$1 lines=$2 code started=$SECONDS
  shift 2
  echo "== $name: $*"
  "$@" >"$out/$name.log" 2>&1
  code=$?
  tail -n "$lines" "$out/$name.log"
  summary+=("$(printf '%-22s exit %-3d %4d s   %s' "$name" "$code" $((SECONDS - started)) "$out/$name.log")")
  return $code
}

# passed counts a step that failed. Exit codes that are verdicts may be named.
passed() {
  local code=$? verdict
  for verdict in 0 "$@"; do
    [[ $code == "$verdict" ]] && return
  done
  failed=1
}

# gpu_test runs a test program of a room, which reads sources and data beside it, with
# further arguments: gpu_test test-cuda 40 cuda -test.v
gpu_test() {
  local name=$1 lines=$2 room=$3
  shift 3
  step "$name" "$lines" env -C "kernels/$room" "$here/tests/$room.test" -test.timeout 20m "$@"
}

run_test() {
  local room name
  for room in "${rooms[@]}"; do
    name=test-${room//\//-}
    gpu_test "$name" 40 "$room" -test.v
    passed
    grep -aoE -e '--- (FAIL|SKIP): .*' "$out/$name.log" | sort | head -n 40
  done
}

# sanitize_one runs one of compute-sanitizer's tools over the tests of a room of a pattern.
# racecheck, which keeps an account of every access, gets fewer sizes.
sanitize_one() {
  local tool=$1 room=$2 pattern=$3 less= log code
  [[ $tool == racecheck ]] && less=-test.short
  log=$out/sanitize-$tool-$(tr -dc a-zA-Z0-9 <<<"$pattern").log
  env -C "kernels/$room" compute-sanitizer --tool "$tool" --error-exitcode 9 \
    "$here/tests/$room.test" -test.run "$pattern" -test.timeout 20m -test.v $less >"$log" 2>&1
  code=$?
  if [[ $code == 0 ]] && ! grep -aqE -e '--- (PASS|SKIP): ' "$log"; then
    code=8 # nothing of that name was run
  fi
  echo "$tool $pattern exit $code: $(grep -aE '^=+ (ERROR|RACECHECK) SUMMARY' "$log" | tail -n 1)"
  return $code
}

# Most of a tool's time is the host's, which instruments code: so they run side by side.
run_sanitize() {
  local tool kernel dtype pattern started=$SECONDS code patterns=()
  if ! command -v compute-sanitizer >/dev/null; then
    summary+=("sanitize               skipped: compute-sanitizer is not on the PATH")
    return
  fi
  export -f sanitize_one
  export here out
  # The longest first.
  patterns+=('cuda/attention ^TestSmallAttention$')
  for kernel in RotateAttend Fuse OverlappedChain; do patterns+=("cuda/decoder ^Test$kernel\$"); done
  patterns+=('cuda ^TestOperations$')
  for kernel in hopper mma gemv wmma tiled naive; do
    for dtype in bf16 fp16 int8 fp8 tf32 fp32; do patterns+=("cuda ^TestSmall\$/^$kernel\$/^$dtype\$"); done
  done
  for pattern in "${patterns[@]}"; do
    [[ ${pattern#* } =~ ${SANITIZE:-.} ]] || continue
    for tool in racecheck memcheck initcheck synccheck; do echo "$tool $pattern"; done
  done | xargs -P "$(nproc)" -n 3 bash -c 'sanitize_one "$@"' sanitize >"$out/sanitize.log" 2>&1
  code=$?
  grep -v 'exit 0' "$out/sanitize.log"
  summary+=("$(printf '%-22s exit %-3d %4d s   %s, %d of %d without a finding' sanitize $code $((SECONDS - started)) \
    "$out/sanitize.log" "$(grep -c 'exit 0' "$out/sanitize.log")" "$(wc -l <"$out/sanitize.log")")")
  [[ $code == 0 ]] || failed=1
}

# A GPU that is taken for an older one; see kernels/cuda/gputest.
run_older() {
  local cc room families here_out=$out
  if [[ ! -d $here/older ]]; then
    summary+=("older                  skipped: there is no PTX for older GPUs beside this script")
    return
  fi
  export GEMMAUDIT_TEST_PTX=$here/older
  for cc in ${OLDER:-75 80 86 89}; do
    export GEMMAUDIT_TEST_CC=$cc
    families="gemv|wmma|tiled|naive"
    [[ $cc == 75 ]] || families="mma|$families"
    for room in cuda cuda/attention cuda/decoder; do
      gpu_test "older-$cc-${room//\//-}" 3 "$room" -test.v -test.run '^Test(Gate|Small|SmallAttention|AttentionGate|RotateAttendGate|RotateAttend|Fuse|OverlappedChain|Operations)$'
      passed
      grep -aoE -e '--- (FAIL|SKIP): .*' "$out/older-$cc-${room//\//-}.log" | sort | head -n 10
    done
    out=$here_out/older-$cc
    mkdir -p "$out"
    SANITIZE="^\^Test(SmallAttention|RotateAttend|Fuse|OverlappedChain|Operations)|Small[$]/\^($families)[$]" run_sanitize
    out=$here_out
  done
  unset GEMMAUDIT_TEST_PTX GEMMAUDIT_TEST_CC
}

run_reach() {
  gpu_test reach 4 cuda -test.run '^$' -test.bench '^BenchmarkReach$' -test.benchtime 15x
  passed
  grep '^reach ' "$out/reach.log"
}

run_attention() {
  local room
  for room in cuda/attention cuda cuda/decoder; do
    gpu_test "attention-${room//\//-}" 200 "$room" -test.run '^$' -test.benchtime 9x \
      -test.bench '^Benchmark(Attention|DecodeAttention|Operations|DecodeChain)$'
    passed
  done
  if python3 -c 'import torch' 2>/dev/null; then
    step attention-torch 20 python3 check_attention.py
    passed
  else
    summary+=("attention-torch        skipped: python3 has no PyTorch")
  fi
  rm -rf "$out/attention-audit"
  step attention-audit 60 ./gemmaudit run --device "$device" --op attention --shape q32kv8d128 --batch 64:8192:64 --dtype bf16 \
    --kernel auto,flash,decode --block 1ms --images png --out "$out/attention-audit"
  passed 1 4
}

run_article() {
  rm -f "$out"/article.db*
  step article 20 ./gemmaudit sweep --device "$device" --shape n14336k4096 --layout kn --batch 4:32768:4 --dtype fp16 \
    --kernel cublas --rounds 7 --block 1ms --out "$out/article.db"
  passed 4
  ./gemmaudit export "$out/article.db" --phase sweep --format csv --force --out "$out/article.csv" || failed=1
  if python3 -c 'import torch' 2>/dev/null; then
    step article-loop 60 python3 check_sweep.py "$out/article.csv"
    passed
  else
    summary+=("article-loop           skipped: python3 has no PyTorch")
  fi
  step article-splits 30 ./gemmaudit splits "$out/article.db" --device "$device" --table "$out/article.json" --force
  passed 1 4
  step article-report 30 ./gemmaudit report "$out/article.db" --images png --out "$out/article-report"
  passed
}

# What it takes is in the lines that say how many cases were asked about.
run_choices() {
  local model=llama3-8b:qkv_proj+o_proj+gate_up_proj+down_proj+lm_head
  local of=(--device "$device" --model "$model" --batch 1:32768)
  gpu_test choices-test 40 cuda -test.v -test.run '^TestToldIsWhatRuns$'
  passed
  gpu_test choices-bench 20 cuda -test.run '^$' -test.bench '^BenchmarkChoices$' -test.benchtime 20000x
  passed
  rm -f "$out"/choices-*.db*
  for kernel in cublas auto; do
    step "choices-$kernel" 3 ./gemmaudit choices "${of[@]}" --dtype bf16,fp16,tf32,int8 --kernel "$kernel" --out "$out/choices-$kernel.db" -o csv
    passed
    grep '^asked about' "$out/choices-$kernel.log"
  done
  step choices-fp8 3 ./gemmaudit choices "${of[@]}" --dtype fp8 --kernel cublaslt --algos 1 --out "$out/choices-fp8.db" -o csv
  passed
  grep '^asked about' "$out/choices-fp8.log"
  step choices-layouts 40 ./gemmaudit choices --diff "${of[@]}" --dtype bf16 --kernel cublas --layout kn,nk
  passed
}

run_audit() {
  step audit 60 ./gemmaudit run --device "$device" --preset quick --parent "$out/audit"
  passed 1 4
  step audit-square 60 ./gemmaudit run --device "$device" --shape n4096k4096 --batch 8:8192:8 --dtype bf16 \
    --kernel cublas,cublaslt,auto --algos 4 --rounds 7 --block 1ms --parent "$out/audit"
  passed 1 4
}

run_pair() {
  local name plan=(--device "$device" --shape n14336k4096,n4096k4096 --layout "${LAYOUT:-kn}" --batch 8:8192:8 --dtype bf16 --kernel cublas,auto --block 1ms)
  for name in ${AUDITS:-cold hot all}; do
    rm -rf "$out/pair-$name" "$out/pair-load.db"*
    if [[ $name == hot ]]; then
      step pair-load 1 ./gemmaudit sweep -q --device "$device" --shape n8192k8192 --batch 4096:8192:8 --dtype bf16 --kernel cublas \
        --block 1ms --rounds 1000 --rounds-for all --deadline "${LOAD:-2m}" --out "$out/pair-load.db"
      passed
    fi
    step "pair-$name" 6 ./gemmaudit run "${plan[@]}" --remedies "$([[ $name == all ]] && echo all || echo likely)" --images png --out "$out/pair-$name"
    passed 1 4
    [[ -f $out/pair-$name/run.db ]] && cp "$out/pair-$name/run.db" "$out/$name.db"
  done
  step pair-diff 12 ./gemmaudit diff "$out/cold.db" "$out/hot.db"
  passed 1 4
}

run_noise() {
  step noise 12 ./gemmaudit selftest --device "$device" --kernel cublas --dtype bf16 --shape m1024n4096k4096 --pairs 4096 --rounds 7 --block 200us
  passed 1
}

# A model of random weights is as fast as a trained one. MODEL names another folder.
run_mistral() {
  local model=${MODEL:-$out/mistral-7b} shape shapes=()
  gpu_test mistral-test 30 mistral -test.v
  passed
  grep -aoE -e '--- FAIL: .*' "$out/mistral-test.log" | head -n 20
  if [[ ! -d $model ]]; then
    step mistral-model 2 python3 make_model.py --preset mistral-7b-v0.1 --dtype fp16 "$model"
    passed || return
  fi
  step mistral-bench 12 ./gemmaudit mistral bench "$model" --device "$device" --rounds 15 --tokens 128
  passed
  step mistral-validate 60 ./gemmaudit mistral validate "$model" --device "$device" --kernel auto,cublas --reference-tokens 0 --rows 4096 --context 4000
  passed
  if python3 -c 'import transformers' 2>/dev/null; then
    step mistral-perplexity 2 python3 check_model.py "$model" --gemmaudit ./gemmaudit --tokens 4096 --dtype fp16 --device "$device"
    passed
  else
    summary+=("mistral-perplexity     skipped: python3 has no transformers")
  fi
  for shape in n6144k4096 n4096k4096 n28672k4096 n4096k14336; do shapes+=(--shape "$shape"); done
  rm -f "$out"/prompts.db*
  step mistral-sweep 12 ./gemmaudit sweep --device "$device" "${shapes[@]}" --batch 64:4096:16 --dtype fp16 --kernel cublas,auto \
    --rounds 7 --block 1ms --out "$out/prompts.db"
  passed
  step mistral-splits 30 ./gemmaudit splits "$out/prompts.db" --device "$device" --table "$out/prompts.json" --force
  passed 1 4
  step mistral-table 40 ./gemmaudit mistral validate "$model" --device "$device" --kernel cublas --table "$out/prompts.json" \
    --reference-tokens 0 --rows 0 --rounds 15
  passed
}

sections=("$@")
[[ ${#sections[@]} == 0 ]] && sections=(test sanitize older reach choices attention article audit mistral pair noise)
for section in "${sections[@]}"; do
  case $section in
    test | sanitize | older | reach | choices | attention | article | audit | mistral | pair | noise) ;;
    -h | --help)
      sed -n '2,/^set/p' "$here/${0##*/}" | sed '$d; s/^# \{0,1\}//'
      exit 0
      ;;
    *)
      echo "run.sh: unknown section '$section': expected test, sanitize, older, reach, choices, attention, article, audit, mistral, pair, noise" >&2
      exit 2
      ;;
  esac
done
mkdir -p "$out" || exit
for section in "${sections[@]}"; do "run_$section"; done
echo
printf '%s\n' "${summary[@]}"
exit $failed
