"""Weights and voices as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pygpukit as gp
from pygpukit._core import _tts
from pygpukit.io import load_safetensors
from pygpukit.typing import DeviceLike, DTypeLike, PathLike

__all__ = [
    "get_weight_info",
    "list_available_voices",
    "load_kokoro_weights",
    "load_voice_embedding",
    "print_weight_summary",
]

Weights = Mapping[str, gp.GPUArray]


def load_kokoro_weights(
    model_path: PathLike, dtype: DTypeLike = "bfloat16", device: DeviceLike = "cuda"
) -> tuple[dict[str, gp.GPUArray], dict[str, Any]]:
    """(tensors by name, the object of config.json). Without a GPU the device is the CPU."""
    place = "cpu" if device == "cuda" and not gp.is_cuda_available() else device
    file = load_safetensors(model_path)
    weights = {name: file.load(name, device=place, dtype=dtype) for name in file.tensor_names}
    return weights, json.loads((Path(model_path) / "config.json").read_text(encoding="utf-8"))


def load_voice_embedding(path: PathLike) -> gp.GPUArray:
    """float32 ``[510, 1, 256]`` of a voice's .bin file, on the CPU: a row for every length of text."""
    return _tts.Voice.open(path).array()


def list_available_voices(path: PathLike) -> list[str]:
    """The names of the voices in a checkpoint's folder."""
    return _tts.voice_names(path)


def get_weight_info(weights: Weights) -> dict[str, Any]:
    """How many tensors, parameters and bytes there are, and the parameters of each part."""
    parts: dict[str, int] = {}
    for name, array in weights.items():
        part = name.split(".", 1)[0]
        parts[part] = parts.get(part, 0) + array.size
    return {
        "num_tensors": len(weights),
        "num_parameters": sum(parts.values()),
        "num_bytes": sum(array.nbytes for array in weights.values()),
        "parts": parts,
    }


def print_weight_summary(weights: Weights) -> None:
    """Prints get_weight_info."""
    info = get_weight_info(weights)
    print(f"{info['num_tensors']} tensors, {info['num_parameters']:,} parameters, {info['num_bytes'] / 2**20:.1f} MiB")
    for part, count in info["parts"].items():
        print(f"  {part}: {count:,}")
