"""Norms of sums, tables of embeddings, and activations with a parameter."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, assert_within, download, round_to, upload

import pygpukit as gp

SHAPES = [(0, 8), (1, 1), (31,), (3, 33), (2, 5, 7), (4, 1025), (2, 3, 8192), (2, 33000), (1, 40000)]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 4e-6, "float64": 1e-14}


def bits(x):
    return x.contiguous().to_numpy().tobytes()


def make(rng, shape, dtype):
    return upload(round_to(rng.normal(size=shape) * 2, dtype), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_norm_of_a_sum(device, rng, dtype, shape):
    x, residual = make(rng, shape, dtype), make(rng, shape, dtype)
    gamma, beta = make(rng, shape[-1:], dtype), make(rng, shape[-1:], dtype)
    total = x + residual
    pairs = ((gp.rmsnorm, gp.rmsnorm_residual, (gamma,)), (gp.layernorm, gp.layernorm_residual, (gamma, beta)))
    for plain, fused, weights in pairs:
        expected = bits(plain(total, *weights, eps=1e-3))
        assert bits(fused(x, residual, *weights, eps=1e-3)) == expected
        out, kept = gp.full(shape, 7, dtype=dtype), residual + 0
        assert fused(x, kept, *weights, 1e-3, out=out, sum=kept) is out
        assert bits(out) == expected and bits(kept) == bits(total)
        source = x + 0
        fused(source, residual, *weights, 1e-3, out=source)
        assert bits(source) == expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_norm_of_a_sum_in_any_layout(device, rng, dtype):
    x, residual, gamma = make(rng, (6, 40), dtype), make(rng, (6, 40), dtype), make(rng, (80,), dtype)
    expected = bits(gp.rmsnorm_residual(x, residual, gamma[::2]))
    turned = gp.empty((40, 6), dtype=dtype).T
    gp.copy_to(residual, turned)
    wide = gp.zeros((6, 50), dtype=dtype)
    wide[:, 3:43] = x
    assert bits(gp.rmsnorm_residual(wide[:, 3:43], turned, gamma[::2], sum=turned)) == expected
    assert bits(turned) == bits(x + residual)
    out = gp.empty((40, 6), dtype=dtype).T
    gp.rmsnorm_residual(x, residual, gamma[::2], out=out, sum=wide[:, 3:43])
    assert bits(out) == expected and bits(wide[:, 3:43]) == bits(x + residual)
    assert not download(wide[:, :3]).any() and not download(wide[:, 43:]).any()
    assert (
        bits(gp.rmsnorm_residual(x[2:3], residual[2:3], gamma[::2]))
        == expected[2 * len(expected) // 6 :][: len(expected) // 6]
    )


def test_norm_of_a_sum_is_checked(device):
    x, gamma = gp.zeros((2, 8)), gp.zeros((8,))
    with pytest.raises(ValueError, match="residual must have shape"):
        gp.rmsnorm_residual(x, gp.zeros((2, 7)), gamma)
    with pytest.raises(ValueError, match="out and sum share memory"):
        gp.rmsnorm_residual(x, x, gamma, out=x, sum=x)
    with pytest.raises(gp.errors.DTypeError, match="gamma must have dtype float32"):
        gp.rmsnorm_residual(x, x, gamma.astype("float16"))
    with pytest.raises(ValueError, match="twice"):
        gp.rmsnorm_residual(x, x, gamma, sum=gp.broadcast_to(gp.zeros((8,)), (2, 8)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_snake(device, rng, dtype):
    for shape in [(2, 5, 33), (1, 1, 1), (3, 4), (2, 3, 4, 5), (0, 3, 2)]:
        x, alpha = round_to(rng.normal(size=shape) * 3, dtype), round_to(rng.uniform(0.2, 2, shape[1]), dtype)
        a = alpha.reshape(-1, *[1] * (len(shape) - 2))
        got = gp.snake(upload(x, dtype), upload(alpha, dtype))
        assert got.dtype.name == dtype and got.shape == shape
        np.testing.assert_allclose(
            download(got), x + np.sin(a * x) ** 2 / a, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )
    with pytest.raises(ValueError, match="alpha must have shape"):
        gp.snake(gp.zeros((2, 3, 4)), gp.zeros((4,)))


def test_modulation_of_tokens(device, rng):
    x, scale, shift = rng.normal(size=(2, 5, 8)), rng.normal(size=(2, 8)), rng.normal(size=(2, 8))
    given = [upload(v, "float64") for v in (x, scale, shift)]
    expected = x * (1 + scale[:, None]) + shift[:, None]
    np.testing.assert_allclose(gp.modulate(*given).to_numpy(), expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(
        gp.gated_residual(given[0], given[1], given[0]).to_numpy(), x + scale[:, None] * x, rtol=1e-14, atol=1e-14
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int8", "complex128"])
@pytest.mark.parametrize("ids_dtype", ["int32", "int64"])
def test_embedding(device, rng, dtype, ids_dtype):
    for vocab, width, shape in [
        (7, 5, (3, 4)),
        (9, 64, (1,)),
        (50, 1024, (300,)),
        (3, 1, ()),
        (4, 8, (0,)),
        (5, 4100, (2,)),
    ]:
        values = rng.integers(-100, 100, (vocab, width)).astype("float64")
        ids = rng.integers(0, vocab, shape)
        table = upload(values, dtype)
        got = gp.embedding(table, upload(ids, ids_dtype))
        assert got.shape == (*shape, width) and got.dtype.name == dtype
        np.testing.assert_array_equal(download(got), values[ids])
    turned = gp.from_numpy(np.asfortranarray(values)).astype(dtype)
    out = gp.zeros((4100, 4), dtype=dtype).T[::2]
    wide = upload(np.repeat(ids, 2), ids_dtype)[::2]
    assert gp.embedding(turned, wide, out=out) is out
    np.testing.assert_array_equal(download(out), values[ids])


def test_bad_ids_are_faults(device):
    table = gp.from_numpy(np.arange(12, dtype=np.float32).reshape(4, 3))
    for bad in (4, -1):
        got = gp.embedding(table, gp.from_numpy(np.array([1, bad], np.int32)))
        with pytest.raises(IndexError, match=f"embedding: index {bad} is out of range"):
            gp.synchronize()
        np.testing.assert_array_equal(got.to_numpy(), [[3, 4, 5], [0, 0, 0]])
    with pytest.raises(gp.errors.DTypeError, match="ids must have dtype int32 or int64"):
        gp.embedding(table, gp.zeros((2,)))
    with pytest.raises(ValueError, match="dimension"):
        gp.embedding(gp.zeros((3,)), gp.zeros((2,), dtype="int32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_embedding_names(device, rng, dtype):
    values = rng.integers(-100, 100, (9, 16)).astype("float64")
    table, out = upload(values, dtype), gp.zeros((1, 16), dtype=dtype)
    assert gp.embedding_lookup(table, out, 3) is None
    np.testing.assert_array_equal(download(out), values[3:4])
    gp.embedding_lookup_ptr(table, out, gp.from_numpy(np.array([7], np.int32)))
    np.testing.assert_array_equal(download(out), values[7:8])
    batch = gp.zeros((5, 16), dtype=dtype)
    gp.embedding_lookup_batch(table, batch, gp.from_numpy(np.array([7, 1, 1, 0, 8], np.int32)), 3)
    np.testing.assert_array_equal(download(batch), [*values[[7, 1, 1]], *np.zeros((2, 16))])
    gp.slice_rows_range_ptr(table, batch, gp.from_numpy(np.array([4], np.int32)), 5)
    np.testing.assert_array_equal(download(batch), values[4:9])
    with pytest.raises(IndexError, match="token_id 9"):
        gp.embedding_lookup(table, out, 9)
    with pytest.raises(ValueError, match="out"):
        gp.embedding_lookup_batch(table, out, gp.zeros((9,), dtype="int32"), 3)
    gp.slice_rows_range_ptr(table, batch, gp.from_numpy(np.array([5], np.int32)), 5)
    with pytest.raises(IndexError, match="slice_rows_range_ptr: index 9"):
        gp.synchronize()


def test_gated_rows_do_not_depend_on_their_neighbours(device, rng):
    x = upload(rng.normal(size=(9, 64)), "float32")
    whole = gp.swiglu_packed(x)
    assert bits(gp.swiglu_packed(x[4:5])) == bits(whole[4:5])
    assert_within(whole, download(gp.swiglu(x[:, :32], x[:, 32:])), "float32", 0, "halves")


@pytest.mark.parametrize("dtype", FLOATS)
def test_hostile_rows(device, rng, dtype):
    """NaN, infinities and sums that overflow stay in their row, and give what float64 rules say."""
    huge = {"float16": 6e4, "bfloat16": 3e38, "float32": 3e38, "float64": 1.7e308}[dtype]
    x, r = rng.normal(size=(9, 40)), rng.normal(size=(9, 40))
    x[1, 3], x[2, 3], x[3, 5], x[4, 39] = np.nan, np.inf, -np.inf, huge
    r[4, 39], x[5], r[5], x[6], r[6] = huge, huge, -huge, 0, 0
    given = [upload(round_to(v, dtype), dtype) for v in (x, r)]
    gamma, beta = make(rng, (40,), dtype), make(rng, (40,), dtype)
    clean = [a + 0 for a in given]
    for a in clean:
        a[1:7] = 1
    for function, weights in ((gp.rmsnorm_residual, (gamma,)), (gp.layernorm_residual, (gamma, beta))):
        kept = gp.zeros((9, 40), dtype=dtype)
        got, rest = download(function(*given, *weights, sum=kept)), download(function(*clean, *weights))
        np.testing.assert_array_equal(got[[0, 7, 8]], rest[[0, 7, 8]])
        assert bits(kept) == bits(given[0] + given[1])
        assert np.isnan(got[1]).all()
        # A row with an infinity: it over itself is NaN, what is finite over it is 0 (with a mean: NaN throughout).
        for row, at in ((2, 3), (3, 5), (4, 39)):
            assert np.isnan(got[row, at])
            if function is gp.rmsnorm_residual:
                np.testing.assert_array_equal(np.delete(got[row], at), 0)
            else:
                assert np.isnan(got[row]).all()
        expected = np.zeros(40) if function is gp.rmsnorm_residual else download(beta)
        np.testing.assert_array_equal(got[5], expected)
        np.testing.assert_array_equal(got[6], expected)
