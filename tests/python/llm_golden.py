"""Small models with weights from a seed, and what transformers computes with them: tests/data/llm/*.json.

A tensor's weights are a function of the seed, its name and its shape alone, so that a file holds names and no numbers.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "data" / "llm"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read(name: str) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    golden["logits"] = from_text(golden["logits"]).reshape(len(golden["positions"]), -1)
    return golden


def to_text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def from_text(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def uniform(seed: int, name: str, count: int) -> np.ndarray:
    """float32 in [-1, 1), multiples of 2^-23, by Philox with a key of the seed and the name."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    raw = np.random.Philox(key=int.from_bytes(digest[:16], "little")).random_raw(count)
    return ((raw >> np.uint64(40)).astype(np.float32) / 2**23 - 1).astype(np.float32)


def weights(seed: int, shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Of a size that keeps activations near 1: norms in [0.5, 1.5), biases in [-0.5, 0.5)."""
    tensors = {}
    for name, shape in shapes.items():
        values = uniform(seed, name, int(np.prod(shape))).reshape(shape)
        if len(shape) == 1:
            values = values / 2 + np.float32(0 if name.endswith("bias") else 1)
        elif "embed" in name or name in ("wte.weight", "wpe.weight"):
            values = values * np.float32(1.5)
        else:
            # Matrices are [outputs, inputs], but for GPT-2's and for stacks of experts.
            inputs = shape[-2] if len(shape) == 3 or ".attn.c_" in name or ".mlp.c_" in name else shape[-1]
            values = values * np.float32(2.5 / np.sqrt(inputs))
        tensors[name] = values.astype(np.float32)
    return tensors
