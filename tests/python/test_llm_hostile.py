"""Checkpoints that are wrong: every value of config.json and every tensor too many or too few is a named error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from llm_case import llama_config, llama_tensors, reference_logits, save

import pygpukit as gp
from pygpukit.llm import TransformerConfig, load_model_from_safetensors

IDS = [3, 14, 1, 59, 2, 6, 53]
MIXTRAL = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
QWEN_MOE = {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
GPT2 = {"model_type": "gpt2", "vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}


def rope(**members):
    return {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, **members}}


def quantized(method, **members):
    return {"quantization_config": {"quant_method": method, **members}}


HOSTILE = [
    *[
        ({name: value}, name)
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
        for value in (0, -1, 2**62, 1.5, "many", [], None, True)
    ],
    *[
        ({name: value}, name)
        for name in ("num_key_value_heads", "head_dim", "max_position_embeddings")
        for value in (0, -8, 2**62, 0.5, "8")
    ],
    ({"num_attention_heads": 5}, "num_attention_heads must be a multiple"),
    ({"num_attention_heads": 6, "num_key_value_heads": 2}, "32 must be a multiple of the 6 heads"),
    ({"num_attention_heads": 2**20, "num_key_value_heads": 1, "head_dim": 2**20}, "wide"),
    *[({"rms_norm_eps": value}, "rms_norm_eps") for value in (-1e-5, 1e300, "small")],
    *[({"rope_theta": value}, "rope_theta") for value in (0, -1, 1e300, 5e-324, "x")],
    *[({"partial_rotary_factor": value}, "partial_rotary_factor") for value in (0, -0.5, 2, 1e-5)],
    *[({"sliding_window": value, "model_type": "mistral"}, "sliding_window") for value in (-1, 2**40, 7.5)],
    *[
        ({"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4, "max_window_layers": value}, "max_window")
        for value in (-1, -(2**63), "all")
    ],
    ({"use_sliding_window": "yes"}, "use_sliding_window"),
    ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
    ({"attention_bias": "some"}, "attention_bias"),
    ({"mlp_bias": 0}, "mlp_bias"),
    ({"hidden_act": 3}, "hidden_act"),
    ({"model_type": None}, "model_type"),
    ({"model_type": ["llama"]}, "model_type"),
    *[({"eos_token_id": value}, "eos_token_id") for value in (-1, 2**40, "end", [1, "end"], {})],
    ({"rope_scaling": "linear"}, "rope_scaling"),
    ({"rope_scaling": {"rope_type": 8}}, "rope_type"),
    *[(rope(factor=value), r"rope_scaling\.factor") for value in (0, -2, 1e300, None)],
    *[(rope(low_freq_factor=value), "low_freq_factor") for value in (0, -1, 4.5, 5)],
    *[(rope(high_freq_factor=value), "high_freq_factor") for value in (0, -1, 0.5)],
    *[(rope(original_max_position_embeddings=value), "original_max") for value in (0, -5, 2**62)],
    *[(rope(rope_type="yarn", beta_fast=value), "beta_fast") for value in (0, -1)],
    *[(rope(rope_type="yarn", beta_slow=value), "beta_slow") for value in (0, -1)],
    (rope(rope_type="yarn", attention_factor=-1), "attention_factor"),
    *[(MIXTRAL | {"num_local_experts": value}, "num_local_experts") for value in (0, -4, 2**62, None)],
    *[(MIXTRAL | {"num_experts_per_tok": value}, "num_experts_per_tok") for value in (0, -1, 5, 2**62, None)],
    *[(QWEN_MOE | {"moe_intermediate_size": value}, "moe_intermediate_size") for value in (0, -1, 2**62, None)],
    *[(QWEN_MOE | {"decoder_sparse_step": value}, "decoder_sparse_step") for value in (0, -1, 0.5)],
    *[(QWEN_MOE | {"mlp_only_layers": value}, "mlp_only_layers") for value in ([-1], [2], ["x"], "x")],
    (QWEN_MOE | {"num_hidden_layers": 2**60}, "num_hidden_layers"),
    ({"quantization_config": "awq"}, "quantization_config"),
    *[(quantized(m, group_size=value), "group_size") for m in ("awq", "gptq") for value in (0, -2, 2**62, "x")],
    *[(quantized("gptq", bits=value), "bits") for value in (0, -4, "4")],
    *[
        (quantized("fp8", weight_block_size=value), "weight_block_size")
        for value in ([0, 128], [128, 0], [-1, 128], [128], [128, 128, 128], ["a", "b"], [2**62, 1], "128")
    ],
]
HOSTILE_GPT2 = [
    ({name: value}, name) for name in ("n_embd", "n_layer", "n_head", "n_positions", "n_inner") for value in (0, -1, 2**62)
] + [({"n_head": 5}, "multiple of the 5 heads"), ({"layer_norm_epsilon": -1}, "layer_norm_epsilon")]


def refused(config, name):
    with pytest.raises(gp.errors.FormatError, match=f"config.json: .*{name}|config.json: there is no {name}"):
        TransformerConfig.from_json(json.dumps(config))


@pytest.mark.parametrize("part", range(4))
def test_hostile_config(part):
    assert len(HOSTILE) > 140
    for changes, name in HOSTILE[part::4]:
        refused(llama_config(**changes), name)
    for changes, name in HOSTILE_GPT2:
        refused(GPT2 | changes, name)


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"llama"', "{", '{"model_type": "llama", "model_type": "llama"}', "{}"])
def test_hostile_text(text, tmp_path):
    with pytest.raises(gp.errors.FormatError):
        TransformerConfig.from_json(text)
    config = llama_config()
    folder = save(tmp_path, config, llama_tensors(config))
    (folder / "config.json").write_text(text)
    with pytest.raises(gp.errors.FormatError, match="config.json"):
        load_model_from_safetensors(folder)


def test_a_hostile_config_does_not_load(tmp_path):
    """Beside good tensors, as a program meets it: what was a signal that ended the process is an error."""
    for changes, name in HOSTILE[::7]:
        config = llama_config(**changes)
        folder = save(tmp_path, llama_config(), llama_tensors(llama_config()))
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(gp.errors.FormatError, match=name):
            load_model_from_safetensors(folder)


def case(family, **changes):
    config = llama_config(family, **changes)
    return config, llama_tensors(config, biases=family == "qwen2", qk_norm=family.startswith("qwen3"))


def test_biases_of_every_layer(device, tmp_path):
    config, tensors = case("llama", attention_bias=True, mlp_bias=True)
    rng = np.random.default_rng(3)
    for name in [name for name in tensors if "_proj.weight" in name]:
        tensors[name.replace("weight", "bias")] = rng.normal(size=tensors[name].shape[0]).astype(np.float32)
    model = load_model_from_safetensors(save(tmp_path, config, tensors))
    logits = model.get_logits(model(IDS)[0]).to_numpy()
    np.testing.assert_allclose(logits, reference_logits(config, tensors, IDS), atol=2e-4)
    ids = model.generate(IDS, 20, temperature=0.0)
    engine = model.engine(token_budget=3, graphs=False)
    name = engine.submit(IDS, 20, temperature=0.0)
    assert ids == IDS + [engine.next(name).id for _ in range(20)]
    for missing in ("self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.down_proj.bias", "self_attn.v_proj.bias"):
        less = {n: t for n, t in tensors.items() if n != "model.layers.1." + missing}
        for changes in ({}, {"attention_bias": False, "mlp_bias": False}):
            with pytest.raises(KeyError, match="model.layers.1." + missing):
                load_model_from_safetensors(save(tmp_path, config | changes, less))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mixtral", "qwen3_moe"])
def test_a_missing_tensor_is_named(tmp_path, family):
    more = {"mixtral": MIXTRAL, "qwen3_moe": QWEN_MOE}.get(family, {})
    config, tensors = case(family, **{k: v for k, v in more.items() if k != "model_type"})
    for name in [n for n in tensors if "layers.1." in n and "experts.2" not in n] + ["model.norm.weight"]:
        less = {n: t for n, t in tensors.items() if n != name}
        with pytest.raises(KeyError, match=name):
            load_model_from_safetensors(save(tmp_path, config, less))


@pytest.mark.parametrize(
    "extra",
    [
        "model.layers.0.self_attn.o_proj.bias_extra", "model.layers.0.mlp.experts.0.up_proj.weight",
        "model.layers.2.mlp.up_proj.weight", "model.norm.bias",
        "lm_head.bias", "model.layers.0.input_layernorm.bias", "score.weight", "visual.patch_embed.weight",
    ],
)  # fmt: skip
def test_a_tensor_that_nothing_reads_is_named(tmp_path, extra):
    config, tensors = case("llama")
    tensors[extra] = np.zeros(4, np.float32)
    with pytest.raises(gp.errors.FormatError, match=extra):
        load_model_from_safetensors(save(tmp_path, config, tensors))


def test_tensors_that_config_tells_as_well(tmp_path):
    config, tensors = case("llama")
    for layer in range(2):
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    assert load_model_from_safetensors(save(tmp_path, config, tensors)).generate([1], 2, temperature=0.0)


def test_masks_of_gpt2(device, assets, tmp_path):
    import shutil

    from llm_case import write_safetensors

    from pygpukit.llm import SafeTensorsFile

    source = SafeTensorsFile(str(assets / "gpt-nano-sort" / "model.safetensors"))
    tensors = {n: source.tensor_as_f32(n).reshape(source.tensor_info(n).shape) for n in source.tensor_names}
    tensors["transformer.h.0.attn.bias"] = np.ones((1, 1, 11, 11), np.float32)
    tensors["transformer.h.0.attn.masked_bias"] = np.ones((), np.float32)
    shutil.copy(assets / "gpt-nano-sort" / "config.json", tmp_path)
    (tmp_path / "config.json").chmod(0o644)
    write_safetensors(tmp_path / "model.safetensors", tensors)
    assert load_model_from_safetensors(tmp_path).generate([2, 0, 1, 1, 0, 2], 6, temperature=0.0)[6:] == [0, 0, 1, 1, 2, 2]
    del tensors["transformer.h.2.mlp.c_proj.bias"]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(KeyError, match=r"h\.2\.mlp\.c_proj\.bias"):
        load_model_from_safetensors(tmp_path)
