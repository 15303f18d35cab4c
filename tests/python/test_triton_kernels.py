"""The kernels of pygpukit.triton in Triton's interpreter, as machine code, and on a GPU; the example that uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from triton_runs import needs_triton, run

import pygpukit as gp
from pygpukit import _core
from pygpukit.triton import backend, from_gpuarray, from_numpy, kernels


@pytest.fixture(autouse=True)
def on(device):
    with gp.device(device):
        yield device


def reference_attention(q, k, v, scale, causal):
    k, v = (np.repeat(a, q.shape[0] // a.shape[0], 0) for a in (k, v))
    scores = np.einsum("hqd,hkd->hqk", q, k) * scale
    if causal:
        ahead = k.shape[1] - q.shape[1]
        scores = np.where(np.arange(k.shape[1]) <= np.arange(q.shape[1])[:, None] + ahead, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def check_kernels(dtype, rng, with_attention=True):
    """Every kernel against float64, at odd sizes."""
    tolerance = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}[dtype]

    def made(*shape):
        array = gp.from_numpy(rng.standard_normal(shape, dtype=np.float32)).astype(dtype)
        return array, array.to_numpy(dtype="float64")

    def near(array, wanted):
        np.testing.assert_allclose(array.to_numpy(dtype="float64"), wanted, rtol=tolerance, atol=tolerance)

    for width in (1, 33, 1025, 5000):
        (x, a), (w, wn), (b, bn) = made(3, width), made(width), made(width)
        out = gp.empty_like(x)
        kernels.rmsnorm(x, w, out)
        near(out, a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-6) * wn)
        kernels.layernorm(from_gpuarray(x), w, from_gpuarray(out), b)
        normed = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5) * wn
        near(out, normed + bn)
        kernels.layernorm(x, w, out)
        near(out, normed)
        kernels.softmax(x, out)
        e = np.exp(a - a.max(-1, keepdims=True))
        near(out, e / e.sum(-1, keepdims=True))
    kernels.softmax(gp.empty((0, 4), dtype=dtype), gp.empty((0, 4), dtype=dtype))
    (x, a), (c, cn), (s, sn) = made(2, 5, 3, 10), made(5, 5), made(5, 5)
    out = gp.empty_like(x)
    kernels.rotary(x, c, s, out)
    first, second, cn, sn = a[..., :5], a[..., 5:], cn[:, None], sn[:, None]
    near(out, np.concatenate([first * cn - second * sn, second * cn + first * sn], -1))
    if not with_attention:
        return
    for heads, kv_heads, queries, keys, width, causal in ((4, 2, 7, 45, 20, True), (2, 2, 1, 33, 64, True), (3, 1, 40, 40, 16, False)):
        (q, qn), (k, kn), (v, vn) = made(queries, heads, width), made(kv_heads, keys, width), made(kv_heads, keys, width)
        out = gp.empty((heads, queries, width), dtype=dtype)
        kernels.attention(q.transpose((1, 0, 2)), k, v, out, causal=causal)  # a view
        near(out, reference_attention(qn.transpose(1, 0, 2), kn, vn, width**-0.5, causal))


@needs_triton
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_kernels_in_the_interpreter(dtype):
    """Triton reads TRITON_INTERPRET when a kernel is defined, so a process of its own. Its interpreter multiplies
    matrices of bfloat16 by their bits, so attention is not among these there."""
    folder = os.path.dirname(os.path.abspath(__file__))
    code = f"import sys; sys.path.insert(0, {folder!r}); import numpy as np, test_triton_kernels as t; t.check_kernels({dtype!r}, np.random.default_rng(3), {dtype != 'bfloat16'}); print('good')"
    assert run(code, TRITON_INTERPRET="1").endswith("good")


@needs_triton
def test_a_kernel_on_the_cpu_names_the_interpreter(on):
    if on.kind != "cpu":
        pytest.skip("this is about CPU arrays")
    with pytest.raises(gp.DeviceError, match="runs on a GPU, not on cpu.*TRITON_INTERPRET=1"):
        kernels.softmax(gp.ones((2, 3)), gp.ones((2, 3)))
    if not gp.is_cuda_available():
        with pytest.raises(gp.DeviceError, match="triton: "):
            backend.get_triton_device()


JOBS = {
    "rmsnorm_rows": ("x weight -out", "width", "eps", {"BLOCK": 1024}),
    "layernorm_rows": ("x weight bias -out", "width", "eps", {"HAS_BIAS": True, "BLOCK": 1024}),
    "softmax_rows": ("x -out", "width", "", {"BLOCK": 1024}),
    "rotary_rows": ("x cos sin -out", "heads length half table_width", "", {"BLOCK": 64}),
    "attention_tiles": (
        "q k v -out", "q_head q_row k_head k_row v_head v_row out_head out_row q_length kv_length group", "scale",
        {"CAUSAL": True, "WIDTH": 64, "WIDTH_BLOCK": 64, "ROWS": 32, "KEYS": 32},
    ),
}  # fmt: skip


@needs_triton
@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", JOBS)
def test_kernels_compile_ahead_of_time(arch, name):
    """To machine code, with the parameters that the launcher passes: those of the signature and two of scratch memory."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    fn = getattr(kernels._programs(), name)
    arrays, integers, floats, constants = JOBS[name]
    types = dict.fromkeys(integers.split(), "i32") | dict.fromkeys(floats.split(), "fp32")
    for array in arrays.split():
        types[array.strip("-")] = "*bf16" if array.startswith("-") else "*kbf16"
    signature = {argument: types.get(argument, "constexpr") for argument in fn.arg_names}
    source = ASTSource(fn, signature, {(fn.arg_names.index(key),): value for key, value in constants.items()})
    made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": 4, "enable_fp_fusion": True})
    assert made.asm["cubin"][:4] == b"\x7fELF"
    entry = made.asm["ptx"].split(".entry")[1].split("{")[0]
    assert entry.count(".param") == len(types) + 2
    launcher = backend.Launcher(made.src, made.metadata)
    kernel = _core._BinaryKernel(made.metadata.name, made.asm["cubin"], [*backend._flat(launcher.signature), "*u8", "*u8"])
    assert kernel.name == name and launcher.threads == 128


@needs_triton
def test_triton_calls_our_driver(monkeypatch, on):
    """The whole way of a call but the launch itself: Triton compiles for our target and hands our launcher the arguments."""
    chip = SimpleNamespace(
        compute_capability_major=9, compute_capability_minor=0, shared_memory_per_block_optin=232448,
        registers_per_block=65536, multiprocessor_count=132, warp_size=32, clock_khz=1, memory_clock_khz=1,
        memory_bus_bits=1,
    )  # fmt: skip
    place = SimpleNamespace(properties=chip, kind="cuda")
    monkeypatch.setattr(backend, "get_triton_device", lambda: place)
    monkeypatch.setattr(backend.Driver, "get_current_device", lambda self: 0)
    monkeypatch.setattr(backend.Driver, "get_current_stream", lambda self, device=None: 0)
    monkeypatch.setattr(backend._Utilities, "get_device_properties", lambda self, device: {"max_shared_mem": 232448})
    launches = []

    class Recorded:
        """Stands for the library's kernel: what a launch would pass."""

        def __init__(self, name, code, types):
            self.name, self.types = name, types

        def launch(self, *call):
            launches.append((self.name, self.types, call))

        def attributes(self, device):
            return {"registers": 32, "local_bytes": 0, "max_threads": 1024}

    monkeypatch.setattr(_core, "_BinaryKernel", Recorded)
    x, weight, out = (from_numpy(np.ones((3, 40), np.float32)), from_numpy(np.ones(40, np.float32)), from_numpy(np.ones((3, 40), np.float32)))
    program = kernels._programs().rmsnorm_rows
    for rows in (3, 2):
        with backend.launching():
            program[(rows,)](x, weight, out, 40, 1e-6, BLOCK=64, num_warps=2, enable_fp_fusion=True)
    (name, types, (device, arguments, grid, threads, _)), second = launches
    assert name == "rmsnorm_rows" and types == ["*kfp32", "*kfp32", "*fp32", "i32", "fp32", "*u8", "*u8"]
    assert arguments[2] is out.array and arguments[3:5] == (40, 1e-6)
    assert (device, grid, threads, second[2][2]) == (on, (3, 1, 1), 64, (2, 1, 1))
    triton = backend.get_triton()
    assert isinstance(triton.runtime.driver._active, backend._Switch)


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_kernels_on_the_gpu(dtype, rng, on):
    if on.kind == "cuda":
        check_kernels(dtype, rng)


@needs_triton
@pytest.mark.gpu
def test_one_graph_of_three_kinds_of_kernels(on):
    """Triton's, one of gp.jit and an operation of ours, in one capture, in a context of its own."""
    if on.kind != "cuda":
        pytest.skip("graphs of Triton kernels are a GPU's")
    x = gp.random.normal(size=(8, 256))
    wanted = gp.softmax(x * 3.0, axis=-1) + 1.0
    scaled, soft, out = gp.empty_like(x), gp.empty_like(x), gp.empty_like(x)
    source = 'extern "C" __global__ void triple(float* out, const float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 3 * x[i]; }'
    triple = gp.jit(source, func="triple")
    graph = gp.CudaGraph()
    with graph.capture():
        triple(scaled, x, x.size)
        kernels.softmax(scaled, soft)
        gp.add(soft, 1.0, out=out)
    assert graph.num_nodes == 3 and graph.verify()
    graph.replay()
    np.testing.assert_allclose(out.to_numpy(), wanted.to_numpy(), rtol=1e-6)


EXAMPLE = Path(__file__).parents[2] / "examples" / "chat" / "chat_cli_triton.py"


def chat(assets, operations, *more, **settings):
    command = [sys.executable, EXAMPLE, assets / "stories260K", "Once upon a time", "--triton", operations, *more]
    env = {**os.environ, "PYGPUKIT_DEVICE": "cpu", **settings}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("> Once upon a time\n")[1].strip()


def test_the_chat_example_says_what_the_model_says(assets):
    from pygpukit.llm import ChatMessage, Tokenizer, apply_chat_template, load_model_from_safetensors

    with gp.device("cpu"):
        model = load_model_from_safetensors(assets / "stories260K", dtype="float32")
        tokenizer = Tokenizer(assets / "stories260K")
        ids = list(apply_chat_template([ChatMessage("user", "Once upon a time")], tokenizer))
        wanted = model.generate(ids, 20, temperature=0.0)
    wanted = tokenizer.decode(wanted[len(ids) :] if list(wanted[: len(ids)]) == ids else wanted)
    assert chat(assets, "", "--max-new-tokens", "20") == wanted.strip()


@needs_triton
def test_the_chat_example_by_triton(assets):
    plain = chat(assets, "", "--max-new-tokens", "4", "--temperature", "0.8")
    assert chat(assets, "norm,rope,attention,softmax", "--max-new-tokens", "4", "--temperature", "0.8", TRITON_INTERPRET="1") == plain
