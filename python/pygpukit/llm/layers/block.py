"""Where TransformerBlock is imported from by the name of the file."""

from __future__ import annotations

from pygpukit._core._llm import TransformerBlock

LlamaBlock = TransformerBlock

__all__ = ["LlamaBlock", "TransformerBlock"]
