#!/usr/bin/env bash
# Measure on a GPU host without network: ci/gpu/bench.sh OUT kernels|engines|latency [arguments]
# Goes on from the rows in bench/results or OUT and leaves all of them in OUT; give it --seconds
# where the time is limited. `make bench-table` then reads what is copied to bench/results.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -ge 2 ] || { echo "usage: ci/gpu/bench.sh OUT kernels|engines|latency [arguments]" >&2; exit 2; }
mkdir -p "$1"
. ci/gpu/site.sh
out=$(realpath "$1") what=$2
shift 2
case $what in
    kernels) script=layer ;;
    engines) script=engines ;;
    latency) script=latency ;;
    *) echo "ci/gpu/bench.sh measures kernels, engines or latency, not $what." >&2; exit 2 ;;
esac
for file in bench/results/*-{kernels,engine,latency}.json; do
    if [ -e "$file" ] && [ ! -e "$out/$(basename "$file")" ]; then cp "$file" "$out"; fi
done
python3 "bench/$script.py" --out "$out" "$@"
