#!/usr/bin/env bash
# Simulates two nights of a fleet on a host with two or more cards, where each card plays a node. The first night becomes the
# baseline. In the second, another process loads one card, and gemmaudit fleet must flag that card only. Takes some minutes,
# needs neither Go nor Slurm, and changes no setting of a card.
#
#   fleet.sh [FOLDER]      a new folder for the nights (default ./fleet)
#
#   CARDS      cards as CUDA_VISIBLE_DEVICES counts them (default: 0 1)
#   SLOWED     card to load (default: the last)
#   PROCESSES  runs per card and night (default: 3)
#   PLAN       flags of gemmaudit sweep
#   GEMMAUDIT  the program (default: next to this script, else from PATH)
#   DEVICE     cpu uses cores as cards
#
# Exit code 0: only the loaded card was flagged.
set -uo pipefail

fail() { echo "fleet.sh: $1" >&2; exit "${2:-2}"; }

# In a bundle node.sh and collect.sh are next to this script.
here=$(cd "$(dirname "$0")" && pwd)
scripts=$here
[[ -e $scripts/node.sh ]] || scripts=$here/../fleet
if [[ -z ${GEMMAUDIT:-} ]]; then
  GEMMAUDIT=gemmaudit
  if [[ -x $here/gemmaudit ]]; then GEMMAUDIT=$here/gemmaudit; fi
fi
export GEMMAUDIT
device=${DEVICE:-cuda:0}
read -ra cards <<<"${CARDS:-0 1}"
((${#cards[@]} >= 2)) || fail "CARDS is '${CARDS:-}', expected two or more"
slowed=${SLOWED:-${cards[-1]}}
processes=${PROCESSES:-3}
read -ra plan <<<"${PLAN:---shape n4096k4096,n14336k4096 --batch 1,16,64,256,1024,4096 --dtype bf16 --block 2ms --rounds 9 --rounds-for all}"
out=$(realpath -m -- "${1:-fleet}")
[[ ! -e $out ]] || fail "$out exists already"
mkdir -p -- "$out/local" || exit 3

# on runs a command that sees one card.
on() {
  local card=$1
  shift
  if [[ $device == cpu ]]; then
    taskset -c "$card" "$@"
  else
    CUDA_VISIBLE_DEVICES=$card "$@"
  fi
}

# night measures all cards in parallel, each with several runs in sequence.
night() {
  local folder=$out/$1 process card nodes=() failed=0
  mkdir -p -- "$folder/runs"
  for ((process = 1; process <= processes; process++)); do
    for card in "${cards[@]}"; do echo "card$card-$process card$card"; done
  done >"$folder/expected"
  for card in "${cards[@]}"; do
    for ((process = 1; process <= processes; process++)); do
      FLEET_NIGHT=$folder FLEET_RUN=card$card-$process FLEET_NODE=card$card FLEET_LOCAL=$out/local \
        on "$card" "$scripts/node.sh" --device "$device" "${plan[@]}" --shard none --label "node=card$card" --label "night=$1"
    done &
    nodes+=($!)
  done
  for card in "${nodes[@]}"; do wait "$card" || failed=1; done
  ((failed == 0)) || fail "night $1: not all cards could be measured" 3
}

load=
# shellcheck disable=SC2317 # the trap calls it
relieve() {
  if [[ -n $load ]]; then
    kill -TERM "$load" 2>/dev/null
    wait "$load" 2>/dev/null
  fi
}
trap relieve EXIT
trap 'exit 130' INT TERM

began=$SECONDS
echo "== the night for the baseline"
night baseline
FLEET_NIGHT=$out/baseline "$scripts/collect.sh" --write-baseline "$out/fleet.json"
[[ -s $out/fleet.json ]] || fail "no baseline was written" 3

echo "== a night in which another process computes on card $slowed"
if [[ $device == cpu ]]; then
  taskset -c "$slowed" bash -c 'while :; do :; done' &
else
  CUDA_VISIBLE_DEVICES=$slowed "$GEMMAUDIT" sweep -q --device "$device" --shape n8192k8192 --batch 8192 --dtype bf16 --kernel auto --block 20ms \
    --rounds 100000 --rounds-for all --deadline 10m --out "$out/load.db" >/dev/null 2>"$out/load.log" &
fi
load=$!
sleep 8 # until it computes
kill -0 "$load" 2>/dev/null || fail "the load does not run on card $slowed: $(cat "$out/load.log")" 3
night loaded
FLEET_NIGHT=$out/loaded "$scripts/collect.sh" --baseline "$out/fleet.json"
named=$(grep '^drain,' "$out/loaded/fleet/cards.csv" | grep -o 'node=[^",]*' | sort -u | paste -sd ' ')
echo "== $((SECONDS - began)) s; to drain: ${named:-no card}; pages in $out/baseline/fleet and $out/loaded/fleet"
[[ $named == "node=card$slowed" ]] || fail "card$slowed was loaded, but flagged: ${named:-no card}" 1
