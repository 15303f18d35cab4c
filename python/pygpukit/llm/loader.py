"""Models from SafeTensors checkpoints with a config.json beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pygpukit.llm.config import GPT2_SPEC, LLAMA_SPEC, MIXTRAL_SPEC, QWEN3_SPEC
from pygpukit.llm.models.causal import CausalTransformerModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pygpukit.llm.config import ModelSpec
    from pygpukit.typing import DeviceLike, DTypeLike, PathLike

__all__ = [
    "DEFAULT_MODEL",
    "load_gpt2_from_safetensors",
    "load_llama_from_safetensors",
    "load_mixtral_from_safetensors",
    "load_model_from_safetensors",
    "load_qwen3_from_safetensors",
]

DEFAULT_MODEL = str(Path(__file__).with_name("default_model"))


def load_model_from_safetensors(
    model_path: PathLike,
    dtype: DTypeLike | None = "float32",
    spec: ModelSpec | None = None,
    repack_weights: bool = True,
    *,
    device: DeviceLike | None = None,
    quantize: DTypeLike | None = None,
    group: int = 0,
    evictable: bool = False,
    progress: bool | Callable[[int, int], object] | None = None,
) -> CausalTransformerModel:
    """CausalTransformerModel.from_safetensors; the family is found by the names of the tensors unless `spec` tells it.

    Weights are always packed for the kernels: repack_weights changes nothing.
    """
    return CausalTransformerModel.from_safetensors(
        model_path,
        dtype,
        device=device,
        quantize=quantize,
        group=group,
        spec=spec,
        evictable=evictable,
        progress=progress,
    )


def load_gpt2_from_safetensors(model_path: PathLike, dtype: DTypeLike | None = "float32") -> CausalTransformerModel:
    """A model whose tensors are named as those of GPT-2."""
    return load_model_from_safetensors(model_path, dtype, GPT2_SPEC)


def load_llama_from_safetensors(model_path: PathLike, dtype: DTypeLike | None = "float32") -> CausalTransformerModel:
    """A model whose tensors are named as those of LLaMA."""
    return load_model_from_safetensors(model_path, dtype, LLAMA_SPEC)


def load_qwen3_from_safetensors(model_path: PathLike, dtype: DTypeLike | None = "float32") -> CausalTransformerModel:
    """A model whose tensors are named as those of Qwen3."""
    return load_model_from_safetensors(model_path, dtype, QWEN3_SPEC)


def load_mixtral_from_safetensors(model_path: PathLike, dtype: DTypeLike | None = "bfloat16") -> CausalTransformerModel:
    """A model whose tensors are named as those of Mixtral."""
    return load_model_from_safetensors(model_path, dtype, MIXTRAL_SPEC)
