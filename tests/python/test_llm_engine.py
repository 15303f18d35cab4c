"""Generation: golden texts, and that a request's tokens depend on nothing but the request."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from llm_case import golden, llama_config, llama_tensors, save

import pygpukit as gp
from pygpukit.llm import Tokenizer, load_model_from_safetensors
from pygpukit.scheduler.execution import KB, MB, context_session, create_context, get_context_usage

ASSETS = ["stories260K", "stories15M", "stories260K-moe4x2-derived"]


@pytest.fixture
def tiny(device, tmp_path):
    config = llama_config("mistral", sliding_window=40)
    return load_model_from_safetensors(save(tmp_path, config, llama_tensors(config, seed=4)))


@pytest.fixture
def stories(device, assets):
    return load_model_from_safetensors(assets / "stories260K")


def prompts(rng, count, longest=30):
    return [rng.integers(0, 61, rng.integers(1, longest)).tolist() for _ in range(count)]


def run_together(engine, requests):
    """Tokens of requests, submitted when the step of their number comes."""
    texts, names, step = {}, {}, 0
    while len(names) < len(requests) or not engine.idle():
        for i, (at, prompt, count, options) in enumerate(requests):
            if at == step:
                names[engine.submit(prompt, count, **options)] = i
                texts[i] = []
        for token in engine.step():
            texts[names[token.request]].append(token.id)
        step += 1
    return [texts[i] for i in range(len(requests))]


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("name", ASSETS)
def test_golden_text(device, assets, name, graphs):
    prompt, ids = golden(assets, name)
    model = load_model_from_safetensors(assets / name)
    assert model.generate(prompt, len(ids) - len(prompt), temperature=0.0) == ids
    engine = model.engine(max_sequences=2, page_size=16, graphs=graphs, verify_graphs=graphs, token_budget=7)
    # A prompt cut into pieces of 7 and the golden text in one batch.
    requests = [(0, prompt, 60, {"temperature": 0.0}), (3, ids[:40], 20, {"temperature": 0.0})]
    assert run_together(engine, requests) == [ids[1:61], ids[40:60]]
    assert engine.num_graphs == (2 if graphs else 0)


def test_tokens_do_not_depend_on_the_batch(tiny, rng):
    requests = []
    for i, prompt in enumerate(prompts(rng, 12)):
        options = (
            {"temperature": 0.0} if i % 3 == 0 else {"temperature": 1.5, "top_k": i % 4 * 10, "top_p": 0.95, "seed": i}
        )
        if i % 5 == 1:
            options |= {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "logit_bias": {3: 2.0, 5: -100.0}}
        requests.append((int(rng.integers(0, 20)), prompt, int(rng.integers(1, 30)), options))
    alone = [run_together(tiny.engine(), [(0, *request[1:])])[0] for request in requests]
    assert [len(text) for text in alone] == [request[2] for request in requests]
    for options in (
        {"max_sequences": 12},
        {"max_sequences": 3, "page_size": 16, "token_budget": 5},
        {"max_sequences": 12, "page_size": 16, "num_pages": 9, "token_budget": 32, "graphs": False},
    ):
        engine = tiny.engine(**options)
        assert run_together(engine, requests) == alone
        assert (engine.num_preempted > 0) == ("num_pages" in options)


def test_a_prefix_is_not_computed_twice(stories, assets):
    _, ids = golden(assets, "stories260K")
    first = stories.generate(ids[:50], 30, temperature=0.0)
    assert first == ids[:80]
    engine = stories._engine
    assert engine.num_reused_tokens == 0
    assert stories.generate(first, 20, temperature=0.0) == ids[:100]
    assert engine.num_reused_tokens == 79
    other = [*ids[:10], 5]
    plain = run_together(stories.engine(keep_prefixes=False), [(0, other, 5, {"temperature": 0.0})])[0]
    assert stories.generate(other, 5, temperature=0.0) == other + plain
    assert engine.num_reused_tokens == 79 + 10


def test_log_probabilities(stories, assets):
    _, ids = golden(assets, "stories260K")
    tokens = list(stories.stream(ids[:4], 12, temperature=0.0, top_logprobs=3))
    assert [token.id for token in tokens] == ids[4:16]
    logits = stories.get_logits(stories(ids[:15])[0]).to_numpy(dtype="float64")[3:]
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for token, row in zip(tokens, expected, strict=True):
        order = np.argsort(-row)[:3]
        assert [i for i, _ in token.top] == order.tolist()
        np.testing.assert_allclose([p for _, p in token.top], row[order], atol=1e-4)
        np.testing.assert_allclose(token.logprob, row[token.id], atol=1e-4)
    assert [token.finish for token in tokens] == [None] * 11 + ["length"]


def test_seeds_and_endings(stories, assets):
    _, ids = golden(assets, "stories260K")
    assert stories.generate([1], 30, seed=5) == stories.generate([1], 30, seed=5) != stories.generate([1], 30, seed=6)
    gp.ops.set_sampling_seed(1)
    first = stories.generate([1], 20)
    gp.ops.set_sampling_seed(1)
    assert stories.generate([1], 20) == first
    stop = ids[9]
    assert stories.generate([1], 100, temperature=0.0, eos_token_id=stop) == ids[: ids.index(stop) + 1]
    token = list(stories.stream([1], 100, temperature=0.0, stop_tokens=[stop]))[-1]
    assert (token.id, token.finish) == (stop, "stop_token")
    assert len(stories.generate([1], 10_000, temperature=0.0)) == 513  # the model's positions, and one drawn after them


def test_text_and_stop_strings(stories, assets):
    tokenizer = Tokenizer(str(assets / "stories260K"))
    tokens = list(stories.stream([1], 100, temperature=0.0, tokenizer=tokenizer))
    text = "".join(token.text for token in tokens)
    assert text.strip().startswith("Once upon a time, there was a little girl named Lily.")
    for stop, kept in (("Lily. S", "named"), (["zz", "girl"], "little"), ("Once", "")):
        tokens = list(stories.stream([1], 100, temperature=0.0, tokenizer=tokenizer, stop=stop))
        shown = "".join(token.text for token in tokens)
        assert tokens[-1].finish == "stop_string" and shown.strip(" ") == text[: len(shown)].strip(" ")
        assert shown.strip().endswith(kept)
        assert all(s not in shown for s in ([stop] if isinstance(stop, str) else stop))
    with pytest.raises(ValueError, match="tokenizer"):
        stories.generate([1], 5, stop="x")


def test_allowed_tokens(stories):
    seen = []

    def even(tokens):
        seen.append(list(tokens))
        return range(0, 512, 2)

    ids = stories.generate([1], 8, temperature=0.0, allowed=even)
    assert all(i % 2 == 0 for i in ids[1:]) and seen == [ids[:n] for n in range(1, 9)]
    with pytest.raises(IndexError):
        stories.generate([1], 8, allowed=lambda tokens: [512])
    with pytest.raises(ZeroDivisionError):
        stories.generate([1], 8, allowed=lambda tokens: [1 // 0])
    with pytest.raises(gp.errors.Error, match="callback"):
        stories.generate([1], 8, allowed=lambda tokens: stories.generate([1], 1))
    assert stories.generate([1], 8, temperature=0.0)[0] == 1


def test_asyncio(stories):
    expected = [stories.generate([1, 403 + i], 10, temperature=0.0)[2:] for i in range(3)]

    async def one(i):
        return [token async for token in stories.generate_async([1, 403 + i], 10, temperature=0.0)]

    async def main():
        return await asyncio.gather(*(one(i) for i in range(3)))

    assert asyncio.run(main()) == expected


def test_an_abandoned_request_leaves_nothing(stories, assets):
    _, ids = golden(assets, "stories260K")
    stream = stories.generate_stream([1], 100, temperature=0.0)
    assert [next(stream), next(stream)] == ids[1:3]
    engine = stories._engine
    assert engine.num_running == 1
    stream.close()
    assert engine.idle()
    request = engine.submit([1], 5)
    assert engine.cancel(request) and not engine.cancel(request)
    with pytest.raises(ValueError, match="has not ended"):
        engine.next(request)


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"quantize": "int8"}, {"cache_dtype": "int8"}, {"cache_dtype": "float8_e4m3"}])
def test_short_formats_do_not_depend_on_the_batch(device, assets, options):
    cache = {key: value for key, value in options.items() if key == "cache_dtype"}
    load = {key: value for key, value in options.items() if key not in cache}
    model = load_model_from_safetensors(assets / "stories260K", **load)
    _, ids = golden(assets, "stories260K")
    requests = [(i % 3, ids[i : 2 * i + 3], 25, {"temperature": 0.5 * (i % 2), "seed": i}) for i in range(7)]
    with gp.determinism("batch_invariant"):
        alone = [run_together(model.engine(**cache), [(0, *request[1:])])[0] for request in requests]
        engine = model.engine(max_sequences=7, token_budget=9, page_size=16, num_pages=12, **cache)
        assert run_together(engine, requests) == alone


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "bfloat16"])
def test_short_cache(stories, assets, dtype):
    _, ids = golden(assets, "stories260K")
    engine = stories.engine(cache_dtype=dtype, max_tokens=300)
    assert engine.cache_bytes < 0.52 * stories.engine(max_tokens=300).cache_bytes
    text = run_together(engine, [(0, ids[:100], 60, {"temperature": 0.0})])[0]
    # The text goes its own way after a while: the model is tiny and its cache coarse.
    assert text[:5] == ids[100:105]


def test_models_in_contexts_of_their_own(fresh_contexts, assets):
    texts = {name: golden(assets, name)[1] for name in ("stories260K", "stories260K-moe4x2-derived")}
    contexts = {name: create_context(name, max_vram=64 * MB) for name in texts}
    models = {}
    for name, context in contexts.items():
        with context_session(context):
            models[name] = load_model_from_safetensors(assets / name)
    for length in (10, 40, 25):
        for name, ids in texts.items():
            with context_session(contexts[name]):
                assert models[name].generate(ids[:5], length, temperature=0.0) == ids[: 5 + length]
    used = {name: get_context_usage(name)["used_vram"] for name in texts}
    assert all(used[name] > models[name].weight_bytes for name in texts)
    small = create_context("small", max_vram=64 * KB)
    with context_session(small), pytest.raises(MemoryError):
        load_model_from_safetensors(assets / "stories260K")
    assert get_context_usage("small")["used_vram"] == 0


def test_engine_is_checked(tiny):
    engine = tiny.engine(max_sequences=2, max_tokens=64, num_pages=2, page_size=16)
    for arguments, message in (
        (([], 5), "prompt must have a token"),
        (([1] * 65, 5), "at most 64"),
        (([1], 0), "max_new_tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.submit(*arguments)
    with pytest.raises(IndexError):
        engine.submit([61], 5)
    with pytest.raises(ValueError, match="temperature"):
        engine.submit([1], 5, temperature=float("nan"))
    request = engine.submit([1] * 20, 40, temperature=0.0)
    with pytest.raises(MemoryError, match="2 pages"):
        for _ in range(40):
            engine.next(request)
    assert engine.idle() and len(run_together(engine, [(0, [1], 5, {})])[0]) == 5
    with pytest.raises(ValueError, match="positions"):
        tiny.engine(max_tokens=129)
    with pytest.raises(ValueError, match="float8_e4m3"):
        tiny.engine(cache_dtype="float64")
    with pytest.raises(ValueError, match="page_size"):
        tiny.engine(page_size=0)
