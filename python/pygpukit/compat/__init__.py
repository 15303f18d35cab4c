"""Names that only code written for the 0.2 series uses. They also answer where that series had them.

What each is today: ``transpose_3d_021(x)`` is ``x.transpose(1, 0, 2).copy()``, ``concat_axis0`` is ``concat``,
``repeat_interleave_axis1`` is ``repeat(axis=1)``, ``reshape_copy`` is ``reshape(copy=True)``, ``cast_*`` is ``astype``,
``add_inplace(a, b)`` is ``a += b``, a copy at an offset is ``dst[i:j] = src[k:l]``, and the products are those of
``scaled_matmul`` and ``grouped_matmul``.
"""

from __future__ import annotations

from pygpukit._core import GPUArray, copy_to_device_async
from pygpukit._core._compat import (
    add_inplace,
    allocate_kv_cache,
    argmax_sample,
    cast_bf16_to_f32,
    cast_f16_to_f32,
    cast_f32_to_bf16,
    cast_f32_to_f16,
    check_eos,
    compute_cumsum,
    concat_axis0,
    copy_device_to_device_offset,
    copy_to_paged_cache,
    fa3_fp8_available,
    gather_embeddings,
    get_sm_version,
    mul_inplace,
    paged_attention_v1,
    prepare_batch_inputs,
    prepare_position_ids,
    repeat_interleave_axis1,
    reshape_and_cache,
    reshape_copy,
    sample_topk_to_buf,
    scatter_last_token_logits,
    sdpa_causal_fp8,
    transpose_3d_012,
    transpose_3d_021,
    transpose_4d_0132,
    transpose_4d_0213,
)
from pygpukit.compat import products as products
from pygpukit.compat.products import *  # noqa: F403

__all__: list[str] = [
    "add_inplace",
    "allocate_kv_cache",
    "argmax_sample",
    "cast_bf16_to_f32",
    "cast_f16_to_f32",
    "cast_f32_to_bf16",
    "cast_f32_to_f16",
    "check_eos",
    "compute_cumsum",
    "concat_axis0",
    "copy_device_to_device_offset",
    "copy_to_device_async_raw_stream",
    "copy_to_paged_cache",
    "fa3_fp8_available",
    "gather_embeddings",
    "get_sm_version",
    "mul_inplace",
    "paged_attention_v1",
    "prepare_batch_inputs",
    "prepare_position_ids",
    "repeat_interleave_axis1",
    "reshape_and_cache",
    "reshape_copy",
    "sample_topk_to_buf",
    "scatter_last_token_logits",
    "sdpa_causal_fp8",
    "transpose_3d_012",
    "transpose_3d_021",
    "transpose_4d_0132",
    "transpose_4d_0213",
]
__all__ += products.__all__


def copy_to_device_async_raw_stream(dst: GPUArray, src_ptr: int, size_bytes: int, stream_handle: int) -> None:
    """:func:`pygpukit.copy_to_device_async` on the stream with that ``Stream.handle``."""
    copy_to_device_async(dst, src_ptr, size_bytes, stream_handle)
