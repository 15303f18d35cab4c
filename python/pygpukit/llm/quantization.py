"""Where pygpukit.llm.quant is imported from by its long name."""

from __future__ import annotations

from pygpukit.llm.quant import *  # noqa: F403
from pygpukit.llm.quant import __all__ as __all__
