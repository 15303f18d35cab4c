"""scatter_add: sums in index order, the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp


def reference(x, indices, values, axis):
    axis %= x.ndim
    others = np.broadcast_shapes(
        tuple(1 if k == axis else v for k, v in enumerate(x.shape)),
        tuple(1 if k == axis else v for k, v in enumerate(indices.shape)),
    )
    full = tuple(x.shape[k] if k == axis else v for k, v in enumerate(others))
    index = tuple(indices.shape[k] if k == axis else v for k, v in enumerate(others))
    out = np.broadcast_to(x, full).copy()
    places = list(np.indices(index))
    places[axis] = np.broadcast_to(indices, index)
    np.add.at(out, tuple(places), np.broadcast_to(values, index))
    return out


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_matches_numpy(device, rng, dtype, axis):
    for shape, count in (((7, 9), 33), ((1, 1), 3), ((3, 0), 0), ((5, 4, 3), 1025), ((2, 600), 5)):
        rank = len(shape)
        at = axis % rank
        x = rng.integers(-9, 9, shape).astype("int64").astype(dtype)
        wanted = tuple(count if k == at else v for k, v in enumerate(shape))
        indices = rng.integers(-shape[at], max(shape[at], 1), wanted) if shape[at] else np.zeros(wanted, "int64")
        if indices.size and not shape[at]:
            continue
        values = rng.integers(-9, 9, wanted).astype("int64").astype(dtype)
        got = gp.scatter_add(gp.asarray(x), gp.asarray(indices), gp.asarray(values), axis=axis)
        np.testing.assert_array_equal(got.to_numpy(), reference(x, indices, values, axis))


def test_broadcasting_and_numbers(device):
    x = gp.zeros((2, 4))
    assert gp.scatter_add(x, gp.asarray([[0, 0, -1]]), 1.5).tolist() == [[3, 0, 0, 1.5]] * 2
    assert gp.scatter_add(x, gp.asarray([[0], [3]]), gp.asarray([[1], [2]])).tolist() == [[1, 0, 0, 0], [0, 0, 0, 2]]
    assert x.tolist() == [[0] * 4] * 2


def test_sums_of_16_bits_are_float32(device):
    for dtype in ("float16", "bfloat16"):
        x, indices = gp.zeros(2, dtype=dtype), gp.zeros(4096, dtype=gp.int32)
        assert gp.scatter_add(x, indices, gp.ones(4096, dtype=dtype)).tolist() == [4096, 0]


def test_the_same_bits_every_time(device, rng):
    x, values = gp.zeros(64), gp.asarray(rng.normal(size=50000).astype("float32"))
    indices = gp.asarray(rng.integers(0, 64, 50000))
    first = gp.scatter_add(x, indices, values).to_numpy()
    for _ in range(3):
        assert gp.scatter_add(x, indices, values).to_numpy().tobytes() == first.tobytes()
    assert gp.scatter_add(x.to("cpu"), indices.to("cpu"), values.to("cpu")).to_numpy().tobytes() == first.tobytes()


def test_refusals(device):
    x, i = gp.zeros((2, 3)), gp.zeros((2, 1), dtype=gp.int64)
    with pytest.raises(IndexError, match="scatter_add"):
        gp.scatter_add(x, i + 3, 1.0).to_numpy()
    with pytest.raises(ValueError, match="scatter_add: indices"):
        gp.scatter_add(x, i[0], 1.0)
    with pytest.raises(ValueError, match="scatter_add: indices must broadcast to the other axes of x"):
        gp.scatter_add(gp.zeros((1, 3)), i, 1.0)
    with pytest.raises(ValueError, match="scatter_add: .*broadcast"):
        gp.scatter_add(x, i, gp.ones((5, 5)))
    with pytest.raises(TypeError, match="scatter_add: x must have a number's dtype"):
        gp.scatter_add(x > 0, i, True)
    with pytest.raises(TypeError):
        gp.scatter_add(x, gp.zeros((2, 1)), 1.0)
