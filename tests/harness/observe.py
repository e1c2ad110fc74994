"""What the engine did in each step, and the recurrent state that it left behind.  Hooks only."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from harness import records
from harness.hooks import after


class Observer:
    """`name_of` maps the engine's request ids to the scenario's; `watched` are the requests
    whose state is kept.
    """

    def __init__(self, name_of: Callable[[str], str], watched: Collection[str]) -> None:
        self.name_of, self.watched = name_of, frozenset(watched)
        # For every step, request -> [computed before, scheduled, drafts among them, sampled]
        self.steps: list[dict[str, list[int]]] = []
        # For every step, request -> the gap between the two likeliest tokens of each draft that
        # a model proposed for it
        self.draft_margins: list[dict[str, list[float]]] = []
        self.blocks: dict[
            str, list[list[int]]
        ] = {}  # request -> blocks of each recurrent cache group
        self.late = 0  # rows of requests that had ended when their step's tokens came
        self.states: dict[str, Any] = {}  # "request/computed tokens/layer number/part" -> array
        # First layer of a recurrent cache group -> commits and tokens that it was handed
        self.commits: dict[str, list[int]] = {}
        self.request_bytes = 0  # of a request's block and window in all recurrent layers
        self._names: dict[int, str] = {}  # of the runner's slots
        self._proposed: dict[str, list[float]] = {}  # by the step that runs, for the next one
        self._verified: dict[str, list[float]] = {}  # what the step before proposed for this one

    def install(self, runner: bool) -> None:
        """`runner`: also look into the V2 model runner."""

        @after("vllm.v1.core.sched.scheduler")
        def _(module: Any) -> None:
            original = module.Scheduler.update_from_output

            def update(scheduler: Any, scheduled: Any, output: Any) -> Any:
                self._record_step(scheduler, scheduled, output)
                return original(scheduler, scheduled, output)

            module.Scheduler.update_from_output = update

        if not runner:
            return

        @after("vllm.v1.worker.gpu.model_runner")
        def _(module: Any) -> None:
            original = module.GPUModelRunner.postprocess_sampled

            def postprocess(runner: Any, idx_mapping: Any, *args: Any, **kwargs: Any) -> None:
                original(runner, idx_mapping, *args, **kwargs)
                self._names = {
                    slot: self.name_of(request_id)
                    for request_id, slot in runner.req_states.req_id_to_index.items()
                }
                self._record_state(runner, idx_mapping.tolist())
                self.request_bytes = records.request_bytes(runner)

            module.GPUModelRunner.postprocess_sampled = postprocess

        @after("vllm.v1.attention.backends.gdn_recoverssm")
        def _(module: Any) -> None:
            original = module.GDNRecoverSSMMetadataBuilder.commit

            def commit(builder: Any, *rows: Any) -> None:
                # A line without prefix caching hands over what its plan staged, as one tensor.
                states, lens = (rows[0], rows[2]) if len(rows) > 1 else rows[0][0::3]
                done = lens[(states > 0) & (lens > 0)].tolist()
                counts = self.commits.setdefault(builder.layer_names[0], [0, 0])
                counts[0] += len(done)
                counts[1] += sum(done)
                original(builder, *rows)

            module.GDNRecoverSSMMetadataBuilder.commit = commit

        @after("vllm.v1.worker.gpu.spec_decode.speculator")
        def _(module: Any) -> None:
            speculator = module.DraftModelSpeculator
            # What returns the logits, or, on 0.31.0, what reads them first.
            returns = hasattr(speculator, "compute_draft_logits")
            name = "compute_draft_logits" if returns else "_maybe_predict_acceptance"
            original = getattr(speculator, name)

            def observed(drafter: Any, *args: Any, **kwargs: Any) -> Any:
                result = original(drafter, *args, **kwargs)
                self._record_margins(drafter, result if returns else args[0])
                return result

            setattr(speculator, name, observed)

    def _record_margins(self, drafter: Any, logits: Any) -> None:
        best = logits.float().topk(2).values
        margins = (best[:, 0] - best[:, 1]).tolist()
        for slot, margin in zip(drafter.idx_mapping.tolist(), margins, strict=False):
            if slot in self._names:
                self._proposed.setdefault(self._names[slot], []).append(margin)

    def _record_step(self, scheduler: Any, scheduled: Any, output: Any) -> None:
        step = {}
        for request_id, count in scheduled.num_scheduled_tokens.items():
            request = scheduler.requests.get(request_id)
            if request is None:  # ended while it ran
                self.late += 1
                continue
            drafts = len(scheduled.scheduled_spec_decode_tokens.get(request_id, ()))
            sampled = len(output.sampled_token_ids[output.req_id_to_index[request_id]])
            step[self.name_of(request_id)] = [
                request.num_computed_tokens - count,
                count,
                drafts,
                sampled,
            ]
        if step:
            self.steps.append(step)
            self.draft_margins.append({name: self._verified.get(name, []) for name in step})
        self._verified, self._proposed = self._proposed, {}

    def _record_state(self, runner: Any, slots: list[int]) -> None:
        """After the step: the state of each request's accepted tokens, wherever its path keeps
        it.

        With the window the request's block lacks what its last steps accepted, which the window
        adds.  Without it the state of the accepted prefix is in the block at accepted count - 1,
        and its convolution history that far into the first.
        """
        from vllm.v1.kv_cache_interface import MambaSpec

        ids = {slot: request_id for request_id, slot in runner.req_states.req_id_to_index.items()}
        tables = runner.block_tables
        window = getattr(runner.cache_config, "use_gdn_recoverssm", False)
        layers = runner.vllm_config.compilation_config.static_forward_context
        for group, spec in enumerate(runner.kv_cache_config.kv_cache_groups):
            if not isinstance(spec.kv_cache_spec, MambaSpec):
                continue
            for slot in slots:
                name = self.name_of(ids[slot])
                table = (
                    tables.block_tables[group]
                    .gpu[slot, : tables.num_blocks.np[group, slot]]
                    .tolist()
                )
                per_group = self.blocks.setdefault(
                    name, [[] for _ in runner.kv_cache_config.kv_cache_groups]
                )
                per_group[group] = table
                if name not in self.watched:
                    continue
                computed = int(runner.req_states.num_computed_tokens.gpu[slot])
                accepted = int(runner.model_state.num_accepted_tokens_gpu[slot])
                pending = records.pending(runner, group, slot) if window else 0
                for layer_name in spec.layer_names:
                    layer = layers[layer_name]
                    if window:
                        history, state = records.advanced(layer, table[0], slot, pending)
                    else:
                        conv, temporal = layer.kv_cache[:2]
                        width = layer.conv_kernel_size - 1
                        history = conv[table[0], accepted - 1 : accepted - 1 + width]
                        state = temporal[table[accepted - 1]]
                    key = f"{name}/{computed}/{layer_name}"
                    self.states[f"{key}/conv"] = history.float().numpy().copy()
                    self.states[f"{key}/temporal"] = state.float().numpy().copy()
