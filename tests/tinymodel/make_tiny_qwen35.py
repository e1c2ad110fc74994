"""Train a tiny Qwen3.5 checkpoint (byte vocabulary, trained MTP head) on one CPU core.

It takes about four minutes.

    python tests/tinymodel/make_tiny_qwen35.py OUT [--steps N] [--threads N]

Same machine, library versions and thread count give the same bytes; another thread count or CPU
does not.  The result has the tensor names of the real Qwen3.5 checkpoints, so vLLM loads it as
Qwen3_5ForConditionalGeneration.  The text part is 3 Gated DeltaNet layers and 1 full
attention layer; the vision tower is random and only there to be loadable.  Token id = byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import pathlib
import time
from typing import Any

import tokenizers
import torch
import torch.nn.functional as F
import transformers.models.qwen3_5.modeling_qwen3_5 as qwen
from safetensors.torch import save_file
from tasks import Tasks, docstrings
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, Qwen3_5Config
from transformers.convert_slow_tokenizer import bytes_to_unicode

START = time.monotonic()
SEED = 0
HIDDEN, VOCAB = 256, 320
K_HEADS, V_HEADS, GDN_DIM = 2, 4, 128  # two value heads per key head; TP=2 gives 1 and 2
ATTN_HEADS, KV_HEADS, ATTN_DIM = 4, 2, 64
SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
EOS, _, _, VISION_START, VISION_END, IMAGE, VIDEO = range(256, 256 + len(SPECIALS))

TEXT: dict[str, Any] = dict(
    model_type="qwen3_5_text",
    hidden_size=HIDDEN,
    intermediate_size=2 * HIDDEN,
    num_hidden_layers=4,
    full_attention_interval=4,
    layer_types=["linear_attention"] * 3 + ["full_attention"],
    num_attention_heads=ATTN_HEADS,
    num_key_value_heads=KV_HEADS,
    head_dim=ATTN_DIM,
    linear_num_key_heads=K_HEADS,
    linear_num_value_heads=V_HEADS,
    linear_key_head_dim=GDN_DIM,
    linear_value_head_dim=GDN_DIM,
    linear_conv_kernel_dim=4,
    attn_output_gate=True,
    mamba_ssm_dtype="float32",
    hidden_act="silu",
    rms_norm_eps=1e-6,
    mtp_num_hidden_layers=1,
    mtp_use_dedicated_embeddings=False,
    vocab_size=VOCAB,
    tie_word_embeddings=True,
    eos_token_id=EOS,
    dtype="bfloat16",
    max_position_embeddings=32768,
    partial_rotary_factor=0.25,
    rope_parameters=dict(
        rope_type="default",
        rope_theta=1e7,
        partial_rotary_factor=0.25,
        mrope_interleaved=True,
        mrope_section=[4, 2, 2],
    ),
)
CONFIG: dict[str, Any] = dict(
    architectures=["Qwen3_5ForConditionalGeneration"],
    model_type="qwen3_5",
    text_config=TEXT,
    vision_config=dict(
        model_type="qwen3_5",
        depth=1,
        hidden_size=64,
        num_heads=2,
        intermediate_size=64,
        out_hidden_size=HIDDEN,
        num_position_embeddings=64,
        patch_size=16,
        spatial_merge_size=2,
        temporal_patch_size=2,
        deepstack_visual_indexes=[],
    ),
    image_token_id=IMAGE,
    video_token_id=VIDEO,
    vision_start_token_id=VISION_START,
    vision_end_token_id=VISION_END,
    tie_word_embeddings=True,
)

# ---------------------------------------------------------------- model


def delta_rule(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, **_: object
) -> tuple[Tensor, None]:
    """Gated delta rule from a zero state, the whole sequence as one chunk (faster than
    64-token chunks here).
    """
    b, t, hk, d = query.shape
    group = value.shape[2] // hk
    q, k = (F.normalize(x.float(), dim=-1, eps=1e-6).transpose(1, 2) for x in (query, key))
    log_decay = g.float().cumsum(1).transpose(1, 2)
    future = torch.ones(t, t, dtype=torch.bool).triu(1)
    decay = (
        (log_decay[..., :, None] - log_decay[..., None, :]).masked_fill(future, -torch.inf).exp()
    )
    decay = decay.view(b, hk, group, t, t)
    system = (
        (k @ k.mT)[:, :, None] * decay * beta.float().transpose(1, 2).reshape(b, hk, group, t, 1)
    )
    writes = (value * beta[..., None]).float().transpose(1, 2)
    writes = torch.linalg.solve_triangular(
        system.flatten(1, 2), writes, upper=False, unitriangular=True
    )
    out = ((q @ k.mT)[:, :, None] * decay * d**-0.5).flatten(1, 2) @ writes
    return out.transpose(1, 2).to(query.dtype), None


class MTP(nn.Module):
    """Predicts token t+2 from the final hidden state at t and the embedding of token t+1."""

    def __init__(self, config: qwen.Qwen3_5TextConfig) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.layers = nn.ModuleList(
            [qwen.Qwen3_5DecoderLayer(config, TEXT["layer_types"].index("full_attention"))]
        )
        self.norm, self.pre_fc_norm_embedding, self.pre_fc_norm_hidden = (
            qwen.Qwen3_5RMSNorm(HIDDEN, eps=config.rms_norm_eps) for _ in range(3)
        )

    def forward(self, embeds: Tensor, hidden: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        x = torch.cat([self.pre_fc_norm_embedding(embeds), self.pre_fc_norm_hidden(hidden)], dim=-1)
        return self.norm(self.layers[0](self.fc(x), position_embeddings=rope))


def init_weights(model: nn.Module) -> None:
    for name, param in model.named_parameters():
        if param.ndim == 2:
            nn.init.normal_(param, std=0.08 if "embed" in name else param.shape[1] ** -0.5)
    for module in model.modules():
        if isinstance(module, qwen.Qwen3_5GatedDeltaNet):
            dt = torch.exp(
                torch.empty(V_HEADS).uniform_(math.log(1e-3), math.log(0.1))
            )  # as in Mamba
            module.dt_bias.data.copy_(dt + torch.log(-torch.expm1(-dt)))
            module.A_log.data.uniform_(1, 8).log_()
            # Keys look one token back, queries and values at the present one, so that the state
            # starts as a table "what followed this token".  Without this, copying is not learned
            # in so few steps.
            taps = module.conv1d.weight.data.mul_(0.3)[:, 0]
            keys = slice(module.key_dim, 2 * module.key_dim)
            taps[:, -1] += 1
            taps[keys, -1] -= 1
            taps[keys, -2] += 1


def clock() -> str:
    return f"{time.monotonic() - START:4.0f} s ({time.process_time():.0f} s CPU)"


def train(trunk: qwen.Qwen3_5TextModel, mtp: MTP, tasks: Tasks, steps: int) -> None:
    named = [*trunk.named_parameters(), *mtp.named_parameters()]
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in named if p.ndim != 2 or "embed" in n]
    optims = [
        torch.optim.Muon(matrices, lr=0.02, weight_decay=0.0),
        torch.optim.AdamW(others, lr=8e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]
    peaks = [o.param_groups[0]["lr"] for o in optims]
    embed = trunk.embed_tokens
    seen: dict[str, list[list[float]]] = {}
    for step in range(steps):
        done = step / steps
        length, rows = (128, 8) if done < 0.7 else (256, 4)
        for optim, peak in zip(optims, peaks, strict=True):
            optim.param_groups[0]["lr"] = peak * min(1.0, (step + 1) / 10, (1 - done) / 0.7)
        names, documents = tasks.batch(
            rows, length + 3, copy_weight=8 if done < 0.25 else 2
        )  # copying first
        tokens = torch.tensor(documents)
        inputs, *targets = (tokens[:, i : i + length] for i in range(4))
        with torch.autocast("cpu", torch.bfloat16):
            hidden = trunk(input_ids=inputs, use_cache=False).last_hidden_state
            rope = trunk.rotary_emb(hidden, torch.arange(length).expand(3, 1, -1))
            logits, state = [hidden @ embed.weight.T], hidden
            # The head also learns to read its own state, as it must for the second and third draft.
            for target in targets[: 2 if done >= 0.6 else 1]:
                state = mtp(embed(target).detach(), state.detach(), rope)
                logits.append(state @ embed.weight.detach().T)
        losses = torch.stack(
            [
                F.cross_entropy(x.float().mT, y, reduction="none").mean(1)
                for x, y in zip(logits, targets, strict=False)
            ]
        )
        for optim in optims:
            optim.zero_grad()
        losses.mean(1).sum().backward()
        nn.utils.clip_grad_norm_(others, 1.0)
        for optim in optims:
            optim.step()
        for name, row in zip(names, losses.T.tolist(), strict=True):
            seen.setdefault(name, []).append(row)
        if (step + 1) % 50 == 0 or step + 1 == steps:
            means = {
                n: [sum(x) / len(x) for x in zip(*r, strict=False)] for n, r in sorted(seen.items())
            }
            print(
                f"step {step + 1}, {clock()}; loss main/draft: "
                + ", ".join(
                    f"{n} {'/'.join(f'{x:.2f}' for x in mean)}" for n, mean in means.items()
                ),
                flush=True,
            )
            seen.clear()


# ---------------------------------------------------------------- output


def save(model: nn.Module, mtp: MTP, out: pathlib.Path) -> None:
    tensors = {
        n: t for n, t in model.state_dict().items() if n != "lm_head.weight"
    }  # tied to embed_tokens
    tensors |= {f"mtp.{n}": t for n, t in mtp.state_dict().items()}
    tensors = {
        n: t.float() if n.endswith("A_log") else t.bfloat16() for n, t in sorted(tensors.items())
    }
    out.mkdir(parents=True, exist_ok=True)
    save_file(
        {n: t.contiguous() for n, t in tensors.items()},
        out / "model.safetensors",
        metadata={"format": "pt"},
    )
    (out / "config.json").write_text(json.dumps(CONFIG, indent=1))

    tok = tokenizers.Tokenizer(
        tokenizers.models.BPE({c: b for b, c in bytes_to_unicode().items()}, [])
    )
    tok.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.decoder = tokenizers.decoders.ByteLevel()
    tok.add_special_tokens(SPECIALS)
    PreTrainedTokenizerFast(
        tokenizer_object=tok, eos_token=SPECIALS[0], pad_token=SPECIALS[0]
    ).save_pretrained(out)

    data = (out / "model.safetensors").read_bytes()
    print(
        f"{len(tensors)} tensors, {len(data) / 1e6:.1f} MB, "
        f"sha256 {hashlib.sha256(data).hexdigest()[:16]}, in {out}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=420)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    qwen.torch_chunk_gated_delta_rule = delta_rule
    model = qwen.Qwen3_5ForConditionalGeneration(Qwen3_5Config(**CONFIG)).float()
    trunk = model.model.language_model
    mtp = MTP(trunk.config)
    init_weights(trunk)
    init_weights(mtp)
    corpus = docstrings()
    print(
        f"{sum(p.numel() for m in (trunk, mtp) for p in m.parameters()) / 1e6:.2f} M parameters, "
        f"corpus sha256 {hashlib.sha256(corpus.encode()).hexdigest()[:16]}"
    )
    train(trunk, mtp, Tasks(SEED, corpus), args.steps)
    save(model, mtp, args.out)
    print(f"total {clock()}")


if __name__ == "__main__":
    main()
