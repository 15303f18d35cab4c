"""ElementwiseKernel and ReductionKernel: what is checked without a GPU, programs that compile, and results on one."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core

needs_compiler = pytest.mark.skipif(
    _core._compiler_info()["version"] is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)

SQUARED_DIFFERENCE = ("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")
NORM = ("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")


# What needs no GPU


@pytest.mark.parametrize(
    ("in_params", "out_params", "name", "error", "words"),
    [
        ("T", "T z", "k", ValueError, "k: in_params must be a list of types and names.*'T'"),
        ("T x,", "T z", "k", ValueError, "list of types and names"),
        ("const raw T x", "T z", "k", ValueError, "list of types and names"),
        ("float x", "T z", "k", TypeError, r"'float' \(write float32\)"),
        ("TT x", "T z", "k", TypeError, "one letter or the name of an arithmetic dtype, got 'TT'"),
        ("float8_e4m3 x", "T z", "k", TypeError, "arithmetic dtype"),
        ("T 1x", "T z", "k", ValueError, "identifier, got '1x'"),
        ("T x-y", "T z", "k", ValueError, "identifier"),
        ("T for", "T z", "k", ValueError, "word of C"),
        ("T i", "T z", "k", ValueError, "word of C.* got 'i'"),
        ("T _x", "T z", "k", ValueError, "generated program"),
        ("T x, T x", "T z", "k", ValueError, "differently, got 'x' twice"),
        ("T x", "T x", "k", ValueError, "differently"),
        ("T x", "", "k", ValueError, "out_params must name an output"),
        ("T x", "T z", "my kernel", ValueError, "name must be an identifier.*'my kernel'"),
        ("T x", "T z", "", ValueError, "identifier"),
        ("T x", "T z", "x", ValueError, "differ from the parameters"),
    ],
)
def test_parameters_that_are_none(in_params, out_params, name, error, words):
    with pytest.raises(error, match=words):
        gp.ElementwiseKernel(in_params, out_params, "z = x", name)
    with pytest.raises(error, match=words):
        gp.ReductionKernel(in_params, out_params, "x", "a + b", "z = a", "0", name)


def test_names_of_a_kernel():
    kernel = gp.ElementwiseKernel(*SQUARED_DIFFERENCE)
    assert (kernel.name, kernel.nin, kernel.nout) == ("squared_difference", 2, 1)
    assert kernel.operation == "z = (x - y) * (x - y)" and "squared_difference" in repr(kernel)
    norm = gp.ReductionKernel(*NORM)
    assert (norm.name, norm.nin, norm.nout) == ("norm", 1, 1) and "norm" in repr(norm)
    with pytest.raises(TypeError, match="options"):
        gp.ElementwiseKernel("T x", "T y", "y = x", options="-O3")
    with pytest.raises(ValueError, match="reduce_expr must be an expression"):
        gp.ReductionKernel("T x", "T y", "x", " ", "y = a", "0")
    with pytest.raises(ValueError, match="called a"):
        gp.ReductionKernel("T x", "T a", "x", "a + b", "a = a", "0")
    with pytest.raises(ValueError, match="raw"):
        gp.ReductionKernel("T x", "raw T y", "x", "a + b", "y[0] = a", "0")
    with pytest.raises(ValueError, match="finite"):
        gp.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", float("-inf"))


def program(kernel, *args, **kwargs):
    return kernel._program(*args, **kwargs)


def test_dtypes_of_letters():
    kernel = gp.ElementwiseKernel("T x, U y", "T z", "z = x + y")
    f, h = gp.zeros((4,), dtype="float32", device="cpu"), gp.zeros((4,), dtype="float16", device="cpu")
    text = program(kernel, f, h)
    assert "typedef float T;" in text and "typedef float16 U;" in text
    assert "typedef float T;\ntypedef long long U;" in program(kernel, f, 3)
    assert "typedef float T;" in program(kernel, 1.5, h)
    same = gp.ElementwiseKernel(*SQUARED_DIFFERENCE)
    with pytest.raises(
        gp.DTypeError, match="squared_difference: y must have dtype float32, which T is by x, got float16"
    ):
        program(same, f, h)
    assert "typedef float16 T;" in program(same, 2.0, h)
    with pytest.raises(gp.DTypeError, match="x must have dtype float64, got float32"):
        program(gp.ElementwiseKernel("float64 x", "float64 z", "z = x"), f)
    with pytest.raises(gp.DTypeError, match="the letter T, which no argument has"):
        program(gp.ElementwiseKernel("float32 x", "T z", "z = x"), f)


def test_arguments_that_do_not_fit():
    kernel = gp.ElementwiseKernel(*SQUARED_DIFFERENCE)
    x = gp.zeros((4,), device="cpu")
    with pytest.raises(TypeError, match="takes 2 inputs and, after them, 1 outputs or none; got 1"):
        kernel(x)
    with pytest.raises(TypeError, match="give them once"):
        kernel(x, x, x, out=x)
    with pytest.raises(TypeError, match="squared_difference: y"):
        kernel(x, "text")
    with pytest.raises(gp.ShapeError, match="squared_difference"):
        program(kernel, x, gp.zeros((3,), device="cpu"))
    gather = gp.ElementwiseKernel("raw T x, raw int32 index", "T z", "z = x[index[i]]", "gather")
    index = gp.zeros((2,), dtype="int32", device="cpu")
    with pytest.raises(ValueError, match="gather: size must be given"):
        program(gather, x, index)
    assert "Loop<1, 1>" in program(gather, x, index, size=2)
    with pytest.raises(ValueError, match="size must be given only where every array is raw"):
        program(kernel, x, x, size=4)
    with pytest.raises(ValueError, match="index must be an array: it is raw"):
        program(gather, x, 3, size=2)
    with pytest.raises(ValueError, match="raw output"):
        program(gp.ElementwiseKernel("T x", "raw T z", "z[i] = x"), x)
    norm = gp.ReductionKernel(*NORM)
    with pytest.raises(IndexError, match="norm"):
        norm._program(x, axis=1)
    with pytest.raises(ValueError, match="axis must name each axis once"):
        norm._program(x, axis=(0, 0))
    with pytest.raises(ValueError, match="identity must be given"):
        gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", None)._program(gp.zeros((0,), device="cpu"))
    with pytest.raises(ValueError, match="an array that is not raw"):
        norm._program(2.0)


@pytest.mark.skipif(gp.is_cuda_available(), reason="there is a GPU")
def test_calling_without_a_gpu_raises_the_cause():
    x = gp.zeros((4,), device="cpu")
    reason = r"^(CUDA driver not detected|No GPU devices found \(cudaGetDeviceCount == 0\)).*was not launched"
    with pytest.raises(gp.DeviceError, match=reason):
        gp.ElementwiseKernel(*SQUARED_DIFFERENCE)(x, x)
    with pytest.raises(gp.DeviceError, match=reason):
        gp.ReductionKernel(*NORM)(x)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32", "uint8", "complex64"])
def test_programs_compile(dtype, arch):
    x = gp.zeros((4, 6), dtype=dtype, device="cpu")
    kernel = gp.ElementwiseKernel(*SQUARED_DIFFERENCE)
    assert kernel._compile(x, x[:1], arch=arch) > 1000
    assert kernel._compile(x.T, 1, arch=arch) > 1000
    total = gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    assert total._compile(x, arch=arch, axis=0) > 1000
    assert total._compile(x[:, ::2], arch=arch) > 1000


@needs_compiler
def test_the_compiler_counts_the_users_lines():
    x = gp.zeros((4,), device="cpu")
    kernel = gp.ElementwiseKernel("T x", "T y", "y = x;\ny = missing(x)", "wrong")
    with pytest.raises(gp.NvrtcError, match=r"operation\(2\)"):
        kernel._compile(x, arch="sm_80")
    with pytest.raises(gp.NvrtcError, match=r"map_expr\(1\)"):
        gp.ReductionKernel("T x", "T y", "oops", "a + b", "y = a", "0")._compile(x, arch="sm_80")


# On a GPU


@pytest.fixture
def gpu():
    with gp.device("cuda"):
        yield


def array(rng, shape, dtype="float32"):
    return gp.from_numpy(rng.normal(size=shape).astype(np.float32) * 3).astype(dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0,), (1,), (33,), (1025,), (3, 33), (2, 3, 4, 5), ()])
def test_elementwise_cuda(gpu, rng, shape):
    kernel = gp.ElementwiseKernel(*SQUARED_DIFFERENCE)
    x, y = array(rng, shape), array(rng, shape[-1:])
    want = (x.to_numpy() - y.to_numpy()) ** 2
    made = kernel(x, y)
    assert made.shape == shape and made.dtype == gp.float32
    np.testing.assert_array_equal(made.to_numpy(), want)
    out = gp.zeros(shape)
    assert kernel(x, y, out=out) is out and kernel(x, y, out) is out
    np.testing.assert_array_equal(out.to_numpy(), want)


@pytest.mark.gpu
def test_elementwise_layouts_cuda(gpu, rng):
    kernel = gp.ElementwiseKernel(
        "T x, T y, float32 s", "T z, bool w", "z = x * s + y; w = x > y", "two", options=["--fmad=false"]
    )
    x, y = array(rng, (20, 30)), array(rng, (30, 20)).T
    for a, b in ((x, y), (x[::2, ::-1], y[:10]), (x, y[:, :1]), (x[:1], y)):
        z, w = kernel(a, b, 0.5)
        np.testing.assert_array_equal(z.to_numpy(), a.to_numpy() * np.float32(0.5) + b.to_numpy())
        np.testing.assert_array_equal(w.to_numpy(), a.to_numpy() > b.to_numpy())
    n = array(rng, (100,))
    want = n.to_numpy()
    shift = gp.ElementwiseKernel("T x", "T y", "y = x + 1")
    shift(n[:-1], out=n[1:])
    np.testing.assert_array_equal(n.to_numpy()[1:], want[:-1] + 1)


@pytest.mark.gpu
def test_raw_arrays_and_places_cuda(gpu, rng):
    x = array(rng, (6, 8))
    reverse = gp.ElementwiseKernel("raw T x", "T y", "y = x[_ind.size() - 1 - i]", "reverse")
    for a in (x, x.T, x[::2]):
        flat = a.to_numpy().reshape(-1)
        np.testing.assert_array_equal(reverse(a, size=flat.size).to_numpy(), flat[::-1])
    index = gp.ElementwiseKernel("raw T x", "T y", "y = x[_ind.get()] + _ind.get()[0]", "index", reduce_dims=False)
    out = gp.zeros((6, 8))
    np.testing.assert_array_equal(index(x, out=out).to_numpy(), x.to_numpy() + np.arange(6, dtype=np.float32)[:, None])
    scatter = gp.ElementwiseKernel("int32 at, T x", "raw T y", "y[at] = x", "scatter", no_return=True)
    to = gp.zeros((10,))
    assert scatter(gp.from_numpy(np.array([7, 2], np.int32)), gp.ones((2,)), to) is None
    assert to.to_numpy().tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    count = gp.ElementwiseKernel(
        "",
        "int64 y",
        "y = i * step()",
        "count",
        preamble="__device__ long long step() { return 3; }",
        return_tuple=True,
    )
    assert count(size=4)[0].to_numpy().tolist() == [0, 3, 6, 9]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "uint64"])
def test_elementwise_dtypes_cuda(gpu, rng, dtype):
    kernel = gp.ElementwiseKernel("T x, T y", "T z", "z = x * y; z += x;", "fused_multiply")
    x, y = (gp.from_numpy(rng.integers(0, 7, 65)).astype(dtype) for _ in "xy")
    want = x.to_numpy(dtype="float64") if "float" in dtype else x.to_numpy()
    other = y.to_numpy(dtype="float64") if "float" in dtype else y.to_numpy()
    made = kernel(x, y)
    assert made.dtype.name == dtype
    got = made.to_numpy(dtype="float64") if "float" in dtype else made.to_numpy()
    np.testing.assert_array_equal(got, want * other + want)


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1,), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reduction_cuda(gpu, rng, axis, keepdims):
    kernel = gp.ReductionKernel(*NORM)
    x = array(rng, (5, 33, 40))
    for a in (x, x[:, ::2], x.transpose(2, 0, 1)):
        want = np.sqrt((a.to_numpy().astype(float) ** 2).sum(axis=axis, keepdims=keepdims))
        made = kernel(a, axis=axis, keepdims=keepdims)
        assert made.shape == want.shape
        np.testing.assert_allclose(made.to_numpy(), want, rtol=1e-5)
        out = gp.zeros(want.shape)
        assert kernel(a, axis=axis, keepdims=keepdims, out=out) is out
        assert out.to_numpy().tobytes() == made.to_numpy().tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1, 2, 3, 31, 33, 1023, 1024, 1025, 5000, 70000])
def test_the_order_follows_from_the_count_alone_cuda(gpu, rng, count):
    kernel = gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    x = array(rng, (count,))
    alone = kernel(x).to_numpy()
    assert abs(float(alone) - x.to_numpy().astype(float).sum()) <= 1e-4 * max(1, count) ** 0.5
    rows = gp.stack([x] * 5)
    for many in (kernel(rows, axis=1), kernel(rows.T.copy(), axis=0), kernel(rows.T.copy().T, axis=1)):
        assert many.to_numpy().tobytes() == np.repeat(alone, 5).tobytes()


@pytest.mark.gpu
def test_reductions_of_several_inputs_cuda(gpu, rng):
    x, w = array(rng, (7, 50), "float16"), array(rng, (50,), "float16")
    dot = gp.ReductionKernel(
        "T x, T w, int32 n", "float32 y, int64 m", "x * w * n", "a + b", "y = a; m = _in_ind.size()", 0, "dot"
    )
    y, m = dot(x, w, 2, axis=1)
    want = (x.to_numpy(dtype="float64") * w.to_numpy(dtype="float64") * 2).sum(1)
    np.testing.assert_allclose(y.to_numpy(), want, rtol=1e-4, atol=1e-3)
    assert m.to_numpy().tolist() == [350] * 7
    mean = gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a / (_in_ind.size() / _out_ind.size())", "0", "mean")
    halves = gp.full((70000,), 1.0, dtype="float16")
    assert mean(halves).item() == 1.0, "16-bit floats are summed in float"
    first = gp.ReductionKernel(
        "T x",
        "int64 y",
        "Pair{x, (int)_J}",
        "a.value >= b.value ? a : b",
        "y = a.place",
        None,
        "argmax",
        reduce_type="Pair",
        preamble="struct Pair { T value; int place; };",
    )
    x = array(rng, (3, 2500))
    assert first(x, axis=1).to_numpy().tolist() == x.to_numpy().argmax(1).tolist()
    total = gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0)
    assert total(gp.zeros((0, 3)), axis=0).to_numpy().tolist() == [0, 0, 0]
    assert total(gp.zeros((0, 3)), axis=1).shape == (0,)


@pytest.mark.gpu
def test_captured_cuda(gpu, rng):
    x, z, n = array(rng, (9, 3000)), gp.zeros((9, 3000)), gp.zeros((9,))
    double, total = (
        gp.ElementwiseKernel("T x", "T z", "z = x + x"),
        gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0"),
    )
    double(x, z)
    total(z, n, axis=1)
    want = n.to_numpy() * 2
    graph = gp.CudaGraph()
    with graph.capture():
        double(x, z)
        total(z, n, axis=1)
    x[:] = x * 2
    graph.replay()
    assert n.to_numpy().tobytes() == want.tobytes()


@pytest.mark.gpu
def test_equal_programs_are_compiled_once_cuda(gpu, rng):
    x = array(rng, (64,))
    text = ("T x", "T y", "y = x * 3", "once_only")
    gp.ElementwiseKernel(*text)(x)
    before = _core._cache_info()["writes"]
    np.testing.assert_array_equal(gp.ElementwiseKernel(*text)(x).to_numpy(), x.to_numpy() * 3)
    assert _core._cache_info()["writes"] == before
