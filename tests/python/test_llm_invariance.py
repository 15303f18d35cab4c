"""One hash a prompt: tokens do not depend on the batch, on how prompts are cut, on graphs, pages or multiprocessors."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from llm_case import llama_config, llama_tensors, save

import pygpukit as gp
from pygpukit import _core, runtime
from pygpukit.llm import load_model_from_safetensors

PROMPTS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = llama_config("qwen3", num_hidden_layers=2)
    return save(tmp_path_factory.mktemp("model"), config, llama_tensors(config, seed=4, qk_norm=True))


@pytest.fixture
def model(device, folder):
    return load_model_from_safetensors(folder)


def make_requests(rng):
    """(prompt, tokens, options): greedy ones and drawn ones of every kind."""
    requests = []
    for i in range(PROMPTS):
        prompt = rng.integers(0, 61, rng.integers(1, 40)).tolist()
        options = {"temperature": 0.0}
        if i % 2:
            options = {"temperature": 0.7 + i % 3 / 2, "seed": i, "top_k": i % 4 * 15, "top_p": (1.0, 0.9)[i % 3 > 0]}
            options |= {"min_p": 0.05} if i % 5 == 0 else {}
        if i % 7 == 3:
            options |= {"repetition_penalty": 1.2, "presence_penalty": 0.3, "logit_bias": {7: 1.5}}
        requests.append((prompt, int(rng.integers(4, 14)), options))
    return requests


def digest(tokens):
    return hashlib.sha256(bytes(str(tokens), "ascii")).hexdigest()


def run(engine, requests, rng, order=None):
    """Hashes of all, which come in any order and a few at a time, so that neighbours change."""
    left = list(rng.permutation(len(requests)) if order is None else order)
    names, texts = {}, {}
    while left or not engine.idle():
        for _ in range(int(rng.integers(1, 9))):
            if left:
                i = left.pop()
                prompt, count, options = requests[i]
                names[engine.submit(prompt, count, **options)] = i
                texts[i] = []
        for token in engine.step():
            texts[names[token.request]].append(token.id)
    return [digest(texts[i]) for i in range(len(requests))]


@contextlib.contextmanager
def multiprocessors(kind):
    """Sessions of 32, of 64 and of all 132 multiprocessors of an H200."""
    if kind == "cpu":
        _core._set_host_sms(132)
    manager = runtime.PartitionManager(device=kind)
    total = 132 if kind == "cpu" else gp.get_device_info().multiprocessor_count
    try:

        @contextlib.contextmanager
        def session(sms):
            if sms >= total:
                yield
                return
            manager.create_partition("some", "some", runtime.PartitionLimits().compute(sms / total))
            try:
                with manager.session("some"):
                    yield
            finally:
                gp.synchronize()
                manager.clear()

        yield session
    finally:
        gp.synchronize()
        manager.clear()
        if kind == "cpu":
            _core._set_host_sms(0)


def test_one_hash_a_prompt(device, model, rng):
    requests = make_requests(rng)
    with gp.determinism("batch_invariant"):
        alone = []
        engine = model.engine(graphs=False, keep_prefixes=False)
        for request in requests:
            alone += run(engine, [request], rng, [0])
        assert len(set(alone)) > 40
        by_graph = model.engine(keep_prefixes=False)
        assert [run(by_graph, [request], rng, [0])[0] for request in requests[:12]] == alone[:12]
        with multiprocessors(device.kind) as session:
            for sms in (32, 64, 132):
                with session(sms):
                    for batch in (2, 7, 64):
                        options = {
                            "max_sequences": batch,
                            "graphs": bool(rng.integers(2)),
                            "token_budget": int(rng.integers(batch, 90)),
                            "page_size": int(rng.choice([4, 16, 64])),
                            "keep_prefixes": bool(rng.integers(2)),
                        }
                        assert run(model.engine(**options), requests, rng) == alone, (sms, options)


@pytest.mark.parametrize("batch", [1, 3, 16, 33])
def test_batches_with_prompts_cut_at_random(model, rng, batch):
    requests = make_requests(rng)[:20]
    with gp.determinism("batch_invariant"):
        alone = [run(model.engine(keep_prefixes=False), [request], rng, [0])[0] for request in requests]
        for budget in rng.integers(1, 60, 2):
            for graphs in (True, False):
                engine = model.engine(max_sequences=batch, token_budget=int(budget), graphs=graphs, page_size=8)
                assert run(engine, requests, rng) == alone
