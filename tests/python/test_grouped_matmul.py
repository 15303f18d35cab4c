"""Mixtures of experts: rows by the matrices of their experts, against float64 and, to the bit, against separate products."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import download

import pygpukit as gp

# rows, k, n, experts. Weights in 16 bits or float8 that the copy engine of a GPU reads where k is a multiple of 16.
SHAPES = [
    (1, 64, 64, 1),
    (3, 128, 72, 8),
    (40, 272, 200, 5),
    (64, 512, 1408, 64),
    (129, 80, 130, 1),
    (300, 144, 256, 7),
    (1000, 528, 392, 6),
    (2100, 64, 264, 300),
    (50, 40, 33, 4),
    (50, 37, 24, 4),
]
BOUND = {"float16": 2e-3, "bfloat16": 1.2e-2, "float32": 1e-4}


def make(rng, shape, dtype):
    return gp.from_numpy(rng.standard_normal(shape).astype(np.float32)).astype(dtype)


def exact(x, w, ids):
    result = np.zeros((len(x), w.shape[1]))
    for e in range(len(w)):
        result[ids == e] = x[ids == e] @ w[e].T
    return result


def close(got, want, dtype):
    scale = np.abs(want).max() + 1e-30
    np.testing.assert_allclose(download(got).astype(np.float64), want, rtol=BOUND[dtype], atol=BOUND[dtype] * scale)


def numbers(x):
    return x.to_numpy(dtype="float64")


def shares_bits(device):
    """Whether grouped rows have the sums of matmul: the CPU, and sm_90."""
    return device.kind == "cpu" or gp.get_device_info().compute_capability[0] == 9


def draws(rng, m, experts):
    """Ids at random, sorted, of one expert, and of every second expert."""
    ids = rng.integers(0, experts, m).astype(np.int32)
    yield ids
    yield np.sort(ids)
    yield np.full(m, experts - 1, np.int32)
    yield ids // 2 * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_float64(device, rng, shape, dtype):
    m, k, n, experts = shape
    x, w = make(rng, (m, k), dtype), make(rng, (experts, n, k), dtype)
    for ids in draws(rng, m, experts):
        got = gp.grouped_matmul(x, w, gp.from_numpy(ids))
        assert got.dtype.name == dtype
        close(got, exact(numbers(x), numbers(w), ids), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] % 8 == 0], ids=str)
def test_bits_of_separate_products(device, rng, shape, dtype):
    if not shares_bits(device):
        pytest.skip("grouped rows have sums of their own here")
    m, k, n, experts = shape
    x, w = make(rng, (m, k), dtype), make(rng, (experts, n, k), dtype)
    ids = rng.integers(0, experts, m).astype(np.int32)
    got = download(gp.grouped_matmul(x, w, gp.from_numpy(ids)))
    with gp.determinism("batch_invariant"):
        np.testing.assert_array_equal(download(gp.grouped_matmul(x, w, gp.from_numpy(ids))), got)
        for e in np.unique(ids)[:20]:
            rows = np.flatnonzero(ids == e).astype(np.int64)
            wanted = gp.matmul(gp.take(x, gp.from_numpy(rows), axis=0), w[int(e)].T)
            np.testing.assert_array_equal(got[rows], download(wanted))


@pytest.mark.parametrize("out_dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "blocks", [("tensor", "tensor"), ("row", "row"), ("tensor", "row"), (128, (128, 128))], ids=str
)
@pytest.mark.parametrize("format", ["fp8_e4m3", "fp8_e5m2"])
def test_float8(device, rng, format, blocks, out_dtype):
    for m, k, n, experts in [(70, 256, 136, 3), (300, 400, 256, 5), (40, 144, 132, 4), (40, 150, 33, 4)]:
        x, w = make(rng, (m, k), "float32"), make(rng, (experts, n, k), "float32")
        a, scale_a = gp.quantize(x, format, block=blocks[0])
        parts = [gp.quantize(w[e], format, block=blocks[1]) for e in range(experts)]
        b = gp.bitcast(gp.stack([gp.bitcast(codes, "uint8") for codes, _ in parts]), parts[0][0].dtype)
        scale_b = gp.stack([scale for _, scale in parts])
        if blocks[1] == "tensor":
            scale_b = scale_b.reshape(experts, 1, 1)
        bias = None if blocks[0] == 128 else make(rng, (n,), out_dtype)
        ids = rng.integers(0, experts, m).astype(np.int32)
        got = download(gp.grouped_matmul(a, b, gp.from_numpy(ids), scale_a, scale_b, bias=bias, out_dtype=out_dtype))
        for e in range(experts):
            rows = np.flatnonzero(ids == e)
            index = gp.from_numpy(rows.astype(np.int64))
            taken = gp.bitcast(gp.take(gp.bitcast(a, "uint8"), index, axis=0), a.dtype)
            taken_scale = scale_a if blocks[0] == "tensor" else gp.take(scale_a, index, axis=0)
            with gp.determinism("batch_invariant"):
                wanted = gp.scaled_matmul(taken, b[e], taken_scale, parts[e][1], bias=bias, out_dtype=out_dtype)
            np.testing.assert_array_equal(got[rows], download(wanted))


def test_strides(device, rng):
    m, k, n, experts = 90, 128, 136, 4
    x, w = make(rng, (k, m), "bfloat16"), make(rng, (experts, n, k), "bfloat16")
    ids = gp.from_numpy(np.repeat(rng.integers(0, experts, m), 2).astype(np.int32))[::2]
    wanted = download(gp.grouped_matmul(x.T.copy(), w, ids.copy()))
    np.testing.assert_array_equal(download(gp.grouped_matmul(x.T, w, ids)), wanted)
    with gp.determinism("batch_invariant"):
        np.testing.assert_array_equal(download(gp.grouped_matmul(x.T, w, ids)), wanted)
    for out in (
        gp.zeros((n, m), "bfloat16").T,
        gp.zeros((m, n + 1), "bfloat16")[:, 1:],
        gp.zeros((m, 2 * n), "bfloat16")[:, ::2],
    ):
        assert gp.grouped_matmul(x.T, w, ids, out=out) is out
        np.testing.assert_array_equal(download(out.copy()), wanted)
    # Rows that start between multiples of 16 bytes.
    shifted = make(rng, (m, k + 1), "bfloat16")
    shifted[:, 1:] = x.T
    np.testing.assert_array_equal(download(gp.grouped_matmul(shifted[:, 1:], w, ids)), wanted)


def test_no_rows(device):
    got = gp.grouped_matmul(gp.zeros((0, 64), "bfloat16"), gp.zeros((4, 32, 64), "bfloat16"), gp.zeros((0,), "int32"))
    assert got.shape == (0, 32)


@pytest.mark.parametrize("m", [9, 700])
def test_bad_ids_give_rows_of_zeros(device, rng, m):
    k, n, experts = 64, 72, 3
    x, w = make(rng, (m, k), "float16"), make(rng, (experts, n, k), "float16")
    ids = rng.integers(0, experts, m).astype(np.int32)
    good = download(gp.grouped_matmul(x, w, gp.from_numpy(ids)))
    bad = ids.copy()
    bad[[1, m // 2, m - 1]] = experts, -1, 1 << 30
    out = gp.ones((m, n), "float16")
    gp.grouped_matmul(x, w, gp.from_numpy(bad), out=out)
    with pytest.raises(IndexError, match="grouped_matmul"):
        out.to_numpy()
    wanted = good.copy()
    wanted[bad != ids] = 0
    np.testing.assert_array_equal(download(out), wanted)


@pytest.mark.parametrize("m", [40, 200])
def test_graph(device, rng, m):
    k, n, experts = 64, 136, 5
    x, w = make(rng, (m, k), "bfloat16"), make(rng, (experts, n, k), "bfloat16")
    ids, others = (gp.from_numpy(rng.integers(0, experts, m).astype(np.int32)) for _ in range(2))
    out, other_out = (gp.zeros((m, n), "bfloat16") for _ in range(2))
    graph = gp.CudaGraph()
    graph.begin_capture()
    gp.grouped_matmul(x, w, ids, out=out)
    gp.grouped_matmul(x, w, others, out=other_out)
    graph.end_capture()
    for _ in range(2):
        ids[:] = gp.from_numpy(rng.integers(0, experts, m).astype(np.int32))
        graph.replay()
        graph.synchronize()
        np.testing.assert_array_equal(download(out), download(gp.grouped_matmul(x, w, ids)))
        np.testing.assert_array_equal(download(other_out), download(gp.grouped_matmul(x, w, others)))


def test_explain(device):
    ids = gp.zeros((300,), "int32")
    text = gp.explain_grouped_matmul(gp.zeros((300, 64), "bfloat16"), gp.zeros((4, 72, 64), "bfloat16"), ids)
    start = f"[300, 64] of bfloat16 by experts [4, 72, 64] of bfloat16 into bfloat16 on {device}: "
    assert text.startswith(start)
    if device.kind == "cpu":
        assert text == start + "row by row"
    elif shares_bits(device):
        assert "wgmma" in text and "by experts" in text and "one accumulator" in text
        other = gp.explain_grouped_matmul(gp.zeros((300, 63), "bfloat16"), gp.zeros((4, 72, 63), "bfloat16"), ids)
        assert "CUDA cores" in other
        codes = gp.zeros((4, 72, 64), "float8_e4m3")
        assert "wgmma 128x128x128 by experts" in gp.explain_grouped_matmul(
            gp.zeros((300, 64), "float8_e4m3"), codes, ids
        )
    empty = gp.explain_grouped_matmul(gp.zeros((0, 64)), gp.zeros((4, 72, 64)), ids[:0])
    assert empty.endswith("nothing to compute")
    with pytest.raises(ValueError, match="explain_grouped_matmul: b must be 3D"):
        gp.explain_grouped_matmul(gp.zeros((300, 64)), gp.zeros((72, 64)), ids)


@pytest.mark.parametrize("m", [9, 700])
def test_rows_without_an_expert(device, rng, m):
    x, w = make(rng, (m, 64), "bfloat16"), make(rng, (3, 72, 64), "bfloat16")
    ids = rng.integers(0, 3, m).astype(np.int32)
    wanted = download(gp.grouped_matmul(x, w, gp.from_numpy(ids)))
    ids[::2] = -1
    wanted[::2] = 0
    out = gp.ones((m, 72), "bfloat16")
    np.testing.assert_array_equal(download(gp.grouped_matmul(x, w, gp.from_numpy(ids), out=out)), wanted)
    gp.synchronize()  # nothing to raise
