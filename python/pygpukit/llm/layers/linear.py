"""Where LinearBF16 and LinearFP8 are imported from by the name of the file."""

from __future__ import annotations

from pygpukit._core._llm import LinearBF16, LinearFP8

Linear = LinearBF16

__all__ = ["Linear", "LinearBF16", "LinearFP8"]
