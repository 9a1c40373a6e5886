#!/bin/sh
# Compares the runs of one plan on two machines:
#
#   compare.sh A.db B.db [FOLDER]
#
# Both machines use the same flags, for example
#
#   gemmaudit sweep --model llama3-8b --dtype bf16 --batch 64:4096:64 --kernel cublas --seed 1 --out A.db
#
# FOLDER (default: comparison) receives the comparison (diff.md, diff.json) and each machine's findings (A.md,
# B.md). The exit code is 0 even if B is slower, because a difference between machines is not a regression. 4:
# no verdict, because the runs share no case or one is too noisy; all files are written.
set -eu

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo 'usage: compare.sh A.db B.db [FOLDER]' >&2
  exit 2
fi
gemmaudit=${GEMMAUDIT:-gemmaudit}
out=${3:-comparison}
mkdir -p "$out"

# write FILE ARGUMENTS: without a verdict (4), the file is written all the same, and the others follow.
code=0
write() {
  file=$out/$1
  shift
  "$gemmaudit" "$@" > "$file" || {
    failed=$?
    if [ $failed -ne 4 ]; then exit $failed; fi
    code=4
  }
}

write diff.md diff "$1" "$2" --no-gate -o markdown
write diff.json diff "$1" "$2" --no-gate -q -o json
# Without --confirm, audit needs no device.
write A.md audit "$1" --gate none -q -o markdown
write B.md audit "$2" --gate none -q -o markdown
if [ $code -eq 4 ]; then echo "compare.sh: no verdict for some of $out: the reasons are above" >&2; fi
exit $code
