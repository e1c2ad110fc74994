# Sourced on a GPU host without network: unpacks the bundle slices of make gpu-bundle from
# $SLICES to $SITE once, and points Python at them.
SLICES=${SLICES:-/tmp} SITE=${SITE:-/tmp/site}
if [ ! -e "$SITE/.unpacked" ]; then
    if ! ls "$SLICES"/bundle-* > /dev/null 2>&1; then
        echo "$SLICES holds no bundle-*; make them with make gpu-bundle and name their folder" \
            "in SLICES." >&2
        exit 2
    fi
    mkdir -p "$SITE"
    cat "$SLICES"/bundle-* | tar xJf - -C "$SITE" && touch "$SITE/.unpacked" || exit 2
fi
export PYTHONPATH=$SITE VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
