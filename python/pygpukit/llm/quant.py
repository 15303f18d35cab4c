"""What a checkpoint's config.json says about quantised, pruned and sparse weights, and FP8 weights as NumPy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pygpukit._core import bitcast, dequantize, from_numpy

__all__ = [
    "FP8QuantConfig",
    "ModelOptimizationInfo",
    "PruningConfig",
    "QATQuantConfig",
    "SparsityConfig",
    "dequantize_fp8_e4m3_block",
    "is_fp8_weight",
    "load_fp8_weight_direct",
]


@dataclass
class FP8QuantConfig:
    """FP8 weights with a scale for each block."""

    quant_method: str = "fp8"
    fmt: str = "e4m3"
    weight_block_size: tuple[int, int] = (128, 128)
    modules_to_not_convert: list[str] = field(default_factory=list)

    @classmethod
    def from_config(cls, hf_config: Mapping[str, Any]) -> FP8QuantConfig | None:
        """None when config.json tells of no FP8 weights."""
        told = hf_config.get("quantization_config") or {}
        if told.get("quant_method") != "fp8":
            return None
        rows, columns = told.get("weight_block_size") or (128, 128)
        return cls("fp8", told.get("fmt", "e4m3"), (rows, columns), list(told.get("modules_to_not_convert") or []))


@dataclass
class QATQuantConfig:
    """How weights were quantised: by modelopt's layout (producer and quantization), or by quantization_config."""

    quant_method: str
    quant_algo: str = ""
    group_size: int | None = None
    kv_cache_quant_algo: str | None = None
    exclude_modules: list[str] = field(default_factory=list)
    producer: str = ""
    producer_version: str = ""

    @classmethod
    def from_config(cls, hf_config: Mapping[str, Any]) -> QATQuantConfig | None:
        """None when config.json names no known method."""
        if "producer" in hf_config and "quantization" in hf_config:
            told, producer = hf_config["quantization"], hf_config["producer"]
            return cls(
                "modelopt",
                told.get("quant_algo") or "",
                told.get("group_size"),
                told.get("kv_cache_quant_algo"),
                list(told.get("exclude_modules") or []),
                producer.get("name", ""),
                producer.get("version", ""),
            )
        told = hf_config.get("quantization_config") or {}
        method = told.get("quant_method")
        if method not in ("qat", "awq", "gptq", "bnb", "modelopt"):
            return None
        excluded = told.get("exclude_modules") or told.get("modules_to_not_convert") or []
        algorithm = told.get("quant_algo") or (f"W{told['bits']}A16" if "bits" in told else "")
        return cls(method, algorithm, told.get("group_size"), told.get("kv_cache_quant_algo"), list(excluded))


@dataclass
class PruningConfig:
    """How a model was pruned."""

    pruning_method: str
    sparsity: float = 0.0
    pruned_heads: dict[int, list[int]] = field(default_factory=dict)
    is_structured: bool = False

    @classmethod
    def from_config(cls, hf_config: Mapping[str, Any]) -> PruningConfig | None:
        """None when config.json tells of no pruning."""
        told = hf_config.get("pruning_config") or {}
        heads = {int(layer): list(which) for layer, which in (hf_config.get("pruned_heads") or {}).items()}
        if not told and not heads:
            return None
        method = told.get("pruning_method") or told.get("method") or ("heads" if heads else "unknown")
        structured = bool(told.get("is_structured", bool(heads)))
        return cls(method, float(told.get("sparsity", 0.0)), heads, structured)


@dataclass
class SparsityConfig:
    """Which weights are zero."""

    pattern: str = "unstructured"
    block_size: int | None = None
    density: float = 1.0

    @classmethod
    def from_config(cls, hf_config: Mapping[str, Any]) -> SparsityConfig | None:
        """None when config.json tells of no sparsity."""
        told = hf_config.get("sparsity_config")
        if not told:
            return None
        pattern = told.get("pattern") or told.get("sparsity_structure") or "unstructured"
        return cls(pattern, told.get("block_size"), float(told.get("density", 1.0)))

    def is_2_4_sparse(self) -> bool:
        return self.pattern in ("2:4", "2_4", "nvidia_2_4")


@dataclass
class ModelOptimizationInfo:
    """All of the above that a config.json tells of."""

    fp8_config: FP8QuantConfig | None = None
    qat_config: QATQuantConfig | None = None
    pruning_config: PruningConfig | None = None
    sparsity_config: SparsityConfig | None = None

    @classmethod
    def from_config(cls, hf_config: Mapping[str, Any]) -> ModelOptimizationInfo:
        return cls(
            FP8QuantConfig.from_config(hf_config),
            QATQuantConfig.from_config(hf_config),
            PruningConfig.from_config(hf_config),
            SparsityConfig.from_config(hf_config),
        )

    def _parts(self) -> list[Any]:
        parts = (self.fp8_config, self.qat_config, self.pruning_config, self.sparsity_config)
        return [part for part in parts if part is not None]

    def has_any_optimization(self) -> bool:
        return bool(self._parts())

    def summary(self) -> str:
        return "; ".join(str(part) for part in self._parts()) or "no optimisation"


def dequantize_fp8_e4m3_block(fp8_bytes: Any, scale_inv: Any, block_size: tuple[int, int] = (128, 128)) -> Any:
    """The float32 numbers of codes [H, W] of uint8; scales are float32, or uint16 bits of bfloat16."""
    rows, columns = (-(-size // block) for size, block in zip(fp8_bytes.shape, block_size, strict=True))
    if scale_inv.dtype == np.uint16:
        scale_inv = (scale_inv.astype(np.uint32) << 16).view(np.float32)
    if scale_inv.shape != (rows, columns):
        raise ValueError(f"dequantize_fp8_e4m3_block: scale_inv must be {(rows, columns)}, got {scale_inv.shape}")
    codes = bitcast(from_numpy(np.ascontiguousarray(fp8_bytes), device="cpu"), "float8_e4m3")
    scale = from_numpy(np.ascontiguousarray(scale_inv, np.float32), device="cpu")
    return dequantize(codes, scale).to_numpy()


def is_fp8_weight(name: str, tensor_names: Container[str]) -> bool:
    """Whether scales lie beside the tensor."""
    return f"{name}_scale_inv" in tensor_names


def load_fp8_weight_direct(st: Any, name: str, block_size: tuple[int, int] = (128, 128)) -> tuple[Any, Any]:
    """(codes as uint8 [H, W], scales as float32, or uint16 bits of bfloat16) of an open SafeTensorsFile."""
    info, scale_info = st.tensor_info(name), st.tensor_info(f"{name}_scale_inv")
    codes = np.frombuffer(st.tensor_bytes(name), np.uint8).reshape(info.shape)
    kind = np.float32 if scale_info.dtype_name == "float32" else np.uint16
    scales = np.frombuffer(st.tensor_bytes(f"{name}_scale_inv"), kind).reshape(scale_info.shape)
    expected = tuple(-(-size // block) for size, block in zip(info.shape, block_size, strict=True))
    if scales.shape != expected:
        raise ValueError(f"load_fp8_weight_direct: {name}_scale_inv must be {expected}, got {scales.shape}")
    return codes, scales
