"""Several models in the room of one: each leaves as a whole, comes back at the same addresses, and says the same."""

import asyncio
import gc
import os
import shutil
import threading

import numpy as np
import pytest
from llm_case import llama_config, llama_tensors, save

import pygpukit as gp
from pygpukit import runtime, scheduler
from pygpukit.llm import load_model_from_safetensors
from pygpukit.memory import MemoryPool, set_default_pool

MIB = 1 << 20
CONFIG = llama_config(
    hidden_size=128, intermediate_size=384, vocab_size=6000, num_attention_heads=4, num_key_value_heads=2
)
PROMPTS = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Two models of about 8 MB."""
    folder = tmp_path_factory.mktemp("models")
    return [save(folder / name, CONFIG, llama_tensors(CONFIG, seed)) for seed, name in enumerate(("chat", "code"))]


def texts(model, **options):
    return [model.generate(prompt, 12, temperature=0.0, **options) for prompt in PROMPTS]


@pytest.fixture
def alone(checkpoints, device):
    return [texts(load_model_from_safetensors(path, device=device)) for path in checkpoints]


@pytest.fixture
def room_of_one(device):
    """A default pool that holds one of the models with its caches, and not two."""
    pool = MemoryPool(quota=20 * MIB, enable_eviction=True, device=device)
    set_default_pool(pool)
    yield pool
    set_default_pool(None)


def moved():
    pools = runtime.snapshot()["pools"]
    return {name: sum(pool[name] for pool in pools) for name in ("copied_out_bytes", "copied_in_bytes", "reread_bytes")}


def load(path, device, **options):
    return load_model_from_safetensors(path, device=device, evictable=True, **options)


def test_two_models_take_turns_in_the_room_of_one(checkpoints, alone, room_of_one, device):
    models = [load(path, device) for path in checkpoints]
    engines = [model.engine(max_sequences=2, max_tokens=64) for model in models]

    def ask(i, prompt):
        return [*prompt, *(token.id for token in models[i].stream(prompt, 12, temperature=0.0, engine=engines[i]))]

    for i in (0, 1):
        ask(i, PROMPTS[0])
    graphs = [engine.num_graphs for engine in engines]
    assert all(graphs)
    for turn in range(12):
        i = turn % 2
        assert ask(i, PROMPTS[turn % 3]) == alone[i][turn % 3]
        assert models[i].resident and not models[1 - i].resident
        assert room_of_one.used > 8 * MIB and room_of_one.used + room_of_one.cached <= room_of_one.quota
    assert [engine.num_graphs for engine in engines] == graphs


def test_weights_are_not_copied_out(checkpoints, room_of_one, device):
    model = load(checkpoints[0], device)
    first = model.evict()
    assert first > 7 * 10**6 and not model.resident
    before = moved()
    for _ in range(3):
        model.restore()
        assert model.evict() == first
    after = moved()
    assert after["copied_out_bytes"] == before["copied_out_bytes"]
    assert after["reread_bytes"] - before["reread_bytes"] > 3 * 7 * 10**6


@pytest.mark.parametrize("quantize", ["int8", "float8_e4m3"])
def test_quantised_weights_come_back_from_host_memory(checkpoints, device, quantize, room_of_one):
    model = load(checkpoints[0], device, quantize=quantize)
    said = texts(model)
    model.evict()
    before = moved()["copied_out_bytes"]
    for _ in range(3):
        assert texts(model) == said
        assert not model.resident or model.evict() > 0
    cache = model._engine.cache_bytes
    assert moved()["copied_out_bytes"] - before <= 3 * (cache + 4 * MIB)  # caches and buffers, no weights


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16"])
def test_casts_are_made_again_to_the_same_bytes(checkpoints, device, dtype, room_of_one):
    model = load(checkpoints[0], device, dtype=dtype)
    said = texts(model)
    table = model.embed_tokens.to_numpy(dtype="float32") if dtype else model.embed_tokens.to_numpy()
    model.evict()
    assert not model.resident
    again = model.embed_tokens.to_numpy(dtype="float32") if dtype else model.embed_tokens.to_numpy()
    np.testing.assert_array_equal(again, table)
    assert texts(model) == said


def test_a_changed_file_is_told_and_harms_no_one_else(checkpoints, alone, room_of_one, device, tmp_path):
    folder = tmp_path / "changing"
    shutil.copytree(checkpoints[0], folder)
    changing, other = load(folder, device), load(checkpoints[1], device)
    assert texts(other) == alone[1] and not changing.resident
    file = folder / "model.safetensors"
    content, times = file.read_bytes(), os.stat(file)
    with open(file, "r+b") as f:
        f.seek(len(content) // 2)
        f.write(b"\x01" * 1000)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 10**9))
    for _ in range(2):
        with pytest.raises(OSError, match=r"model.safetensors.*changed|changed.*model.safetensors"):
            texts(changing)
        assert not changing.resident
    assert texts(other) == alone[1]
    with open(file, "r+b") as f:
        f.write(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert texts(changing) == alone[0]
    with open(file, "r+b") as f:
        f.truncate(len(content) // 2)
    assert texts(other) == alone[1]
    with pytest.raises((OSError, ValueError), match=r"model.safetensors.*tensor"):
        texts(changing)
    assert texts(other) == alone[1]


def test_a_deleted_file_stays_readable_while_the_model_lives(checkpoints, alone, room_of_one, device, tmp_path):
    folder = tmp_path / "deleted"
    shutil.copytree(checkpoints[0], folder)
    model = load(folder, device)
    shutil.rmtree(folder)
    model.evict()
    assert texts(model) == alone[0]


def test_two_contexts_in_two_threads(checkpoints, fresh_contexts):
    alone = [texts(load_model_from_safetensors(path, device="cpu")) for path in checkpoints]
    scheduler.initialize(0, 1 << 30, 20 * MIB)
    contexts = [scheduler.create_context(name, max_vram=20 * MIB) for name in ("threads chat", "threads code")]
    said, faults = [[], []], []

    def serve(i):
        try:
            with gp.device("cpu"), scheduler.context_session(contexts[i]):
                model = load(checkpoints[i], "cpu")
                said[i] += [texts(model) for _ in range(4)]
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=serve, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert said == [[alone[0]] * 4, [alone[1]] * 4]
    seen = {context["id"]: context for context in runtime.snapshot()["contexts"]}
    for context in contexts:
        counts = seen[context.llm_id]
        assert counts["tokens"] >= 4 * 3 * 12 and counts["computed_tokens"] > counts["tokens"]
        assert counts["tokens_per_second"] > 0
        assert counts["id"] in runtime._top_text(runtime.snapshot_json(), None, 200, False)
        assert (
            f'pygpukit_context_tokens_total{{controller="1",context="{context.llm_id}"}}' in runtime.prometheus_text()
        )


def test_a_model_of_a_context_with_a_base_leaves_last(checkpoints, fresh_contexts):
    scheduler.initialize(0, 1 << 30, 32 * MIB)  # room for two
    contexts = [scheduler.create_context("based", max_vram=32 * MIB, base_vram=2 * MIB)]
    contexts += [scheduler.create_context(name, max_vram=32 * MIB) for name in ("first guest", "second guest")]
    models = []
    for context in contexts:
        with scheduler.context_session(context):
            models.append(load(checkpoints[0], "cpu"))
            texts(models[-1])
    assert [model.resident for model in models] == [True, False, True]


def test_streams_of_two_models_in_asyncio(checkpoints, alone, room_of_one, device):
    models = [load(path, device) for path in checkpoints]

    async def say(i, prompt):
        return [*prompt, *[token.id async for token in models[i].stream_async(prompt, 12, temperature=0.0)]]

    async def both():
        return await asyncio.gather(*(say(i, PROMPTS[1]) for i in (0, 1)))

    for _ in range(2):
        assert asyncio.run(both()) == [alone[0][1], alone[1][1]]


def test_memory_goes_with_the_model(checkpoints, room_of_one, device):
    used = room_of_one.used
    model = load(checkpoints[0], device)
    texts(model)
    assert room_of_one.used > used + 8 * MIB
    model.evict()
    assert room_of_one.used < used + 6 * MIB  # small blocks of graphs stay
    del model
    gc.collect()
    assert room_of_one.used <= used + MIB  # the workspace of the stream
    with pytest.raises(RuntimeError, match="evictable=True"):
        load_model_from_safetensors(checkpoints[0], device=device).evict()


def test_a_model_above_the_wall_is_refused_and_leaves_nothing(checkpoints, device):
    pool = MemoryPool(quota=6 * MIB, enable_eviction=True, device=device)
    set_default_pool(pool)
    try:
        with pytest.raises(MemoryError):
            load(checkpoints[0], device)
        gc.collect()
        assert pool.used == 0
    finally:
        set_default_pool(None)
