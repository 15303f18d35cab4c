"""The names of pygpukit.llm that users of models import from one place."""

from __future__ import annotations

from pygpukit.llm.loader import load_gpt2_from_safetensors as load_gpt2_from_safetensors
from pygpukit.llm.loader import load_llama_from_safetensors as load_llama_from_safetensors
from pygpukit.llm.loader import load_mixtral_from_safetensors as load_mixtral_from_safetensors
from pygpukit.llm.loader import load_model_from_safetensors as load_model_from_safetensors
from pygpukit.llm.loader import load_qwen3_from_safetensors as load_qwen3_from_safetensors
from pygpukit.llm.models.causal import CausalTransformerModel as CausalTransformerModel

__all__ = [
    "CausalTransformerModel",
    "load_gpt2_from_safetensors",
    "load_llama_from_safetensors",
    "load_mixtral_from_safetensors",
    "load_model_from_safetensors",
    "load_qwen3_from_safetensors",
]
