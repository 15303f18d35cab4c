import pygpukit.typing


class KernelType:
    """A way to compute a matrix product."""

    def uses_tensor_cores(self) -> bool:
        """True for kernels on matrix units."""

    def min_sm_version(self) -> int:
        """The oldest chip that has what the kernel needs, e.g. 80."""

    def name(self) -> str:
        """The name of the class attribute."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    FP32_FMA: KernelType = ...

    TF32_MMA: KernelType = ...

    FP16_MMA: KernelType = ...

    BF16_MMA: KernelType = ...

    L2_NAIVE: KernelType = ...

    TILED_SMEM: KernelType = ...

class DeviceCapabilities:
    """
    What a chip can do, from its SM version (90 for compute capability 9.0; 0 is the CPU).
    """

    def __init__(self, sm_version: int = 86) -> None: ...

    @staticmethod
    def of(device: pygpukit.typing.DeviceLike) -> DeviceCapabilities:
        """The capabilities of a device that is present."""

    @staticmethod
    def ampere() -> DeviceCapabilities:
        """SM 80."""

    @staticmethod
    def ada() -> DeviceCapabilities:
        """SM 89."""

    @staticmethod
    def hopper() -> DeviceCapabilities:
        """SM 90."""

    @property
    def device_id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def sm_version(self) -> int: ...

    @property
    def compute_capability(self) -> int:
        """The same number as sm_version."""

    @property
    def compute_major(self) -> int: ...

    @property
    def compute_minor(self) -> int: ...

    @property
    def tensorcore(self) -> bool:
        """TF32 on matrix units."""

    @property
    def tensorcore_fp16(self) -> bool: ...

    @property
    def tensorcore_bf16(self) -> bool: ...

    @property
    def async_copy(self) -> bool:
        """Copies from global to shared memory without registers."""

    @property
    def total_memory(self) -> int: ...

    @property
    def l2_cache_size(self) -> int: ...

    @property
    def shared_mem_per_block(self) -> int: ...

    @property
    def max_threads_per_block(self) -> int: ...

    @property
    def sm_count(self) -> int: ...

    @property
    def warp_size(self) -> int: ...

    def supports_kernel(self, kernel_type: KernelType) -> bool:
        """True when the chip has what the kernel needs."""

    def best_matmul_kernel(self, use_tf32: bool = False, dtype_is_fp32: bool = True, large_matrix: bool = True) -> KernelType:
        """
        The kind of kernel that suits a matrix product on this chip. float32 is exact unless TF32 is asked for.
        """

    def is_ampere_or_newer(self) -> bool: ...

    def __repr__(self) -> str: ...
