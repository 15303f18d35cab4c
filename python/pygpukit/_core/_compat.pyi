"""Names of the 0.2 series; use them through pygpukit.compat."""

from collections.abc import Sequence
from typing import SupportsIndex

import pygpukit._core
import pygpukit.typing


def copy_device_to_device_offset(dst: pygpukit._core.GPUArray, dst_offset_bytes: int, src: pygpukit._core.GPUArray, src_offset_bytes: int, size_bytes: int) -> None:
    """Copies a range of bytes between two arrays."""

def sdpa_causal_fp8(Q: pygpukit._core.GPUArray, K: pygpukit._core.GPUArray, V: pygpukit._core.GPUArray, out: pygpukit._core.GPUArray, scale: float = 0.0) -> None:
    """sdpa_causal into out: products are never rounded to float8."""

def fa3_fp8_available() -> bool:
    """False: no attention rounds its products to float8."""

def get_sm_version() -> int:
    """
    The default device's compute capability as one number, 90 for 9.0; 0 on the CPU.
    """

def paged_attention_v1(Q: pygpukit._core.GPUArray, K_cache: pygpukit._core.GPUArray, V_cache: pygpukit._core.GPUArray, block_tables: pygpukit._core.GPUArray, context_lens: pygpukit._core.GPUArray, scale: float = 0.0) -> pygpukit._core.GPUArray:
    """
    Attention of one token per sequence over caches [blocks, kv_heads, block_size, dim].
    """

def cast_f32_to_bf16(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """float32 to bfloat16, to nearest even."""

def cast_f32_to_f16(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """float32 to float16, to nearest even."""

def cast_bf16_to_f32(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """bfloat16 to float32."""

def cast_f16_to_f32(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """float16 to float32."""

def add_inplace(a: pygpukit._core.GPUArray, b: pygpukit.typing.Operand) -> None:
    """a += b."""

def mul_inplace(a: pygpukit._core.GPUArray, b: pygpukit.typing.Operand) -> None:
    """a *= b."""

def prepare_batch_inputs(token_lists: Sequence[Sequence[int]]) -> tuple[pygpukit._core.GPUArray, int]:
    """(int32 array of the tokens of all lists, how many they are)."""

def gather_embeddings(token_ids: pygpukit._core.GPUArray, embeddings: pygpukit._core.GPUArray, total_tokens: SupportsIndex) -> pygpukit._core.GPUArray:
    """embeddings[token_ids[:total_tokens]]."""

def scatter_last_token_logits(logits: pygpukit._core.GPUArray, seq_start_positions: pygpukit._core.GPUArray, seq_lens: pygpukit._core.GPUArray, batch_size: SupportsIndex, vocab_size: SupportsIndex) -> pygpukit._core.GPUArray:
    """
    The rows of the last tokens: logits[start + len - 1] of every sequence.
    """

def prepare_position_ids(seq_start_positions: pygpukit._core.GPUArray, seq_context_lens: pygpukit._core.GPUArray, is_prefill: pygpukit._core.GPUArray, input_lens: pygpukit._core.GPUArray, batch_size: SupportsIndex, total_tokens: SupportsIndex) -> pygpukit._core.GPUArray:
    """
    int32 [total_tokens]: 0, 1, ... for the tokens of a prompt, context_len - input_len + i for the others.
    """

def argmax_sample(logits: pygpukit._core.GPUArray, batch_size: SupportsIndex, vocab_size: SupportsIndex) -> pygpukit._core.GPUArray:
    """int32 [batch_size]: the first largest of each row."""

def check_eos(tokens: pygpukit._core.GPUArray, eos_token_id: SupportsIndex) -> pygpukit._core.GPUArray:
    """int32: 1 where a token is eos_token_id."""

def compute_cumsum(input: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
    """The sums of the elements before each one."""

def allocate_kv_cache(num_blocks: SupportsIndex, num_kv_heads: SupportsIndex, block_size: SupportsIndex, head_dim: SupportsIndex) -> pygpukit._core.GPUArray:
    """
    Zeros of float16 [num_blocks, num_kv_heads, block_size, head_dim]: the keys or the values of a paged cache.
    """

def copy_to_paged_cache(K_new: pygpukit._core.GPUArray, V_new: pygpukit._core.GPUArray, K_cache: pygpukit._core.GPUArray, V_cache: pygpukit._core.GPUArray, slot_mapping: pygpukit._core.GPUArray) -> None:
    """
    K and V [n, kv_heads, dim] into caches [blocks, kv_heads, block_size, dim]: token i to slot_mapping[i], which is block * block_size + place; -1: nowhere.
    """

def reshape_and_cache(K: pygpukit._core.GPUArray, V: pygpukit._core.GPUArray, K_cache: pygpukit._core.GPUArray, V_cache: pygpukit._core.GPUArray, slot_mapping: pygpukit._core.GPUArray) -> None:
    """
    K and V [n, kv_heads, dim] into caches [blocks, kv_heads, block_size, dim]: token i to slot_mapping[i], which is block * block_size + place; -1: nowhere.
    """

def concat_axis0(a: pygpukit._core.GPUArray, b: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
    """Two arrays of one dtype joined along the first axis."""

def repeat_interleave_axis1(input: pygpukit._core.GPUArray, repeats: int) -> pygpukit._core.GPUArray:
    """[d0, d1, d2] to [d0, d1 * repeats, d2], each slice repeated in a row."""

def transpose_3d_021(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    A copy with axes 0 and 1 exchanged: [d0, d1, d2] to [d1, d0, d2], despite the name.
    """

def transpose_3d_012(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    A copy with axes 1 and 2 exchanged: [d0, d1, d2] to [d0, d2, d1], despite the name.
    """

def transpose_4d_0213(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """A copy with axes 1 and 2 exchanged."""

def transpose_4d_0132(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """A copy with axes 2 and 3 exchanged."""

def reshape_copy(input: pygpukit._core.GPUArray, new_shape: pygpukit.typing.ShapeLike | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """A copy in new_shape, or in the shape of out."""

def sample_topk_to_buf(logits: pygpukit._core.GPUArray, result_buf: pygpukit._core.GPUArray, top_k: SupportsIndex, temperature: pygpukit.typing.Number, random_val: pygpukit.typing.Number) -> None:
    """sample_topk_to_buf_ptr with the uniform number given here."""
