"""Arrays that steps of decoding write into, made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygpukit._core import empty

if TYPE_CHECKING:
    from pygpukit import GPUArray
    from pygpukit.llm.config import TransformerConfig
    from pygpukit.typing import DTypeLike

__all__ = ["DecodeBuffers", "PrefillBuffers"]


@dataclass
class DecodeBuffers:
    """For one token a step, and with max_batch_size also for several (`*_batch`). None: not asked for."""

    hidden: GPUArray
    embed_out: GPUArray
    residual: GPUArray
    norm_out: GPUArray
    mlp_down: GPUArray
    o_proj_out: GPUArray
    q: GPUArray
    k: GPUArray
    v: GPUArray
    attn_out: GPUArray
    q_t: GPUArray
    mlp_gate: GPUArray
    mlp_up: GPUArray
    q_proj_out: GPUArray
    k_proj_out: GPUArray
    v_proj_out: GPUArray
    cos: GPUArray
    sin: GPUArray
    qkv_proj_out: GPUArray
    q_view: GPUArray
    k_view: GPUArray
    v_view: GPUArray
    gate_up_out: GPUArray
    gate_view: GPUArray
    up_view: GPUArray
    position_buf: GPUArray
    q_2d: GPUArray | None = None
    k_2d: GPUArray | None = None
    q_flat: GPUArray | None = None
    k_flat: GPUArray | None = None
    logits: GPUArray | None = None
    sampled_token: GPUArray | None = None
    random_val: GPUArray | None = None
    token_id_buf: GPUArray | None = None
    context_len_buf: GPUArray | None = None
    max_batch_size: int = 0
    hidden_batch: GPUArray | None = None
    residual_batch: GPUArray | None = None
    norm_out_batch: GPUArray | None = None
    qkv_proj_out_batch: GPUArray | None = None
    q_batch: GPUArray | None = None
    k_batch: GPUArray | None = None
    v_batch: GPUArray | None = None
    q_t_batch: GPUArray | None = None
    attn_out_batch: GPUArray | None = None
    attn_out_t_batch: GPUArray | None = None
    o_proj_out_batch: GPUArray | None = None
    gate_up_out_batch: GPUArray | None = None
    mlp_down_batch: GPUArray | None = None
    cos_batch: GPUArray | None = None
    sin_batch: GPUArray | None = None
    logits_batch: GPUArray | None = None
    q_flat_batch: GPUArray | None = None
    k_flat_batch: GPUArray | None = None
    token_ids_batch_buf: GPUArray | None = None
    start_position_batch_buf: GPUArray | None = None
    moe_router_logits: GPUArray | None = None
    moe_router_weights: GPUArray | None = None
    moe_expert_indices: GPUArray | None = None
    moe_expert_counts: GPUArray | None = None
    moe_expert_offsets: GPUArray | None = None
    moe_permute_indices: GPUArray | None = None
    moe_reverse_perm: GPUArray | None = None
    moe_row_expert_ids: GPUArray | None = None
    moe_gathered: GPUArray | None = None
    moe_expert_outputs: GPUArray | None = None
    moe_gate_out: GPUArray | None = None
    moe_up_out: GPUArray | None = None
    moe_intermediate: GPUArray | None = None
    moe_output: GPUArray | None = None

    @classmethod
    def allocate(
        cls,
        config: TransformerConfig,
        dtype: DTypeLike = "float16",
        use_qk_norm: bool = False,
        vocab_size: int | None = None,
        max_batch_size: int = 0,
        moe_config: Mapping[str, int] | None = None,
    ) -> DecodeBuffers:
        heads, kv, dim = config.num_heads, config.num_kv_heads, config.head_dim
        width, inner, batch = config.hidden_size, config.intermediate_size, max_batch_size
        q, k = heads * dim, kv * dim
        shapes: dict[str, tuple[int, ...]] = {
            name: (1, width) for name in ("hidden", "embed_out", "residual", "norm_out", "mlp_down", "o_proj_out")
        }
        shapes |= {"q": (1, heads, dim), "k": (1, kv, dim), "v": (1, kv, dim)}
        shapes |= {"attn_out": (heads, 1, dim), "q_t": (heads, 1, dim), "mlp_gate": (1, inner), "mlp_up": (1, inner)}
        shapes |= {"q_proj_out": (1, q), "k_proj_out": (1, k), "v_proj_out": (1, k), "cos": (1, dim), "sin": (1, dim)}
        shapes |= {"qkv_proj_out": (1, q + 2 * k), "gate_up_out": (1, 2 * inner)}
        whole: dict[str, tuple[int, ...]] = {"position_buf": (1,)}
        if use_qk_norm:
            shapes |= {"q_2d": (heads, dim), "q_flat": (heads, dim), "k_2d": (kv, dim), "k_flat": (kv, dim)}
        if vocab_size is not None:
            shapes["logits"] = (1, vocab_size)
            whole |= {"sampled_token": (1,), "token_id_buf": (1,), "context_len_buf": (1,)}
        if batch > 0:
            rows = ("hidden", "residual", "norm_out", "o_proj_out", "mlp_down")
            shapes |= {f"{name}_batch": (batch, width) for name in rows}
            shapes |= {"qkv_proj_out_batch": (batch, q + 2 * k), "gate_up_out_batch": (batch, 2 * inner)}
            shapes |= {"q_batch": (batch, heads, dim), "k_batch": (batch, kv, dim), "v_batch": (batch, kv, dim)}
            shapes |= {"q_t_batch": (heads, batch, dim), "attn_out_batch": (heads, batch, dim)}
            shapes |= {"attn_out_t_batch": (batch, heads, dim), "cos_batch": (batch, dim), "sin_batch": (batch, dim)}
            shapes |= {"q_flat_batch": (batch * heads, dim), "k_flat_batch": (batch * kv, dim)}
            whole |= {"token_ids_batch_buf": (batch,), "start_position_batch_buf": (1,)}
            if vocab_size is not None:
                shapes["logits_batch"] = (batch, vocab_size)
        if moe_config is not None:
            experts, chosen = moe_config["num_experts"], moe_config["num_experts_per_tok"]
            size = moe_config["moe_intermediate_size"]
            shapes |= {"moe_router_logits": (1, experts), "moe_router_weights": (1, chosen), "moe_output": (1, width)}
            shapes |= {name: (chosen, width) for name in ("moe_gathered", "moe_expert_outputs")}
            shapes |= {name: (chosen, size) for name in ("moe_gate_out", "moe_up_out", "moe_intermediate")}
            whole |= {"moe_expert_indices": (1, chosen), "moe_expert_counts": (experts,)}
            whole |= {"moe_expert_offsets": (experts + 1,)}
            whole |= {f"moe_{name}": (chosen,) for name in ("permute_indices", "reverse_perm", "row_expert_ids")}
        arrays = {name: empty(shape, dtype=dtype) for name, shape in shapes.items()}
        arrays |= {name: empty(shape, dtype="int32") for name, shape in whole.items()}
        if vocab_size is not None:
            arrays["random_val"] = empty((1,), dtype="float32")
        qkv, gate_up = arrays["qkv_proj_out"], arrays["gate_up_out"]
        arrays |= {"q_view": qkv[:, :q], "k_view": qkv[:, q : q + k], "v_view": qkv[:, q + k :]}
        arrays |= {"gate_view": gate_up[:, :inner], "up_view": gate_up[:, inner:]}
        return cls(**arrays, max_batch_size=batch)


@dataclass
class PrefillBuffers:
    """For a prompt of max_seq_len tokens."""

    hidden: GPUArray
    residual: GPUArray
    norm_out: GPUArray
    o_proj_out: GPUArray
    mlp_down: GPUArray
    q: GPUArray
    k: GPUArray
    v: GPUArray
    q_proj_out: GPUArray
    k_proj_out: GPUArray
    v_proj_out: GPUArray
    q_t: GPUArray
    k_t: GPUArray
    v_t: GPUArray
    attn_out: GPUArray
    attn_out_t: GPUArray
    attn_out_2d: GPUArray
    mlp_gate: GPUArray
    mlp_up: GPUArray
    cos: GPUArray
    sin: GPUArray
    max_seq_len: int
    q_2d: GPUArray | None = None
    k_2d: GPUArray | None = None

    @classmethod
    def allocate(
        cls, config: TransformerConfig, max_seq_len: int, dtype: DTypeLike = "float16", use_qk_norm: bool = False
    ) -> PrefillBuffers:
        heads, kv, dim, tokens = config.num_heads, config.num_kv_heads, config.head_dim, max_seq_len
        shapes: dict[str, tuple[int, ...]] = {
            name: (tokens, config.hidden_size) for name in ("hidden", "residual", "norm_out", "o_proj_out", "mlp_down")
        }
        shapes |= {"q": (tokens, heads, dim), "k": (tokens, kv, dim), "v": (tokens, kv, dim)}
        shapes |= {"q_proj_out": (tokens, heads * dim), "k_proj_out": (tokens, kv * dim)}
        shapes |= {"v_proj_out": (tokens, kv * dim), "attn_out_t": (tokens, heads, dim)}
        shapes |= {name: (heads, tokens, dim) for name in ("q_t", "k_t", "v_t", "attn_out")}
        shapes |= {"attn_out_2d": (tokens, heads * dim), "cos": (tokens, dim), "sin": (tokens, dim)}
        shapes |= {name: (tokens, config.intermediate_size) for name in ("mlp_gate", "mlp_up")}
        if use_qk_norm:
            shapes |= {"q_2d": (tokens * heads, dim), "k_2d": (tokens * kv, dim)}
        return cls(**{name: empty(shape, dtype=dtype) for name, shape in shapes.items()}, max_seq_len=tokens)
