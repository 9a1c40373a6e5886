#!/usr/bin/env bash
# Judges the runs of a night: says which are missing, and which of the cards is not like the others.
#
#   collect.sh [flags of gemmaudit fleet]
#
# The environment says the rest:
#   FLEET_NIGHT   the night's folder on shared storage
#   FLEET_COUNT   how many runs there are to be, called 0, 1, 2 …, where FLEET_NIGHT/expected does not say
#   FLEET_WAIT    how many seconds runs that are missing are waited for (default 0)
#   GEMMAUDIT     the program (default: gemmaudit)
#
# FLEET_NIGHT/expected names the runs of the night, one a line with the node behind it. The folder then has
#   missing       the lines of those that are not there
#   fleet/        what gemmaudit fleet wrote
#   fleet.txt     and what it printed
#
# The exit code is that of gemmaudit fleet, and 4 where it would be 0 and a run is missing.
set -uo pipefail

fail() { echo "fleet: $1" >&2; exit "${2:-3}"; }

: "${FLEET_NIGHT:?is the folder of the night on shared storage}"
gemmaudit=${GEMMAUDIT:-gemmaudit}
[[ -d ${FLEET_NIGHT%/*} ]] || fail "${FLEET_NIGHT%/*} is not there: is shared storage mounted?"
mkdir -p -- "$FLEET_NIGHT"
night=$(realpath -- "$FLEET_NIGHT") || exit 3

# missing prints the lines of the runs that are not there.
missing() {
  local run node
  while read -r run node; do
    [[ -e $night/runs/$run.db ]] || echo "$run${node:+ $node}"
  done < <(expected)
}

expected() {
  if [[ -e $night/expected ]]; then
    cat -- "$night/expected"
  elif ((${FLEET_COUNT:-0} > 0)); then
    seq 0 $((FLEET_COUNT - 1))
  fi
}

# Two collections at once, after a requeue, do not mix their files.
work=$(mktemp -d "$night/.fleet.XXXXXX") || exit 3
trap 'rm -rf -- "$work"' EXIT
until=$((SECONDS + ${FLEET_WAIT:-0}))
while missing >"$work/missing" && [[ -s $work/missing ]] && ((SECONDS < until)); do sleep 5; done
lost=$(wc -l <"$work/missing")
mv -f -T -- "$work/missing" "$night/missing" || exit 3

compgen -G "$night/runs/*.db" >/dev/null || fail "$night/runs has no run"
"$gemmaudit" fleet -q "$night/runs" --out "$work/fleet" "$@" >"$work/fleet.txt"
code=$?
cat -- "$work/fleet.txt"
mv -f -T -- "$work/fleet.txt" "$night/fleet.txt" || exit 3
if [[ -e $work/fleet ]]; then
  rm -rf -- "$night/fleet"
  mv -T -- "$work/fleet" "$night/fleet" || exit 3
fi
if ((lost > 0)); then
  echo "fleet: $lost of $(expected | wc -l) runs are missing, see $night/missing" >&2
  if ((code == 0)); then code=4; fi
fi
exit "$code"
