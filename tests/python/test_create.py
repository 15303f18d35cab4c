"""Factories that make arrays by value."""

import numpy as np
import pytest

import pygpukit as gp

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128"]  # fmt: skip
SHAPES = [(), (0,), (1,), (31,), (3, 0, 2), (5, 33), (2, 3, 1025)]


def as_numpy(x):
    return x.to_numpy(dtype="float32") if x.dtype is gp.bfloat16 else x.to_numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_constants(device, dtype, shape):
    for made, value in ((gp.zeros(shape, dtype), 0), (gp.ones(shape, dtype=dtype), 1), (gp.full(shape, 1, dtype), 1)):
        assert made.shape == shape and made.dtype.name == dtype and made.device == device
        np.testing.assert_array_equal(as_numpy(made), np.full(shape, value, as_numpy(made).dtype))
    assert gp.empty(shape, dtype).shape == shape


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_storage_dtypes_are_filled(device, dtype):
    np.testing.assert_array_equal(gp.ones((33,), dtype).to_numpy(dtype="float32"), np.ones(33, np.float32))
    np.testing.assert_array_equal(gp.zeros((33,), dtype).to_numpy(dtype="float32"), np.zeros(33, np.float32))


def test_defaults(device):
    assert gp.zeros((2,)).dtype is gp.float32
    assert gp.zeros(3).shape == (3,)
    assert gp.ones([2, 3]).shape == (2, 3)
    assert gp.zeros((2,), dtype=np.int16).dtype is gp.int16
    assert gp.zeros((2,), dtype=gp.int64).dtype is gp.int64
    assert gp.zeros((2,), device="cpu").device == gp.device("cpu")
    for value, dtype in ((True, "bool"), (3, "int64"), (2.5, "float32"), (1j, "complex64"), (2**63, "uint64")):
        assert gp.full((2,), value).dtype.name == dtype
        assert gp.full((), value).item() == value


def test_like(device):
    x = gp.zeros((3, 5), "int16").T
    assert gp.empty_like(x).shape == (5, 3)
    np.testing.assert_array_equal(gp.ones_like(x).to_numpy(), np.ones((5, 3), np.int16))
    np.testing.assert_array_equal(gp.zeros_like(x, dtype="float64").to_numpy(), np.zeros((5, 3)))
    np.testing.assert_array_equal(gp.full_like(x, 7).to_numpy(), np.full((5, 3), 7, np.int16))
    assert gp.ones_like(x, device="cpu").device == gp.device("cpu")
    assert gp.ones_like(x).is_contiguous()


@pytest.mark.parametrize("n", [0, 1, 4, 33])
@pytest.mark.parametrize("m", [None, 0, 3, 40])
@pytest.mark.parametrize("k", [-40, -2, 0, 1, 33])
def test_eye(device, n, m, k):
    np.testing.assert_array_equal(gp.eye(n, m, k).to_numpy(), np.eye(n, m, k, np.float32))
    np.testing.assert_array_equal(gp.eye(n, m, k=k, dtype="complex64").to_numpy(), np.eye(n, m, k, np.complex64))


@pytest.mark.parametrize(
    "args",
    [(0,), (1,), (1025,), (3, 3), (5, 2), (2, 19, 5), (19, 2, -5), (-7, 8, 3), (0, 2**40, 2**33), (0, 100003)],
)
def test_arange_of_integers(device, args):
    x = gp.arange(*args)
    assert x.dtype is gp.int64
    np.testing.assert_array_equal(x.to_numpy(), np.arange(*args))


@pytest.mark.parametrize("args", [(0.0,), (5.5,), (0.0, 1.0, 0.1), (1.0, -1.0, -0.3), (0, 1, 0.01)])
def test_arange_of_reals(device, args):
    assert gp.arange(*args).dtype is gp.float32
    start, stop, step = (0.0, args[0], 1.0) if len(args) == 1 else (*args, 1.0)[:3]
    expected = start + np.arange(max(0, int(np.ceil((stop - start) / step)))) * step
    np.testing.assert_array_equal(gp.arange(*args, dtype="float64").to_numpy(), expected)
    np.testing.assert_array_equal(gp.arange(*args).to_numpy(), expected.astype(np.float32))
    np.testing.assert_array_equal(gp.arange(*args, dtype="float16").to_numpy(), expected.astype(np.float16))


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64", "float16", "float32"]
)
def test_arange_dtypes(device, dtype):
    np.testing.assert_array_equal(gp.arange(3, 100, 7, dtype=dtype).to_numpy(), np.arange(3, 100, 7).astype(dtype))


@pytest.mark.parametrize("num", [0, 1, 2, 31, 33, 1025])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(device, num, endpoint):
    expected = np.linspace(-0.3, 7.1, num, endpoint=endpoint)
    np.testing.assert_array_equal(gp.linspace(-0.3, 7.1, num, endpoint=endpoint, dtype="float64").to_numpy(), expected)
    for dtype in ("float16", "float32"):
        got = gp.linspace(-0.3, 7.1, num, endpoint=endpoint, dtype=dtype).to_numpy()
        np.testing.assert_array_equal(got, expected.astype(dtype))
    assert gp.linspace(0, 1, 3).dtype is gp.float32
    assert gp.linspace(0, 1).shape == (50,)


@pytest.mark.parametrize(
    "given",
    [(0, 2**64 - 1, 2**62), (2**63, 2**64 - 1, 2**61 + 1), (2**64 - 1, 2**63 - 5, -(2**60)), (2**63 - 1, 2**63 + 2),
     (3, 2**64 - 1, 2**63 + 7), (2**63, 0, -(2**63)), (2**63, 2**63), (2**64 - 1, 5)],
)  # fmt: skip
def test_arange_of_the_largest_integers(device, given):
    got = gp.arange(*given, dtype="uint64")
    assert got.dtype == gp.uint64 and got.tolist() == list(range(*given))


def test_arange_keeps_to_its_dtype(device):
    beyond = [((2**63, 2**63 + 3), None), ((0, 2**63 + 1, 2**63), "int64"), ((1, 2**64 - 1, 2**62), "uint8")]
    for given, dtype in beyond:
        with pytest.raises(ValueError, match="arange: value must be in"):
            gp.arange(*given, dtype=dtype)
    with pytest.raises(ValueError, match="arange: start must not be negative beside"):
        gp.arange(-1, 2**63, dtype="uint64")
    with pytest.raises(ValueError, match="arange: stop must not be negative beside"):
        gp.arange(2**63, -1, -(2**62), dtype="uint64")
    assert gp.arange(0, 2**63, 2**61, dtype="float64").tolist() == [0, 2.0**61, 2.0**62, 3 * 2.0**61]


def test_errors(device):
    with pytest.raises(ValueError, match="zeros: shape must have no negative"):
        gp.zeros((2, -1))
    with pytest.raises(ValueError, match="shape"):
        gp.zeros((2**40, 2**40))
    with pytest.raises(ValueError, match=r"full: value must be in \[0, 255\] for uint8, got 256"):
        gp.full((2,), 256, "uint8")
    with pytest.raises(ValueError, match="Unsupported dtype"):
        gp.zeros((2,), dtype="float31")
    with pytest.raises(TypeError, match="shape"):
        gp.zeros("ab")
    with pytest.raises(ValueError, match="step must not be zero"):
        gp.arange(0, 5, 0)
    with pytest.raises(ValueError, match="uint8"):
        gp.arange(0, 300, dtype="uint8")
    with pytest.raises(TypeError, match="integer or float"):
        gp.arange(3, dtype="bool")
    with pytest.raises(ValueError, match="num must not be negative"):
        gp.linspace(0, 1, -1)
    with pytest.raises(TypeError, match="float or complex dtype"):
        gp.linspace(0, 1, 5, dtype="int32")
    with pytest.raises(ValueError, match="device"):
        gp.zeros((2,), device="tpu")


def test_promised_snippet(device):
    x = gp.zeros((1024, 1024), dtype="float32")
    y = gp.ones((1024, 1024), dtype="float32")
    z = gp.add(x, y)
    w = gp.matmul(x, y)
    arr = z.to_numpy()
    g = gp.from_numpy(arr)
    assert arr.sum() == 1024 * 1024 and not w.to_numpy().any() and g.shape == (1024, 1024)
