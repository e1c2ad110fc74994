"""bench/engine.py on a CPU: a model of four small layers, every Triton kernel interpreted."""

from __future__ import annotations

import sys
from pathlib import Path

import harness

harness.install("kernels")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import engine
import geometry

geometry.GEOMETRIES["micro"] = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 1,
    "tie_word_embeddings": True,
}
geometry.WEIGHTS_GIB["micro"] = 1

if __name__ == "__main__":
    engine.main([*sys.argv[1:], "--eager"])
