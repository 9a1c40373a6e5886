#!/bin/sh
# Compares two machines' runs of one plan:
#
#   compare.sh A.db B.db [FOLDER]
#
# Each machine has made its run with the same flags, as in
#
#   gemmaudit sweep --model llama3-8b --dtype bf16 --batch 64:4096:64 --kernel cublas --seed 1 --out A.db
#
# FOLDER, or comparison, gets what differs between the machines and case by case (diff.md, diff.json),
# and the findings of each (A.md, B.md). The exit code is 0 whatever differs: between machines a slower case
# is no regression. It is 4 where the runs have no case in common.
set -eu

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo 'usage: compare.sh A.db B.db [FOLDER]' >&2
  exit 2
fi
gemmaudit=${GEMMAUDIT:-gemmaudit}
out=${3:-comparison}
mkdir -p "$out"

"$gemmaudit" diff "$1" "$2" --no-gate -o markdown > "$out/diff.md"
"$gemmaudit" diff "$1" "$2" --no-gate -o json > "$out/diff.json"

# Without --confirm no machine is asked: the sweeps' samples are judged where the runs lie.
"$gemmaudit" audit "$1" --gate none -q -o markdown > "$out/A.md"
"$gemmaudit" audit "$2" --gate none -q -o markdown > "$out/B.md"
