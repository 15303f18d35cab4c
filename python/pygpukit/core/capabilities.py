"""What kernels a chip can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pygpukit._core import Device

__all__ = ["DeviceCapabilities", "FallbackDeviceCapabilities", "KernelType"]


class KernelType:
    """A way to compute a matrix product."""

    __slots__ = ("_min_sm", "_name", "_tensor_cores")

    FP32_FMA: ClassVar[KernelType]
    TF32_MMA: ClassVar[KernelType]
    FP16_MMA: ClassVar[KernelType]
    BF16_MMA: ClassVar[KernelType]
    L2_NAIVE: ClassVar[KernelType]
    TILED_SMEM: ClassVar[KernelType]

    def __init__(self, name: str, min_sm: int, tensor_cores: bool) -> None:
        self._name = name
        self._min_sm = min_sm
        self._tensor_cores = tensor_cores

    def uses_tensor_cores(self) -> bool:
        """True for kernels on matrix units."""
        return self._tensor_cores

    def min_sm_version(self) -> int:
        """The oldest chip that has what the kernel needs, e.g. 80."""
        return self._min_sm

    def name(self) -> str:
        """The name of the class attribute."""
        return self._name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelType) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"KernelType.{self._name}"


KernelType.FP32_FMA = KernelType("FP32_FMA", 60, False)
KernelType.TF32_MMA = KernelType("TF32_MMA", 80, True)
KernelType.FP16_MMA = KernelType("FP16_MMA", 70, True)
KernelType.BF16_MMA = KernelType("BF16_MMA", 80, True)
KernelType.L2_NAIVE = KernelType("L2_NAIVE", 60, False)
KernelType.TILED_SMEM = KernelType("TILED_SMEM", 60, False)


class DeviceCapabilities:
    """What a chip can do, from its SM version (90 for compute capability 9.0; 0 is the CPU)."""

    def __init__(self, sm_version: int = 86) -> None:
        self.device_id = 0
        self.name = f"SM {sm_version}" if sm_version else "CPU"
        self.sm_version = sm_version
        self.total_memory = 0
        self.l2_cache_size = 0
        self.shared_mem_per_block = 49152
        self.max_threads_per_block = 1024
        self.sm_count = 0
        self.warp_size = 32

    @classmethod
    def of(cls, device: Device) -> DeviceCapabilities:
        """The capabilities of a device that is present."""
        properties = device.properties
        found = cls(properties.compute_capability_major * 10 + properties.compute_capability_minor)
        found.device_id = device.index
        found.name = properties.name
        found.total_memory = properties.total_memory
        found.l2_cache_size = properties.l2_cache_size
        found.max_threads_per_block = properties.max_threads_per_block
        found.sm_count = properties.multiprocessor_count
        found.warp_size = properties.warp_size
        if properties.shared_memory_per_block:
            found.shared_mem_per_block = properties.shared_memory_per_block
        return found

    @staticmethod
    def ampere() -> DeviceCapabilities:
        """SM 80."""
        return DeviceCapabilities(80)

    @staticmethod
    def ada() -> DeviceCapabilities:
        """SM 89."""
        return DeviceCapabilities(89)

    @staticmethod
    def hopper() -> DeviceCapabilities:
        """SM 90."""
        return DeviceCapabilities(90)

    @property
    def compute_capability(self) -> int:
        """The same number as ``sm_version``."""
        return self.sm_version

    @property
    def compute_major(self) -> int:
        return self.sm_version // 10

    @property
    def compute_minor(self) -> int:
        return self.sm_version % 10

    @property
    def tensorcore(self) -> bool:
        """TF32 on matrix units."""
        return self.sm_version >= 80

    @property
    def tensorcore_fp16(self) -> bool:
        return self.sm_version >= 70

    @property
    def tensorcore_bf16(self) -> bool:
        return self.sm_version >= 80

    @property
    def async_copy(self) -> bool:
        """Copies from global to shared memory without registers."""
        return self.sm_version >= 80

    def supports_kernel(self, kernel_type: KernelType) -> bool:
        """True when the chip has what the kernel needs."""
        return self.sm_version >= kernel_type.min_sm_version()

    def best_matmul_kernel(
        self, use_tf32: bool = False, dtype_is_fp32: bool = True, large_matrix: bool = True
    ) -> KernelType:
        """The kernel kind that suits a matrix product on this chip. float32 is exact unless TF32 is asked for."""
        if dtype_is_fp32:
            if use_tf32 and self.tensorcore:
                return KernelType.TF32_MMA
        elif self.tensorcore_bf16:
            return KernelType.BF16_MMA
        elif self.tensorcore_fp16:
            return KernelType.FP16_MMA
        return KernelType.TILED_SMEM if large_matrix else KernelType.L2_NAIVE

    def is_ampere_or_newer(self) -> bool:
        return self.sm_version >= 80

    def __repr__(self) -> str:
        return f"DeviceCapabilities(name={self.name!r}, sm_version={self.sm_version})"


@dataclass
class FallbackDeviceCapabilities:
    """The plain record of the same facts."""

    device_id: int = 0
    name: str = "CPU Simulation"
    sm_version: int = 0
    compute_capability: int = 0
    tensorcore: bool = False
    tensorcore_fp16: bool = False
    tensorcore_bf16: bool = False
    async_copy: bool = False
