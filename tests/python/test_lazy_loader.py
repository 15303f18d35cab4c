"""Models larger than their memory: what is loaded stays within the budget, and comes back."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.errors import OutOfMemoryError
from pygpukit.io import save_safetensors
from pygpukit.llm.safetensors import Dtype, LazyModelLoader, TensorInfo, TensorState
from pygpukit.llm.streaming import (
    AutoLRU,
    LayerStreamingContext,
    LoadingStrategy,
    SimpleStreaming,
    SlidingWindow,
    create_streaming_context,
)

LAYERS, SIZE = 6, 4096  # bytes of each of the two tensors of a layer


def prefix(i):
    return f"model.layers.{i}."


@pytest.fixture
def path(tmp_path):
    values = {f"{prefix(i)}{part}": gp.full((SIZE // 4,), i + k / 2, dtype="float32")
              for i in range(LAYERS) for k, part in enumerate("ab")}
    save_safetensors(tmp_path / "model.safetensors", {**values, "head": gp.ones((4,))})
    return tmp_path / "model.safetensors"


@pytest.fixture
def make(path, device):
    def make(layers, **options):
        loader = LazyModelLoader(int(layers * 2 * SIZE), **options)
        loader.load_file(path)
        return loader

    return make


def test_what_was_used_longest_ago_goes(make):
    loader = make(1)
    assert len(loader) == loader.num_tensors == 2 * LAYERS + 1 and loader.num_files == 1
    assert loader.total_size == 2 * LAYERS * SIZE + 16 and loader.loaded_size == 0 and "head" in loader
    names = [prefix(0) + "a", prefix(1) + "a", prefix(2) + "a"]
    for name in names[:2]:
        loader.get(name)
    loader.get(names[0])
    assert loader.loaded_tensors() == [names[1], names[0]] and loader.loaded_size == 2 * SIZE
    value = loader.get(names[2])
    assert loader.loaded_tensors() == [names[0], names[2]]
    assert [loader.tensor_state(name) for name in (*names, "head")] == [
        TensorState.Loaded, TensorState.Evicted, TensorState.Loaded, TensorState.OnDisk]
    assert (value.to_numpy() == 2.0).all() and (loader.get(names[1]).to_numpy() == 1.0).all()
    stats = loader.pool_stats
    assert (stats.quota, stats.used, stats.peak_used, stats.utilization) == (2 * SIZE, 2 * SIZE, 2 * SIZE, 1.0)
    assert (stats.hits, stats.misses, stats.eviction_count, stats.active_blocks) == (1, 4, 2, 2)


def test_what_is_held_stays_and_counts(make):
    loader = make(1)
    held = loader.get(prefix(0) + "a")
    view = loader.get(prefix(0) + "b")[3:]
    with pytest.raises(OutOfMemoryError, match="8192 of them held elsewhere"):
        loader.get(prefix(1) + "a")
    assert (held.to_numpy() == 0).all()
    del view
    assert (loader.get(prefix(1) + "a").to_numpy() == 1).all() and loader.num_loaded() == 2
    assert loader.loaded_tensors()[0] == prefix(0) + "a"


def test_limits(make, path):
    with pytest.raises(OutOfMemoryError, match="takes 4096 bytes"):
        make(0.25).get(prefix(0) + "a")
    strict = make(1, enable_eviction=False)
    strict.get(prefix(0) + "a"), strict.get(prefix(0) + "b")
    with pytest.raises(OutOfMemoryError):
        strict.get(prefix(1) + "a")
    with pytest.raises(KeyError, match="nothing"):
        strict.get("nothing")
    with pytest.raises(ValueError, match="there already"):
        strict.load_file(path)
    with pytest.raises(ValueError, match="memory_budget"):
        LazyModelLoader(0)


def test_layers(make):
    loader = make(2)
    assert loader.get_layer_tensors(prefix(3)) == [prefix(3) + "a", prefix(3) + "b"]
    assert loader.layer_size(prefix(3)) == 2 * SIZE and loader.layer_state(prefix(3)) == (2, 0, 0, 0)
    assert not loader.is_layer_loaded(prefix(3)) and not loader.is_layer_loaded("no such")
    assert loader.prefetch("model.") == 4
    assert sum(loader.layer_state("model.")[1:3]) == 4  # being loaded, or there already
    loader.wait()
    assert loader.is_layer_loaded(prefix(0)) and loader.is_layer_loaded(prefix(1))
    assert loader.unload_layer(prefix(0)) == (2, 2 * SIZE) and loader.unload_layer(prefix(0)) == (0, 0)
    assert loader.unload_tensors([prefix(1) + "b", "head"]) == (1, SIZE)
    assert loader.layer_state(prefix(1)) == (1, 0, 1, 0)
    assert loader.unload_model() == (1, SIZE) and loader.loaded_size == 0
    with pytest.raises(KeyError):
        loader.unload_tensors(["nothing"])
    loader.clear()
    assert len(loader) == 0 and loader.tensor_names == [] and loader.num_files == 0


def test_the_budget_holds_while_all_is_walked_through(make):
    loader = make(1)
    for _ in range(3):
        for name in loader.tensor_names:
            assert loader.get(name).shape == ((4,) if name == "head" else (SIZE // 4,))
            assert loader.loaded_size <= 2 * SIZE
    assert loader.pool_stats.peak_used <= 2 * SIZE and loader.pool_stats.eviction_count > 2 * LAYERS


def test_threads(make):
    loader = make(2)
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(60):
            i = int(random.integers(LAYERS))
            if loader.get(prefix(i) + "a")[0].item() != i or loader.pool_stats.used > 4 * SIZE:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def walk(context):
    """Names that are loaded while each layer is computed."""
    seen = []
    with context:
        for i in range(LAYERS):
            context.prepare(i)
            context.loader.wait()
            assert context.current_layer == i and context.loader.is_layer_loaded(context.layer_prefix(i))
            seen.append(sorted({int(name.split(".")[2]) for name in context.loader.loaded_tensors()}))
    assert context.current_layer is None
    return seen


def test_strategies(make):
    loader = make(4)
    assert walk(create_streaming_context(loader, "simple", LAYERS)) == [[i] for i in range(LAYERS)]
    assert loader.num_loaded() == 0
    window = SlidingWindow(window_size=3, prefetch_ahead=1)
    assert walk(LayerStreamingContext(loader, window, LAYERS)) == [
        [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [3, 4, 5]]
    assert loader.num_loaded() == 0

    class Everything(LoadingStrategy):
        def on_layer_start(self, loader, layer_idx, num_layers):
            for name in loader.get_layer_tensors(self.layer_prefix(layer_idx)):
                loader.get(name)

    assert walk(LayerStreamingContext(loader, Everything(), LAYERS))[-1] == [2, 3, 4, 5]
    context = create_streaming_context(loader, AutoLRU(unload_on_end=True), LAYERS)
    with context:
        context.prepare(0)
        loader.get(prefix(0) + "a")
        assert context.memory_stats.used <= 8 * SIZE
    assert loader.num_loaded() == 0


def test_strategies_refuse(make):
    loader = make(1)
    for bad in ({"window_size": 0}, {"prefetch_ahead": 4}, {"prefetch_ahead": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SlidingWindow(**bad)
    with pytest.raises(ValueError, match="strategy"):
        create_streaming_context(loader, "eager", LAYERS)
    with pytest.raises(TypeError):
        create_streaming_context(loader, SimpleStreaming(), LAYERS, window_size=2)
    with pytest.raises(ValueError, match="num_layers"):
        create_streaming_context(loader, "simple", 0)
    with create_streaming_context(loader, "auto_lru", 2) as context, pytest.raises(IndexError):
        context.prepare(2)


def test_numbers_of_dtypes():
    assert (Dtype.Float32, Dtype.BFloat16, Dtype.Float8E5M2, Dtype.Int64, Dtype.Bool) == (0, 2, 5, 7, 11)
    assert Dtype.element_size(Dtype.BFloat16) == 2 and Dtype.name(Dtype.Float8E4M3) == "float8_e4m3"
    info = TensorInfo("x", Dtype.Int16, [2, 3], 8, 12)
    assert (info.numel, info.dtype_name, info.offset) == (6, "int16", 8) and "'x'" in repr(info)
    with pytest.raises(ValueError, match="number"):
        Dtype.name(99)
