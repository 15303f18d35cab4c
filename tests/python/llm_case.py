"""Checkpoints of known models, and small ones with random weights, for tests of pygpukit.llm."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np


def golden(assets: Path, name: str) -> tuple[list[int], list[int]]:
    """A prompt, and the ids of prompt and greedy continuation, computed in float32 by another program."""
    data = json.loads((assets / name / "golden_greedy.json").read_text())
    return data["prompt_ids"], data["greedy_ids_fp32_reference"]


def partials(assets: Path) -> dict[str, np.ndarray]:
    """Activations of gpt-nano-sort."""
    data = json.loads((assets / "gpt-nano-sort" / "gpt-nano-sort-t0-partials.json").read_text())
    return {
        name: np.frombuffer(base64.b64decode(value["data"]), np.float32).reshape(value["shape"])
        for name, value in data.items()
        if name != "config"
    }


NAMES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int32): "I32", np.dtype(np.uint8): "U8"}


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], names: dict[str, str] | None = None) -> None:
    """`names` gives the format's name of a dtype where NumPy has none."""
    header: dict[str, Any] = {}
    blobs = []
    offset = 0
    for name, tensor in tensors.items():
        blob = np.ascontiguousarray(tensor).tobytes()
        dtype = (names or {}).get(name) or NAMES[tensor.dtype]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


BASE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 61,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def llama_config(model_type: str = "llama", **changes: Any) -> dict[str, Any]:
    return {"model_type": model_type, **BASE, **changes}


def llama_tensors(
    config: dict[str, Any], seed: int = 0, biases: bool = False, qk_norm: bool = False
) -> dict[str, np.ndarray]:
    """Random float32 weights under Hugging Face's names, of a size that keeps activations near 1."""
    rng = np.random.default_rng(seed)
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim") or hidden // heads

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def gamma(size: int) -> np.ndarray:
        return rng.uniform(0.5, 1.5, size).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(vocab, hidden) * 6, "model.norm.weight": gamma(hidden)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        tensors[p + "input_layernorm.weight"] = gamma(hidden)
        tensors[p + "post_attention_layernorm.weight"] = gamma(hidden)
        for name, rows in (("q", heads * dim), ("k", kv_heads * dim), ("v", kv_heads * dim)):
            tensors[p + f"self_attn.{name}_proj.weight"] = matrix(rows, hidden) * 2
            if biases:
                tensors[p + f"self_attn.{name}_proj.bias"] = rng.normal(size=rows).astype(np.float32)
        tensors[p + "self_attn.o_proj.weight"] = matrix(hidden, heads * dim)
        if qk_norm:
            tensors[p + "self_attn.q_norm.weight"] = gamma(dim)
            tensors[p + "self_attn.k_norm.weight"] = gamma(dim)
        if experts := config.get("num_local_experts") or config.get("num_experts"):
            mixtral = config["model_type"] == "mixtral"
            stem = p + ("block_sparse_moe." if mixtral else "mlp.")
            names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
            width = config.get("moe_intermediate_size", inner)
            tensors[stem + "gate.weight"] = matrix(experts, hidden)
            for e in range(experts):
                for name, (rows, columns) in zip(
                    names, ((width, hidden), (width, hidden), (hidden, width)), strict=True
                ):
                    tensors[stem + f"experts.{e}.{name}.weight"] = matrix(rows, columns)
        else:
            for name, (rows, columns) in (
                ("gate", (inner, hidden)),
                ("up", (inner, hidden)),
                ("down", (hidden, inner)),
            ):
                tensors[p + f"mlp.{name}_proj.weight"] = matrix(rows, columns)
    return tensors


def save(
    folder: Path, config: dict[str, Any], tensors: dict[str, np.ndarray], names: dict[str, str] | None = None
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors, names)
    return folder


# The forward in float64, written again from the papers.


def rms(x: np.ndarray, gamma: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * gamma


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def frequencies(config: dict[str, Any], dim: int) -> np.ndarray:
    f = config["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    scaling = config.get("rope_scaling")
    if not scaling:
        return f
    factor = scaling["factor"]
    if scaling["rope_type"] == "linear":
        return f / factor
    if scaling["rope_type"] == "yarn":
        length = scaling["original_max_position_embeddings"]

        def pair_of(turns: float) -> float:
            return dim * np.log(length / (turns * 2 * np.pi)) / (2 * np.log(config["rope_theta"]))

        low, high = max(np.floor(pair_of(32)), 0), min(np.ceil(pair_of(1)), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 1e-3), 0, 1)
        return f * (1 - ramp) + f / factor * ramp
    assert scaling["rope_type"] == "llama3"
    length, low, high = (
        scaling["original_max_position_embeddings"],
        scaling["low_freq_factor"],
        scaling["high_freq_factor"],
    )
    smooth = np.clip((length * f / (2 * np.pi) - low) / (high - low), 0, 1)
    return f / factor * (1 - smooth) + f * smooth


def turn(x: np.ndarray, angles: np.ndarray, factor: float) -> np.ndarray:
    """x [tokens, heads, dim] by angles [tokens, dim / 2], halves against each other; tables times factor."""
    a, b = np.split(x, 2, -1)
    c, s = factor * np.cos(angles)[:, None], factor * np.sin(angles)[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def reference_logits(config: dict[str, Any], tensors: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    heads, kv_heads, eps = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    dim = config.get("head_dim") or config["hidden_size"] // heads
    tokens = len(ids)
    positions = np.arange(tokens)
    distance = positions[:, None] - positions
    window = config.get("sliding_window") if config["model_type"] in ("mistral", "mixtral") else None
    seen = (distance >= 0) & (distance < (window or tokens))
    angles = positions[:, None] * frequencies(config, dim)
    scaling = config.get("rope_scaling") or {}
    factor = 0.1 * np.log(scaling["factor"]) + 1 if scaling.get("rope_type") == "yarn" else 1.0
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = rms(x, w[p + "input_layernorm.weight"], eps)

        def project(name: str, count: int, h: np.ndarray = h, p: str = p) -> np.ndarray:
            y = h @ w[p + f"self_attn.{name}_proj.weight"].T + w.get(p + f"self_attn.{name}_proj.bias", 0)
            return y.reshape(tokens, count, dim)

        q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads)
        if p + "self_attn.q_norm.weight" in w:
            q, k = rms(q, w[p + "self_attn.q_norm.weight"], eps), rms(k, w[p + "self_attn.k_norm.weight"], eps)
        q, k = turn(q, angles, factor), turn(k, angles, factor)
        k, v = (np.repeat(a, heads // kv_heads, 1) for a in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(dim)
        attended = np.einsum("hqk,khd->qhd", softmax(np.where(seen, scores, -np.inf)), v)
        x = x + attended.reshape(tokens, -1) @ w[p + "self_attn.o_proj.weight"].T + w.get(p + "self_attn.o_proj.bias", 0)
        h = rms(x, w[p + "post_attention_layernorm.weight"], eps)
        x = x + reference_mlp(config, w, p, h)
    x = rms(x, w["model.norm.weight"], eps)
    return x @ w["model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"].T


def reference_mlp(config: dict[str, Any], w: dict[str, np.ndarray], p: str, h: np.ndarray) -> np.ndarray:
    mixtral = config["model_type"] == "mixtral"
    stem = p + ("block_sparse_moe." if mixtral else "mlp.")
    names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")

    def gated(x: np.ndarray, at: str) -> np.ndarray:
        def layer(name: str, y: np.ndarray) -> np.ndarray:
            return y @ w[at + f"{name}.weight"].T + w.get(at + f"{name}.bias", 0)

        gate, up, down = names
        return layer(down, silu(layer(gate, x)) * layer(up, x))

    if stem + "gate.weight" not in w:
        return gated(h, stem)
    gates = softmax(h @ w[stem + "gate.weight"].T)
    result = np.zeros_like(h)
    for t in range(len(h)):
        chosen = np.argsort(-gates[t], kind="stable")[: config["num_experts_per_tok"]]
        weights = gates[t, chosen]
        if mixtral or config.get("norm_topk_prob"):
            weights = weights / weights.sum()
        for e, weight in zip(chosen, weights, strict=True):
            result[t] += weight * gated(h[t], stem + f"experts.{e}.")
    return result
