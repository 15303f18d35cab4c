"""Joining, repeating, padding and rolling against NumPy, and the names of the 0.2 series."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pygpukit as gp

SETTINGS = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)


def put(array, device):
    return gp.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)), device=device)


def counting(shape, dtype="int32", start=0):
    return (start + np.arange(int(np.prod(shape)))).reshape(shape).astype(dtype)


def both(shape, device, dtype="int32", start=0):
    host = counting(shape, dtype, start)
    return host, put(host, device)


@given(data=st.data())
@SETTINGS
def test_concat(device, data):
    shape = list(data.draw(SHAPES))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1) | st.none())
    hosts = []
    for i in range(data.draw(st.integers(1, 4))):
        own = list(shape)
        if axis is not None:
            own[axis] = data.draw(st.integers(0, 4))
        hosts.append(counting(own, start=100 * i))
    arrays = [put(host, device) for host in hosts]
    expected = np.concatenate(hosts, axis)
    np.testing.assert_array_equal(gp.concat(arrays, axis).to_numpy(), expected)
    out = gp.empty(expected.shape, dtype="int32", device=device)
    assert gp.concatenate(tuple(arrays), axis=axis, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), expected)


def test_concat_of_views_and_mixed_dtypes(device):
    host, x = both((4, 6), device)
    np.testing.assert_array_equal(
        gp.concat([x.T, x[:, ::-1].T], 1).to_numpy(), np.concatenate([host.T, host[:, ::-1].T], 1)
    )
    mixed = gp.concat([x, put(host.astype("float64") / 2, device)])
    assert mixed.dtype == gp.float64
    np.testing.assert_array_equal(mixed.to_numpy(), np.concatenate([host, host / 2]))
    # The output may be one of the inputs' memory.
    base_host, base = both((8,), device)
    gp.concat([base[4:], base[:4]], out=base)
    np.testing.assert_array_equal(base.to_numpy(), np.concatenate([base_host[4:], base_host[:4]]))


def test_joining_refuses_what_does_not_fit(device):
    _, x = both((2, 3), device)
    _, y = both((3, 2), device)
    for call in (
        lambda: gp.concat([]),
        lambda: gp.concat([x, y]),
        lambda: gp.concat([x, gp.ravel(x)]),
        lambda: gp.stack([x, y]),
        lambda: gp.stack([]),
        lambda: gp.concat([x], out=y),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(IndexError):
        gp.concat([x], 2)
    with pytest.raises(TypeError, match="concat"):
        gp.concat(x)
    with pytest.raises(TypeError, match="concat"):
        gp.concat([np.zeros(3)])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_stack(device, axis):
    pairs = [both((2, 3), device, start=10 * i) for i in range(3)]
    expected = np.stack([host for host, _ in pairs], axis)
    np.testing.assert_array_equal(gp.stack([x for _, x in pairs], axis).to_numpy(), expected)
    out = gp.empty(expected.shape, dtype="int32", device=device)
    assert gp.stack([x for _, x in pairs], axis, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), expected)


@given(data=st.data())
@SETTINGS
def test_repeat(device, data):
    shape = data.draw(SHAPES)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1) | st.none())
    host, x = both(shape, device)
    size = host.size if axis is None else shape[axis]
    repeats = data.draw(st.integers(0, 4) | st.lists(st.integers(0, 3), min_size=size, max_size=size))
    if repeats == []:
        repeats = 2
    np.testing.assert_array_equal(gp.repeat(x, repeats, axis).to_numpy(), np.repeat(host, repeats, axis))


def test_repeat_of_views_into_views(device):
    host, x = both((3, 4), device)
    np.testing.assert_array_equal(gp.repeat(x.T, 3, 0).to_numpy(), np.repeat(host.T, 3, 0))
    wide = gp.zeros((4, 9), dtype="int32", device=device)
    gp.repeat(x.T, 3, 1, out=wide)
    np.testing.assert_array_equal(wide.to_numpy(), np.repeat(host.T, 3, 1))
    tall = gp.zeros((9, 4), dtype="int32", device=device)
    gp.repeat(x.T, 3, 1, out=tall.T)
    np.testing.assert_array_equal(tall.to_numpy(), np.repeat(host.T, 3, 1).T)
    for bad in (-1, [1, 2], [1, -1, 2]):
        with pytest.raises(ValueError, match="repeat"):
            gp.repeat(x, bad, 0)


@given(data=st.data())
@SETTINGS
def test_tile(device, data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    counts = tuple(data.draw(st.lists(st.integers(0, 3), min_size=0, max_size=5)))
    host, x = both(shape, device)
    np.testing.assert_array_equal(gp.tile(x, counts).to_numpy(), np.tile(host, counts))


def test_tile_of_a_view_into_a_view(device):
    host, x = both((2, 3), device)
    out = gp.zeros((4, 6), dtype="int32", device=device)
    assert gp.tile(x.T, (2, 2), out=out.T) is not None
    np.testing.assert_array_equal(out.to_numpy(), np.tile(host.T, (2, 2)).T)
    np.testing.assert_array_equal(gp.tile(x, 3).to_numpy(), np.tile(host, 3))
    with pytest.raises(ValueError):
        gp.tile(x, (-1,))


@given(data=st.data())
@SETTINGS
def test_roll(device, data):
    shape = data.draw(SHAPES)
    host, x = both(shape, device)
    if data.draw(st.booleans()):
        shift, axis = data.draw(st.integers(-9, 9)), data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    else:
        axis = tuple(data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=3)))
        shift = tuple(data.draw(st.integers(-9, 9)) for _ in axis)
    np.testing.assert_array_equal(gp.roll(x, shift, axis).to_numpy(), np.roll(host, shift, axis))


def test_roll_in_place_and_errors(device):
    host, x = both((3, 4), device)
    assert gp.roll(x, 1, 1, out=x) is x
    np.testing.assert_array_equal(x.to_numpy(), np.roll(host, 1, 1))
    with pytest.raises(ValueError, match="roll"):
        gp.roll(x, (1, 2))
    with pytest.raises(ValueError, match="roll"):
        gp.roll(x, (1, 2, 3), (0, 1))
    with pytest.raises(IndexError):
        gp.roll(x, 1, 5)


@given(data=st.data())
@SETTINGS
def test_pad(device, data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    host, x = both(shape, device)
    mode = data.draw(st.sampled_from(["constant", "edge", "reflect"]))
    widths = tuple((data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))) for _ in shape)
    extra = {"constant_values": -7} if mode == "constant" else {}
    expected = np.pad(host, widths, mode, **extra)
    np.testing.assert_array_equal(gp.pad(x, widths, mode, **extra).to_numpy(), expected)
    # A strided input and a strided output.
    out = gp.empty(expected.shape[::-1], dtype="int32", device=device).T
    view = gp.flip(put(np.flip(host), device))
    assert gp.pad(view, widths, mode, out=out, **extra) is out
    np.testing.assert_array_equal(out.to_numpy(), expected)


def test_pad_forms_and_errors(device):
    host, x = both((2, 3), device)
    for widths in (2, (1, 2), ((1, 2),), ((0, 1), (2, 0))):
        np.testing.assert_array_equal(gp.pad(x, widths).to_numpy(), np.pad(host, widths))
    empty = gp.zeros((0, 2), device=device)
    np.testing.assert_array_equal(gp.pad(empty, ((1, 1), (0, 0)), constant_values=3.5).to_numpy(), np.full((2, 2), 3.5))
    for call in (
        lambda: gp.pad(x, -1),
        lambda: gp.pad(x, ((1, 1), (1, 1), (1, 1))),
        lambda: gp.pad(x, ((1, 1, 1),)),
        lambda: gp.pad(x, 1, mode="wrap"),
        lambda: gp.pad(empty, 1, mode="edge"),
        lambda: gp.pad(x, 1, constant_values=2**40),
    ):
        with pytest.raises(ValueError, match="pad"):
            call()


def test_contiguous(device):
    host, x = both((3, 4), device)
    assert gp.contiguous(x) is x
    dense = gp.contiguous(x.T)
    assert dense.is_contiguous()
    np.testing.assert_array_equal(dense.to_numpy(), host.T)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int64"])
def test_names_of_the_02_series(device, dtype):
    host3, x3 = both((2, 3, 4), device, dtype)
    host4, x4 = both((2, 3, 4, 5), device, dtype)
    table = [
        (gp.transpose_3d_021, x3, host3, (1, 0, 2)),
        (gp.transpose_3d_012, x3, host3, (0, 2, 1)),
        (gp.transpose_4d_0213, x4, host4, (0, 2, 1, 3)),
        (gp.transpose_4d_0132, x4, host4, (0, 1, 3, 2)),
    ]
    for op, x, host, axes in table:
        expected = host.transpose(axes)
        got = op(x)
        assert got.is_contiguous()
        np.testing.assert_array_equal(got.to_numpy(), expected)
        out = gp.zeros(expected.shape, dtype=dtype, device=device)
        assert op(x, out=out) is out
        np.testing.assert_array_equal(out.to_numpy(), expected)
        with pytest.raises(ValueError, match="dimension"):
            op(gp.ravel(x))
        with pytest.raises(ValueError, match="out"):
            op(x, out=gp.ravel(out))
    np.testing.assert_array_equal(gp.concat_axis0(x3, x3[:1]).to_numpy(), np.concatenate([host3, host3[:1]]))
    np.testing.assert_array_equal(gp.repeat_interleave_axis1(x3, 2).to_numpy(), np.repeat(host3, 2, axis=1))
    np.testing.assert_array_equal(gp.reshape_copy(x3, (4, 6)).to_numpy(), host3.reshape(4, 6))
    np.testing.assert_array_equal(
        gp.reshape_copy(x3.transpose(2, 0, 1), (6, 4)).to_numpy(), host3.transpose(2, 0, 1).reshape(6, 4)
    )
    out = gp.zeros((24,), dtype=dtype, device=device)
    assert gp.reshape_copy(x3, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), host3.ravel())
    gp.reshape_copy(x3, (24,))[...] = 0
    np.testing.assert_array_equal(x3.to_numpy(), host3)


def test_errors_of_the_02_series(device):
    _, x = both((2, 3), device)
    for call in (
        lambda: gp.concat_axis0(x, gp.zeros((2, 3), device=device)),
        lambda: gp.concat_axis0(x, x.T),
        lambda: gp.repeat_interleave_axis1(x, 2),
        lambda: gp.reshape_copy(x),
        lambda: gp.reshape_copy(x, (5,)),
        lambda: gp.reshape_copy(x, (6,), out=gp.zeros((5,), dtype="int32", device=device)),
    ):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3", "float8_e5m2", "int4", "float4_e2m1"])
def test_storage_dtypes_move_bit_by_bit(device, name):
    bits = np.arange(24, dtype="uint16" if name == "bfloat16" else "uint8").reshape(4, 6)
    x = gp.bitcast(put(bits, device), getattr(gp, name))
    np.testing.assert_array_equal(gp.concat([x, x[::-1]]).to_numpy(), np.concatenate([bits, bits[::-1]]))
    np.testing.assert_array_equal(gp.repeat(x, 2, 1).to_numpy(), np.repeat(bits, 2, 1))
    np.testing.assert_array_equal(gp.tile(x, (2, 1)).to_numpy(), np.tile(bits, (2, 1)))
    np.testing.assert_array_equal(gp.roll(x, 1, 0).to_numpy(), np.roll(bits, 1, 0))
    np.testing.assert_array_equal(gp.pad(x, 2, "reflect").to_numpy(), np.pad(bits, 2, "reflect"))
