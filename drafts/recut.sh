#!/usr/bin/env bash
# Cut the series so that each patch's tests pass with it; the tree stays. To be run once, in vendor/vllm
# on the branch series, after the mails of drafts/vllm: ../../drafts/recut.sh; then make refresh.
set -euo pipefail
messages=$(cd "$(dirname "$0")/messages" && pwd)
plan="vllm/model_executor/layers/mamba/ops/gdn_recoverssm/plan.py tests/kernels/mamba/test_gdn_recoverssm_plan.py"
state=vllm/v1/worker/gpu/model_states/mamba_hybrid.py
of() { git log --format=%H --grep="$1" series-base..series | tail -1; }
verify=$(of "GDN RecoverSSM: verify behind a window") kernels=$(of "commit windows in all layers")
block=$(of "one state block per request") builder=$(of "plan which windows a step commits")
counts=$(of "hand slots and accepted counts") before=$(git rev-parse "series^{tree}")
new=$(git rev-parse "$verify^")
cut() {  # COMMIT MESSAGE_OF FILES_OF FILE ...: COMMIT's tree with the files of another commit
    local index tree
    index=$(mktemp -u) && export GIT_INDEX_FILE=$index
    git read-tree "$1^{tree}"
    for file in "${@:4}"; do git update-index --add --cacheinfo "100644,$(git rev-parse "$3:$file"),$file"; done
    tree=$(git write-tree)
    unset GIT_INDEX_FILE && rm -f "$index"
    new=$(GIT_AUTHOR_NAME=$(git log -1 --format=%an "$1") GIT_AUTHOR_EMAIL=$(git log -1 --format=%ae "$1") \
        GIT_AUTHOR_DATE=$(git log -1 --format=%aI "$1") git commit-tree "$tree" -p "$new" -F "$2")
}
git log -1 --format=%B "$block" > "$messages/.block"
# shellcheck disable=SC2086
cut "$kernels" "$messages/kernels" "$builder" $plan
# shellcheck disable=SC2086
cut "$block" "$messages/.block" "$builder" $plan
rm "$messages/.block"
cut "$builder" "$messages/metadata-builder" "$counts" "$state"
cut "$counts" "$messages/layer" "$counts"
git rebase -q --onto "$new" "$counts" series
[ "$(git rev-parse "series^{tree}")" = "$before" ]
git log --format=%s series-base..series
