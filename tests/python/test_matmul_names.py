"""The names of 0.2 for quantised products: layouts, dtypes, errors, second names."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
from opcase import download

import pygpukit as gp
from pygpukit.ops.matmul import (
    fp8_fp8_get_scale_sizes,
    fp8_get_sizes,
    gemv_bf16,
    gemv_fp8_bf16,
    gemv_fp8_bf16_batched,
    gemv_nvf4_bf16,
    grouped_gemm_fp8_bf16,
    matmul_fp8,
    matmul_fp8_fp8_blockwise_sm120,
    matmul_fp8_fp8_sm120,
    matmul_nvf4_bf16_sm120,
    nvf4_get_sizes,
    quantize_bf16_to_nvf4,
    w8a16_gemm_sm120,
)

names = sys.modules["pygpukit.ops.matmul"]

# Names of 0.2 that are another name's function.
SAME = {
    "fp8_available": """fp8_sm90_available fp8_sm100_available fp8_sm120_available fp8_fp8_sm120_available
        nvf4_bf16_sm120_available gemv_nvf4_available gemm_fp8_available gemm_fp8_f32_sm90_available
        gemm_fp8_f32_sm100_available gemm_fp8_f32_sm120_available gemm_fp8_fp8_sm120_available
        gemm_nvf4_bf16_sm120_available gemv_nvf4_bf16_sm120_available""",
    "matmul_fp8": """matmul_fp8_sm90 matmul_fp8_sm100 matmul_fp8_sm120 gemm_fp8_f32_sm90 gemm_fp8_f32_sm100
        gemm_fp8_f32_sm120""",
    "matmul_fp8_fp8_sm120": "gemm_fp8_fp8_sm120",
    "matmul_fp8_fp8_blockwise_sm120": "gemm_fp8_fp8_blockwise_sm120",
    "fp8_fp8_get_scale_sizes": "gemm_fp8_fp8_get_scale_sizes",
    "matmul_nvf4_bf16_sm120": "gemm_nvf4_bf16_sm120",
    "w8a16_gemm_sm120": "gemm_w8a16_bf16_sm120",
    "fp8_init_lut": "w8a16_gemm_init_lut grouped_gemm_init_lut gemm_w8a16_init_lut",
    "gemv_bf16": "gemv_bf16_bf16_sm120",
    "gemv_fp8_bf16": "gemv_fp8_bf16_sm120",
    "gemv_fp8_bf16_batched": "gemv_fp8_bf16_batched_sm120",
    "gemv_nvf4_bf16": "gemv_nvf4_bf16_sm120",
    "nvf4_get_sizes": "gemv_nvf4_get_sizes",
    "grouped_gemm_fp8_bf16": "grouped_gemm_fp8_bf16_sm120",
}


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def bf16(x):
    return gp.from_numpy(np.ascontiguousarray(x)).astype("bfloat16")


def e4m3(rng, *shape):
    """Codes in uint8, and their numbers."""
    numbers = normal(rng, *shape).astype(ml_dtypes.float8_e4m3fn)
    return gp.from_numpy(numbers.view(np.uint8)), numbers.astype(np.float64)


def spread(scale, rows, columns):
    """One scale per element from one per 128 x 128."""
    return np.repeat(np.repeat(scale, 128, -2), 128, -1)[..., :rows, :columns]


def close(got, expected, bound):
    got = download(got)
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) <= bound * np.linalg.norm(expected)


@pytest.mark.parametrize("name", sorted(SAME))
def test_second_names(name):
    for second in SAME[name].split():
        assert getattr(names, second) is getattr(names, name)
        assert getattr(gp.ops, second) is getattr(names, name)


def test_available_and_sizes(device):
    on_gpu = device.kind == "cuda"
    assert names.fp8_available() is on_gpu
    assert fp8_get_sizes(300, 129) == (3, 2, 12)
    assert nvf4_get_sizes(96, 10) == (480, 30)
    assert fp8_fp8_get_scale_sizes(5, 129, 300) == ((15, 6) if on_gpu else (0, 0))
    assert names.fp8_init_lut() is None


def test_each_name_runs_on_every_device(device):
    x, h, u = gp.ones((4, 128)), gp.ones((4, 128)).astype("bfloat16"), gp.zeros((128, 128), "uint8")
    v, s = h[0], gp.ones((1, 1)).astype("bfloat16")
    assert matmul_fp8(x, x.T).shape == (4, 4)
    assert matmul_fp8_fp8_sm120(u, u).shape == (128, 128)
    assert matmul_fp8_fp8_blockwise_sm120(u, u, gp.ones((128, 1)), gp.ones((1, 1))).shape == (128, 128)
    assert gemv_fp8_bf16(v, u, s).shape == (128,)
    assert gemv_fp8_bf16_batched(h, u, s).shape == (4, 128)
    assert w8a16_gemm_sm120(h, u, s).shape == (4, 128)
    assert gemv_nvf4_bf16(v, u[:64], u[:4]).shape == (128,)
    codes, scales = gp.zeros((64, 4), "uint8"), gp.zeros((4, 4), "uint8")
    quantize_bf16_to_nvf4(h.T, codes, scales)
    assert codes.to_numpy().any() and scales.to_numpy().any()
    assert matmul_nvf4_bf16_sm120(h, h.T).shape == (4, 4)


def test_matmul_fp8(device, rng):
    a, b = normal(rng, 65, 300), normal(rng, 300, 70)
    got = matmul_fp8(gp.from_numpy(a), gp.from_numpy(b))
    assert got.dtype is gp.float32
    close(got, a.astype(np.float64) @ b, 0.04)
    out = gp.zeros((65, 70))
    assert matmul_fp8(gp.from_numpy(a), gp.from_numpy(b), out=out) is out
    for bad in (gp.ones((300, 70), "float64"), gp.ones((299, 70)), gp.ones((300,))):
        with pytest.raises(ValueError):
            matmul_fp8(gp.from_numpy(a), bad)


def test_fp8_to_fp8(device, rng):
    (a, x), (b, y) = e4m3(rng, 65, 300), e4m3(rng, 300, 70)
    got = matmul_fp8_fp8_sm120(a, b)
    assert got.dtype is gp.uint8
    close(gp.bitcast(got, "float8_e4m3").astype("float32"), x @ y, 0.03)
    scale_a = rng.uniform(0.5, 2, (65, 3)).astype(np.float32)
    scale_b = rng.uniform(0.5, 2, (1, 3)).astype(np.float32)
    exact = (x * np.repeat(scale_a, 128, 1)[:, :300]) @ (y * np.repeat(scale_b[0], 128)[:300, None])
    out = gp.zeros((65, 70), "uint8")
    flat = gp.from_numpy(scale_a.ravel()), gp.from_numpy(scale_b.ravel())
    assert matmul_fp8_fp8_blockwise_sm120(a, b, *flat, out=out) is out
    close(gp.bitcast(out, "float8_e4m3").astype("float32"), exact, 0.03)
    with pytest.raises(ValueError, match="uint8"):
        matmul_fp8_fp8_sm120(gp.ones((4, 4)), b)


def test_fp8_weights(device, rng):
    a, (b, y) = normal(rng, 5, 300), e4m3(rng, 200, 300)
    scale = bf16(rng.uniform(0.5, 2, (2, 3)))
    numbers = y * spread(download(scale), 200, 300)
    rows = bf16(a)
    exact = download(rows) @ numbers.T
    close(gemv_fp8_bf16_batched(rows, b, scale), exact, 0.004)
    close(gemv_fp8_bf16(rows[2], b, scale), exact[2], 0.004)
    kept = gp.from_numpy(b.to_numpy().T.copy())  # [k, n]
    got = w8a16_gemm_sm120(rows, kept, scale.T.copy())
    assert got.dtype is gp.bfloat16
    close(got, exact, 0.004)
    out = gp.zeros((200,), "bfloat16")
    assert gemv_fp8_bf16(rows[2], b, scale, out=out) is out
    with pytest.raises(ValueError, match="bfloat16"):
        gemv_fp8_bf16(gp.ones((300,)), b, scale)
    with pytest.raises(ValueError, match="1D"):
        gemv_fp8_bf16(rows, b, scale)


def test_grouped(device, rng):
    a, (b, y) = bf16(normal(rng, 90, 256)), e4m3(rng, 4, 130, 256)
    scale = bf16(rng.uniform(0.5, 2, (4, 2, 2)))
    ids = np.sort(rng.integers(0, 4, 90)).astype(np.int32)
    numbers = y * spread(download(scale), 130, 256)
    got = grouped_gemm_fp8_bf16(a, b, scale, gp.from_numpy(ids))
    close(got, np.einsum("mk,mnk->mn", download(a), numbers[ids]), 0.004)


def test_gemv_bf16(device, rng):
    a, b = bf16(normal(rng, 300)), bf16(normal(rng, 70, 300))
    close(gemv_bf16(a, b), download(b) @ download(a), 0.004)
    out = gp.zeros((70,), "bfloat16")
    assert gemv_bf16(a, b, out=out) is out
    for bad in ((b, b), (a, a), (a.astype("float32"), b), (a[:-1], b)):
        with pytest.raises(ValueError):
            gemv_bf16(*bad)


def test_nvf4(device, rng):
    a, w = bf16(normal(rng, 320)), bf16(normal(rng, 320, 70))
    data_bytes, scale_bytes = nvf4_get_sizes(320, 70)
    data, scale = gp.zeros((160, 70), "uint8"), gp.zeros((10, 70), "uint8")
    assert (data.nbytes, scale.nbytes) == (data_bytes, scale_bytes)
    assert quantize_bf16_to_nvf4(w, data, scale) is None
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = data.to_numpy()
    numbers = np.empty((320, 70))
    numbers[::2], numbers[1::2] = table[codes & 15], table[codes >> 4]
    numbers *= np.repeat(scale.to_numpy().view(ml_dtypes.float8_e4m3fn).astype(np.float64), 32, 0)
    assert np.linalg.norm(numbers - download(w)) < 0.11 * np.linalg.norm(download(w))
    close(gemv_nvf4_bf16(a, data, scale), download(a) @ numbers, 0.004)
    out = gp.zeros((70,), "bfloat16")
    assert gemv_nvf4_bf16(a, data, scale, out=out, alpha=-2.0) is out
    close(out, -2 * download(a) @ numbers, 0.004)
    x = bf16(normal(rng, 33, 320))
    close(matmul_nvf4_bf16_sm120(x, w), download(x) @ download(w), 0.15)
