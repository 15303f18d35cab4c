"""Where MLP is imported from by the name of the file."""

from __future__ import annotations

from pygpukit._core._llm import MLP

LlamaMLP = MLP

__all__ = ["MLP", "LlamaMLP"]
