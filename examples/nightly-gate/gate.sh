#!/bin/sh
# Nightly gate: measures this machine, confirms findings, and compares with a baseline night.
#
#   gate.sh FOLDER [flags of sweep]
#   gate.sh runs --model llama3-8b --dtype bf16 --batch 64:4096:64 --kernel cublas
#
# FOLDER keeps one run per night. The first night becomes the baseline; after `rm FOLDER/baseline.db` the next
# one does. Exit codes:
#   1: a confirmed finding without a waiver in FOLDER/rules.yaml, or a case slower than the baseline
#   2 or 3: the measurement failed
#   4: no verdict
set -u

if [ $# -lt 1 ]; then
  echo 'usage: gate.sh FOLDER [flags of sweep]' >&2
  exit 2
fi
gemmaudit=${GEMMAUDIT:-gemmaudit}
folder=$1
shift
mkdir -p "$folder" || exit 3
run=$folder/$(date -u +%Y-%m-%dT%H%M%SZ).db
summary=${GITHUB_STEP_SUMMARY:-$folder/summary.md}

# 4: the sentinels drifted; audit and diff report it too.
"$gemmaudit" sweep -q --out "$run" "$@" >/dev/null
code=$?
if [ $code -ne 0 ] && [ $code -ne 4 ]; then exit $code; fi

if [ -f "$folder/rules.yaml" ]; then rules=$folder/rules.yaml; else rules=; fi

# worse keeps the more serious of two exit codes: failure, gate, no verdict, clean.
worse() {
  for candidate in 130 3 2 1 4 0; do
    if [ "$1" -eq $candidate ] || [ "$code" -eq $candidate ]; then code=$candidate; return; fi
  done
  code=$1
}

"$gemmaudit" audit "$run" --confirm -q ${rules:+--rules "$rules"} -o markdown >> "$summary"
worse $?

if [ ! -e "$folder/baseline.db" ]; then
  cp "$run" "$folder/baseline.db" || exit 3
  echo "nightly gate: $run is the baseline" >&2
else
  "$gemmaudit" diff "$folder/baseline.db" "$run" ${rules:+--rules "$rules"} -o markdown >> "$summary"
  worse $?
fi
exit "$code"
