"""Language models: load a checkpoint, generate text.

>>> from pygpukit.llm import load_model_from_safetensors
>>> model = load_model_from_safetensors("stories15M")  # doctest: +SKIP
>>> model.generate([1], max_new_tokens=3, temperature=0.0)  # doctest: +SKIP
[1, 9038, 2501, 263]
"""

from __future__ import annotations

from pygpukit.llm.buffers import (
    DecodeBuffers,
    PrefillBuffers,
)
from pygpukit.llm.chat import (
    ChatMessage,
    ThinkingParser,
    apply_chat_template,
    create_chat_prompt,
    format_chat_messages,
)
from pygpukit.llm.config import (
    GPT2_SPEC,
    LLAMA4_SPEC,
    LLAMA_SPEC,
    MIXTRAL_SPEC,
    MODEL_SPECS,
    QWEN2_SPEC,
    QWEN3_MOE_SPEC,
    QWEN3_SPEC,
    GPT2Config,
    LlamaConfig,
    ModelSpec,
    Qwen3Config,
    TransformerConfig,
    detect_model_spec,
)
from pygpukit.llm.decode import (
    DecodeBatch,
    DecodeJacobi,
    DecodeM1,
    DecodeM1Graph,
    DecodeSpeculative,
    DecodeStrategy,
)
from pygpukit.llm.layers import (
    MLP,
    Attention,
    CausalSelfAttention,
    LayerNorm,
    Linear,
    LinearBF16,
    LinearFP8,
    LlamaAttention,
    LlamaBlock,
    LlamaMLP,
    MoELayer,
    Norm,
    RMSNorm,
    TransformerBlock,
    apply_rotary_pos_emb_numpy,
    precompute_freqs_cis,
    repack_linear,
    repack_norm,
    repack_weight,
)
from pygpukit.llm.loader import (
    DEFAULT_MODEL,
    load_gpt2_from_safetensors,
    load_llama_from_safetensors,
    load_mixtral_from_safetensors,
    load_model_from_safetensors,
    load_qwen3_from_safetensors,
)
from pygpukit.llm.models.causal import CausalTransformerModel, Engine, Token
from pygpukit.llm.quant import (
    FP8QuantConfig,
    ModelOptimizationInfo,
    PruningConfig,
    QATQuantConfig,
    SparsityConfig,
    dequantize_fp8_e4m3_block,
    is_fp8_weight,
    load_fp8_weight_direct,
)
from pygpukit.llm.repack import (
    repack_model_weights,
)
from pygpukit.llm.safetensors import (
    Dtype,
    LazyModelLoader,
    PoolStats,
    SafeTensorsFile,
    ShardedSafeTensorsFile,
    TensorInfo,
    TensorState,
    load_safetensors,
)
from pygpukit.llm.sampling import (
    sample_token,
)
from pygpukit.llm.streaming import (
    AutoLRU,
    LayerStreamingContext,
    LoadingStrategy,
    SimpleStreaming,
    SlidingWindow,
    create_streaming_context,
)
from pygpukit.llm.tokenizer import Tokenizer, TokenStream

QwenModel = GPT2Model = LlamaModel = CausalTransformerModel

__all__ = [
    "DEFAULT_MODEL",
    "GPT2_SPEC",
    "LLAMA4_SPEC",
    "LLAMA_SPEC",
    "MIXTRAL_SPEC",
    "MLP",
    "MODEL_SPECS",
    "QWEN2_SPEC",
    "QWEN3_MOE_SPEC",
    "QWEN3_SPEC",
    "Attention",
    "AutoLRU",
    "CausalSelfAttention",
    "CausalTransformerModel",
    "ChatMessage",
    "DecodeBatch",
    "DecodeBuffers",
    "DecodeJacobi",
    "DecodeM1",
    "DecodeM1Graph",
    "DecodeSpeculative",
    "DecodeStrategy",
    "Dtype",
    "Engine",
    "FP8QuantConfig",
    "GPT2Config",
    "GPT2Model",
    "LayerNorm",
    "LayerStreamingContext",
    "LazyModelLoader",
    "Linear",
    "LinearBF16",
    "LinearFP8",
    "LlamaAttention",
    "LlamaBlock",
    "LlamaConfig",
    "LlamaMLP",
    "LlamaModel",
    "LoadingStrategy",
    "MoELayer",
    "ModelOptimizationInfo",
    "ModelSpec",
    "Norm",
    "PoolStats",
    "PrefillBuffers",
    "PruningConfig",
    "QATQuantConfig",
    "Qwen3Config",
    "QwenModel",
    "RMSNorm",
    "SafeTensorsFile",
    "ShardedSafeTensorsFile",
    "SimpleStreaming",
    "SlidingWindow",
    "SparsityConfig",
    "TensorInfo",
    "TensorState",
    "ThinkingParser",
    "Token",
    "TokenStream",
    "Tokenizer",
    "TransformerBlock",
    "TransformerConfig",
    "apply_chat_template",
    "apply_rotary_pos_emb_numpy",
    "create_chat_prompt",
    "create_streaming_context",
    "dequantize_fp8_e4m3_block",
    "detect_model_spec",
    "format_chat_messages",
    "is_fp8_weight",
    "load_fp8_weight_direct",
    "load_gpt2_from_safetensors",
    "load_llama_from_safetensors",
    "load_mixtral_from_safetensors",
    "load_model_from_safetensors",
    "load_qwen3_from_safetensors",
    "load_safetensors",
    "precompute_freqs_cis",
    "repack_linear",
    "repack_model_weights",
    "repack_norm",
    "repack_weight",
    "sample_token",
]
