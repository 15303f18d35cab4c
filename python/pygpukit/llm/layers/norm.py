"""Where Norm is imported from by the name of the file."""

from __future__ import annotations

from pygpukit._core._llm import Norm

RMSNorm = LayerNorm = Norm

__all__ = ["LayerNorm", "Norm", "RMSNorm"]
