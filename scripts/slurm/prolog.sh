#!/usr/bin/env bash
# A Slurm prolog that measures the node for some seconds, and drains it if it is slower than its peers:
#
#   Prolog=/opt/gemmaudit/scripts/slurm/prolog.sh        in slurm.conf, with PrologFlags=Alloc
#   HealthCheckProgram=...                               or this, with HealthCheckNodeState=IDLE: then jobs do not wait for it
#
# Only a bad verdict drains the node. Other problems, such as a missing baseline or a card in use, go to the system log, and the job
# starts. Settings are in /etc/gemmaudit/check.env, or in the file GEMMAUDIT_CHECK_ENV.
set -uo pipefail

log() { logger -t gemmaudit -- "$1" 2>/dev/null || echo "gemmaudit: $1" >&2; }

settings=${GEMMAUDIT_CHECK_ENV:-/etc/gemmaudit/check.env}
# Root reads it as a script.
if [[ ! -f $settings || -n $(find -L "$settings" \( ! -uid "$(id -u)" -o -perm /022 \) -print) ]]; then
  log "$settings is missing, or other users may write it: the node is not checked"
  exit 0
fi
BUDGET=20s EVERY=1440 MOST_DRAINED=8 STATE=/var/lib/gemmaudit CHECK=()
# shellcheck source=check.env
source "$settings"

node=${SLURMD_NODENAME:-$(uname -n)}
if ! { mkdir -p -- "$STATE" && exec {lock}>"$STATE/lock"; }; then
  log "$STATE can't be written: the node is not checked"
  exit 0
fi
# Jobs that start together wait for one check.
flock -w 120 "$lock" || exit 0
# A time stamp from the future, left by a wrong clock, is ignored.
if [[ -n $(find "$STATE/fit" -mmin "-$EVERY" -not -newermt now -print 2>/dev/null) ]]; then exit 0; fi

# Another job on the node would make it look slow.
if squeue --noheader --nodelist="$node" --states=RUNNING,SUSPENDED --format=%A | grep -qvx "${SLURM_JOB_ID:-none}"; then
  log "$node is in use: it is not checked"
  exit 0
fi

# A prolog must end within about a minute.
reason=$(timeout -k 5 100 "$GEMMAUDIT" check -q --reason --budget "$BUDGET" --baseline "$BASELINE" "${CHECK[@]}" 2>/dev/null)
code=$?
case $code in
  0)
    touch -- "$STATE/fit"
    exit 0
    ;;
  1) ;;
  *)
    log "$node: no verdict, exit code $code: $reason"
    exit 0
    ;;
esac

rm -f -- "$STATE/fit"
# Only characters that scontrol accepts and prints unchanged.
reason="gemmaudit: $(head -n 1 <<<"$reason" | tr -c '[:alnum:] .,:;%+()[]/=_-' ' ' | cut -c 1-200)"
drained=$(sinfo --noheader --states=drain --Node --format='%N|%E' | sort -u | grep -c '|gemmaudit: ')
if ((drained >= MOST_DRAINED)); then
  log "$node is not fit, but $drained nodes are drained already, so it stays: $reason"
  exit 0
fi
log "$node is drained: $reason"
scontrol update "NodeName=$node" State=DRAIN "Reason=$reason" || exit 0
# Slurm requeues the job, which starts on another node.
exit 1
