"""Many requests to one language model: each gets the tokens it gets alone, whoever runs beside it."""

import numpy as np

import pygpukit as gp
from pygpukit import llm

config = llm.TransformerConfig(
    vocab_size=64, hidden_size=64, num_layers=2, num_heads=4, num_kv_heads=2, max_position_embeddings=256
)


def weight(*shape):
    return gp.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape).astype("float32") / 8)


def block():
    attention = llm.Attention(weight(64, 64), weight(32, 64), weight(32, 64), weight(64, 64), config)
    mlp = llm.MLP(config, gate_proj=weight(256, 64), up_proj=weight(256, 64), down_proj=weight(64, 256))
    return llm.TransformerBlock(llm.Norm(gp.ones((64,))), attention, llm.Norm(gp.ones((64,))), mlp)


model = llm.CausalTransformerModel(config, weight(64, 64), [block(), block()], llm.Norm(gp.ones((64,))))
prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10]]
draws = [{"temperature": 0.0}, {"temperature": 1.0, "seed": 7}, {"temperature": 0.7, "top_k": 8, "seed": 9}]

with gp.determinism("batch_invariant"):
    engine = model.engine(max_sequences=3, token_budget=4, page_size=16)
    names = [engine.submit(prompt, 20, **draw) for prompt, draw in zip(prompts, draws, strict=True)]
    together = {name: [] for name in names}
    while not engine.idle():
        for token in engine.step():
            together[token.request].append(token.id)
    for name, prompt, draw in zip(names, prompts, draws, strict=True):
        alone = [token.id for token in model.stream(prompt, 20, **draw)]
        print(len(alone), "tokens, the same alone:", alone == together[name])
print("here:", together[names[0]][:8])
