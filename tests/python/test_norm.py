"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, assert_within, download, round_to, upload

import pygpukit as gp

SHAPES = [(0, 8), (1, 1), (31,), (3, 33), (2, 5, 7), (4, 1025), (2, 3, 8192), (2, 33000)]
# Errors of the mean and the scale, in units of results of size 1.
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 4e-6, "float64": 1e-14}


def bits(x):
    return x.to_numpy().tobytes()


def make(rng, shape, dtype):
    return round_to(rng.normal(size=shape) * 2 + 1, dtype)


def layer(x, gamma, beta, eps):
    mean = x.mean(-1, keepdims=True) if x.size else 0
    var = x.var(-1, keepdims=True) if x.size else 1
    return (x - mean) / np.sqrt(var + eps) * gamma + beta


def rms(x, gamma, eps):
    square = np.mean(x * x, -1, keepdims=True) if x.size else 1
    return x / np.sqrt(square + eps) * gamma


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_layernorm(device, rng, dtype, shape):
    x, gamma, beta = make(rng, shape, dtype), make(rng, shape[-1:], dtype), make(rng, shape[-1:], dtype)
    given = [upload(v, dtype) for v in (x, gamma, beta)]
    got = gp.layernorm(*given)
    assert got.dtype.name == dtype and got.shape == shape
    np.testing.assert_allclose(
        download(got), layer(x, gamma, beta, 1e-5), rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype]
    )
    out = gp.zeros(shape, dtype=dtype)
    assert gp.layernorm(*given, eps=1e-5, out=out) is out
    assert bits(out) == bits(got)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rmsnorm(device, rng, dtype, shape):
    x, gamma = make(rng, shape, dtype), make(rng, shape[-1:], dtype)
    given = [upload(v, dtype) for v in (x, gamma)]
    got = gp.rmsnorm(*given, eps=1e-3)
    assert_within(got, rms(x, gamma, 1e-3), dtype, {"float16": 1.0, "bfloat16": 1.0}.get(dtype, 16.0), "rmsnorm")
    out = gp.zeros(shape, dtype=dtype)
    assert gp.rmsnorm(*given, 1e-3, out=out) is out
    assert bits(out) == bits(got)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bias_add_inplace(device, rng, dtype):
    x, bias = make(rng, (5, 33), dtype), make(rng, (33,), dtype)
    output = upload(x, dtype)
    assert gp.bias_add_inplace(output, upload(bias, dtype)) is None
    assert_within(output, x + bias, dtype, 0.51, "bias_add_inplace")
    view = upload(x, dtype)
    gp.bias_add_inplace(view.T[:, :3], upload(bias[:3], dtype))
    np.testing.assert_array_equal(download(view)[3:], x[3:])


@pytest.mark.parametrize("width", [40, 1000, 8192, 33000])
def test_layout_changes_no_bit(device, rng, width):
    x, gamma = make(rng, (6, width), "float32"), make(rng, (width,), "float32")
    plain, weight = upload(x, "float32"), upload(gamma, "float32")
    shifted = upload(np.concatenate([np.zeros((6, 1)), x], 1), "float32")[:, 1:]
    turned = upload(np.ascontiguousarray(x.T), "float32").T
    every_other = upload(np.repeat(gamma, 2), "float32")[::2]
    for op in (lambda a, w: gp.rmsnorm(a, w), lambda a, w: gp.layernorm(a, w, w), lambda a, w: gp.softmax(a)):
        expected = bits(op(plain, weight))
        for view in (shifted, turned):
            assert bits(op(view, weight)) == expected
        assert bits(op(plain, every_other)) == expected
        assert bits(op(plain[3:4], weight)) == bits(op(plain, weight)[3:4])


def test_large_values(device):
    x = gp.from_numpy(np.array([[1e4, 1e4 + 1, -1e30, 3e38]], np.float32))
    np.testing.assert_array_equal(gp.softmax(x).to_numpy(), [[0, 0, 0, 1]])
    assert np.isnan(gp.softmax(gp.full((2, 3), -np.inf)).to_numpy()).all()
    offset = gp.from_numpy(np.array([[1e4, 1e4 + 2]], np.float32))
    one, zero = gp.ones((2,)), gp.zeros((2,))
    np.testing.assert_allclose(gp.layernorm(offset, one, zero).to_numpy(), [[-1, 1]], atol=1e-4)


def test_arguments_are_checked(device):
    x, gamma = gp.zeros((2, 8)), gp.zeros((8,))
    with pytest.raises(ValueError, match=r"rmsnorm: gamma must have shape \[8\], got \[7\]"):
        gp.rmsnorm(x, gp.zeros((7,)))
    with pytest.raises(gp.errors.DTypeError, match="gamma must have dtype float32"):
        gp.rmsnorm(x, gp.zeros((8,), dtype="float16"))
    with pytest.raises(ValueError, match="beta must have shape"):
        gp.layernorm(x, gamma, gp.zeros((2, 8)))
    with pytest.raises(gp.errors.DTypeError, match="float dtype"):
        gp.layernorm(gp.zeros((2, 8), dtype="int32"), gamma, gamma)
    with pytest.raises(ValueError, match="dimension"):
        gp.rmsnorm(gp.zeros(()), gamma)
    with pytest.raises(ValueError, match="bias must have shape"):
        gp.bias_add_inplace(x, gp.zeros((9,)))
    with pytest.raises(TypeError, match="layernorm"):
        gp.layernorm(np.zeros((2, 8), "float32"), gamma, gamma)
    with pytest.raises(IndexError, match="softmax"):
        gp.softmax(x, 2)


def test_graphs(device, rng):
    x, gamma = upload(rng.normal(size=(4, 1025)), "float32"), upload(rng.normal(size=(1025,)), "float32")
    expected = [gp.softmax(x), gp.rmsnorm(x, gamma), gp.layernorm(x, gamma, gamma)]
    outs = [gp.zeros_like(x) for _ in expected]
    graph = gp.CudaGraph()
    with graph.capture():
        gp.softmax(x, out=outs[0])
        gp.rmsnorm(x, gamma, out=outs[1])
        gp.layernorm(x, gamma, gamma, out=outs[2])
    graph.replay()
    graph.synchronize()
    assert [bits(a) for a in outs] == [bits(a) for a in expected]


@pytest.mark.parametrize("dtype", FLOATS)
def test_l2norm_is_rmsnorm_without_gamma(device, rng, dtype):
    for shape in SHAPES:
        x = upload(make(rng, shape, dtype), dtype)
        ones = gp.ones(shape[-1:], dtype=dtype)
        assert bits(gp.l2norm(x)) == bits(gp.rmsnorm(x, ones, 1e-6))
        assert bits(gp.l2norm(x, 1e-3)) == bits(gp.rmsnorm(x, ones, 1e-3))
        over = x + 0
        assert gp.l2norm(over, out=over) is over and bits(over) == bits(gp.l2norm(x))
    wide = upload(make(rng, (6, 50), dtype), dtype)
    assert bits(gp.l2norm(wide[:, 3:43])) == bits(gp.l2norm(wide[:, 3:43] + 0))
    with pytest.raises(ValueError, match="l2norm: input must have at least one dimension"):
        gp.l2norm(gp.zeros((), dtype=dtype))
    with pytest.raises(gp.errors.DTypeError, match="l2norm: input must have a float dtype"):
        gp.l2norm(gp.zeros((3,), dtype="int32"))
    with pytest.raises(ValueError, match="l2norm: out must have shape"):
        gp.l2norm(x, out=gp.zeros((3,), dtype=dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [65536, 70001])
def test_softmax_of_few_long_rows(device, rng, dtype, width):
    """Several blocks a row where one would leave the rest of a chip idle."""
    values = rng.standard_normal((2, width)).astype(dtype)
    values[1] = values[0]
    x = gp.from_numpy(values)
    got = gp.softmax(x).to_numpy()
    shares = np.exp(values.astype(np.float64) - values.max())
    np.testing.assert_allclose(got, shares / shares.sum(1, keepdims=True), rtol=1e-5 if dtype == "float32" else 1e-12)
    assert got[0].tobytes() == got[1].tobytes()
    gp.softmax(x, out=x)
    assert x.to_numpy().tobytes() == got.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_softmax_of_a_long_row_has_one_order(device, rng, dtype):
    """Alone it is split among blocks, among many others it has one block: the same bits."""
    row = upload(rng.standard_normal((1, 65536)), dtype)
    many = gp.softmax(gp.concatenate([row] * 40))
    assert bits(gp.softmax(row)) == bits(many[:1]) == bits(many[39:])
