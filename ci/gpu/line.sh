#!/usr/bin/env bash
# A line on a GPU, in minutes: ci/gpu/line.sh VERSION VLLM_TESTS TINY_MODEL OUT
# VLLM_TESTS is the folder that holds the line's patched tests/, SLICES that of its own slices
# (.gpu-VERSION, by make gpu-bundle LINE=VERSION). They are laid in a site of their own, so that
# the main series may be on the host as well. Runs ci/gpu/kernel_tests.sh and tests/gpu/parity.py;
# logs and JSON come to OUT. Exit code 1 if one of them failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -eq 4 ] || { echo "usage: ci/gpu/line.sh VERSION VLLM_TESTS TINY_MODEL OUT" >&2; exit 2; }
version=$1 tests=$2 model=$(realpath "$3")
[ -d "lines/$version" ] || { echo "there is no line $version in lines/." >&2; exit 2; }
mkdir -p "$4"
out=$(realpath "$4")
export SLICES=${SLICES:-.gpu-$version} SITE=${SITE:-/tmp/site-$version}
. ci/gpu/site.sh
installed=$(python3 -c 'import importlib.metadata; print(importlib.metadata.version("vllm"))')
case $installed in
    "$version"+*) ;;
    *) echo "$SITE holds vllm $installed, not the line $version; name its slices in SLICES." >&2
        exit 2 ;;
esac
series=lines/$version/series
[ -e "$series" ] || series=series
cached=--no-cache
grep -q '^gdn-recoverssm/prefix-caching' "$series" && cached=
ci/gpu/kernel_tests.sh "$tests" "$out"; kernels=$?
python3 tests/gpu/parity.py "$model" "$out/parity.json" $cached > "$out/parity.log" 2>&1; parity=$?
tail -60 "$out/parity.log"
echo "exit codes: kernel tests $kernels, parity $parity"
[ "$kernels$parity" = 00 ]
