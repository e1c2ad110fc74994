#!/usr/bin/env bash
# Join a Ray cluster, on each node: deploy/ray/node.sh head | worker HEAD_ADDRESS
# VLLM_HOST_IP is this node's address, as the others reach it. SERIES, if set, is the series id that
# all nodes must have: ranks of different series would answer, and wrongly.
set -euo pipefail
[ "${1:-}" = head ] && [ $# -eq 1 ] || { [ "${1:-}" = worker ] && [ $# -eq 2 ]; } || {
    echo "usage: deploy/ray/node.sh head | worker HEAD_ADDRESS" >&2
    exit 2
}
: "${VLLM_HOST_IP:?set it to the address by which the other nodes reach this one}"
export VLLM_HOST_IP
record=$(python -m vllm.series_provenance) || {
    echo "$record" >&2
    exit 1
}
series=$(sed -n 's/^series *//p' <<< "$record")
if [ -n "${SERIES:-}" ] && [ "$series" != "$SERIES" ]; then
    echo "this node has series $series, not $SERIES; install the same wheel on every node." >&2
    exit 1
fi
echo "series $series"
if [ "$1" = head ]; then
    exec ray start --block --head --port=6379 --node-ip-address="$VLLM_HOST_IP"
fi
exec ray start --block --address="$2:6379" --node-ip-address="$VLLM_HOST_IP"
