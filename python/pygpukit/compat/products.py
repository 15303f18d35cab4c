"""Quantised products under the names of 0.2.

Short calls of ``scaled_matmul``, ``grouped_matmul`` and ``quantize``. A suffix such as ``_sm120`` is that of 0.2 and no limit
here: each runs on every device.
Codes are uint8 or the dtype itself; scales may be bfloat16.
"""

from __future__ import annotations

from pygpukit._core import (
    GPUArray,
    bitcast,
    default_device,
    dequantize,
    grouped_matmul,
    matmul,
    quantize,
    scaled_matmul,
)
from pygpukit.errors import DTypeError, ShapeError

__all__: list[str] = [
    "dequantize_int8",
    "fp8_available",
    "fp8_fp8_get_scale_sizes",
    "fp8_fp8_sm120_available",
    "fp8_get_sizes",
    "fp8_init_lut",
    "fp8_sm90_available",
    "fp8_sm100_available",
    "fp8_sm120_available",
    "gemm_fp8_available",
    "gemm_fp8_f32_sm90",
    "gemm_fp8_f32_sm90_available",
    "gemm_fp8_f32_sm100",
    "gemm_fp8_f32_sm100_available",
    "gemm_fp8_f32_sm120",
    "gemm_fp8_f32_sm120_available",
    "gemm_fp8_fp8_blockwise_sm120",
    "gemm_fp8_fp8_get_scale_sizes",
    "gemm_fp8_fp8_sm120",
    "gemm_fp8_fp8_sm120_available",
    "gemm_nvf4_bf16_sm120",
    "gemm_nvf4_bf16_sm120_available",
    "gemm_w8a16_bf16_sm120",
    "gemm_w8a16_init_lut",
    "gemv_bf16",
    "gemv_bf16_bf16_sm120",
    "gemv_fp8_bf16",
    "gemv_fp8_bf16_batched",
    "gemv_fp8_bf16_batched_sm120",
    "gemv_fp8_bf16_sm120",
    "gemv_nvf4_available",
    "gemv_nvf4_bf16",
    "gemv_nvf4_bf16_sm120",
    "gemv_nvf4_bf16_sm120_available",
    "gemv_nvf4_get_sizes",
    "grouped_gemm_fp8_bf16",
    "grouped_gemm_fp8_bf16_sm120",
    "grouped_gemm_init_lut",
    "linear_int8",
    "matmul_fp8",
    "matmul_fp8_fp8_blockwise_sm120",
    "matmul_fp8_fp8_sm120",
    "matmul_fp8_sm90",
    "matmul_fp8_sm100",
    "matmul_fp8_sm120",
    "matmul_nvf4_bf16_sm120",
    "nvf4_bf16_sm120_available",
    "nvf4_get_sizes",
    "quantize_bf16_to_nvf4",
    "quantize_to_int8",
    "w8a16_gemm_init_lut",
    "w8a16_gemm_sm120",
]


def _check(op: str, argument: str, x: GPUArray, dtype: str, ndim: int) -> None:
    if x.dtype != dtype:
        raise DTypeError(f"{op}: {argument} must have dtype {dtype}, got {x.dtype}")
    if x.ndim != ndim:
        raise ShapeError(f"{op}: {argument} must be {ndim}D (number of dimensions), got shape {x.shape}")


def _codes(op: str, argument: str, x: GPUArray, dtype: str) -> GPUArray:
    if x.dtype not in ("uint8", dtype):
        raise DTypeError(f"{op}: {argument} must have dtype uint8 or {dtype}, got {x.dtype}")
    return x if x.dtype == dtype else bitcast(x, dtype)


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


# Availability and sizes.


def fp8_available() -> bool:
    """Whether new arrays go to a GPU."""
    return default_device().kind == "cuda"


fp8_sm90_available = fp8_sm100_available = fp8_sm120_available = fp8_available
fp8_fp8_sm120_available = nvf4_bf16_sm120_available = gemv_nvf4_available = fp8_available


def fp8_get_sizes(K: int, N: int) -> tuple[int, int, int]:
    """Blocks of 128 along k and n, and the bytes of their bfloat16 scales."""
    return _blocks(K, 128), _blocks(N, 128), _blocks(K, 128) * _blocks(N, 128) * 2


def fp8_fp8_get_scale_sizes(M: int, N: int, K: int) -> tuple[int, int]:
    """Scales of a, one per row and 128 of k, and of b, one per 128 of n and of k; (0, 0) on the CPU."""
    if not fp8_available():
        return 0, 0
    return M * _blocks(K, 128), _blocks(N, 128) * _blocks(K, 128)


def nvf4_get_sizes(K: int, N: int) -> tuple[int, int]:
    """Bytes of codes and of scales, one per 32 of k."""
    return K // 2 * N, _blocks(K, 32) * N


def fp8_init_lut() -> None:
    """Nothing to do: there are no tables."""


w8a16_gemm_init_lut = grouped_gemm_init_lut = fp8_init_lut


# Products of float8.


def matmul_fp8(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a [m, k] @ b [k, n] of float32, computed from float8_e4m3 with a scale per row of a and column of b."""
    _check("matmul_fp8", "a", a, "float32", 2)
    _check("matmul_fp8", "b", b, "float32", 2)
    (left, left_scale), (right, right_scale) = quantize(a, "fp8_e4m3"), quantize(b.T, "fp8_e4m3")
    return scaled_matmul(left, right, left_scale, right_scale, out=out)


matmul_fp8_sm90 = matmul_fp8_sm100 = matmul_fp8_sm120 = matmul_fp8


def _fp8_to_fp8(
    op: str,
    a: GPUArray,
    b: GPUArray,
    out: GPUArray | None,
    scale_a: GPUArray | None = None,
    scale_b: GPUArray | None = None,
) -> GPUArray:
    left, right = _codes(op, "a", a, "float8_e4m3"), _codes(op, "b", b, "float8_e4m3").T
    if out is None:
        return bitcast(scaled_matmul(left, right, scale_a, scale_b, out_dtype="float8_e4m3"), "uint8")
    scaled_matmul(left, right, scale_a, scale_b, out=_codes(op, "out", out, "float8_e4m3"))
    return out


def matmul_fp8_fp8_sm120(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a [m, k] @ b [k, n] of E4M3 codes in uint8, as E4M3 codes in uint8."""
    return _fp8_to_fp8("matmul_fp8_fp8_sm120", a, b, out)


def matmul_fp8_fp8_blockwise_sm120(
    a: GPUArray, b: GPUArray, scale_a: GPUArray, scale_b: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """The same with float32 scales in the sizes of fp8_fp8_get_scale_sizes: [m, k / 128] and [n / 128, k / 128]."""
    blocks = _blocks(a.shape[-1], 128)
    op = "matmul_fp8_fp8_blockwise_sm120"
    return _fp8_to_fp8(op, a, b, out, scale_a.reshape(-1, blocks), scale_b.reshape(-1, blocks))


def _fp8_weights(op: str, a: GPUArray, b: GPUArray, b_scale: GPUArray, out: GPUArray | None, ndim: int) -> GPUArray:
    """bfloat16 activations by E4M3 weights [n, k] with scales of 128 by 128."""
    _check(op, "a", a, "bfloat16", ndim)
    return scaled_matmul(a, _codes(op, "b", b, "float8_e4m3"), scale_b=b_scale.astype("float32"), out=out)


def gemv_fp8_bf16(a: GPUArray, b_nk: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a [k] of bfloat16 by E4M3 codes [n, k] with scales [n / 128, k / 128]: [n]."""
    return _fp8_weights("gemv_fp8_bf16", a, b_nk, b_scale, out, 1)


def gemv_fp8_bf16_batched(a: GPUArray, b_nk: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """The same for a [m, k]: [m, n]."""
    return _fp8_weights("gemv_fp8_bf16_batched", a, b_nk, b_scale, out, 2)


def w8a16_gemm_sm120(a: GPUArray, b_fp8: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a [m, k] of bfloat16 by E4M3 codes [k, n] with scales [k / 128, n / 128]."""
    return _fp8_weights("w8a16_gemm_sm120", a, b_fp8.T, b_scale.T, out, 2)


def grouped_gemm_fp8_bf16(
    a: GPUArray, b_stacked: GPUArray, b_scale: GPUArray, row_expert_ids: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """Row i of a [m, k], bfloat16, by expert row_expert_ids[i] of E4M3 codes [e, n, k] with scales [e, n / 128, k / 128]."""
    op = "grouped_gemm_fp8_bf16"
    _check(op, "a", a, "bfloat16", 2)
    codes = _codes(op, "b_stacked", b_stacked, "float8_e4m3")
    return grouped_matmul(a, codes, row_expert_ids, scale_b=b_scale.astype("float32"), out=out)


def gemv_bf16(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """b [n, k] @ a [k], both bfloat16: [n]."""
    _check("gemv_bf16", "a", a, "bfloat16", 1)
    _check("gemv_bf16", "b", b, "bfloat16", 2)
    return matmul(b, a, out=out)


# NVFP4 in the layout of 0.2: codes [k / 2, n], one scale per 32 of k.


def quantize_bf16_to_nvf4(input: GPUArray, out_data: GPUArray, out_scale: GPUArray) -> None:
    """Codes [k / 2, n] and scales [k / 32, n] of input [k, n], bfloat16, into uint8 arrays."""
    op = "quantize_bf16_to_nvf4"
    _check(op, "input", input, "bfloat16", 2)
    data, scale = quantize(input.T, "nvfp4", block=32, tensor_scale=False)
    _codes(op, "out_data", out_data, "float4_e2m1")[...] = data.T
    _codes(op, "out_scale", out_scale, "float8_e4m3")[...] = scale.T


def gemv_nvf4_bf16(
    a: GPUArray, b_data: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None, alpha: float = 1.0
) -> GPUArray:
    """alpha times a [k] of bfloat16 by codes [k / 2, n] with scales [k / 32, n]: [n]."""
    op = "gemv_nvf4_bf16"
    _check(op, "a", a, "bfloat16", 1)
    data, scale = _codes(op, "b_data", b_data, "float4_e2m1").T, _codes(op, "b_scale", b_scale, "float8_e4m3").T
    return scaled_matmul(a, data, scale_b=scale, alpha=alpha, out=out)


def matmul_nvf4_bf16_sm120(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a [m, k] @ b [k, n] of bfloat16, both computed from NVFP4."""
    op = "matmul_nvf4_bf16_sm120"
    _check(op, "a", a, "bfloat16", 2)
    _check(op, "b", b, "bfloat16", 2)
    (left, left_scale, left_whole), (right, right_scale, right_whole) = quantize(a, "nvfp4"), quantize(b.T, "nvfp4")
    return scaled_matmul(
        left,
        right,
        left_scale,
        right_scale,
        tensor_scale_a=left_whole,
        tensor_scale_b=right_whole,
        out_dtype="bfloat16",
        out=out,
    )


# Second names of 0.2.

gemm_fp8_available = gemm_fp8_f32_sm90_available = gemm_fp8_f32_sm100_available = fp8_available
gemm_fp8_f32_sm120_available = gemm_fp8_fp8_sm120_available = gemm_nvf4_bf16_sm120_available = fp8_available
gemv_nvf4_bf16_sm120_available = fp8_available
gemm_fp8_f32_sm90 = gemm_fp8_f32_sm100 = gemm_fp8_f32_sm120 = matmul_fp8
gemm_fp8_fp8_sm120 = matmul_fp8_fp8_sm120
gemm_fp8_fp8_blockwise_sm120 = matmul_fp8_fp8_blockwise_sm120
gemm_fp8_fp8_get_scale_sizes = fp8_fp8_get_scale_sizes
gemm_nvf4_bf16_sm120 = matmul_nvf4_bf16_sm120
gemm_w8a16_bf16_sm120 = w8a16_gemm_sm120
gemm_w8a16_init_lut = w8a16_gemm_init_lut
gemv_bf16_bf16_sm120 = gemv_bf16
gemv_fp8_bf16_sm120 = gemv_fp8_bf16
gemv_fp8_bf16_batched_sm120 = gemv_fp8_bf16_batched
gemv_nvf4_bf16_sm120 = gemv_nvf4_bf16
gemv_nvf4_get_sizes = nvf4_get_sizes
grouped_gemm_fp8_bf16_sm120 = grouped_gemm_fp8_bf16


def quantize_to_int8(input: GPUArray) -> tuple[GPUArray, GPUArray]:
    """int8 codes of ``input`` [rows, columns], and a float32 scale [rows] for each row."""
    if input.ndim != 2:
        raise ShapeError(f"quantize_to_int8: input must be 2D (number of dimensions), got shape {input.shape}")
    data, scale = quantize(input, "int8", block="row")
    return data, scale.reshape(-1)


def _row_scales(op: str, codes: GPUArray, scale: GPUArray) -> GPUArray:
    """A scale for each row of the codes, as dequantize and scaled_matmul take them."""
    _check(op, "codes", codes, "int8", 2)
    _check(op, "scale", scale, "float32", 1)
    if scale.shape[0] != codes.shape[0]:
        raise ShapeError(f"{op}: scale must have shape ({codes.shape[0]},), got {scale.shape}")
    return scale.reshape(-1, 1)


def dequantize_int8(input: GPUArray, scale: GPUArray, output_dtype: str) -> GPUArray:
    """``input * scale`` row by row: the inverse of :func:`quantize_to_int8`."""
    return dequantize(input, _row_scales("dequantize_int8", input, scale), dtype=output_dtype)


def linear_int8(
    activation: GPUArray, weight_int8: GPUArray, scale: GPUArray, bias: GPUArray | None = None
) -> GPUArray:
    """``activation @ (weight_int8 * scale).T + bias`` for weights [n, k] with a scale [n] for each row."""
    out = scaled_matmul(activation, weight_int8, scale_b=_row_scales("linear_int8", weight_int8, scale))
    return out if bias is None else out + bias
