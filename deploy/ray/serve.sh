#!/usr/bin/env bash
# Serve over the cluster, on its head alone: deploy/ray/serve.sh MODEL TENSOR_PARALLEL_SIZE
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: deploy/ray/serve.sh MODEL TENSOR_PARALLEL_SIZE" >&2; exit 2; }
: "${VLLM_HOST_IP:?set it to the address by which the other nodes reach this one}"
export VLLM_HOST_IP
exec vllm serve "$1" \
    --host 0.0.0.0 --port 8000 \
    --distributed-executor-backend ray \
    --tensor-parallel-size "$2" \
    --use-replayssm \
    --speculative-config '{"method": "mtp", "num_speculative_tokens": 3}' \
    --max-num-seqs 128 \
    --shutdown-timeout 60
