#!/usr/bin/env bash
# Checks and measures gemmaudit on a machine with an NVIDIA driver, without Go or a compiler.
# `make gpu-bundle` makes the folder; run this script from any folder.
#
#   ./run.sh             all sections, in this order; name some to run only those
#   test                 GPU tests: correctness of every kernel, driver layer, libraries
#   isa                  tests of the CPU's kernels and libraries with instruction sets disabled
#   sanitize             every kernel at small sizes under memcheck, racecheck, synccheck and initcheck
#   older                device code for 7.5 to 8.9, compiled by the driver from PTX, through the checks and
#                        sanitizers (needs `make older-ptx` before `make gpu-bundle`)
#   reach                auto against cuBLAS and cuBLASLt: four named shapes, sixty random ones, and twenty with few columns and
#                        long K, as a rank of tensor parallelism or an expert multiplies
#   sustained            each kernel alone for half a second at a time; then all plans of seven products, to see
#                        how the power limit affects each
#   picks                what the planning models select, against the best plan, for 125 random products in four types
#   self                 audit of auto against itself and our other kernels, m 8 to 8192 by 8
#   quantised            4-bit weights against cuBLAS with plain weights, with every plan
#   attention            flash and decode attention, decoder operations; then PyTorch's attention
#   softmax              softmax of many lengths against plain copies, PyTorch and FasterTransformer
#   article              8192 batches through cuBLAS against a plain loop of calls (needs PyTorch)
#   mistral              logits against transformers, a 7B model of random weights in fp16 and 4 bits, perplexity,
#                        prompts with this card's own lookup table (needs transformers, numpy, PyTorch)
#   mixtral              logits of models with experts; Mixtral-8x7B's shape with random weights, in 4 bits and in fp16 (12
#                        layers below 100 GB of memory)
#   prompt               prompts of 143 lengths in transformers against the prediction of gemmaudit advise
#                        (needs transformers)
#   worker               kernels in Python (examples/python): selftest; cuBLAS through ctypes and F.linear beside the
#                        program's cuBLAS; audits of torch.compile, Triton, attention and grouped products (needs PyTorch)
#   experts              grouped products of Mixtral, Qwen3-30B-A3B and one rank of DeepSeek-V3, even and drawn: loops
#                        over the groups beside PyTorch's grouped product and its loop (needs PyTorch)
#   scaled               fp8 with scales: gate of every plan; scales of blocks and of columns in fp8-scaled, cuBLASLt and PyTorch
#                        (needs PyTorch)
#   fused                products with epilogues: gate of every plan; fused and separate, beside cuBLASLt's and PyTorch's (needs
#                        PyTorch)
#   experts-pair         two audits of Mixtral with cuBLAS, auto and PyTorch, even and drawn, and how they differ (needs PyTorch)
#   patch                tests of the Python package; then prompts with and without this card's table
#                        (needs transformers)
#   tables               cuBLASLt algorithms as a TunableOp file: each line is rebuilt, checked and timed
#   choices              predicted launches against actual ones, for 32768 M of five products in four types
#   audit                gemmaudit run with the quick preset; then one square product on all kernels
#   pair                 two audits of 4096 cases, the second after two minutes of load, and one that executes
#                        all candidates; `make bench PAIR=cold.db,hot.db,all.db` prints how well they agree
#   noise                4096 comparisons of one kernel with itself
#   candidates           times of the likely plans, in five minutes; `go run ./scripts/fit candidates.db attention.db
#                        --out CARD.json` fits the card's constants
#
# Variables:
#   OUT             folder for logs and results (default: ./out next to this script)
#   DEVICE          card of article and audit (default: cuda:0); other sections use the first card
#   JOBS            test programs at a time (default: one per processor)
#   REACH_SECONDS   seconds of reach (default: 1200)
#   PICKS, SELF     seconds of picks (default: 300) and self (default: 600)
#   CANDIDATES      seconds of candidates (default: 300)
#   SHAPES_SEED     seed of the random products (default: date of the commit)
#   PAIR_DEADLINE   time of each audit of experts-pair for measuring (default: 60s)
#   AUDITS, LOAD, LAYOUT  audits of pair (default: cold hot all), duration of its load (2m), layout of weights (kn)
#   OLDER           compute capabilities of older (default: 75 80 86 89)
#   SANITIZE        regular expression of tests to sanitize (default: all)
#   SANITIZE_TOOLS  sanitizers (default: racecheck memcheck initcheck synccheck)
#   ORIGINAL        file with FasterTransformer's softmax kernels; see scripts/check_softmax.py

# shellcheck disable=SC2016,SC2317 # sections and jobs are called by name
set -uo pipefail
started_in=$PWD
cd "$(dirname "$0")" || exit
here=$PWD
out=${OUT:-$here/out}
[[ $out == /* ]] || out=$started_in/$out
device=${DEVICE:-cuda:0}

declare -a summary
failed=0

# The folders of kernels with a test program, the longest first. mistral has a section of its own.
rooms=(cuda cuda/attention cuda/decoder cuda/softmax cuda/cublas cuda/management)
older_rooms=(cuda cuda/attention cuda/decoder cuda/softmax)
older_tests='^Test(Gate|Small|SmallQuantized|SmallAttention|AttentionGate|SmallSoftmax|SoftmaxGate|OperandsApart|RotateAttendGate|RotateAttend|Fuse|FuseExperts|ExpertRows|OverlappedChain|Operations|Fused|SmallFused|GroupedWays|GroupedMasked)$'

# step runs a command with its output in a log, prints the log's last lines and records the outcome.
step() {
  local name=$1 lines=$2 code started=$SECONDS
  shift 2
  echo "== $name: $*"
  "$@" >"$out/$name.log" 2>&1
  code=$?
  tail -n "$lines" "$out/$name.log"
  summary+=("$(printf '%-22s exit %-3d %4d s   %s' "$name" "$code" $((SECONDS - started)) "$out/$name.log")")
  return "$code"
}

# passed records a failed step and returns its failure. Its arguments are further exit codes that count as success.
passed() {
  local code=$? verdict
  for verdict in 0 "$@"; do
    [[ $code == "$verdict" ]] && return 0
  done
  failed=1
  return 1
}

# gpu_test runs a test program in its folder: gpu_test NAME LINES FOLDER ARGUMENTS...
gpu_test() {
  local name=$1 lines=$2 room=$3
  shift 3
  step "$name" "$lines" env -C "kernels/$room" "$here/tests/$room.test" -test.timeout 20m "$@"
}

# Test programs to run in parallel, one per line: name, sanitizer ("none"), compute capability to
# simulate ("own"), folder, pattern of tests.
programs=() sanitized=()

run_test() {
  local room
  for room in "${rooms[@]}"; do programs+=("test-${room//\//-} none own $room ."); done
}

run_isa() {
  step isa 12 ./test_isa.sh "$here/tests/cpu.test" "$here/kernels/cpu" -test.short
  passed
}

# Tests with an older compute capability; see kernels/cuda/gputest.
run_older() {
  local cc room
  if [[ ! -d $here/older ]]; then
    summary+=("older                  skipped: there is no PTX for older GPUs next to this script")
    return
  fi
  for room in "${older_rooms[@]}"; do
    for cc in ${OLDER:-75 80 86 89}; do programs+=("older-$cc-${room//\//-} none $cc $room $older_tests"); done
  done
  for cc in ${OLDER:-75 80 86 89}; do sanitize_gpu "older-$cc" "$cc"; done
}

run_sanitize() { sanitize_gpu sanitize own; }

# sanitize_gpu plans the sanitizers of a compute capability: sanitize_gpu NAME CC. Start-up dominates, so one process
# runs all types of a kernel; the kernels of 9.0 are many and get one process each.
sanitize_gpu() {
  local name=$1 cc=$2 tool kernel dtype part pattern patterns=()
  if ! command -v compute-sanitizer >/dev/null; then
    summary+=("$(printf '%-22s skipped: compute-sanitizer is not on the PATH' "$name")")
    return
  fi
  [[ $cc == own ]] && for dtype in bf16 fp16 int8 fp8 tf32; do patterns+=("cuda ^TestSmall\$/^hopper\$/^$dtype\$"); done
  for kernel in mma gemv wmma tiled naive; do
    news "$cc" "$kernel" && patterns+=("cuda ^TestSmall\$/^$kernel\$")
  done
  if [[ $cc == own ]] || [[ $cc != 75 ]] && news "$cc" w4a16_mma w8a16_mma; then
    for kernel in w4a16 w8a16; do
      for dtype in bf16 fp16; do
        if [[ $cc == own ]]; then # those of 9.0 are the most by far
          for part in 01 23 45 67; do patterns+=("cuda ^TestSmallQuantized\$/^$kernel\$/^$dtype\$/^[$part]\$"); done
        else
          patterns+=("cuda ^TestSmallQuantized\$/^$kernel\$/^$dtype\$")
        fi
      done
    done
  fi
  news "$cc" mma_epilogue && patterns+=('cuda ^TestSmallFused$/^mma$')
  news "$cc" mma_grouped mma_grouped_fp8 && patterns+=('cuda ^TestGroupedWays$/^mma-grouped$' 'cuda ^TestGroupedMasked$/^mma-grouped$')
  [[ $cc == own ]] && patterns+=('cuda ^TestGroupedWays$/^hopper-grouped$')
  news "$cc" support transformer && patterns+=('cuda ^TestOperations$')
  news "$cc" attention_naive flash && patterns+=('cuda/attention ^TestSmallAttention$')
  news "$cc" softmax_warp softmax_scalar softmax_staged softmax_block softmax_reread softmax_baselines && patterns+=('cuda/softmax ^TestSmallSoftmax$')
  news "$cc" fused_product && patterns+=('cuda/decoder ^TestFuse$')
  news "$cc" transformer && patterns+=('cuda/decoder ^TestRotateAttend$')
  news "$cc" experts fused_product && patterns+=('cuda/decoder ^TestFuseExperts$' 'cuda/decoder ^TestExpertRows$')
  [[ $cc == own ]] && patterns+=('cuda/decoder ^TestOverlappedChain$' 'cuda/decoder ^TestOverlappedExperts$' 'cuda/decoder ^TestFuseChain$')
  for pattern in "${patterns[@]}"; do
    [[ ${pattern#* } =~ ${SANITIZE:-.} ]] || continue
    for tool in ${SANITIZE_TOOLS:-racecheck memcheck initcheck synccheck}; do
      sanitized+=("$name-$tool-$(tr -dc a-zA-Z0-9 <<<"${pattern#* }") $tool $cc $pattern")
    done
  done
}

# news succeeds if a module differs from the same module of the capabilities before CC in OLDER: news CC MODULE...
# Most code of 8.6 equals that of 8.0.
news() {
  local cc=$1 before module
  shift
  [[ $cc == own ]] && return
  for module in "$@"; do
    [[ -f $here/older/$module/ptx$cc.ptx.gz ]] || continue
    for before in ${OLDER:-75 80 86 89}; do
      [[ $before == "$cc" ]] && return
      cmp -s <(ptx "$module" "$before") <(ptx "$module" "$cc") && break
    done
  done
  return 1
}

# ptx prints a module's code without the lines that name the GPU.
ptx() { gunzip -c "$here/older/$1/ptx$2.ptx.gz" 2>/dev/null | grep -v -e '^\.target' -e '^//'; }

# longest_first sorts lines of sanitized by duration, as measured on an H200.
longest_first() {
  awk '{
    rank = 5
    if ($2 == "racecheck") rank = $5 ~ /Operations|hopper/ ? 0 : $5 ~ /Attention|Chain|RotateAttend/ ? 2 : 4
    else if ($5 ~ /Chain/) rank = 1
    else if ($5 ~ /hopper|SmallAttention|Fuse/) rank = 2
    else if ($5 ~ /Operations|mma/) rank = 3
    else if ($5 ~ /RotateAttend/) rank = 6
    print rank, $0
  }' | sort -s -n -k 1,1 | cut -d " " -f 2-
}

# job runs a line of programs or sanitized and prints its outcome. Under sanitizers every kernel runs each way once.
job() {
  local name tool cc room pattern run=() less=() log code
  read -r name tool cc room pattern <<<"$1"
  log=$out/$name.log
  [[ $cc == own ]] || export GEMMAUDIT_TEST_CC=$cc GEMMAUDIT_TEST_PTX=$here/older
  [[ $tool == none ]] || run=(compute-sanitizer --tool "$tool" --error-exitcode 9)
  [[ $tool == none ]] || less=(-test.short)
  SECONDS=0
  env -C "$here/kernels/$room" "${run[@]}" "$here/tests/$room.test" -test.run "$pattern" -test.timeout 20m -test.v "${less[@]}" >"$log" 2>&1
  code=$?
  if [[ $code == 0 ]] && ! grep -aqE -e '--- (PASS|SKIP): ' "$log"; then
    code=8 # no test matched the name
  fi
  printf '%-46s exit %-3d %4d s   passed %d, skipped %d, failed %d   %s\n' "$name" "$code" "$SECONDS" \
    "$(grep -acE -e '^--- PASS: ' "$log")" "$(grep -acE -e '^--- SKIP: ' "$log")" "$(grep -acE -e '^--- FAIL: ' "$log")" \
    "$(grep -aE '^=+ (ERROR|RACECHECK) SUMMARY' "$log" | tail -n 1)"
  return "$code"
}

# side_by_side runs lines of standard input, JOBS at a time, and writes outcomes to NAME.txt: side_by_side NAME
side_by_side() {
  xargs -d '\n' -n 1 -P "${JOBS:-$(nproc)}" bash -c 'job "$1"' job 2>&1 | tee "$out/$1.txt"
}

# run_planned runs the programs that test, sanitize and older planned, and lists failed and skipped ones.
run_planned() {
  local name started count
  export -f job
  export here out
  if [[ ${#programs[@]} != 0 ]]; then
    started=$SECONDS
    echo "== ${#programs[@]} test programs side by side"
    printf '%s\n' "${programs[@]}" | side_by_side programs || failed=1
    for name in "${programs[@]%% *}"; do
      grep -aoE -e '--- (FAIL|SKIP): .*' "$out/$name.log" | sort | head -n 40 | sed "s/^/$name /"
      summary+=("$(grep -aE "^$name " "$out/programs.txt")")
    done
    summary+=("$(printf '%-22s %4d s   %s' programs $((SECONDS - started)) "$out/programs.txt")")
  fi
  if [[ ${#sanitized[@]} != 0 ]]; then
    started=$SECONDS
    echo "== ${#sanitized[@]} test programs under sanitizers, side by side"
    printf '%s\n' "${sanitized[@]}" | longest_first | side_by_side sanitized || failed=1
    grep -v ' exit 0 ' "$out/sanitized.txt" | sed 's/^/with a finding: /'
    while read -r name; do
      count=$(grep -c "^$name-" "$out/sanitized.txt")
      summary+=("$(printf '%-22s %d of %d without a finding' "$name" "$(grep "^$name-" "$out/sanitized.txt" | grep -c ' exit 0 ')" "$count")")
    done < <(printf '%s\n' "${sanitized[@]}" | sed -E 's/-(racecheck|memcheck|initcheck|synccheck)-.*//' | uniq)
    summary+=("$(printf '%-22s %4d s   %s' sanitizers $((SECONDS - started)) "$out/sanitized.txt")")
  fi
  programs=() sanitized=()
}

# The seed is the date of the commit, so kernels can't be tuned to the random products.
commit_date() { ./gemmaudit version | sed -n 's/.* of \([0-9]*\)-\([0-9]*\)-\([0-9]*\),.*/\1\2\3/p'; }

# Layers of a model of 7 billion parameters.
named=n14336k4096,n4096k4096,n4096k14336,n6144k4096

# random_products draws products: random_products SHAPES MS. N and K are uniform in 512 to 16384 by 64, each with that
# many M, log-uniform in 1 to 32768.
random_products() { draw_products "$1" "$2" 512 16384 512 16384 1 32768; }

# tall_products draws products with few columns and long K: tall_products SHAPES MS
tall_products() { draw_products "$1" "$2" 256 1472 2048 12288 256 4096; }

# draw_products draws within extents of N, K and M: draw_products SHAPES MS N TO K TO M TO
draw_products() {
  awk -v shapes="$1" -v ms="$2" -v n="$3" -v n_to="$4" -v k="$5" -v k_to="$6" -v m="$7" -v m_to="$8" \
    -v seed="${SHAPES_SEED:-$(commit_date)}" 'BEGIN {
    srand(seed)
    for (; shapes > 0; shapes--) {
      shape = "n" n + 64 * int(rand() * ((n_to - n) / 64 + 1)) "k" k + 64 * int(rand() * ((k_to - k) / 64 + 1))
      for (i = 0; i < ms; i++) { printf "%sm%d%s", between, int(m * exp(rand() * log((m_to + 1) / m))), shape; between = "," }
    }
  }'
}

# measure sweeps every case in every round until a time limit: measure NAME SECONDS ARGUMENTS...
measure() {
  local name=$1 seconds=$2
  shift 2
  rm -f "$out/$name.db"*
  step "$name" 3 ./gemmaudit sweep -q --device "$device" --block 400us --rounds-for all --deadline "${seconds}s" --out "$out/$name.db" "$@"
  passed 4
}

# compare prints the time of other kernels ÷ the time of one, by type and M: compare RUN KERNEL OTHERS
compare() {
  [[ -f $out/$1.db ]] || return
  step "$1-$2-$3" 0 ./gemmaudit diff "$out/$1.db" --kernel "$2,$3" --gate none
  passed 4
  sed -n "/^By M/,/^\$/s/^/$1, $3 ÷ $2: /p" "$out/$1-$2-$3.log"
}

# slow_picks counts products that another kernel of the run computes faster than auto by more than a part: slow_picks RUN RULE LOSS
slow_picks() {
  step "$1-$2" 0 ./gemmaudit audit "$out/$1.db" --rule "$2" --where "kernel == auto && loss > $3" --gate none
  passed 4
  echo "$1: $2: $(grep -a '^listed are' "$out/$1-$2.log" | cut -d: -f1), those that lose more than $3 of auto's time"
  grep -aE "^(confirmed|unconfirmed) +$2 " "$out/$1-$2.log"
}

run_reach() {
  local seconds=${REACH_SECONDS:-1200} run
  measure reach-named $((seconds * 4 / 10)) --shape "$named" --batch 1:64,72:1024:8,1088:8192:64,16384,32768 --dtype bf16,fp16 \
    --kernel auto,auto-serial,cublas,cublaslt
  measure reach-random $((seconds * 3 / 10)) --shape "$(random_products 60 24)" --dtype bf16,fp16 --kernel auto,auto-serial,cublas,cublaslt
  measure reach-bytes $((seconds / 10)) --shape "$named" --batch 1024:8192:64,16384 --dtype int8,fp8 --kernel auto,cublaslt,cublaslt-fast
  measure reach-kn $((seconds / 10)) --layout kn --shape "$named" --batch pow2:32768 --dtype bf16,fp16 --kernel auto,cublas,cublaslt
  measure reach-tall $((seconds / 10)) --shape "$(tall_products 20 4)" --dtype bf16,fp16 --kernel auto,auto-serial,cublas,cublaslt
  for run in reach-named reach-random reach-tall; do
    compare "$run" auto cublas+cublaslt
    compare "$run" auto-serial cublas+cublaslt
  done
  compare reach-bytes auto cublaslt
  compare reach-bytes auto cublaslt-fast
  compare reach-kn auto cublas+cublaslt
}

run_sustained() {
  measure sustained 300 --shape "$named" --batch 16,256,1024,8192 --dtype bf16 --kernel auto,cublas,cublaslt --block 500ms --rounds 2
  compare sustained auto cublas+cublaslt
  measure sustained-plans 600 --dtype bf16 --kernel hopper --algos 15 --block 500ms --rounds 2 \
    --shape m256n14336k4096,m512n14336k4096,m1024n4096k4096,m1024n14336k4096,m2048n6144k4096,m4096n4096k14336,m4096n28672k4096
  [[ -f $out/sustained-plans.db ]] || return
  ./gemmaudit export "$out/sustained-plans.db" --phase sweep --format csv --force --out "$out/sustained-plans.csv" || failed=1
}

run_picks() {
  measure picks "${PICKS:-300}" --shape "$(random_products 125 1)" --dtype bf16,fp16,int8,fp8 --kernel auto,hopper,mma,wmma,gemv --algos 7
  compare picks auto others
  slow_picks picks alternative 0.01
}

# Three audits of one run: the running maximum at 0.95, then confirmed findings.
run_self() {
  local rule
  measure self "${SELF:-600}" --shape "$named" --batch 8:8192:8 --dtype bf16 --kernel auto,hopper,mma --block 500us --rounds 9
  step self-maximum 0 ./gemmaudit audit "$out/self.db" --rule monotonic --method article --threshold 0.95 --where 'kernel == auto' --gate none
  passed 4
  awk '/^Series/ { on = 1 } on && /\/auto\// { rows += $(NF - 2) } END { print "self: " rows + 0 " rows of auto are below 0.95 of the running maximum (asked: at most 10)" }' \
    "$out/self-maximum.log"
  for rule in alternative pad; do slow_picks self "$rule" 0.03; done
}

# cublas multiplies the same weights, dequantized before all launches.
run_quantised() {
  measure quantised 300 --shape n14336k4096,n4096k14336 --batch pow2:4096 --dtype bf16,fp16 --weights int4:128 --block 2ms --rounds 7 \
    --kernel auto,cublas,w4a16 --algos 20
  compare quantised auto cublas
  compare quantised auto others
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

run_softmax() {
  gpu_test softmax 320 cuda/softmax -test.run '^$' -test.benchtime 9x -test.bench '^Benchmark(Reach|Small)$'
  passed
  grep '^softmax ' "$out/softmax.log"
  if python3 -c 'import torch' 2>/dev/null; then
    step softmax-torch 24 python3 check_softmax.py
    passed
    step softmax-small 24 python3 check_softmax.py --rows 64
    passed
    step softmax-article 24 python3 check_softmax.py --article ${ORIGINAL:+--original "$(cd "$started_in" && realpath "$ORIGINAL")"}
    passed
  else
    summary+=("softmax-torch          skipped: python3 has no PyTorch")
  fi
  rm -rf "$out/softmax-audit"
  step softmax-audit 60 ./gemmaudit run --device "$device" --op softmax --shape c1000,c4096,c50257 --batch 2048:8192:64 --dtype bf16 \
    --kernel auto --block 1ms --deadline 20s --out "$out/softmax-audit"
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

# The log has the seconds of each query, next to its number of cases.
run_choices() {
  local model=llama3-8b:qkv_proj+o_proj+gate_up_proj+down_proj+lm_head
  local of=(--device "$device" --model "$model" --batch 1:32768)
  gpu_test choices-test 40 cuda -test.v -test.run '^Test(ToldIsWhatRuns|TellersAgree)$'
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
  local name plan=(--device "$device" --shape "n14336k4096,n4096k4096" --layout "${LAYOUT:-kn}" --batch 8:8192:8 --dtype bf16 --kernel "cublas,auto" --block 1ms)
  for name in ${AUDITS:-cold hot all}; do
    rm -rf "$out/pair-$name" "$out/pair-load.db"*
    if [[ $name == hot ]]; then
      step pair-load 1 ./gemmaudit sweep -q --device "$device" --shape n8192k8192 --batch 4096:8192:8 --dtype bf16 --kernel cublas \
        --block 1ms --rounds 1000 --rounds-for all --deadline "${LOAD:-2m}" --out "$out/pair-load.db"
      passed
    fi
    step "pair-$name" 6 ./gemmaudit run "${plan[@]}" --predicted "$([[ $name == all ]] && echo all || echo likely)" --images png --out "$out/pair-$name"
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

run_candidates() {
  local seconds=${CANDIDATES:-300} grid=1,2,3,5,8,12,18,27,40,64,96,144,224,336,512,768,1152,1728,2592,4096,8192
  measure candidates $((seconds * 4 / 5)) --shape "$named,$(random_products 60 2)" --batch "$grid" --dtype bf16,fp16,int8,fp8 \
    --kernel hopper,mma,wmma,gemv --algos 12
  measure attention $((seconds / 5)) --op attention --shape q32kv8d128,q32kv8d64 --batch pow2:128:32768 --dtype bf16,fp16 \
    --kernel flash,decode --algos 12
}

# Random weights are as fast as trained ones. MODEL names another folder.
run_mistral() {
  local model=${MODEL:-$out/mistral-7b} shape shapes=()
  gpu_test mistral-test 30 mistral -test.v
  passed
  grep -aoE -e '--- FAIL: .*' "$out/mistral-test.log" | head -n 20
  if [[ ! -d $model ]]; then
    step mistral-model 2 python3 make_model.py --preset mistral-7b-v0.1 --dtype fp16 "$model"
    passed || return # without a model there is nothing to measure
  fi
  step mistral-bench 12 ./gemmaudit mistral bench "$model" --device "$device" --rounds 15 --tokens 128
  passed
  step mistral-validate 60 ./gemmaudit mistral validate "$model" --device "$device" --kernel auto,cublas --reference-tokens 0 --rows 4096 --context 4000
  passed
  step mistral-integers 12 ./gemmaudit mistral bench "$model" --device "$device" --weights int4:128 --rounds 9 --tokens 128
  passed
  step mistral-integers-validate 60 ./gemmaudit mistral validate "$model" --device "$device" --weights int4:128 --kernel auto --reference-tokens 0 \
    --rows 4096 --context 4000 --rounds 5
  passed
  if [[ ! -d $out/tinyllama ]]; then
    step mistral-small-model 2 python3 make_model.py --preset tinyllama-1.1b --dtype bf16 "$out/tinyllama"
    passed
  fi
  step mistral-integers-logits 24 ./gemmaudit mistral validate "$out/tinyllama" --device "$device" --weights int4:128 --reference-tokens 8 --rows 0
  passed
  step mistral-integers-cpu 8 ./gemmaudit mistral bench "$out/tinyllama" --device cpu --weights int4:128 --context 32 --tokens 32 --rounds 6
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

# pytorch_library sets libraries to the flags that select PyTorch's own cuBLAS, if it can be opened by its path.
pytorch_library() {
  local library
  libraries=()
  library=$(python3 check_prompt.py cublas --device "$device" 2>/dev/null) && [[ -f $library ]] &&
    ./gemmaudit choices -q --device "$device" --library "cublas=$library" --kernel cublas --dtype bf16 --shape n64k64 --batch 16 >/dev/null 2>&1 &&
    libraries=(--library "cublas=$library")
}

# Every fourth prompt fits the rest of a pass; the other prompts test the prediction.
run_prompt() {
  local advice=$out/prompt-advice/advice.json libraries
  if ! python3 -c 'import torch, transformers' 2>/dev/null; then
    summary+=("prompt                 skipped: python3 has no PyTorch or no transformers")
    return
  fi
  rm -rf "$out"/prompt.db* "$out"/prompt*.csv "$out/prompt-advice"
  pytorch_library
  step prompt-sweep 12 ./gemmaudit sweep --device "$device" "${libraries[@]}" --kernel cublas --dtype bf16 \
    --model mistral-7b:q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj --batch "$(python3 check_prompt.py sizes)" \
    --block 2ms --rounds 15 --rounds-for all --out "$out/prompt.db"
  passed 4
  step prompt-measure 0 python3 check_prompt.py measure --device "$device" --out "$out/prompt.csv" --fit "$out/prompt-fit.csv"
  passed
  grep -a -e 'prompt lengths' -e Error "$out/prompt-measure.log"
  step prompt-others 1 python3 check_prompt.py others --device "$device" --out "$out/prompt-others.csv"
  passed
  step prompt-advise 70 ./gemmaudit advise "$out/prompt.db" --part others="$out/prompt-others.csv" --measured "$out/prompt-fit.csv" --images png --out "$out/prompt-advice"
  passed
  [[ -f $advice ]] || return
  step prompt-verify 0 python3 check_prompt.py verify --device "$device" --advice "$advice" --out "$out/prompt-verified.csv"
  passed
  grep -a -e 'prompt lengths' -e Error "$out/prompt-verify.log"
  [[ -f $out/prompt-verified.csv ]] || return
  step prompt-compare 24 python3 check_prompt.py compare --advice "$advice" --measured "$out/prompt.csv" --fit "$out/prompt-fit.csv" \
    --verified "$out/prompt-verified.csv"
  passed
}

# Remedies that PyTorch can run: splits, and pads including their copy.
# worker_figure compares a worker's kernel with cublas: worker_figure RUN KERNEL FLAGS
worker_figure() {
  local run=$1 kernel=$2
  shift 2
  step "$run-$kernel" 8 bash -c './gemmaudit diff "$0" --kernel cublas,"$1" --gate none -o csv | ./check_worker.py "${@:2}"' \
    "$out/$run.db" "$kernel" "$@"
  passed 1
  sed -n "s/^/worker, $kernel ÷ cublas: /p" "$out/$run-$kernel.log" | head -9
}

run_mixtral() {
  local layers=() memory
  gpu_test mixtral-test 30 mistral -test.v -test.run 'Expert|Rounded|Chosen|Random|Experts'
  passed
  memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits -i "${device#cuda:}" 2>/dev/null)
  [[ ${memory:-0} -ge 100000 ]] || layers=(--layers 12)
  step mixtral-bench 12 ./gemmaudit mistral bench --model mixtral-8x7b "${layers[@]}" --device "$device" --rounds 9 --tokens 128
  passed
  step mixtral-integers 12 ./gemmaudit mistral bench --model mixtral-8x7b --weights int4:128 --device "$device" --rounds 9 --tokens 128
  passed
}

run_experts() {
  gpu_test experts-gate 60 cuda -test.run 'Grouped'
  passed
  local of shape rows name kernel
  for of in mixtral=n28672k4096g8:2,128,2048,8192 qwen=n1536k2048g128:8,512,16384,65536 rank=n4096k7168g32:256,1024; do
    name=experts-${of%%=*} shape=${of#*=} rows=${of##*:} shape=${shape%%:*}
    step "$name" 12 ./gemmaudit sweep -q --device "$device" --shape "$shape" --batch "$rows" --routing even,skew:100 --dtype bf16 \
      --rounds 9 --rounds-for all --kernel-file examples/python/grouped_mm.py --out "$out/$name.db" \
      --kernel auto,cublas,cublas-streams,cublas-grouped,cublaslt-streams,grouped_mm,mm_loop
    passed 4
    for kernel in cublas cublas-streams cublas-grouped cublaslt-streams auto; do compare "$name" grouped_mm+mm_loop "$kernel"; done
    compare "$name" mm_loop cublas
  done
}

run_scaled() {
  local of weights name theirs
  gpu_test scaled-gate 60 cuda -test.run 'SmallScaled'
  passed
  step scaled-accuracy 8 ./gemmaudit selftest --device "$device" --kernel fp8-scaled,cublaslt --dtype fp8 --noise=false
  passed
  for of in fp8:128x128=scaled_mm_blocks fp8:column=scaled_mm_rows; do
    weights=${of%%=*} theirs=${of#*=}
    name=scaled-${weights#fp8:}
    measure "$name" 60 --shape n4096k7168,n24576k1536,n7168k2048 --batch 8,16,64,128,256,512,1024,2048,4096 --weights "$weights" --dtype fp8 \
      --rounds 9 --kernel-file examples/python/scaled_mm.py --kernel "fp8-scaled,cublaslt,$theirs"
    compare "$name" fp8-scaled cublaslt
    compare "$name" fp8-scaled "$theirs"
  done
}

# linear-separate with a bias alone is torch.addmm.
run_fused() {
  local other
  gpu_test fused-gate 60 cuda -test.run 'Fused'
  passed
  measure fused 90 --shape n14336k4096,n4096k14336 --batch 1,16,64,128,256,512,1024,2048,4096,8192 --dtype bf16 --rounds 9 \
    --epilogue bias,bias+relu,bias+gelu-tanh,bias+gelu,residual --kernel-file examples/python/epilogue.py \
    --kernel auto,auto-separate,cublaslt,cublaslt-separate,linear-separate
  for other in auto-separate cublaslt cublaslt-separate linear-separate; do compare fused auto "$other"; done
}

run_experts-pair() {
  local name
  for name in a b; do
    rm -rf "$out/experts-pair-$name"
    step "experts-pair-$name" 30 ./gemmaudit run --device "$device" --model mixtral-8x7b --routing even,skew:100 --batch 1,4,16,64,256,1024,4096 \
      --dtype bf16 --kernel cublas,cublas-streams,cublas-grouped,auto,./examples/python/grouped_mm.py --deadline "${PAIR_DEADLINE:-60s}" \
      --out "$out/experts-pair-$name"
    passed 1 4
    step "experts-pair-$name-why" 40 ./gemmaudit explain "$out/experts-pair-$name/run.db" 1
    passed
  done
  step experts-pair-diff 20 ./gemmaudit diff "$out/experts-pair-a/run.db" "$out/experts-pair-b/run.db"
  passed 1 4
}

run_worker() {
  local shape=n14336k4096,n4096k4096 few=1,8,16,24,48,64,96,128,256,512,768,1024,1536,2048,4096,8192
  local sixty=1:7,16:64:8,96:256:32,288:512:32,576:1024:64,1152:2048:128,2304:4096:256,4608:8192:512 file
  for file in linear triton_matmul cublas attention softmax scaled_mm grouped_mm; do
    step "worker-selftest-$file" 20 ./gemmaudit selftest --device "$device" --kernel "./examples/python/$file.py" --noise=false
    passed 1
  done
  step worker-same 3 ./gemmaudit sweep -q --device "$device" --shape "$shape" --batch "$sixty" --dtype bf16 --rounds 9 --rounds-for all \
    --kernel-file examples/python/cublas.py --kernel-file examples/python/linear.py --kernel cublas,cublas_ctypes,linear --out "$out/worker-same.db"
  passed 4
  worker_figure worker-same cublas_ctypes
  worker_figure worker-same linear --same-kernel
  # auto with launch overlap is a row of its own, which only auto may be compared with.
  step worker-overlap 3 ./gemmaudit sweep -q --device "$device" --shape "$shape" --batch 1:7,16:64:8,128,256,512,1024,4096 --dtype bf16 \
    --rounds 9 --rounds-for all --kernel-file examples/python/linear.py --kernel auto,linear --out "$out/worker-overlap.db"
  passed 4
  compare worker-overlap auto auto-overlap
  step worker-overlap-peer 3 bash -c '! ./gemmaudit diff "$0" --kernel linear,auto-overlap' "$out/worker-overlap.db"
  passed
  step worker-compile 30 ./gemmaudit run --device "$device" --shape "$shape" --batch "$few" --dtype bf16 \
    --kernel cublas,./examples/python/linear.py --out "$out/worker-compile"
  passed 1 4
  for file in a b; do
    step "worker-triton-$file" 30 ./gemmaudit run --device "$device" --shape "$shape" --batch "$few" --dtype bf16 \
      --kernel cublas,./examples/python/triton_matmul.py --out "$out/worker-triton-$file"
    passed 1 4
  done
  step worker-triton-diff 12 ./gemmaudit diff "$out/worker-triton-a/run.db" "$out/worker-triton-b/run.db"
  passed 1 4
  step worker-attention 30 ./gemmaudit run --device "$device" --op attention --shape q32kv8d128 --batch pow2:128:16384 --dtype bf16 \
    --kernel flash,decode,./examples/python/attention.py --out "$out/worker-attention"
  passed 1 4
  step worker-grouped 30 ./gemmaudit run --device "$device" --shape n28672k4096g8,n4096k14336g8t2s100d1 --batch "$few" --dtype bf16 \
    --kernel cublas,./examples/python/grouped_mm.py --out "$out/worker-grouped"
  passed 1 4
}

run_patch() {
  local libraries
  if ! python3 -c 'import torch, transformers' 2>/dev/null; then
    summary+=("patch                  skipped: python3 has no PyTorch or no transformers")
    return
  fi
  rm -f "$out"/patch.db* "$out"/patch.json "$out"/patch.csv
  step patch-tests 4 env -C python PYTHONDONTWRITEBYTECODE=1 python3 -m unittest -v
  passed
  pytorch_library
  step patch-sweep 8 ./gemmaudit sweep --device "$device" "${libraries[@]}" --kernel cublas --dtype bf16 \
    --model mistral-7b:q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj --batch 64:1024:16,1056:2560:32 \
    --block 1ms --rounds 9 --rounds-for all --out "$out/patch.db"
  passed 4
  step patch-splits 20 ./gemmaudit splits "$out/patch.db" --device "$device" "${libraries[@]}" --among all --remedies split,pad --pads copied \
    --table "$out/patch.json" --force
  passed 1 4
  [[ -f $out/patch.json ]] || return
  step patch-gains 32 python3 check_patch.py --device "$device" --table "$out/patch.json" --out "$out/patch.csv" --seconds 40
  passed
}

# A placeholder version: PyTorch is not needed here.
run_tables() {
  rm -f "$out"/tables.db* "$out"/tables.json "$out"/tunableop*.csv
  step tables-sweep 8 ./gemmaudit sweep --device "$device" --kernel cublas,cublaslt --algos 4 --dtype bf16 \
    --shape n4096k4096 --shape n4096k14336 --batch 64:1024:64 --block 1ms --rounds 9 --rounds-for all --out "$out/tables.db"
  passed 4
  step tables-splits 12 ./gemmaudit splits "$out/tables.db" --device "$device" --among all --remedies algorithm --table "$out/tables.json" --force
  passed 1 4
  [[ -f $out/tables.json ]] || return
  step tables-show 12 ./gemmaudit table show "$out/tables.json"
  passed
  step tables-convert 4 ./gemmaudit table convert "$out/tables.json" --to tunableop --pytorch-version 2.15.0 --out "$out/tunableop.csv" --force
  passed 4
  [[ -f $out/tunableop.csv ]] || return
  step tables-check 24 ./gemmaudit table check "$out/tunableop.csv" --device "$device" --prune "$out/tunableop-proven.csv" --force
  passed 1 4
}

known=(test isa sanitize older reach sustained picks self quantised choices attention softmax article audit mistral mixtral prompt worker experts scaled fused experts-pair patch tables pair noise candidates)
sections=("$@")
[[ ${#sections[@]} == 0 ]] && sections=("${known[@]}")
for section in "${sections[@]}"; do
  if [[ $section == -h || $section == --help ]]; then
    sed -n '2,/^$/p' "$here/${0##*/}" | sed '$d; s/^# \{0,1\}//'
    exit 0
  fi
  if [[ " ${known[*]} " != *" $section "* ]]; then
    echo "run.sh: unknown section '$section': expected ${known[*]}" >&2
    exit 2
  fi
done
mkdir -p "$out" || exit
for section in "${sections[@]}"; do
  [[ $section =~ ^(test|sanitize|older)$ ]] || run_planned
  "run_$section"
done
run_planned
echo
printf '%s\n' "${summary[@]}"
exit $failed
