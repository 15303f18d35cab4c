"""Writes tests/data/llm/*.json: logits and greedy tokens that transformers computes for a small model of each family.

    python tools/make_llm_goldens.py [NAME ...]

Needs torch (the CPU is enough), transformers and safetensors. Weights come from a seed by tests/python/llm_golden.py,
lie in a checkpoint as transformers writes one, and are loaded by transformers from there. A seed is taken whose greedy
tokens and experts are clear: where two logits that decide are close, the next seed is tried.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from llm_golden import FOLDER, to_text, weights  # noqa: E402

LLAMA: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 128, "tie_word_embeddings": False,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
LLAMA4: dict[str, Any] = {
    **LLAMA, "head_dim": 8, "num_hidden_layers": 4, "intermediate_size": 24, "intermediate_size_mlp": 40,
    "num_local_experts": 4, "attention_chunk_size": 16, "floor_scale": 8, "attn_scale": 0.3,
}  # fmt: skip
LLAMA3_SCALING = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": (
        "gpt2",
        {
            "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 96,
            "bos_token_id": None, "eos_token_id": None,
        },
    ),
    "llama": ("llama", LLAMA),
    "llama-tied": ("llama", {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 1, "head_dim": 16}),
    "llama-linear": ("llama", {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}),
    "llama-llama3": ("llama", {**LLAMA, "rope_parameters": LLAMA3_SCALING}),
    "llama-yarn": (
        "llama",
        {
            **LLAMA,
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32,
            },
        },
    ),
    "mistral-window": ("mistral", {**LLAMA, "sliding_window": 7}),
    "qwen2": ("qwen2", {**LLAMA, "num_key_value_heads": 4}),
    "qwen2-window": (
        "qwen2",
        {**LLAMA, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {**LLAMA, "head_dim": 16, "tie_word_embeddings": True}),
    "qwen3_moe": (
        "qwen3_moe",
        {
            **LLAMA, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
            "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [0],
        },
    ),
    "mixtral": ("mixtral", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "llama4": ("llama4_text", LLAMA4),
    "llama4-top2": (
        "llama4_text",
        {
            **LLAMA4, "num_experts_per_tok": 2, "interleave_moe_layer_step": 2, "use_qk_norm": False,
            "no_rope_layer_interval": 2, "rope_parameters": {**LLAMA3_SCALING, "factor": 16.0, "high_freq_factor": 1.0},
        },
    ),
}  # fmt: skip
PROMPT, NEW, POSITIONS = 24, 64, (0, 5, 17, 23)
CLEAR = 2e-3  # between the two largest logits
CLEAR_EXPERT = 0.05  # between the logits of the last expert chosen and the next one, so that bfloat16 chooses the same


def checkpoint_shapes(model: Any, folder: Path) -> dict[str, list[int]]:
    """The tensors of a checkpoint as transformers writes it."""
    model.save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "np") as file:
        return {name: list(file.get_slice(name).get_shape()) for name in sorted(file.keys())}


def load(folder: Path, dtype: torch.dtype) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def logits(model: Any, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        result = model(torch.tensor([ids]), use_cache=False).logits[0]
    return result.float().numpy()


def experts_are_clear(model: Any, prompt: list[int]) -> bool:
    gaps: list[float] = []

    def look(module: Any, inputs: tuple[torch.Tensor, ...], _: Any) -> None:
        rows = (inputs[0].reshape(-1, inputs[0].shape[-1]) @ module.weight.T).sort(dim=-1, descending=True).values
        gaps.append(float((rows[:, module.top_k - 1] - rows[:, module.top_k]).min()))

    routers = [module for module in model.modules() if type(module).__name__.endswith("Router")]
    if getattr(model.config, "num_experts_per_tok", 0) and not routers:
        raise SystemExit("transformers names its routers otherwise now")
    handles = [module.register_forward_hook(look) for module in routers]
    logits(model, prompt)
    for handle in handles:
        handle.remove()
    return all(gap >= CLEAR_EXPERT for gap in gaps)


def greedy(model: Any, prompt: list[int]) -> list[int] | None:
    """The tokens after the prompt, each by a forward over all before it; None where one is not clear."""
    ids = list(prompt)
    for _ in range(NEW):
        row = logits(model, ids)[-1]
        second, first = np.sort(row)[-2:]
        if first - second < CLEAR:
            return None
        ids.append(int(row.argmax()))
    return ids[len(prompt) :]


def make(name: str, folder: Path) -> dict[str, Any]:
    kind, options = FAMILIES[name]
    config = transformers.AutoConfig.for_model(kind, **options)
    shapes = checkpoint_shapes(transformers.AutoModelForCausalLM.from_config(config), folder)
    saved = json.loads((folder / "config.json").read_text())
    for seed in range(1, 200):
        save_file(weights(seed, shapes), folder / "model.safetensors", {"format": "pt"})
        model = load(folder, torch.float32)
        prompt = np.random.RandomState(seed).randint(0, config.vocab_size, PROMPT).tolist()
        if not experts_are_clear(model, prompt):
            continue
        tokens = greedy(model, prompt)
        if tokens is None or len(set(tokens)) < 8:
            continue
        full = logits(model, prompt)[list(POSITIONS)]
        short = logits(load(folder, torch.bfloat16), prompt)[list(POSITIONS)]
        for key in ("transformers_version", "dtype", "architectures"):
            saved.pop(key, None)
        return {
            "made_with": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "config": saved,
            "seed": seed,
            "shapes": shapes,
            "prompt": prompt,
            "greedy": tokens,
            "positions": list(POSITIONS),
            "logits": to_text(full),
            "bfloat16_error": float(np.sqrt(np.mean((short - full) ** 2))),
        }
    raise SystemExit(f"{name}: no seed gives clear tokens")


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            golden = make(name, Path(folder))
        rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items())
        (FOLDER / f"{name}.json").write_text(f"{{\n{rows}\n}}\n", encoding="ascii")
        print(f"{name}: seed {golden['seed']}, bfloat16 error {golden['bfloat16_error']:.2g}", flush=True)


if __name__ == "__main__":
    main()
