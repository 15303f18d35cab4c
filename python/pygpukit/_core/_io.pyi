"""The functions of pygpukit.io; internal."""

from collections.abc import Iterator, Sequence
import enum
from typing import Any, SupportsIndex

import numpy

import pygpukit._core
import pygpukit.typing


class TensorState(enum.Enum):
    """Where a tensor of a LazyModelLoader is."""

    OnDisk = 0

    Loading = 1

    Loaded = 2

    Evicted = 3

class PoolStats:
    """The budget of a LazyModelLoader and what became of it."""

    @property
    def quota(self) -> int: ...

    @property
    def used(self) -> int: ...

    @property
    def peak_used(self) -> int: ...

    @property
    def available(self) -> int: ...

    @property
    def utilization(self) -> float:
        """The part of the budget in use."""

    @property
    def total_blocks(self) -> int:
        """Tensors known."""

    @property
    def active_blocks(self) -> int:
        """Tensors loaded."""

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    @property
    def eviction_count(self) -> int: ...

class LazyModelLoader:
    """
    Tensors that are read when asked for; what was used longest ago makes room for them. What is loaded stays within memory_budget bytes.
    """

    def __init__(self, memory_budget: SupportsIndex, enable_eviction: bool = True, *, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    def load_file(self, path: pygpukit.typing.PathLike) -> None:
        """
        Makes the tensors of a file, an index or a folder known; reads none of them.
        """

    def get(self, name: str) -> pygpukit._core.GPUArray:
        """The tensor on the device, read where it is not there."""

    def prefetch(self, prefix: str) -> int:
        """
        Begins to load what begins with prefix, as far as there is room without eviction, and does not wait; how many.
        """

    def wait(self) -> None:
        """Until what prefetch began is loaded. `get` waits for its own tensor."""

    @property
    def tensor_names(self) -> list[str]: ...

    @property
    def num_tensors(self) -> int: ...

    @property
    def num_files(self) -> int: ...

    @property
    def total_size(self) -> int:
        """Bytes of all tensors."""

    @property
    def loaded_size(self) -> int: ...

    @property
    def pool_stats(self) -> PoolStats: ...

    def loaded_tensors(self) -> list[str]:
        """Names, the one used longest ago first."""

    def num_loaded(self) -> int: ...

    def tensor_state(self, name: str) -> TensorState: ...

    def unload_model(self) -> tuple[int, int]:
        """(tensors, bytes) given up: all."""

    def unload_layer(self, prefix: str) -> tuple[int, int]:
        """(tensors, bytes) given up."""

    def unload_tensors(self, names: Sequence[str]) -> tuple[int, int]:
        """(tensors, bytes) given up."""

    def clear(self) -> None:
        """Gives up all tensors and forgets the files."""

    def get_layer_tensors(self, prefix: str) -> list[str]:
        """Names that begin with prefix."""

    def layer_size(self, prefix: str) -> int:
        """Bytes of the tensors that begin with prefix."""

    def is_layer_loaded(self, prefix: str) -> bool: ...

    def layer_state(self, prefix: str) -> tuple[int, int, int, int]:
        """How many are (on disk, loading, loaded, evicted)."""

    def __len__(self) -> int: ...

    def __contains__(self, arg: Any, /) -> bool: ...

class Dtype:
    """The numbers of element types."""

    Float32: int = 0

    Float16: int = 1

    BFloat16: int = 2

    Float64: int = 3

    Float8E4M3: int = 4

    Float8E5M2: int = 5

    Int32: int = 6

    Int64: int = 7

    Int16: int = 8

    Int8: int = 9

    UInt8: int = 10

    Bool: int = 11

    UInt16: int = 12

    UInt32: int = 13

    UInt64: int = 14

    Complex64: int = 15

    @staticmethod
    def element_size(dtype: int) -> int:
        """Bytes of one element."""

    @staticmethod
    def name(dtype: int) -> str:
        """float32, float8_e4m3, ..."""

class TensorInfo:
    """What a file says of a tensor."""

    def __init__(self, name: str, dtype: int, shape: Sequence[int], offset: int, size_bytes: int) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> int:
        """A number of Dtype."""

    @property
    def shape(self) -> list[int]: ...

    @property
    def offset(self) -> int:
        """Of its first byte in the file."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def numel(self) -> int: ...

    @property
    def dtype_name(self) -> str:
        """float32, ..."""

    def __repr__(self) -> str: ...

class SafeTensorsFile:
    """
    The tensors of a .safetensors file, read-only. Their bytes are read when asked for.
    """

    def __init__(self, path: pygpukit.typing.PathLike) -> None: ...

    @property
    def path(self) -> str: ...

    @property
    def tensor_names(self) -> list[str]: ...

    @property
    def num_tensors(self) -> int: ...

    @property
    def file_size(self) -> int:
        """Bytes; behind an index of the files opened so far."""

    @property
    def metadata(self) -> dict[str, str]:
        """The texts written beside the tensors."""

    def tensor_info(self, name: str) -> TensorInfo: ...

    def tensor_bytes(self, name: str) -> bytes: ...

    def tensor_as_f32(self, name: str) -> numpy.ndarray:
        """A float32 copy with one axis."""

    def tensor_data_ptr(self, name: str) -> tuple[int, int]:
        """
        (address, size) of a copy of the bytes, which lives as long as this object.
        """

    def load(self, name: str, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None) -> pygpukit._core.GPUArray:
        """The tensor as an array, cast where asked."""

    def __len__(self) -> int: ...

    def __contains__(self, arg: Any, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

class ShardedSafeTensorsFile(SafeTensorsFile):
    """
    The tensors of several files with an index. A file is opened when it is needed.
    """

    def __init__(self, index_json_path: pygpukit.typing.PathLike) -> None: ...

def load_safetensors(path: pygpukit.typing.PathLike) -> SafeTensorsFile:
    """
    A file, an index of several, a folder, or the name of a model in the Hugging Face cache of this disk.
    """

def save_safetensors(path: pygpukit.typing.PathLike, tensors: dict[str, pygpukit._core.GPUArray], metadata: dict[str, str] | None | None = None) -> None:
    """Writes arrays by name. All or nothing."""

def find_model(name: pygpukit.typing.PathLike, cache_dir: pygpukit.typing.PathLike | None | None = None) -> str:
    """
    The path of a model: `name` itself where it exists, else its folder in the Hugging Face cache of this disk.
    """
