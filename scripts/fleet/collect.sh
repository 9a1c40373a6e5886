#!/usr/bin/env bash
# Judges the runs of a night: lists missing runs, and finds cards that are slower than the others.
#
#   collect.sh [flags of gemmaudit fleet]
#
# Environment:
#   FLEET_NIGHT   the night's folder on shared storage
#   FLEET_COUNT   number of runs, called 0, 1, 2 …, if FLEET_NIGHT/expected does not exist
#   FLEET_WAIT    seconds to wait for missing runs (default 0)
#   GEMMAUDIT     the program (default: gemmaudit)
#
# FLEET_NIGHT/expected has a line for each run: its name and node. The script writes into the folder
#   missing       the lines of missing runs
#   fleet/        the page of gemmaudit fleet
#   fleet.txt     its output
#
# The exit code is gemmaudit fleet's, or 4 in place of 0 if a run is missing.
set -uo pipefail

fail() { echo "fleet: $1" >&2; exit "${2:-3}"; }

: "${FLEET_NIGHT:?is the folder of the night on shared storage}"
gemmaudit=${GEMMAUDIT:-gemmaudit}
[[ -d ${FLEET_NIGHT%/*} ]] || fail "${FLEET_NIGHT%/*} is not there: is shared storage mounted?"
mkdir -p -- "$FLEET_NIGHT"
night=$(realpath -- "$FLEET_NIGHT") || exit 3

# missing prints the lines of missing runs.
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

# After a requeue two collections may run at once: each has its own work folder.
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
