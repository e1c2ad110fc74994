"""Model folders with the geometry of real Qwen hybrids and no weights.

`python bench/geometry.py NAME OUT` writes OUT/config.json; vLLM then loads it with
`load_format="dummy"`. Layer counts may be cut; the name says so.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

FULL_ATTENTION_INTERVAL = 4

GEOMETRIES: dict[str, dict[str, Any]] = {
    "qwen3.5-0.8b": {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 16,
        "tie_word_embeddings": True,
    },
    "qwen3.6-27b-8-of-64-layers": {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 8,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "tie_word_embeddings": False,
    },
}
GEOMETRIES["qwen3.6-27b"] = GEOMETRIES["qwen3.6-27b-8-of-64-layers"] | {"num_hidden_layers": 64}

# What an engine of a geometry takes besides its cache, and the cache it gets. "tiny" is the
# trained checkpoint of tests/tinymodel.
WEIGHTS_GIB = {
    "qwen3.5-0.8b": 4.5,
    "qwen3.6-27b-8-of-64-layers": 15.2,
    "qwen3.6-27b": 63.0,
    "tiny": 2.5,
}
# Enough for 128 requests of a few hundred tokens with the snapshots of 4 drafts, where it fits.
KV_GIB = {"qwen3.5-0.8b": 15, "qwen3.6-27b-8-of-64-layers": 16, "qwen3.6-27b": 8, "tiny": 2}
# Of an engine that has the GPU to itself: 256 requests of the whole 27B with the window, or
# without drafts, and about 70 with the snapshots of 4 drafts.
ALONE_KV_GIB = 60


def config(name: str) -> dict[str, Any]:
    """The Hugging Face config of a geometry, its vision tower cut to one layer."""
    text = {
        "model_type": "qwen3_5_text",
        "full_attention_interval": FULL_ATTENTION_INTERVAL,
        "head_dim": 256,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "vocab_size": 248320,
        "eos_token_id": 248044,
        "dtype": "bfloat16",
        "max_position_embeddings": 262144,
        "partial_rotary_factor": 0.25,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e7,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
        },
        **GEOMETRIES[name],
    }
    text["layer_types"] = [
        "full_attention" if (i + 1) % FULL_ATTENTION_INTERVAL == 0 else "linear_attention"
        for i in range(text["num_hidden_layers"])
    ]
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "tie_word_embeddings": text["tie_word_embeddings"],
        "text_config": text,
        "vision_config": {
            "model_type": "qwen3_5_vision",
            "depth": 1,
            "hidden_size": 64,
            "num_heads": 2,
            "intermediate_size": 64,
            "out_hidden_size": text["hidden_size"],
            "num_position_embeddings": 64,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "deepstack_visual_indexes": [],
        },
        "image_token_id": 248056,
        "video_token_id": 248057,
        "vision_start_token_id": 248053,
        "vision_end_token_id": 248054,
    }


def write(name: str, out: Path, *, tokenizer: bool = False) -> Path:
    """Write the model folder and return it; a tokenizer only where a server needs one."""
    out.mkdir(parents=True, exist_ok=True)
    found = config(name)
    (out / "config.json").write_text(json.dumps(found, indent=1))
    if tokenizer:
        write_tokenizer(out, found["text_config"]["vocab_size"])
    return out


def write_tokenizer(out: Path, size: int) -> None:
    """Write a tokenizer whose token n is the word "n": every token has a text of its own."""
    model = {"type": "WordLevel", "vocab": {str(n): n for n in range(size)}, "unk_token": "0"}
    whole = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
        "decoder": None, "model": model,
    }  # fmt: skip
    (out / "tokenizer.json").write_text(json.dumps(whole))
    (out / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "0"})
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(GEOMETRIES))
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    print(write(arguments.name, arguments.out))
