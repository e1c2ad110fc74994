#!/usr/bin/env bash
# Correctness on a GPU: ci/gpu/correctness.sh TINY_MODEL VLLM_TESTS OUT
# VLLM_TESTS is the folder that holds the patched tree's tests/. Writes its reports to OUT.
set -u
cd "$(dirname "$0")/../.."
. ci/gpu/site.sh
model=$(realpath "$1") tests=$(realpath "$2") out=$(realpath "$3")
python3 -m vllm.series_provenance > "$out/provenance.txt"; provenance=$?
python3 tests/gpu/parity.py "$model" "$out/parity.json" > "$out/parity.log" 2>&1 & parity=$!
python3 tests/gpu/serve.py "$model" "$out/serve.json" > "$out/serve-run.log" 2>&1 & serve=$!
(cd "$tests/.." && PYTHONPATH=$SITE:. timeout 400 python3 -m pytest -q --noconftest -p no:cacheprovider \
    tests/kernels/mamba/test_gdn_recoverssm_verify.py tests/kernels/mamba/test_gdn_recoverssm_commit.py) \
    > "$out/kernels-tests.log" 2>&1; kernels=$?
wait $parity; parity=$?
wait $serve; serve=$?
# Alone: it profiles the GPU's memory.
python3 tests/gpu/serve.py "$model" "$out/serve-defaults.json" --defaults \
    > "$out/serve-defaults-run.log" 2>&1; defaults=$?
tail -3 "$out/kernels-tests.log"
tail -60 "$out/parity.log"
tail -30 "$out/serve-run.log"
tail -60 "$out/serve-defaults-run.log"
echo "exit codes: provenance $provenance, kernel tests $kernels, parity $parity," \
    "serve $serve, serve with defaults $defaults"
[ "$provenance$kernels$parity$serve$defaults" = 00000 ]
