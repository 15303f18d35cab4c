"""What models look like, and how the tensors of their checkpoints are named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pygpukit._core._llm import TransformerConfig as TransformerConfig
from pygpukit._core._llm import detect_model_spec_name as _detect_name
from pygpukit._core._llm import model_spec_fields as _fields

__all__ = [
    "GPT2_SPEC",
    "LLAMA4_SPEC",
    "LLAMA_SPEC",
    "MIXTRAL_SPEC",
    "MODEL_SPECS",
    "QWEN2_SPEC",
    "QWEN3_MOE_SPEC",
    "QWEN3_SPEC",
    "GPT2Config",
    "LlamaConfig",
    "ModelSpec",
    "Qwen3Config",
    "TransformerConfig",
    "detect_model_spec",
]


@dataclass(frozen=True)
class ModelSpec:
    """Names of tensors with {layer} and {expert} for numbers, and what the family computes. None: it has no such."""

    name: str
    embed_tokens: str | None = None
    position_embed: str | None = None
    lm_head: str | None = None
    final_norm: str | None = None
    final_norm_bias: str | None = None
    attn_norm: str | None = None
    attn_norm_bias: str | None = None
    q_proj: str | None = None
    k_proj: str | None = None
    v_proj: str | None = None
    o_proj: str | None = None
    q_bias: str | None = None
    k_bias: str | None = None
    v_bias: str | None = None
    o_bias: str | None = None
    q_norm: str | None = None
    k_norm: str | None = None
    mlp_norm: str | None = None
    mlp_norm_bias: str | None = None
    fc1: str | None = None
    fc1_bias: str | None = None
    fc2: str | None = None
    fc2_bias: str | None = None
    gate_proj: str | None = None
    up_proj: str | None = None
    down_proj: str | None = None
    moe_gate: str | None = None
    expert_gate_proj: str | None = None
    expert_up_proj: str | None = None
    expert_down_proj: str | None = None
    norm_type: str = "rmsnorm"
    activation: str = "silu"
    use_rope: bool = True
    use_qk_norm: bool = False
    use_position_embed: bool = False
    qkv_combined: bool = False
    weight_transpose: bool = False
    is_moe: bool = False
    default_norm_eps: float = 1e-5
    default_rope_theta: float = 1e4
    hf_model_type: str = ""
    experts_gate_up: str | None = None
    experts_down: str | None = None
    shared_gate_proj: str | None = None
    shared_up_proj: str | None = None
    shared_down_proj: str | None = None


GPT2_SPEC = ModelSpec(**_fields("gpt2"))
LLAMA_SPEC = ModelSpec(**_fields("llama"))
QWEN2_SPEC = ModelSpec(**_fields("qwen2"))
QWEN3_SPEC = ModelSpec(**_fields("qwen3"))
QWEN3_MOE_SPEC = ModelSpec(**_fields("qwen3_moe"))
MIXTRAL_SPEC = ModelSpec(**_fields("mixtral"))
LLAMA4_SPEC = ModelSpec(**_fields("llama4_text"))
MODEL_SPECS = {
    spec.name: spec
    for spec in (GPT2_SPEC, LLAMA_SPEC, QWEN3_SPEC, QWEN3_MOE_SPEC, QWEN2_SPEC, MIXTRAL_SPEC, LLAMA4_SPEC)
}


def detect_model_spec(tensor_names: Iterable[str]) -> ModelSpec:
    """The spec that the tensors of a checkpoint are named by. Raises ValueError: Cannot detect model type."""
    return MODEL_SPECS[_detect_name(list(tensor_names))]


@dataclass
class GPT2Config:
    """GPT-2 by the names of its own config."""

    vocab_size: int = 50257
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_positions: int = 1024
    layer_norm_eps: float = 1e-5

    @property
    def n_inner(self) -> int:
        return 4 * self.n_embd

    def to_transformer_config(self) -> TransformerConfig:
        return TransformerConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.n_embd,
            num_layers=self.n_layer,
            num_heads=self.n_head,
            intermediate_size=self.n_inner,
            norm_type="layernorm",
            activation="gelu",
            use_rope=False,
            max_position_embeddings=self.n_positions,
            norm_eps=self.layer_norm_eps,
        )


@dataclass
class LlamaConfig:
    """LLaMA by the names of its own config."""

    vocab_size: int = 32000
    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_hidden_layers: int = 22
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1e4

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    def to_transformer_config(self) -> TransformerConfig:
        return TransformerConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_hidden_layers,
            num_heads=self.num_attention_heads,
            num_kv_heads=self.num_key_value_heads,
            intermediate_size=self.intermediate_size,
            _head_dim=self.head_dim,
            max_position_embeddings=self.max_position_embeddings,
            norm_eps=self.rms_norm_eps,
            rope_theta=self.rope_theta,
        )


@dataclass
class Qwen3Config:
    """Qwen3 by the names of its own config."""

    vocab_size: int = 151936
    hidden_size: int = 4096
    intermediate_size: int = 12288
    num_hidden_layers: int = 36
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 40960
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e6

    def to_transformer_config(self) -> TransformerConfig:
        return TransformerConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_hidden_layers,
            num_heads=self.num_attention_heads,
            num_kv_heads=self.num_key_value_heads,
            intermediate_size=self.intermediate_size,
            _head_dim=self.head_dim,
            max_position_embeddings=self.max_position_embeddings,
            norm_eps=self.rms_norm_eps,
            rope_theta=self.rope_theta,
        )
