"""Language models: families against a forward in float64, real checkpoints, and what a checkpoint must hold."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from llm_case import golden, llama_config, llama_tensors, partials, reference_logits, save

import pygpukit as gp
from pygpukit.llm import (
    LLAMA_SPEC,
    MODEL_SPECS,
    QWEN3_SPEC,
    GPT2Config,
    LlamaConfig,
    Qwen3Config,
    TransformerConfig,
    detect_model_spec,
    layers,
    load_model_from_safetensors,
)

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
FAMILIES = {
    "llama": (llama_config(), {}),
    "llama-tied": (llama_config(tie_word_embeddings=True, head_dim=16), {}),
    "llama3": (llama_config(rope_scaling=LLAMA3, rope_theta=5e5), {}),
    "llama-linear": (llama_config(rope_scaling={"rope_type": "linear", "factor": 4.0}), {}),
    "llama-yarn": (llama_config(rope_scaling=YARN, head_dim=32), {}),
    "mistral": (llama_config("mistral", sliding_window=5), {}),
    "qwen2": (llama_config("qwen2"), {"biases": True}),
    "qwen3": (llama_config("qwen3", head_dim=16), {"qk_norm": True}),
    "mixtral": (llama_config("mixtral", num_local_experts=5, num_experts_per_tok=2, sliding_window=None), {}),
    "qwen3_moe": (
        llama_config("qwen3_moe", num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=True),
        {"qk_norm": True},
    ),
}
IDS = [3, 14, 1, 59, 2, 6, 53, 58, 9, 7, 9, 3, 23, 8, 46]


def bits(x):
    return x.to_numpy(dtype="float32").tobytes()  # which holds short floats exactly


def logits_of(model, ids):
    return model.get_logits(model(ids)[0]).to_numpy(dtype="float64")


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_family(device, tmp_path, family):
    config, options = FAMILIES[family]
    tensors = llama_tensors(config, **options)
    model = load_model_from_safetensors(save(tmp_path, config, tensors))
    expected = reference_logits(config, tensors, IDS)
    np.testing.assert_allclose(logits_of(model, IDS), expected, atol=1e-4)
    short = load_model_from_safetensors(tmp_path, dtype="bfloat16")
    assert short.dtype == gp.bfloat16
    assert np.abs(logits_of(short, IDS) - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama3", {}),
        ("mistral", {"dtype": "bfloat16"}),
        ("qwen3", {"dtype": "float16"}),
        ("mixtral", {}),
        ("qwen3_moe", {"dtype": "bfloat16"}),
        ("llama", {"quantize": "int8"}),
        ("qwen2", {"quantize": "int4", "group": 32, "dtype": "bfloat16"}),
        ("qwen2", {"quantize": "float8_e4m3"}),
    ],
)
def test_a_prompt_cut_anywhere_has_the_same_bits(device, tmp_path, family, options):
    config, made = FAMILIES[family]
    save(tmp_path, config, llama_tensors(config, **made))
    with gp.determinism("batch_invariant"):
        check_cuts(load_model_from_safetensors(tmp_path, **options))


def check_cuts(model):
    whole, kept = model(IDS, use_cache=True)
    for cuts in ([0, 1, 15], [0, 4, 9, 15], range(16)):
        past, pieces = None, []
        for a, b in pairwise(cuts):
            hidden, past = model(IDS[a:b], list(range(a, b)), past, use_cache=True)
            pieces.append(bits(hidden))
        assert b"".join(pieces) == bits(whole)
        for pair, pair_whole in zip(past, kept, strict=True):
            assert [bits(a) for a in pair] == [bits(a) for a in pair_whole]


def test_gpt2_layer_by_layer(device, assets):
    expected = partials(assets)
    model = load_model_from_safetensors(assets / "gpt-nano-sort")
    assert model.config.norm_type == "layernorm" and model.config.head_dim == 16 and model.position_embed is not None
    for row, ids in enumerate(expected["idx"].astype(int)):
        hidden, cache = model(ids.tolist(), use_cache=True)
        np.testing.assert_allclose(hidden.to_numpy(), expected["ln_f"][row], atol=2e-5)
        np.testing.assert_allclose(model.get_logits(hidden).to_numpy(), expected["lm_head"][row], atol=5e-5)
        for name, array in zip("kv", cache[0], strict=True):
            np.testing.assert_allclose(array.to_numpy().swapaxes(0, 1), expected[name][row], atol=1e-5)


def test_gpt2_sorts(device, assets):
    model = load_model_from_safetensors(assets / "gpt-nano-sort")
    for digits in ([2, 0, 1, 1, 0, 2], [0, 2, 0, 2, 1, 0], [1, 1, 1, 0, 0, 2]):
        ids = model.generate(digits, 6, temperature=0.0)
        assert ids == digits + sorted(digits)


@pytest.mark.parametrize("name", ["stories260K", "stories260K-moe4x2-derived"])
def test_hidden_states_agree_with_the_golden_text(device, assets, name):
    _, ids = golden(assets, name)
    model = load_model_from_safetensors(assets / name)
    assert logits_of(model, ids[:-1]).argmax(-1).tolist() == ids[1:]


def test_config_and_tensors_must_agree(tmp_path):
    config = llama_config("qwen3")
    folder = save(tmp_path, config, llama_tensors(config))
    with pytest.raises(gp.errors.FormatError, match="config.json says qwen3, the tensors are named as those of llama"):
        load_model_from_safetensors(folder)
    config = llama_config()
    tensors = llama_tensors(config)
    tensors["model.layers.1.mlp.up_proj.weight"] = tensors["model.layers.1.mlp.up_proj.weight"][:-1]
    with pytest.raises(gp.errors.FormatError, match=r"layers.1.mlp.up_proj.weight must have shape \[48, 32\]"):
        load_model_from_safetensors(save(tmp_path, config, tensors))
    del tensors["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(KeyError, match="model.layers.1.mlp.up_proj.weight"):
        load_model_from_safetensors(save(tmp_path, config, tensors))
    tensors = llama_tensors(config)
    del tensors["lm_head.weight"]
    with pytest.raises(gp.errors.FormatError, match="there is no lm_head.weight"):
        load_model_from_safetensors(save(tmp_path, config, tensors))
    (tmp_path / "config.json").unlink()
    with pytest.raises(OSError, match="config.json"):
        load_model_from_safetensors(tmp_path)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model_type": "mamba"}, gp.errors.UnsupportedError, "model_type 'mamba'"),
        ({"hidden_act": "gelu"}, gp.errors.UnsupportedError, "hidden_act 'gelu'"),
        ({"rope_scaling": {"rope_type": "longrope"}}, gp.errors.UnsupportedError, "rope scaling 'longrope'"),
        ({"quantization_config": {"quant_method": "bnb"}}, gp.errors.UnsupportedError, "quantisation method 'bnb'"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, gp.errors.UnsupportedError, "3 bits"),
        ({"quantization_config": {"quant_method": "fp8"}}, gp.errors.UnsupportedError, "weight_block_size"),
    ],
)
def test_config_is_checked(changes, error, message):
    with pytest.raises(error, match=message):
        TransformerConfig.from_json(json.dumps(llama_config(**changes)))


def test_config_of_a_family():
    c = TransformerConfig.from_json(
        json.dumps(
            llama_config("qwen2", use_sliding_window=True, sliding_window=7, max_window_layers=1, eos_token_id=[5, 6])
        )
    )
    assert (c.num_layers, c.num_heads, c.num_kv_heads, c.num_kv_groups, c.head_dim) == (2, 4, 2, 2, 8)
    assert c.sliding_window == 7 and c.eos_token_ids == [5, 6] and not c.is_moe and c.num_experts is None
    c = TransformerConfig(num_experts=4, moe_intermediate_size=64)
    assert c.is_moe and c.num_experts_per_tok == 2 and c.moe_intermediate_size == 64 and c.intermediate_size == 8192
    with pytest.raises(ValueError, match="norm_type"):
        TransformerConfig(norm_type="batchnorm")
    gpt2 = GPT2Config().to_transformer_config()
    assert gpt2.norm_type == "layernorm" and gpt2.intermediate_size == 3072 and not gpt2.use_rope
    assert LlamaConfig().head_dim == 64 and LlamaConfig().to_transformer_config().num_kv_heads == 4
    assert Qwen3Config().to_transformer_config().head_dim == 128


def test_a_config_can_be_changed():
    c = TransformerConfig(num_heads=4, hidden_size=32)
    assert c._head_dim is None and (c.head_dim, c.num_kv_heads, c.intermediate_size) == (8, 4, 128)
    c._head_dim, c.num_kv_heads, c.intermediate_size, c.num_experts = 16, 2, 40, 3
    c.activation, c.norm_type, c.use_rope, c.norm_eps = "gelu", "layernorm", False, 1e-3
    assert (c._head_dim, c.head_dim, c.num_kv_groups, c.intermediate_size, c.num_experts) == (16, 16, 2, 40, 3)
    assert (c.activation, c.norm_type, c.use_rope, c.norm_eps, c.is_moe) == ("gelu", "layernorm", False, 1e-3, True)
    c._head_dim = c.num_kv_heads = c.num_experts = None
    assert c._head_dim is None and (c.head_dim, c.num_kv_heads, c.num_experts) == (8, 4, None)
    for name in ("num_heads", "num_kv_heads", "_head_dim", "vocab_size"):
        with pytest.raises(ValueError, match="be positive"):
            setattr(c, name, 0)
    with pytest.raises(ValueError, match="activation"):
        c.activation = "relu"
    c.num_kv_heads = 3  # which only a layer can refuse
    with pytest.raises(ValueError, match="multiple of num_kv_heads"):
        layers.Attention(None, None, None, None, c)


def test_specs_are_detected():
    for name, spec in MODEL_SPECS.items():
        config, options = FAMILIES.get(name, (None, None))
        if config is not None:
            assert detect_model_spec(llama_tensors(config, **options)) is spec
    assert detect_model_spec(["transformer.wte.weight"]).name == "gpt2"
    assert LLAMA_SPEC.q_norm is None and QWEN3_SPEC.use_qk_norm
    with pytest.raises(ValueError, match="Cannot detect model type"):
        detect_model_spec(["encoder.conv1.weight"])


def test_forward_is_checked(device, tmp_path):
    config = llama_config()
    model = load_model_from_safetensors(save(tmp_path, config, llama_tensors(config)))
    with pytest.raises(IndexError, match="61"):
        model([61])
    with pytest.raises(ValueError, match="input_ids must have an id"):
        model([])
    with pytest.raises(IndexError, match="128"):
        model([1] * 129)
    with pytest.raises(ValueError, match="position_ids must have one for each of 2 ids"):
        model([1, 2], position_ids=[1])
    _, past = model([1, 2], use_cache=True)
    with pytest.raises(ValueError, match="past_key_values"):
        model([3], past_key_values=past[:1])
