"""from_numpy, asarray and where arrays go."""

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp

NUMPY_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                "float64", "complex64", "complex128"]  # fmt: skip


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (31,), (5, 33)])
def test_from_numpy_round_trips(device, rng, dtype, shape):
    host = (rng.standard_normal(shape) * 100).astype(np.int64).astype(dtype)
    x = gp.from_numpy(host)
    assert x.dtype.name == dtype and x.shape == shape and x.device == device
    back = x.to_numpy()
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)


def test_from_numpy_takes_any_layout(device, rng):
    host = rng.standard_normal((6, 7, 8))
    wide = np.broadcast_to(host[0], (3, 7, 8))
    for view in (host.T, host[::2, ::-1], host[:, 3], wide, host.astype(">f8"), np.asfortranarray(host)):
        np.testing.assert_array_equal(gp.from_numpy(view).to_numpy(), view)


def test_from_numpy_copies(device):
    host = np.zeros(4, np.float32)
    x = gp.from_numpy(host)
    host[:] = 1
    out = x.to_numpy()
    assert not out.any()
    out[:] = 2
    assert not x.to_numpy().any()


def test_from_numpy_keeps_uint16_and_knows_ml_dtypes(device):
    assert gp.from_numpy(np.zeros(2, np.uint16)).dtype is gp.uint16
    host = np.array([1.5, -2, 3e30], ml_dtypes.bfloat16)
    x = gp.from_numpy(host)
    assert x.dtype is gp.bfloat16
    np.testing.assert_array_equal(x.to_numpy(), host.view(np.uint16))
    np.testing.assert_array_equal(x.to_numpy(dtype=ml_dtypes.bfloat16), host)


def test_from_numpy_refuses(device):
    with pytest.raises(TypeError, match="numpy.ndarray.*gp.asarray"):
        gp.from_numpy([1, 2])
    with pytest.raises(ValueError, match="Unsupported dtype"):
        gp.from_numpy(np.array(["a"]))


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [(3, "int64", ()), (2.5, "float32", ()), (True, "bool", ()), (1j, "complex64", ()), ([1, 2], "int64", (2,)),
     ([[1.0], [2.0]], "float32", (2, 1)), ([], "float32", (0,)), ((True, False), "bool", (2,)),
     (np.float64(2), "float64", ()), (range(3), "int64", (3,))],
)  # fmt: skip
def test_asarray_default_dtypes(device, given, dtype, shape):
    x = gp.asarray(given)
    assert (x.dtype.name, x.shape) == (dtype, shape)
    np.testing.assert_array_equal(x.to_numpy(), np.asarray(given).astype(dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "bool", "complex128", "float8_e4m3"])
def test_asarray_with_dtype(device, dtype):
    x = gp.asarray([0, 1, 2], dtype=dtype)
    assert x.dtype.name == dtype
    expected = [False, True, True] if dtype == "bool" else [0, 1, 2]
    assert x.tolist() == expected


def test_asarray_of_an_array(device):
    x = gp.ones(3)
    assert gp.asarray(x) is x
    assert gp.asarray(x, dtype="float32", device=x.device) is x
    copy = gp.asarray(x, copy=True)
    copy += 1
    assert x.tolist() == [1, 1, 1]
    assert gp.asarray(x, dtype="int32").dtype is gp.int32
    with pytest.raises(ValueError, match="copy=False"):
        gp.asarray(x, dtype="int32", copy=False)


def test_asarray_stacks_lists_of_arrays(device):
    x = gp.arange(6).reshape(2, 3)
    for given in ([x, x], (x, x), [list(gp.unstack(x)), gp.unstack(x)], [[[v for v in row] for row in x], x]):
        got = gp.asarray(given)
        assert got.dtype == gp.int64 and got.device == device and got.tolist() == [x.tolist()] * 2
    got = gp.array((x[0, 0], gp.asarray(2.5)), dtype="float64", device="cpu")
    assert got.tolist() == [0, 2.5] and got.dtype == gp.float64 and got.device == gp.device("cpu")
    with pytest.raises(TypeError, match="what lies beside a GPUArray must be"):
        gp.asarray([x[0, 0], 2.5])
    with pytest.raises(ValueError, match="copy=False forbids stacking"):
        gp.asarray([x, x], copy=False)
    with pytest.raises(ValueError, match="stack"):
        gp.asarray([x, x[0]])
    endless = [x]
    endless.append(endless)
    with pytest.raises(ValueError, match="nested 8 deep"):
        gp.asarray(endless)


def test_asarray_copy_false_shares_numpy_memory():
    host = np.arange(4.0)
    x = gp.asarray(host, device="cpu", copy=False)
    host[0] = 7
    assert x.tolist() == [7, 1, 2, 3]
    with pytest.raises(ValueError, match="copy=False"):
        gp.asarray([1, 2], copy=False)


def test_device_keyword_wins(device):
    for x in (gp.zeros(2, device="cpu"), gp.from_numpy(np.ones(2), device="cpu"), gp.asarray([1], device="cpu")):
        assert x.device == "cpu"


@pytest.mark.parametrize("shape", [3, (3,), [3], (2, 3), np.array([2, 3]), (np.int64(2), 3), ()])
def test_shapes(device, shape):
    expected = np.zeros(shape).shape
    assert gp.zeros(shape).shape == expected


@pytest.mark.parametrize(
    ("shape", "error"),
    [("ab", TypeError), (2.5, TypeError), ((1.0,), TypeError), (None, TypeError), ((1,) * 9, ValueError), (-1, ValueError),
     ((2, -3), ValueError), ((2**40, 2**40), ValueError)],
)  # fmt: skip
def test_bad_shapes(device, shape, error):
    with pytest.raises(error, match="shape|dimension"):
        gp.zeros(shape)
