#!/usr/bin/env bash
# Correctness on a GPU: ci/gpu/correctness.sh TINY_MODEL VLLM_TESTS OUT
# VLLM_TESTS is the folder that holds the patched tree's tests/. Writes its reports to OUT.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -eq 3 ] || { echo "usage: ci/gpu/correctness.sh TINY_MODEL VLLM_TESTS OUT" >&2; exit 2; }
mkdir -p "$3"
. ci/gpu/site.sh
model=$(realpath "$1") tests=$(realpath "$2") out=$(realpath "$3")
python3 -m vllm.series_provenance > "$out/provenance.txt"; provenance=$?
python3 tests/gpu/parity.py "$model" "$out/parity.json" > "$out/parity.log" 2>&1 & parity=$!
kernel_tests() {  # NAME FILE SELECTION
    (cd "$tests/.." && PYTHONPATH=$SITE:. python3 -m pytest -q --noconftest -p no:cacheprovider \
        "tests/kernels/mamba/test_gdn_recoverssm_$2.py" -k "$3") > "$out/kernels-$1.log" 2>&1
}
kernel_tests verify verify "" & verify=$!
kernel_tests walks commit "walk or many" & walks=$!
kernel_tests plan plan "" & plan=$!
kernel_tests commit commit "not walk and not many"; commit=$?
wait $plan; plan=$?
wait $verify; verify=$?
wait $walks; walks=$?
wait $parity; parity=$?
# Alone, after the others: it profiles how much memory is free.
python3 tests/gpu/serve.py "$model" "$out/serve.json" > "$out/serve-run.log" 2>&1; serve=$?
python3 ci/gpu/test_counts.py "$out"
tail -60 "$out/parity.log"
tail -c 3000 "$out/serve-run.log"
echo "exit codes: provenance $provenance, kernels $verify $commit $walks $plan," \
    "parity $parity, serve $serve"
[ "$provenance$verify$commit$walks$plan$parity$serve" = 0000000 ]
