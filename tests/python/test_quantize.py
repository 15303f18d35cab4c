"""quantize and dequantize from Python: forms of the arguments, shapes of the results, the errors the formats make."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from opcase import download

import pygpukit as gp

# Format, block, and the largest relative error (by norm) that it may make on normal data; docs/quantisation.md.
FORMATS = [
    ("fp8_e4m3", "tensor", 0.028),
    ("fp8_e4m3", "row", 0.028),
    ("fp8_e4m3", (1, 128), 0.028),
    ("fp8_e4m3", (128, 128), 0.028),
    ("fp8_e5m2", "row", 0.055),
    ("int8", "tensor", 0.012),
    ("int8", "row", 0.009),
    ("int4", "row", 0.16),
    ("int4", 128, 0.125),
    ("int4", 64, 0.115),
    ("int4", 32, 0.102),
    ("nvfp4", 16, 0.098),
    ("nvfp4", 32, 0.104),
]
DTYPES = {"fp8_e4m3": "float8_e4m3", "fp8_e5m2": "float8_e5m2", "nvfp4": "float4_e2m1"}


def parts_of(codes, zero_point=False):
    """The keywords of dequantize for what quantize returned."""
    data, scale, *rest = codes
    return {"data": data, "scale": scale, **({"zero" if zero_point else "tensor_scale": rest[0]} if rest else {})}


@pytest.mark.parametrize("format, block, bound", FORMATS)
def test_round_trip_error(device, rng, format, block, bound):
    x = rng.standard_normal((384, 1024)).astype(np.float32)
    codes = gp.quantize(gp.from_numpy(x), format, block=block)
    assert codes[0].dtype.name == DTYPES.get(format, format)
    back = gp.dequantize(**parts_of(codes)).to_numpy()
    error = np.linalg.norm(back - x) / np.linalg.norm(x)
    assert bound / 3 < error < bound
    for dtype, epsilon in (("float16", 2**-11), ("bfloat16", 2**-8)):
        narrow = gp.dequantize(**parts_of(codes), dtype=dtype)
        assert narrow.dtype.name == dtype
        np.testing.assert_allclose(download(narrow), back, rtol=epsilon, atol=2**-25)


@pytest.mark.parametrize("block, bound", [(32, 0.092), (64, 0.1), (128, 0.107)])
def test_zero_points_follow_the_range(device, rng, block, bound):
    x = rng.standard_normal((64, 512)).astype(np.float32)
    for shift in (0, 3):
        given = gp.from_numpy(x + np.float32(shift))
        codes = gp.quantize(given, "int4", block=block, zero_point=True)
        assert [part.dtype.name for part in codes] == ["int4", "float32", "int8"]
        error = np.linalg.norm(gp.dequantize(**parts_of(codes, True)).to_numpy() - given.to_numpy()) / np.linalg.norm(x)
        assert error < bound * (1 if shift == 0 else 1.3)
        plain = gp.dequantize(*gp.quantize(given, "int4", block=block)).to_numpy()
        assert error < np.linalg.norm(plain - given.to_numpy()) / np.linalg.norm(x)


def test_float8_codes_are_those_of_ml_dtypes(device, rng):
    x = (rng.standard_normal((33, 77)) * 100).astype(np.float32)
    for format, dtype in (("fp8_e4m3", ml_dtypes.float8_e4m3fn), ("fp8_e5m2", ml_dtypes.float8_e5m2)):
        data, scale = gp.quantize(gp.from_numpy(x), format)
        expected = (x / scale.to_numpy()).astype(dtype).view(np.uint8)
        np.testing.assert_array_equal(data.to_numpy(), expected)


def test_nvfp4_codes_are_those_of_ml_dtypes(device, rng):
    x = rng.standard_normal((5, 64)).astype(np.float32)
    data, scale, tensor_scale = gp.quantize(gp.from_numpy(x), "nvfp4")
    divisor = scale.to_numpy().view(ml_dtypes.float8_e4m3fn).astype(np.float32) * tensor_scale.to_numpy()
    codes = (x / np.repeat(divisor, 16, 1)).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    np.testing.assert_array_equal(data.to_numpy(), codes[:, ::2] | codes[:, 1::2] << 4)


def test_shapes(device):
    x = gp.ones((3, 130, 256))
    shapes = {
        ("fp8_e4m3", "tensor"): ((3, 130, 256), ()),
        ("fp8_e4m3", "row"): ((3, 130, 256), (3, 130, 1)),
        ("fp8_e4m3", (128, 128)): ((3, 130, 256), (3, 2, 2)),
        ("int4", None): ((3, 130, 128), (3, 130, 2)),
        ("nvfp4", None): ((3, 130, 128), (3, 130, 16)),
    }
    for (format, block), (data, scale) in shapes.items():
        codes = gp.quantize(x, format, block=block)
        assert (codes[0].shape, codes[1].shape) == (data, scale)
        np.testing.assert_array_equal(gp.dequantize(**parts_of(codes)).to_numpy(), x.to_numpy())
    assert len(gp.quantize(x, "nvfp4", tensor_scale=False)) == 2
    assert gp.quantize(x, gp.float8_e5m2)[0].dtype is gp.float8_e5m2


def test_out(device, rng):
    x = gp.from_numpy(rng.standard_normal((4, 64)).astype(np.float32))
    for format, options in (("int8", {}), ("int4", {"block": 32, "zero_point": True}), ("nvfp4", {})):
        expected = gp.quantize(x, format, **options)
        out = tuple(gp.zeros(part.shape, part.dtype) for part in expected)
        assert gp.quantize(x, format, **options, out=out) is out
        for part, wanted in zip(out, expected, strict=True):
            np.testing.assert_array_equal(part.to_numpy(), wanted.to_numpy())
    target = gp.zeros((4, 64), "float16")
    assert gp.dequantize(*gp.quantize(x, "int8"), dtype="float16", out=target) is target


def test_graph(device, rng):
    x = gp.from_numpy(rng.standard_normal((4, 64)).astype(np.float32))
    out = tuple(gp.zeros(part.shape, part.dtype) for part in gp.quantize(x, "fp8_e4m3", block="tensor"))
    graph = gp.CudaGraph()
    graph.begin_capture()
    gp.quantize(x, "fp8_e4m3", block="tensor", out=out)
    graph.end_capture()
    x *= 3.0
    graph.replay()
    graph.synchronize()
    for part, wanted in zip(out, gp.quantize(x, "fp8_e4m3", block="tensor"), strict=True):
        np.testing.assert_array_equal(part.to_numpy(), wanted.to_numpy())


def test_errors(device):
    x = gp.ones((4, 64))
    with pytest.raises(ValueError, match="format must be 'fp8_e4m3'"):
        gp.quantize(x, "fp6")
    with pytest.raises(ValueError, match="block must be 'tensor'"):
        gp.quantize(x, "int8", block="column")
    with pytest.raises(ValueError, match="block must be tensor or row for int8"):
        gp.quantize(x, "int8", block=64)
    with pytest.raises(TypeError, match="float64"):
        gp.quantize(x.astype("float64"), "int8")
    with pytest.raises(ValueError, match="even number of columns"):
        gp.quantize(gp.ones((4, 63)), "int4")
    with pytest.raises(ValueError, match="scale must be one number"):
        gp.dequantize(gp.zeros((4, 64), "int8"), gp.ones((3, 1)))
    with pytest.raises(TypeError, match="gp.from_numpy"):
        gp.quantize(np.ones((4, 64), "float32"), "int8")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_int8_names_of_0_2(device, rng, dtype):
    w, x = rng.normal(size=(24, 64)), rng.normal(size=(5, 64))
    weight, rows = (gp.from_numpy(v.astype(np.float32)).astype(dtype) for v in (w, x))
    codes, scale = gp.compat.quantize_to_int8(weight)
    assert codes.dtype.name == "int8" and codes.shape == (24, 64) and scale.shape == (24,)
    back = gp.compat.dequantize_int8(codes, scale, dtype)
    assert back.dtype.name == dtype
    held = codes.to_numpy() * scale.to_numpy().astype(np.float64)[:, None]
    np.testing.assert_allclose(download(back), held, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(held, w, atol=np.abs(w).max() / 127)
    bias = gp.from_numpy(rng.normal(size=24).astype(np.float32)).astype(dtype)
    expected = download(rows) @ held.T
    np.testing.assert_allclose(download(gp.compat.linear_int8(rows, codes, scale)), expected, rtol=2e-2, atol=2e-2)
    got = gp.compat.linear_int8(rows, codes, scale, bias)
    np.testing.assert_allclose(download(got), expected + download(bias), rtol=2e-2, atol=2e-2)
    with pytest.raises(ValueError, match="linear_int8: scale must have shape"):
        gp.compat.linear_int8(rows, codes, scale[:3])
    with pytest.raises(gp.errors.DTypeError, match="dequantize_int8: codes must have dtype int8"):
        gp.compat.dequantize_int8(weight, scale, dtype)
    with pytest.raises(ValueError, match="quantize_to_int8: input must be 2D"):
        gp.compat.quantize_to_int8(weight[0])
