"""The names of pygpukit.llm that users of models import from one place."""

from __future__ import annotations

from pygpukit.llm import *  # noqa: F403
from pygpukit.llm import __all__ as __all__
