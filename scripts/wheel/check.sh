#!/usr/bin/env bash
# Installs a wheel in a fresh virtual environment and uses it with an otherwise empty PATH:
#
#   scripts/wheel/check.sh bin/wheel/gemmaudit-VERSION-py3-none-manylinux_2_28_x86_64.whl
#
# It also loads the program with glibc 2.28, if available: OLD_GLIBC is a folder with its loader and libraries, or Docker or
# Podman provides the manylinux image. With GEMMAUDIT_GLIBC_REQUIRED a missing one is a failure.
set -euo pipefail

fail() { echo "wheel-check: $1" >&2; exit 1; }

[[ $# == 1 && -f $1 ]] || fail "usage: check.sh WHEEL"
wheel=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 "$here/wheel_test.py" -q || fail "scripts/wheel/wheel_test.py fails"

python3 -m venv "$work/venv"
cd "$work"
# Without Go, a C compiler, or another gemmaudit.
clean() { exec env -i PATH="$work/venv/bin" HOME="$work" TMPDIR="${TMPDIR:-/tmp}" "$@"; }
used() { ( clean "$@" ); }

# With README's line, which is for x86-64.
line=$(grep -o 'pip install ./gemmaudit-[^`]*' "$here/../../README.md") || fail "README does not install a wheel"
cp "$wheel" .
PIP_NO_INDEX=1 PATH=$work/venv/bin /bin/bash -c "${line/x86_64/$(uname -m)}" > pip.txt || fail "$line fails"

told=$(used gemmaudit --version)
[[ $told == "gemmaudit "*" linux/"* ]] || fail "the program says that it is $told"
[[ $(used python -m gemmaudit version) == "$told"* ]] || fail "python -m gemmaudit is another program"
used python -c 'import gemmaudit, sys; sys.exit(gemmaudit.__version__ not in sys.argv[1])' "$wheel" || fail "the package has another version than the wheel"

# Exit codes 1 and 4 are verdicts too.
code=0
used gemmaudit run --shape n64k64 --batch 1:4 --dtype fp32 --kernel naive --rounds 6 --device cpu --confirm=false --out run -q > run.txt || code=$?
(( code == 0 || code == 1 || code == 4 )) || fail "gemmaudit run ends with $code"
used python - <<'PYTHON' || fail "the run can't be opened in Python"
import gemmaudit

run = gemmaudit.open("run")
assert [r.m for r in run.rows] == [1, 2, 3, 4], run.rows
assert len(run.samples) >= 24 and all(s.us > 0 for s in run.samples)
assert "<svg" in run._repr_html_()
again = gemmaudit.run("-q", "--no-color", shape="n64k64", batch="1:2", dtype="fp32", kernel="naive", rounds=6, device="cpu", confirm=False, out="again")
assert [r.m for r in again.rows] == [1, 2], again.rows
try:
    gemmaudit.open("not-there.db")
except gemmaudit.ProgramError as e:
    assert "not-there.db" in str(e), e
else:
    raise AssertionError("a run that is not there was opened")
PYTHON

# Exit codes and signals come from the program.
code=0; used gemmaudit run --no-such-flag 2>/dev/null || code=$?
(( code == 2 )) || fail "a wrong flag ends with $code"
clean gemmaudit run --shape n64k64 --batch 1:64 --dtype fp32 --kernel naive --rounds 2000 --device cpu --out long -q > /dev/null 2>&1 & pid=$!
for (( i = 0; i < 100; i++ )); do [[ ! -e long/run.db ]] || break; sleep 0.1; done
kill -TERM "$pid"
code=0; wait "$pid" || code=$?
(( code == 130 )) || fail "a run that is sent SIGTERM ends with $code"

# The package's tests on the installed package, except tests that need the repository's data.
cp -R "$here/../python/tests" "$work/tests"
used python -m unittest -q tests.test_runs tests.test_kernel || fail "the package's tests fail on what was installed"

old_glibc() {
  local program tool image
  image=quay.io/pypa/manylinux_2_28_$(uname -m)
  program=$(used python -c 'import gemmaudit.program as p; print(p.path())')
  if [[ -n ${OLD_GLIBC:-} ]]; then
    "$(find "$OLD_GLIBC" -name 'ld-linux-*.so.*' -print -quit)" --library-path "$OLD_GLIBC:$OLD_GLIBC/lib:$OLD_GLIBC/lib64" "$program" --version
    return
  fi
  for tool in podman docker; do
    if command -v "$tool" >/dev/null && "$tool" info >/dev/null 2>&1 && { "$tool" image inspect "$image" >/dev/null 2>&1 || "$tool" pull -q "$image" >/dev/null 2>&1; }; then
      "$tool" run --rm -v "$wheel:/${wheel##*/}:ro" "$image" sh -c "/opt/python/cp312-cp312/bin/python -m pip install -q --no-index '/${wheel##*/}' && /opt/python/cp312-cp312/bin/gemmaudit --version"
      return
    fi
  done
  return 77
}
code=0
old=$(old_glibc) || code=$?
if (( code == 77 )); then
  echo "wheel-check: no glibc 2.28 is at hand (OLD_GLIBC, Podman or Docker): that the program loads there follows from its symbols alone" >&2
  [[ -z ${GEMMAUDIT_GLIBC_REQUIRED:-} ]] || exit 1
elif (( code != 0 )) || [[ $old != "$told" ]]; then
  fail "by glibc 2.28 the program says: $old"
fi
echo "wheel-check: ${wheel##*/} installs and runs: $told"
