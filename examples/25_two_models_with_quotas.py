"""Two language models in two contexts, in memory that holds one: each leaves as a whole, comes back and goes on."""

import asyncio
import json
import pathlib
import tempfile

import numpy as np

import pygpukit as gp
from pygpukit import llm, runtime, scheduler
from pygpukit.io import save_safetensors

MB = scheduler.MB
CONFIG = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2,
          "num_attention_heads": 4, "vocab_size": 6000, "max_position_embeddings": 256}  # fmt: skip


def checkpoint(folder, seed):
    """A llama of random numbers, as a folder of Hugging Face."""
    rng = np.random.default_rng(seed)

    def matrix(rows, columns):
        return gp.from_numpy((rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype("float32"))

    tensors = {"model.norm.weight": gp.ones((128,))}
    tensors |= {name: matrix(6000, 128) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    for stem in ("model.layers.0.", "model.layers.1."):
        tensors |= {stem + f"{norm}_layernorm.weight": gp.ones((128,)) for norm in ("input", "post_attention")}
        tensors |= {stem + f"self_attn.{name}_proj.weight": matrix(128, 128) for name in "qkvo"}
        tensors |= {stem + f"mlp.{name}_proj.weight": matrix(384, 128) for name in ("gate", "up")}
        tensors[stem + "mlp.down_proj.weight"] = matrix(128, 384)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_safetensors(str(folder / "model.safetensors"), tensors)
    return folder


async def answer(context, model, prompt):
    async with scheduler.context_session(context):
        return [token.id async for token in model.stream_async(prompt, 8, temperature=0.0)]


with tempfile.TemporaryDirectory() as folder:
    paths = [checkpoint(pathlib.Path(folder) / name, seed) for seed, name in enumerate(("chat", "code"))]
    alone = [llm.load_model_from_safetensors(path).generate([1, 2, 3], 8, temperature=0.0)[3:] for path in paths]
    scheduler.initialize(total_vram_budget=24 * MB)
    contexts = [scheduler.create_context(path.name, max_vram=24 * MB) for path in paths]
    models = []
    for context, path in zip(contexts, paths, strict=True):
        with scheduler.context_session(context):
            models.append(llm.load_model_from_safetensors(path, evictable=True))
    for _ in range(3):
        same = [asyncio.run(answer(*pair, [1, 2, 3])) for pair in zip(contexts, models, strict=True)] == alone
        print("tokens as alone:", same)
        print("here: on the device:", [model.resident for model in models])
    counts = {context["id"]: context["tokens"] for context in runtime.snapshot()["contexts"]}
    print("tokens of each context:", counts)
