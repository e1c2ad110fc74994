#!/usr/bin/env bash
# All that must hold on a GPU, side by side: ci/gpu/correctness.sh TINY_MODEL OUT [VLLM_TESTS]
# Parity, a server and its clients, a soak, faults, vLLM's executors, sleep mode, and the patched
# tree's tests if their folder is named; with two GPUs the first four on two tensor-parallel ranks
# as well, by mp and, if bundle-02 is there, by Ray. Each leaves NAME.json, NAME.out and NAME.rc in OUT; what has an exit code, or
# runs, is not begun again. Nothing is timed here: they share the GPUs, AT_ONCE (1 + a fifth of the
# processors) of them beside the longest. WAIT_S (540, unpacking included) ends the wait, not the jobs: call it again.
# Exit code 0 if all have passed, 1 if one failed, 3 if one still runs.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -ge 2 ] || { echo "usage: ci/gpu/correctness.sh TINY_MODEL OUT [VLLM_TESTS]" >&2; exit 2; }
mkdir -p "$2"
. ci/gpu/site.sh
model=$(realpath "$1") out=$(realpath "$2") tests=${3:+$(realpath "$3")}
python3 -m vllm.series_provenance || exit 1
gpus=$(nvidia-smi -L | wc -l)
names=()
# Each server takes what it needs; a profile would see the others' memory.
small=(--kv-cache-memory-bytes $((4 << 30)) --gpu-memory-utilization 0.05)
two=(--tensor-parallel-size 2)
at_once=${AT_ONCE:-$(($(nproc) / 5 + 1))} end=${WAIT_S:-540}
[ "$at_once" -gt 0 ] && command -v flock > /dev/null ||
    { echo "AT_ONCE must be 1 or more, and flock (util-linux) on the PATH." >&2; exit 2; }
slot() {  # until one of them is free; it is held as file 9 until the process ends
    local i
    while :; do
        for i in $(seq "$at_once"); do
            exec 9> "$out/.slot$i"
            flock -n 9 && return
        done
        sleep 1
    done
}
job() {  # NAME GPUS COMMAND ...: begun once, beside the others
    local name=$1 gpu=$2 wait=slot
    shift 2
    [ "$name" != soak-ranks ] || wait=:
    names+=("$name")
    [ ! -e "$out/$name.rc" ] || return 0
    if [ -e "$out/$name.pid" ] && kill -0 "$(cat "$out/$name.pid")" 2> /dev/null; then return 0; fi
    CUDA_VISIBLE_DEVICES=$gpu setsid bash -c \
        'echo $$ > "$1.pid"; $2; echo begun; "${@:3}" 9>&-; echo $? > "$1.end"; mv "$1.end" "$1.rc"' - \
        "$out/$name" "$wait" "$@" > "$out/$name.out" 2>&1 &
    begun=$name
    sleep 0.2 # the first of them begin in this order
}
export -f slot
export out at_once
run() {  # NAME GPUS SCRIPT ARGUMENT ...
    job "$1" "$2" python3 "$3" "$model" "$out/$1.json" "${@:4}"
}
# Blocks of ten short requests: what comes over a block's end preempts another.
soak=(--calm 12 --num-gpu-blocks-override 41 --max-num-seqs 40 --max-model-len 4096 "${small[@]}")
executors=(mp)
python3 -c "import ray" 2> /dev/null && executors+=(ray)
if [ "$gpus" -gt 1 ]; then
    run soak-ranks 0,1 tests/soak/soak.py --port 8783 --requests 600 --seconds "${SOAK_S:-600}" \
        "${soak[@]}" "${two[@]}"
    # It is the longest, and starts sooner alone.
    [ "${begun:-}" != soak-ranks ] || sleep "${SOAK_AHEAD_S:-60}"
fi
[ -z "$tests" ] || job tests 0 ci/gpu/kernel_tests.sh "$tests" "$out/kt"
run soak $((gpus > 1)) tests/soak/soak.py "${soak[@]}"
if [ "$gpus" -gt 1 ]; then
    for executor in "${executors[@]}"; do
        port=$((8790 + ${#executor}))
        run "serve-$executor" 0,1 tests/gpu/serve.py --port $port "${small[@]}" "${two[@]}" \
            --distributed-executor-backend "$executor"
    done
    run faults-ranks 0,1 tests/soak/faults.py --port 8771 --ranks 2 "${small[@]}"
    run parity-ranks 0,1 tests/gpu/parity.py --ranks 2 --executors "${executors[@]}"
fi
run faults $((gpus > 1)) tests/soak/faults.py "${small[@]}"
run serve 0 tests/gpu/serve.py "${small[@]}"
run parity $((gpus > 1)) tests/gpu/parity.py
run sleep 0 tests/gpu/sleep.py
run parity-executors 0 tests/gpu/parity.py --executors "${executors[@]}"
running() { for name in "${names[@]}"; do [ -e "$out/$name.rc" ] || echo "$name"; done; }
while [ -n "$(running)" ] && [ $SECONDS -lt $end ]; do sleep 1; done
code=0
for name in "${names[@]}"; do
    if [ ! -e "$out/$name.rc" ]; then echo "$name: still runs"; [ $code = 1 ] || code=3
    elif [ "$(cat "$out/$name.rc")" != 0 ]; then
        code=1
        echo "$name: exit code $(cat "$out/$name.rc")"
        tail -c 1500 "$out/$name.out"
    else echo "$name: passed"; fi
done
exit $code
