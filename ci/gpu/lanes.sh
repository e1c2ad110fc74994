#!/usr/bin/env bash
# Commands for each GPU of a host without network, at the same time, in lanes that last as long as
# the machine: ci/gpu/lanes.sh OUT SECONDS 'COMMANDS OF GPU 0' 'COMMANDS OF GPU 1' ...
# Commands find their folder in $LANE and ask `left` how many seconds they have. JSON and logs of
# all lanes come to OUT, a later call goes on from what is in the lanes. Exit code 1 if one failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -ge 3 ] || { echo "usage: ci/gpu/lanes.sh OUT SECONDS COMMANDS [COMMANDS ...]" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1") seconds=$2 begun=$SECONDS
shift 2
. ci/gpu/site.sh
left() { echo $((seconds - (SECONDS - begun))); }
gpu=0
for commands in "$@"; do
    (
        export CUDA_VISIBLE_DEVICES=$gpu LANE=${LANES:-/tmp}/lane$gpu
        mkdir -p "$LANE"
        eval "$commands" >> "$LANE/lane.log" 2>&1
        code=$?
        echo "lane $gpu: exit code $code, $(left) s left" >> "$LANE/lane.log"
        exit $code
    ) &
    jobs[gpu]=$!
    gpu=$((gpu + 1))
done
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
cd "${LANES:-/tmp}" || exit 2
for lane in lane[0-9]*; do
    for file in "$lane"/*.json; do
        [ ! -e "$file" ] || cp "$file" "$out/$lane-$(basename "$file")"
    done
    tail -n "${TAIL:-25}" "$lane/lane.log"
done
tar czf "$out/logs.tgz" --exclude='*.safetensors' lane[0-9]*
exit $failed
