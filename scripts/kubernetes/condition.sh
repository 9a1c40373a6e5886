#!/usr/bin/env bash
# Checks the node of this pod and writes the node condition GemmsSlow: True with the reason if the node is slower than its peers, else
# False, or Unknown without a verdict. Then it sets the node's label gemmaudit/check to done and waits to be removed.
#
#   condition.sh [flags of gemmaudit check]
#
# Environment: NODE is the node's name; KUBERNETES_SERVICE_HOST and _PORT are set in each pod. ACCOUNT is the folder of the service
# account (default: the kubelet's), GEMMAUDIT the program, RETRY the seconds to wait after the API server refused.
set -uo pipefail

: "${NODE:?is the name of the node}" "${KUBERNETES_SERVICE_HOST:?is set in a pod}" "${KUBERNETES_SERVICE_PORT:?is set in a pod}"
account=${ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
[[ $NODE =~ ^[a-z0-9.-]{1,253}$ ]] || { echo "condition.sh: the node is called '$NODE'" >&2; exit 2; }
server=$KUBERNETES_SERVICE_HOST
if [[ $server == *:* ]]; then server="[$server]"; fi
# The first process of a container ignores signals that it does not handle.
trap 'kill $(jobs -p) 2>/dev/null; exit 0' TERM

reason=$("${GEMMAUDIT:-gemmaudit}" check -q --reason "$@")
case $? in
  0) status=False word=LikeItsPeers ;;
  1) status=True word=SlowerThanItsPeers ;;
  *) status=Unknown word=NoVerdict ;;
esac
# One line, without characters that JSON escapes.
reason=$(head -n 1 <<<"$reason" | tr -c '[:alnum:] .,:;%+()[]/=_-' ' ' | cut -c 1-1000)
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
echo "GemmsSlow is $status: $reason"

# patch sends a change of the node. Tokens are renewed, so it reads the token each time, and keeps it off the command line.
patch() {
  printf 'header = "Authorization: Bearer %s"\n' "$(<"$account/token")" |
    curl --silent --show-error --fail-with-body --max-time 30 --config - --cacert "$account/ca.crt" --request PATCH \
      --header 'Content-Type: application/strategic-merge-patch+json' --data "$2" --output /dev/null \
      "https://$server:$KUBERNETES_SERVICE_PORT/api/v1/nodes/$NODE$1"
}

condition="{\"type\":\"GemmsSlow\",\"status\":\"$status\",\"reason\":\"$word\",\"message\":\"$reason\",\"lastHeartbeatTime\":\"$now\",\"lastTransitionTime\":\"$now\"}"
until patch /status "{\"status\":{\"conditions\":[$condition]}}" && patch '' '{"metadata":{"labels":{"gemmaudit/check":"done"}}}'; do
  sleep "${RETRY:-30}"
done
sleep infinity &
wait
