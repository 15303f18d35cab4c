"""pygpukit.triton: what needs neither Triton nor a GPU, the interpreter, compilation, and launches on a GPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from triton_runs import run

import pygpukit as gp
from pygpukit import _core
from pygpukit.triton import TritonArray, backend, from_gpuarray, from_numpy, kernels


@pytest.fixture(autouse=True)
def on(device):
    with gp.device(device):
        yield device


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


def test_an_older_triton_is_refused():
    code = """
import sys, types
sys.modules["triton"] = types.ModuleType("triton")
sys.modules["triton"].__version__ = "3.3.1"
from pygpukit import triton
try:
    triton.backend.get_triton()
except ImportError as error:
    print(error)
"""
    assert run(code) == "pygpukit.triton needs Triton 3.4 or newer: pip install PyGPUkit[triton] (found 3.3.1)"


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
