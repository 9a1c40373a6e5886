#!/usr/bin/env bash
# usage: test_busy.sh COMMAND [ARG...]
# Runs a command with SPIN spinning processes (4), then again on half a CPU, in its own control group. Skips the second, with a
# note, if it cannot make a control group. Exit code 1 if either run fails.
set -uo pipefail
failed=0 spinners=() group=

finish() {
  [[ ${#spinners[@]} == 0 ]] || kill "${spinners[@]}" 2>/dev/null
  [[ -z $group ]] || rmdir "$group" 2>/dev/null
}
trap finish EXIT

for ((i = 0; i < ${SPIN:-4}; i++)); do
  while :; do :; done &
  spinners+=($!)
done
began=$SECONDS
"$@" || failed=1
echo "busy: beside ${#spinners[@]} spinning processes: exit code $failed after $((SECONDS - began)) s"
kill "${spinners[@]}" 2>/dev/null
wait "${spinners[@]}" 2>/dev/null
spinners=()

# half prints a new control group with half a CPU (version 2 or 1), or an empty text if that fails.
half() {
  local v2=/sys/fs/cgroup/gemmaudit-busy-$$ v1=/sys/fs/cgroup/cpu/gemmaudit-busy-$$
  if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
    mkdir "$v2" && echo "50000 100000" >"$v2/cpu.max" && echo "$v2" && return
    rmdir "$v2"
  elif [[ -d /sys/fs/cgroup/cpu ]]; then
    mkdir "$v1" && echo 100000 >"$v1/cpu.cfs_period_us" && echo 50000 >"$v1/cpu.cfs_quota_us" && echo "$v1" && return
    rmdir "$v1"
  fi
} 2>/dev/null

group=$(half)
if [[ -z $group ]]; then
  echo "busy: half a CPU: skipped, no control group can be made here"
  exit $failed
fi
began=$SECONDS
if (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@"); then
  echo "busy: half a CPU: exit code 0 after $((SECONDS - began)) s"
else
  failed=1
  echo "busy: half a CPU: FAILED after $((SECONDS - began)) s"
fi
exit $failed
