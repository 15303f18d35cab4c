"""Custom kernels: what is checked without a GPU, what a call passes, and real launches on one."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core
from pygpukit.jit import compiler

SCALE = """
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""

needs_compiler = pytest.mark.skipif(
    _core._compiler_info()["version"] is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)


def compiled(source, func, **kwargs):
    """A kernel compiled for Ampere: every target machine's compiler knows it, and no GPU is needed."""
    kernel = gp.jit(source, func, **kwargs)
    kernel.compile("80")
    return kernel


def test_the_compiler_is_here():
    """The tests below compile; a machine without NVRTC must not pass by skipping them."""
    info = _core._compiler_info()
    assert info["version"] is not None, info["reason"]
    assert gp.get_nvrtc_path() == info["path"]


def test_object_without_launching():
    kernel = gp.jit(SCALE, func="scale", options=["-DX=1"], block_size=128)
    assert isinstance(kernel, gp.JITKernel)
    assert kernel.source == SCALE
    assert kernel.name == "scale"
    assert kernel.options == ["-DX=1"]
    assert kernel.block_size == 128
    assert "scale" in repr(kernel)
    assert isinstance(kernel.ptx, str) and kernel.ptx
    assert gp.JITKernel(SCALE, "scale").block_size == 256


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void other(int* x) {}",
        "__device__ void f(int* x) {}",
        "// __global__ void f(int* x) {}\n",
        "",
    ],
)
def test_missing_function_is_a_value_error(source):
    with pytest.raises(ValueError, match=r"Function 'f' not found"):
        gp.jit(source, func="f")


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void __launch_bounds__(256) f(int* x) {}",
        'extern "C" __global__ void f(int* x) {}',
        'extern "C"\n__global__\nvoid\nf (int* x)\n{}',
        "__global__ static void f(int* x) {}",
        "#define KERNEL(name) __global__ void name(int* x) {}\nKERNEL(f)",
    ],
)
def test_declarations_that_are_found(source):
    assert gp.jit(source, func="f").name == "f"


def test_bad_constructor_arguments():
    with pytest.raises(ValueError, match="block_size"):
        gp.jit(SCALE, func="scale", block_size=0)
    with pytest.raises(TypeError, match="options"):
        gp.jit(SCALE, func="scale", options="-O3")
    with pytest.raises(ValueError, match="t<float>"):
        gp.jit("template <class T> __global__ void t(T* x) {}", func="t")


@pytest.mark.skipif(gp.is_cuda_available(), reason="there is a GPU")
def test_calling_without_a_gpu_raises_the_cause():
    kernel = gp.jit(SCALE, func="scale")
    x = gp.zeros(4, device="cpu")
    with pytest.raises(
        gp.DeviceError, match=r"^(CUDA driver not detected|No GPU devices found \(cudaGetDeviceCount == 0\))"
    ):
        kernel(x, factor=0.5, n=4)
    assert not kernel.is_compiled
    assert not gp.is_nvrtc_available()
    assert gp.get_nvrtc_version() is None
    ok, text = gp.check_driver_compatibility()
    assert ok is False and text


def run_python(code, **environment):
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


def test_promised_message_without_nvrtc():
    code = """
        import pygpukit as gp
        from pygpukit import _core
        assert not gp.is_nvrtc_available() and gp.get_nvrtc_path() is None
        print(_core._compiler_info()["reason"])
        assert gp.warmup() is False
        error = gp.get_warmup_error()
        assert isinstance(error, gp.NvrtcError) and error.code == gp.NvrtcErrorCode.NotLoaded, repr(error)
        kernel = gp.jit("__global__ void f(int* x) {}", func="f")
        try:
            kernel.compile("80")
        except gp.NvrtcError as e:
            assert str(e).startswith("[NotLoaded] NVRTC JIT compiler not available"), e
    """
    for value in ("off", "/nowhere/libnvrtc.so.12"):
        result = run_python(code, PYGPUKIT_NVRTC=value)
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith("NVRTC JIT compiler not available")
    assert "pip install nvidia-cuda-nvrtc" in result.stdout


# What the compiler tells


@needs_compiler
def test_types_come_from_the_compiler_and_names_from_the_text():
    source = """
        typedef long long i64;
        #define REAL float
        struct Pair { int a, b; };
        template <typename T> struct Wrap { T v; };
        template <typename T, int N>
        __global__ void __launch_bounds__(128) k(T* __restrict__ out, const REAL* /* in */ x, i64 n, Wrap<T>* w, Pair* p,
                                                 const void* v, unsigned char b, bool, float (*m)[4]) {}
    """
    kernel = compiled(source, "k<double, 3>")
    assert kernel.is_compiled
    assert kernel.parameters == [
        ("out", "double*"),
        ("x", "const float*"),
        ("n", "long long"),
        ("w", "Wrap<double>*"),
        ("p", "Pair*"),
        ("v", "const void*"),
        ("b", "unsigned char"),
        (None, "bool"),
        ("m", "float (*)[4]"),
    ]
    assert ".target sm_" in kernel.ptx


@needs_compiler
def test_embedded_headers_can_be_included():
    source = """
        #include "gpukit/ops/common/half.cuh"
        __global__ void k(gpukit::half* x, gpukit::bfloat16 y) { x[0] = gpukit::to_half(gpukit::to_float(y)); }
    """
    kernel = compiled(source, "k")
    assert kernel.parameters == [("x", "gpukit::half*"), ("y", "gpukit::bfloat16")]


@needs_compiler
def test_errors_have_code_log_and_the_users_lines():
    source = "\n\n__global__ void bad(float* x) {\n  x[0] = missing;\n}\n"
    with pytest.raises(gp.NvrtcError) as info:
        compiled(source, "bad")
    assert info.value.code == gp.NvrtcErrorCode.Compilation
    assert "bad.cu(4): error" in info.value.compilation_log
    assert 'identifier "missing" is undefined' in info.value.compilation_log
    assert str(info.value).startswith("[Compilation] bad")


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [
        ["-O3"],
        ["-O0"],
        ["-Xptxas", "-O1,-v"],
        ["-Xptxas=-v"],
        ["-Xptxas -O2"],
        ["-Xcompiler", "-fPIC", "-O2"],
        ["-lineinfo", "--use_fast_math"],
        ["-std", "c++17", "--expt-relaxed-constexpr"],
    ],
)
def test_options_of_nvcc_are_translated_or_passed_over(options, caplog):
    with caplog.at_level("INFO", logger="pygpukit"):
        kernel = compiled("__global__ void k(int* x) { *x = 1; }", "k", options=options)
    assert kernel.is_compiled and kernel.options == options
    logged = [record.getMessage() for record in caplog.records if "passes the option" in record.getMessage()]
    assert len(logged) == sum(option in ("-O3", "-O0", "-O2", "-Xcompiler", "--expt-relaxed-constexpr") for option in options)


@needs_compiler
def test_options_reach_the_compiler():
    source = "__global__ void k(float* x) { x[0] = VALUE; }"
    assert compiled(source, "k", options=["-DVALUE=2.5f"]).is_compiled
    with pytest.raises(gp.NvrtcError, match="VALUE"):
        compiled(source, "k")
    with pytest.raises(gp.NvrtcError) as info:
        compiled(source, "k", options=["--no-such-option"])
    assert info.value.code == gp.NvrtcErrorCode.InvalidOption


@needs_compiler
@pytest.mark.parametrize(
    "options", [["-arch=sm_90"], ["--gpu-architecture=sm_90"], ["-arch", "sm_90"], ["-arch=compute_90"]]
)
def test_the_users_arch_wins(options):
    kernel = compiled("__global__ void k(int* x) { *x = 1; }", "k", options=options)
    assert ".target sm_90" in kernel.ptx


@needs_compiler
def test_unknown_chips_are_refused():
    with pytest.raises(gp.NvrtcError, match="sm_33"):
        gp.jit(SCALE, func="scale").compile("33")


# What a call passes

f32 = struct.Struct("<f").pack
i32 = struct.Struct("<i").pack


@pytest.fixture
def scale():
    return compiled(SCALE, "scale")


@needs_compiler
def test_arguments_by_position_and_name(scale):
    x = gp.zeros(1000, device="cpu")
    address = struct.pack("<Q", np.from_dlpack(x).ctypes.data)
    expected = ([address, f32(0.5), i32(1000)], (4, 1, 1), (256, 1, 1), 0)
    assert scale._pack(x, 0.5, 1000) == expected
    assert scale._pack(x, factor=0.5, n=x.size) == expected
    assert scale._pack(n=1000, x=x, factor=np.float32(0.5)) == expected
    assert scale._pack(x, n=np.int64(1000), factor=np.float64(0.5)) == expected


@needs_compiler
def test_launch_words(scale):
    x = gp.zeros(1000, device="cpu")
    assert scale._pack(x, 1, 1, grid_size=7, block_size=32, shared_mem=64)[1:] == ((7, 1, 1), (32, 1, 1), 64)
    assert scale._pack(x, 1, 1, grid=(1, 2, 3), block=(4, 5))[1:] == ((1, 2, 3), (4, 5, 1), 0)
    assert scale._pack(x, 1, 1, block_size=100)[1] == (10, 1, 1)
    assert scale._pack(gp.zeros(0, device="cpu"), 1, 0)[1] == (1, 1, 1)
    with pytest.raises(TypeError, match="scale: grid_size and grid"):
        scale._pack(x, 1, 1, grid_size=1, grid=1)
    with pytest.raises(ValueError, match="scale: grid_size must be 1 to 2147483647, got 0"):
        scale._pack(x, 1, 1, grid=0)
    with pytest.raises(ValueError, match="scale: block_size"):
        scale._pack(x, 1, 1, block=(1024, 2))
    with pytest.raises(ValueError, match="grid_size must be an int or 1 to 3 ints"):
        scale._pack(x, 1, 1, grid=(1, 2, 3, 4))
    with pytest.raises(TypeError, match="scale: grid_size must be an int"):
        scale._pack(x, 1, 1, grid=1.5)


@needs_compiler
@pytest.mark.parametrize(
    ("args", "kwargs", "error", "text"),
    [
        ((), {}, TypeError, r"scale: missing x \(float\*\)"),
        (("x",), {"factor": 1}, TypeError, r"scale: missing n \(int\)"),
        (("x", 1, 1, 1), {}, TypeError, "scale: takes 3 arguments, got 4"),
        (("x", 1, 1), {"n": 2}, TypeError, "scale: got two values for n"),
        (("x", 1, 1), {"m": 2}, TypeError, "scale: unknown argument m; it takes .float. x, float factor, int n."),
        ((1.0, 1, 1), {"grid": 1}, TypeError, r"scale: x must be an array for float\*, got a float"),
        (("x", "x", 1), {}, TypeError, "scale: factor must be a number for float, got an array"),
        (("x", None, 1), {}, TypeError, "scale: factor must be a number for float, got None"),
        (("x", 1, 1.5), {}, TypeError, "scale: n must be a number for int, got a float"),
        (("x", 1, 2**31), {}, ValueError, "scale: n must be -2147483648 to 2147483647 for int, got 2147483648"),
        (("x", 1, 2**70), {}, (ValueError, OverflowError), "n"),
        (("x", 1e300, 1), {}, ValueError, "scale: factor must fit float"),
        (("x", 1j, 1), {}, TypeError, "scale: factor must be a number for float, got a complex"),
        (("x", "text", 1), {}, TypeError, "factor"),
    ],
)
def test_wrong_calls_name_kernel_and_parameter(scale, args, kwargs, error, text):
    x = gp.zeros(8, device="cpu")
    args = tuple(x if a == "x" else a for a in args)
    with pytest.raises(error, match=text):
        scale._pack(*args, **kwargs)


@needs_compiler
def test_arrays_are_checked_against_the_pointer(scale):
    with pytest.raises(gp.DTypeError, match=r"scale: x must be an array of float32 for float\*, got float64"):
        scale._pack(gp.zeros(4, dtype="float64", device="cpu"), 1, 1)
    with pytest.raises(gp.ArgumentError, match=r"scale: x must be contiguous.*contiguous\(\)"):
        scale._pack(gp.zeros((4, 4), device="cpu").T, 1, 1)
    with pytest.raises(TypeError, match="x"):
        scale._pack(np.zeros(4, np.float32), 1, 1)


@needs_compiler
def test_parameters_with_the_words_of_a_launch():
    kernel = compiled("__global__ void k(int* x, int stream, int block) {}", "k")
    x = gp.zeros(4, dtype="int32", device="cpu")
    with pytest.raises(TypeError, match="kernel.launch"):
        kernel._pack(x, 1)
    assert kernel._pack(x, 1, 2)[0][1:] == [i32(1), i32(2)]


@needs_compiler
def test_unreadable_names_are_positional_only():
    kernel = compiled("#define ARGS int a, int b\n__global__ void k(ARGS) {}", "k")
    assert kernel.parameters == [(None, "int"), (None, "int")]
    assert kernel._pack(1, 2, grid=1)[0] == [i32(1), i32(2)]
    with pytest.raises(TypeError, match="unknown argument a"):
        kernel._pack(1, a=2, grid=1)


@needs_compiler
def test_structs_by_value_are_refused_at_the_call():
    kernel = compiled("struct S { int a; };\n__global__ void k(S s) {}", "k")
    with pytest.raises(NotImplementedError, match="k: s has the type S"):
        kernel._pack(1, grid=1)


@needs_compiler
def test_kernels_in_other_threads():
    kernels = [gp.jit(SCALE + f"// {i % 2}\n", func="scale") for i in range(6)]
    threads = [threading.Thread(target=k.compile, args=("80",)) for k in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(k.is_compiled and len(k.parameters) == 3 for k in kernels)


# Around the compiler


def test_requirements():
    requirements = gp.get_driver_requirements()
    assert set(requirements) == {
        "min_driver_version",
        "min_gpu_architecture",
        "recommended_driver_version",
        "recommended_gpu",
        "supported_architectures",
        "notes",
    }
    assert all(isinstance(v, str) and v for v in requirements.values())
    assert compiler.MIN_SM_VERSION == 80
    assert gp.NvrtcErrorCode.Compilation == 6 and gp.NvrtcErrorCode.NotLoaded == 1000
    error = gp.NvrtcError("text", gp.NvrtcErrorCode.Compilation, "log")
    assert str(error) == "[Compilation] text" and error.compilation_log == "log"


def test_warmup_says_what_happened():
    called = []
    worked = gp.warmup(callback=lambda: called.append(1))
    assert worked is gp.is_warmup_done()
    assert worked == gp.is_nvrtc_available()
    assert bool(called) == worked
    assert (gp.get_warmup_error() is None) == worked
    assert gp.warmup(background=True) is True


# Launches


@pytest.mark.gpu
class TestLaunch:
    def test_equals_numpy(self, rng):
        host = rng.standard_normal(100_003).astype(np.float32)
        x = gp.from_numpy(host)
        kernel = gp.jit(SCALE, func="scale")
        assert kernel.is_compiled and gp.is_nvrtc_available()
        kernel(x, factor=0.5, n=x.size)
        np.testing.assert_array_equal(x.to_numpy(), host * np.float32(0.5))
        assert 32 <= kernel.get_suggested_block_size() <= 1024

    def test_every_scalar_type(self):
        types = {
            "bool": (True, "bool"), "signed char": (-5, "int8"), "unsigned char": (250, "uint8"), "short": (-300, "int16"),
            "unsigned short": (65000, "uint16"), "int": (-70000, "int32"), "unsigned": (2**32 - 1, "uint32"),
            "long long": (-(2**62), "int64"), "unsigned long long": (2**64 - 1, "uint64"),
            "float": (0.1, "float32"), "double": (0.1, "float64"),
        }  # fmt: skip
        for text, (value, dtype) in types.items():
            out = gp.zeros(3, dtype=dtype, device="cuda")
            source = f"__global__ void put({text}* out, {text} value) {{ out[threadIdx.x] = value; }}"
            gp.jit(source, func="put")(out, value, block=3)
            assert (out.to_numpy() == np.array(value).astype(dtype)).all(), text

    def test_streams_shared_memory_and_launch(self):
        source = """
            __global__ void reverse(const int* x, int* out, int n) {
              extern __shared__ int buffer[];
              buffer[threadIdx.x] = x[threadIdx.x];
              __syncthreads();
              out[threadIdx.x] = buffer[n - 1 - threadIdx.x];
            }
        """
        kernel = gp.jit(source, func="reverse")
        x = gp.arange(512, dtype="int32", device="cuda")
        out = gp.zeros(512, dtype="int32", device="cuda")
        gp.default_stream().synchronize()
        stream = gp.Stream(device="cuda")
        kernel(x, out, 512, grid=1, block=512, shared_mem=100 * 1024, stream=stream)
        stream.synchronize()
        assert (out.to_numpy() == np.arange(512)[::-1]).all()
        kernel.launch((x,), {"n": 512, "out": out}, grid_size=1, block_size=512, shared_mem=2048)
        assert (out.to_numpy() == np.arange(512)[::-1]).all()

    def test_first_use_inside_a_graph(self):
        x = gp.ones(1000, device="cuda")
        kernel = gp.jit(SCALE + "// for a graph\n", func="scale")
        graph = gp.CudaGraph()
        graph.begin_capture()
        kernel(x, 2.0, 1000)
        kernel(x, 3.0, 1000)
        graph.end_capture()
        assert (x.to_numpy() == 1).all()
        assert graph.verify()
        graph.replay()
        graph.synchronize()
        assert (x.to_numpy() == 6).all()

    def test_failed_launch_names_the_kernel(self):
        x = gp.ones(4, device="cuda")
        kernel = gp.jit(SCALE, func="scale")
        with pytest.raises(gp.CudaError, match=r"scale.*grid \(1, 1, 1\)"):
            kernel(x, 1.0, 4, shared_mem=2**30)
        kernel(x, 2.0, 4)
        assert (x.to_numpy() == 2).all()

    def test_arrays_of_another_device(self):
        kernel = gp.jit("__global__ void k(float* a, float* b) {}", func="k")
        with pytest.raises(gp.DeviceError, match="b is on cpu"):
            kernel(gp.ones(1, device="cuda"), gp.ones(1, device="cpu"))
        with pytest.raises(gp.DeviceError, match="not on cpu"):
            kernel(gp.ones(1, device="cpu"), gp.ones(1, device="cpu"))
