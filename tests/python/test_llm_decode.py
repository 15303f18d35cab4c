"""Strategies, fixed caches, layers as objects, buffers."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from llm_case import golden, llama_config, llama_tensors, reference_mlp, rms, save

import pygpukit as gp
from pygpukit import llm, runtime
from pygpukit.llm import layers


@pytest.fixture
def stories(device, assets):
    return llm.load_model_from_safetensors(assets / "stories260K")


@pytest.fixture
def text(assets):
    return golden(assets, "stories260K")[1]


def prefilled(model, ids, size=256):
    """As programs for 0.2 do it: a forward, whose keys and values are copied to the caches of the layers."""
    for block in model.blocks:
        block.attn.init_fixed_cache(size, dtype="float32")
    _, past = model(ids, use_cache=True)
    for block, (k, v) in zip(model.blocks, past, strict=True):
        gp.ops.kv_cache_prefill_gqa(k, block.attn._k_cache, block.attn.num_heads, 0)
        gp.ops.kv_cache_prefill_gqa(v, block.attn._v_cache, block.attn.num_heads, 0)
    return model


def test_single_steps(stories, text):
    prefilled(stories, text[:7])
    buffers = llm.DecodeBuffers.allocate(stories.config, dtype="float32", vocab_size=512)
    plain, graph = llm.DecodeM1(), llm.DecodeM1Graph()
    with pytest.raises(RuntimeError, match="bind"):
        plain.step(1, 0, 1, buffers)
    plain.bind(stories)
    graph.bind(stories)
    with pytest.raises(RuntimeError, match="init_graph"):
        graph.step_graph(1, 0, 1)
    with pytest.raises(NotImplementedError):
        graph.step(1, 0, 1, buffers)
    graph.init_graph(max_seq_len=256)
    assert graph.has_graph() and not plain.has_graph()
    whole = stories.get_logits(stories(text[:40])[0]).to_numpy()
    for position in range(7, 40):
        logits = plain.step(text[position], position, position + 1, buffers)
        assert logits is buffers.logits and logits.to_numpy().tobytes() == whole[position].tobytes()
        replayed = graph.step_graph(text[position], position, position + 1)
        assert replayed.to_numpy().tobytes() == whole[position].tobytes()
    with pytest.raises(IndexError):
        graph.step_graph(1, 256, 257)
    with pytest.raises(ValueError, match="vocab_size"):
        plain.step(1, 7, 8, llm.DecodeBuffers.allocate(stories.config, dtype="float32"))


def test_batch_steps(stories, text):
    prefilled(stories, text[:7])
    whole = stories(text[:40])[0].to_numpy()
    batch = llm.DecodeBatch(8)
    batch.bind(stories)
    batch.init_graph(256)
    for a, b in ((7, 15), (15, 18), (18, 26), (26, 34)):
        assert batch.step_batch(text[a:b], a, b, None).to_numpy().tobytes() == whole[a:b].tobytes()
        logits = batch.step_graph(text[a:b], a, b)
        assert logits.to_numpy().argmax(-1).tolist() == text[a + 1 : b + 1]
    assert batch.buffers.hidden_batch.shape == (8, 64)


STRATEGIES = {
    "repeat": lambda: llm.DecodeJacobi(8, 3),
    "ngram": lambda: llm.DecodeJacobi(8, 3, "ngram"),
    "greedy": lambda: llm.DecodeJacobi(8, 3, "greedy"),
    "two layers": lambda: llm.DecodeSpeculative(4, 2),
    "all layers": lambda: llm.DecodeSpeculative(3, 5),
    "ngrams": lambda: llm.DecodeSpeculative(6, ngrams=True),
}


@pytest.mark.parametrize("which", STRATEGIES)
def test_tokens_are_those_of_greedy_decoding(stories, text, which):
    strategy = STRATEGIES[which]()
    stories.init_fixed_cache(220)
    strategy.bind(stories)
    first = int(stories.prefill_fixed_cache(text[:5]).to_numpy().argmax())
    ids, position, steps, drafted = [*text[:5], first], 5, 0, 0
    while position < 200:
        if isinstance(strategy, llm.DecodeJacobi):
            tokens, position, stats = strategy.step_jacobi(ids[-1], position, position + 1)
            assert stats["iterations"] <= 3
        else:
            tokens, position, stats = strategy.step_speculative(ids[-1], position, position + 1)
            drafted += stats["draft_count"]
        assert stats["accepted_count"] == len(tokens) >= 1
        ids += tokens
        steps += 1
        assert position == len(ids) - 1
    assert ids == text[: len(ids)]
    if which == "all layers":  # all is taken
        assert steps == -(-195 // 4)
    if which == "ngrams":
        assert drafted > 0 and steps < 195


def test_a_second_model_drafts(stories, text, assets):
    small = llm.load_model_from_safetensors(assets / "stories260K", quantize="int8")
    for model in (small, stories):
        model.init_fixed_cache(128)
        model.prefill_fixed_cache(text[:5])
    strategy = llm.DecodeSpeculative(4, draft_model=small)
    strategy.bind(stories)
    ids, position, steps = list(text[:6]), 5, 0
    while position < 100:
        tokens, position, _ = strategy.step_speculative(ids[-1], position, position + 1)
        ids += tokens
        steps += 1
    assert ids == text[: len(ids)] and steps < 40


def test_lookahead_of_the_model(stories, text):
    stories.init_decode_graph(64)
    stories.prefill_fixed_cache(text[:5])
    stories.set_lookahead_confirmed_pos(5)
    ids = list(text[:6])
    for turn in range(8):
        step = stories.decode_step_jacobi_lookahead if turn % 2 else stories.decode_step_self_speculative_lookahead
        tokens, stats = step(ids[-1])
        stories.commit_lookahead_all(len(tokens))
        stories.reset_lookahead_all()
        ids += tokens
        assert stories.get_lookahead_confirmed_pos() == len(ids) - 1 and stats["accepted_count"] == len(tokens)
    assert ids == text[: len(ids)]
    stories.init_jacobi_decode(4, 64)
    stories.prefill_fixed_cache(text[:20])
    assert stories.jacobi_decode_step([*text[20:23], 0], 20) == text[21:24]
    # At the end of the cache there is room for one token alone.
    stories.prefill_fixed_cache(text[:63])
    assert stories.jacobi_decode_step(text[63:66], 63) == [text[64]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_snapshot(device, assets, text, dtype):
    model = llm.load_model_from_safetensors(assets / "stories260K", dtype=dtype)
    for use in (model.snapshot_kv_cache, model.decoder):
        with pytest.raises(RuntimeError, match="init_fixed_cache"):
            use()
    model.init_fixed_cache(64)
    model.prefill_fixed_cache(text[:20])
    snapshot = model.snapshot_kv_cache()
    expected = model.decode_step_graph(text[20], 20).to_numpy(dtype="float32").tobytes()
    model.prefill_fixed_cache([5] * 40)
    assert model.decode_step_graph(text[20], 20).to_numpy(dtype="float32").tobytes() != expected
    model.restore_kv_cache(snapshot)
    assert model.decode_step_graph(text[20], 20).to_numpy(dtype="float32").tobytes() == expected
    assert snapshot[0][0].shape == (8, 64, 8)


def test_a_model_of_layers(device, tmp_path):
    config = llama_config("qwen3")
    tensors = llama_tensors(config, qk_norm=True)
    loaded = llm.load_model_from_safetensors(save(tmp_path, config, tensors))
    arrays = {name: gp.from_numpy(tensor) for name, tensor in tensors.items()}
    c = llm.TransformerConfig(61, 32, 2, 4, 2, 48, max_position_embeddings=128, tie_word_embeddings=False)
    blocks = []
    for i in range(2):
        p = f"model.layers.{i}."
        q, k, v, o = (arrays[p + f"self_attn.{name}_proj.weight"] for name in "qkvo")
        q_norm, k_norm = (layers.Norm(arrays[p + f"self_attn.{name}_norm.weight"]) for name in "qk")
        attention = layers.Attention(layers.Linear(q), k, gp.Weight(v), o, c, q_norm=q_norm, k_norm=k_norm)
        gate, up, down = (arrays[p + f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        mlp = layers.MLP(c, gate_proj=gate, up_proj=up, down_proj=down)
        norms = [layers.RMSNorm(arrays[p + f"{n}_layernorm.weight"]) for n in ("input", "post_attention")]
        blocks.append(layers.TransformerBlock(norms[0], attention, norms[1], mlp))
    model = llm.CausalTransformerModel(
        c, arrays["model.embed_tokens.weight"], blocks, layers.Norm(arrays["model.norm.weight"]), arrays["lm_head.weight"]
    )
    ids = [3, 14, 1, 59, 2]
    hidden, past = loaded(ids, use_cache=True)
    assert model(ids)[0].to_numpy().tobytes() == hidden.to_numpy().tobytes()
    assert model.generate(ids, 5, temperature=0.0) == loaded.generate(ids, 5, temperature=0.0)
    x = gp.embedding(arrays["model.embed_tokens.weight"], gp.from_numpy(np.array(ids, np.int32)))
    caches = [None, None]
    for part in (x[:2], x[2:]):
        y = part
        for i, block in enumerate(model.blocks):
            y, caches[i] = block(y, past_kv=caches[i], use_cache=True)
    assert model.final_norm(y).to_numpy().tobytes() == hidden.to_numpy()[2:].tobytes()
    for pair, whole in zip(caches, past, strict=True):
        assert [a.to_numpy().tobytes() for a in pair] == [a.to_numpy().tobytes() for a in whole]
    attention = model.blocks[0].attn
    assert (attention.q_dim, attention.k_dim, attention.num_kv_groups, attention.head_dim) == (32, 16, 2, 8)
    assert attention.qkv_proj.weight.shape == (64, 32) and blocks[0].attn is attention
    h = model.blocks[0].attn_norm(x)
    out, kv = attention(h)
    assert kv is None
    attention.init_fixed_cache(8, dtype="float32")
    assert attention._k_cache.shape == (4, 8, 8)
    assert attention.forward_fixed_cache_batch(h[:4], 0, 4).to_numpy().tobytes() == out[:4].to_numpy().tobytes()
    last = gp.empty((1, 32))
    assert attention.forward_fixed_cache(h[4:], 4, 5, out=last) is last
    assert last.to_numpy().tobytes() == out[4:].to_numpy().tobytes()
    with pytest.raises(ValueError, match="k_proj must have 16 rows"):
        layers.Attention(q, q, v, o, c)
    with pytest.raises(ValueError, match="blocks must be 2"):
        llm.CausalTransformerModel(c, arrays["model.embed_tokens.weight"], blocks[:1], model.final_norm)


def bits(x):
    return x.to_numpy().tobytes()


def test_steps_into_arrays_of_the_caller(stories, text, device):
    prefilled(stories, text[:7])
    config = stories.config
    buffers = llm.DecodeBuffers.allocate(config, dtype="float32", vocab_size=512, max_batch_size=4)
    whole = stories(text[:20])[0].to_numpy()
    hidden = stories._decode_step_zero_alloc(text[7], 7, 8, buffers)
    assert hidden is buffers.hidden and bits(hidden) == whole[7:8].tobytes()
    several = stories._decode_step_fixed_cache_batch_zero_alloc(text[8:11], 8, 11, buffers)
    assert bits(several) == whole[8:11].tobytes() == bits(buffers.hidden_batch[:3])
    strategy = llm.DecodeBatch(4)
    strategy.bind(stories)
    strategy.step_batch(text[8:12], 8, 12, buffers)
    assert bits(buffers.hidden_batch) == whole[8:12].tobytes()
    with pytest.raises(ValueError, match="hidden_batch must have 5 rows"):
        stories._decode_step_fixed_cache_batch_zero_alloc(text[8:13], 8, 13, buffers)
    prompt = llm.PrefillBuffers.allocate(config, 16, dtype="float32")
    hidden, past = stories._prefill_with_buffers(text[:9], prompt)
    assert bits(hidden) == whole[:9].tobytes() == bits(prompt.hidden[:9]) and len(past) == 5
    assert stories._prefill_with_buffers(text[:9], prompt, use_cache=False)[1] is None

    block, x = stories.blocks[0], stories.embed_tokens[5:8].copy()
    expected = block.attn.forward_fixed_cache_batch(x, 3, 6).to_numpy()
    start, gone = gp.from_numpy(np.array([3], np.int32)), gp.from_numpy(np.zeros(1, np.int32))

    def steps():
        row = stories._attention_forward_zero_alloc(block.attn, x[:1], 3, 4, buffers)
        assert row is buffers.o_proj_out
        assert stories._mlp_forward_zero_alloc(block.mlp, x[:1], buffers) is buffers.mlp_down
        block.attn.forward_fixed_cache_batch_zero_alloc(x, 3, 6, buffers, None, None, None)
        return block.attn.forward_fixed_cache_batch_zero_alloc(x, 99, 6, buffers, None, None, start)

    assert bits(steps()) == expected.tobytes() and bits(buffers.o_proj_out) == expected[:1].tobytes()
    assert bits(buffers.mlp_down) == bits(block.mlp(x[:1]))
    before = device.memory_stats()["allocations"]
    steps()
    assert device.memory_stats()["allocations"] == before
    with pytest.raises(ValueError, match="start_pos_buf"):
        block.attn.forward_fixed_cache_batch_zero_alloc(x, 0, 3, buffers, None, None, gp.zeros((2,), dtype="int32"))
    with pytest.raises(ValueError, match="at most the 4 rows"):
        block.attn.forward_fixed_cache_batch_zero_alloc(stories.embed_tokens[:5], 0, 5, buffers)
    # A graph reads where the tokens stand when it is replayed.
    graph = gp.CudaGraph()
    with graph.capture():
        block.attn.forward_fixed_cache_batch_zero_alloc(x, 0, 3, buffers, None, None, gone)
    gone[:] = start
    graph.replay()
    assert bits(buffers.o_proj_out_batch[:3]) == expected.tobytes()


def test_names_of_a_model(stories):
    cos, sin = llm.precompute_freqs_cis(8, 512)
    attn = stories.blocks[0].attn
    np.testing.assert_allclose(attn._cos, cos, atol=1e-6)
    np.testing.assert_allclose(attn._sin, sin, atol=1e-6)
    assert stories._rope_cos_gpu is None
    stories._rope_cos_gpu, stories._rope_sin_gpu = gp.from_numpy(attn._cos), gp.from_numpy(attn._sin)
    assert stories.lm_head is stories._lm_head is None and stories.head.shape == (512, 64)
    assert isinstance(stories._embed_np_cache, np.ndarray) and stories._embed_np_cache is stories._embed_np_cache
    assert stories._embed_np_cache.tobytes() == bits(stories.embed_tokens)
    mlp = stories.blocks[0].mlp
    assert mlp.gate_proj.weight.shape == mlp.up_proj.weight.shape == mlp.down_proj.weight.shape[::-1] == (172, 64)
    assert mlp.fc1 is None and mlp.fc2 is None


def test_an_own_head(device, tmp_path):
    config = llama_config()
    tensors = llama_tensors(config)
    model = llm.load_model_from_safetensors(save(tmp_path, config, tensors))
    assert isinstance(model.lm_head, gp.GPUArray) and model.lm_head.to_numpy().tobytes() == tensors["lm_head.weight"].tobytes()
    hidden = model([1, 2])[0]
    np.testing.assert_allclose(model.get_logits(hidden).to_numpy(), hidden.to_numpy() @ model.lm_head.to_numpy().T, atol=1e-5)


def test_strategies_of_streaming_are_abstract():
    with pytest.raises(TypeError, match="abstract"):
        llm.LoadingStrategy()
    with pytest.raises(TypeError, match="abstract"):
        llm.DecodeStrategy()
    assert isinstance(llm.AutoLRU(), llm.LoadingStrategy)


def test_feed_forward_layers(device, rng):
    x = rng.normal(size=(5, 32)).astype(np.float32)
    c = llm.TransformerConfig(61, 32, 1, 4, intermediate_size=48, activation="gelu", norm_type="layernorm")
    w1, b1, w2, b2 = (rng.normal(size=s).astype(np.float32) for s in ((48, 32), (48,), (32, 48), (32,)))
    mlp = layers.MLP(c, *(gp.from_numpy(a) for a in (w1, b1, w2, b2)))
    inner = x.astype(float) @ w1.T + b1
    inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    np.testing.assert_allclose(mlp(gp.from_numpy(x)).to_numpy(), inner @ w2.T + b2, atol=2e-4)
    assert mlp.gate_proj is None and mlp.fc1.weight.shape == (48, 32) and mlp.fc2.bias.shape == (32,)
    with pytest.raises(ValueError, match="fc1_weight"):
        layers.MLP(c)
    config = llama_config("mixtral", num_local_experts=4, num_experts_per_tok=2)
    tensors = llama_tensors(config)
    stem = "model.layers.0.block_sparse_moe."
    experts = [tuple(gp.from_numpy(tensors[stem + f"experts.{e}.w{i}.weight"]) for i in (1, 3, 2)) for e in range(4)]
    c = llm.TransformerConfig(61, 32, 1, 4, intermediate_size=48, num_experts=4)
    moe = layers.MoELayer(c, gp.from_numpy(tensors[stem + "gate.weight"]), experts)
    expected = reference_mlp(config, {n: t.astype(float) for n, t in tensors.items()}, "model.layers.0.", x.astype(float))
    np.testing.assert_allclose(moe(gp.from_numpy(x)).to_numpy(), expected, atol=1e-4)
    x, out = gp.from_numpy(x), gp.empty((5, 32))
    assert bits(moe.forward_zero_alloc(x, *[None] * 13, out)) == bits(moe(x)) == bits(out)
    with pytest.raises(ValueError, match="expert_weights must be 4"):
        layers.MoELayer(c, gp.from_numpy(tensors[stem + "gate.weight"]), experts[:3])


def test_linear_and_norm(device, rng):
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((3, 256), (200, 256), (200,)))
    expected = x.astype(float) @ w.T + b
    linear = layers.LinearBF16(gp.from_numpy(w), gp.from_numpy(b))
    out = gp.empty((3, 200))
    assert linear(gp.from_numpy(x), out=out) is out and (linear.in_features, linear.out_features) == (256, 200)
    np.testing.assert_allclose(out.to_numpy(), expected, atol=1e-4)
    scale = np.array([[0.02, 0.5], [0.25, 0.1]], np.float32)
    codes = (rng.normal(size=(200, 256)) * 30).astype(ml_dtypes.float8_e4m3fn)
    numbers = codes.astype(np.float32) * scale.repeat(128, 0)[:200].repeat(128, 1)
    fp8 = layers.LinearFP8(gp.from_numpy(codes.view(np.uint8)), gp.from_numpy(scale), gp.from_numpy(b))
    np.testing.assert_allclose(fp8(gp.from_numpy(x)).to_numpy(), x.astype(float) @ numbers.T + b, rtol=1e-4, atol=2e-3)
    assert (llm.dequantize_fp8_e4m3_block(codes.view(np.uint8), scale) == numbers).all()
    with pytest.raises(ValueError, match="scale_inv"):
        layers.LinearFP8(gp.from_numpy(codes.view(np.uint8)), gp.from_numpy(scale[:1]))
    gamma = rng.uniform(0.5, 1.5, 256).astype(np.float32)
    norm = layers.Norm(gp.from_numpy(gamma), eps=1e-3)
    np.testing.assert_allclose(norm(gp.from_numpy(x)).to_numpy(), rms(x.astype(float), gamma, 1e-3), atol=1e-5)
    assert (norm.norm_type, norm.bias, norm.eps) == ("rmsnorm", None, 1e-3)
    assert layers.Norm(gp.from_numpy(gamma), norm_type="layernorm").norm_type == "layernorm"


def test_aliases_and_tables():
    assert layers.RMSNorm is layers.Norm is layers.LayerNorm
    assert layers.CausalSelfAttention is layers.LlamaAttention is layers.Attention
    assert layers.LlamaMLP is layers.MLP and layers.LlamaBlock is layers.TransformerBlock
    assert llm.GPT2Model is llm.LlamaModel is llm.QwenModel is llm.CausalTransformerModel
    cos, sin = llm.precompute_freqs_cis(8, 5, 100.0)
    angles = np.arange(5)[:, None] * 100.0 ** (-np.arange(0, 8, 2) / 8)
    np.testing.assert_allclose(cos, np.cos(np.concatenate([angles, angles], 1)), atol=1e-6)
    q = np.random.default_rng(0).normal(size=(5, 3, 8)).astype(np.float32)
    turned, _ = llm.apply_rotary_pos_emb_numpy(q, q, cos, sin)
    x = gp.from_numpy(q)
    gp.ops.rope_inplace(x, gp.from_numpy(q), gp.from_numpy(cos), gp.from_numpy(sin))
    np.testing.assert_allclose(turned, x.to_numpy(), atol=1e-6)


def test_sample_token():
    logits = np.array([0.0, 3.0, 1.0, 2.9])
    assert llm.sample_token(logits, temperature=0) == 1
    np.random.seed(3)
    drawn = [llm.sample_token(logits, top_k=2) for _ in range(200)]
    np.random.seed(3)
    assert drawn == [llm.sample_token(logits, top_k=2) for _ in range(200)]
    assert set(drawn) == {1, 3} and 80 < drawn.count(1) < 140
    assert {llm.sample_token(logits, top_p=0.5) for _ in range(50)} == {1, 3}


def test_buffers():
    c = llm.TransformerConfig(100, 32, 1, 4, 2, 48)
    b = llm.DecodeBuffers.allocate(c, "float16", use_qk_norm=True, vocab_size=100, max_batch_size=3)
    assert b.q.shape == (1, 4, 8) and b.qkv_proj_out.shape == (1, 64) and b.logits.dtype.name == "float16"
    assert b.token_ids_batch_buf.shape == (3,) and b.token_ids_batch_buf.dtype.name == "int32"
    b.qkv_proj_out[:] = 2
    assert (b.k_view.to_numpy() == 2).all() and b.k_view.shape == (1, 16) and b.up_view.shape == (1, 48)
    assert llm.DecodeBuffers.allocate(c).logits is None
    moe = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    assert llm.DecodeBuffers.allocate(c, moe_config=moe).moe_expert_offsets.shape == (5,)
    p = llm.PrefillBuffers.allocate(c, 7, use_qk_norm=True)
    assert p.attn_out.shape == (4, 7, 8) and p.k_2d.shape == (14, 8) and p.max_seq_len == 7


def test_optimisation_info():
    fp8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 128], "fmt": "e4m3"}}
    info = llm.ModelOptimizationInfo.from_config(fp8)
    assert info.fp8_config.weight_block_size == (64, 128) and info.qat_config is None and info.has_any_optimization()
    awq = llm.QATQuantConfig.from_config({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}})
    assert (awq.quant_method, awq.group_size) == ("awq", 128)
    modelopt = {"producer": {"name": "modelopt", "version": "1"}, "quantization": {"quant_algo": "FP8"}}
    assert llm.QATQuantConfig.from_config(modelopt).quant_algo == "FP8"
    assert llm.SparsityConfig.from_config({"sparsity_config": {"pattern": "2:4"}}).is_2_4_sparse()
    assert llm.PruningConfig.from_config({"pruned_heads": {"1": [2]}}).pruned_heads == {1: [2]}
    assert not llm.ModelOptimizationInfo.from_config({}).has_any_optimization()
    assert llm.is_fp8_weight("a", ["a", "a_scale_inv"]) and not llm.is_fp8_weight("b", ["b"])


def test_a_draft_is_one_launch_and_one_wait(stories, text):
    """Also of a smaller model, whose draft is one longer; and where the cache and the model end."""
    stories.init_fixed_cache(512)
    stories.prefill_fixed_cache(text[:5])
    decoder = stories.decoder(5)
    assert decoder.draft(text[5], 5, 0, 2) == []
    eager = [text[5]]
    for i in range(6):
        hidden = decoder.hidden([eager[-1]], 5 + i)
        eager.append(int(stories.get_logits(hidden).to_numpy().argmax()))
    assert decoder.draft(text[5], 5, 6, -1) == eager[1:] == text[6:12]
    stories.prefill_fixed_cache(text[:5])
    assert decoder.draft(text[5], 5, 4, 2) == (first := decoder.draft(text[5], 5, 4, 2))
    runtime.trace_start()
    again = decoder.draft(text[5], 5, 4, 2)
    runtime.trace_stop()
    assert again == first
    events = json.loads(runtime.trace_json())["traceEvents"]
    work = [e for e in events if e["ph"] == "X" and not e["name"].startswith("submit ")]
    assert sum(e["cat"] == "copy to host" for e in work) == 1
    assert sum("graph" in e["name"] for e in work) == 1 and len(work) <= 5
    decoder.check_draft(text[5], 5, again)
    runtime.trace_start()
    accepted = decoder.check_draft(text[5], 5, again)
    runtime.trace_stop()
    assert accepted.tokens == text[6 : 6 + len(accepted.tokens)]
    events = json.loads(runtime.trace_json())["traceEvents"]
    work = [e for e in events if e["ph"] == "X" and not e["name"].startswith("submit ")]
    assert sum("graph" in e["name"] for e in work) == 1 and len(work) <= 5
    stories.init_fixed_cache(20)
    decoder = stories.decoder(8)
    assert len(decoder.draft(1, 17, 8, 1)) == 2 and decoder.draft(1, 19, 8, 1) == []
    with pytest.raises(IndexError):
        decoder.draft(512, 3, 2, 1)


def test_a_prompt_has_the_logits_of_its_last_token_alone(device, tmp_path):
    config = llama_config("llama", vocab_size=30_000)
    model = llm.load_model_from_safetensors(save(tmp_path, config, llama_tensors(config)))
    model.init_fixed_cache(128)
    ids = list(range(100, 220))
    gp.synchronize()
    before = gp.device(device).memory_stats()["live_bytes"]
    logits = model.prefill_fixed_cache(ids)
    gp.synchronize()
    row, grown = 30_000 * 4, gp.device(device).memory_stats()["live_bytes"] - before
    assert logits.shape == (1, 30_000) and grown < 5 * row < 120 * row
    whole = model.get_logits(model(ids)[0]).to_numpy()
    assert logits.to_numpy().tobytes() == whole[-1:].tobytes()
    batch = llm.DecodeBatch(8)
    batch.bind(model)
    batch.init_graph(128)
    few = batch.step_graph(ids[:3], 0, 3)
    many = batch.step_graph(ids[:8], 0, 8)  # more rows than before: their graphs are made anew
    assert few.to_numpy().tobytes() == whole[:3].tobytes() and many.to_numpy().tobytes() == whole[:8].tobytes()
    assert batch.step_graph(ids[:3], 0, 3).to_numpy().tobytes() == whole[:3].tobytes()
    assert int(logits.to_numpy().argmax()) == int(whole[-1].argmax())  # its own array
