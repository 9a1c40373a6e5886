#!/bin/sh
# A gate for every night: sweeps this machine, confirms what is slower than it should be, and compares
# with the night that is the baseline.
#
#   gate.sh FOLDER [flags of sweep]
#   gate.sh runs --model llama3-8b --dtype bf16 --batch 64:4096:64 --kernel cublas
#
# FOLDER keeps a run a night, the baseline among them. The first night becomes the baseline, and later
# nights are held against it until `rm FOLDER/baseline.db` has the next one take its place. The exit
# code is 1 where the gate failed: a finding that no waiver of FOLDER/rules.yaml excuses, or a case that became
# slower than the baseline. It is 4 where no verdict could be reached, and 2 or 3 where nothing was measured.
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

# 4 says that the sentinels drifted: the verdicts below say so as well.
"$gemmaudit" sweep -q --out "$run" "$@" >/dev/null
code=$?
if [ $code -ne 0 ] && [ $code -ne 4 ]; then exit $code; fi

if [ -f "$folder/rules.yaml" ]; then rules=$folder/rules.yaml; else rules=; fi

# worse keeps the graver of two exit codes: what failed, then a gate, then no verdict, then clean.
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
