"""Bytes return to where they were: after a cancel, a fault, a signal, a file that ends early, and too little memory."""

from __future__ import annotations

import gc
import json
import signal
import threading

import numpy as np
import pytest
from llm_case import golden, llama_config, llama_tensors, save, write_safetensors

import pygpukit as gp
from pygpukit.llm import load_model_from_safetensors
from pygpukit.scheduler.execution import KB, MB, context_session, create_context, get_context_usage

GREEDY = {"temperature": 0.0}


def live():
    gc.collect()
    gp.synchronize()
    return gp.device("cpu").memory_stats()["live_bytes"]


@pytest.fixture
def tiny(tmp_path):
    config = llama_config()
    with gp.device("cpu"):
        yield load_model_from_safetensors(save(tmp_path, config, llama_tensors(config)))


def interrupt_after(seconds):
    """A timer to be started where the signal is waited for."""
    return threading.Timer(seconds, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))


def test_cancel_and_failed_draws(tiny):
    def fails(tokens):
        assert len(tokens) < 9
        return range(61)

    engine = tiny.engine(max_sequences=4, page_size=8, num_pages=20)
    for _ in range(2):  # the first time makes graphs, and what penalties and callbacks need
        before, free = live(), engine.num_free_pages
        options = GREEDY | {"repetition_penalty": 1.1, "logit_bias": {1: 1.0}}
        names = [engine.submit([i, 2, 3], 110, **options, allowed=fails if i % 2 else None) for i in range(6)]
        errors = 0
        for _ in range(60):
            errors += sum(token.finish == "error" for token in engine.step())
        assert errors == 3
        for name in names:
            engine.cancel(name)
        assert engine.idle()
        engine.drop_prefixes()
        assert engine.num_free_pages == free
    assert live() == before
    del engine
    assert live() < before


def sharded(folder, config, tensors):
    """Each tensor in a file of its own, so that each is a read of its own."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    files = {}
    for i, (name, tensor) in enumerate(tensors.items()):
        files[name] = f"model-{i:05}.safetensors"
        write_safetensors(folder / files[name], {name: tensor})
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return [folder / file for file in files.values()]


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_every_read_of_a_load_may_fail(tmp_path, quantize):
    config = llama_config()
    files = sharded(tmp_path / "model", config, llama_tensors(config))
    with gp.device("cpu"):
        load_model_from_safetensors(tmp_path / "model", quantize=quantize)
        before = live()
        for i, file in enumerate(files):
            data = file.read_bytes()
            if i % 3 == 0:
                file.unlink()
            else:
                file.write_bytes(data[:-4] if i % 3 == 1 else data[:20])
            with pytest.raises((OSError, gp.errors.FormatError), match=file.name):
                load_model_from_safetensors(tmp_path / "model", quantize=quantize)
            file.write_bytes(data)
            assert live() == before
        assert load_model_from_safetensors(tmp_path / "model", quantize=quantize).generate([1], 3)[0] == 1


@pytest.mark.parametrize("quantize", [None, "int8", "float8_e4m3"])
def test_too_little_memory_for_a_load(fresh_contexts, assets, quantize):
    """Whatever the quota, a load works whole or leaves nothing."""
    needed, outcomes = None, []
    for i, quota in enumerate([64 * KB, 256 * KB, 500 * KB, 800 * KB, 1024 * KB, 1300 * KB, 64 * MB]):
        context = create_context(f"c{i}", max_vram=quota)
        with context_session(context):
            try:
                model = load_model_from_safetensors(assets / "stories260K", quantize=quantize)
            except MemoryError:
                outcomes.append(False)
            else:
                outcomes.append(True)
                needed = get_context_usage(f"c{i}")["used_vram"]
                assert needed >= model.weight_bytes
                del model
            gc.collect()
            gp.synchronize()
        assert get_context_usage(f"c{i}")["used_vram"] == 0
    assert outcomes == sorted(outcomes) and not outcomes[0] and outcomes[-1]


def test_a_signal_while_loading(assets):
    with gp.device("cpu"):
        load_model_from_safetensors(assets / "stories260K")
        before = live()
        for delay in (0.0005, 0.01, 0.05):
            timer = interrupt_after(delay)
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                for _ in range(200):
                    load_model_from_safetensors(assets / "stories15M")
            timer.join()
            assert live() == before


def test_a_signal_while_a_prompt_is_computed(assets):
    _, ids = golden(assets, "stories15M")
    with gp.device("cpu"):
        model = load_model_from_safetensors(assets / "stories15M")
        engine = model.engine(max_sequences=2, page_size=16, num_pages=40, token_budget=240)
        for delay in (None, 0.002, 0.03, 0.1):  # first as it goes: graphs and workspaces are made
            name = engine.submit(ids[:120], 120, **GREEDY)
            if delay is None:
                for i in range(6):
                    other = engine.submit([5, i] * 100, 2, **GREEDY)
                    engine.next(other)
                    engine.next(other)
            else:
                timer = interrupt_after(delay)
                with pytest.raises(KeyboardInterrupt):
                    timer.start()
                    for i in range(500):
                        other = engine.submit([5, 7, i] * 60, 2, **GREEDY)
                        engine.next(other)
                        engine.cancel(other)
                timer.join()
            for request in range(name, other + 1):
                engine.cancel(request)
            assert engine.idle()
            engine.drop_prefixes()
            if delay is None:
                before, free = live(), engine.num_free_pages
            assert engine.num_free_pages == free == 40 and live() == before
        name = engine.submit(ids[:100], 4, **GREEDY)
        assert [engine.next(name).id for _ in range(4)] == ids[100:104]


def test_too_little_memory_while_generating(fresh_contexts, tmp_path):
    """A request that needs more than there is fails alone; the others go on, and what it took is back."""
    config = llama_config(vocab_size=60_000)
    folder = save(tmp_path, config, llama_tensors(config))
    plain = load_model_from_safetensors(folder, device="cpu")
    expected = plain.generate([1, 2], 10, **GREEDY)
    context = create_context("small", max_vram=128 * MB)
    with context_session(context):
        model = load_model_from_safetensors(folder)
        engine = model.engine(max_sequences=64, max_tokens=64)
        name = engine.submit([1, 2], 3, **GREEDY)
        text = [engine.next(name).id for _ in range(3)]
        filler = []
        for size in (8 * MB, 64 * KB):
            with pytest.raises(MemoryError):
                while True:
                    filler.append(gp.empty((size,), dtype="uint8"))
        del filler[-4:]  # too small for what follows
        used = []
        for _ in range(3):
            good = engine.submit([1, 2], 10, **GREEDY)
            bad = engine.submit([1, 2, 3], 10, **GREEDY, allowed=lambda tokens: range(61))  # a bit for each token
            text = []
            while len(text) < 10:
                text.append(engine.next(good).id)
            assert [1, 2, *text] == expected
            with pytest.raises(MemoryError):
                engine.next(bad)
            assert engine.idle()
            used.append(get_context_usage("small")["used_vram"])
        assert used[1] == used[2] <= 128 * MB  # what the first left are workspaces of graphs
        del filler
        name = engine.submit([1, 2, 3], 4, **GREEDY, allowed=lambda tokens: range(61))
        assert all(engine.next(name).id < 61 for _ in range(4))
        with pytest.raises(MemoryError):
            model.engine(max_sequences=2000, max_tokens=128)
        gc.collect()
        del engine, model
        gc.collect()
        gp.synchronize()
    assert get_context_usage("small")["used_vram"] <= 64 * KB  # the workspace of its stream


def test_a_model_that_went_leaves_nothing(assets):
    with gp.device("cpu"):
        load_model_from_safetensors(assets / "stories260K").generate([1], 3)
        before = live()
        for quantize in (None, "int4"):
            model = load_model_from_safetensors(assets / "stories260K", quantize=quantize)
            stream = model.generate_stream([1], 50)
            next(stream)
            model.init_fixed_cache(32)
            model.decode_step_graph(1, 0)
            assert live() > before
            del model, stream
            assert live() == before
    np.testing.assert_equal(before, live())
