#!/usr/bin/env bash
# Prints which tests make test leaves out or cuts, for make test-long: those that ask testing.Short(), and the scripts that are
# skipped where [short] holds.
#
#   scripts/long_tests.sh run        # as go test's -run takes them
#   scripts/long_tests.sh packages   # the packages that have them
set -euo pipefail
cd "$(dirname "$0")/.."

scripts=cmd/gemmaudit/testdata/script
mapfile -t files < <(grep -rl --include='*_test.go' 'testing\.Short()' cmd kernels query report results rules sweep scripts | sort)
(( ${#files[@]} > 0 )) || { echo "long_tests: no test asks testing.Short()" >&2; exit 1; }

either() { paste -sd'|'; }

case ${1-} in
run)
  # TestSlurm is a part of its own.
  tests=$(awk '/^func / {test = ""} /^func Test/ {test = $2; sub(/\(.*/, "", test)} /testing\.Short\(\)/ && test != "" && test != "TestSlurm" {print test}' "${files[@]}" | sort -u | either)
  long=$(grep -l '^\[short\] skip' "$scripts"/* | sed 's|.*/||; s|\.[^.]*$||' | either)
  echo "^($tests)\$|^TestScripts\$/^($long)\$"
  ;;
packages)
  { printf '%s\n' "${files[@]}" | sed 's|^|./|; s|/[^/]*$||'; echo ./cmd/gemmaudit; } | sort -u
  ;;
*)
  echo "usage: long_tests.sh run | packages" >&2
  exit 2
  ;;
esac
