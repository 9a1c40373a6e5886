#!/usr/bin/env bash
# Prints the tests that make test skips or shortens, for make test-long: tests with testing.Short(), and scripts with [short].
#
#   scripts/long_tests.sh run [SCRIPTS]   # as a pattern for go test -run, without scripts that match SCRIPTS
#   scripts/long_tests.sh packages        # their packages
set -euo pipefail
cd "$(dirname "$0")/.."

scripts=cmd/gemmaudit/testdata/script
mapfile -t files < <(grep -rl --include='*_test.go' 'testing\.Short()' cmd kernels report results rules sweep scripts | sort)
(( ${#files[@]} > 0 )) || { echo "long_tests: no test asks testing.Short()" >&2; exit 1; }

either() { paste -sd'|'; }

case ${1-} in
run)
  # TestSlurm runs separately.
  tests=$(awk '/^func / {test = ""} /^func Test/ {test = $2; sub(/\(.*/, "", test)} /testing\.Short\(\)/ && test != "" && test != "TestSlurm" {print test}' "${files[@]}" | sort -u | either)
  long=$(grep -l '^\[short\] skip' "$scripts"/* | sed 's|.*/||; s|\.[^.]*$||' | { grep -vxE "${2:-}" || true; } | either)
  echo "^($tests)\$|^TestScripts\$/^($long)\$"
  ;;
packages)
  { printf '%s\n' "${files[@]}" | sed 's|^|./|; s|/[^/]*$||'; echo ./cmd/gemmaudit; } | sort -u
  ;;
*)
  echo "usage: long_tests.sh run [SCRIPTS] | packages" >&2
  exit 2
  ;;
esac
