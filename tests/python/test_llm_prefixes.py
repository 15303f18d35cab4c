"""Texts that begin alike share pages: any number of them, with the tokens they have alone."""

from __future__ import annotations

import pytest
from llm_case import golden, llama_config, llama_tensors, save

from pygpukit.llm import load_model_from_safetensors

GREEDY = {"temperature": 0.0}


@pytest.fixture
def tiny(device, tmp_path):
    config = llama_config("llama")
    return load_model_from_safetensors(save(tmp_path, config, llama_tensors(config, seed=4)))


def finish(engine, name, drawn=()):
    tokens = [token for token in drawn if token.request == name]
    while not tokens or tokens[-1].finish is None:
        tokens.append(engine.next(name))
    return [token.id for token in tokens]


def alone(model, prompt, count, options, **cache):
    engine = model.engine(keep_prefixes=False, **cache)
    return finish(engine, engine.submit(prompt, count, **options))


@pytest.mark.parametrize("cache_dtype", [None, "int8", "float8_e4m3", "bfloat16"])
@pytest.mark.parametrize("length", [16, 37, 48])
def test_many_requests_share_one_prefix(tiny, rng, length, cache_dtype):
    cache = {} if cache_dtype is None else {"cache_dtype": cache_dtype}
    prefix = rng.integers(0, 61, length).tolist()
    prompts = [[*prefix, *rng.integers(0, 61, 1 + i).tolist()] for i in range(6)]
    options = [{"temperature": i % 2 * 1.0, "seed": i} for i in range(6)]
    expected = [alone(tiny, p, 10, o, **cache) for p, o in zip(prompts, options, strict=True)]
    engine = tiny.engine(max_sequences=6, page_size=16, num_pages=64, **cache)
    first = engine.submit(prefix, 3, **GREEDY)
    finish(engine, first)
    used = 64 - engine.num_free_pages
    names = [engine.submit(p, 10, **o) for p, o in zip(prompts, options, strict=True)]
    drawn = engine.step()
    assert engine.num_reused_tokens >= 6 * (length if length % 16 >= 8 or length % 16 == 0 else length // 16 * 16)
    # Beside the pages of the first text each has those alone that it goes on writing to.
    assert 64 - engine.num_free_pages <= used + 6 * (-(-(length + 7) // 16) - length // 16)
    assert [finish(engine, name, drawn) for name in names] == expected
    engine.drop_prefixes()
    assert engine.num_free_pages == 64


def test_a_running_text_is_shared(tiny, rng):
    prefix = rng.integers(0, 61, 40).tolist()
    prompts = [[*prefix, i] for i in range(3)]
    expected = [alone(tiny, p, 20, GREEDY) for p in prompts]
    engine = tiny.engine(max_sequences=3, page_size=16, num_pages=24)
    names = [engine.submit(prompts[0], 20, **GREEDY)]
    engine.step()
    names += [engine.submit(p, 20, **GREEDY) for p in prompts[1:]]
    drawn = engine.step()
    assert engine.num_reused_tokens == 2 * 40
    assert engine.cancel(names[0])  # its pages stay with those that share them
    assert [finish(engine, name, drawn) for name in names[1:]] == expected[1:]
    engine.drop_prefixes()
    assert engine.num_free_pages == 24


def test_few_pages_and_shared_prefixes(tiny, rng):
    """Preemption, kept texts that make room, and prefixes of prefixes."""
    base = rng.integers(0, 61, 50).tolist()
    requests = []
    for i in range(16):
        prompt = [*base[: int(rng.integers(1, 50))], *rng.integers(0, 61, rng.integers(1, 8)).tolist()]
        options = GREEDY if i % 2 else {"temperature": 1.0, "seed": i}
        requests.append((prompt, int(rng.integers(2, 30)), options))
    expected = [alone(tiny, *request) for request in requests]
    engine = tiny.engine(max_sequences=6, page_size=8, num_pages=17, token_budget=24)
    names = {engine.submit(prompt, count, **options): i for i, (prompt, count, options) in enumerate(requests)}
    texts = [[] for _ in requests]
    while not engine.idle():
        for token in engine.step():
            texts[names[token.request]].append(token.id)
    assert texts == expected
    assert engine.num_preempted > 0 and engine.num_reused_tokens > 0
    engine.drop_prefixes()
    assert engine.num_free_pages == 17


def test_the_golden_text_from_a_kept_prefix(device, assets):
    _, ids = golden(assets, "stories260K")
    model = load_model_from_safetensors(assets / "stories260K")
    engine = model.engine(max_sequences=4, page_size=16)
    finish(engine, engine.submit(ids[:60], 5, **GREEDY))
    names = {n: engine.submit(ids[:n], 30, **GREEDY) for n in (20, 40, 55, 64)}
    for n, name in names.items():
        assert finish(engine, name) == ids[n : n + 30]
    assert engine.num_reused_tokens == 16 + 32 + 48 + 63
