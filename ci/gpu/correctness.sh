#!/usr/bin/env bash
# Parity and a real server on a GPU: ci/gpu/correctness.sh TINY_MODEL OUT
# Writes parity.json and serve.json to OUT. Exit code 1 if one of them failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -eq 2 ] || { echo "usage: ci/gpu/correctness.sh TINY_MODEL OUT" >&2; exit 2; }
mkdir -p "$2"
. ci/gpu/site.sh
model=$(realpath "$1") out=$(realpath "$2")
python3 -m vllm.series_provenance || exit 1
python3 tests/gpu/parity.py "$model" "$out/parity.json" > "$out/parity.log" 2>&1; parity=$?
# Alone, after the other: it profiles how much memory is free.
python3 tests/gpu/serve.py "$model" "$out/serve.json" > "$out/serve-run.log" 2>&1; serve=$?
tail -60 "$out/parity.log"
tail -c 3000 "$out/serve-run.log"
echo "exit codes: parity $parity, serve $serve"
[ "$parity$serve" = 00 ]
