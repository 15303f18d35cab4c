"""Weight: the matrix of a layer, dense or quantised, and layers with it, against NumPy in float64."""

import numpy as np
import pytest

import pygpukit as gp

FORMATS = [
    ("fp8_e4m3", {"block": "tensor"}),
    ("fp8_e4m3", {"block": "row"}),
    ("fp8_e4m3", {"block": (128, 128)}),
    ("fp8_e5m2", {"block": "row"}),
    ("int8", {"block": "row"}),
    ("int8", {"block": "tensor"}),
    ("int4", {"block": 32}),
    ("int4", {"block": 128}),
    ("int4", {"block": 64, "zero_point": True}),
    ("nvfp4", {}),
    ("nvfp4", {"block": 32, "tensor_scale": False}),
]
IDS = [f"{name}-{options.get('block', '')}" for name, options in FORMATS]
BOUND = {"float16": 3e-3, "bfloat16": 1.6e-2, "float32": 2e-5}


def make(rng, shape, dtype, scale=1.0):
    return gp.from_numpy((rng.standard_normal(shape) * scale).astype("float32")).astype(dtype)


def exact(x):
    return x.to_numpy(dtype="float64")


def silu(x):
    return x / (1 + np.exp(-x))


def close(got, want, dtype, bound=None):
    bound = bound or BOUND[dtype]
    assert np.all(np.abs(exact(got) - want) <= bound * np.abs(want) + bound)


@pytest.mark.parametrize(("name", "options"), FORMATS, ids=IDS)
def test_what_it_holds(device, rng, name, options):
    matrix = make(rng, (40, 256), "bfloat16")
    weight = gp.Weight.quantize(matrix, name, **options)
    parts = gp.quantize(matrix, name, **options)
    keywords = {"zero": parts[2]} if options.get("zero_point") else {"tensor_scale": parts[2]} if len(parts) > 2 else {}
    again = gp.Weight(parts[0], parts[1], **keywords)
    for w in (weight, again):
        assert w.shape == (40, 256) and w.is_quantized and w.dtype == parts[0].dtype
        assert np.array_equal(w.data.to_numpy(), parts[0].to_numpy())
        assert np.array_equal(w.scale.to_numpy(), parts[1].to_numpy())
        assert w.nbytes == sum(p.nbytes for p in parts)
    assert "256" in repr(weight)
    assert np.array_equal(exact(weight.dense("float32")), exact(gp.dequantize(parts[0], parts[1], **keywords)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dense(device, rng, dtype):
    matrix = make(rng, (24, 33), dtype)  # rows that lie at no multiples of 16 bytes
    weight, x = gp.Weight(matrix), make(rng, (5, 33), dtype)
    assert not weight.is_quantized and weight.scale is None
    assert np.array_equal(exact(weight.data), exact(matrix))
    close(gp.linear(x, weight), exact(x) @ exact(matrix).T, dtype, 2e-2 if dtype != "float64" else 1e-12)


@pytest.mark.parametrize(("name", "options"), FORMATS, ids=IDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("rows", [1, 3, 33, 130])
def test_linear(device, rng, name, options, dtype, rows):
    n, k = 264, 512
    weight = gp.Weight.quantize(make(rng, (n, k), dtype, k**-0.5), name, **options)
    x, bias, residual = make(rng, (rows, k), dtype), make(rng, (n,), dtype), make(rng, (rows, n), dtype)
    product = exact(x) @ exact(weight.dense("float32")).T
    close(gp.linear(x, weight), product, dtype)
    close(gp.linear(x, weight, bias), product + exact(bias), dtype)
    close(gp.linear(x, weight, bias, activation="silu"), silu(product + exact(bias)), dtype)
    out = gp.full((rows, n), float("nan"), dtype=dtype)
    assert gp.linear(x, weight, bias, activation="silu", residual=residual, out=out) is out
    close(out, silu(product + exact(bias)) + exact(residual), dtype)


@pytest.mark.parametrize("rows", [1, 20, 100])
def test_swiglu(device, rng, rows):
    k, n = 256, 136
    gate, up = (gp.Weight.quantize(make(rng, (n, k), "bfloat16", k**-0.5), "int4") for _ in range(2))
    x = make(rng, (rows, k), "bfloat16")
    first, second = (exact(x) @ exact(w.dense("float32")).T for w in (gate, up))
    close(gp.linear_swiglu(x, gate, up), silu(first) * second, "bfloat16")


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("rows", [1, 40, 150])
def test_a_captured_layer_has_the_eager_bits(device, rng, quantised, rows):
    """The first call of each is inside of the capture."""
    n, k = 136, 384
    matrix = make(rng, (n, k), "bfloat16")
    weight = gp.Weight.quantize(matrix, "int8") if quantised else gp.Weight(matrix)
    bias, x = make(rng, (n,), "bfloat16"), make(rng, (rows, k), "bfloat16")
    hidden, out = gp.zeros((rows, n), dtype="bfloat16"), gp.zeros((rows, n), dtype="bfloat16")
    graph = gp.CudaGraph()
    with graph.capture():
        gp.linear(x, weight, bias, activation="gelu", out=hidden)
        gp.linear(x, weight, residual=hidden, out=out)
        gp.linear_swiglu(x, weight, weight, out=hidden)
    for _ in range(3):
        x[...] = make(rng, (rows, k), "bfloat16")
        graph.replay()
        first = gp.linear(x, weight, bias, activation="gelu")
        assert np.array_equal(out.to_numpy(), gp.linear(x, weight, residual=first).to_numpy())
        assert np.array_equal(hidden.to_numpy(), gp.linear_swiglu(x, weight, weight).to_numpy())


@pytest.mark.parametrize("rows", [1, 40, 150])
def test_out_may_be_the_residual(device, rng, rows):
    w, x, r = make(rng, (136, 136), "bfloat16"), make(rng, (rows, 136), "bfloat16"), make(rng, (rows, 136), "bfloat16")
    wanted = gp.linear(x, w, residual=r).to_numpy()
    got = r.copy()
    gp.linear(x, w, residual=got, out=got)
    assert np.array_equal(got.to_numpy(), wanted)
    # Any other overlap is as if the result were made apart.
    both = x.copy()
    gp.linear(both, w, residual=r, out=both)
    assert np.array_equal(both.to_numpy(), wanted)


def test_errors(device, rng):
    x, w = make(rng, (4, 64), "bfloat16"), make(rng, (8, 64), "bfloat16")
    with pytest.raises(ValueError, match=r"Weight: matrix must be a 2D array"):
        gp.Weight(x[0])
    with pytest.raises(TypeError, match=r"Weight: data must be float8, int8, int4 or float4_e2m1 beside scales"):
        gp.Weight(w, gp.ones((8, 1)))
    with pytest.raises(TypeError, match=r"Weight: matrix must have a float dtype"):
        gp.Weight(gp.ones((2, 2), dtype="int32"))
    weight = gp.Weight.quantize(w, "int8")
    with pytest.raises(ValueError, match=r"linear: weight must have 32 columns, as input has, got \[8, 64\]"):
        gp.linear(x[:, :32], weight)
    with pytest.raises(TypeError, match=r"linear: input must be float16, bfloat16 or float32 beside quantised"):
        gp.linear(x.astype("float64"), weight)
    with pytest.raises(ValueError, match=r"linear_swiglu: up must be a Weight if gate is one"):
        gp.linear_swiglu(x, weight, w)
