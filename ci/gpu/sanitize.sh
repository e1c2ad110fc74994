#!/usr/bin/env bash
# compute-sanitizer over the kernels' tests: ci/gpu/sanitize.sh VLLM_TESTS OUT [memcheck|racecheck ...]
# Only the window's kernels are watched; bundle-00 alone is enough. Every tensor has an allocation of
# its own, so that memcheck sees what is one past its end. A tool that has not ended after SECONDS_EACH
# (1200) is stopped and counts as failed. Writes sanitizer.json and logs to OUT. Exit code 1 if a tool
# found something, a test failed or a run did not end.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -ge 2 ] || { echo "usage: ci/gpu/sanitize.sh VLLM_TESTS OUT [memcheck|racecheck ...]" >&2; exit 2; }
mkdir -p "$2"
. ci/gpu/site.sh
tests=$(realpath "$1") out=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- memcheck racecheck
rm -f "$out"/*check-*.{log,rc}
compute-sanitizer --help > "$out/sanitizer-help.txt" 2>&1 || {
    echo "compute-sanitizer does not run here; install the CUDA toolkit and put it on PATH." >&2
    exit 2
}
sanitize() {  # TOOL NAME SELECTION
    (cd "$tests/.." && PYTHONPATH=$SITE:. PYTORCH_NO_CUDA_MEMORY_CACHING=1 timeout \
        "${SECONDS_EACH:-1200}" compute-sanitizer --tool "$1" --error-exitcode 9 --launch-timeout 600 \
        --kernel-name kernel_substring=gdn_recoverssm \
        python3 -m pytest -v --noconftest -p no:cacheprovider \
        "tests/kernels/mamba/test_gdn_recoverssm_$2.py" -k "$3") > "$out/$1-$2.log" 2>&1
    echo $? > "$out/$1-$2.rc"
}
# Thousands of commits and memory beyond 32 bits would take hours under a checker.
for tool in "$@"; do
    sanitize "$tool" verify "" &
    sanitize "$tool" commit "not walk and not many and not 32_bits" &
    sanitize "$tool" plan "" &
    sanitize "$tool" boundary "" &
done
wait
python3 ci/gpu/sanitizer_report.py "$out" "$@"
