"""Durations and pitch curves of Kokoro-82M in float64, by NumPy alone: an independent run for the tests.

    python tools/make_kokoro_goldens.py kokoro-82m tests/data/kokoro_golden.json

Reads the checkpoint's SafeTensors and voices itself and the ids of its golden_fox.json; follows the published description of
the networks, and shares no code with the package.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def read_weights(folder: Path) -> dict[str, Array]:
    """All tensors as float64; weight_g and weight_v folded to weight."""
    kinds = {"F16": "<f2", "F32": "<f4"}
    found: dict[str, Array] = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name != "__metadata__":
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                values = np.frombuffer(data[begin:end], kinds[entry["dtype"]])
                found[name] = values.reshape(entry["shape"]).astype(np.float64)
    for name in [name for name in found if name.endswith(".weight_v")]:
        v, g = found.pop(name), found.pop(name[:-1] + "g")
        norm = np.sqrt((v * v).sum(axis=tuple(range(1, v.ndim)), keepdims=True))
        found[name[: -len("_v")]] = g * v / norm
    return found


class Networks:
    """The prosody of one checkpoint, step by step."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.w = weights

    def linear(self, name: str, x: Array) -> Array:
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def layer_norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.w[name + ".weight"] + self.w[name + ".bias"]

    def albert(self, ids: list[int]) -> Array:
        prefix = "bert.embeddings."
        x = self.w[prefix + "word_embeddings.weight"][ids]
        x = x + self.w[prefix + "position_embeddings.weight"][: len(ids)]
        x = self.layer_norm(prefix + "LayerNorm", x + self.w[prefix + "token_type_embeddings.weight"][0])
        x = self.linear("bert.encoder.embedding_hidden_mapping_in", x)
        layer = "bert.encoder.albert_layer_groups.0.albert_layers.0."
        heads = (len(ids), 12, 64)
        for _ in range(12):
            q, k, v = (self.linear(layer + "attention." + part, x).reshape(heads) for part in ("query", "key", "value"))
            scores = np.einsum("qhd,khd->hqk", q, k) / 8
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            seen = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v).reshape(x.shape)
            a = self.layer_norm(layer + "attention.LayerNorm", x + self.linear(layer + "attention.dense", seen))
            z = self.linear(layer + "ffn", a)
            gelu = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
            x = self.layer_norm(layer + "full_layer_layer_norm", a + self.linear(layer + "ffn_output", gelu))
        return x

    def lstm(self, name: str, x: Array) -> Array:
        def one(end: str, steps: Array) -> Array:
            w_ih, w_hh = self.w[f"{name}.weight_ih_l0{end}"], self.w[f"{name}.weight_hh_l0{end}"]
            bias = self.w[f"{name}.bias_ih_l0{end}"] + self.w[f"{name}.bias_hh_l0{end}"]
            h = c = np.zeros(w_hh.shape[1])
            out = []
            for gates in steps @ w_ih.T + bias:
                i, f, g, o = np.split(gates + w_hh @ h, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
                out.append(h)
            return np.array(out)

        return np.concatenate([one("", x), one("_reverse", x[::-1])[::-1]], axis=1)

    def conv(self, name: str, x: Array) -> Array:
        """Over x [channels, steps] with zeros at both ends, as long as x."""
        w = self.w[name + ".weight"]
        taps = w.shape[2]
        padded = np.pad(x, ((0, 0), (taps // 2, taps // 2)))
        y = sum(w[:, :, k] @ padded[:, k : k + x.shape[1]] for k in range(taps))
        bias = self.w.get(name + ".bias")
        return y if bias is None else y + bias[:, None]

    def adain(self, name: str, x: Array, style: Array) -> Array:
        gamma, beta = np.split(self.linear(name + ".fc", style), 2)
        scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return (1 + gamma[:, None]) * scaled + beta[:, None]

    def block(self, name: str, x: Array, style: Array) -> Array:
        t = leaky(self.adain(name + ".norm1", x, style))
        shortcut = x
        if name + ".pool.weight" in self.w:  # twice the steps
            w, b = self.w[name + ".pool.weight"][:, 0], self.w[name + ".pool.bias"][:, None]
            following = np.pad(t[:, 1:], ((0, 0), (0, 1)))
            pooled = np.stack([w[:, 1:2] * t + b, w[:, 2:] * t + w[:, :1] * following + b], axis=2)
            t, shortcut = pooled.reshape(len(t), -1), np.repeat(x, 2, axis=1)
        t = self.conv(name + ".conv2", leaky(self.adain(name + ".norm2", self.conv(name + ".conv1", t), style)))
        if name + ".conv1x1.weight" in self.w:
            shortcut = self.conv(name + ".conv1x1", shortcut)
        return (t + shortcut) / np.sqrt(2)

    def prosody(self, ids: list[int], style: Array) -> tuple[Array, Array, Array]:
        """(frames before rounding, pitch in Hz, energy); style: the half that the predictor takes."""
        x = self.linear("bert_encoder", self.albert(ids))
        beside = np.broadcast_to(style, (len(ids), style.size))
        x = np.concatenate([x, beside], axis=1)
        for i in (0, 2, 4):
            x = self.lstm(f"predictor.text_encoder.lstms.{i}", x)
            gamma, beta = np.split(self.linear(f"predictor.text_encoder.lstms.{i + 1}.fc", style), 2)
            scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
            x = np.concatenate([(1 + gamma) * scaled + beta, beside], axis=1)
        durations = sigmoid(self.linear("predictor.duration_proj.linear_layer", self.lstm("predictor.lstm", x))).sum(1)
        frames = np.maximum(1, np.rint(durations)).astype(int)
        shared = self.lstm("predictor.shared", np.repeat(x, frames, axis=0)).T
        curves = []
        for name in ("F0", "N"):
            y = shared
            for i in range(3):
                y = self.block(f"predictor.{name}.{i}", y, style)
            curves.append(self.conv(f"predictor.{name}_proj", y)[0])
        return durations, curves[0], curves[1]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.2 * x)


def main() -> int:
    folder, out = map(Path, sys.argv[1:])
    networks = Networks(read_weights(folder))
    voice = np.fromfile(folder / "voices" / "af_heart.bin", "<f4").reshape(510, 256).astype(np.float64)
    golden = json.loads((folder / "golden_fox.json").read_text(encoding="utf-8"))
    cases = []
    for case in (golden, golden["second_case_same_text"]):
        ids, row = case["input_ids"], case["style_row"]
        durations, f0, energy = networks.prosody(ids, voice[row, 128:])
        curves = {"durations": durations, "f0": f0, "energy": energy}
        cases.append({"ids": ids, "row": row} | {name: [round(float(x), 6) for x in v] for name, v in curves.items()})
    out.write_text(json.dumps({"voice": "af_heart", "cases": cases}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
