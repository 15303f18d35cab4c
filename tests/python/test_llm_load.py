"""Loading: told as it goes on, ended at any point, with little host memory beside the weights."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest
from llm_case import llama_config, llama_tensors, save

import pygpukit as gp
from pygpukit.llm import load_model_from_safetensors
from pygpukit.llm.progress import progress_bar

CONFIG = llama_config()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("load") / "model", CONFIG, llama_tensors(CONFIG))


def live_bytes(device):
    gc.collect()
    return gp.device(device).memory_stats()["live_bytes"]


def test_progress_counts_all_bytes(folder, device):
    seen = []
    load_model_from_safetensors(folder, device=device, progress=lambda done, total: seen.append((done, total)))
    size = sum(tensor.nbytes for tensor in llama_tensors(CONFIG).values())
    assert seen[-1] == (size, size) and {total for _, total in seen} == {size}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


@pytest.mark.parametrize("evictable", [False, True])
@pytest.mark.parametrize("call", [1, 7, 20])
def test_an_interrupt_leaves_nothing(folder, device, call, evictable):
    load_model_from_safetensors(folder, device=device)
    before = live_bytes(device)
    calls = []

    def stop(done, total):
        calls.append(done)
        if len(calls) == call:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_model_from_safetensors(folder, device=device, progress=stop, evictable=evictable)
    assert len(calls) == call and live_bytes(device) == before


def test_a_file_that_becomes_shorter_is_named(tmp_path, device):
    config = llama_config(hidden_size=256, intermediate_size=512, vocab_size=20000)
    path = save(tmp_path / "short", config, llama_tensors(config)) / "model.safetensors"
    before = live_bytes(device)
    size = os.path.getsize(path)
    with pytest.raises(ValueError, match=r"model.safetensors: tensor '.*' at byte \d+: the file has become shorter"):
        load_model_from_safetensors(path.parent, device=device, progress=lambda *_: os.truncate(path, size // 8))
    assert live_bytes(device) == before


def test_bar(monkeypatch, capsys):
    assert progress_bar("loading") is None  # no terminal here
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    times = iter([0.0, 0.1, 1.0, 1.01, 2.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    show = progress_bar("loading")
    for done in (1, 2, 3, 4):
        show(done * 10**9, 4 * 10**9)
    shown = capsys.readouterr().err
    assert shown.count("\r") == 2 and "2.0 of 4.0 GB" in shown and shown.endswith("4.0 of 4.0 GB, 2.0 GB/s\n")


@pytest.mark.skipif(sys.platform != "linux", reason="reads VmHWM")
def test_little_host_memory_beside_the_weights(tmp_path):
    config = llama_config(hidden_size=1024, intermediate_size=4096, vocab_size=8000, num_hidden_layers=2)
    config |= {"num_attention_heads": 8, "num_key_value_heads": 8}
    tensors = llama_tensors(config | {"num_hidden_layers": 0})
    layer = llama_tensors({**config, "vocab_size": 1, "num_hidden_layers": 1})
    for i in range(2):
        tensors |= {name.replace("layers.0", f"layers.{i}"): x for name, x in layer.items() if "layers.0" in name}
    folder = save(tmp_path / "large", config, tensors)
    size = sum(np.asarray(tensor).nbytes for tensor in tensors.values())
    assert size > 190e6
    program = f"""
import pygpukit as gp
from pygpukit.llm import load_model_from_safetensors
gp.zeros((1,), device="cpu")
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
before = peak()
model = load_model_from_safetensors({str(folder)!r}, device="cpu")
print(peak() - before)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(run.stdout) < size + 130e6  # what is read ahead, and a matrix in both orders
