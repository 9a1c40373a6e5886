#!/usr/bin/env bash
# Submits a night: a job array that measures the nodes, and a job that judges the runs when all tasks have ended.
#
#   submit.sh [SETTINGS] [NAME]        SETTINGS is a file like night.env (default: night.env next to this script); NAME is the
#                                      night's name (default: the date)
#   submit.sh --missing FOLDER         submits the tasks of a night again that left no run; the night's own job calls it
#
# A requeued task stays on its node, where its data is. Prints the folder of the night and the job numbers.
set -euo pipefail

fail() { echo "submit.sh: $1" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
pass=1
if [[ ${1:-} == --missing ]]; then
  (($# == 2)) || fail "usage: submit.sh --missing FOLDER"
  night=$(realpath -e -- "$2")
  settings=$night/night.env
else
  (($# <= 2)) || fail "usage: submit.sh [SETTINGS] [NAME]"
  settings=$(realpath -e -- "${1:-$here/night.env}") || fail "there are no settings ${1:-}"
fi

ROOT='' NODES='' PROCESSES=1 PARTITION='' SBATCH=() COLLECT_SBATCH=() UNTIL='8 hours' AT_ONCE='' GRACE=60 PASSES=2
# shellcheck source=night.env
source "$settings"

number() { [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || fail "$1 is '$2', expected a number from 1 on"; }
number PROCESSES "$PROCESSES"
number GRACE "$GRACE"
number PASSES "$PASSES"
if [[ -n $AT_ONCE ]]; then number AT_ONCE "$AT_ONCE"; fi
of_partition=()
if [[ -n $PARTITION ]]; then of_partition=("--partition=$PARTITION"); fi

if [[ -z ${night:-} ]]; then
  name=${2:-$(date -u +%Y-%m-%d)}
  [[ $name =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$ ]] || fail "the night is called '$name', expected letters, digits and . _ -"
  # sbatch expands % and \ in the name of a log.
  [[ $ROOT =~ ^/[A-Za-z0-9/._+@=,:\ -]*$ ]] || fail "ROOT is '$ROOT', expected a path from / on, of letters, digits, spaces and / . _ - + @ = , :"
  night=$ROOT/$name
  mkdir -p -- "$ROOT"
  mkdir -- "$night" || fail "$night exists: a night is submitted once; --missing submits what it lacks"
  mkdir -- "$night/runs" "$night/logs"
  cp -- "$settings" "$night/night.env"
  until=$(date -d "$UNTIL" +%Y-%m-%dT%H:%M:%S) || fail "UNTIL is '$UNTIL', expected a time as GNU date reads it"
  echo "$until" >"$night/until"

  if [[ -n $NODES ]]; then
    hosts=$(scontrol show hostnames "$NODES")
  else
    hosts=$(sinfo --noheader --Node --format=%N "${of_partition[@]}" | sort -u)
  fi
  [[ -n $hosts ]] || fail "there is no node: NODES is '$NODES'"
  # One round over all nodes after the other: changes from hour to hour then affect all nodes alike.
  for ((process = 1; process <= PROCESSES; process++)); do
    while read -r node; do echo "$node-$process $node"; done <<<"$hosts"
  done >"$night/.expected"
  mv -T -- "$night/.expected" "$night/expected"
  cp -- "$night/expected" "$night/tasks-1"
else
  until=$(<"$night/until")
  while [[ -e $night/tasks-$pass ]]; do pass=$((pass + 1)); done
  ((pass <= PASSES)) || { echo "submit.sh: $night had $PASSES passes" >&2; exit 0; }
  [[ $(date +%Y-%m-%dT%H:%M:%S) < $until ]] || { echo "submit.sh: the time of $night was over at $until" >&2; exit 0; }
  while read -r run node; do
    [[ -e $night/runs/$run.db ]] || echo "$run $node"
  done <"$night/expected" >"$night/.tasks"
  if [[ ! -s $night/.tasks ]]; then
    rm -f -- "$night/.tasks"
    echo "submit.sh: $night has all its runs" >&2
    exit 0
  fi
  mv -T -- "$night/.tasks" "$night/tasks-$pass"
fi

# Slurm limits the tasks of an array.
most=$(scontrol show config | sed -n 's/^MaxArraySize *= *//p')
count=$(wc -l <"$night/tasks-$pass")
job=fleet-${night##*/}
jobs=()
for ((first = 0; first < count; first += most)); do
  size=$((count - first < most ? count - first : most))
  # Held until each task is bound to a node.
  id=$(sbatch --parsable --hold --requeue --nodes=1 "--job-name=$job" "--array=0-$((size - 1))${AT_ONCE:+%$AT_ONCE}" "--signal=B:USR1@$GRACE" \
    --open-mode=append "--output=$night/logs/%A_%a.log" "--deadline=$until" "${of_partition[@]}" "${SBATCH[@]}" \
    "$here/sweep.sbatch" "$here" "$night" "$pass" "$first")
  id=${id%%;*} # with several clusters, the cluster's name follows
  jobs+=("$id")
  tasks=()
  while read -r _ node; do
    tasks+=("${id}_${#tasks[@]}")
    said=$(scontrol update "JobId=${tasks[-1]}" "ReqNodeList=$node" 2>&1) || { scancel "$id"; fail "task ${tasks[-1]} can't be bound to $node: $said"; }
  done < <(sed -n "$((first + 1)),$((first + size))p" "$night/tasks-$pass")
  # In list order; released together they would start with the last.
  scontrol release "$(IFS=,; echo "${tasks[*]}")"
done

after=$(IFS=:; echo "${jobs[*]}")
collect=$(sbatch --parsable --requeue "--job-name=$job-judge" "--dependency=afterany:$after" --open-mode=append "--output=$night/logs/judge-%j.log" \
  "${of_partition[@]}" "${COLLECT_SBATCH[@]}" "$here/collect.sbatch" "$here" "$night")
echo "$night: $count tasks in ${jobs[*]}, judged by ${collect%%;*}"
