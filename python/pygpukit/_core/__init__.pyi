"""PyGPUkit's C++ core. Use it through the package pygpukit."""

from collections.abc import Iterable, Sequence
import enum
import types
from typing import Any, NoReturn, SupportsIndex

from pygpukit._core import (
    _asr as _asr,
    _audio as _audio,
    _audio_features as _audio_features,
    _chat as _chat,
    _compat as _compat,
    _english as _english,
    _io as _io,
    _llm as _llm,
    _npy as _npy,
    _profile as _profile,
    _tasks as _tasks,
    _text as _text,
    _tts as _tts,
    _voice as _voice,
    fft as fft,
    linalg as linalg,
    random as random,
    runtime as runtime
)
import pygpukit.core.dtypes
import pygpukit.core.results
import pygpukit.typing


def _version() -> str:
    """The version of the library; internal."""

class _Session:
    """One entered stream or device; internal."""

def _register_dtype(index: int, dtype: object) -> None:
    """The DataType object for one element type; internal."""

def _dtype_from_numpy(dtype: object) -> pygpukit.core.dtypes.DataType:
    """The DataType of a numpy.dtype; internal."""

def _numpy_dtype(dtype: object) -> Any:
    """The numpy.dtype that holds a dtype's bits; internal."""

def result_type(*arguments: object) -> pygpukit.core.dtypes.DataType:
    """
    The dtype an operation on these arrays, dtypes and Python numbers computes in.
    """

class DeviceProperties:
    """What the driver says about a device."""

    @property
    def name(self) -> str: ...

    @property
    def uuid(self) -> str: ...

    @property
    def pci_bus(self) -> str: ...

    @property
    def total_memory(self) -> int:
        """Bytes."""

    @property
    def compute_capability_major(self) -> int:
        """0 on the CPU."""

    @property
    def compute_capability_minor(self) -> int: ...

    @property
    def multiprocessor_count(self) -> int: ...

    @property
    def max_threads_per_block(self) -> int: ...

    @property
    def max_threads_per_multiprocessor(self) -> int: ...

    @property
    def warp_size(self) -> int: ...

    @property
    def shared_memory_per_block(self) -> int: ...

    @property
    def shared_memory_per_block_optin(self) -> int: ...

    @property
    def shared_memory_per_multiprocessor(self) -> int: ...

    @property
    def registers_per_block(self) -> int: ...

    @property
    def l2_cache_size(self) -> int: ...

    @property
    def clock_khz(self) -> int: ...

    @property
    def memory_clock_khz(self) -> int: ...

    @property
    def memory_bus_bits(self) -> int: ...

    @property
    def copy_engines(self) -> int: ...

    @property
    def virtual_memory(self) -> bool: ...

    def __repr__(self) -> str: ...

class Device:
    """
    A device by name: 'cpu', 'cuda', 'cuda:1'. As a context manager it is where new arrays go.
    """

    def __init__(self, name: pygpukit.typing.DeviceLike | None = None) -> None:
        """None is the default device."""

    @property
    def kind(self) -> str:
        """'cpu' or 'cuda'."""

    @property
    def index(self) -> int: ...

    @property
    def properties(self) -> DeviceProperties:
        """Opens the device. DeviceError when it is missing or refused."""

    def memory_info(self) -> tuple[int, ...]:
        """(free, total) bytes as the driver sees them."""

    def memory_stats(self) -> dict[str, Any]:
        """Counters of the memory pool."""

    def memory_accounts(self) -> list[dict[str, Any]]:
        """
        The quota walls of the device and what is charged to each, in the order of their making.
        """

    def trim(self) -> int:
        """
        Returns cached memory to the driver; gives the number of bytes. May wait.
        """

    def synchronize(self) -> None:
        """Waits for all work of the device and raises what it finds."""

    def health(self) -> dict[str, Any]:
        """{'ok': bool, 'recent_launches': str}."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __enter__(self) -> Device: ...

    def __exit__(self, *args: object) -> None: ...

def devices() -> list[Device]:
    """Every device of the process, CUDA first. Never empty."""

def default_device() -> Device:
    """The device new arrays go to."""

def _configured_device() -> Device:
    """
    The default device outside any session, without the warning of a fallback; internal.
    """

def is_cuda_available() -> bool:
    """A CUDA device can be used, whatever the default device is."""

def cuda_unavailable_reason() -> str:
    """
    Why there is no CUDA device, with the paths that were tried; empty when there is one.
    """

def synchronize(device: pygpukit.typing.DeviceLike | None = None) -> None:
    """Waits for all work of a device and raises what it finds."""

def health(device: pygpukit.typing.DeviceLike | None = None) -> dict[str, Any]:
    """{'ok': bool, 'recent_launches': str} of a device."""

def _set_backend_device(device: pygpukit.typing.DeviceLike | None = None) -> None:
    """Default device chosen by core.backend; internal."""

class StreamPriority(enum.IntEnum):
    """How urgent a stream's work is."""

    HIGH = 0

    LOW = 1

class Stream:
    """
    A queue of work on one device. `with stream:` makes it the current stream of its device.
    """

    def __init__(self, stream_handle: pygpukit.typing.StreamLike | None = None, priority: str | int = StreamPriority.LOW, device: pygpukit.typing.DeviceLike | None = None) -> None:
        """
        A new stream, or with stream_handle another name of a stream made before.
        """

    @property
    def handle(self) -> int:
        """The driver's handle of the stream that takes the work now."""

    @property
    def priority(self) -> StreamPriority: ...

    @property
    def device(self) -> Device: ...

    def synchronize(self) -> None:
        """Waits for the work submitted so far and raises what it finds."""

    def query(self) -> bool:
        """True when the stream has nothing left to do."""

    def wait(self, other: Stream | CudaEvent) -> None:
        """
        Later work of this stream waits for an event, or for a stream's work so far.
        """

    def close(self) -> None:
        """
        Gives the stream up; its work still finishes. Using it afterwards raises.
        """

    def __enter__(self) -> Stream: ...

    def __exit__(self, *args: object) -> None: ...

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

def current_stream(device: pygpukit.typing.DeviceLike | None = None) -> Stream:
    """The stream work on a device goes to here."""

class CudaEvent:
    """A point in a stream's work, with its time."""

    def __init__(self, blocking_sync: bool = False) -> None:
        """With blocking_sync a waiting thread sleeps instead of spinning."""

    def record(self, stream: pygpukit.typing.StreamLike | None = None) -> None:
        """Marks this point of a stream, by default the current one."""

    def synchronize(self) -> None:
        """Waits until the event has happened. An event never recorded has."""

    def query(self) -> bool:
        """True when the event has happened or was never recorded."""

    def __repr__(self) -> str: ...

def event_elapsed_ms(start: CudaEvent, stop: CudaEvent) -> float:
    """Milliseconds between two events that have happened."""

def event_elapsed_us(start: CudaEvent, stop: CudaEvent) -> float:
    """Microseconds between two events that have happened."""

class _CaptureScope:
    """What CudaGraph.capture() returns; internal."""

    def __enter__(self) -> CudaGraph: ...

    def __exit__(self, arg0: object | None, arg1: object | None, arg2: object | None, /) -> None: ...

class CudaGraph:
    """
    Work recorded once and replayed with one call. Captures what this thread submits; pins every buffer it saw. On the CPU a capture records the calls and a replay runs them.
    """

    def __init__(self, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    def begin_capture(self) -> None:
        """
        Waits for the streams of this session, then captures what this thread submits.
        """

    def end_capture(self) -> None:
        """Ends the capture and makes the graph ready to replay."""

    def capture(self) -> _CaptureScope:
        """
        `with graph.capture():` captures the block; an exception in it leaves the graph empty.
        """

    def replay(self) -> None:
        """
        Runs the captured work, asynchronously, after earlier and before later work of the current stream.
        """

    def synchronize(self) -> None:
        """Waits for the replays so far."""

    def reset(self) -> None:
        """Forgets the captured work."""

    def verify(self) -> bool:
        """
        Replays, runs the same work eagerly from the same start and compares every written byte. True when equal; raises naming the first difference otherwise. The buffers are put back.
        """

    def is_ready(self) -> bool: ...

    def is_capturing(self) -> bool: ...

    @property
    def num_nodes(self) -> int: ...

    @property
    def stream(self) -> Stream:
        """The stream the graph captures on. A replay runs on the current stream."""

    def get_stream_handle(self) -> int: ...

    def __repr__(self) -> str: ...

class _ArrayIterator:
    """Rows of an array, as views; internal."""

    def __iter__(self) -> _ArrayIterator: ...

    def __next__(self) -> GPUArray: ...

class GPUArray:
    """
    An n-dimensional array on a device. Slices, transposes and reshapes of it are views.
    """

    def __init__(self, shape: pygpukit.typing.ShapeLike, dtype: pygpukit.typing.DTypeLike = 'float32', device_ptr: SupportsIndex | None = None, owns_memory: bool = True, device: pygpukit.typing.DeviceLike | None = None) -> None:
        """
        Uninitialised memory, or with device_ptr the block a backend's allocate() gave. Factories are the usual way.
        """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType: ...

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def ndim(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps along each axis in bytes."""

    @property
    def device(self) -> Device: ...

    @property
    def on_gpu(self) -> bool:
        """
        False while the data is evicted to host memory; it comes back when used.
        """

    @property
    def device_ptr(self) -> int:
        """Address of the first element. Touches last_access."""

    @property
    def last_access(self) -> float:
        """When device_ptr was last read, in seconds since the epoch."""

    def __len__(self) -> int: ...

    def __iter__(self) -> _ArrayIterator: ...

    def __getitem__(self, key: pygpukit.typing.Key) -> GPUArray: ...

    def __setitem__(self, key: pygpukit.typing.Key, value: pygpukit.typing.Operand) -> None: ...

    def reshape(self, *shape: pygpukit.typing.ShapeLike) -> GPUArray:
        """
        Another shape; one size may be -1. A view where strides allow, else a copy.
        """

    def view(self, new_shape: pygpukit.typing.ShapeLike) -> GPUArray:
        """
        Another shape of the same memory. Raises where only a copy could have it.
        """

    def transpose(self, *axes: pygpukit.typing.AxisLike) -> GPUArray:
        """The axes in another order, reversed by default. A view."""

    @property
    def T(self) -> GPUArray:
        """The axes reversed. A view."""

    @property
    def mT(self) -> GPUArray:
        """The last two axes swapped. A view."""

    def narrow(self, offset: int, length: int, axis: int = -1) -> GPUArray:
        """`length` entries of an axis from `offset`. A view."""

    def slice_rows(self, n: int) -> GPUArray:
        """The first n rows of a 2-D array. A view."""

    def ravel(self) -> GPUArray:
        """All elements on one axis: a view of a contiguous array, else a copy."""

    def flatten(self) -> GPUArray:
        """All elements on one axis, copied."""

    def squeeze(self, axis: pygpukit.typing.AxisLike | None = None) -> GPUArray:
        """Without axes of size 1. A view."""

    def expand_dims(self, axis: int) -> GPUArray:
        """With an axis of size 1 put in. A view."""

    def expand(self, *shape: pygpukit.typing.ShapeLike) -> GPUArray:
        """Broadcast to a shape; -1 keeps a size. A read-only view."""

    def to_numpy(self, dtype: pygpukit.typing.DTypeLike | None = None) -> Any:
        """
        A NumPy copy. bfloat16 comes as uint16 bits, float8 and packed types as uint8 bits; `dtype` converts on the device first. Waits for the device.
        """

    def item(self) -> Any:
        """The only element as a Python number. Waits."""

    def tolist(self) -> Any:
        """Nested lists of Python numbers. Waits."""

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        """The package: what has the functions of the array standard."""

    def to_device(self, device: pygpukit.typing.DeviceLike, *, stream: None = None) -> GPUArray:
        """The array standard's name of to()."""

    @property
    def real(self) -> GPUArray:
        """The real parts, as a view."""

    @property
    def imag(self) -> GPUArray:
        """The imaginary parts of a complex array, as a view."""

    def __complex__(self) -> complex: ...

    def __bool__(self) -> bool: ...

    def __index__(self) -> int: ...

    def astype(self, dtype: pygpukit.typing.DTypeLike, copy: bool = False) -> GPUArray:
        """
        Another dtype; the array itself when it has it already and `copy` is false.
        """

    def to(self, device: pygpukit.typing.DeviceLike) -> GPUArray:
        """The same array on another device; itself when it is there already."""

    def copy(self) -> GPUArray:
        """A row-major copy."""

    def clone(self) -> GPUArray:
        """A row-major copy."""

    def __copy__(self) -> GPUArray: ...

    def __deepcopy__(self, memo: object) -> GPUArray: ...

    def contiguous(self) -> GPUArray:
        """Itself when row-major, else a copy."""

    def is_contiguous(self) -> bool:
        """Row-major with no gaps."""

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    def __add__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __radd__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __iadd__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __sub__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rsub__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __isub__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __mul__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rmul__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __imul__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __truediv__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rtruediv__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __itruediv__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __floordiv__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rfloordiv__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ifloordiv__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __mod__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rmod__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __imod__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __pow__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rpow__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ipow__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __and__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rand__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __iand__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __or__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ror__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ior__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __xor__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rxor__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ixor__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __lshift__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rlshift__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ilshift__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rshift__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __rrshift__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __irshift__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __eq__(self, arg: object, /) -> GPUArray: ...

    def __ne__(self, arg: object, /) -> GPUArray: ...

    def __lt__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __le__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __gt__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __ge__(self, arg: pygpukit.typing.Operand, /) -> GPUArray: ...

    def __neg__(self) -> GPUArray: ...

    def __pos__(self) -> GPUArray: ...

    def __abs__(self) -> GPUArray: ...

    def __invert__(self) -> GPUArray: ...

    def __matmul__(self, arg: GPUArray, /) -> GPUArray: ...

    def __rmatmul__(self, arg: GPUArray, /) -> GPUArray: ...

    def __imatmul__(self, arg: GPUArray, /) -> GPUArray: ...

    def sum(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
        """Sum over the axes, all by default."""

    def prod(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
        """Product over the axes, all by default."""

    def mean(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
        """Mean over the axes, all by default."""

    def max(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, out: GPUArray | None = None) -> GPUArray:
        """Largest element over the axes; NaN wins."""

    def min(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, out: GPUArray | None = None) -> GPUArray:
        """Smallest element over the axes; NaN wins."""

    def any(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, out: GPUArray | None = None) -> GPUArray:
        """Whether any element over the axes is not zero."""

    def all(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, out: GPUArray | None = None) -> GPUArray:
        """Whether all elements over the axes are not zero."""

    def var(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, correction: float = 0.0, ddof: float | None = None, out: GPUArray | None = None) -> GPUArray:
        """Variance over the axes, divided by count - correction."""

    def std(self, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, correction: float = 0.0, ddof: float | None = None, out: GPUArray | None = None) -> GPUArray:
        """Standard deviation over the axes, by count - correction."""

    def argmax(self, axis: SupportsIndex | None = None, keepdims: bool = False, out: GPUArray | None = None) -> GPUArray:
        """
        First index of the largest element along an axis, or in the flattened array.
        """

    def argmin(self, axis: SupportsIndex | None = None, keepdims: bool = False, out: GPUArray | None = None) -> GPUArray:
        """
        First index of the smallest element along an axis, or in the flattened array.
        """

    def cumsum(self, axis: SupportsIndex | None = None, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
        """Running sums along an axis, or of the flattened array."""

    def cumprod(self, axis: SupportsIndex | None = None, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
        """Running products along an axis, or of the flattened array."""

    def conj(self, *, out: GPUArray | None = None) -> GPUArray:
        """The complex conjugate; real numbers are copied."""

    def sort(self, axis: SupportsIndex | None = -1, *, descending: bool = False) -> GPUArray:
        """
        A copy in order along an axis; axis=None flattens it. The array itself stays.
        """

    def argsort(self, axis: SupportsIndex | None = -1, *, descending: bool = False) -> GPUArray:
        """Where the elements of sort() come from."""

    def take(self, indices: pygpukit.typing.IndicesLike, axis: SupportsIndex | None = None, *, out: GPUArray | None = None) -> GPUArray:
        """
        Slices along an axis at the indices; without an axis of the flattened array.
        """

    def repeat(self, repeats: pygpukit.typing.Ints, axis: SupportsIndex | None = None, *, out: GPUArray | None = None) -> GPUArray:
        """Each element several times in a row."""

    def round(self, decimals: SupportsIndex = 0, *, out: GPUArray | None = None) -> GPUArray:
        """
        To the nearest integer or to a number of decimals, halves to the even one.
        """

    def dot(self, x2: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
        """
        The sum of products over the last axis and the last but one of x2, or its only one.
        """

    def nonzero(self) -> tuple[GPUArray, ...]:
        """
        Coordinates of the non-zero elements, one int64 array per axis. Waits for the device.
        """

    def swapaxes(self, axis1: int, axis2: int) -> GPUArray:
        """A view with two axes exchanged."""

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> GPUArray:
        """A view of the elements (i, i + offset) of two axes, as the last axis."""

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
        """The sum of a diagonal of two axes."""

    def clip(self, min: pygpukit.typing.Operand | None = None, max: pygpukit.typing.Operand | None = None, *, out: GPUArray | None = None) -> GPUArray:
        """min(max(x, min), max); NaN comes through."""

    def fill(self, value: pygpukit.typing.Number) -> None:
        """Every element becomes a number."""

    def __dlpack__(self, *, stream: SupportsIndex | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """
        A DLPack capsule over the same memory. BufferError for what DLPack cannot represent.
        """

    def __dlpack_device__(self) -> tuple[int, ...]:
        """(device type, device id) in DLPack's numbers."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, with the stream to wait for."""

    def __array__(self, *args: object, **kwargs: object) -> NoReturn: ...

    def __array_function__(self, function: Any, types: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A function of NumPy that is given an array calls ours of that name."""

    __array_ufunc__: None = None

    __hash__: None = None

def from_dlpack(x: Any, *, device: pygpukit.typing.DeviceLike | None = None, copy: bool | None = None) -> GPUArray:
    """
    An array over the memory of any object with __dlpack__. Copies only to move to `device`, when the data is read-only, or when copy=True; BufferError when copy=False forbids it.
    """

def bitcast(x: GPUArray, dtype: pygpukit.typing.DTypeLike) -> GPUArray:
    """
    The same bytes as another dtype. A view; another item size needs a contiguous last axis.
    """

def _array_from_bytes(data: bytes, dtype: str, shape: pygpukit.typing.ShapeLike, device: str) -> GPUArray:
    """Unpickles an array; internal."""

def from_numpy(array: pygpukit.typing.NumpyArray, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    A copy of a NumPy array. uint16 stays uint16; gp.bitcast makes bits bfloat16.
    """

def array(obj: object, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None, copy: bool = True) -> GPUArray:
    """asarray, always a copy unless copy is false."""

def asarray(obj: object, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None, copy: bool | None = None) -> GPUArray:
    """
    An array from an array, a NumPy array, numbers, nested lists of numbers or of arrays, or any object with __dlpack__ or __cuda_array_interface__. The memory of such objects is shared, NumPy's is copied. Python floats become float32.
    """

def get_memory_info(device: pygpukit.typing.DeviceLike | None = None) -> tuple[int, ...]:
    """(free, total) bytes of a device as the driver sees them."""

def copy_to_device(dst: GPUArray, src_ptr: int, size_bytes: int) -> None:
    """Copies host memory at an address into an array."""

def copy_to_device_async(dst: GPUArray, src_ptr: int, size_bytes: int, stream: pygpukit.typing.StreamLike | None = None) -> None:
    """
    The same without waiting: the memory must stay valid until the stream is done.
    """

def copy_device_to_device_async(dst: GPUArray, src: GPUArray, stream: pygpukit.typing.StreamLike | None = None) -> None:
    """Copies the bytes of one array into another of as many bytes."""

def _raw_allocate(device: pygpukit.typing.DeviceLike, size_bytes: int) -> int:
    """Zeroed block by address; internal."""

def _raw_free(address: int) -> None:
    """Gives a raw block back; internal."""

def _raw_copy_in(address: int, data: pygpukit.typing.HostBuffer) -> None:
    """Host buffer to raw block; internal."""

def _raw_copy_out(address: int, data: pygpukit.typing.HostBuffer) -> None:
    """Raw block to writable host buffer; internal."""

def _raw_memset(address: int, value: int, size_bytes: int) -> None:
    """Fills a raw block; internal."""

def _set_site_packages(folders: Sequence[str]) -> None:
    """Where NVIDIA's wheels may lie; internal."""

def _libraries() -> list[Any]:
    """
    Every library that is opened at run time, with path and version or reason; internal.
    """

def _environment() -> list[Any]:
    """Every environment variable and its value; internal."""

def get_driver_version() -> int:
    """CUDA version of the driver, 12040 for 12.4; 0 without one."""

def num_threads() -> int:
    """Threads the CPU backend uses."""

def set_num_threads(count: int) -> None:
    """Threads the CPU backend uses from now on; 0 is the default number."""

class _DeterminismScope:
    """What determinism() returns; internal."""

    def __enter__(self) -> str: ...

    def __exit__(self, *args: object) -> None: ...

def determinism(level: str) -> _DeterminismScope:
    """
    `with determinism(level):` promises more, or less, about the bits of results inside the block: 'not_guaranteed', 'run_to_run' (the default: the same call gives the same bits) or 'batch_invariant' (a row's bits do not depend on the rows beside it either).
    """

def get_determinism() -> str:
    """
    The level in force here: that of the innermost determinism(), else of PYGPUKIT_DETERMINISM.
    """

def _set_staged_bytes(bytes: int) -> None:
    """
    Copies of at least this many pageable bytes go through the ring; 0: the default; internal.
    """

def _set_host_sms(count: int) -> None:
    """
    Pretend SMs of the CPU device, in groups of 8, for trying partitions out; 0: none. Internal.
    """

def _time_bare_launch(calls: int = 256, rounds: int = 50) -> float:
    """
    Median host microseconds of one launch through the driver alone, on an idle stream of cuda:0.
    """

def _use_triton() -> bool | None:
    """PYGPUKIT_USE_TRITON, or None when it is not set; internal."""

class _BinaryKernel:
    """Machine code of another compiler with one kernel; internal."""

    def __init__(self, name: str, code: bytes, types: Sequence[str]) -> None:
        """
        `types`: of the parameters, in Triton's words (i32, fp32, *bf16, *kbf16).
        """

    @property
    def name(self) -> str: ...

    def attributes(self, device: pygpukit.typing.DeviceLike) -> dict[str, Any]:
        """Loads the code on a device. What the driver says of the kernel."""

    def launch(self, device: Device | str | None, arguments: tuple[Any, ...], grid: int | Sequence[int], threads: int, shared_bytes: int) -> None:
        """
        On the current stream: arrays for pointers, strided ones too, None for null, numbers.
        """

    def _pack(self, device: Device | str | None, arguments: tuple[Any, ...], grid: int | Sequence[int], threads: int, shared_bytes: int) -> tuple[Any, ...]:
        """What a launch would pass. Launches nothing."""

class _PinnedArray:
    """
    Keeps an array's memory resident and in place while it lives; internal.
    """

    def __init__(self, array: GPUArray) -> None: ...

    @property
    def address(self) -> int:
        """Of element 0."""

def _address_alignment(array: GPUArray) -> int:
    """
    What every address of element 0 is a multiple of, as far as 256; internal.
    """

class JITKernel:
    """
    A kernel compiled from CUDA source. Calling it launches it: arrays for pointers, numbers for scalars, by position or by the names in the source; grid_size (or grid), block_size (or block), shared_mem and stream say how. A kernel with the integer parameters item_offset and item_count, which works on those items with one thread for each, can be cut: with slice_ms it runs as launches of at most that many milliseconds, and other work runs between them.
    """

    def __init__(self, source: str, func_name: str, options: Sequence[str] | None = None, block_size: int = 256) -> None:
        """
        Compiles at once where a GPU and NVRTC are present; elsewhere checks the name and keeps the source.
        """

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launches on the device of the first array, asynchronously."""

    def launch(self, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None, grid_size: pygpukit.typing.Extent | None = None, block_size: pygpukit.typing.Extent | None = None, shared_mem: SupportsIndex | None = None, stream: pygpukit.typing.StreamLike | None = None, grid: pygpukit.typing.Extent | None = None, block: pygpukit.typing.Extent | None = None, slice_ms: float | None = None) -> None:
        """
        As calling, for kernels whose own parameters have one of the words of a launch.
        """

    def _pack(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """
        What a call would pass: values as bytes, grid, block, shared bytes. Launches nothing.
        """

    def compile(self, arch: str) -> None:
        """Compiles for a chip such as '90' now; needs no GPU. Raises NvrtcError."""

    @property
    def source(self) -> str:
        """The CUDA source."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def options(self) -> list[str]:
        """Options for the compiler."""

    @property
    def block_size(self) -> int:
        """Threads per block of a launch that names none."""

    @property
    def is_compiled(self) -> bool:
        """The compiler has accepted the source."""

    @property
    def parameters(self) -> list[tuple[str | None, str]]:
        """(name or None, type) of each parameter, as compiled; empty before."""

    @property
    def ptx(self) -> str:
        """The PTX, or a comment that says why there is none."""

    @property
    def log(self) -> str:
        """What the compiler said."""

    def get_suggested_block_size(self, dynamic_smem: int = 0) -> int:
        """Threads per block that fill the device best."""

    def __repr__(self) -> str: ...

def is_nvrtc_available() -> bool:
    """True where a kernel can be compiled and launched."""

def jit_unavailable_reason() -> str:
    """
    Why no custom kernel can be compiled and launched here: no driver, no GPU or no NVRTC, and what was tried; empty where one can.
    """

def get_nvrtc_version() -> tuple[int, int] | None:
    """
    (major, minor) of NVRTC, or None where kernels cannot be compiled and launched.
    """

def get_nvrtc_path() -> str | None:
    """The file of NVRTC, or None when none was found."""

def check_driver_compatibility() -> tuple[bool, str]:
    """(served, explanation) for the driver and the first GPU."""

def _warm_up_compiler() -> None:
    """Compiles and loads a trivial kernel; internal."""

def _compiler_info() -> dict[str, Any]:
    """NVRTC's version, path and chips, or why there is none."""

def _kernel_modules() -> list[Any]:
    """
    Every built-in kernel module: source, dtype, names, archs, set, origin.
    """

def _compile_module(index: int, arch: str) -> dict[str, Any]:
    """
    Compiles one built-in module for a chip such as '90a' and tells registers, spills and image headers.
    """

def _compile_source(source: str, arch: str) -> str:
    """
    Compiles a program that may include the library's kernel sources; gives the compiler's log. For tests.
    """

def _module_applies(index: int, arch: str) -> bool:
    """Whether a built-in module is made for a chip."""

def _build_bundle(path: str, archs: Sequence[str], num_threads: int = 0, progress: object | None = None, only: str = '') -> dict[str, Any]:
    """Compiles every built-in kernel for the chips and writes the bundle."""

def _set_bundle_path(path: str) -> None:
    """Where the wheel's kernel bundle lies."""

def _bundle_info() -> dict[str, Any]:
    """The kernel bundle in use, or why there is none."""

def _not_bundled(sm: int) -> dict[str, Any]:
    """{source: kernels} that the bundle in use has no code of for SM 90, ..."""

def _cache_info() -> dict[str, Any]:
    """State and counters of the kernel cache."""

def _cache_clear() -> int:
    """Removes every cache entry; gives their number."""

def _cache_warm(device: pygpukit.typing.DeviceLike | None = None, progress: object | None = None) -> dict[str, Any]:
    """
    Loads every built-in kernel once; gives how many modules came from where.
    """

class finfo:
    """Limits of a float dtype, or of the parts of a complex one."""

    def __init__(self, type: pygpukit.typing.DTypeLike | GPUArray) -> None: ...

    @property
    def bits(self) -> int: ...

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number."""

    @property
    def max(self) -> float: ...

    @property
    def min(self) -> float: ...

    @property
    def smallest_normal(self) -> float: ...

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType: ...

    def __repr__(self) -> str: ...

class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type: pygpukit.typing.DTypeLike | GPUArray) -> None: ...

    @property
    def bits(self) -> int: ...

    @property
    def max(self) -> int: ...

    @property
    def min(self) -> int: ...

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType: ...

    def __repr__(self) -> str: ...

def isdtype(dtype: pygpukit.typing.DTypeLike, kind: Any) -> bool:
    """
    Whether a dtype is of a kind of the array standard, is another dtype, or is any of a tuple of these.
    """

def can_cast(from_: pygpukit.typing.DTypeLike | GPUArray, to: pygpukit.typing.DTypeLike) -> bool:
    """Whether promotion of the two dtypes gives `to`."""

def broadcast_shapes(*shapes: pygpukit.typing.ShapeLike) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""

def swiglu(gate: GPUArray, up: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """silu(gate) * up."""

def geglu(gate: GPUArray, up: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """gelu(gate) * up, by the tanh approximation."""

def swiglu_packed(x: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """silu(first half) * second half of the last axis."""

def geglu_packed(x: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """gelu(first half) * second half of the last axis."""

def gelu_erf(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """0.5 a (1 + erf(a / sqrt(2)))."""

def snake(x: GPUArray, alpha: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    x + sin(alpha x)^2 / alpha; alpha is [channels] of axis 1, or broadcasts to x.
    """

def modulate(x: GPUArray, scale: GPUArray, shift: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """x * (1 + scale) + shift."""

def gated_residual(residual: GPUArray, gate: GPUArray, value: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """residual + gate * value."""

def leaky_relu(a: GPUArray, slope: float = 0.01, *, out: GPUArray | None = None) -> GPUArray:
    """a where a > 0, else slope * a."""

def sdpa_causal(Q: GPUArray, K: GPUArray, V: GPUArray, scale: float = 0.0, *, out: GPUArray | None = None) -> GPUArray:
    """
    Causal attention by heads: Q [heads, queries, dim], K and V [kv_heads, keys, dim]; query i sees keys up to (keys - queries) + i. A scale not above 0 is 1 / sqrt(dim).
    """

def sdpa_causal_fixed_cache(Q: GPUArray, K: GPUArray, V: GPUArray, out: GPUArray, context_len: SupportsIndex, scale: float = 0.0) -> None:
    """
    sdpa_causal into out over the first context_len keys of K and V [kv_heads, max, dim].
    """

def sdpa_causal_fixed_cache_ptr(Q: GPUArray, K: GPUArray, V: GPUArray, out: GPUArray, context_len_buf: GPUArray, max_kv_len: SupportsIndex, scale: float = 0.0) -> None:
    """
    sdpa_causal_fixed_cache with the length in an int32 [1] array: graphs replay with another one.
    """

def cross_attention(Q: GPUArray, K: GPUArray, V: GPUArray, scale: float = 0.0, *, out: GPUArray | None = None) -> GPUArray:
    """Attention by heads, every query to every key."""

def sdpa_irope(Q: GPUArray, K: GPUArray, V: GPUArray, positions: GPUArray, attn_scale: float = 0.1, floor_scale: float = 8192.0, causal_offset: SupportsIndex = 0, *, out: GPUArray | None = None) -> GPUArray:
    """
    sdpa_causal with queries scaled as irope_scale_q scales them; query i sees keys up to i + causal_offset.
    """

def attention(q: GPUArray, k: GPUArray, v: GPUArray, *, scale: float | None = None, causal: bool = False, window: SupportsIndex | None = None, softcap: float | None = None, alibi_slopes: GPUArray | None = None, mask: GPUArray | None = None, q_lengths: GPUArray | None = None, k_lengths: GPUArray | None = None, chunk: SupportsIndex | None = None, q_scale: GPUArray | None = None, k_scale: GPUArray | None = None, v_scale: GPUArray | None = None, out: GPUArray | None = None, return_lse: bool = False) -> Any:
    """
    softmax(scale q k^T) v for q [batch, queries, heads, dim] and k, v [batch, keys, kv_heads, dim] of any strides. With return_lse also the logarithm of each sum of exponentials, float32 [batch, heads, queries]. window: keys less than this far from the query; chunk: none before the multiple of this that it is past. q_scale, k_scale, v_scale: float32 [kv_heads], what float8_e4m3 k and v, or all three, are multiplied by.
    """

def attention_over_cache(q: GPUArray, k_cache: GPUArray, v_cache: GPUArray, sequence_ids: GPUArray, positions: GPUArray, *, block_tables: GPUArray | None = None, k_scale: GPUArray | None = None, v_scale: GPUArray | None = None, scale: float | None = None, window: SupportsIndex | None = None, softcap: float | None = None, alibi_slopes: GPUArray | None = None, chunk: SupportsIndex | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Attention of q [tokens, heads, dim] over keys 0 .. positions[i] that a cache holds of sequence sequence_ids[i].
    """

def explain_attention(q: GPUArray, k: GPUArray, v: GPUArray, *, scale: float | None = None, causal: bool = False, window: SupportsIndex | None = None, softcap: float | None = None, alibi_slopes: GPUArray | None = None, mask: GPUArray | None = None, q_lengths: GPUArray | None = None, k_lengths: GPUArray | None = None, chunk: SupportsIndex | None = None, q_scale: GPUArray | None = None, k_scale: GPUArray | None = None, v_scale: GPUArray | None = None) -> str:
    """
    What attention does for such arrays: the path and its kernel, in words.
    """

def explain_attention_over_cache(q: GPUArray, k_cache: GPUArray, v_cache: GPUArray, sequence_ids: GPUArray, positions: GPUArray, *, block_tables: GPUArray | None = None, k_scale: GPUArray | None = None, v_scale: GPUArray | None = None, scale: float | None = None, window: SupportsIndex | None = None, softcap: float | None = None, alibi_slopes: GPUArray | None = None, chunk: SupportsIndex | None = None) -> str:
    """
    What attention_over_cache does for such arrays: the path and its kernel, in words.
    """

def conv1d(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, stride: SupportsIndex = 1, padding: SupportsIndex = 0, *, dilation: SupportsIndex = 1, groups: SupportsIndex = 1, activation: str | None = None, slope: float = 0.01, use_tf32: bool | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Cross-correlation of [batch, channels, length] with weight [out channels, channels / groups, taps], zeros beyond the ends; then bias and `activation`: 'relu', 'gelu', 'gelu_erf', 'silu' or 'leaky_relu' of `slope`. float32 is exact unless TF32 is permitted: use_tf32=True, or PYGPUKIT_ALLOW_TF32 where it is None.
    """

def conv_transpose1d(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, stride: SupportsIndex = 1, padding: SupportsIndex = 0, *, output_padding: SupportsIndex = 0, dilation: SupportsIndex = 1, groups: SupportsIndex = 1, activation: str | None = None, slope: float = 0.01, use_tf32: bool | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    The transpose of conv1d: weight is [channels, out channels / groups, taps], and `stride` steps lie between what neighbours add to. `output_padding` more steps at the end are kept.
    """

def conv2d(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, stride: pygpukit.typing.Ints = 1, padding: pygpukit.typing.Ints = 0, *, dilation: pygpukit.typing.Ints = 1, groups: SupportsIndex = 1, activation: str | None = None, slope: float = 0.01, use_tf32: bool | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    conv1d over two axes: [batch, channels, height, width] with weight [out channels, channels / groups, rows, columns]; stride, padding and dilation are one integer or a pair.
    """

def lay_out_conv_weight(weight: GPUArray, transposed: bool = False) -> GPUArray:
    """
    The same weight where the tensor cores read it as it lies; calls of float16 and bfloat16 pack any other one first, each time. transposed: of conv_transpose1d.
    """

def explain_conv1d(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, stride: SupportsIndex = 1, padding: SupportsIndex = 0, *, dilation: SupportsIndex = 1, groups: SupportsIndex = 1, activation: str | None = None, slope: float = 0.01, use_tf32: bool | None = None) -> str:
    """
    What conv1d does for such arrays, in one line: the kernel, its tiles and its grid.
    """

def explain_conv_transpose1d(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, stride: SupportsIndex = 1, padding: SupportsIndex = 0, *, output_padding: SupportsIndex = 0, dilation: SupportsIndex = 1, groups: SupportsIndex = 1, activation: str | None = None, slope: float = 0.01, use_tf32: bool | None = None) -> str:
    """
    What conv_transpose1d does for such arrays, in one line: the kernel, its tiles and its grid.
    """

def explain_conv2d(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, stride: pygpukit.typing.Ints = 1, padding: pygpukit.typing.Ints = 0, *, dilation: pygpukit.typing.Ints = 1, groups: SupportsIndex = 1, activation: str | None = None, slope: float = 0.01, use_tf32: bool | None = None) -> str:
    """
    What conv2d does for such arrays, in one line: the kernel, its tiles and its grid.
    """

def empty(shape: pygpukit.typing.ShapeLike, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    A new array whose values are whatever was in memory. float32 unless dtype is given.
    """

def zeros(shape: pygpukit.typing.ShapeLike, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """A new array of zeros, float32 unless dtype is given."""

def ones(shape: pygpukit.typing.ShapeLike, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """A new array of ones, float32 unless dtype is given."""

def empty_like(x: GPUArray, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    A new array with the shape of x, its dtype and device unless given; values are not set.
    """

def zeros_like(x: GPUArray, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """Zeros with the shape of x, and its dtype and device unless given."""

def ones_like(x: GPUArray, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """Ones with the shape of x, and its dtype and device unless given."""

def full(shape: pygpukit.typing.ShapeLike, fill_value: pygpukit.typing.Number, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    A new array filled with one value. Without a dtype: bool, int64, float32 or complex64 by the value's kind.
    """

def full_like(x: GPUArray, fill_value: pygpukit.typing.Number, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """One value in the shape of x, with its dtype and device unless given."""

def eye(n_rows: SupportsIndex, n_cols: SupportsIndex | None = None, k: SupportsIndex = 0, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    Ones on the k-th diagonal, zeros elsewhere. float32 unless dtype is given.
    """

def arange(start: pygpukit.typing.Number, stop: pygpukit.typing.Number | None = None, step: pygpukit.typing.Number = 1, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    start, start + step, ... below stop; arange(n) counts from 0. int64 for integers, else float32, unless dtype is given.
    """

def linspace(start: pygpukit.typing.Number, stop: pygpukit.typing.Number, num: SupportsIndex = 50, dtype: pygpukit.typing.DTypeLike | None = None, endpoint: bool = True, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    num evenly spaced values from start to stop, both exact; endpoint=False leaves stop out.
    """

class ElementwiseKernel:
    """
    An elementwise kernel from an expression in CUDA C. in_params and out_params are lists such as 'T x, raw float32 y': the name of a dtype or one letter, which is the dtype of the arrays passed for it, and a name. The operation is run for each element of the inputs, broadcast together; in it a name is the element, i its number, _ind.size() how many there are, _ind.get() its index on each axis. A raw array is not broadcast and is read by index: y[i], y.size(). Compiled once for each combination of dtypes and layouts, in memory and on disk.
    """

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = 'kernel', reduce_dims: bool = True, preamble: str = '', no_return: bool = False, return_tuple: bool = False, *, loop_prep: str = '', after_loop: str = '', options: Sequence[str] = ()) -> None:
        """Reads the parameters; the compiler sees the program at the first call."""

    def __call__(self, *args: pygpukit.typing.Operand, out: GPUArray | Sequence[GPUArray] | None = None, size: SupportsIndex | None = None, block_size: SupportsIndex = 256) -> Any:
        """
        Inputs, arrays or numbers, and after them or as out= the outputs, which are made where none are given. size: how many elements there are where every array is raw.
        """

    def _program(self, *args: Any, out: Any = None, size: SupportsIndex | None = None) -> str:
        """The program of a call; launches nothing."""

    def _compile(self, *args: Any, arch: str = 'sm_80', out: Any = None, size: SupportsIndex | None = None) -> int:
        """Bytes of the program of a call, compiled for a chip; launches nothing."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def operation(self) -> str:
        """The expression."""

    @property
    def nin(self) -> int:
        """Number of inputs."""

    @property
    def nout(self) -> int:
        """Number of outputs."""

    def __repr__(self) -> str: ...

class ReductionKernel:
    """
    A reduction from expressions in CUDA C. map_expr is a value of each element, reduce_expr joins two values a and b, post_map_expr gives an output from the value a: ReductionKernel('T x', 'T y', 'x * x', 'a + b', 'y = sqrt(a)', '0', 'norm'). The order in which values are joined follows from the number of elements alone. reduce_type is the type of the values: by default the first output's, float for 16-bit floats. identity is the value of no elements.
    """

    def __init__(self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: str | pygpukit.typing.Number | None, name: str = 'reduce_kernel', reduce_type: str | None = None, reduce_dims: bool = True, preamble: str = '', options: Sequence[str] = ()) -> None:
        """Reads the parameters; the compiler sees the program at the first call."""

    def __call__(self, *args: pygpukit.typing.Operand, out: GPUArray | Sequence[GPUArray] | None = None, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> Any:
        """
        Inputs, arrays or numbers, and after them or as out= the outputs, which are made where none are given. The inputs broadcast together and are reduced over the axes, all by default.
        """

    def _program(self, *args: Any, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> str:
        """The program of a call; launches nothing."""

    def _compile(self, *args: Any, arch: str = 'sm_80', axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> int:
        """Bytes of the program of a call, compiled for a chip; launches nothing."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def nin(self) -> int:
        """Number of inputs."""

    @property
    def nout(self) -> int:
        """Number of outputs."""

    def __repr__(self) -> str: ...

def isclose(a: GPUArray, b: pygpukit.typing.Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> GPUArray:
    """|a - b| <= atol + rtol * |b|, as bool."""

def allclose(a: GPUArray, b: pygpukit.typing.Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether isclose holds for every element. Waits for the device."""

def array_equal(a: GPUArray, b: GPUArray) -> bool:
    """
    Whether two arrays have one shape and equal elements. Waits for the device.
    """

def _map_costs() -> list[tuple[str, int]]:
    """Elementwise kernels and the cost the host plans them with; for tests."""

def add(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a + b. Broadcasts; mixed dtypes are promoted; bool adds as `or`."""

def subtract(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a - b."""

def sub(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a - b."""

def multiply(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a * b; bool multiplies as `and`."""

def mul(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a * b; bool multiplies as `and`."""

def divide(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a / b, true division: integers give float64."""

def div(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a / b, true division: integers give float64."""

def pow(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """
    a ** b. Integers wrap; a negative integer exponent gives the power cut to an integer.
    """

def power(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """
    a ** b. Integers wrap; a negative integer exponent gives the power cut to an integer.
    """

def remainder(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """
    a % b with the sign of b, as in Python. Integer remainder by zero is 0.
    """

def mod(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """
    a % b with the sign of b, as in Python. Integer remainder by zero is 0.
    """

def floor_divide(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a // b, rounded towards minus infinity. Integer division by zero is 0."""

def minimum(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """The smaller of a and b; NaN in either comes through."""

def maximum(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """The larger of a and b; NaN in either comes through."""

def atan2(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """The angle of the point (b, a), in radians."""

def arctan2(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """The angle of the point (b, a), in radians."""

def hypot(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """sqrt(a * a + b * b), without overflow on the way."""

def copysign(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """The magnitude of a with the sign of b."""

def logaddexp(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """log(exp(a) + exp(b)), without overflow on the way."""

def nextafter(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """The next number after a on the side of b."""

def equal(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a == b, as bool."""

def not_equal(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a != b, as bool."""

def less(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a < b, as bool."""

def less_equal(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a <= b, as bool."""

def greater(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a > b, as bool."""

def greater_equal(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a >= b, as bool."""

def logical_and(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """Both not 0, as bool."""

def logical_or(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """Either not 0, as bool."""

def logical_xor(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """Exactly one not 0, as bool."""

def bitwise_and(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a & b of integers or bool."""

def bitwise_or(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a | b of integers or bool."""

def bitwise_xor(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a ^ b of integers or bool."""

def bitwise_left_shift(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a << b of integers; counts past the width give 0."""

def left_shift(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a << b of integers; counts past the width give 0."""

def bitwise_right_shift(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a >> b of integers; the sign is kept."""

def right_shift(a: pygpukit.typing.Operand, b: pygpukit.typing.Operand, *, out: GPUArray | None = None) -> GPUArray:
    """a >> b of integers; the sign is kept."""

def negative(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """-a."""

def neg(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """-a."""

def positive(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """A copy of a."""

def abs(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """The magnitude; complex gives the real dtype."""

def absolute(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """The magnitude; complex gives the real dtype."""

def conj(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """The complex conjugate; real numbers are copied."""

def sign(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """-1, 0 or 1; NaN stays. Complex: a / |a|."""

def square(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a * a."""

def reciprocal(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """1 / a of floats and complex."""

def relu(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """max(a, 0); NaN stays."""

def relu2(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """max(a, 0) squared."""

def floor(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Rounded towards minus infinity."""

def ceil(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Rounded towards plus infinity."""

def trunc(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Rounded towards zero."""

def exp(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """e ** a. Float and complex dtypes; integers give float64."""

def expm1(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    e ** a - 1, exact near 0. Float and complex dtypes; integers give float64.
    """

def log(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Natural logarithm. Float and complex dtypes; integers give float64."""

def log1p(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    log(1 + a), exact near 0. Float and complex dtypes; integers give float64.
    """

def log2(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Logarithm to base 2. Float and complex dtypes; integers give float64."""

def log10(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Logarithm to base 10. Float and complex dtypes; integers give float64."""

def sqrt(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Square root. Float and complex dtypes; integers give float64."""

def rsqrt(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """1 / sqrt(a). Float dtypes."""

def sin(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Sine of radians. Float and complex dtypes; integers give float64."""

def cos(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Cosine of radians. Float and complex dtypes; integers give float64."""

def tan(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Tangent of radians. Float and complex dtypes; integers give float64."""

def asin(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Inverse sine. Float and complex dtypes; integers give float64."""

def arcsin(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Inverse sine. Float and complex dtypes; integers give float64."""

def acos(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Inverse cosine. Float and complex dtypes; integers give float64."""

def arccos(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Inverse cosine. Float and complex dtypes; integers give float64."""

def atan(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Inverse tangent. Float and complex dtypes; integers give float64."""

def arctan(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Inverse tangent. Float and complex dtypes; integers give float64."""

def sinh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Hyperbolic sine. Float and complex dtypes; integers give float64."""

def cosh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Hyperbolic cosine. Float and complex dtypes; integers give float64."""

def asinh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    Inverse hyperbolic sine. Float and complex dtypes; integers give float64.
    """

def arcsinh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    Inverse hyperbolic sine. Float and complex dtypes; integers give float64.
    """

def acosh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    Inverse hyperbolic cosine. Float and complex dtypes; integers give float64.
    """

def arccosh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    Inverse hyperbolic cosine. Float and complex dtypes; integers give float64.
    """

def atanh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    Inverse hyperbolic tangent. Float and complex dtypes; integers give float64.
    """

def arctanh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    Inverse hyperbolic tangent. Float and complex dtypes; integers give float64.
    """

def tanh(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Hyperbolic tangent. Float and complex dtypes; integers give float64."""

def erf(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Error function. Float dtypes."""

def sigmoid(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """1 / (1 + exp(-a)). Float dtypes."""

def silu(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a * sigmoid(a). Float dtypes."""

def gelu(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """The tanh approximation of a * Phi(a). Float dtypes."""

def isnan(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Whether each element is NaN."""

def isinf(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Whether each element is infinite."""

def isfinite(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Whether each element is neither NaN nor infinite."""

def signbit(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Whether the sign bit is set, of -0 and NaN too. Float dtypes."""

def logical_not(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a == 0, as bool."""

def bitwise_invert(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Every bit of integers; not, of bool."""

def invert(a: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Every bit of integers; not, of bool."""

def clamp(a: GPUArray, min_val: pygpukit.typing.Operand | None = None, max_val: pygpukit.typing.Operand | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """
    min(max(a, min_val), max_val); NaN comes through. A bound is a number, an array or None.
    """

def clip(x: GPUArray, min: pygpukit.typing.Operand | None = None, max: pygpukit.typing.Operand | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """The array standard's name of clamp."""

def where(cond: GPUArray, a: pygpukit.typing.Operand | None = None, b: pygpukit.typing.Operand | None = None, *, out: GPUArray | None = None) -> Any:
    """
    a where cond is not 0, else b. All three broadcast; a and b may be numbers. Without a and b nonzero(cond).
    """

def astype(x: GPUArray, dtype: pygpukit.typing.DTypeLike, *, copy: bool = True, device: pygpukit.typing.DeviceLike | None = None) -> GPUArray:
    """
    x in another dtype. Reals become integers by cutting, NaN by 0, and saturate; complex becomes real only by real().
    """

def real(x: GPUArray) -> GPUArray:
    """The real part of a complex array, as a view; a real array itself."""

def imag(x: GPUArray) -> GPUArray:
    """The imaginary part of a complex array, as a view."""

def copy_to(src: GPUArray, dst: GPUArray) -> None:
    """Copies src into dst, which has the same dtype and as many elements."""

def round(a: GPUArray, decimals: SupportsIndex = 0, *, out: GPUArray | None = None) -> GPUArray:
    """
    Rounded to the nearest integer or to a number of decimals, halves to the even one.
    """

def nan_to_num(x: GPUArray, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> GPUArray:
    """
    Numbers in place of NaN and infinity, by default 0 and the largest and smallest number of the dtype.
    """

def copy(x: GPUArray) -> GPUArray:
    """A row-major copy."""

def embedding(table: GPUArray, ids: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """table[ids]; ids are int32 or int64."""

def embedding_lookup(embed_matrix: GPUArray, out: GPUArray, token_id: SupportsIndex) -> None:
    """out[0] = embed_matrix[token_id]."""

def embedding_lookup_ptr(embed_matrix: GPUArray, out: GPUArray, token_id_buf: GPUArray) -> None:
    """out[0] = embed_matrix[token_id_buf[0]], read on the device."""

def embedding_lookup_batch(embed_matrix: GPUArray, out: GPUArray, token_ids_buf: GPUArray, batch_size: SupportsIndex) -> None:
    """out[i] = embed_matrix[token_ids_buf[i]]."""

def slice_rows_range_ptr(table: GPUArray, out: GPUArray, start_pos_buf: GPUArray, count: SupportsIndex) -> None:
    """out = table[start : start + count], start read on the device."""

def convolve(a: GPUArray, v: GPUArray, mode: str = 'full') -> GPUArray:
    """
    The convolution of two sequences: mode full (all n + m - 1 sums), same (the middle max(n, m)) or valid (where they overlap wholly). Integers are exact; long floats go by Fourier transforms: errors are relative to the largest elements, and one NaN or infinity reaches every sum.
    """

def correlate(a: GPUArray, v: GPUArray, mode: str = 'valid') -> GPUArray:
    """
    The cross-correlation sum of a[j + k] * conj(v[j]), by the modes of convolve.
    """

class _FusedFunction:
    """A function of elementwise calls that runs as one pass; made by fuse()."""

    def __init__(self, function: Any, name: str) -> None: ...

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any | None = None) -> Any:
        """Traces the function the first time it meets such arguments."""

    def program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The CUDA C of the kernel for such arguments."""

    def compile(self, args: tuple[Any, ...], kwargs: dict[str, Any], arch: str) -> int:
        """Bytes of the kernel for such arguments, compiled for a chip."""

    @property
    def num_traces(self) -> int:
        """How often the function was traced."""

def take(x: GPUArray, indices: pygpukit.typing.IndicesLike, axis: SupportsIndex | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """
    Slices of x along axis at the indices; without an axis x is flattened.

    Negative indices count from the end. A bad index reads as 0 and raises IndexError at the next wait for the device.
    """

def take_along_axis(x: GPUArray, indices: pygpukit.typing.IndicesLike, axis: int = -1, *, out: GPUArray | None = None) -> GPUArray:
    """
    out[i, j, ...] = x[..., indices[i, j, ...], ...] along axis; other axes broadcast.
    """

def gather(x: GPUArray, indices: pygpukit.typing.IndicesLike, axis: int = -1, *, out: GPUArray | None = None) -> GPUArray:
    """
    out[i, j, ...] = x[..., indices[i, j, ...], ...] along axis; other axes broadcast.
    """

def put_along_axis(x: GPUArray, indices: pygpukit.typing.IndicesLike, values: pygpukit.typing.Operand, axis: int = -1) -> None:
    """
    x[..., indices[i, j, ...], ...] = values[i, j, ...] along axis, in place.

    Of several values for one element the last in index order stays, on every device.
    """

def scatter(x: GPUArray, indices: pygpukit.typing.IndicesLike, values: pygpukit.typing.Operand, axis: int = -1, *, out: GPUArray | None = None) -> GPUArray:
    """
    A copy of x with values put along axis (see put_along_axis). out may be x itself.
    """

def nonzero(x: GPUArray) -> tuple[GPUArray, ...]:
    """
    Coordinates of the non-zero elements, one int64 array per axis. Waits for the device; raises inside a graph capture.
    """

def argwhere(x: GPUArray) -> GPUArray:
    """
    Coordinates of the non-zero elements as int64 [count, x.ndim]. Waits for the device; raises inside a graph capture.
    """

def compress(condition: pygpukit.typing.IndicesLike, x: GPUArray, axis: SupportsIndex | None = None) -> GPUArray:
    """
    The slices of x along axis where condition is not zero. Waits for the device; raises inside a graph capture.
    """

def scatter_add(x: GPUArray, indices: GPUArray, values: pygpukit.typing.Operand, axis: int = -1) -> GPUArray:
    """
    A copy of x with values added along axis at the indices (see put_along_axis).

    Equal indices add up, in their order: the same bits on every device.
    """

def kv_cache_update(new_kv: GPUArray, cache: GPUArray, position: SupportsIndex) -> None:
    """cache[position] = new_kv[0], of [tokens, kv_heads, dim]."""

def kv_cache_prefill(new_kv: GPUArray, cache: GPUArray, start_pos: SupportsIndex = 0) -> None:
    """cache[start_pos : start_pos + n] = new_kv, of [tokens, kv_heads, dim]."""

def kv_cache_update_gqa(new_kv: GPUArray, cache: GPUArray, num_heads: SupportsIndex, position: SupportsIndex) -> None:
    """
    new_kv [1, kv_heads, dim] into cache [num_heads, tokens, dim]: head h takes KV head h kv_heads / num_heads.
    """

def kv_cache_prefill_gqa(new_kv: GPUArray, cache: GPUArray, num_heads: SupportsIndex, start_pos: SupportsIndex = 0) -> None:
    """kv_cache_update_gqa of n tokens from start_pos on."""

def kv_cache_update_gqa_ptr(new_kv: GPUArray, cache: GPUArray, num_heads: SupportsIndex, position_buf: GPUArray) -> None:
    """
    kv_cache_update_gqa at a position read from an int32 [1] array on the device.
    """

def einsum(subscripts: str, *operands: GPUArray, out: GPUArray | None = None) -> GPUArray:
    """
    A sum of products by Einstein's convention, such as einsum('bij,bjk->bik', a, b): any number of operands, '...', repeated labels. Contracted pair by pair in the order with the fewest multiplications.
    """

def tensordot(x1: GPUArray, x2: GPUArray, axes: Any = 2, *, out: GPUArray | None = None) -> GPUArray:
    """
    The sum of products over the last `axes` axes of x1 and the first ones of x2, or over the axes that a pair of sequences names.
    """

def vecdot(x1: GPUArray, x2: GPUArray, *, axis: SupportsIndex = -1, out: GPUArray | None = None) -> GPUArray:
    """The sum of conj(x1) * x2 along an axis; the other axes broadcast."""

def cross(x1: GPUArray, x2: GPUArray, *, axis: SupportsIndex = -1, out: GPUArray | None = None) -> GPUArray:
    """
    The cross product of vectors of three elements; the other axes broadcast.
    """

def outer(x1: GPUArray, x2: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    The matrix of all products of an element of x1 and one of x2, both flattened.
    """

def inner(x1: GPUArray, x2: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """The sum of products over the last axes; with a 0-d array the product."""

def dot(x1: GPUArray, x2: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    The sum of products over the last axis of x1 and the last but one of x2, or its only one; with a 0-d array the product.
    """

def matrix_transpose(x: GPUArray) -> GPUArray:
    """The view with the last two axes exchanged."""

def diagonal(x: GPUArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> GPUArray:
    """A view of the elements (i, i + offset) of two axes, as the last axis."""

def trace(x: GPUArray, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
    """The sum of a diagonal of two axes; dtype as for sum."""

def tril(x: GPUArray, k: int = 0) -> GPUArray:
    """A copy with zeros above the k-th diagonal of the last two axes."""

def triu(x: GPUArray, k: int = 0) -> GPUArray:
    """A copy with zeros below the k-th diagonal of the last two axes."""

def diag(x: GPUArray, k: int = 0) -> GPUArray:
    """
    A matrix with x on its k-th diagonal, or a copy of a matrix's k-th diagonal.
    """

def hstack(arrays: pygpukit.typing.Arrays) -> GPUArray:
    """Arrays joined along axis 1, 1-D ones along axis 0."""

def vstack(arrays: pygpukit.typing.Arrays) -> GPUArray:
    """Arrays joined along axis 0; 1-D ones are rows."""

def dstack(arrays: pygpukit.typing.Arrays) -> GPUArray:
    """
    Arrays joined along axis 2; those of fewer axes get them as from atleast_3d.
    """

def atleast_1d(x: GPUArray) -> GPUArray:
    """A view with axes of size 1 put in where there are fewer."""

def atleast_2d(x: GPUArray) -> GPUArray:
    """A view with axes of size 1 put in where there are fewer."""

def atleast_3d(x: GPUArray) -> GPUArray:
    """A view with axes of size 1 put in where there are fewer."""

def apply_along_axis(*args: object, **kwargs: object) -> NoReturn:
    """Not offered: raises UnsupportedError, which says what to use."""

def meshgrid(*arrays: GPUArray, indexing: str = 'xy') -> list[GPUArray]:
    """
    1-D arrays spread over the axes of a grid; with 'xy' the first two axes change places.
    """

def array_split(x: GPUArray, indices_or_sections: pygpukit.typing.Ints, axis: int = 0) -> list[GPUArray]:
    """
    Views of parts, the first of which are one longer where they cannot be equal.
    """

def permute_dims(x: GPUArray, axes: pygpukit.typing.AxisLike) -> GPUArray:
    """A view with the axes in the given order."""

def permute(x: GPUArray, axes: pygpukit.typing.AxisLike) -> GPUArray:
    """A view with the axes in the given order."""

def moveaxis(x: GPUArray, source: pygpukit.typing.AxisLike, destination: pygpukit.typing.AxisLike) -> GPUArray:
    """A view with some axes moved to other places."""

def swapaxes(x: GPUArray, axis1: int, axis2: int) -> GPUArray:
    """A view with two axes exchanged."""

def squeeze(x: GPUArray, axis: pygpukit.typing.AxisLike | None = None) -> GPUArray:
    """A view without the named axes of size 1, or without any."""

def expand_dims(x: GPUArray, axis: pygpukit.typing.AxisLike = 0) -> GPUArray:
    """A view with new axes of size 1."""

def broadcast_to(x: GPUArray, shape: pygpukit.typing.ShapeLike) -> GPUArray:
    """
    A view of the shape x broadcasts to; writes that would reach an element twice are refused.
    """

def expand(x: GPUArray, shape: pygpukit.typing.ShapeLike) -> GPUArray:
    """broadcast_to where -1 keeps the size of an axis."""

def broadcast_arrays(*arrays: GPUArray) -> list[GPUArray]:
    """Views of one shape."""

def flip(x: GPUArray, axis: pygpukit.typing.AxisLike | None = None) -> GPUArray:
    """
    A view with the elements in reverse order along the axes, or along all.
    """

def split(x: GPUArray, indices_or_sections: pygpukit.typing.Ints, axis: int = 0) -> list[GPUArray]:
    """Views of equal parts, or of parts ending before each index."""

def unstack(x: GPUArray, *, axis: int = 0) -> tuple[GPUArray, ...]:
    """Views of the slices along an axis."""

def reshape(x: GPUArray, shape: pygpukit.typing.ShapeLike, *, copy: bool | None = None) -> GPUArray:
    """
    x in another shape, one size of which may be -1: a view where the strides allow it, else a copy.
    """

def ravel(x: GPUArray) -> GPUArray:
    """x in one dimension: a view where the strides allow it, else a copy."""

def flatten(x: GPUArray) -> GPUArray:
    """A copy of x in one dimension."""

def contiguous(x: GPUArray) -> GPUArray:
    """x itself when row-major, else a row-major copy."""

def concat(arrays: pygpukit.typing.Arrays, axis: SupportsIndex | None = 0, *, out: GPUArray | None = None) -> GPUArray:
    """
    Arrays joined along an axis; with axis=None each is flattened first. dtypes are promoted.
    """

def concatenate(arrays: pygpukit.typing.Arrays, axis: SupportsIndex | None = 0, *, out: GPUArray | None = None) -> GPUArray:
    """
    Arrays joined along an axis; with axis=None each is flattened first. dtypes are promoted.
    """

def stack(arrays: pygpukit.typing.Arrays, axis: int = 0, *, out: GPUArray | None = None) -> GPUArray:
    """Arrays of one shape joined along a new axis."""

def repeat(x: GPUArray, repeats: pygpukit.typing.Ints, axis: SupportsIndex | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """
    Each slice along axis repeated in a row: one count, or one per slice. Without an axis x is flattened.
    """

def tile(x: GPUArray, repetitions: pygpukit.typing.Ints, *, out: GPUArray | None = None) -> GPUArray:
    """x as a whole repeated along each axis."""

def roll(x: GPUArray, shift: pygpukit.typing.Ints, axis: pygpukit.typing.AxisLike | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """
    Elements moved along the axes; those that leave come back at the other end.
    """

def pad(x: GPUArray, pad_width: pygpukit.typing.PadWidth, mode: str = 'constant', constant_values: pygpukit.typing.Number = 0, *, out: GPUArray | None = None) -> GPUArray:
    """
    x with borders. pad_width: a number, a pair (before, after), or a pair per axis; mode: constant, edge or reflect.
    """

def _time_linear(input: GPUArray, weight: GPUArray, out: GPUArray, calls: int = 64, rounds: int = 50) -> float:
    """
    Median host microseconds of one linear(input, weight, out=out) called from C++, on an idle stream.
    """

def linear(input: GPUArray, weight: GPUArray, bias: GPUArray | None = None, *, activation: str | None = None, residual: GPUArray | None = None, alpha: float = 1.0, out: GPUArray | None = None) -> GPUArray:
    """
    activation(alpha * input @ weight.T + bias) + residual for input [..., k] and weight [n, k], an array or a Weight, in one pass where the chip can.
    activation: 'relu', 'gelu' (the tanh form), 'gelu_erf' (the exact one), 'silu' or None. Computed in float32 and rounded once.
    """

def linear_swiglu(input: GPUArray, gate: GPUArray, up: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    silu(input @ gate.T) * (input @ up.T) for input [..., k], gate and up [n, k], in one pass where the chip can.
    """

def linear_bias_gelu(input: GPUArray, weight: GPUArray, bias: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """
    gelu(input @ weight.T + bias) in the tanh form, for input [m, k], weight [n, k] and bias [n].
    """

def matmul(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None, use_tf32: bool | None = None, precision: str | None = None, out_dtype: pygpukit.typing.DTypeLike | None = None, kernel: str | None = None) -> GPUArray:
    """
    a @ b by NumPy's rules for every rank. float32 is exact; use_tf32=True (or precision='tf32') permits TF32, for float32 only.
    out_dtype may be wider than the inputs: float32 for float16 and bfloat16, int32 for int8 (int8 sums wrap around).
    kernel='wgmma', 'mma', 'simt', 'gemv' or 'cublaslt' insists on one kind of kernel of a GPU; see explain_matmul.
    """

def _force_wgmma_tile(rows: int, columns: int, swapped: bool, blocks: int = 1) -> None:
    """
    For measuring: matrix products of more than 64 rows take this tile of sm_90 alone; rows=0 ends it.
    """

def explain_matmul(a: GPUArray, b: GPUArray, *, use_tf32: bool | None = None, precision: str | None = None, out_dtype: pygpukit.typing.DTypeLike | None = None, kernel: str | None = None) -> str:
    """
    How matmul of the same arguments would be computed now, in one line: kernel, tiles, grid and the order of the sums.
    """

def batched_matmul(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Products of two 3-D or two 4-D arrays with equal batch dimensions."""

def pack(x: GPUArray) -> GPUArray:
    """
    x in the layout that the matrix kernels of a GPU read fastest: the last axis dense, every row at a multiple of 16 bytes. x itself where it lies so, else a copy. For weights [n, k], codes and scales, once.
    """

def transpose(a: GPUArray, axes: pygpukit.typing.AxisLike | None = None) -> GPUArray:
    """
    The transposed view of a 2-D array, or a view with the axes in the given order.
    """

def scaled_matmul(a: GPUArray, b: GPUArray, scale_a: GPUArray | None = None, scale_b: GPUArray | None = None, *, zero_b: GPUArray | None = None, tensor_scale_a: GPUArray | None = None, tensor_scale_b: GPUArray | None = None, alpha: float = 1.0, bias: GPUArray | None = None, out_dtype: pygpukit.typing.DTypeLike | None = None, out_scale: GPUArray | None = None, kernel: str | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    a @ b.T * alpha + bias for a [m, k] and weights b [n, k], either or both quantised, with the scales that quantize made.
    Float results are float32, float16, bfloat16 or, divided by out_scale, float8; integers without scales are exact in int32.
    kernel='wgmma' or 'cublaslt' insists on one kind of kernel of a GPU for float8 by float8; 'wgmma' also multiplies bfloat16 by float8_e4m3 with Hopper's unit for float8, as large layers are; it keeps fewer bits of a sum.
    """

def explain_scaled_matmul(a: GPUArray, b: GPUArray, scale_a: GPUArray | None = None, scale_b: GPUArray | None = None, *, zero_b: GPUArray | None = None, tensor_scale_a: GPUArray | None = None, tensor_scale_b: GPUArray | None = None, alpha: float = 1.0, bias: GPUArray | None = None, out_dtype: pygpukit.typing.DTypeLike | None = None, out_scale: GPUArray | None = None, kernel: str | None = None) -> str:
    """
    Which kernel scaled_matmul of the same arguments would use now, and the file it stands in.
    """

def grouped_matmul(a: GPUArray, b: GPUArray, row_expert_ids: GPUArray, scale_a: GPUArray | None = None, scale_b: GPUArray | None = None, *, zero_b: GPUArray | None = None, tensor_scale_a: GPUArray | None = None, tensor_scale_b: GPUArray | None = None, alpha: float = 1.0, bias: GPUArray | None = None, out_dtype: pygpukit.typing.DTypeLike | None = None, out_scale: GPUArray | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    scaled_matmul of each row of a [m, k] with the matrix of b [experts, n, k] that row_expert_ids, int32 [m], names.
    """

def explain_grouped_matmul(a: GPUArray, b: GPUArray, row_expert_ids: GPUArray, scale_a: GPUArray | None = None, scale_b: GPUArray | None = None, *, zero_b: GPUArray | None = None, tensor_scale_a: GPUArray | None = None, tensor_scale_b: GPUArray | None = None, alpha: float = 1.0, bias: GPUArray | None = None, out_dtype: pygpukit.typing.DTypeLike | None = None, out_scale: GPUArray | None = None) -> str:
    """
    How grouped_matmul of the same arguments would be computed now, in one line: kernel, tiles, grid and the order of the sums.
    """

class Weight:
    """
    The matrix of a layer, [n, k] with a row for each output: dense or quantised, packed once for the kernels. linear and linear_swiglu take it in place of an array.
    """

    def __init__(self, data: GPUArray, scale: GPUArray | None = None, *, zero: GPUArray | None = None, tensor_scale: GPUArray | None = None) -> None:
        """
        A dense matrix of floats, or codes with the scales that quantize gave them.
        """

    @staticmethod
    def quantize(matrix: GPUArray, format: pygpukit.typing.DTypeLike, *, block: str | int | tuple[int, int] | None | None = None, zero_point: bool = False, tensor_scale: bool = True) -> Weight:
        """A dense matrix in a format of quantize, with the same keywords."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, k)"""

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType:
        """Of the numbers, or of the codes."""

    @property
    def is_quantized(self) -> bool:
        """Whether it holds codes."""

    @property
    def nbytes(self) -> int:
        """Bytes of numbers or codes, scales and zero points."""

    @property
    def data(self) -> GPUArray | None:
        """The matrix, or its codes."""

    @property
    def scale(self) -> GPUArray | None:
        """Scales of blocks, or None."""

    @property
    def zero(self) -> GPUArray | None:
        """Zero points, or None."""

    @property
    def tensor_scale(self) -> GPUArray | None:
        """The scale of the whole matrix, or None."""

    def dense(self, dtype: pygpukit.typing.DTypeLike) -> GPUArray:
        """The numbers in that dtype."""

    def __repr__(self) -> str: ...

class ExpertWeights:
    """
    The matrices of all experts of a layer, [experts, n, k] with a row for each output: dense or quantised. moe takes it in place of an array.
    """

    def __init__(self, data: GPUArray, scale: GPUArray | None = None, *, zero: GPUArray | None = None, tensor_scale: GPUArray | None = None) -> None:
        """
        Dense matrices of floats, or codes with the scales that quantize gave a 3-D array.
        """

    @staticmethod
    def stack(experts: Sequence[Weight]) -> ExpertWeights:
        """Copies of the matrices of experts, all of one shape and format."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(experts, n, k)"""

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType:
        """Of the numbers, or of the codes."""

    @property
    def is_quantized(self) -> bool:
        """Whether it holds codes."""

    @property
    def nbytes(self) -> int:
        """Bytes of numbers or codes, scales and zero points."""

    @property
    def data(self) -> GPUArray | None:
        """The matrices, or their codes."""

    @property
    def scale(self) -> GPUArray | None:
        """Scales of blocks, or None."""

    @property
    def tensor_scale(self) -> GPUArray | None:
        """One for all experts or one for each, or None."""

    def __repr__(self) -> str: ...

def moe(x: GPUArray, router: GPUArray | Weight, gate_up: GPUArray | ExpertWeights, down: GPUArray | ExpertWeights, top_k: SupportsIndex, *, softmax_first: bool = True, normalize: bool = True, shared_expert: tuple[GPUArray | Weight, GPUArray | Weight] | tuple[GPUArray | Weight, GPUArray | Weight, GPUArray | Weight] | None | None = None, ids: GPUArray | None = None, sigmoid_input: bool = False, out: GPUArray | None = None) -> GPUArray:
    """
    A mixture of experts: each token of x [tokens, hidden] goes to the top_k experts that router [experts, hidden] likes best, and gets the sum of gate * (silu(x @ gate.T) * (x @ up.T)) @ down.T.

    gate_up is [experts, 2 * width, hidden], the gate's rows first, down [experts, hidden, width]: arrays or ExpertWeights; router is an array or a Weight. Gates: softmax over all experts, of which top_k stay (normalize: divided by their sum), or with softmax_first=False softmax over those. shared_expert is (gate_up, down) of an expert for all tokens, or (gate_up, down, gate) with the sigmoid of x @ gate.T before it. ids: int32 [tokens]; a token with a negative one is padding and becomes 0. sigmoid_input: no softmax and no gates, but each expert gets x times the sigmoid of its logit.
    """

def moe_topk_with_indices(logits: GPUArray, values: GPUArray, indices: GPUArray, k: SupportsIndex) -> None:
    """
    values, indices [tokens, k] = the k largest of each row of logits [tokens, experts], largest first.
    """

def moe_softmax_topk(values: GPUArray, k: SupportsIndex) -> None:
    """softmax over each row of values [tokens, k], in place."""

def moe_compute_permutation(expert_indices: GPUArray, expert_counts: GPUArray, expert_offsets: GPUArray, permute_indices: GPUArray, reverse_perm: GPUArray, num_experts: SupportsIndex, k: SupportsIndex) -> None:
    """
    The order of rows by expert: permute_indices[p] = token * k + slot of the row at place p, reverse_perm its inverse; counts [experts] and offsets [experts + 1]. Rows with the id -1 come last. All int32.
    """

def moe_gather(hidden: GPUArray, permute_indices: GPUArray, gathered: GPUArray, k: SupportsIndex) -> None:
    """gathered[p] = hidden[permute_indices[p] // k]."""

def moe_scatter(expert_outputs: GPUArray, router_weights: GPUArray, reverse_perm: GPUArray, output: GPUArray, k: SupportsIndex) -> None:
    """
    output[t] = the sum over slots of router_weights[t, slot] * expert_outputs[reverse_perm[t * k + slot]].
    """

def moe_expand_expert_offsets(expert_offsets: GPUArray, row_expert_ids: GPUArray, num_experts: SupportsIndex) -> None:
    """
    row_expert_ids[p] = the expert whose rows lie at place p, -1 past the last.
    """

def group_norm(input: GPUArray, gamma: GPUArray | None, beta: GPUArray | None, num_groups: SupportsIndex, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """
    (x - mean) / sqrt(var + eps) * gamma + beta over each of `num_groups` groups of channels of [batch, channels, ...]; gamma and beta are [channels] or None.
    """

def group_norm_silu(input: GPUArray, gamma: GPUArray | None, beta: GPUArray | None, num_groups: SupportsIndex, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """silu(group_norm(...)) in one pass."""

def instance_norm(input: GPUArray, gamma: GPUArray | None = None, beta: GPUArray | None = None, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """group_norm with a group for every channel."""

def adain(input: GPUArray, gamma: GPUArray, beta: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """
    instance_norm(x) * (1 + gamma) + beta; gamma and beta are [batch, channels].
    """

def adain_leaky_relu(input: GPUArray, gamma: GPUArray, beta: GPUArray, slope: float = 0.01, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """
    leaky_relu(adain(input, gamma, beta), slope) in one pass, rounded once.
    """

def adain_snake(input: GPUArray, gamma: GPUArray, beta: GPUArray, alpha: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """
    snake(adain(input, gamma, beta), alpha) in one pass, rounded once; alpha is [channels].
    """

def adaln(input: GPUArray, scale: GPUArray, shift: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """
    (x - mean) / sqrt(var + eps) * (1 + scale) + shift over the last axis of [batch, tokens, width] or [tokens, width]; scale and shift are [batch, width] or [width].
    """

def adaln_zero(input: GPUArray, scale: GPUArray, shift: GPUArray, gate: GPUArray, residual: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """
    residual + gate * adaln(input, scale, shift); gate is like scale, residual like input.
    """

def layernorm(input: GPUArray, gamma: GPUArray, beta: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """(x - mean) / sqrt(var + eps) * gamma + beta over the last axis."""

def rmsnorm(input: GPUArray, gamma: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None) -> GPUArray:
    """x / sqrt(mean(x^2) + eps) * gamma over the last axis."""

def l2norm(input: GPUArray, eps: float = 1e-06, *, out: GPUArray | None = None) -> GPUArray:
    """x / sqrt(mean(x^2) + eps) over the last axis: rmsnorm without gamma."""

def rmsnorm_residual(input: GPUArray, residual: GPUArray, gamma: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None, sum: GPUArray | None = None) -> GPUArray:
    """
    rmsnorm(input + residual, gamma); `sum` gets input + residual and may be residual itself.
    """

def layernorm_residual(input: GPUArray, residual: GPUArray, gamma: GPUArray, beta: GPUArray, eps: float = 1e-05, *, out: GPUArray | None = None, sum: GPUArray | None = None) -> GPUArray:
    """layernorm(input + residual, gamma, beta); `sum` gets input + residual."""

def bias_add_inplace(output: GPUArray, bias: GPUArray) -> None:
    """output[..., :] += bias."""

def quantize(x: GPUArray, format: pygpukit.typing.DTypeLike, *, block: str | pygpukit.typing.ShapeLike | None = None, zero_point: bool = False, tensor_scale: bool = True, out: tuple[GPUArray, ...] | None = None) -> tuple[GPUArray, ...]:
    """
    Codes and scales of x in 'fp8_e4m3', 'fp8_e5m2', 'int8', 'int4' or 'nvfp4': (data, scale), with zero points (data, scale, zero), for nvfp4 (data, scale, tensor_scale).
    block is what shares a scale: 'tensor', 'row', a number of columns, or (rows, columns).
    """

def dequantize(data: GPUArray, scale: GPUArray, *, zero: GPUArray | None = None, tensor_scale: GPUArray | None = None, dtype: pygpukit.typing.DTypeLike = 'float32', out: GPUArray | None = None) -> GPUArray:
    """
    The numbers of codes that quantize made, in float32, float16 or bfloat16.
    """

def lstm_forward(x: GPUArray, W_ih: GPUArray, W_hh: GPUArray, b_ih: GPUArray | None = None, b_hh: GPUArray | None = None, h0: GPUArray | None = None, c0: GPUArray | None = None, reverse: bool = False, *, use_tf32: bool | None = None, out: tuple[GPUArray, GPUArray, GPUArray] | None = None) -> tuple[GPUArray, GPUArray, GPUArray]:
    """
    One LSTM layer over x [batch, steps, inputs]: (out [batch, steps, hidden], h_n, c_n). Gates stand in the order i, f, g, o. `reverse` goes from the last step to the first. use_tf32=True permits TF32 in the product of x by W_ih; None is what PYGPUKIT_ALLOW_TF32 says. `out` is a tuple of all three; its states may be h0, c0.
    """

def lstm_bidirectional(x: GPUArray, W_ih_fwd: GPUArray, W_hh_fwd: GPUArray, b_ih_fwd: GPUArray | None, b_hh_fwd: GPUArray | None, W_ih_bwd: GPUArray, W_hh_bwd: GPUArray, b_ih_bwd: GPUArray | None, b_hh_bwd: GPUArray | None, *, h0: GPUArray | None = None, c0: GPUArray | None = None, use_tf32: bool | None = None, out: tuple[GPUArray, GPUArray, GPUArray] | None = None) -> tuple[GPUArray, GPUArray, GPUArray]:
    """
    lstm_forward and its reverse side by side: (out [batch, steps, 2 hidden], h_n and c_n [2, batch, hidden]).
    """

def causal_conv1d(x: GPUArray, weight: GPUArray, bias: GPUArray | None = None, *, state: GPUArray | None = None, silu: bool = False, out: GPUArray | None = None) -> GPUArray:
    """
    Each channel of x [batch, channels, length] by its own weights [channels, taps], of inputs up to its own step. `state` [batch, channels, taps - 1] holds the inputs before the first, and then the last ones.
    """

def selective_scan(x: GPUArray, delta: GPUArray, A: GPUArray, B: GPUArray, C: GPUArray, D: GPUArray | None = None, z: GPUArray | None = None, delta_bias: GPUArray | None = None, delta_softplus: bool = False, *, state: GPUArray | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    h = exp(delta A) h + delta B x and C h along time, for x and delta [batch, channels, length], A [channels, states] and B, C [batch, states, length]; then + D x, times silu(z). `state` [batch, channels, states] is read and set to the last h.
    """

def sum(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Sum over the axes (all: 0-d). Integers and bool give int64, unsigned ones uint64.
    """

def prod(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Product over the axes. Integers and bool give int64, unsigned ones uint64.
    """

def mean(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Mean over the axes. Integers give float64; no elements give NaN. dtype: converted first.
    """

def max(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, out: GPUArray | None = None) -> GPUArray:
    """The largest element over the axes. NaN wins; no elements is an error."""

def min(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, out: GPUArray | None = None) -> GPUArray:
    """The smallest element over the axes. NaN wins; no elements is an error."""

def any(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, out: GPUArray | None = None) -> GPUArray:
    """True where any element over the axes is not 0."""

def all(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, out: GPUArray | None = None) -> GPUArray:
    """True where all elements over the axes are not 0."""

def var(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, correction: float = 0.0, ddof: float | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Variance over the axes, divided by count - correction. ddof is another name of correction.
    """

def std(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, correction: float = 0.0, ddof: float | None = None, out: GPUArray | None = None) -> GPUArray:
    """Standard deviation over the axes: the root of var."""

def argmax(a: GPUArray, axis: SupportsIndex | None = None, keepdims: bool = False, *, out: GPUArray | None = None) -> GPUArray:
    """
    First index (int64) of the largest element along an axis, or in the flattened array. The first NaN wins.
    """

def argmin(a: GPUArray, axis: SupportsIndex | None = None, keepdims: bool = False, *, out: GPUArray | None = None) -> GPUArray:
    """
    First index (int64) of the smallest element along an axis, or in the flattened array. The first NaN wins.
    """

def sum_axis(a: GPUArray, axis: pygpukit.typing.AxisLike, *, out: GPUArray | None = None) -> GPUArray:
    """Sum of a matrix along axis 0 or 1."""

def cumsum(a: GPUArray, axis: SupportsIndex | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Running sums along an axis, or of the flattened array. Element i equals the sum of elements 0 to i to the bit.
    """

def cumprod(a: GPUArray, axis: SupportsIndex | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Running products along an axis, or of the flattened array, to the bits of prod.
    """

def nansum(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """Sum over the axes of what is not NaN."""

def nanprod(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """Product over the axes of what is not NaN."""

def nanmean(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """Mean over the axes of what is not NaN; NaN where nothing is left."""

def nanmax(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """
    The largest element over the axes that is not NaN; NaN where nothing is left.
    """

def nanmin(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """
    The smallest element over the axes that is not NaN; NaN where nothing is left.
    """

def nanvar(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, correction: float = 0.0, ddof: float | None = None) -> GPUArray:
    """Variance over the axes of what is not NaN."""

def nanstd(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, *, correction: float = 0.0, ddof: float | None = None) -> GPUArray:
    """Standard deviation over the axes of what is not NaN."""

def nanmedian(a: GPUArray, axis: SupportsIndex | None = None, keepdims: bool = False) -> GPUArray:
    """The median of what is not NaN; NaN where nothing is left."""

def nanargmax(a: GPUArray, axis: SupportsIndex | None = None, keepdims: bool = False) -> GPUArray:
    """
    argmax over what is not NaN. Waits for the device; NaN alone is an error.
    """

def nanargmin(a: GPUArray, axis: SupportsIndex | None = None, keepdims: bool = False) -> GPUArray:
    """
    argmin over what is not NaN. Waits for the device; NaN alone is an error.
    """

def nanquantile(a: GPUArray, q: float | Sequence[float], axis: SupportsIndex | None = None, *, keepdims: bool = False, method: str = 'linear') -> GPUArray:
    """quantile of what is not NaN; NaN where nothing is left."""

def nanpercentile(a: GPUArray, q: float | Sequence[float], axis: SupportsIndex | None = None, *, keepdims: bool = False, method: str = 'linear') -> GPUArray:
    """nanquantile of q in percent."""

def nancumsum(a: GPUArray, axis: SupportsIndex | None = None, dtype: pygpukit.typing.DTypeLike | None = None) -> GPUArray:
    """Running sums where NaN counts as 0."""

def nancumprod(a: GPUArray, axis: SupportsIndex | None = None, dtype: pygpukit.typing.DTypeLike | None = None) -> GPUArray:
    """Running products where NaN counts as 1."""

def count_nonzero(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """How many elements over the axes are not zero, as int64."""

def logsumexp(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False) -> GPUArray:
    """log(sum(exp(a))) over the axes, without overflow on the way."""

def cumulative_sum(x: GPUArray, *, axis: SupportsIndex | None = None, dtype: pygpukit.typing.DTypeLike | None = None, include_initial: bool = False) -> GPUArray:
    """
    Running sums along an axis; include_initial puts 0 in front. The array standard's cumsum.
    """

def cumulative_prod(x: GPUArray, *, axis: SupportsIndex | None = None, dtype: pygpukit.typing.DTypeLike | None = None, include_initial: bool = False) -> GPUArray:
    """Running products along an axis; include_initial puts 1 in front."""

def diff(x: GPUArray, *, axis: int = -1, n: int = 1, prepend: GPUArray | None = None, append: GPUArray | None = None) -> GPUArray:
    """Differences of neighbours along an axis, n times over."""

def log_softmax(input: GPUArray, axis: int = -1) -> GPUArray:
    """The logarithm of softmax along an axis, without overflow on the way."""

def quantile(a: GPUArray, q: float | Sequence[float], axis: SupportsIndex | None = None, *, keepdims: bool = False, method: str = 'linear') -> GPUArray:
    """
    The value below which a part q of the elements lies, between neighbours by a straight line.
    """

def percentile(a: GPUArray, q: float | Sequence[float], axis: SupportsIndex | None = None, *, keepdims: bool = False, method: str = 'linear') -> GPUArray:
    """quantile of q in percent."""

def median(a: GPUArray, axis: SupportsIndex | None = None, keepdims: bool = False) -> GPUArray:
    """The middle element in order, or the mean of the middle two."""

def bincount(x: GPUArray, *, minlength: int = 0) -> GPUArray:
    """
    How often each of 0 .. max(x) occurs in a 1-D integer array. Waits for the device.
    """

def histogram(a: GPUArray, bins: int | GPUArray = 10, range: tuple[float, float] | None | None = None, *, density: bool = False) -> tuple[GPUArray, GPUArray]:
    """
    (counts, edges) of equal bins over the range of a, or counts between given edges. Finding the range waits for the device. density: each count is divided by all of them and by the width of its bin.
    """

def average(a: GPUArray, axis: pygpukit.typing.AxisLike | None = None, weights: GPUArray | None = None, *, keepdims: bool = False) -> GPUArray:
    """The mean over the axes, or sum(a * weights) / sum(weights)."""

def interp(x: GPUArray, xp: GPUArray, fp: GPUArray, *, left: float | None = None, right: float | None = None) -> GPUArray:
    """
    The broken line through the points (xp, fp), xp in order, at x; beyond its ends left and right.
    """

def rope_init_linear(max_seq_len: SupportsIndex, head_dim: SupportsIndex, base: float = 10000.0, scale: float = 1.0) -> tuple[GPUArray, GPUArray]:
    """
    (cos, sin) of rope_tables with linear scaling, float32 [max_seq_len, head_dim] for rope_inplace.
    """

def rope_init_ntk_aware(max_seq_len: SupportsIndex, head_dim: SupportsIndex, base: float = 10000.0, scale: float = 1.0) -> tuple[GPUArray, GPUArray]:
    """
    (cos, sin) of rope_tables with NTK scaling, float32 [max_seq_len, head_dim] for rope_inplace.
    """

def rope_init_yarn(max_seq_len: SupportsIndex, head_dim: SupportsIndex, base: float = 10000.0, scale: float = 1.0, original_max_len: SupportsIndex = 4096, beta_fast: float = 32.0, beta_slow: float = 1.0, mscale: float = 0.1) -> tuple[GPUArray, GPUArray]:
    """
    (cos, sin) of rope_tables with YaRN scaling, float32 [max_seq_len, head_dim] for rope_inplace; times mscale ln(scale) + 1.
    """

def alibi_init_slopes(num_heads: SupportsIndex) -> GPUArray:
    """float32 [num_heads]: 2^(-8 (h + 1) / num_heads)."""

def alibi_compute_bias(seq_len: SupportsIndex, num_heads: SupportsIndex, slopes: GPUArray, causal: bool = True) -> GPUArray:
    """
    float32 [num_heads, seq_len, seq_len]: -slope (i - j), and -1e9 where j > i when causal.
    """

def alibi_add_bias(scores: GPUArray, slopes: GPUArray, start_pos: SupportsIndex = 0) -> None:
    """
    scores [batch, heads, queries, keys] -= slope (start_pos + i - j), in place.
    """

def pope_init_encoding(max_seq_len: SupportsIndex, head_dim: SupportsIndex, base: float = 10000.0) -> GPUArray:
    """
    float32 [max_seq_len, head_dim]: sines in even columns, cosines in odd ones.
    """

def pope_inplace(q: GPUArray, k: GPUArray, encoding: GPUArray, start_pos: SupportsIndex = 0) -> None:
    """
    Adds encoding[start_pos + token] to every head of q and k [tokens, heads, dim], in place.
    """

def irope_scale_q(Q: GPUArray, positions: GPUArray, attn_scale: float = 0.1, floor_scale: float = 8192.0, *, out: GPUArray | None = None) -> GPUArray:
    """
    Q [tokens, heads, dim] times 1 + attn_scale ln(1 + floor((position + 1) / floor_scale)).
    """

def rope_tables(positions: SupportsIndex, rotary_dim: SupportsIndex, base: float = 10000.0, *, scaling: str = 'none', factor: float = 1.0, original_length: SupportsIndex = 0, low_freq_factor: float = 1.0, high_freq_factor: float = 4.0, beta_fast: float = 32.0, beta_slow: float = 1.0, attention_factor: float = 0.0, device: pygpukit.typing.DeviceLike | None = None) -> tuple[GPUArray, GPUArray]:
    """
    (cos, sin), float32 [positions, rotary_dim / 2]. scaling: none, linear, ntk, yarn or llama3.
    """

def rope(x: GPUArray, cos: GPUArray, sin: GPUArray, positions: GPUArray | None = None, *, rotary_dim: SupportsIndex = 0, interleaved: bool = False) -> None:
    """
    Turns x [tokens, heads, dim] in place by the tables' rows `positions` (int32 [tokens]; None: 0, 1, ...).
    """

def rope_inplace(q: GPUArray, k: GPUArray, cos: GPUArray, sin: GPUArray) -> None:
    """
    Turns q [S, H, D] and k [S, Hkv, D] in place; tables [S, D], half-split.
    """

def rope_inplace_f32table(q: GPUArray, k: GPUArray, cos: GPUArray, sin: GPUArray) -> None:
    """rope_inplace with float32 tables."""

def qkv_rope_append(qkv: GPUArray, q_out: GPUArray, k_cache: GPUArray, v_cache: GPUArray, sequence_ids: GPUArray, positions: GPUArray, *, block_tables: GPUArray | None = None, k_scale: GPUArray | None = None, v_scale: GPUArray | None = None, bias: GPUArray | None = None, q_norm: GPUArray | None = None, k_norm: GPUArray | None = None, norm_eps: float = 1e-06, cos: GPUArray | None = None, sin: GPUArray | None = None, rotary_dim: SupportsIndex = 0, interleaved: bool = False) -> None:
    """
    Splits qkv, adds the bias, normalises and turns q and k, writes q to q_out and k, v to the cache: one kernel.
    """

def split_qkv_batch(qkv: GPUArray, q_out: GPUArray, k_out: GPUArray, v_out: GPUArray, q_dim: SupportsIndex, k_dim: SupportsIndex, v_dim: SupportsIndex) -> None:
    """
    The columns of qkv [M, q + k + v] as q_out, k_out, v_out [M, heads, dim].
    """

def sample(logits: GPUArray, temperature: float | GPUArray = 1.0, top_k: int | GPUArray = 0, top_p: float | GPUArray = 1.0, min_p: float | GPUArray = 0.0, *, repetition_penalty: float | GPUArray = 1.0, frequency_penalty: float | GPUArray = 0.0, presence_penalty: float | GPUArray = 0.0, history: GPUArray | None = None, history_lengths: GPUArray | None = None, prompt_lengths: GPUArray | None = None, bias_ids: GPUArray | None = None, bias_values: GPUArray | None = None, allowed: GPUArray | None = None, seed: int | GPUArray | None | None = None, position: int | GPUArray = 0, uniform: GPUArray | None = None, out: GPUArray | None = None, logprobs: GPUArray | None = None, top_ids: GPUArray | None = None, top_logprobs: GPUArray | None = None) -> GPUArray:
    """
    A token (int32) for each row of logits [rows, vocab], drawn on the device; nothing waits.

    Steps, each left out where it is off: repetition, frequency and presence penalties over history (int32 [rows, n]; the first prompt_lengths of its history_lengths ids count for repetition alone), allowed (bool [rows, vocab], or bits in int32), bias_values added to bias_ids, temperature (below 1e-6: the largest logit), top_k, top_p (the token that crosses it stays), min_p, the draw. Numbers may be arrays [rows], read on the device: float32, top_k and position int32, seed uint64. A row's token depends on its logits, numbers, seed and position alone; with one seed, on the row's index too. seed=None draws by set_sampling_seed's state; uniform (float32 [rows]) takes the place of the draw. Equal logits: the lowest index first. A row with NaN or with nothing allowed gives -1.

    logprobs (float32 [rows]), top_ids (int32 [rows, n]) and top_logprobs (float32) get log-probabilities of the chosen and of the n likeliest tokens, taken before temperature and cuts.
    """

def set_sampling_seed(seed: SupportsIndex) -> None:
    """Starts the draws of calls without a seed over."""

def sample_token_gpu(logits: GPUArray, temperature: pygpukit.typing.Number = 1.0, top_k: SupportsIndex = 0, top_p: pygpukit.typing.Number = 1.0) -> int:
    """The token of one row of logits as an int. Waits; sample does not."""

def sample_greedy(logits: GPUArray) -> int:
    """The likeliest token of one row, the lowest of equal ones. Waits."""

def sample_multinomial(logits: GPUArray, temperature: pygpukit.typing.Number) -> int:
    """A token of one row, drawn from all. Waits."""

def sample_topk(logits: GPUArray, top_k: SupportsIndex, temperature: pygpukit.typing.Number) -> int:
    """A token of one row, drawn from the k likeliest. Waits."""

def sample_topp(logits: GPUArray, top_p: pygpukit.typing.Number, temperature: pygpukit.typing.Number) -> int:
    """
    A token of one row, drawn from the fewest likeliest that reach top_p together. Waits.
    """

def sample_topk_to_buf_ptr(logits: GPUArray, result_buf: GPUArray, random_val_buf: GPUArray, top_k: SupportsIndex, temperature: pygpukit.typing.Number) -> None:
    """
    result_buf[0] (int32) = a token of the k likeliest, drawn by the uniform number random_val_buf[0] (float32). Can be captured.
    """

def softmax(input: GPUArray, axis: SupportsIndex = -1, *, out: GPUArray | None = None) -> GPUArray:
    """exp(x) / sum(exp(x)) along an axis, safe for large x."""

def sort(x: GPUArray, axis: SupportsIndex | None = -1, *, descending: bool = False, stable: bool = True, out: GPUArray | None = None) -> GPUArray:
    """
    x in order along an axis; axis=None flattens it. Stable; NaN comes last, or first when descending.
    """

def argsort(x: GPUArray, axis: SupportsIndex | None = -1, *, descending: bool = False, stable: bool = True, out: GPUArray | None = None) -> GPUArray:
    """Where the elements of sort() come from, as int64."""

def topk(x: GPUArray, k: SupportsIndex, *, axis: SupportsIndex = -1, largest: bool = True) -> tuple[GPUArray, GPUArray]:
    """
    (values, indices) of the k largest elements along an axis in order; largest=False gives the smallest.
    """

def searchsorted(x1: GPUArray, x2: pygpukit.typing.Operand, *, side: str = 'left', sorter: GPUArray | None = None, out: GPUArray | None = None) -> GPUArray:
    """
    Where each of x2 would go into the 1-D x1 to keep it in order, as int64. sorter is an argsort of x1.
    """

def unique_all(x: GPUArray) -> pygpukit.core.results.UniqueAll:
    """
    (values, indices, inverse_indices, counts) of the different values, in order. Waits for the device.
    """

def unique_counts(x: GPUArray) -> pygpukit.core.results.UniqueCounts:
    """
    (values, counts) of the different values, in order. Waits for the device.
    """

def unique_inverse(x: GPUArray) -> pygpukit.core.results.UniqueInverse:
    """
    (values, inverse_indices): x equals values[inverse_indices]. Waits for the device.
    """

def unique_values(x: GPUArray) -> GPUArray:
    """
    The different values in order; every NaN is one of its own. Waits for the device.
    """

def unique(x: GPUArray, *, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """
    unique_values(x), or with any of the others a tuple of it, the first indices, the inverse and the counts.
    """

def isin(x1: GPUArray, x2: GPUArray, *, invert: bool = False) -> GPUArray:
    """
    Whether each element of x1 occurs in x2, or does not where invert is true.
    """
