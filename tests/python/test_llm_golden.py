"""Every family against transformers: logits, greedy tokens and the error of bfloat16, in tests/data/llm."""

from __future__ import annotations

import json

import numpy as np
import pytest
from llm_case import save
from llm_golden import names, read, uniform, weights

import pygpukit as gp
from pygpukit import llm
from pygpukit.llm.models import llama4

NAMES = names()


@pytest.fixture(params=NAMES)
def golden(request):
    return read(request.param)


def load(golden, folder, **options):
    if not (folder / "config.json").exists():
        save(folder, golden["config"], weights(golden["seed"], golden["shapes"]))
    return llm.load_model_from_safetensors(folder, **options)


def logits(model, golden):
    hidden, _ = model(golden["prompt"])
    return model.get_logits(hidden).to_numpy(dtype="float32")[golden["positions"]]


def test_each_family_is_there():
    families = {read(name)["config"]["model_type"] for name in NAMES}
    assert families == {"gpt2", "llama", "llama4_text", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"}
    scalings = {(read(name)["config"].get("rope_parameters") or {}).get("rope_type") for name in NAMES}
    assert {"linear", "llama3", "yarn"} <= scalings


def test_weights_are_those_of_the_files():
    assert uniform(1, "a", 3).tolist() == [-0.47834885120391846, 0.8081587553024292, -0.5148169994354248]


def test_logits_and_tokens(device, tmp_path, golden):
    model = load(golden, tmp_path)
    np.testing.assert_allclose(logits(model, golden), golden["logits"], rtol=0, atol=1e-4)
    count = len(golden["greedy"])
    tokens = model.generate(golden["prompt"], count, temperature=0.0)
    assert tokens == golden["prompt"] + golden["greedy"]
    # Token by token in the caches of the layers.
    model.init_fixed_cache(len(tokens))
    row = model.prefill_fixed_cache(golden["prompt"])
    for i, token in enumerate(golden["greedy"]):
        assert int(row.to_numpy()[-1].argmax()) == token
        row = model.decoder().logits([token], len(golden["prompt"]) + i)


def test_bfloat16_is_as_exact(device, tmp_path, golden):
    model = load(golden, tmp_path, dtype="bfloat16")
    error = np.sqrt(np.mean((logits(model, golden) - golden["logits"]) ** 2))
    assert 0 < error <= 2 * golden["bfloat16_error"]


@pytest.mark.parametrize("name", ["gpt2", "llama-llama3", "qwen3", "llama4"])
def test_position_ids(device, tmp_path, name):
    golden = read(name)
    model = load(golden, tmp_path)
    ids = golden["prompt"][:6]
    plain = model(ids)[0].to_numpy()
    assert model(ids, position_ids=range(6))[0].to_numpy().tobytes() == plain.tobytes()
    others = model(ids, position_ids=[0, 0, 1, 5, 3, 4])[0].to_numpy()
    assert others[0].tobytes() == plain[0].tobytes() and not np.allclose(others[1:], plain[1:], atol=1e-3)
    # A position that lies further on is that of a longer text.
    shifted, past = model(ids, position_ids=[i + 7 for i in range(6)], use_cache=True)
    if name in ("llama-llama3", "qwen3"):  # RoPE alone knows differences only
        np.testing.assert_allclose(shifted.to_numpy(), plain, atol=1e-4)
    _, kept = model(ids[:4], position_ids=[7, 8, 9, 10], use_cache=True)
    last, whole = model(ids[4:], position_ids=[11, 12], past_key_values=kept, use_cache=True)
    assert last.to_numpy().tobytes() == shifted[4:].to_numpy().tobytes()
    assert [k.to_numpy().tobytes() for k, _ in whole] == [k.to_numpy().tobytes() for k, _ in past]
    with pytest.raises(IndexError, match="128"):
        model(ids, position_ids=[0, 1, 2, 3, 4, 128])
    with pytest.raises(ValueError, match="one for each of 6"):
        model(ids, position_ids=[0, 1])


def test_position_ids_of_a_layer(device, tmp_path):
    golden = read("llama")
    model = load(golden, tmp_path)
    block = model.blocks[0]
    x = model.embed_tokens[:5].copy()
    plain = block(x)[0].to_numpy()
    np.testing.assert_allclose(block(x, position_ids=[9, 10, 11, 12, 13])[0].to_numpy(), plain, atol=1e-4)
    assert not np.allclose(block.attn(x, position_ids=[0, 2, 4, 6, 8])[0].to_numpy(), block.attn(x)[0].to_numpy())
    with pytest.raises(ValueError, match="one for each of 5"):
        block(x, position_ids=[1])


def test_llama4_of_parts(device, tmp_path):
    """The views of 0.2: a model without experts, put together from matrices, is the one that loads."""
    options = {"num_hidden_layers": 2, "no_rope_layers": [1, 0], "moe_layers": [], "max_position_embeddings": 128}
    golden = read("llama4")
    data = {**golden["config"], **options, "layer_types": None}
    config = llama4.Llama4Config.from_json(json.dumps(data))
    assert config == llama4.Llama4Config.from_json({"model_type": "llama4", "text_config": data})
    assert (config.floor_scale, config.attention_chunk_size, config.rope_theta) == (8, 16, 5e5)
    dim, width, inner = config.head_dim, config.hidden_size, config.intermediate_size_mlp
    rows = {"q": config.num_attention_heads * dim, "k": config.num_key_value_heads * dim, "v": config.num_key_value_heads * dim}
    shapes = {"model.embed_tokens.weight": [96, width], "model.norm.weight": [width], "lm_head.weight": [96, width]}
    for p in ("model.layers.0.", "model.layers.1."):
        shapes |= {p + f"self_attn.{n}_proj.weight": [count, width] for n, count in rows.items()}
        shapes |= {p + "self_attn.o_proj.weight": [width, rows["q"]], p + "feed_forward.down_proj.weight": [width, inner]}
        shapes |= {p + f"feed_forward.{n}_proj.weight": [inner, width] for n in ("gate", "up")}
        shapes |= {p + f"{n}_layernorm.weight": [width] for n in ("input", "post_attention")}
    tensors = weights(1, shapes)
    loaded = llama4.Llama4Model.from_safetensors(save(tmp_path, data, tensors))
    w = {name: gp.from_numpy(tensor) for name, tensor in tensors.items()}
    blocks = []
    for i, use_rope in enumerate((True, False)):
        p = f"model.layers.{i}."
        matrices = (w[p + f"self_attn.{n}_proj.weight"] for n in "qkvo")
        attn = llama4.Llama4Attention(*matrices, config, use_rope=use_rope)
        mlp = llama4.Llama4MLP(*(w[p + f"feed_forward.{n}_proj.weight"] for n in ("gate", "up", "down")))
        norms = [llm.Norm(w[p + f"{n}_layernorm.weight"]) for n in ("input", "post_attention")]
        blocks.append(llama4.Llama4Block(norms[0], attn, norms[1], mlp))
    model = llama4.Llama4Model(config, w["model.embed_tokens.weight"], blocks, llm.Norm(w["model.norm.weight"]), w["lm_head.weight"])
    ids = golden["prompt"]
    expected = loaded.forward(ids).to_numpy()
    assert model.forward(ids).to_numpy().tobytes() == expected.tobytes()
    assert isinstance(loaded, llama4.Llama4Model) and expected.shape == (24, 96)
    x = w["model.embed_tokens.weight"][: len(ids)].copy()
    assert blocks[0].forward(x).shape == x.shape and blocks[0].forward(x, list(range(24))).shape == x.shape
    tokens = llama4.generate(model, ids, 8, eos_token_id=None)
    assert tokens == loaded.generate(ids, 8, temperature=0.0) and len(tokens) == 32
    assert llama4.generate(model, ids, 8, eos_token_id=tokens[25]) == tokens[:26]


def test_llama4_configs_are_checked():
    config = read("llama4")["config"]
    small = llama4.Llama4Config().to_transformer_config()
    assert (small.num_experts, small.moe_intermediate_size, small.intermediate_size) == (16, 8192, 16384)
    assert small.max_position_embeddings == 262144
    for changes, message in (
        ({"no_rope_layers": [1]}, "no_rope_layers must have a number"),
        ({"layer_types": ["full_attention"]}, "layer_types must have a name"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_attention"),
        ({"no_rope_layers": None, "no_rope_layer_interval": 0}, "no_rope_layer_interval"),
        ({"attention_bias": True}, "attention_bias"),
        ({"floor_scale": 0}, "floor_scale"),
        ({"num_experts_per_tok": 5}, "num_experts_per_tok"),
    ):
        with pytest.raises((ValueError, gp.errors.UnsupportedError), match=message):
            llm.TransformerConfig.from_json(json.dumps({**config, **changes}))


@pytest.mark.parametrize("quantize", ["int8", "float8_e4m3"])
def test_llama4_of_text_and_pictures_quantised(device, tmp_path, quantize):
    golden = read("llama4-top2")
    names = {"language_model." + name: tensor for name, tensor in weights(golden["seed"], golden["shapes"]).items()}
    save(tmp_path, {"model_type": "llama4", "text_config": golden["config"]}, names)
    model = llm.load_model_from_safetensors(tmp_path)
    np.testing.assert_allclose(logits(model, golden), golden["logits"], rtol=0, atol=1e-4)
    short = llm.load_model_from_safetensors(tmp_path, quantize=quantize)
    assert short.weight_bytes < model.weight_bytes
    error = np.abs(logits(short, golden) - golden["logits"]).max()
    assert 0 < error < (0.2 if quantize == "int8" else 1.0) * np.abs(golden["logits"]).max()


def test_llama4_switches(device, tmp_path):
    """As checkpoints write them: a number for a bool, null for no chunks, nothing for what is usual."""
    golden = read("llama4")
    tensors = weights(golden["seed"], golden["shapes"])
    usual = ("no_rope_layers", "layer_types", "moe_layers", "interleave_moe_layer_step", "attn_temperature_tuning")

    def difference(**changes):
        config = {name: value for name, value in golden["config"].items() if name not in usual} | changes
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        model = llm.load_model_from_safetensors(save(folder, config, tensors))
        return np.abs(logits(model, golden) - golden["logits"]).max()

    assert difference() < 1e-4 and difference(no_rope_layers=[], attn_temperature_tuning=4) < 1e-4
    for changes in ({"attn_temperature_tuning": 0}, {"attention_chunk_size": None}, {"use_qk_norm": False}):
        assert difference(**changes) > 1e-2, changes


@pytest.mark.parametrize("name", ["llama4", "llama4-top2"])
def test_llama4_in_a_batch(device, tmp_path, name):
    """Chunks, scales by position and gates of experts are a token's own, wherever its keys lie."""
    golden = read(name)
    model = load(golden, tmp_path)
    prompts = [golden["prompt"][:count] for count in (24, 1, 17, 9, 16)]
    alone = [model.generate(prompt, 20, temperature=0.0)[len(prompt) :] for prompt in prompts]
    assert alone[0] == golden["greedy"][:20]
    engine = model.engine(max_sequences=3, token_budget=7, page_size=4, max_tokens=64)
    texts = {engine.submit(prompt, 20, temperature=0.0): [] for prompt in prompts}
    while not engine.idle():
        for token in engine.step():
            texts[token.request].append(token.id)
    assert list(texts.values()) == alone
