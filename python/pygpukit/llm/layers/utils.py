"""Packing of weights: layers have theirs packed for the kernels already, so that these have nothing to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pygpukit import GPUArray
    from pygpukit._core._llm import LinearBF16, Norm
    from pygpukit.llm.models.causal import CausalTransformerModel

    Model = TypeVar("Model", bound=CausalTransformerModel)

__all__ = ["repack_linear", "repack_model_weights", "repack_norm", "repack_weight"]


def repack_weight(weight: GPUArray) -> GPUArray:
    """The same numbers, row-major."""
    return weight.contiguous()


def repack_linear(linear: LinearBF16) -> LinearBF16:
    """The layer itself: its matrix is packed."""
    return linear


def repack_norm(norm: Norm) -> Norm:
    """The layer itself."""
    return norm


def repack_model_weights(model: Model) -> Model:
    """The model itself: its matrices are packed when it is loaded."""
    return model
