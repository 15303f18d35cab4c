"""Whisper models of random weights, small but of the layout of real ones: for the goldens' script and for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

_SMALL = {
    "d_model": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "max_source_positions": 50, "max_target_positions": 32, "activation_function": "gelu",
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    # 128 bands, four layers that decode for more that encode, the vocabulary with Cantonese.
    "large-v3-turbo": {**_SMALL, "num_mel_bins": 128, "encoder_layers": 6, "decoder_layers": 4, "vocab_size": 51866},
    # Two layers that decode, English alone.
    "distilled": {**_SMALL, "num_mel_bins": 80, "encoder_layers": 4, "decoder_layers": 2, "vocab_size": 51864},
}


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor by its name in a checkpoint."""
    d, bands = config["d_model"], config["num_mel_bins"]
    found: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (d, bands, 3), "encoder.conv1.bias": (d,),
        "encoder.conv2.weight": (d, d, 3), "encoder.conv2.bias": (d,),
        "encoder.embed_positions.weight": (config["max_source_positions"], d),
        "decoder.embed_tokens.weight": (config["vocab_size"], d),
        "decoder.embed_positions.weight": (config["max_target_positions"], d),
    }  # fmt: skip
    for part in ("encoder", "decoder"):
        attentions = ["self_attn"] if part == "encoder" else ["self_attn", "encoder_attn"]
        norms = [f"{a}_layer_norm" for a in attentions] + ["final_layer_norm"]
        for i in range(config[f"{part}_layers"]):
            layer = f"{part}.layers.{i}."
            for attention in attentions:
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    found[f"{layer}{attention}.{name}.weight"] = (d, d)
                    if name != "k_proj":
                        found[f"{layer}{attention}.{name}.bias"] = (d,)
            for norm in norms:
                found[f"{layer}{norm}.weight"] = found[f"{layer}{norm}.bias"] = (d,)
            wide = config[f"{part}_ffn_dim"]
            found |= {f"{layer}fc1.weight": (wide, d), f"{layer}fc1.bias": (wide,),
                      f"{layer}fc2.weight": (d, wide), f"{layer}fc2.bias": (d,)}  # fmt: skip
        found[f"{part}.layer_norm.weight"] = found[f"{part}.layer_norm.bias"] = (d,)
    return {f"model.{name}": shape for name, shape in found.items()}


def weights(config: dict[str, Any], seed: int = 7) -> dict[str, np.ndarray]:
    draws = np.random.RandomState(seed)  # its numbers never change
    values = {}
    for name, shape in sorted(shapes(config).items()):
        drawn = draws.standard_normal(shape).astype("float32")
        values[name] = 1 + 0.1 * drawn if name.endswith("norm.weight") else drawn * 0.2
    return values


def mel(config: dict[str, Any], batch: int = 2) -> np.ndarray:
    shape = (batch, config["num_mel_bins"], 2 * config["max_source_positions"])
    return np.random.RandomState(11).standard_normal(shape).astype("float32")


IDS = [[50258, 7, 19, 50000, 3], [50258, 11, 50300, 2, 9]]
