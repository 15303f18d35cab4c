"""Language models: load a checkpoint, generate text.

>>> from pygpukit.llm import load_model_from_safetensors
>>> model = load_model_from_safetensors("stories15M")  # doctest: +SKIP
>>> model.generate([1], max_new_tokens=3, temperature=0.0)  # doctest: +SKIP
[1, 9038, 2501, 263]
"""

from __future__ import annotations

from pygpukit._core._text import Tokenizer, TokenStream
from pygpukit.llm.config import (
    GPT2_SPEC,
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
from pygpukit.llm.loader import (
    load_gpt2_from_safetensors,
    load_llama_from_safetensors,
    load_mixtral_from_safetensors,
    load_model_from_safetensors,
    load_qwen3_from_safetensors,
)
from pygpukit.llm.models.causal import CausalTransformerModel, Engine, Token

QwenModel = CausalTransformerModel

__all__ = [
    "GPT2_SPEC",
    "LLAMA_SPEC",
    "MIXTRAL_SPEC",
    "MODEL_SPECS",
    "QWEN2_SPEC",
    "QWEN3_MOE_SPEC",
    "QWEN3_SPEC",
    "CausalTransformerModel",
    "Engine",
    "GPT2Config",
    "LlamaConfig",
    "ModelSpec",
    "Qwen3Config",
    "QwenModel",
    "Token",
    "TokenStream",
    "Tokenizer",
    "TransformerConfig",
    "detect_model_spec",
    "load_gpt2_from_safetensors",
    "load_llama_from_safetensors",
    "load_mixtral_from_safetensors",
    "load_model_from_safetensors",
    "load_qwen3_from_safetensors",
]
