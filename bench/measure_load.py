"""How fast a sharded language model is loaded from a warm page cache.

`python bench/measure_load.py [--gb 10] [--folder DIR] [--device cuda]` writes a model of random numbers, loads it in
turns with ours and, where torch has a GPU and the safetensors package is there, with `safetensors` to the GPU, and
prints rates, their ratio, the share of what a copy from page-locked memory reaches, and the peak of host memory. As
group `load` of bench/measure.py it fills the figures of bench/limits.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import resource
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SHARD_BYTES = 2 << 30
REPEATS = 5
HIDDEN, INNER, VOCAB = 4096, 14336, 32768


def layer_tensors(layer: int) -> dict[str, tuple[int, ...]]:
    stem = f"model.layers.{layer}."
    attention = {f"self_attn.{name}_proj.weight": (HIDDEN, HIDDEN) for name in "qkvo"}
    mlp = {"mlp.gate_proj.weight": (INNER, HIDDEN), "mlp.up_proj.weight": (INNER, HIDDEN)}
    norms = {f"{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    return {stem + k: v for k, v in {**attention, **mlp, "mlp.down_proj.weight": (HIDDEN, INNER), **norms}.items()}


def write_model(folder: pathlib.Path, gb: float) -> int:
    """A llama in bfloat16 of about that size: its bytes."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    layers = max(1, round((gb * 1e9 - 2 * VOCAB * HIDDEN) / sum(2 * np.prod(s) for s in layer_tensors(0).values())))
    for layer in range(layers):
        shapes |= layer_tensors(layer)
    config = {
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": layers,
        "num_attention_heads": 32, "vocab_size": VOCAB, "max_position_embeddings": 4096, "tie_word_embeddings": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shards: list[dict[str, int]] = [{}]
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        if shards[-1] and sum(shards[-1].values()) + size > SHARD_BYTES:
            shards.append({})
        shards[-1][name] = size
    noise = (np.random.default_rng(0).integers(0, 1 << 10, 1 << 22, dtype=np.uint16) + 0x3C00).tobytes()
    weight_map = {}
    for number, shard in enumerate(shards):
        file = f"model-{number:05}.safetensors"
        header, end = {}, 0
        for name, size in shard.items():
            header[name] = {"dtype": "BF16", "shape": list(shapes[name]), "data_offsets": [end, end + size]}
            weight_map[name] = file
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for size in shard.values():
                for at in range(0, size, len(noise)):
                    out.write(noise[: min(len(noise), size - at)])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return sum(sum(shard.values()) for shard in shards)


def timed(load: Callable[[], Any], wait: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    kept = load()
    wait()
    spent = time.perf_counter() - begin
    del kept
    gc.collect()
    return spent


def peer(torch: Any, folder: pathlib.Path) -> Callable[[], Any] | None:
    try:
        from safetensors.torch import load_file
    except ImportError:
        return None
    return lambda: [load_file(path, device="cuda") for path in sorted(folder.glob("*.safetensors"))]


def pinned_rate(torch: Any) -> float:
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    spent = [
        timed(lambda: [device.copy_(host, non_blocking=True) for _ in range(4)], torch.cuda.synchronize)
        for _ in range(5)
    ]
    return 4 * host.numel() / statistics.median(spent)


def measure_load(
    gp: Any, torch: Any, report: Any, gb: float = 10, folder: str | None = None, device: str = "cuda"
) -> None:
    """`torch` None: ours alone."""
    from pygpukit.llm import load_model_from_safetensors

    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = pathlib.Path(name)
        size = write_model(path, gb)
        theirs = peer(torch, path) if torch is not None else None

        def ours() -> Any:
            return load_model_from_safetensors(path, None, device=device, progress=False)

        def wait() -> None:
            gp.synchronize(device)

        timed(ours, wait)  # the page cache is warm, kernels are compiled
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        samples: list[tuple[float, float]] = []
        for _ in range(REPEATS):
            mine = timed(ours, wait)
            samples.append((mine, timed(theirs, torch.cuda.synchronize) if theirs is not None else float("nan")))
        mine, other = (statistics.median(column) for column in zip(*samples, strict=True))
        details = {"gb": size / 1e9, "gb_s": size / mine / 1e9}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"peak of host memory {peak / 1e6:.2f} GB, {(peak - before) / 1e6:.2f} more than after the first load")
        if torch is None:
            print(f"load {size / 1e9:.2f} GB at {details['gb_s']:.2f} GB/s")
            return
        if theirs is not None:
            report.add("load_vs_safetensors", other / mine, safetensors_gb_s=size / other / 1e9, **details)
        rate = pinned_rate(torch)
        report.add("load_vs_pinned", size / mine / rate, pinned_gb_s=rate / 1e9, **details)


class Printed:
    """A report for a run of this script alone."""

    def add(self, name: str, value: float, **details: Any) -> None:
        print(f"{name:44s} {value:10.4f}  {details}", flush=True)


GROUPS = {"load": measure_load}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--folder", help="where the model is written meanwhile")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    import pygpukit as gp

    device = options.device or ("cuda" if gp.is_cuda_available() else "cpu")
    torch: Any = None
    if device.startswith("cuda"):
        try:
            import torch
        except ImportError:
            print("no torch: ours alone")
    measure_load(gp, torch, Printed(), options.gb, options.folder, device)


if __name__ == "__main__":
    main()
