#!/usr/bin/env bash
# Throughput of ways of serving on a GPU: ci/gpu/engines.sh OUT GEOMETRY:MODE[:KV_GIB] ...
# Engines start together and measure one by one; OUT/engine-GEOMETRY-MODE.json each.
set -u
cd "$(dirname "$0")/../.."
. ci/gpu/site.sh
out=$(realpath "$1")
shift
meeting=$(mktemp -d)
for engine in "$@"; do
    IFS=: read -r geometry mode kv <<< "$engine"
    name=$out/engine-$geometry-$mode
    (python3 bench/engine.py "$geometry" "$mode" --out "$name.json" --kv-gib "${kv:-16}" \
        --meeting "$meeting" --engines $# > "$name.log" 2>&1 || touch "$meeting/started-$mode-failed") &
done
wait
rm -rf "$meeting"
failed=0
for engine in "$@"; do
    IFS=: read -r geometry mode kv <<< "$engine"
    name=$out/engine-$geometry-$mode
    if [ -s "$name.json" ]; then
        rm -f "$name.log"
    else
        echo "$engine failed:"; tail -c 3000 "$name.log"; failed=1
    fi
done
exit $failed
