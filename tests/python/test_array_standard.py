"""The array API standard 2024.12: names, keywords, inspection, constants, and what a user of NumPy tries first."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pygpukit as gp

STANDARD = """
e inf nan newaxis pi __array_api_version__ __array_namespace_info__
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round
sign signbit sin sinh square sqrt subtract tan tanh trunc
take take_along_axis matmul concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile
unstack argmax argmin count_nonzero nonzero searchsorted where unique_all unique_counts unique_inverse unique_values
argsort sort cumulative_prod cumulative_sum max mean min prod std sum var all any diff
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
"""
KINDS = {
    "bool": {"bool"},
    "signed integer": {"int8", "int16", "int32", "int64"},
    "unsigned integer": {"uint8", "uint16", "uint32", "uint64"},
    "real floating": {"float32", "float64"},
    "complex floating": {"complex64", "complex128"},
}
KINDS["integral"] = KINDS["signed integer"] | KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] | KINDS["real floating"] | KINDS["complex floating"]


@pytest.mark.parametrize("name", STANDARD.split())
def test_every_name_is_there(name):
    assert hasattr(gp, name)


def test_constants():
    assert (gp.e, gp.pi, gp.inf) == (math.e, math.pi, math.inf)
    assert math.isnan(gp.nan) and gp.newaxis is None
    assert gp.__array_api_version__ == "2024.12"


def test_namespace_of_an_array(device):
    x = gp.ones(3)
    assert x.__array_namespace__() is gp
    for version in ("2021.12", "2022.12", "2023.12", gp.__array_api_version__):
        assert x.__array_namespace__(api_version=version) is gp
    with pytest.raises(ValueError, match="api_version must be 2021.12, 2022.12, 2023.12 or 2024.12, got '1999.01'"):
        x.__array_namespace__(api_version="1999.01")
    assert x.to_device(x.device) is x
    with pytest.raises(ValueError, match="stream must be None"):
        x.to_device(x.device, stream=3)


def test_namespace_info(device):
    info = gp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}
    assert info.default_device() in info.devices()
    defaults = info.default_dtypes(device=info.default_device())
    assert defaults["real floating"] == gp.ones(1).dtype and defaults["integral"] == gp.arange(3).dtype
    assert defaults["indexing"] == gp.argsort(gp.ones(3)).dtype
    assert defaults["complex floating"] == gp.asarray([1j]).dtype
    assert set(info.dtypes()) == set().union(*KINDS.values())
    for kind, names in KINDS.items():
        found = info.dtypes(kind=kind)
        assert set(found) == names
        assert all(dtype == getattr(gp, name) for name, dtype in found.items())
    assert set(info.dtypes(kind=("bool", "signed integer"))) == KINDS["bool"] | KINDS["signed integer"]


@pytest.mark.parametrize("dtype", sorted(set().union(*KINDS.values())))
def test_isdtype(dtype):
    for kind, names in KINDS.items():
        assert gp.isdtype(gp.DataType.from_string(dtype), kind) == (dtype in names)
    assert gp.isdtype(gp.DataType.from_string(dtype), ("bool", "numeric"))
    assert gp.isdtype(gp.DataType.from_string(dtype), gp.int8) == (dtype == "int8")


def test_isdtype_refuses_other_kinds():
    with pytest.raises(ValueError, match="isdtype: kind must be"):
        gp.isdtype(gp.int8, "floating")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_finfo(dtype):
    info, expected = gp.finfo(gp.DataType.from_string(dtype)), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(info, name) == float(getattr(expected, name))
        assert type(getattr(info, name)) is (int if name == "bits" else float)
    assert info.dtype == str(expected.dtype)
    assert gp.finfo(gp.ones(2, dtype=dtype)).eps == info.eps


def test_finfo_of_bfloat16_and_refusals():
    info = gp.finfo(gp.bfloat16)
    assert (info.bits, info.eps, info.smallest_normal) == (16, 2.0**-7, 2.0**-126)
    assert info.max == float(gp.asarray([info.max], dtype="bfloat16").astype("float64").item())
    with pytest.raises(TypeError, match="int8"):
        gp.finfo(gp.int8)
    with pytest.raises(TypeError, match="float32"):
        gp.iinfo(gp.float32)


@pytest.mark.parametrize("dtype", sorted(KINDS["integral"]))
def test_iinfo(dtype):
    info, expected = gp.iinfo(dtype), np.iinfo(dtype)
    assert (info.bits, info.min, info.max, info.dtype) == (expected.bits, expected.min, expected.max, dtype)


def test_can_cast():
    assert gp.can_cast(gp.int8, gp.int16) and not gp.can_cast(gp.int16, gp.int8)
    assert gp.can_cast(gp.ones(2), gp.float64) and not gp.can_cast(gp.float64, gp.float32)
    assert not gp.can_cast(gp.uint64, gp.int64) and gp.can_cast(gp.uint8, gp.int16)
    assert gp.can_cast(gp.float32, gp.complex64) and not gp.can_cast(gp.complex64, gp.float32)
    assert gp.can_cast(gp.int4, gp.int4) and not gp.can_cast(gp.float8_e4m3, gp.float32)


def test_broadcast_shapes():
    assert gp.broadcast_shapes() == ()
    assert gp.broadcast_shapes((3, 1), (4,), (1, 1, 1)) == (1, 3, 4)
    assert gp.broadcast_shapes(5, (1,)) == (5,)
    with pytest.raises(ValueError, match="broadcast_shapes"):
        gp.broadcast_shapes((2,), (3,))


def test_clip_without_bounds_is_a_copy(device):
    x = gp.asarray([-1.0, 2.0])
    y = gp.clip(x)
    y[0] = 5
    assert x.tolist() == [-1.0, 2.0] and gp.clip(x, max=gp.zeros(2)).tolist() == [-1.0, 0.0]


def test_astype_moves(device):
    x = gp.arange(3)
    assert gp.astype(x, gp.float32, device="cpu").device == gp.device("cpu")
    assert gp.astype(x, x.dtype, copy=False, device=x.device) is x
    assert gp.astype(x, x.dtype) is not x


# ---- What a user of NumPy tries first


def test_array_is_a_copy(device):
    x = gp.ones(3)
    assert gp.array(x) is not x and gp.array(x, copy=False) is x
    assert gp.array([1, 2]).dtype == gp.int64 and gp.array([[1.5]], dtype="float64").shape == (1, 1)


def test_dtypes_are_numpys_too():
    assert gp.float32 == np.float32 and gp.float32 == np.dtype("float32") and gp.float32 != np.float64
    assert gp.bool_ == np.bool_ and gp.bfloat16 != np.uint16
    assert np.dtype(gp.int16) == np.int16
    assert np.zeros(2, dtype=gp.complex64).dtype == np.complex64
    with pytest.raises(TypeError):
        np.dtype(gp.bfloat16)


def test_numpy_arrays_beside_ours_say_what_to_do(device):
    for mix in (lambda: np.ones(3) + gp.ones(3), lambda: gp.ones(3) + np.ones(3), lambda: gp.ones(3) == np.ones(3)):
        with pytest.raises(TypeError, match="use gp.asarray"):
            mix()


def test_methods_take_the_keywords_of_their_functions(device, rng):
    host = rng.normal(size=(4, 5)).astype("float32")
    m = gp.asarray(host)
    assert m.sum(1, True).shape == (4, 1)
    np.testing.assert_allclose(m.var(ddof=1).item(), host.var(ddof=1), rtol=1e-5)
    np.testing.assert_array_equal(m.sort(0).to_numpy(), np.sort(host, 0))
    np.testing.assert_array_equal(m.argsort(descending=True).to_numpy(), np.argsort(-host))
    np.testing.assert_array_equal(m.clip(-0.5, 0.5).to_numpy(), host.clip(-0.5, 0.5))
    np.testing.assert_array_equal((m * 3).round().to_numpy(), (host * 3).round())
    np.testing.assert_allclose(m.cumprod(1).to_numpy(), host.cumprod(1), rtol=1e-5)
    z = m.astype("complex64")
    assert gp.array_equal(z.conj(), z) and gp.array_equal(z.real, m) and not z.imag.any()


def test_format_of_one_number(device):
    assert f"{gp.asarray(1.25):.1f}" == "1.2" and f"{gp.asarray(7):03d}" == "007"
    assert f"{gp.ones(2)}" == str(gp.ones(2))
    with pytest.raises(TypeError, match="0-d"):
        f"{gp.ones(2):.2f}"


def test_a_shape_is_one_argument():
    for name in ("zeros", "ones", "empty"):
        with pytest.raises(TypeError, match=rf"{name}\(\(2, 3\)\)"):
            getattr(gp, name)(2, 3)


def test_functions_of_integers_are_float64(device):
    got = gp.sqrt(gp.asarray([4, 9]))
    assert got.dtype == gp.float64 and got.tolist() == [2.0, 3.0]
