"""PyGPUkit: a small GPU runtime. NumPy-like arrays, custom CUDA kernels, streams and graphs, with and without a GPU.

>>> import pygpukit as gp
>>> x = gp.ones((2, 3)) + 1
>>> x.sum().item()
12.0
"""

from __future__ import annotations

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from pygpukit import _startup
from pygpukit import errors as errors
from pygpukit._core import *  # noqa: F403
from pygpukit._core import Device as _Device
from pygpukit.core.capabilities import DeviceCapabilities as DeviceCapabilities
from pygpukit.core.capabilities import KernelType as KernelType
from pygpukit.core.device import DeviceInfo as DeviceInfo
from pygpukit.core.device import get_device_capabilities as get_device_capabilities
from pygpukit.core.device import get_device_info as get_device_info
from pygpukit.core.dtypes import (
    DataType as DataType,
)
from pygpukit.core.dtypes import (
    bfloat16 as bfloat16,
)
from pygpukit.core.dtypes import (
    bool_ as bool_,
)
from pygpukit.core.dtypes import (
    complex64 as complex64,
)
from pygpukit.core.dtypes import (
    complex128 as complex128,
)
from pygpukit.core.dtypes import (
    float4_e2m1 as float4_e2m1,
)
from pygpukit.core.dtypes import (
    float8_e4m3 as float8_e4m3,
)
from pygpukit.core.dtypes import (
    float8_e5m2 as float8_e5m2,
)
from pygpukit.core.dtypes import (
    float16 as float16,
)
from pygpukit.core.dtypes import (
    float32 as float32,
)
from pygpukit.core.dtypes import (
    float64 as float64,
)
from pygpukit.core.dtypes import (
    int4 as int4,
)
from pygpukit.core.dtypes import (
    int8 as int8,
)
from pygpukit.core.dtypes import (
    int16 as int16,
)
from pygpukit.core.dtypes import (
    int32 as int32,
)
from pygpukit.core.dtypes import (
    int64 as int64,
)
from pygpukit.core.dtypes import (
    uint8 as uint8,
)
from pygpukit.core.dtypes import (
    uint16 as uint16,
)
from pygpukit.core.dtypes import (
    uint32 as uint32,
)
from pygpukit.core.dtypes import (
    uint64 as uint64,
)
from pygpukit.core.info import __array_api_version__ as __array_api_version__
from pygpukit.core.info import __array_namespace_info__ as __array_namespace_info__
from pygpukit.core.stream import StreamManager as StreamManager
from pygpukit.core.stream import default_stream as default_stream
from pygpukit.errors import (
    ArgumentError as ArgumentError,
)
from pygpukit.errors import (
    CudaError as CudaError,
)
from pygpukit.errors import (
    DeviceError as DeviceError,
)
from pygpukit.errors import (
    DTypeError as DTypeError,
)
from pygpukit.errors import (
    Error as Error,
)
from pygpukit.errors import (
    ExchangeError as ExchangeError,
)
from pygpukit.errors import (
    NvrtcError as NvrtcError,
)
from pygpukit.errors import (
    NvrtcErrorCode as NvrtcErrorCode,
)
from pygpukit.errors import (
    OutOfMemoryError as OutOfMemoryError,
)
from pygpukit.errors import (
    OutOfRangeError as OutOfRangeError,
)
from pygpukit.errors import (
    ShapeError as ShapeError,
)
from pygpukit.errors import (
    UnsupportedError as UnsupportedError,
)
from pygpukit.io import NpzFile as NpzFile
from pygpukit.io import load as load
from pygpukit.io import save as save
from pygpukit.io import savez as savez
from pygpukit.io import savez_compressed as savez_compressed
from pygpukit.jit import (
    ElementwiseKernel as ElementwiseKernel,
)
from pygpukit.jit import (
    JITKernel as JITKernel,
)
from pygpukit.jit import (
    ReductionKernel as ReductionKernel,
)
from pygpukit.jit import (
    fuse as fuse,
)
from pygpukit.jit import (
    get_driver_requirements as get_driver_requirements,
)
from pygpukit.jit import (
    get_warmup_error as get_warmup_error,
)
from pygpukit.jit import (
    is_warmup_done as is_warmup_done,
)
from pygpukit.jit import (
    jit as jit,
)
from pygpukit.jit import (
    warmup as warmup,
)

# After the star above, which brings the extension's own sub-modules of these names.
import pygpukit.fft as fft  # type: ignore[no-redef]  # noqa: F401  # isort: skip
import pygpukit.linalg as linalg  # type: ignore[no-redef]  # noqa: F401  # isort: skip
import pygpukit.random as random  # type: ignore[no-redef]  # noqa: F401  # isort: skip

if _TYPE_CHECKING:
    from pygpukit import benchmark as benchmark
    from pygpukit import compat as compat
    from pygpukit import core as core
    from pygpukit import memory as memory
    from pygpukit import ops as ops
    from pygpukit import scheduler as scheduler
    from pygpukit import testing as testing
    from pygpukit import typing as typing
    from pygpukit._core._compat import *  # noqa: F403

device = _Device
newaxis = None
__version__: str = _startup.connect()

__all__ = _startup.public_names(globals())


def __getattr__(name: str) -> object:
    return _startup.load_lazily(name)


def __dir__() -> list[str]:
    return _startup.names_with_lazy(globals())
