"""Indexing against NumPy: reads and writes through basic, integer and boolean keys, on every device present."""

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
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
DTYPES = ["bool", "int8", "uint16", "int32", "float32", "float64", "complex64", "complex128"]


def counting(shape, dtype="int32"):
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)


def put(array, device):
    return gp.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)), device=device)


def move_key(key, device):
    """The same key with its NumPy arrays on the device."""
    if isinstance(key, tuple):
        return tuple(move_key(item, device) for item in key)
    return put(key, device) if isinstance(key, np.ndarray) else key


@st.composite
def slices(draw, size):
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.integers(-3, 3).filter(lambda s: s != 0)
    return slice(draw(bound), draw(bound), draw(step))


@st.composite
def array_keys(draw, shape):
    """A key with at least one integer array or mask, mixed with everything else NumPy takes."""
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4))
    items = []
    axis = 0
    masks = draw(st.booleans())
    ellipsis_at = draw(st.integers(0, len(shape)) | st.none())
    while axis < len(shape):
        if ellipsis_at == axis:
            items.append(Ellipsis)
            ellipsis_at = None
            skipped = draw(st.integers(0, len(shape) - axis))
            # What the ellipsis covers is settled by the items after it.
            axis += skipped
            continue
        size = shape[axis]
        kinds = ["slice", "newaxis"]
        if size > 0:
            kinds += ["int", "array", "array"]
        if masks:
            kinds.append("mask")
        kind = draw(st.sampled_from(kinds))
        if kind == "newaxis":
            if sum(item is None for item in items) < 2:
                items.append(None)
            continue
        if kind == "slice":
            items.append(draw(slices(size)))
        elif kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "array":
            own = tuple(side if draw(st.booleans()) else 1 for side in common)
            own = own[draw(st.integers(0, len(own))) :]
            dtype = draw(st.sampled_from(["int64", "int32", "int8", "uint8"]))
            low = 0 if dtype == "uint8" else -size
            items.append(draw(hnp.arrays(dtype, own, elements=st.integers(low, size - 1))))
        else:
            rank = draw(st.integers(1, len(shape) - axis))
            items.append(draw(hnp.arrays("bool", shape[axis : axis + rank])))
            masks = False
            axis += rank
            continue
        axis += 1
    return tuple(items)


@given(data=st.data())
@SETTINGS
def test_basic_keys_read_and_write_views(device, data):
    shape = data.draw(SHAPES)
    host = counting(shape)
    key = data.draw(hnp.basic_indices(shape, max_dims=6, allow_newaxis=True))
    x = put(host, device)
    view = x[key]
    assert view.shape == np.shape(host[key])
    np.testing.assert_array_equal(view.to_numpy(), host[key])
    view[...] = -1
    host[key] = -1
    np.testing.assert_array_equal(x.to_numpy(), host)


@given(data=st.data())
@SETTINGS
def test_array_keys_read_as_numpy(device, data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    host = counting(shape, data.draw(st.sampled_from(DTYPES)))
    key = data.draw(array_keys(shape))
    x = put(host, device)
    try:
        expected = host[key]
    except (IndexError, ValueError):
        with pytest.raises((IndexError, ValueError)):
            x[move_key(key, device)]
        return
    got = x[move_key(key, device)]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.to_numpy(), expected)


@given(data=st.data())
@SETTINGS
def test_array_keys_write_in_index_order(device, data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    host = counting(shape)
    key = data.draw(array_keys(shape))
    try:
        places = np.arange(host.size).reshape(shape)[key]
    except (IndexError, ValueError):
        return
    kind = data.draw(st.sampled_from(["scalar", "full", "broadcast"]))
    if kind == "scalar":
        values = 77
    else:
        own = places.shape
        if kind == "broadcast":
            own = tuple(side if data.draw(st.booleans()) else 1 for side in own)
            own = own[data.draw(st.integers(0, len(own))) :]
        values = 1000 + counting(own, data.draw(st.sampled_from(["int32", "int64", "float32"])))
    expected = host.copy()
    flat = expected.reshape(-1)
    for place, value in zip(places.ravel(), np.broadcast_to(values, places.shape).ravel(), strict=True):
        flat[place] = value
    x = put(host, device)
    x[move_key(key, device)] = values if kind == "scalar" else put(values, device)
    np.testing.assert_array_equal(x.to_numpy(), expected)


@given(data=st.data())
@SETTINGS
def test_keys_on_strided_arrays(device, data):
    host = counting((4, 5, 6))[::-1, 1:4, ::2].transpose(2, 0, 1)
    x = put(counting((4, 5, 6)), device)[::-1, 1:4, ::2].transpose(2, 0, 1)
    key = data.draw(array_keys(host.shape))
    try:
        expected = host[key]
    except (IndexError, ValueError):
        return
    np.testing.assert_array_equal(x[move_key(key, device)].to_numpy(), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "uint8", "int64", "uint64"])
def test_every_width_moves(device, dtype):
    host = counting((7, 33), "int64").astype(dtype)
    x = put(host, device)
    rows = np.array([6, 0, -1, 3, 3])
    np.testing.assert_array_equal(x[put(rows, device)].to_numpy(), host[rows])
    np.testing.assert_array_equal(x[:, put(rows, device)].to_numpy(), host[:, rows])
    x[put(rows, device)] = x[put(rows, device)][:, ::-1]
    host[rows] = host[rows][:, ::-1]
    np.testing.assert_array_equal(x.to_numpy(), host)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3", "float8_e5m2", "int4", "float4_e2m1"])
def test_storage_dtypes_move_bit_by_bit(device, name):
    dtype = getattr(gp, name)
    bits = np.arange(48, dtype="uint16" if name == "bfloat16" else "uint8").reshape(6, 8)
    x = gp.bitcast(put(bits, device), dtype)
    np.testing.assert_array_equal(x[put(np.array([5, 1]), device)].to_numpy(), bits[[5, 1]])
    np.testing.assert_array_equal(x[1:3, ::-1].to_numpy(), bits[1:3, ::-1])
    x[put(np.array([0]), device)] = x[5]
    np.testing.assert_array_equal(x[0].to_numpy(), bits[5])


def test_host_lists_and_numpy_keys_are_taken(device):
    host = counting((4, 5))
    x = put(host, device)
    np.testing.assert_array_equal(x[[1, 3]].to_numpy(), host[[1, 3]])
    np.testing.assert_array_equal(x[[[0], [2]], [1, 4]].to_numpy(), host[[[0], [2]], [1, 4]])
    np.testing.assert_array_equal(x[np.array([True, False, True, False])].to_numpy(), host[[0, 2]])
    np.testing.assert_array_equal(x[np.int64(2), np.uint8(1)].to_numpy(), host[2, 1])
    np.testing.assert_array_equal(x[[]].to_numpy(), host[[]])
    np.testing.assert_array_equal(x[[True, False, False, True], 1:].to_numpy(), host[[True, False, False, True], 1:])
    x[[0, 1], [2, 3]] = 9
    host[[0, 1], [2, 3]] = 9
    np.testing.assert_array_equal(x.to_numpy(), host)


def test_truth_values_add_an_axis(device):
    host = counting((2, 3))
    x = put(host, device)
    for key in (True, False, np.bool_(True), (0, True), (slice(None), False)):
        assert x[key].shape == host[key].shape
        np.testing.assert_array_equal(x[key].to_numpy(), host[key])


def test_zero_d_index_arrays_act_as_integers(device):
    host = counting((3, 4, 5))
    x = put(host, device)
    two = put(np.array(2), device)
    np.testing.assert_array_equal(x[two].to_numpy(), host[2])
    np.testing.assert_array_equal(x[:, two, [0, 1]].to_numpy(), host[:, 2, [0, 1]])
    np.testing.assert_array_equal(x[two, :, [0, 1]].to_numpy(), host[2, :, [0, 1]])


def test_basic_reads_share_memory_and_array_reads_do_not(device):
    x = put(counting((4, 4)), device)
    x[1:3][:, ::2][0, 0] = 100
    assert x[1, 0].item() == 100
    copied = x[[1]]
    copied[...] = 0
    assert x[1, 0].item() == 100


def test_mask_with_one_value_covers_every_layout(device):
    host = counting((3, 4, 5)).astype("float32")
    mask = host % 3 == 0
    x = put(host, device)
    x[put(mask, device)] = -1
    host[mask] = -1
    np.testing.assert_array_equal(x.to_numpy(), host)
    x[:, put(mask[0, :, 0], device)] = put(np.array([[2.5]], dtype="float32"), device)
    host[:, mask[0, :, 0]] = 2.5
    np.testing.assert_array_equal(x.to_numpy(), host)
    x.transpose(2, 1, 0)[put(mask.T.copy(), device)] = 7
    host[mask] = 7
    np.testing.assert_array_equal(x.to_numpy(), host)


def test_mask_with_values_fills_in_order(device):
    host = np.zeros((3, 4), dtype="int64")
    mask = counting((3, 4)) % 2 == 1
    x = put(host, device)
    x[put(mask, device)] = put(np.arange(6), device)
    host[mask] = np.arange(6)
    np.testing.assert_array_equal(x.to_numpy(), host)
    with pytest.raises(ValueError):
        x[put(mask, device)] = put(np.arange(5), device)


@pytest.mark.parametrize("count", [5, 64, 65, 4097])
def test_last_of_equal_indices_stays(device, count):
    rng = np.random.default_rng(count)
    where = rng.integers(0, 11, count)
    values = np.arange(count * 6).reshape(count, 6)
    expected = np.full((11, 6), -1)
    for i, row in enumerate(where):
        expected[row] = values[i]
    for _ in range(5):
        x = put(np.full((11, 6), -1), device)
        x[put(where, device)] = put(values, device)
        np.testing.assert_array_equal(x.to_numpy(), expected)
    x = put(np.full((6, 11), -1), device)
    gp.put_along_axis(x, put(np.broadcast_to(where, (6, count)), device), put(values.T, device), axis=1)
    np.testing.assert_array_equal(x.to_numpy(), expected.T)


def test_setitem_casts_to_the_array(device):
    x = gp.zeros((4,), dtype="int32", device=device)
    x[0] = 2.9
    x[1:3] = put(np.array([3.7, -3.7]), device)
    x[[3]] = put(np.array([1.5], dtype="float32"), device)
    np.testing.assert_array_equal(x.to_numpy(), [2, 3, -3, 1])
    x[put(np.array([False, True, False, False]), device)] = 8.9
    assert x[1].item() == 8


def test_setitem_allows_leading_ones_and_refuses_the_rest(device):
    x = gp.zeros((2, 3), device=device)
    x[0] = put(np.ones((1, 1, 3), dtype="float32"), device)
    np.testing.assert_array_equal(x.to_numpy(), [[1, 1, 1], [0, 0, 0]])
    with pytest.raises(ValueError, match="setitem"):
        x[0] = put(np.ones(2, dtype="float32"), device)
    with pytest.raises(ValueError, match="setitem"):
        x[[0]] = put(np.ones((2, 3), dtype="float32"), device)
    with pytest.raises(TypeError):
        x[0] = "one"


def test_overlapping_assignments_read_before_they_write(device):
    host = np.arange(10)
    x = put(host, device)
    x[2:] = x[:-2]
    host[2:] = host[:-2].copy()
    np.testing.assert_array_equal(x.to_numpy(), host)
    x[::-1] = x
    np.testing.assert_array_equal(x.to_numpy(), host[::-1])
    y = put(np.array([3, 2, 1, 0]), device)
    y[y] = y[::-1]
    np.testing.assert_array_equal(y.to_numpy(), [3, 2, 1, 0][::1])


def test_in_place_operators_on_keys(device):
    host = counting((3, 4))
    x = put(host, device)
    x[1] += 5
    x[:, ::2] *= 2
    host[1] += 5
    host[:, ::2] *= 2
    np.testing.assert_array_equal(x.to_numpy(), host)


@pytest.mark.parametrize(
    "key", [3, -4, (0, 4), (0, 0, 0), (Ellipsis, Ellipsis), ([0], [0], [0]), "a", 1.5, ([0.5],), np.array([1.0])]
)
def test_bad_keys_raise_index_error(device, key):
    x = put(counting((3, 4)), device)
    with pytest.raises(IndexError):
        x[key]
    with pytest.raises(IndexError):
        x[key] = 0


def test_mask_of_another_shape_raises(device):
    x = put(counting((3, 4)), device)
    with pytest.raises(IndexError, match="mask"):
        x[put(np.array([True, False]), device)]
    with pytest.raises(ValueError):
        x[put(np.array([0, 1]), device), put(np.array([0, 1, 2]), device)]


def test_bad_index_values_are_skipped_and_raise_at_the_next_wait(device):
    x = put(np.arange(1, 6), device)
    got = gp.take(x, put(np.array([0, 7, -1, -6]), device))
    with pytest.raises(IndexError, match=r"take: index (7|-6) is out of range for an axis of size 5"):
        got.to_numpy()
    np.testing.assert_array_equal(got.to_numpy(), [1, 0, 5, 0])
    x[put(np.array([1, 99]), device)] = 50
    with pytest.raises(IndexError, match="setitem: index 99 is out of range for an axis of size 5"):
        x.to_numpy()
    np.testing.assert_array_equal(x.to_numpy(), [1, 50, 3, 4, 5])
    bad = x[put(np.array([5]), device)]
    with pytest.raises(IndexError, match="getitem: index 5"):
        bad.to_numpy()
    bad = gp.gather(x, put(np.array([-7]), device))
    with pytest.raises(IndexError, match="gather: index -7 is out of range for an axis of size 5"):
        bad.to_numpy()
    gp.put_along_axis(x, put(np.array([-9, 0]), device), 3, axis=0)
    with pytest.raises(IndexError, match="scatter: index -9"):
        x.to_numpy()
    assert x[0].item() == 3


def test_reads_and_writes_inside_a_graph(device):
    rows = put(np.array([3, 5, 3]), device)
    odd = put(np.arange(8) % 2 == 1, device)
    values = put(counting((3, 4)), device)
    x = gp.zeros((8, 4), dtype="int32", device=device)
    taken = gp.zeros((3, 4), dtype="int32", device=device)

    def work():
        x[rows] = values
        x[:, 1:3] = -1
        x[odd] = 7
        gp.put_along_axis(x, put_rows, 9, axis=0)
        gp.take(x, rows, 0, out=taken)

    put_rows = put(np.zeros((1, 4), dtype="int64"), device)
    work()
    expected_x, expected_taken = x.to_numpy(), taken.to_numpy()
    x.fill(0)
    taken.fill(0)
    graph = gp.CudaGraph()
    with graph.capture():
        work()
    graph.replay()
    np.testing.assert_array_equal(taken.to_numpy(), expected_taken)
    np.testing.assert_array_equal(x.to_numpy(), expected_x)
    assert graph.verify()


def test_results_of_unknown_size_raise_inside_a_graph(device):
    x = put(counting((4,)), device)
    mask = put(np.array([True, False, True, False]), device)
    for call in (
        lambda: gp.nonzero(x),
        lambda: gp.argwhere(x),
        lambda: x[mask],
        lambda: gp.compress(mask, x),
        lambda: x.__setitem__(mask, x[:2]),
    ):
        graph = gp.CudaGraph()
        with pytest.raises(RuntimeError, match="nonzero: waits for the device"):
            with graph.capture():
                call()
    np.testing.assert_array_equal(x.to_numpy(), counting((4,)))
