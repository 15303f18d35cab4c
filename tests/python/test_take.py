"""take, gather, scatter and nonzero against NumPy, on every device present."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pygpukit as gp

SETTINGS = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def counting(shape, dtype="int32"):
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)


def put(array, device):
    return gp.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)), device=device)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("index_shape", [(), (3,), (2, 2), (0,)])
def test_take(device, axis, index_shape):
    host = counting((3, 5, 4)).astype("float32")
    size = host.size if axis is None else host.shape[axis]
    indices = np.random.default_rng(1).integers(-size, size, index_shape)
    x = put(host, device)
    expected = np.take(host, indices, axis=axis)
    got = gp.take(x, put(indices, device), axis=axis)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.to_numpy(), expected)
    out = gp.empty(expected.shape, device=device)
    assert gp.take(x, put(indices, device), axis=axis, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), expected)


@given(data=st.data())
@SETTINGS
def test_take_along_axis_and_scatter(device, data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    own = [side if data.draw(st.booleans()) else 1 for side in shape]
    own[axis] = data.draw(st.integers(0, 6))
    size = shape[axis]
    indices = data.draw(hnp.arrays("int64", tuple(own), elements=st.integers(-size, size - 1)))
    host = counting(shape)
    full = list(shape)
    full[axis] = own[axis]
    spread = np.broadcast_to(indices, full)
    x = put(host, device)
    expected = np.take_along_axis(host, spread, axis)
    np.testing.assert_array_equal(gp.gather(x, put(indices, device), axis).to_numpy(), expected)
    np.testing.assert_array_equal(gp.take_along_axis(x, put(indices, device), axis=axis).to_numpy(), expected)

    values = 1000 + counting(full)
    expected = host.copy()
    for place in np.ndindex(*full):
        target = list(place)
        target[axis] = spread[place]
        expected[tuple(target)] = values[place]
    np.testing.assert_array_equal(gp.scatter(x, put(indices, device), put(values, device), axis).to_numpy(), expected)
    np.testing.assert_array_equal(x.to_numpy(), host)
    assert gp.scatter(x, put(indices, device), put(values, device), axis, out=x) is x
    np.testing.assert_array_equal(x.to_numpy(), expected)


def test_gather_and_scatter_refuse_what_does_not_fit(device):
    x = put(counting((3, 4)), device)
    with pytest.raises(ValueError, match="gather"):
        gp.gather(x, put(np.zeros(3, dtype="int64"), device), 0)
    with pytest.raises(ValueError, match="integer"):
        gp.take(x, put(np.zeros(3, dtype="float32"), device), 0)
    with pytest.raises(IndexError):
        gp.take(x, put(np.zeros(3, dtype="int64"), device), 2)
    with pytest.raises(ValueError, match="scatter"):
        gp.put_along_axis(x, put(np.zeros((2, 1), dtype="int64"), device), 1, axis=1)
    with pytest.raises(ValueError):
        gp.put_along_axis(gp.broadcast_to(x[:1], (3, 4)), put(np.zeros((3, 1), dtype="int64"), device), 1, axis=1)


@given(data=st.data())
@SETTINGS
def test_nonzero_argwhere_compress(device, data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6))
    dtype = data.draw(st.sampled_from(["bool", "int32", "float32", "uint8"]))
    host = data.draw(hnp.arrays(dtype, shape, elements=st.sampled_from([0, 0, 1])))
    x = put(host, device)
    for got, expected in zip(gp.nonzero(x), np.nonzero(host), strict=True):
        np.testing.assert_array_equal(got.to_numpy(), expected)
    np.testing.assert_array_equal(gp.argwhere(x).to_numpy(), np.argwhere(host))
    condition = host.any(axis=tuple(range(1, host.ndim)))
    np.testing.assert_array_equal(
        gp.compress(put(condition, device), x, axis=0).to_numpy(), np.compress(condition, host, axis=0)
    )


@pytest.mark.parametrize("size", [1, 31, 4095, 4096, 4097, 100_003])
def test_nonzero_across_blocks(device, size):
    host = np.random.default_rng(size).random(size) < 0.3
    np.testing.assert_array_equal(gp.nonzero(put(host, device))[0].to_numpy(), np.nonzero(host)[0])
    shifted = put(np.concatenate([[False], host]), device)[1:]
    np.testing.assert_array_equal(gp.nonzero(shifted)[0].to_numpy(), np.nonzero(host)[0])


def test_nan_is_not_zero(device):
    x = put(np.array([0.0, np.nan, -0.0, 1.0], dtype="float32"), device)
    np.testing.assert_array_equal(gp.nonzero(x)[0].to_numpy(), [1, 3])


def test_wide_rows_as_in_an_embedding(device):
    table = np.random.default_rng(0).standard_normal((513, 1024)).astype("float16")
    ids = np.random.default_rng(1).integers(0, 513, (4, 37))
    x = put(table, device)
    np.testing.assert_array_equal(gp.take(x, put(ids, device), 0).to_numpy(), table[ids])
    np.testing.assert_array_equal(gp.take(x[:, 1:], put(ids, device), 0).to_numpy(), table[:, 1:][ids])
    np.testing.assert_array_equal(gp.take(x[:, 8:24], put(ids, device), 0).to_numpy(), table[:, 8:24][ids])
