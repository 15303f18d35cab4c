"""pygpukit.triton: what needs neither Triton nor a GPU, the interpreter, compilation, and launches on a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core
from pygpukit.triton import TritonArray, backend, from_gpuarray, from_numpy, kernels, triton_available

needs_triton = pytest.mark.skipif(not triton_available(), reason="needs the package triton")


@pytest.fixture(autouse=True)
def on(device):
    with gp.device(device):
        yield device


def run(code, **settings):
    env = {**os.environ, "PYGPUKIT_DEVICE": "cpu", **settings}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"])
def test_array_as_triton_sees_it(dtype):
    x = gp.ones((4, 6), dtype=dtype)
    view = from_gpuarray(x)
    assert (view.dtype, view.shape, view.ndim, view.numel) == (dtype, (4, 6), 2, 24)
    assert view.stride() == (6, 1) and view.stride(0) == 6 and view.stride(-1) == 1
    assert from_gpuarray(x.T).stride() == (1, 6)
    part = from_gpuarray(x[1:, 2:])
    assert part.data_ptr() == view.data_ptr() + 8 * x.itemsize
    with pytest.raises(IndexError, match="dim must be -2 to 1, got 2"):
        view.stride(2)
    with pytest.raises(TypeError, match=r"must be a GPUArray, got numpy\.ndarray"):
        TritonArray(np.ones(3))


def test_packed_and_float8_names():
    assert from_gpuarray(gp.zeros((4,), dtype="float8_e4m3")).dtype == "float8_e4m3fn"
    assert from_gpuarray(gp.zeros((4,), dtype="float4_e2m1")).dtype == "uint8"
    assert from_gpuarray(gp.zeros((4,), dtype="bool")).dtype == "bool"


def test_from_numpy_copies(on):
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    view = from_numpy(host)
    host[:] = 0
    assert view.array.device == on and view.array.to_numpy()[1, 2] == 5
    if on.kind == "cuda":
        assert view.__cuda_array_interface__["data"][0] == view.data_ptr()


def test_an_address_keeps_the_block_in_place():
    pool = gp.memory.MemoryPool("4MB", enable_eviction=True)
    gp.memory.set_default_pool(pool)
    try:
        x = gp.ones((1 << 18,), dtype="float32")
        view = from_gpuarray(x)
        view.data_ptr()
        for _ in range(4):
            gp.ones((1 << 18,), dtype="float32")
        keep = [gp.ones((1 << 18,), dtype="float32") for _ in range(3)]
        assert x.on_gpu
        del view
        keep += [gp.ones((1 << 18,), dtype="float32") for _ in range(1)]
        assert not x.on_gpu and x.to_numpy().sum() == 1 << 18
    finally:
        gp.memory.set_default_pool(None)


def test_alignment_is_that_of_every_place():
    x = gp.ones((64,), dtype="float32")
    assert [_core._address_alignment(x[n:]) for n in (0, 1, 2, 4, 8)] == [256, 4, 8, 16, 32]


def test_switch_reads_the_environment():
    code = "from pygpukit.triton import use_triton_backend; print(use_triton_backend())"
    assert run(code, PYGPUKIT_USE_TRITON="1") == "True"
    assert run(code, PYGPUKIT_USE_TRITON="0") == "False"
    wrong = "import pygpukit.triton as t\ntry: t.use_triton_backend()\nexcept ValueError as e: print(e)"
    assert "PYGPUKIT_USE_TRITON" in run(wrong, PYGPUKIT_USE_TRITON="yes")


def test_without_triton_errors_name_the_extra():
    code = """
import sys
sys.modules["triton"] = None
import pygpukit as gp
from pygpukit import triton
for call in (
    triton.backend.get_triton,
    lambda: triton.launch(None, (1,), gp.ones(3)),
    lambda: triton.kernels.softmax(gp.ones((2, 3)), gp.ones((2, 3))),
):
    try:
        call()
    except ImportError as error:
        assert "pip install PyGPUkit[triton]" in str(error), error
    else:
        raise SystemExit("no error")
print("named")
"""
    assert run(code) == "named"


def test_importing_does_not_import_triton():
    assert run("import sys, pygpukit.triton.kernels; print('triton' in sys.modules)") == "False"


def test_kernels_check_their_arguments():
    x, out = gp.ones((2, 6)), gp.ones((2, 6))
    with pytest.raises(gp.ShapeError, match=r"rmsnorm: weight must have shape \[6\], got \[5\]"):
        kernels.rmsnorm(x, gp.ones(5), out)
    with pytest.raises(gp.ShapeError, match=r"softmax: out must have shape \[2, 6\], got \[2, 5\]"):
        kernels.softmax(x, gp.ones((2, 5)))
    with pytest.raises(gp.DTypeError, match="layernorm: x must be one of float16, bfloat16, float32, got int32"):
        kernels.layernorm(gp.ones((2, 6), dtype="int32"), gp.ones(6), out)
    with pytest.raises(gp.ArgumentError, match="softmax: x must be contiguous"):
        kernels.softmax(gp.ones((6, 2)).T, out)
    with pytest.raises(gp.ShapeError, match=r"rotary: cos must have shape \[2, 3\] or \[2, 6\], got \[2, 2\]"):
        kernels.rotary(x, gp.ones((2, 2)), gp.ones((2, 2)), out)
    with pytest.raises(TypeError, match="softmax: x must be a TritonArray or a GPUArray, got list"):
        kernels.softmax([1.0], out)
    q, kv = gp.ones((4, 3, 8)), gp.ones((3, 5, 8))
    with pytest.raises(gp.ShapeError, match="heads of q must be a multiple of those of k, got 4 and 3"):
        kernels.attention(q, kv, kv, q)
    with pytest.raises(gp.ShapeError, match="as many keys as queries, got 2 and 3"):
        kernels.attention(q, gp.ones((2, 2, 8)), gp.ones((2, 2, 8)), q)


class Recorded:
    """Stands for the library's kernel: what a launch would pass."""

    calls: ClassVar[list] = []

    def __init__(self, name, code, types):
        self.name, self.code, self.types = name, code, types

    def launch(self, *call):
        Recorded.calls.append((self.name, self.types, call))

    def attributes(self, device):
        return {"registers": 32, "local_bytes": 0, "max_threads": 1024}


def metadata(**more):
    made = {"name": "k", "num_warps": 4, "num_ctas": 1, "shared": 1024, "launch_cooperative_grid": False}
    return SimpleNamespace(**{**made, "global_scratch_size": 0, "profile_scratch_size": 0, **more})


def test_launcher_passes_what_the_kernel_takes(monkeypatch, on):
    monkeypatch.setattr(_core, "_BinaryKernel", Recorded)
    Recorded.calls = []
    src = SimpleNamespace(signature={"x": "*kfp32", "n": "i32", "B": "constexpr", "pair": ("fp32", "constexpr"), "out": "*fp32"})
    launcher = backend.Launcher(src, metadata())
    code = backend._Code("k", b"code")
    x, out = from_numpy(np.ones(4, np.float32)), from_numpy(np.ones(4, np.float32))
    seen = []
    hook = lambda given: seen.append(given)  # noqa: E731
    launcher(2, 3, 1, 0, code, None, "facts", hook, hook, x, 4, 64, (0.5, 7), out)
    ((name, types, (device, arguments, grid, threads, shared)),) = Recorded.calls
    assert name == "k" and types == ["*kfp32", "i32", "fp32", "*fp32", "*u8", "*u8"]
    assert arguments[0] is x.array and arguments[1:3] == (4, 0.5) and arguments[3] is out.array and arguments[4:] == (None, None)
    assert (device, grid, threads, shared, seen) == (on, (2, 3, 1), 128, 1024, ["facts", "facts"])
    launcher(0, 1, 1, 0, code, None, None, None, None, x, 4, 64, (0.5, 7), out)
    assert len(Recorded.calls) == 1, "an empty grid launches nothing"


def test_launcher_refuses_what_it_cannot_pass():
    src = SimpleNamespace(signature={"x": "*fp32"})
    with pytest.raises(gp.UnsupportedError, match="num_ctas must be 1, got 2"):
        backend.Launcher(src, metadata(num_ctas=2))
    with pytest.raises(gp.UnsupportedError, match="cooperative"):
        backend.Launcher(src, metadata(launch_cooperative_grid=True))
    with pytest.raises(gp.UnsupportedError, match="descriptors as arguments"):
        backend.Launcher(SimpleNamespace(signature={"d": "tensordesc<fp16[16, 16]>"}), metadata())

    class Foreign:
        def data_ptr(self):
            return 0

    with pytest.raises(TypeError, match=r"argument 1 is a .*Foreign; pass from_gpuarray\(gp.from_dlpack\(x\)\)"):
        backend.Launcher(src, metadata())(1, 1, 1, 0, backend._Code("k", b"c"), None, None, None, None, Foreign())


def test_binary_kernel_packs_by_its_types(on):
    kernel = _core._BinaryKernel("k", b"code", ["*kfp32", "*bf16", "i32", "fp16", "u1", "*u8"])
    x, y = gp.ones((4, 4))[:, ::2], gp.ones((4,), dtype="bfloat16")
    values, grid, block, shared, written = kernel._pack(on, (x, y, -3, 1.5, True, None), (2, 3), 128, 64)
    assert [len(value) for value in values] == [8, 8, 4, 2, 1, 8]
    assert int.from_bytes(values[0], "little") == from_gpuarray(x).data_ptr() and values[5] == bytes(8)
    assert np.frombuffer(values[2], np.int32)[0] == -3 and np.frombuffer(values[3], np.float16)[0] == 1.5
    assert (grid, block, shared, written) == ((2, 3, 1), (128, 1, 1), 64, [False, True])
    with pytest.raises(gp.DTypeError, match=r"argument 2 must be an array of bfloat16 for \*bf16, got float32"):
        kernel._pack(on, (x, x, 1, 1.0, True, None), 1, 128, 0)
    with pytest.raises(gp.ArgumentError, match="be -2147483648 to 2147483647|-2147483648"):
        kernel._pack(on, (x, y, 1 << 40, 1.0, True, None), 1, 128, 0)
    with pytest.raises(gp.UnsupportedError, match="nvTmaDesc"):
        _core._BinaryKernel("k", b"code", ["nvTmaDesc"])
    if on.kind == "cpu":
        with pytest.raises(gp.DeviceError, match="k: machine code of a GPU runs on a GPU, not on cpu"):
            kernel.launch(on, (x, y, 1, 1.0, True, None), 1, 128, 0)


@pytest.mark.gpu
def test_machine_code_of_another_compiler_runs_and_is_captured():
    """A cubin that NVRTC made outside of the library; where the driver is emulated, its kind of code."""
    source = b'extern "C" __global__ void scale(float* x, float f, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= f; }'
    nvrtc = ctypes.CDLL(gp.get_nvrtc_path())
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    p = gp.Device("cuda:0").properties
    option = f"--gpu-architecture=sm_{p.compute_capability_major}{p.compute_capability_minor}".encode()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"scale.cu", 0, None, None) == 0
    assert nvrtc.nvrtcAddNameExpression(program, b"scale") == 0
    assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(option)) == 0
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    code = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetCUBIN(program, code) == 0
    lowered = ctypes.c_char_p()
    assert nvrtc.nvrtcGetLoweredName(program, b"scale", ctypes.byref(lowered)) == 0
    kernel = _core._BinaryKernel(lowered.value.decode(), code.raw, ["*fp32", "fp32", "i32"])
    assert kernel.attributes("cuda")["max_threads"] >= 128
    with gp.device("cuda"):
        x = gp.ones((100,))
        graph = gp.CudaGraph()
        with graph.capture():
            kernel.launch("cuda", (x, 2.0, 100), 1, 128, 0)
            gp.add(x, 1.0, out=x)
        assert graph.verify() and x.to_numpy()[0] == 1
        graph.replay()
        kernel.launch("cuda", (x, 3.0, 50), 1, 128, 0)
        assert x.to_numpy()[[0, 49, 50, 99]].tolist() == [9, 9, 3, 3]


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
    code = f"import sys; sys.path.insert(0, {folder!r}); import numpy as np, test_triton as t; t.check_kernels({dtype!r}, np.random.default_rng(3), {dtype != 'bfloat16'}); print('good')"
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
    monkeypatch.setattr(_core, "_BinaryKernel", Recorded)
    Recorded.calls = []
    x, weight, out = (from_numpy(np.ones((3, 40), np.float32)), from_numpy(np.ones(40, np.float32)), from_numpy(np.ones((3, 40), np.float32)))
    program = kernels._programs().rmsnorm_rows
    for rows in (3, 2):
        with backend.launching():
            program[(rows,)](x, weight, out, 40, 1e-6, BLOCK=64, num_warps=2, enable_fp_fusion=True)
    (name, types, (device, arguments, grid, threads, _)), second = Recorded.calls
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


def test_programs_are_apart_from_the_wrappers():
    """Everything but the programs can be imported without Triton."""
    assert importlib.util.find_spec("pygpukit.triton.kernels.programs") is not None
