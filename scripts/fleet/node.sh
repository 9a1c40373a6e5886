#!/usr/bin/env bash
# Measures this node into local storage, then copies the complete run to the night's folder on shared storage. Slurm and Kubernetes
# jobs start it.
#
#   node.sh [flags of gemmaudit sweep for the plan]
#
# Environment:
#   FLEET_NIGHT   the night's folder on shared storage; its parent folder must exist
#   FLEET_RUN     name of the run: letters, digits and . _ -, different for each task of the night (default:
#                 JOB_COMPLETION_INDEX, which a Kubernetes Indexed Job sets)
#   FLEET_NODE    this node (default: the host name)
#   FLEET_LOCAL   a folder on this node (default: /tmp). The run stays in a private folder below it until it is complete
#   FLEET_TRIES   how often a failed or killed sweep is tried (default 3)
#   GEMMAUDIT     the program (default: gemmaudit)
#
# FLEET_NIGHT then has
#   runs/FLEET_RUN.db               the complete run
#   partial/FLEET_RUN@NODE.db       data of an interrupted run; the next start on this node continues with it
#   incomplete/FLEET_RUN@NODE.db    data of a sweep that failed every time
#
# A second start continues, or exits if the run is complete. Exit codes: 0 complete, 130 interrupted, 2 the plan is refused, 3 the
# sweep or the storage failed. A run with drifted sentinels is complete: gemmaudit fleet judges it.
set -uo pipefail

say() { echo "fleet: $run on $node: $1" >&2; }
fail() { echo "fleet: $1" >&2; exit "${2:-2}"; }

: "${FLEET_NIGHT:?is the folder of the night on shared storage}"
gemmaudit=${GEMMAUDIT:-gemmaudit}
run=${FLEET_RUN:-${JOB_COMPLETION_INDEX:?or FLEET_RUN is what the run is called}}
node=${FLEET_NODE:-$(uname -n)}
# A name becomes part of a path.
for name in "$run" "$node"; do
  [[ $name =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,120}$ ]] || fail "the name '$name' is refused: expected letters, digits and . _ -"
done
# If the storage is not mounted, do not create a local folder in its place.
[[ -d ${FLEET_NIGHT%/*} ]] || fail "${FLEET_NIGHT%/*} is not there: is shared storage mounted?" 3
mkdir -p -- "$FLEET_NIGHT"
night=$(realpath -- "$FLEET_NIGHT") || exit 3

# Other users can write to a shared folder such as /tmp. The run goes to a folder that only this user can write to. A folder or link of
# another user in its place is refused: a root job must not write through it.
mine() { [[ $(stat -c %u -- "$1" 2>/dev/null) == "$(id -u)" ]]; }
mine_or_roots() { mine "$1" || [[ $(stat -c %u -- "$1" 2>/dev/null) == 0 ]]; }
base=${FLEET_LOCAL:-/tmp}
mkdir -p -- "$base" || fail "the folder $base can't be made" 3
for name in "$base" "$base/."; do
  mine_or_roots "$name" || fail "$base belongs to another user: set FLEET_LOCAL to a folder of your own" 3
done
base=$(realpath -- "$base") || exit 3
# Nights with equal names on different storage get different local folders.
local=$base/gemmaudit-$(id -u)-$(printf '%s' "$night" | cksum | cut -d ' ' -f 1)
mkdir -m 700 -- "$local" 2>/dev/null || [[ -e $local || -L $local ]] || fail "the folder $local can't be made" 3
if [[ -L $local || ! -d $local ]] || ! mine "$local" || [[ -n $(find "$local" -maxdepth 0 -perm /022 -print) ]]; then
  fail "$local is a link, or another user can write to it: remove it, or set FLEET_LOCAL to a folder of your own" 3
fi
file=$local/$run.db
whole=$night/runs/$run.db partial=$night/partial/$run@$node.db incomplete=$night/incomplete/$run@$node.db
mkdir -p -- "$night/runs" || fail "the folders of the night can't be made" 3

stopped=
child=
# The sweep finishes its block, closes the run and exits with 130. A signal to the whole group reaches it twice, which counts as one.
# shellcheck disable=SC2317 # the trap calls it
stop() {
  stopped=1 told=1
  if [[ -n $child ]]; then kill -TERM "$child" 2>/dev/null; fi
}
trap stop TERM INT HUP USR1 USR2

# under runs a command, waits for its end despite signals, and sets code to its exit code.
under() {
  local ended
  "$@" &
  child=$!
  if [[ -n $stopped ]]; then kill -TERM "$child" 2>/dev/null; fi
  code=127
  while :; do
    told=
    wait "$child"
    ended=$?
    # A signal ends wait early, or arrives after the end, when the exit code is known.
    if [[ $ended != 127 ]]; then code=$ended; fi
    [[ -n $told ]] || break
  done
  child=
}

# publish copies a file to shared storage atomically. $3 is replace or keep, for a file that exists.
publish() {
  local part=${2%/*}/.${2##*/}.$node.part
  if ! { mkdir -p -- "${2%/*}" && cp -- "$1" "$part" && sync -- "$part" && cmp -s -- "$1" "$part"; }; then
    rm -f -- "$part"
    return 1
  fi
  if [[ $3 == keep ]]; then
    mv -n -T -- "$part" "$2"
    if [[ -e $part ]]; then
      rm -f -- "$part"
      say "another task has already stored this run; its file stays"
    fi
  else
    mv -f -T -- "$part" "$2"
  fi && sync -- "${2%/*}" && [[ -e $2 ]]
}

forget() { rm -f -- "$file" "$file-wal" "$file-shm" "$file-journal" "$file.lock"; }

# The lock is held until the last of our processes has ended: the sweep may outlive this script.
exec {lock}>"$file.task" || fail "$file.task can't be written" 3
flock -w 300 "$lock" || fail "$run: another task has worked on it on this node for five minutes" 3

if [[ -e $whole ]]; then
  say "the run is already complete"
  forget
  rm -f -- "$file.task" "$partial"
  exit 0
fi
if [[ ! -e $file && -e $partial ]]; then
  say "continues an interrupted run"
  if ! { cp -- "$partial" "$file.part" && mv -f -T -- "$file.part" "$file"; }; then fail "$partial can't be read" 3; fi
fi

for ((try = 1; ; try++)); do
  if [[ -e $file ]]; then
    under "$gemmaudit" sweep -q --resume --out "$file"
  else
    under "$gemmaudit" sweep -q --out "$file" "$@"
  fi >/dev/null
  case $code in
    0 | 4) break ;;
    2) fail "$run on $node: the plan is refused" 2 ;;
    126 | 127) fail "$run on $node: $gemmaudit can't be run" 3 ;;
  esac
  if [[ -n $stopped || $code == 130 ]]; then
    # A journal means that the sweep was killed before it closed the run, so the run is not a single file.
    if [[ -e $file && ! -e $file-wal ]]; then publish "$file" "$partial" replace; fi
    say "interrupted"
    exit 130
  fi
  if ((try >= ${FLEET_TRIES:-3})); then
    if [[ -e $file ]] && { [[ -e $file-wal ]] || ! publish "$file" "$incomplete" replace; }; then
      say "the data stays in $file"
    fi
    fail "$run on $node: the sweep failed $try times, last with exit code $code" 3
  fi
  say "the sweep ended with exit code $code; trying again"
  # An unreadable file, for example after a power failure, is started over.
  if [[ -e $file ]] && ! "$gemmaudit" export "$file" --top 1 --out /dev/null --force >/dev/null 2>&1; then
    say "$file can't be read; starting over"
    forget
  fi
  sleep $((try * try)) &
  wait $!
done

publish "$file" "$whole" keep || fail "$run on $node: the run can't be copied to $night/runs; it stays in $file" 3
forget
rm -f -- "$file.task" "$partial" "$incomplete"
say "the run is complete"
