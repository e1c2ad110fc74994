#!/usr/bin/env bash
# Throughput of every mode on a GPU: ci/gpu/engines.sh OUT GEOMETRY [bench/engine.py options]
# Engines start together and measure one by one; OUT/engine-GEOMETRY-MODE.json each.
set -u
cd "$(dirname "$0")/../.."
. ci/gpu/site.sh
out=$(realpath "$1") geometry=$2
shift 2
modes=${MODES:-window snapshot snapshot-piecewise snapshot-triton none}
for mode in $modes; do
    name=$out/engine-$geometry-$mode
    python3 bench/engine.py "$geometry" "$mode" --out "$name.json" --lock /tmp/engines.lock "$@" \
        > "$name.log" 2>&1 &
done
wait
failed=0
for mode in $modes; do
    name=$out/engine-$geometry-$mode
    if python3 -m json.tool "$name.json" > /dev/null 2>&1; then
        python3 - "$name.json" << 'EOF'
import json, sys
r = json.load(open(sys.argv[1]))
print(r["geometry"], r["mode"], "start", r["start_s"], "s, concurrency", r["max_concurrency"],
      "GPU GiB", r["gpu_memory_gib"], *[(b["batch"], b["tokens_per_s"], b["ms_per_step"]) for b in r["batches"]])
EOF
        rm -f "$name.log"
    else
        echo "$mode failed:"; tail -25 "$name.log"; failed=1
    fi
done
exit $failed
