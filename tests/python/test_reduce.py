"""Reductions: what does not fit the common form."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, INTEGERS, download, upload

import pygpukit as gp


def bits(x):
    return x.to_numpy().tobytes()


def pairwise(values):
    """The documented tree in float32."""
    values = list(np.asarray(values, np.float32))
    while len(values) > 1:
        paired = [values[i] + values[i + 1] for i in range(0, len(values) - 1, 2)]
        values = paired + values[len(paired) * 2 :]
    return values[0]


@pytest.mark.parametrize("size", [1, 2, 3, 33, 1025, 4097])
def test_sum_is_the_documented_tree(device, rng, size):
    values = rng.normal(size=size).astype(np.float32)
    assert gp.sum(gp.from_numpy(values)).to_numpy() == pairwise(values)


@pytest.mark.parametrize("size", [1, 33, 1025, 5000])
def test_cumsum_equals_sums_of_prefixes(device, rng, size):
    x = gp.from_numpy(rng.normal(size=size).astype(np.float32))
    running = gp.cumsum(x)
    for i in {0, size // 3, size // 2, size - 1}:
        assert bits(running[i]) == bits(gp.sum(x[: i + 1]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_repeats_give_the_same_bits(device, rng, dtype):
    x = upload(rng.normal(size=(70001,)), dtype)
    y = upload(rng.normal(size=(500, 130)), dtype)
    first = None
    for _ in range(50):
        got = [bits(v) for v in (gp.sum(x), gp.mean(y, 0), gp.sum(y, 1), gp.var(x), gp.prod(y, 1), gp.cumsum(x))]
        first = first or got
        assert got == first


def test_a_row_does_not_depend_on_its_neighbours(device, rng):
    x = upload(rng.normal(size=(40, 3001)), "bfloat16")
    together = gp.sum(x, 1)
    assert all(bits(gp.sum(x[i : i + 1], 1)) == bits(together[i : i + 1]) for i in (0, 17, 39))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_cpu_and_gpu_agree_to_the_bit(rng, dtype, axis):
    with gp.device("cpu"):
        x = upload(rng.normal(size=(1025, 520)), dtype)
    for op in (gp.sum, gp.mean, gp.prod, gp.cumsum):
        assert bits(op(x, axis)) == bits(op(x.to("cuda"), axis))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("shape", [(5, 1559), (2, 4097), (70, 22), (33, 85), (2, 129), (9, 128), (3, 256), (3, 257), (1, 40003)])
def test_neither_start_nor_end_of_a_row_changes_a_bit(device, rng, dtype, shape):
    """Rows of odd width, at 16 bytes and beside them, short ones and long ones: the tree of the CPU."""
    values = (rng.standard_normal(shape) * 20).astype(dtype)
    dense = gp.from_numpy(values)
    wide = gp.zeros((shape[0], shape[1] + 3), dtype)
    wide[:, 1 : 1 + shape[1]] = dense
    shifted = wide[:, 1 : 1 + shape[1]]
    with gp.device("cpu"):
        host = gp.from_numpy(values)
    for op in (gp.sum, gp.max, gp.argmax, gp.cumsum):
        wanted = bits(op(host, 1))
        assert bits(op(dense, 1)) == wanted, op
        assert bits(op(shifted, 1)) == wanted, op
    assert bits(gp.var(dense, 1)) == bits(gp.var(shifted, 1))


def test_full_reductions_are_0d(device):
    x = gp.ones((2, 3))
    for op in (gp.sum, gp.mean, gp.prod, gp.max, gp.min, gp.argmax, gp.argmin, gp.any, gp.all, gp.var, gp.std):
        assert op(x).shape == ()
        assert op(x, keepdims=True).shape == (1, 1)
    assert gp.sum(x).item() == 6.0
    assert gp.sum(gp.full((), 3.0)).item() == 3.0


def test_integers_are_added_exactly(device):
    assert gp.sum(gp.full((1000,), 127, dtype="int8")).item() == 127000
    big = np.array([2**62, 2**62 - 1, -5], np.int64)
    assert gp.sum(gp.from_numpy(big)).item() == int(big.sum())
    assert gp.sum(gp.full((3,), 2**63, dtype="uint64")).item() == 2**63  # modulo 2**64
    assert gp.mean(gp.from_numpy(np.array([1, 2], np.int8))).item() == 1.5
    assert gp.sum(gp.ones((70001,), dtype="bool")).item() == 70001


@pytest.mark.parametrize(
    "given, wanted", [("float32", "float64"), ("int32", "int32"), ("bfloat16", "float32"), ("uint8", "float32")]
)
def test_dtype_converts_first(device, given, wanted):
    x = gp.ones((3, 4), dtype=given)
    for op in (gp.sum, gp.prod, gp.cumsum):
        assert op(x, 1, dtype=wanted).dtype.name == wanted
        np.testing.assert_array_equal(op(x, 1, dtype=wanted).to_numpy().ravel()[-1], 4 if op is not gp.prod else 1)


@pytest.mark.parametrize("offset", [0, 1e4, -1e6])
def test_variance_far_from_zero(device, rng, offset):
    values = (rng.normal(size=(50000,)) * (1 if abs(offset) < 1e5 else 100) + offset).astype(np.float32)
    reference = values.astype(np.float64)
    x = gp.from_numpy(values)
    np.testing.assert_allclose(gp.var(x).item(), reference.var(), rtol=1e-4)
    np.testing.assert_allclose(gp.std(x, correction=1).item(), reference.std(ddof=1), rtol=1e-4)
    assert bits(gp.var(x, ddof=2)) == bits(gp.var(x, correction=2))
    with pytest.raises(ValueError, match="ddof"):
        gp.var(x, correction=1, ddof=1)


def test_variance_of_too_few(device):
    assert np.isnan(gp.var(gp.ones((1,)), correction=1).item())
    assert gp.var(gp.ones((1,))).item() == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_variance_of_one_value_that_is_not_finite(device, dtype):
    x = upload(np.array([[np.nan], [np.inf], [-np.inf], [7]]), dtype)
    for op in (gp.var, gp.std):
        np.testing.assert_array_equal(download(op(x, axis=1)), [np.nan, np.nan, np.nan, 0])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("size", [1, 33, 1025, 70001])
def test_ties_give_the_first_index(device, dtype, size):
    x = upload(np.ones(size), dtype)
    assert gp.argmax(x).item() == 0
    assert gp.argmin(x).item() == 0
    values = np.ones(size)
    values[size // 2 :] = 3
    assert gp.argmax(upload(values, dtype)).item() == size // 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan(device, dtype):
    values = np.arange(3000.0) % 7
    values[[1234, 2000]] = np.nan
    x = upload(values, dtype)
    assert gp.argmax(x).item() == gp.argmin(x).item() == 1234
    for op in (gp.max, gp.min, gp.sum, gp.mean, gp.var):
        assert np.isnan(download(op(x)))
    assert gp.any(x).item() is True
    zeros = upload(np.array([0.0, -0.0]), dtype)
    assert gp.argmax(zeros).item() == gp.argmin(zeros).item() == 0
    assert gp.any(zeros).item() is False
    infinite = upload(np.array([-np.inf, -np.inf]), dtype)
    assert download(gp.max(infinite)) == -np.inf
    assert gp.argmax(infinite).item() == 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_extremes_of_integers(device, dtype):
    limits = np.iinfo(dtype)
    x = gp.from_numpy(np.array([5, limits.min, limits.max, 0], dtype))
    assert gp.max(x).item() == limits.max
    assert gp.min(x).item() == limits.min
    assert gp.argmax(x).item() == 2
    assert gp.argmin(x).item() == 1
    lowest = gp.from_numpy(np.full(50, limits.min, dtype))
    assert gp.max(lowest).item() == limits.min
    assert gp.argmax(lowest).item() == 0


def test_no_elements(device):
    x = gp.zeros((0, 3))
    assert gp.sum(x).item() == 0 and gp.prod(x).item() == 1
    assert np.isnan(gp.mean(x).item()) and np.isnan(gp.var(x).item())
    assert gp.any(x).item() is False and gp.all(x).item() is True
    np.testing.assert_array_equal(gp.sum(x, 0).to_numpy(), np.zeros(3))
    assert gp.max(x, 1).shape == (0,)
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(gp.errors.ArgumentError, match=f"^{name}: input must have at least one element"):
            getattr(gp, name)(x)


def test_axes_are_checked(device):
    x = gp.zeros((2, 3))
    with pytest.raises(IndexError, match="sum"):
        gp.sum(x, 2)
    with pytest.raises(ValueError, match="each axis once"):
        gp.sum(x, (0, -2))
    with pytest.raises(TypeError):
        gp.sum(x, "rows")
    with pytest.raises(TypeError):
        gp.argmax(x, (0, 1))
    with pytest.raises(ValueError, match="dimension"):
        gp.sum_axis(gp.zeros((2, 2, 2)), 0)
    with pytest.raises(ValueError, match="axis"):
        gp.sum_axis(x, 2)


def test_out_over_the_input(device, rng):
    values = rng.normal(size=(5, 7)).astype(np.float32)
    x = gp.from_numpy(values)
    expected = gp.sum(x, 0)
    gp.sum(x, 0, out=x[2])
    np.testing.assert_array_equal(x[2].to_numpy(), expected.to_numpy())
    y = gp.from_numpy(values)
    gp.cumsum(y, 1, out=y)
    np.testing.assert_allclose(y.to_numpy(), np.cumsum(values, 1), rtol=1e-5)
    z = gp.from_numpy(values[:, :5])
    gp.cumsum(z, 1, out=z.T)
    np.testing.assert_allclose(z.to_numpy().T, np.cumsum(values[:, :5], 1), rtol=1e-5)


def test_methods(device):
    x = gp.from_numpy(np.arange(6.0).reshape(2, 3))
    assert x.sum().item() == 15 and x.mean().item() == 2.5 and x.max().item() == 5 and x.argmax().item() == 5
    np.testing.assert_array_equal(x.sum(axis=0).to_numpy(), [3, 5, 7])


@pytest.mark.parametrize("shape, axis", [((1 << 20,), None), ((4096, 64), 0), ((64, 4096), 1)])
def test_graphs_need_no_memory(device, rng, shape, axis):
    x = gp.from_numpy(rng.normal(size=shape).astype(np.float32))
    expected = {name: getattr(gp, name)(x, axis) for name in ("sum", "max", "argmax", "var", "cumsum")}
    outs = {name: gp.zeros(value.shape, dtype=value.dtype) for name, value in expected.items()}
    graph = gp.CudaGraph()
    with graph.capture():
        for name, out in outs.items():
            getattr(gp, name)(x, axis, out=out)
    for _ in range(2):
        graph.replay()
    graph.synchronize()
    for name, out in outs.items():
        assert bits(out) == bits(expected[name]), name


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int32"])
def test_full_sums_on_many_streams_at_once(device, rng, dtype):
    """The last block of each merges: what two streams count must not mix."""
    arrays = [upload(rng.normal(size=300_000 + 4096 * i) * 9, dtype) for i in range(4)]
    alone = [bits(gp.sum(x)) for x in arrays]
    streams = [gp.Stream() for _ in arrays]
    gp.synchronize()
    for _ in range(20):
        results = []
        for x, stream in zip(arrays, streams, strict=True):
            with stream:
                results.append(gp.sum(x))
        gp.synchronize()
        assert [bits(r) for r in results] == alone
