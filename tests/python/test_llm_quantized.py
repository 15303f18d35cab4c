"""Quantised weights: at load, and as checkpoints hold them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from llm_case import golden, llama_config, llama_tensors, reference_logits, save

import pygpukit as gp
from pygpukit.llm import load_model_from_safetensors

IDS = [3, 14, 1, 59, 2, 6, 53, 58, 9, 7]
MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def logits_of(model, ids):
    return model.get_logits(model(ids)[0]).to_numpy(dtype="float64")


@pytest.mark.parametrize(("format", "agreement"), [("int8", 0.95), ("float8_e4m3", 0.90), ("int4", 0.6), ("float4_e2m1", 0.6)])
def test_next_tokens_of_a_quantised_model(device, assets, format, agreement):
    _, ids = golden(assets, "stories15M")
    model = load_model_from_safetensors(assets / "stories15M", quantize=format)
    full = load_model_from_safetensors(assets / "stories15M")
    tied = full.embed_tokens.size * 4
    assert model.weight_bytes - tied < 0.32 * (full.weight_bytes - tied)
    same = logits_of(model, ids[:-1]).argmax(-1) == np.array(ids[1:])
    assert same.mean() >= agreement


def test_a_quantised_model_generates_what_it_computes(device, assets):
    model = load_model_from_safetensors(assets / "stories260K", quantize="int8", dtype="bfloat16")
    ids = model.generate([1], 40, temperature=0.0)
    assert logits_of(model, ids[:-1]).argmax(-1).tolist() == ids[1:]
    with pytest.raises(ValueError, match="quantize"):
        load_model_from_safetensors(assets / "stories260K", quantize="int16")


@pytest.mark.parametrize(("format", "agreement"), [("int8", 0.95), ("float8_e4m3", 0.9), ("float4_e2m1", 0.6)])
def test_experts_are_quantised_one_by_one(device, assets, format, agreement):
    _, ids = golden(assets, "stories260K-moe4x2-derived")
    model = load_model_from_safetensors(assets / "stories260K-moe4x2-derived", quantize=format)
    same = logits_of(model, ids[:-1]).argmax(-1) == np.array(ids[1:])
    assert same.mean() >= agreement
    text = model.generate(ids[:5], 12, temperature=0.0)
    assert logits_of(model, text[:-1]).argmax(-1)[4:].tolist() == text[5:]


@pytest.mark.parametrize("heads", [(2, 2), (4, 2)], ids=["joined", "apart"])
def test_fp8_checkpoint(device, tmp_path, heads):
    # 128 rows of keys are whole blocks of scales, 64 are not.
    config = llama_config(
        hidden_size=256,
        intermediate_size=384,
        num_attention_heads=4,
        num_key_value_heads=heads[1],
        head_dim=64 if heads[0] == 2 else 32,
        quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
    )
    tensors = llama_tensors(config)
    stored, names, numbers = {}, {}, dict(tensors)
    for name, w in tensors.items():
        if not any(part in name for part in MATRICES):
            stored[name] = w
            continue
        rows, columns = (-(-size // 128) for size in w.shape)
        scale = np.zeros((rows, columns), np.float32)
        codes = np.zeros(w.shape, ml_dtypes.float8_e4m3fn)
        numbers[name] = np.zeros_like(w)
        for i in range(rows):
            for j in range(columns):
                block = np.s_[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128]
                scale[i, j] = np.abs(w[block]).max() / 448
                codes[block] = (w[block] / scale[i, j]).astype(ml_dtypes.float8_e4m3fn)
                numbers[name][block] = codes[block].astype(np.float32) * scale[i, j]
        stored[name], names[name] = codes.view(np.uint8), "F8_E4M3"
        stored[name + "_scale_inv"] = scale
    model = load_model_from_safetensors(save(tmp_path, config, stored, names))
    expected = reference_logits(config, numbers, IDS)
    np.testing.assert_allclose(logits_of(model, IDS), expected, atol=1e-4)
    assert model.weight_bytes < 0.5 * 4 * sum(w.size for w in tensors.values())
    with pytest.raises(gp.errors.ArgumentError, match="quantize must be None"):
        load_model_from_safetensors(tmp_path, quantize="int8")
    stored["model.layers.0.mlp.up_proj.weight_scale_inv"] = np.ones((1, 1), np.float32)
    with pytest.raises(gp.errors.FormatError, match="up_proj.weight must be float8_e4m3"):
        load_model_from_safetensors(save(tmp_path, config, stored, names))


def pack_words(codes, order):
    """Codes [rows, 8 n] as words [rows, n]: nibble i of a word holds column order[i]."""
    groups = codes.reshape(codes.shape[0], -1, 8)[:, :, order].astype(np.uint32)
    return np.bitwise_or.reduce(groups << (4 * np.arange(8, dtype=np.uint32)), axis=-1).view(np.int32)


@pytest.mark.parametrize("method", ["awq", "gptq", "gptq_v2"])
def test_int4_checkpoint(device, tmp_path, method):
    rng = np.random.default_rng(8)
    group = 32
    config = llama_config(
        hidden_size=64,
        intermediate_size=96,
        quantization_config={
            "quant_method": method[:4].rstrip("_"),
            "bits": 4,
            "group_size": group,
            "checkpoint_format": method,
            "version": "gemm",
        },
    )
    tensors = llama_tensors(config)
    stored, numbers = {}, dict(tensors)
    for name, w in tensors.items():
        if not any(part in name for part in MATRICES):
            stored[name] = w
            continue
        n, k = w.shape
        codes = rng.integers(0, 16, (k, n))
        zeros = rng.integers(1, 16, (k // group, n))
        scales = (rng.uniform(0.5, 1.5, zeros.shape) / np.sqrt(k) / 5).astype(np.float16)
        numbers[name] = ((codes - zeros.repeat(group, 0)) * scales.astype(np.float64).repeat(group, 0)).T
        stem = name.removesuffix(".weight")
        stored[stem + ".scales"] = scales
        if method == "awq":
            order = [0, 2, 4, 6, 1, 3, 5, 7]
            stored[stem + ".qweight"] = pack_words(codes, order)
            stored[stem + ".qzeros"] = pack_words(zeros, order)
        else:
            plain = list(range(8))
            stored[stem + ".qweight"] = pack_words(codes.T, plain).T
            stored[stem + ".qzeros"] = pack_words(zeros - (method == "gptq"), plain)
            stored[stem + ".g_idx"] = (np.arange(k) // group).astype(np.int32)
    model = load_model_from_safetensors(save(tmp_path, config, stored))
    np.testing.assert_allclose(logits_of(model, IDS), reference_logits(config, numbers, IDS), atol=2e-4)
    with pytest.raises(gp.errors.ArgumentError, match="quantize must be None"):
        load_model_from_safetensors(tmp_path, quantize="float8_e4m3")
    if method != "awq":
        stored["model.layers.0.mlp.up_proj.g_idx"] = stored["model.layers.0.mlp.up_proj.g_idx"][::-1]
        with pytest.raises(gp.errors.UnsupportedError, match="up_proj.g_idx permutes"):
            load_model_from_safetensors(save(tmp_path, config, stored))
