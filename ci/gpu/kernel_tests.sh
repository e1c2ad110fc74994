#!/usr/bin/env bash
# The kernels' tests on a GPU: ci/gpu/kernel_tests.sh VLLM_TESTS OUT
# VLLM_TESTS is the folder that holds the patched tree's tests/; bundle-00 alone is enough for them.
# Writes their logs, reports and, in tests.json, what became of each test to OUT. Exit code 1 if a
# test failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -eq 2 ] || { echo "usage: ci/gpu/kernel_tests.sh VLLM_TESTS OUT" >&2; exit 2; }
mkdir -p "$2"
. ci/gpu/site.sh
tests=$(realpath "$1") out=$(realpath "$2")
rm -f "$out"/kernels-*.{log,xml}
python3 -m vllm.series_provenance > "$out/provenance.txt"; codes=$?
kernel_tests() {  # NAME SELECTION FILE ...: those that the series has
    local file files=()
    for file in "${@:3}"; do
        if [ -e "$tests/../$file" ]; then files+=("$file"); else echo "this series has no $file"; fi
    done
    [ ${#files[@]} -gt 0 ] || return 0
    (cd "$tests/.." && PYTHONPATH=$SITE:. python3 -m pytest -q --noconftest -p no:cacheprovider \
        --rootdir=. --junitxml="$out/kernels-$1.xml" -o junit_family=xunit1 -k "$2" "${files[@]}") \
        > "$out/kernels-$1.log" 2>&1
}
of=tests/kernels/mamba/test_gdn_recoverssm builder=tests/v1/attention/test_gdn_recoverssm
layer=tests/model_executor/layers/test_qwen_gdn_recoverssm.py
jobs=()
kernel_tests walks "walk or many" ${of}_commit.py & jobs+=($!)
kernel_tests commit "not walk and not many" ${of}_commit.py & jobs+=($!)
kernel_tests plan "" ${of}_plan.py & jobs+=($!)
kernel_tests boundary "" ${of}_boundary.py ${of}_shards.py & jobs+=($!)
kernel_tests verify "" ${of}_verify.py & jobs+=($!)
kernel_tests metadata "" ${builder}_metadata.py ${builder}_commit_counts.py & jobs+=($!)
kernel_tests layer "" $layer & jobs+=($!)
for job in "${jobs[@]}"; do wait "$job"; codes+=$?; done
python3 ci/gpu/test_counts.py "$out"; codes+=$?
grep -hE "^(FAILED|ERROR|E  )" "$out"/kernels-*.log
echo "exit codes: provenance, walks, commit, plan, boundary, verify, metadata, layer, all have" \
    "passed: $codes"
[ "$codes" = 000000000 ]
