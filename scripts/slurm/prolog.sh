#!/usr/bin/env bash
# A prolog of Slurm that measures the node for some seconds, and drains it with the reason where it is slower than its peers:
#
#   Prolog=/opt/gemmaudit/scripts/slurm/prolog.sh        in slurm.conf, below PrologFlags=Alloc
#   HealthCheckProgram=...                               as well, with HealthCheckNodeState=IDLE: then no job waits for it
#
# Only the verdict that the node is not fit drains it. What keeps the check from a verdict, a missing baseline or a card that is in
# use, is told in the system's log and lets the job begin. Settings are in /etc/gemmaudit/check.env, or in GEMMAUDIT_CHECK_ENV.
set -uo pipefail

log() { logger -t gemmaudit -- "$1" 2>/dev/null || echo "gemmaudit: $1" >&2; }

settings=${GEMMAUDIT_CHECK_ENV:-/etc/gemmaudit/check.env}
# Root reads it as a script.
if [[ ! -f $settings || -n $(find -L "$settings" \( ! -uid "$(id -u)" -o -perm /022 \) -print) ]]; then
  log "$settings is not there, or others may write it: the node is not checked"
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
# Jobs that begin together wait for one check.
flock -w 120 "$lock" || exit 0
# A stamp from the future, left by a wrong clock, would count as recent for as long as the clock was wrong: it is ignored.
if [[ -n $(find "$STATE/fit" -mmin "-$EVERY" -not -newermt now -print 2>/dev/null) ]]; then exit 0; fi

# What another job on the node takes would be held against the node.
if squeue --noheader --nodelist="$node" --states=RUNNING,SUSPENDED --format=%A | grep -qvx "${SLURM_JOB_ID:-none}"; then
  log "$node is in use: it is not checked"
  exit 0
fi

# A prolog has a minute or so.
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
# What scontrol takes and prints as it is.
reason="gemmaudit: $(head -n 1 <<<"$reason" | tr -c '[:alnum:] .,:;%+()[]/=_-' ' ' | cut -c 1-200)"
drained=$(sinfo --noheader --states=drain --Node --format='%N|%E' | sort -u | grep -c '|gemmaudit: ')
if ((drained >= MOST_DRAINED)); then
  log "$node is not fit and is not drained, as $drained nodes are that were not either: $reason"
  exit 0
fi
log "$node is drained: $reason"
scontrol update "NodeName=$node" State=DRAIN "Reason=$reason" || exit 0
# The job is requeued and begins elsewhere.
exit 1
