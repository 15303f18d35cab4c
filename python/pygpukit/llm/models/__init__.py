"""The models of pygpukit.llm."""

from __future__ import annotations

from pygpukit.llm.models import llama4 as llama4
from pygpukit.llm.models.causal import CausalTransformerModel as CausalTransformerModel

__all__ = ["CausalTransformerModel", "llama4"]
