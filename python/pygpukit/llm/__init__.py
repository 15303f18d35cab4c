"""Language models: load a checkpoint, generate text.

>>> from pygpukit.llm import load_model_from_safetensors
>>> model = load_model_from_safetensors("stories15M")  # doctest: +SKIP
>>> model.generate([1], max_new_tokens=3, temperature=0.0)  # doctest: +SKIP
[1, 9038, 2501, 263]
"""

from __future__ import annotations

from pygpukit.llm.chat import (
    ChatMessage,
    ThinkingParser,
    apply_chat_template,
    create_chat_prompt,
    format_chat_messages,
)
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
from pygpukit.llm.tokenizer import Tokenizer, TokenStream

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
    "ChatMessage",
    "Engine",
    "GPT2Config",
    "LlamaConfig",
    "ModelSpec",
    "Qwen3Config",
    "QwenModel",
    "ThinkingParser",
    "Token",
    "TokenStream",
    "Tokenizer",
    "TransformerConfig",
    "apply_chat_template",
    "create_chat_prompt",
    "detect_model_spec",
    "format_chat_messages",
    "load_gpt2_from_safetensors",
    "load_llama_from_safetensors",
    "load_mixtral_from_safetensors",
    "load_model_from_safetensors",
    "load_qwen3_from_safetensors",
]
