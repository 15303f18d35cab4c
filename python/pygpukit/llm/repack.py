"""Where the functions that pack weights are imported from by 0.2's name of the file."""

from __future__ import annotations

from pygpukit.llm.layers.utils import repack_linear, repack_model_weights, repack_norm, repack_weight

__all__ = ["repack_linear", "repack_model_weights", "repack_norm", "repack_weight"]
