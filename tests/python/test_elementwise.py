"""Elementwise behaviour that the common cases do not show: edges of domains, promotion, in-place forms."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, SIGNED, UNSIGNED, assert_within, download, upload

import pygpukit as gp


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_edges(dtype, device):
    info = np.iinfo(dtype)
    a = upload(np.array([info.min, info.min, 7, -7, 7, -7, info.max], dtype), dtype)
    b = upload(np.array([-1, 0, 0, 2, -2, -2, 1], dtype), dtype)
    np.testing.assert_array_equal(
        gp.floor_divide(a, b).to_numpy(), np.array([info.min, 0, 0, -4, -4, 3, info.max], dtype)
    )
    np.testing.assert_array_equal(gp.remainder(a, b).to_numpy(), np.array([0, 0, 0, 1, -1, -1, 0], dtype))
    np.testing.assert_array_equal(gp.add(a, 1).to_numpy()[-1], np.array(info.max, dtype) + np.array(1, dtype))
    assert gp.abs(a).to_numpy()[0] == info.min
    assert gp.neg(a).to_numpy()[0] == info.min
    base = upload(np.array([1, -1, -1, 2, 0, -3], dtype), dtype)
    exponent = upload(np.array([-3, -3, -2, -1, -1, -2], dtype), dtype)
    np.testing.assert_array_equal(gp.pow(base, exponent).to_numpy(), [1, -1, 1, 0, 0, 0])


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_edges(dtype, device):
    top = np.iinfo(dtype).max
    a = upload(np.array([top, 0, 5], dtype), dtype)
    zero = upload(np.array([0, 0, 0], dtype), dtype)
    assert gp.floor_divide(a, zero).to_numpy().tolist() == [0, 0, 0]
    assert gp.remainder(a, zero).to_numpy().tolist() == [0, 0, 0]
    assert gp.add(a, 1).to_numpy().tolist() == [0, 1, 6]
    assert gp.neg(a).to_numpy().tolist() == [1, 0, top - 4]
    assert gp.ops.bitwise_invert(a).to_numpy().tolist() == [0, top, top - 5]


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_edges(dtype, device):
    nan, inf = np.nan, np.inf
    a = upload(np.array([nan, 1.0, nan, -inf, 0.0]), dtype)
    b = upload(np.array([1.0, nan, nan, inf, -1.0]), dtype)
    np.testing.assert_array_equal(download(gp.maximum(a, b)), [nan, nan, nan, inf, 0.0])
    np.testing.assert_array_equal(download(gp.minimum(a, b)), [nan, nan, nan, -inf, -1.0])
    x = upload(np.array([5.5, -5.5, 5.5, -5.5, 1.0, -0.0, 4.0]), dtype)
    y = upload(np.array([2.0, 2.0, -2.0, -2.0, 0.0, 3.0, -2.0]), dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(download(gp.remainder(x, y)), np.remainder(download(x), download(y)))
        np.testing.assert_array_equal(download(gp.floor_divide(x, y)), np.floor_divide(download(x), download(y)))
    assert np.signbit(download(gp.remainder(upload(np.array([4.0]), dtype), -2.0)))[0]
    np.testing.assert_array_equal(download(gp.clamp(a, -1.0, 0.5)), [nan, 0.5, nan, -1.0, 0.0])
    np.testing.assert_array_equal(download(gp.exp(upload(np.array([-inf, inf, nan, 0.0]), dtype))), [0, inf, nan, 1])
    np.testing.assert_array_equal(download(gp.log(upload(np.array([0.0, 1.0, -1.0, inf]), dtype))), [-inf, 0, nan, inf])
    np.testing.assert_array_equal(
        download(gp.tanh(upload(np.array([-inf, inf, nan, 0.0, 30.0, -30.0]), dtype))), [-1, 1, nan, 0, 1, -1]
    )
    np.testing.assert_array_equal(download(gp.sigmoid(upload(np.array([-inf, inf, 0.0]), dtype))), [0, 1, 0.5])
    np.testing.assert_array_equal(download(gp.ops.silu(upload(np.array([inf, 0.0, nan]), dtype))), [inf, 0, nan])
    np.testing.assert_array_equal(
        download(gp.gelu(upload(np.array([inf, 0.0, nan, -60.0]), dtype))), [inf, 0, nan, -0.0]
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "silu", "gelu", "rsqrt", "log2"])
def test_short_floats_within_an_ulp(name, dtype, device):
    """Every finite value of a 16-bit float."""
    bits = np.arange(65536, dtype=np.uint16)
    x = gp.bitcast(gp.from_numpy(bits), dtype)
    values = download(x)
    functions = {
        "exp": np.exp, "log": np.log, "tanh": np.tanh, "log2": np.log2,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "silu": lambda v: v / (1 + np.exp(-v)), "rsqrt": lambda v: 1 / np.sqrt(v),
        "gelu": lambda v: v / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        expected = functions[name](values)
        # 0 * inf: the limit is 0, formulas may say NaN.
        keep = np.isfinite(values) & ~np.isnan(expected)
        if name in ("silu", "gelu", "sigmoid"):
            keep &= np.abs(expected) > 1e-30  # below, exp(-x) is near its largest value
    got = getattr(gp.ops, name)(x)
    picked = upload(download(got)[keep], dtype)
    assert_within(picked, expected[keep], dtype, 1.0, name)


@pytest.mark.parametrize(
    "name, low, high, ulps",
    [("tanh", -10, 10, 2), ("exp", -80, 80, 2), ("log", 1e-6, 1e6, 2), ("sigmoid", -20, 20, 4), ("erf", -4, 4, 3)],
)
def test_float32_error(name, low, high, ulps, device):
    import math

    x = np.linspace(low, high, 200_001).astype("f4")
    wide = x.astype("f8")
    functions = {
        "tanh": np.tanh,
        "exp": np.exp,
        "log": np.log,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "erf": np.vectorize(math.erf),
    }
    assert_within(getattr(gp.ops, name)(gp.from_numpy(x)), functions[name](wide), "float32", ulps, name)


@pytest.mark.parametrize("a, b, result", [
    ("int8", "int16", "int16"), ("uint8", "int8", "int16"), ("int32", "float32", "float32"), ("int64", "float16", "float16"),
    ("bool", "uint8", "uint8"), ("float16", "bfloat16", "float32"), ("float32", "complex64", "complex64"),
    ("float64", "complex64", "complex128"),
])  # fmt: skip
def test_mixed_dtypes_are_promoted(a, b, result, device):
    x, y = upload(np.array([1, 0, 1]), a), upload(np.array([1, 1, 0]), b)
    for left, right in ((x, y), (y, x)):
        total = gp.add(left, right)
        assert total.dtype.name == result
        np.testing.assert_array_equal(download(total), [2, 1, 1])
        assert gp.where(gp.from_numpy(np.array([True, False, True])), left, right).dtype.name == result


def test_no_common_dtype(device):
    with pytest.raises(gp.errors.DTypeError, match="uint64"):
        gp.add(gp.zeros((2,), dtype="uint64"), gp.zeros((2,), dtype="int64"))
    with pytest.raises(gp.errors.DTypeError, match="add"):
        gp.add(gp.zeros((2,), dtype="float8_e4m3"), gp.zeros((2,), dtype="float32"))
    with pytest.raises(gp.errors.DTypeError, match="float dtype"):
        gp.gelu(gp.zeros((2,), dtype="complex64"))


@pytest.mark.parametrize("dtype, number, result", [
    ("int32", 1.5, "float32"), ("float16", 1, "float16"), ("float16", 2.5, "float16"), ("bool", 1, "int64"),
    ("uint8", True, "uint8"), ("float32", 1j, "complex64"),
])  # fmt: skip
def test_numbers_do_not_widen(dtype, number, result, device):
    x = gp.ones((3,), dtype=dtype)
    assert gp.add(x, number).dtype.name == result
    assert gp.add(number, x).dtype.name == result


def test_numbers_out_of_range(device):
    with pytest.raises(ValueError, match="add"):
        gp.add(gp.zeros((2,), dtype="uint8"), 300)
    with pytest.raises(ValueError):
        gp.add(gp.zeros((2,), dtype="uint8"), -1)
    with pytest.raises((ValueError, TypeError), match="array"):
        gp.add(1, 2)


@pytest.mark.parametrize("number", [300, -1, 2**62, -(2**63)])
def test_comparison_with_numbers_out_of_range(number, device):
    values = np.array([0, 7, 255], "u1")
    x = gp.from_numpy(values)
    mirrored = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        expected = getattr(np, name)(values.astype(np.float64), float(number)).tolist()
        assert getattr(gp, name)(x, number).to_numpy().tolist() == expected
        assert getattr(gp, mirrored.get(name, name))(number, x).to_numpy().tolist() == expected


def test_in_place(device):
    x = gp.ones((4, 5), dtype="float32")
    assert gp.ops.add_inplace(x, gp.full((5,), 2.0, dtype="float32")) is None
    assert gp.ops.mul_inplace(x.T, 3) is None
    np.testing.assert_array_equal(x.to_numpy(), np.full((4, 5), 9.0, "f4"))
    gp.ops.add_inplace(x, gp.ones((4, 5), dtype="float16"))
    assert x.dtype.name == "float32" and x.to_numpy()[0, 0] == 10
    with pytest.raises(gp.errors.DTypeError, match="add_inplace"):
        gp.ops.add_inplace(gp.ones((3,), dtype="int32"), gp.ones((3,), dtype="float32"))
    with pytest.raises(ValueError, match="shape"):
        gp.ops.mul_inplace(gp.ones((3,), dtype="float32"), gp.ones((4, 3), dtype="float32"))


def test_copy_to(device, rng):
    values = rng.normal(size=(6, 4)).astype("f4")
    src = gp.from_numpy(values)
    for shape in ((6, 4), (24,), (2, 12)):
        dst = gp.zeros(shape, dtype="float32")
        assert gp.ops.copy_to(src, dst) is None
        np.testing.assert_array_equal(dst.to_numpy(), values.reshape(shape))
    dst = gp.zeros((4, 6), dtype="float32")
    gp.ops.copy_to(src, dst.T)
    np.testing.assert_array_equal(dst.to_numpy(), values.T)
    dst = gp.zeros((24,), dtype="float32")
    gp.ops.copy_to(src.T, dst)
    np.testing.assert_array_equal(dst.to_numpy(), values.T.ravel())
    with pytest.raises(ValueError, match="copy_to: dst"):
        gp.ops.copy_to(src, gp.zeros((23,), dtype="float32"))
    with pytest.raises(gp.errors.DTypeError, match="copy_to: dst must have dtype float32"):
        gp.ops.copy_to(src, gp.zeros((24,), dtype="float16"))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "complex128"])
def test_copies_of_any_width(dtype, device, rng):
    values = rng.integers(0, 2, (70, 3, 65)).astype(dtype)
    x = gp.from_numpy(values)
    for axes in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)):
        np.testing.assert_array_equal(x.transpose(*axes).contiguous().to_numpy(), values.transpose(axes))
    np.testing.assert_array_equal(x[::-1, :, ::3].contiguous().to_numpy(), values[::-1, :, ::3])
    target = gp.zeros((70, 3, 65), dtype=dtype)
    target[1:, :, ::2] = x[:-1, :, ::2]
    expected = np.zeros_like(values)
    expected[1:, :, ::2] = values[:-1, :, ::2]
    np.testing.assert_array_equal(target.to_numpy(), expected)


def test_overlapping_copies(device):
    x = gp.from_numpy(np.arange(100, dtype="i4"))
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.to_numpy(), np.concatenate([[0], np.arange(99)]))
    x = gp.from_numpy(np.arange(100, dtype="i4"))
    x[:] = x[::-1]
    np.testing.assert_array_equal(x.to_numpy(), np.arange(100)[::-1])
    y = gp.from_numpy(np.arange(36, dtype="f4").reshape(6, 6))
    gp.add(y, y.T, out=y)
    base = np.arange(36, dtype="f4").reshape(6, 6)
    np.testing.assert_array_equal(y.to_numpy(), base + base.T)


def test_clip_is_clamp(device):
    x = gp.from_numpy(np.array([-2.0, 0.5, 9.0], "f4"))
    np.testing.assert_array_equal(gp.ops.clip(x, 0, 1).to_numpy(), [0, 0.5, 1])
    np.testing.assert_array_equal(gp.ops.clip(x, min=0).to_numpy(), [0, 0.5, 9])
    np.testing.assert_array_equal(gp.clamp(x, None, 1).to_numpy(), [-2, 0.5, 1])
    np.testing.assert_array_equal(gp.clamp(x, gp.full((3,), -1.0, dtype="float32"), 3).to_numpy(), [-1, 0.5, 3])
    assert gp.clamp(gp.ones((2,), dtype="int32"), 0, 2).dtype.name == "int32"
    copied = gp.clamp(x, None, None)
    assert copied is not x and gp.array_equal(copied, x)


def test_where_takes_numbers(device):
    cond = gp.from_numpy(np.array([2, 0, -1], "i8"))
    x = gp.from_numpy(np.array([1.0, 2.0, 3.0], "f4"))
    np.testing.assert_array_equal(gp.where(cond, x, 0).to_numpy(), [1, 0, 3])
    np.testing.assert_array_equal(gp.where(cond, -1.0, x).to_numpy(), [-1, 2, -1])
    assert gp.where(cond, 1, 0).dtype.name == "int64"
    assert gp.where(cond, True, False).dtype.name == "bool"


def test_large_arrays_use_every_thread(device, rng):
    values = rng.normal(size=(700, 513)).astype("f4")
    x = gp.from_numpy(values)
    np.testing.assert_array_equal(gp.add(x, x).to_numpy(), values + values)
    np.testing.assert_array_equal(gp.add(x.T, x.T.contiguous()).to_numpy(), (values + values).T)
    np.testing.assert_array_equal(gp.mul(x, x[0]).to_numpy(), values * values[0])
    np.testing.assert_array_equal(gp.sub(x, x[:, :1]).to_numpy(), values - values[:, :1])


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(300, 517), (128, 256), (3, 65, 200)])
def test_transposed_operands_of_many_tiles(device, rng, dtype, shape):
    a = rng.integers(0, 100, shape[:-2] + shape[:-3:-1]).astype(dtype)
    b = rng.integers(0, 100, shape).astype(dtype)
    x, y = gp.from_numpy(a, device=device), gp.from_numpy(b, device=device)
    axes = tuple(range(a.ndim - 2)) + (a.ndim - 1, a.ndim - 2)
    view = x.transpose(*axes)
    turned = a.transpose(axes)
    np.testing.assert_array_equal(gp.add(view, y).to_numpy(), turned + b)
    np.testing.assert_array_equal(gp.add(y, view).to_numpy(), b + turned)
    np.testing.assert_array_equal(gp.add(view, view).to_numpy(), turned + turned)
    np.testing.assert_array_equal(gp.add(view, 3).to_numpy(), turned + np.asarray(3, dtype))
    np.testing.assert_array_equal(view.contiguous().to_numpy(), turned)
    np.testing.assert_array_equal(gp.where(view == y, view, y).to_numpy(), np.where(turned == b, turned, b))


@pytest.mark.parametrize("dtype", ["int16", "bfloat16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("turned", ["a", "b", "both"])
def test_transposed_operands_of_whole_tiles(device, rng, dtype, turned):
    """Both edges multiples of 64, with and without an outer axis, and one step off: another kernel each."""
    for shape in [(128, 192), (3, 64, 128), (128, 190), (127, 192)]:
        other = (*shape[:-2], shape[-1], shape[-2])
        a = upload(rng.normal(size=other if turned != "b" else shape) * 50, dtype)
        b = upload(rng.normal(size=other if turned != "a" else shape) * 50, dtype)
        x = gp.permute(a, (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)) if turned != "b" else a
        y = gp.permute(b, (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)) if turned != "a" else b
        out = gp.full(shape, 77, dtype=dtype)
        gp.subtract(x, y, out=out)
        plain = gp.subtract(gp.contiguous(x), gp.contiguous(y))
        assert out.to_numpy().tobytes() == plain.to_numpy().tobytes()


def test_whole_tiles_at_odd_addresses(device, rng):
    values = rng.normal(size=128 * 128 + 1).astype(np.float32)
    flat = gp.from_numpy(values).astype("bfloat16")
    a = gp.reshape(flat[1:], (128, 128))
    b = gp.reshape(flat[:-1], (128, 128))
    got = gp.add(a.T, b)
    assert got.to_numpy().tobytes() == gp.add(gp.contiguous(a.T), gp.contiguous(b)).to_numpy().tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 2), (33, 65), (700, 130), (1, 900)])
def test_copies_of_views(device, rng, dtype, shape):
    x = (rng.normal(size=shape) * 10).astype(dtype)
    a = gp.asarray(x)
    np.testing.assert_array_equal(a.T.copy().to_numpy(), x.T)
    np.testing.assert_array_equal(a[:, 1:].T.copy().to_numpy(), x[:, 1:].T)
    np.testing.assert_array_equal(a[:, ::2].copy().to_numpy(), x[:, ::2])
    np.testing.assert_array_equal(a[::-1, ::3].copy().to_numpy(), x[::-1, ::3])


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_empty_transposes_are_copied(device, shape):
    out = gp.zeros(shape[::-1])
    out[...] = gp.zeros(shape).T
    assert gp.zeros(shape).T.copy().shape == out.shape == shape[::-1]


def test_a_square_copied_onto_its_own_transpose(device):
    x = np.arange(70 * 70, dtype="float32").reshape(70, 70)
    a = gp.asarray(x)
    a[...] = a.T
    np.testing.assert_array_equal(a.to_numpy(), x.T)
