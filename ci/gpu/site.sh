# Sourced on a GPU host without network: unpacks the slices of make gpu-bundle that are in $SLICES
# to $SITE, each once, and points Python at them. bundle-00 alone is enough for kernel tests. A host
# that has the wheel installed needs none.
SLICES=${SLICES:-/tmp} SITE=${SITE:-/tmp/site}
if [ -z "$(ls "$SLICES"/bundle-* "$SITE"/.bundle-* 2> /dev/null)" ] &&
    ! (cd / && python3 -m vllm.series_provenance > /dev/null 2>&1); then
    echo "$SLICES holds no bundle-*; make them with make gpu-bundle and name their folder" \
        "in SLICES, or install the wheel." >&2
    exit 2
fi
mkdir -p "$SITE"
for piece in "$SLICES"/bundle-??.1of*; do  # a slice cut by hand: bundle-01.1of2, bundle-01.2of2
    [ -e "$piece" ] || continue
    whole=${piece%.1of*} count=${piece##*.1of} pieces=()
    for number in $(seq 1 "$count"); do pieces+=("$whole.${number}of$count"); done
    if ls "${pieces[@]}" > /dev/null 2>&1; then
        cat "${pieces[@]}" > "$SITE/.joining" && xz -t < "$SITE/.joining" &&
            mv "$SITE/.joining" "$whole" && rm "${pieces[@]}" || exit 2
    fi
done
for slice in "$SLICES"/bundle-??; do
    if [ -e "$slice" ] && [ ! -e "$SITE/.$(basename "$slice")" ]; then
        tar xJf "$slice" -C "$SITE" && touch "$SITE/.$(basename "$slice")" || exit 2
    fi
done
export PYTHONPATH=$SITE VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1
# NVLink multicast of one program can take the GPUs of a shared host out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 VLLM_ALLREDUCE_USE_SYMM_MEM=0
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 RAY_USAGE_STATS_ENABLED=0
