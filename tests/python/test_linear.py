"""Layers: a product and what follows it, against NumPy in float64."""

import math

import numpy as np
import pytest

import pygpukit as gp

DTYPES = ["float16", "bfloat16", "float32", "float64"]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.2e-2, "float32": 2e-5, "float64": 1e-12}
# Shapes that fit the copy engine of a GPU, and shapes that do not.
SHAPES = [(1, 64, 128), (5, 33, 7), (128, 256, 256), (200, 72, 520), (300, 136, 384), (77, 1000, 130)]


def make(rng, shape, dtype, scale=1.0):
    values = (rng.standard_normal(shape) * scale).astype("float64" if dtype == "float64" else "float32")
    return gp.from_numpy(values).astype(dtype)


def exact(x):
    return x.to_numpy(dtype="float64")


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * np.vectorize(math.erfc)(-x * np.sqrt(0.5))


def silu(x):
    return x / (1 + np.exp(-x))


ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "silu": silu,
}


def close(got, want, dtype):
    assert got.dtype.name == dtype
    assert got.shape == want.shape
    bound = TOLERANCE[dtype]
    assert np.all(np.abs(exact(got) - want) <= bound * np.abs(want) + bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_linear(device, rng, dtype, shape):
    m, k, n = shape
    x, w = make(rng, (m, k), dtype), make(rng, (n, k), dtype, k**-0.5)
    b, r = make(rng, (n,), dtype), make(rng, (m, n), dtype)
    product = exact(x) @ exact(w).T
    close(gp.linear(x, w), product, dtype)
    close(gp.linear(x, w, alpha=0.5), 0.5 * product, dtype)
    close(gp.linear(x, w, residual=r), product + exact(r), dtype)
    for name, f in ACTIVATIONS.items():
        close(gp.linear(x, w, b, activation=name), f(product + exact(b)), dtype)
        close(gp.linear(x, w, activation=name), f(product), dtype)
        close(gp.linear(x, w, b, activation=name, residual=r), f(product + exact(b)) + exact(r), dtype)
    out = gp.full((m, n), float("nan"), dtype=dtype)
    assert gp.linear(x, w, b, activation="silu", out=out) is out
    close(out, silu(product + exact(b)), dtype)


@pytest.mark.parametrize("k", [8, 200, 600])
def test_rows_do_not_depend_on_the_tiles(device, rng, k):
    """Several tiles a multiprocessor are shared out differently than one; the bits stay."""
    x, w = make(rng, (2000, k), "bfloat16"), make(rng, (4104, k), "bfloat16", k**-0.5)
    b, r = make(rng, (4104,), "bfloat16"), make(rng, (2000, 4104), "bfloat16")
    for rows in (slice(0, 100), slice(1950, 2000)):
        few = x[rows]
        for options, few_options in [
            ({"bias": b, "activation": "gelu"}, {"bias": b, "activation": "gelu"}),
            ({"residual": r}, {"residual": r[rows]}),
            ({"bias": b, "activation": "gelu", "residual": r}, {"bias": b, "activation": "gelu", "residual": r[rows]}),
        ]:
            all_rows = gp.linear(x, w, **options)
            assert np.array_equal(exact(all_rows[rows]), exact(gp.linear(few, w, **few_options)))
    want = exact(x) @ exact(w).T
    close(gp.linear(x, w, b, activation="gelu"), gelu(want + exact(b)), "bfloat16")
    close(gp.linear(x, w, residual=r), want + exact(r), "bfloat16")
    close(gp.linear(x, w, b, activation="gelu", residual=r), gelu(want + exact(b)) + exact(r), "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [-88.0, -20.0, -9.0, -5.0, -0.01, 0.0, 0.01, 5.0, 90.0])
def test_activations_far_out(device, dtype, value):
    """The bias is the sum: far tails are as exact as the middle."""
    x, w = gp.zeros((128, 64), dtype=dtype), gp.zeros((128, 64), dtype=dtype)
    b = gp.full((128,), value, dtype=dtype)
    at = exact(b)
    with np.errstate(over="ignore"):
        wanted = {
            "gelu": at / (1 + np.exp(-at * (1.5957691216057308 + 0.07135481627260025 * at * at))),
            "gelu_erf": gelu_erf(at),
            "silu": silu(at),
        }
    for name, want in wanted.items():
        got = exact(gp.linear(x, w, b, activation=name))
        smallest = 1e-35 if dtype != "float16" else 6.2e-5
        assert np.all(np.abs(got - want) <= TOLERANCE[dtype] * np.abs(want) + smallest)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_erf", "silu"])
def test_activations_keep_nan(device, dtype, activation):
    x, w = gp.zeros((128, 64), dtype=dtype), gp.zeros((128, 64), dtype=dtype)
    b = gp.full((128,), float("nan"), dtype=dtype)
    assert np.isnan(exact(gp.linear(x, w, b, activation=activation))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_swiglu(device, rng, dtype, shape):
    m, k, n = shape
    x = make(rng, (m, k), dtype)
    gate, up = make(rng, (n, k), dtype, k**-0.5), make(rng, (n, k), dtype, k**-0.5)
    want = silu(exact(x) @ exact(gate).T) * (exact(x) @ exact(up).T)
    close(gp.linear_swiglu(x, gate, up), want, dtype)
    out = gp.full((m, n), float("nan"), dtype=dtype)
    assert gp.linear_swiglu(x, gate, up, out=out) is out
    close(out, want, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("n", "k"), [(1, 8), (33, 72), (70, 2056), (9, 6152)])
def test_swiglu_of_one_row_has_the_bits_of_two_products(device, rng, dtype, n, k):
    """Both in one pass where gate and up lie alike, one after the other where they do not."""
    x, gate, up = (make(rng, s, dtype) for s in ((1, k), (n, k), (n, k)))
    apart = gp.empty((n, k + 8), dtype=dtype)[:, :k]
    apart[...] = up
    assert np.array_equal(exact(gp.linear_swiglu(x, gate, up)), exact(gp.linear_swiglu(x, gate, apart)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_other_ranks_and_layouts(device, rng, dtype):
    x, w, b = make(rng, (2, 3, 64), dtype), make(rng, (128, 64), dtype, 0.1), make(rng, (128,), dtype)
    want = exact(x) @ exact(w).T + exact(b)
    close(gp.linear(x, w, b), want, dtype)
    close(gp.linear(x[0, 0], w, b), want[0, 0], dtype)
    close(gp.linear(x[:, 1], w, b), want[:, 1], dtype)
    turned = w.T.copy().T
    close(gp.linear(x, turned, b), want, dtype)
    residual = make(rng, (2, 3, 128), dtype)
    close(gp.linear(x, w, b, residual=residual), want + exact(residual), dtype)
    # The result may replace the residual, or even the input.
    square = make(rng, (64, 64), dtype, 0.1)
    y = make(rng, (10, 64), dtype)
    want = exact(y) @ exact(square).T + exact(y)
    assert gp.linear(y, square, residual=y, out=y) is y
    close(y, want, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_how_a_batch_lies(device, rng, dtype):
    """Fused or step by step, which round otherwise: the weights alone decide."""
    x, w, b = make(rng, (40, 64), dtype), make(rng, (128, 64), dtype, 0.1), make(rng, (128,), dtype)
    added, up = make(rng, (40, 128), dtype), make(rng, (128, 64), dtype, 0.1)
    wider = gp.zeros((40, 67), dtype=dtype)
    wider[:, 1:65] = x  # rows at no multiple of 16 bytes
    turned, cube = x.T.copy().T, x.reshape(5, 8, 64).transpose(1, 0, 2).copy().transpose(1, 0, 2)
    calls = {
        "gelu": lambda rows, r, **o: gp.linear(rows, w, b, activation="gelu", residual=r, **o),
        "swiglu": lambda rows, r, **o: gp.linear_swiglu(rows, w, up, **o),
    }
    with gp.determinism("batch_invariant"):
        for name, call in calls.items():
            want = call(x, added).to_numpy().view("uint16" if dtype != "float32" else "uint32")
            for rows, r in [(wider[:, 1:65], added), (turned, added.T.copy().T), (cube, added.reshape(5, 8, 128))]:
                got = call(rows, r).to_numpy().view(want.dtype).reshape(want.shape)
                assert np.array_equal(got, want), name
            for i in (0, 7):
                got = call(wider[i, 1:65], added[i]).to_numpy().view(want.dtype)
                assert np.array_equal(got, want[i]), name
        into = added.copy()
        want = calls["gelu"](x, added).to_numpy()
        assert np.array_equal(calls["gelu"](x, into, out=into).to_numpy(), want)


def test_empty(device):
    assert gp.linear(gp.zeros((0, 4)), gp.zeros((3, 4))).shape == (0, 3)
    assert np.array_equal(
        gp.linear(gp.zeros((2, 0)), gp.zeros((3, 0)), gp.ones((3,))).to_numpy(), np.ones((2, 3), "f4")
    )


def test_errors(device):
    z = gp.zeros
    for call, text in [
        (lambda: gp.linear(z((2, 3)), z((4, 5))), "weight"),
        (lambda: gp.linear(z((2, 3)), z((3,))), "weight"),
        (lambda: gp.linear(z(()), z((4, 3))), "input"),
        (lambda: gp.linear(z((2, 3)), z((4, 3)), z((3,))), "bias"),
        (lambda: gp.linear(z((2, 3)), z((4, 3)), residual=z((2, 3))), "residual"),
        (lambda: gp.linear(z((2, 3)), z((4, 3)), activation="tanh"), "activation"),
        (lambda: gp.linear(z((2, 3)), z((4, 3), dtype="float16")), "weight"),
        (lambda: gp.linear(z((2, 3), dtype="int32"), z((4, 3), dtype="int32")), "input"),
        (lambda: gp.linear_swiglu(z((2, 3)), z((4, 3)), z((5, 3))), "up"),
        (lambda: gp.linear_swiglu(z((2, 3)), z((4, 5)), z((4, 5))), "gate"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            call()
