"""Views: shapes, strides and shared memory equal NumPy's through any chain of them."""

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


def put(array, device):
    return gp.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)), device=device)


def counting(shape):
    return np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)


@st.composite
def steps(draw, host):
    """One view of `host`: (name, on NumPy, on ours)."""
    rank = host.ndim
    names = ["slice", "permute", "expand_dims", "flip", "squeeze"]
    if rank > 0:
        names += ["moveaxis", "select", "swapaxes", "split"]
    if rank < 5:
        names.append("broadcast")
    name = draw(st.sampled_from(names))
    axes = st.integers(-rank, rank - 1)
    if name == "slice":
        key = draw(hnp.basic_indices(host.shape, allow_newaxis=False))
        return name, lambda a: a[key], lambda a: a[key]
    if name == "permute":
        order = tuple(draw(st.permutations(range(rank))))
        return name, lambda a: np.transpose(a, order), lambda a: gp.permute_dims(a, order)
    if name == "expand_dims":
        if rank > 5:
            return name, lambda a: a, lambda a: a
        axis = draw(st.integers(-rank - 1, rank))
        return name, lambda a: np.expand_dims(a, axis), lambda a: gp.expand_dims(a, axis)
    if name == "flip":
        axis = draw(st.none() | axes) if rank else None
        return name, lambda a: np.flip(a, axis), lambda a: gp.flip(a, axis)
    if name == "squeeze":
        ones = tuple(i for i, side in enumerate(host.shape) if side == 1)
        axis = draw(st.sampled_from([None, ones]))
        return name, lambda a: np.squeeze(a, axis), lambda a: gp.squeeze(a, axis)
    if name == "moveaxis":
        source, target = draw(axes), draw(axes)
        return name, lambda a: np.moveaxis(a, source, target), lambda a: gp.moveaxis(a, source, target)
    if name == "swapaxes":
        first, second = draw(axes), draw(axes)
        return name, lambda a: np.swapaxes(a, first, second), lambda a: gp.swapaxes(a, first, second)
    if name == "select":
        axis = draw(st.integers(0, rank - 1))
        if host.shape[axis] == 0:
            return name, lambda a: a, lambda a: a
        at = draw(st.integers(-host.shape[axis], host.shape[axis] - 1))
        key = (slice(None),) * axis + (at,)
        return name, lambda a: a[key] if rank > 1 else a[key].reshape(()), lambda a: a[key]
    if name == "split":
        axis = draw(st.integers(0, rank - 1))
        at = draw(st.integers(-host.shape[axis], host.shape[axis]))
        return name, lambda a: np.split(a, [at], axis)[1], lambda a: gp.split(a, [at], axis)[1]
    shape = (draw(st.integers(1, 2)), *(draw(st.integers(1, 3)) if side == 1 else side for side in host.shape))
    return name, lambda a: np.broadcast_to(a, shape), lambda a: gp.broadcast_to(a, shape)


@given(data=st.data())
@SETTINGS
def test_chains_of_views(device, data):
    base = counting(data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    x = put(base, device)
    host, view = base, x
    written = True
    for _ in range(data.draw(st.integers(1, 6))):
        name, on_numpy, on_ours = data.draw(steps(host))
        host, view = np.asarray(on_numpy(host)), on_ours(view)
        written = written and name != "broadcast"
        assert view.shape == host.shape
        for axis in range(host.ndim):
            if host.shape[axis] > 1 and host.size > 0:
                assert view.strides[axis] == host.strides[axis]
        np.testing.assert_array_equal(view.to_numpy(), host)
    # A view still shares the memory of its base, in both directions.
    if written and host.size:
        view[...] = -5
        expected = base.copy().ravel()
        expected[host.ravel()] = -5
        np.testing.assert_array_equal(x.to_numpy().ravel(), expected)
        x[...] = 3
        np.testing.assert_array_equal(view.to_numpy(), np.full(host.shape, 3))


@given(data=st.data())
@SETTINGS
def test_reshape_is_a_view_where_numpy_has_one(device, data):
    base = counting(data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)))
    order = tuple(data.draw(st.permutations(range(base.ndim))))
    key = data.draw(
        hnp.basic_indices(base.shape, allow_ellipsis=False, allow_newaxis=False).map(
            lambda k: k if isinstance(k, tuple) else (k,)
        )
    )
    x = put(base, device)
    if data.draw(st.booleans()):
        host, view = base.transpose(order), x.transpose(*order)
    else:
        host, view = base[(*key, ...)], x[key]
    shape = data.draw(st.sampled_from([(host.size,), (-1,), (1, -1), (-1, 1), host.shape[::-1], host.shape]))
    if host.size == 0:
        shape = host.shape
    got = gp.reshape(view, shape)
    np.testing.assert_array_equal(got.to_numpy(), host.reshape(shape))
    shares = bool(np.shares_memory(host.reshape(shape), base)) and host.size > 0
    got[...] = -1
    assert (x.to_numpy() == base).all() == (not shares)


def test_reshape_copy_argument(device):
    x = put(counting((3, 4)), device)
    gp.reshape(x, (12,), copy=True)[...] = 0
    np.testing.assert_array_equal(x.to_numpy(), counting((3, 4)))
    with pytest.raises(ValueError, match="copy=False"):
        gp.reshape(x.T, (12,), copy=False)
    for bad in [(5,), (-1, -1), (-1, 5), (3, -2)]:
        with pytest.raises(ValueError):
            gp.reshape(x, bad)
    with pytest.raises(ValueError):
        gp.reshape(gp.zeros((0, 3), device=device), (0, -1))


def test_ravel_and_flatten(device):
    x = put(counting((2, 3)), device)
    gp.ravel(x)[0] = 9
    assert x[0, 0].item() == 9
    gp.flatten(x)[0] = 1
    assert x[0, 0].item() == 9
    np.testing.assert_array_equal(gp.ravel(x.T).to_numpy(), x.to_numpy().T.ravel())
    assert gp.flatten(put(np.array(4), device)).shape == (1,)


@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4))
@SETTINGS
def test_broadcasting_follows_numpy(device, shapes):
    hosts = [counting(shape) for shape in shapes.input_shapes]
    arrays = [put(host, device) for host in hosts]
    for got, expected in zip(gp.broadcast_arrays(*arrays), np.broadcast_arrays(*hosts), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got.to_numpy(), expected)
    total = arrays[0] + arrays[1] + arrays[2]
    np.testing.assert_array_equal(total.to_numpy(), hosts[0] + hosts[1] + hosts[2])


def test_broadcast_and_expand(device):
    x = put(counting((3, 1)), device)
    assert gp.expand(x, (2, -1, 4)).shape == (2, 3, 4)
    assert gp.broadcast_to(x, (2, 3, 4)).strides == (0, 4, 0)
    with pytest.raises(ValueError):
        gp.broadcast_to(x, (2, 4))
    with pytest.raises(ValueError):
        gp.expand(x, (-1, 3, 4))
    with pytest.raises(ValueError):
        gp.expand(x, (4,))
    with pytest.raises(ValueError):
        gp.broadcast_arrays(x, put(counting((2, 1)), device))
    with pytest.raises(ValueError, match="setitem"):
        gp.broadcast_to(x, (3, 4))[...] = 1


def test_view_errors(device):
    x = put(counting((2, 3)), device)
    for call in (
        lambda: gp.permute_dims(x, (0, 0)),
        lambda: gp.permute_dims(x, (0,)),
        lambda: gp.squeeze(x, 0),
        lambda: gp.moveaxis(x, (0, 0), (0, 1)),
        lambda: gp.moveaxis(x, (0, 1), (0,)),
        lambda: gp.split(x, 2, 1),
        lambda: gp.split(x, 0),
        lambda: gp.expand_dims(x, (0, 0)),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (
        lambda: gp.squeeze(x, 2),
        lambda: gp.expand_dims(x, 4),
        lambda: gp.flip(x, 2),
        lambda: gp.split(x, 1, 2),
    ):
        with pytest.raises(IndexError):
            call()


def test_split_and_unstack(device):
    host = counting((6, 4))
    x = put(host, device)
    for sections in (3, [1, 4], [2, 2], [-1], [9], []):
        for got, expected in zip(gp.split(x, sections), np.split(host, sections), strict=True):
            np.testing.assert_array_equal(got.to_numpy(), expected)
    for axis in (0, 1):
        parts = gp.unstack(x, axis=axis)
        assert type(parts) is tuple and len(parts) == host.shape[axis]
        for i, part in enumerate(parts):
            np.testing.assert_array_equal(part.to_numpy(), np.take(host, i, axis))
