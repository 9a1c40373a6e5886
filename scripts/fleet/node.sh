#!/usr/bin/env bash
# Sweeps this node into node-local storage, and hands the run over to the folder of a night, which all nodes share, when it is whole.
# Jobs of Slurm and of Kubernetes start it.
#
#   node.sh [flags of gemmaudit sweep that say what is measured]
#
# The environment says the rest:
#   FLEET_NIGHT   the night's folder on shared storage, in a folder that is there
#   FLEET_RUN     what the run is called in it, of letters, digits and . _ -, another for each task of the night (default:
#                 JOB_COMPLETION_INDEX, which an indexed Job of Kubernetes sets)
#   FLEET_NODE    this node (default: the name of the host)
#   FLEET_LOCAL   a folder on this node, which may be shared with other users (default: /tmp). The run is kept in a private folder below it
#                 until it is complete
#   FLEET_TRIES   how often the sweep is gone on with when it fails or is killed (default 3)
#   GEMMAUDIT     the program (default: gemmaudit)
#
# FLEET_NIGHT then has
#   runs/FLEET_RUN.db               the run, which is there whole or not at all
#   partial/FLEET_RUN@NODE.db       what was measured, after an interrupt; on this node the next start goes on with it
#   incomplete/FLEET_RUN@NODE.db    what was measured, where the sweep failed each time that it was tried
#
# Started again, it goes on with what there is, and does nothing where the run is whole. Exit code 0 says that the run is whole, 130
# that the sweep was interrupted, 2 that the plan is refused, 3 that the sweep failed, or that storage did. A run whose sentinels drifted
# is whole: gemmaudit fleet judges it as such.
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
# Where storage is not mounted, no folder is made in its place.
[[ -d ${FLEET_NIGHT%/*} ]] || fail "${FLEET_NIGHT%/*} is not there: is shared storage mounted?" 3
mkdir -p -- "$FLEET_NIGHT"
night=$(realpath -- "$FLEET_NIGHT") || exit 3

# Other users can write to a shared folder such as /tmp. The run goes to a folder that only this user can write to. A folder or link that
# another user has put in its place is refused: a job of root must not write through it.
mine() { [[ $(stat -c %u -- "$1" 2>/dev/null) == "$(id -u)" ]]; }
mine_or_roots() { mine "$1" || [[ $(stat -c %u -- "$1" 2>/dev/null) == 0 ]]; }
base=${FLEET_LOCAL:-/tmp}
mkdir -p -- "$base" || fail "the folder $base can't be made" 3
for name in "$base" "$base/."; do
  mine_or_roots "$name" || fail "$base belongs to another user: set FLEET_LOCAL to a folder of your own" 3
done
base=$(realpath -- "$base") || exit 3
# Two nights of one name on different storage have different local folders.
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
# The sweep ends the block that it is in, closes the run and exits with 130. A signal that went to the whole group reaches it
# twice, which it takes for one.
# shellcheck disable=SC2317 # the trap calls it
stop() {
  stopped=1 told=1
  if [[ -n $child ]]; then kill -TERM "$child" 2>/dev/null; fi
}
trap stop TERM INT HUP USR1 USR2

# under runs a command whose end is waited for whatever signals arrive, and sets code to its exit code.
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
    # A signal has wait return early, or arrives after the end, which is then known already.
    if [[ $ended != 127 ]]; then code=$ended; fi
    [[ -n $told ]] || break
  done
  child=
}

# publish copies a file to a path on shared storage, which it has whole or not at all. Where there is such a file already,
# $3 says which one stays: replace or keep.
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
      say "another task has handed this run over before; its file stays"
    fi
  else
    mv -f -T -- "$part" "$2"
  fi && sync -- "${2%/*}" && [[ -e $2 ]]
}

forget() { rm -f -- "$file" "$file-wal" "$file-shm" "$file-journal" "$file.lock"; }

# The lock is held until the last process of ours has ended, the sweep included, which may outlive this script when it is killed.
exec {lock}>"$file.task" || fail "$file.task can't be written" 3
flock -w 300 "$lock" || fail "$run: another task has been at work on it on this node for five minutes" 3

if [[ -e $whole ]]; then
  say "the run is whole already"
  forget
  rm -f -- "$file.task" "$partial"
  exit 0
fi
if [[ ! -e $file && -e $partial ]]; then
  say "goes on with what was handed over after an interrupt"
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
    # A journal beside the file says that the sweep was killed before it could close the run, which then is not one file.
    if [[ -e $file && ! -e $file-wal ]]; then publish "$file" "$partial" replace; fi
    say "interrupted"
    exit 130
  fi
  if ((try >= ${FLEET_TRIES:-3})); then
    if [[ -e $file ]] && { [[ -e $file-wal ]] || ! publish "$file" "$incomplete" replace; }; then
      say "what was measured stays in $file"
    fi
    fail "$run on $node: the sweep failed $try times, at last with exit code $code" 3
  fi
  say "the sweep ended with exit code $code; it is gone on with"
  # A file of which nothing can be read, as after a power failure, is begun anew.
  if [[ -e $file ]] && ! "$gemmaudit" export "$file" --top 1 --out /dev/null --force >/dev/null 2>&1; then
    say "$file can't be read and is begun anew"
    forget
  fi
  sleep $((try * try)) &
  wait $!
done

publish "$file" "$whole" keep || fail "$run on $node: the run can't be handed over to $night/runs; it stays in $file" 3
forget
rm -f -- "$file.task" "$partial" "$incomplete"
say "the run is whole"
