#!/usr/bin/env bash
# Checks and measures gemmaudit on a machine with an NVIDIA driver; needs neither Go nor
# a compiler. Made by `make gpu-bundle`; run from any folder.
#
#   ./run.sh                  everything below, in this order
#   ./run.sh test             the GPU tests: the correctness check of every kernel, the driver
#                             layer, the libraries that are compared with our kernels
#   ./run.sh isa              the tests of the CPU's kernels and libraries on this machine's CPU, with instruction sets left out
#   ./run.sh sanitize         every kernel at small sizes under compute-sanitizer's memcheck,
#                             racecheck, synccheck and initcheck
#   ./run.sh older            the device code for 7.5, 8.0, 8.6 and 8.9, compiled by the driver from PTX, through the
#                             checks and the small sizes, then under the sanitizers (needs the PTX: `make older-ptx`
#                             ahead of `make gpu-bundle`)
#   ./run.sh reach            our kernels compared with cuBLAS and cuBLASLt in one shuffled run of REACH_SECONDS: four named
#                             shapes and sixty that the date of the commit draws; every sample is in reach.jsonl, of which
#                             `go run ./kernels/cuda/reach/table reach.jsonl` prints the table again
#   ./run.sh sustained        the named shapes by themselves, half a second a kernel, twice: time, clock and energy of a launch;
#                             then, for seven products, the plans that auto chooses among: what the power limit takes of each
#   ./run.sh picks            what the planning models pick, beside the best of their candidates, in 500 random products
#   ./run.sh self             an audit of auto against itself and our other kernels on the named shapes, m 8 to 8192 by 8:
#                             rows below 0.95 of the running maximum, and products that another kernel or a pad makes more
#                             than 3 % faster
#   ./run.sh quantised        our kernels on weights of 4 bits compared with cuBLAS on plain ones, interleaved, with
#                             every plan that they choose among
#   ./run.sh attention        flash and decode attention, the operations of a decoder, and a
#                             token's products in one graph; then PyTorch's attention, and an audit of ours
#   ./run.sh softmax          softmax of rows of many lengths in every way, compared with plain copies of as many
#                             bytes; then small ones; then 200 counts of columns beside PyTorch's, and the
#                             sizes of an article beside FasterTransformer's; then an audit of ours
#   ./run.sh article          8192 batches of one product through cuBLAS, and its medians
#                             against a plain loop of library calls (needs PyTorch);
#                             then its splits and its report
#   ./run.sh mistral          models: the fixtures against transformers' logits, then a 7B
#                             model of random weights: tokens a second, where the time goes,
#                             both with weights of 4 bits too, and these against float64 on a model of a
#                             billion parameters, which the CPU decodes too,
#                             perplexity against transformers (needs it, numpy and PyTorch),
#                             and prompts with the lookup table of this card's own audit
#   ./run.sh prompt           prompts of 143 lengths in transformers, foretold by gemmaudit advise from a sweep of the
#                             model's products and from every fourth prompt, then measured; and the sizes and the
#                             chunk that it advises, measured in turn with the usual ones (needs transformers)
#   ./run.sh patch            the Python package's tests on this card; then prompts in transformers whose linear layers
#                             follow the table of this card's own remedies, in turn with prompts as they are (needs
#                             transformers)
#   ./run.sh tables           a table of cuBLASLt's other algorithms, as a file for PyTorch's TunableOp, of which every
#                             line is rebuilt from its attributes, checked by the library and timed
#   ./run.sh choices          what kernels say that they would run: held against what runs, timed by case, then 32768
#                             M of five products in four types, the two layouts compared, and cuBLASLt's fp8
#   ./run.sh audit            gemmaudit run, as a user starts it: the quick preset, then one
#                             square product through cuBLAS, its next choices and our kernels
#   ./run.sh pair             two audits of 4096 cases, the second after two minutes of load, and one
#                             more that executes all candidates for remedies; then the two compared.
#                             `make bench PAIR=cold.db,hot.db,all.db` prints how well they agree
#   ./run.sh noise            4096 comparisons of one kernel with itself under two names
#   ./run.sh candidates       what all plans among which our kernels choose take, in five minutes' worth of
#                             products and attentions of models and of products that CANDIDATES_SEED draws;
#                             `go run ./kernels/cuda/fit candidates.jsonl --out CARD.json` then fits the constants of
#                             this card to that. CANDIDATES_OF names a reach.jsonl, whose products are taken instead,
#                             those first in which ours were behind most
#
# AUDITS are the audits of pair (default: cold hot all), LOAD how long the load before the hot one
# takes (default 2m), LAYOUT how the weights of pair are stored (default kn), OLDER the
# compute capabilities of older (default 75 80 86 89), CANDIDATES how many seconds candidates may
# take (default 300), CANDIDATES_SEED what draws them (default: the date of the commit; 0 draws none), REACH_SECONDS, PICKS and SELF those of reach (default 1200, which is time for all products, 41 samples
# of each on an H200; with less, products are drawn), picks (default 300) and self (default 600). The programs of test, sanitize and older
# mostly wait for the host, so those of sections named one after the other run side by side, JOBS
# at a time (default: one for each processor), first the tests, then the sanitizers.
# OUT is the folder for logs and results (default ./out next to this script); DEVICE the
# card of article and audit (default cuda:0), where the other sections take the first;
# ORIGINAL a file with FasterTransformer's own kernels for softmax (docs/operations.md says what is in it);
# SANITIZE a regular expression of the tests that run under the sanitizers (default: all),
# SANITIZE_TOOLS the sanitizers (default: racecheck memcheck initcheck synccheck).
set -uo pipefail
started_in=$PWD
cd "$(dirname "$0")" || exit
here=$PWD
out=${OUT:-$here/out}
[[ $out == /* ]] || out=$started_in/$out
device=${DEVICE:-cuda:0}

declare -a summary
failed=0

# The folders of kernels that have a test program, mistral's aside, which has a section. The
# longest run first.
rooms=(cuda cuda/attention cuda/decoder cuda/softmax cuda/cublas cuda/management)
older_rooms=(cuda cuda/attention cuda/decoder cuda/softmax)
older_tests='^Test(Gate|Small|SmallQuantised|SmallAttention|AttentionGate|SmallSoftmax|SoftmaxGate|OperandsApart|RotateAttendGate|RotateAttend|Fuse|OverlappedChain|Operations)$'

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

# passed counts a step that failed, and fails itself. Exit codes that are verdicts may be named.
passed() {
  local code=$? verdict
  for verdict in 0 "$@"; do
    [[ $code == "$verdict" ]] && return 0
  done
  failed=1
  return 1
}

# gpu_test runs a test program of a room, which reads sources and data next to it, with
# further arguments: gpu_test test-cuda 40 cuda -test.v
gpu_test() {
  local name=$1 lines=$2 room=$3
  shift 3
  step "$name" "$lines" env -C "kernels/$room" "$here/tests/$room.test" -test.timeout 20m "$@"
}

# Test programs that run side by side, and those that do under a sanitizer: one line each of a
# name, a tool ("none"), the compute capability that the GPU is taken for ("own"), a room
# and a pattern of tests.
programs=() sanitized=()

run_test() {
  local room
  for room in "${rooms[@]}"; do programs+=("test-${room//\//-} none own $room ."); done
}

run_isa() {
  step isa 12 ./test_isa.sh "$here/tests/cpu.test" "$here/kernels/cpu" -test.short
  passed
}

# A GPU that is taken for an older one; see kernels/cuda/gputest.
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

# sanitize_gpu plans the sanitizers of a GPU: sanitize_gpu NAME CC. Most tests wait for a
# process to start and for its code to be translated, so that one has all types of a kernel; the
# kernels of 9.0, which are the most, have one each.
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
          for part in 01 23 45 67; do patterns+=("cuda ^TestSmallQuantised\$/^$kernel\$/^$dtype\$/^[$part]\$"); done
        else
          patterns+=("cuda ^TestSmallQuantised\$/^$kernel\$/^$dtype\$")
        fi
      done
    done
  fi
  news "$cc" support transformer && patterns+=('cuda ^TestOperations$')
  news "$cc" attention_naive flash && patterns+=('cuda/attention ^TestSmallAttention$')
  news "$cc" softmax_warp softmax_scalar softmax_staged softmax_block softmax_reread softmax_baselines && patterns+=('cuda/softmax ^TestSmallSoftmax$')
  news "$cc" fused_product && patterns+=('cuda/decoder ^TestFuse$')
  news "$cc" transformer && patterns+=('cuda/decoder ^TestRotateAttend$')
  [[ $cc == own ]] && patterns+=('cuda/decoder ^TestOverlappedChain$')
  for pattern in "${patterns[@]}"; do
    [[ ${pattern#* } =~ ${SANITIZE:-.} ]] || continue
    for tool in ${SANITIZE_TOOLS:-racecheck memcheck initcheck synccheck}; do
      sanitized+=("$name-$tool-$(tr -dc a-zA-Z0-9 <<<"${pattern#* }") $tool $cc $pattern")
    done
  done
}

# news says whether any of some modules is other code for a GPU that is taken for an older one
# than for those before it in OLDER: most of 8.6's is 8.0's to the letter, and its plans are among
# those of 8.0. news CC MODULE...
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

# ptx is a module's code without the lines that name the GPU.
ptx() { gunzip -c "$here/older/$1/ptx$2.ptx.gz" 2>/dev/null | grep -v -e '^\.target' -e '^//'; }

# longest_first sorts lines of sanitized: the tests that take longest under each tool, as an
# H200 showed, then the others.
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

# job runs a line of programs or sanitized and says in one line what came of it. Sanitizers get
# fewer sizes: all kernels run in each way, and no way more than once.
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
    code=8 # nothing of that name was run
  fi
  printf '%-46s exit %-3d %4d s   passed %d, skipped %d, failed %d   %s\n' "$name" $code $SECONDS \
    "$(grep -acE -e '^--- PASS: ' "$log")" "$(grep -acE -e '^--- SKIP: ' "$log")" "$(grep -acE -e '^--- FAIL: ' "$log")" \
    "$(grep -aE '^=+ (ERROR|RACECHECK) SUMMARY' "$log" | tail -n 1)"
  return $code
}

# side_by_side runs lines of standard input, JOBS at a time, and leaves what each came to
# in NAME.txt: side_by_side NAME
side_by_side() {
  xargs -d '\n' -n 1 -P "${JOBS:-$(nproc)}" bash -c 'job "$1"' job 2>&1 | tee "$out/$1.txt"
}

# run_planned runs what test, sanitize and older have planned. Of programs that failed or
# skipped something the names are shown, the sanitizers have a row for each GPU.
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

# The seed of what is drawn is the date of the commit: nobody can make kernels for it.
commit_date() { ./gemmaudit version | sed -n 's/.* of \([0-9]*\)-\([0-9]*\)-\([0-9]*\),.*/\1\2\3/p'; }

run_reach() {
  export GEMMAUDIT_REACH=$out/reach.jsonl GEMMAUDIT_REACH_SECONDS=${REACH_SECONDS:-1200} GEMMAUDIT_REACH_SEED=${REACH_SEED:-$(commit_date)}
  gpu_test reach 4 cuda -test.run '^$' -test.bench '^BenchmarkReach$' -test.benchtime 1x -test.timeout 90m
  passed
  unset GEMMAUDIT_REACH GEMMAUDIT_REACH_SECONDS GEMMAUDIT_REACH_SEED
  grep -a '^reach ' "$out/reach.log"
}

run_sustained() {
  export GEMMAUDIT_SUSTAINED=$out/sustained.jsonl
  gpu_test sustained 4 cuda -test.run '^$' -test.bench '^BenchmarkSustained$' -test.benchtime 1x
  passed
  unset GEMMAUDIT_SUSTAINED
  grep -a '^sustained ' "$out/sustained.log"
  export GEMMAUDIT_SUSTAINED_PLANS=$out/sustained-plans.jsonl
  gpu_test sustained-plans 4 cuda -test.run '^$' -test.bench '^BenchmarkSustainedPlans$' -test.benchtime 1x
  passed
  unset GEMMAUDIT_SUSTAINED_PLANS
}

run_picks() {
  export GEMMAUDIT_PICKS=$out/picks.jsonl GEMMAUDIT_PICKS_SECONDS=${PICKS:-300} GEMMAUDIT_PICKS_SEED=${REACH_SEED:-$(commit_date)}
  gpu_test picks 4 cuda -test.run '^$' -test.bench '^BenchmarkPicks$' -test.benchtime 1x
  passed
  unset GEMMAUDIT_PICKS GEMMAUDIT_PICKS_SECONDS GEMMAUDIT_PICKS_SEED
  grep -a '^picks ' "$out/picks.log"
}

# Three looks at one run. The first is the plain rule of running maxima at 0.95; the others are findings that were proved.
run_self() {
  local rule
  rm -f "$out"/self.db*
  step self-sweep 8 ./gemmaudit sweep --device "$device" --shape n14336k4096,n4096k4096,n4096k14336,n6144k4096 --batch 8:8192:8 --dtype bf16 \
    --kernel auto,hopper,mma --block 500us --rounds 9 --rounds-for all --deadline "${SELF:-600}s" --out "$out/self.db"
  passed 4
  step self-maximum 0 ./gemmaudit audit "$out/self.db" --rule monotonic --method article --threshold 0.95 --where 'kernel == auto' --gate none
  passed 4
  for rule in alternative pad; do
    step "self-$rule" 0 ./gemmaudit audit "$out/self.db" --rule "$rule" --where 'kernel == auto && loss > 0.03' --gate none
    passed 4
  done
  awk '/^Series/ { on = 1 } on && /\/auto\// { rows += $(NF - 2) } END { print "self: " rows + 0 " rows of auto are below 0.95 of the running maximum (asked: at most 10)" }' \
    "$out/self-maximum.log"
  for rule in alternative pad; do
    echo "self: $rule: $(grep -a '^listed are' "$out/self-$rule.log" | cut -d: -f1), those above 3 % of auto (asked: none)"
    grep -aE "^(confirmed|unconfirmed) +$rule " "$out/self-$rule.log"
  done
}

run_quantised() {
  export GEMMAUDIT_QUANTISED_WAYS=1
  gpu_test quantised 4 cuda -test.run '^$' -test.bench '^BenchmarkQuantised$' -test.benchtime 7x
  passed
  unset GEMMAUDIT_QUANTISED_WAYS
  grep '^quantised ' "$out/quantised.log"
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

# What it takes is in the lines that say how many cases were asked about.
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
  local name plan=(--device "$device" --shape n14336k4096,n4096k4096 --layout "${LAYOUT:-kn}" --batch 8:8192:8 --dtype bf16 --kernel cublas,auto --block 1ms)
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
  local of=${CANDIDATES_OF:-}
  [[ -z $of || $of == /* ]] || of=$started_in/$of
  export GEMMAUDIT_CANDIDATES=$out/candidates.jsonl GEMMAUDIT_CANDIDATES_SECONDS=${CANDIDATES:-300} GEMMAUDIT_CANDIDATES_SEED=${CANDIDATES_SEED:-$(commit_date)} GEMMAUDIT_CANDIDATES_OF=$of
  gpu_test candidates 4 cuda -test.run '^$' -test.bench '^BenchmarkCandidates$' -test.benchtime 5x
  passed
  unset GEMMAUDIT_CANDIDATES GEMMAUDIT_CANDIDATES_SECONDS GEMMAUDIT_CANDIDATES_SEED GEMMAUDIT_CANDIDATES_OF
}

# A model of random weights is as fast as a trained one. MODEL names another folder.
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

# pytorch_library sets libraries to the flags that have what PyTorch runs timed, where it is a library that
# can be opened by its path.
pytorch_library() {
  local library
  libraries=()
  library=$(python3 check_prompt.py cublas --device "$device" 2>/dev/null) && [[ -f $library ]] &&
    ./gemmaudit choices -q --device "$device" --library "cublas=$library" --kernel cublas --dtype bf16 --shape n64k64 --batch 16 >/dev/null 2>&1 &&
    libraries=(--library "cublas=$library")
}

# The rest of a pass is fitted to every fourth prompt; what was foretold is compared with the others.
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

# Remedies that PyTorch can run: splits, and pads with the copy that they take.
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

# The version stands for a PyTorch that is not here.
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

sections=("$@")
[[ ${#sections[@]} == 0 ]] && sections=(test isa sanitize older reach sustained picks self quantised choices attention softmax article audit mistral prompt patch tables pair noise candidates)
for section in "${sections[@]}"; do
  case $section in
    test | isa | sanitize | older | reach | sustained | picks | self | quantised | choices | attention | softmax | article | audit | mistral | prompt | patch | tables | pair | noise | candidates) ;;
    -h | --help)
      sed -n '2,/^set/p' "$here/${0##*/}" | sed '$d; s/^# \{0,1\}//'
      exit 0
      ;;
    *)
      echo "run.sh: unknown section '$section': expected test, isa, sanitize, older, reach, sustained, picks, self, quantised, choices, attention, softmax, article, audit, mistral, prompt, patch, tables, pair, noise, candidates" >&2
      exit 2
      ;;
  esac
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
