from collections.abc import Callable, Generator
from typing import Any

import pygpukit._core
import pygpukit.typing


class PinnedPoolConfig:
    """How a PinnedMemoryManager keeps page-locked memory."""

    def __init__(self, max_size: int | str = 1073741824, enable_pooling: bool = True, alignment: int = 256) -> None: ...

    @property
    def max_size(self) -> int: ...

    @property
    def enable_pooling(self) -> bool: ...

    @property
    def alignment(self) -> int: ...

    def get_size_class(self, size: int | str) -> int:
        """
        4K, 64K, 256K, 1M, 4M, 16M, 64M or 256M; larger sizes are rounded up to the alignment.
        """

    def __repr__(self) -> str: ...

class PinnedBlock:
    """
    A block of page-locked memory. Times are seconds of the runtime's clock.
    """

    @property
    def id(self) -> int: ...

    @property
    def host_ptr(self) -> int:
        """0 until registered."""

    @property
    def size(self) -> int: ...

    @property
    def in_use(self) -> bool: ...

    @property
    def task_id(self) -> str | None: ...

    @property
    def allocated_at(self) -> float: ...

    @property
    def last_access(self) -> float: ...

    def __repr__(self) -> str: ...

class PinnedStats:
    """Sums over the blocks of a PinnedMemoryManager; sizes in bytes."""

    @property
    def total_allocated(self) -> int: ...

    @property
    def current_used(self) -> int: ...

    @property
    def peak_used(self) -> int: ...

    @property
    def total_allocations(self) -> int: ...

    @property
    def total_frees(self) -> int: ...

    @property
    def pool_hits(self) -> int: ...

    @property
    def pool_misses(self) -> int: ...

    @property
    def pool_size(self) -> int: ...

    @property
    def pooled_blocks(self) -> int: ...

    def hit_rate(self) -> float:
        """Allocations served by a kept block, 0 to 1."""

    def __repr__(self) -> str: ...

class PinnedMemoryManager:
    """
    Keeps account of page-locked memory that the caller allocates: sizes, limits, reuse. It makes no allocation itself; the copies of arrays have page-locked memory of their own.
    """

    def __init__(self, config: PinnedPoolConfig | None = None) -> None: ...

    @staticmethod
    def with_max_size(max_size: int | str) -> PinnedMemoryManager: ...

    def can_allocate(self, size: int | str) -> bool: ...

    def allocate(self, size: int | str) -> tuple[int, int, bool]:
        """
        (id, size_class, reused). Unless reused, the caller allocates size_class bytes and registers them. Raises MemoryError over the limit.
        """

    def register(self, id: int, host_ptr: int, size: int) -> None:
        """Where the memory of a block is."""

    def free(self, id: int) -> tuple[bool, int]:
        """
        (should_free, host_ptr): with should_free the caller releases the memory, else it is kept for reuse.
        """

    def associate_task(self, id: int, task_id: str) -> None: ...

    def get(self, id: int) -> PinnedBlock | None:
        """The block, or None."""

    def touch(self, id: int) -> None: ...

    def get_blocks_for_task(self, task_id: str) -> list[int]:
        """Ids of a task's blocks."""

    def free_task_blocks(self, task_id: str) -> list[tuple[bool, int]]:
        """free() of each block of a task."""

    def stats(self) -> PinnedStats: ...

    def clear_pool(self) -> list[int]:
        """Gives up what is kept for reuse; the addresses to release."""

    def clear(self) -> list[int]:
        """Gives up everything; the addresses to release."""

    def active_count(self) -> int: ...

    @property
    def config(self) -> PinnedPoolConfig: ...

    def __repr__(self) -> str: ...

class TransferType:
    """The direction of a transfer: H2D, D2H or D2D."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __int__(self) -> int: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    H2D: TransferType = ...

    D2H: TransferType = ...

    D2D: TransferType = ...

class TransferState:
    """Where a transfer stands."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __int__(self) -> int: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    Queued: TransferState = ...

    InProgress: TransferState = ...

    Completed: TransferState = ...

    Failed: TransferState = ...

    Cancelled: TransferState = ...

    def is_terminal(self) -> bool:
        """True for Completed, Failed and Cancelled."""

class TransferOp:
    """
    One transfer as it was when asked. Times are seconds of the runtime's clock.
    """

    @property
    def id(self) -> int: ...

    @property
    def transfer_type(self) -> TransferType: ...

    @property
    def src_ptr(self) -> int: ...

    @property
    def dst_ptr(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def bytes_done(self) -> int:
        """Bytes copied so far."""

    @property
    def state(self) -> TransferState: ...

    @property
    def stream_id(self) -> int:
        """1 for H2D, 2 for D2H, 0 for D2D."""

    @property
    def queued_at(self) -> float: ...

    @property
    def started_at(self) -> float | None: ...

    @property
    def completed_at(self) -> float | None: ...

    @property
    def priority(self) -> int: ...

    @property
    def error(self) -> str | None: ...

    @property
    def task_id(self) -> str | None: ...

    def wait_time(self) -> float | None:
        """Seconds from queued to started; None before that."""

    def duration(self) -> float | None:
        """Seconds from started to its end; None before that."""

    def bandwidth_gbps(self) -> float | None:
        """Gigabytes per second; None unless completed."""

    def __repr__(self) -> str: ...

class TransferStats:
    """Sums over the transfers of an engine."""

    @property
    def total_queued(self) -> int: ...

    @property
    def completed_count(self) -> int: ...

    @property
    def failed_count(self) -> int: ...

    @property
    def cancelled_count(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...

    @property
    def h2d_bytes(self) -> int: ...

    @property
    def d2h_bytes(self) -> int: ...

    @property
    def avg_h2d_bandwidth(self) -> float:
        """Gigabytes per second."""

    @property
    def avg_d2h_bandwidth(self) -> float:
        """Gigabytes per second."""

    @property
    def pending_count(self) -> int: ...

    @property
    def in_progress_count(self) -> int: ...

    def __repr__(self) -> str: ...

class TransferFuture:
    """
    The end of a copy. `await future` gives what result() gives; cancelling the await leaves the copy alone.
    """

    def result(self, timeout: float | None = None) -> Any:
        """
        Sleeps until the copy is over and gives the array it filled. Raises what went wrong, Error when cancelled, and DeadlineError after timeout seconds.
        """

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The same, but gives the exception; None when it is done."""

    def done(self) -> bool:
        """True once it is over, however it ended."""

    def cancelled(self) -> bool: ...

    def cancel(self) -> bool:
        """
        True when the copy will not be made whole: a waiting one is dropped, one under way stops between chunks. False when it is too late.
        """

    def add_done_callback(self, callback: Callable[[TransferFuture], Any]) -> None:
        """Calls callback(future) on another thread once it is over."""

    def __await__(self) -> Generator[Any, None, Any]: ...

    @property
    def state(self) -> TransferState: ...

    @property
    def operation(self) -> TransferOp:
        """State, times and bytes as they are now."""

    def __repr__(self) -> str: ...

class TransferEngine:
    """The copies of one device, on streams of their own."""

    @property
    def device(self) -> pygpukit._core.Device: ...

    def copy_to_device_async(self, array: pygpukit._core.GPUArray, data: pygpukit.typing.HostBuffer, priority: int = 0) -> TransferFuture:
        """
        Copies a NumPy array or another buffer into a contiguous array beside the compute streams. The memory is read until the future is done and is kept alive until then. Later work on the array comes after the copy. Higher priorities go first.
        """

    def copy_to_host_async(self, array: pygpukit._core.GPUArray, out: pygpukit.typing.HostBuffer | None = None, priority: int = 0) -> TransferFuture:
        """
        Copies a contiguous array into a new NumPy array, or into `out`, beside the compute streams; the result of the future. The array may be written at once: later work on it comes after the copy.
        """

    def stats(self) -> TransferStats:
        """Sums over its transfers so far."""

    def active(self) -> list[TransferOp]:
        """The transfers that are queued or under way."""

    def synchronize(self) -> None:
        """Waits until every transfer given so far is over."""

    @property
    def pinned_bytes(self) -> int:
        """Page-locked memory that pageable copies go through."""

    def trim(self) -> int:
        """Gives unused page-locked memory back; the number of bytes."""

    def __repr__(self) -> str: ...

def transfers(device: pygpukit.typing.DeviceLike | None = None) -> TransferEngine:
    """The transfer engine of a device."""

def pinned_empty(shape: pygpukit.typing.ShapeLike, dtype: pygpukit.typing.DTypeLike = 'float32', device: pygpukit.typing.DeviceLike | None = None) -> pygpukit.typing.HostArray:
    """
    A NumPy array in page-locked memory, not initialised: copies to and from it are made directly.
    """

def copy_to_device_async(array: pygpukit._core.GPUArray, data: pygpukit.typing.HostBuffer, priority: int = 0) -> TransferFuture:
    """
    Copies a NumPy array or another buffer into a contiguous array beside the compute streams. The memory is read until the future is done and is kept alive until then. Later work on the array comes after the copy. Higher priorities go first.
    """

def copy_to_host_async(array: pygpukit._core.GPUArray, out: pygpukit.typing.HostBuffer | None = None, priority: int = 0) -> TransferFuture:
    """
    Copies a contiguous array into a new NumPy array, or into `out`, beside the compute streams; the result of the future. The array may be written at once: later work on it comes after the copy.
    """

class StreamType:
    """The kind of stream a transfer belongs to."""

    @staticmethod
    def Custom(id: int) -> StreamType:
        """A stream with a number of its own."""

    def to_id(self) -> int:
        """0 Compute, 1 MemcpyH2D, 2 MemcpyD2H, or the number given."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    Compute: StreamType = ...

    MemcpyH2D: StreamType = ...

    MemcpyD2H: StreamType = ...

class AsyncTransferEngine:
    """
    Transfers between addresses, by id. They are only kept in order until run() or execute() makes the copies, or the caller does and says so. For arrays use transfers(), which does it all.
    """

    def __init__(self, max_concurrent: int = 4, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    @property
    def max_concurrent(self) -> int: ...

    @property
    def device(self) -> pygpukit._core.Device:
        """Whose memory run() and execute() copy."""

    def enqueue_h2d(self, host_ptr: int, device_ptr: int, size: int, task_id: str | None = None) -> int:
        """The id of a new transfer to the device."""

    def enqueue_d2h(self, device_ptr: int, host_ptr: int, size: int, task_id: str | None = None) -> int:
        """The id of a new transfer to the host."""

    def enqueue_d2d(self, src_ptr: int, dst_ptr: int, size: int, task_id: str | None = None) -> int:
        """The id of a new transfer on the device."""

    def enqueue_with_priority(self, transfer_type: str, src_ptr: int, dst_ptr: int, size: int, priority: int, task_id: str | None = None) -> int:
        """The same for 'h2d', 'd2h' or 'd2d'; higher priorities go first."""

    def get_ready_transfers(self, max: int) -> list[TransferOp]:
        """
        Starts up to max transfers: H2D before D2H before D2D, by priority, then in order.
        """

    def start_transfer(self, id: int) -> bool: ...

    def complete_transfer(self, id: int) -> bool: ...

    def fail_transfer(self, id: int, error: str) -> bool: ...

    def cancel_transfer(self, id: int) -> bool:
        """
        True when it will not be copied whole. One that run() or execute() copies is Cancelled once the copy has stopped; False when it is too late for that.
        """

    def execute(self, op: TransferOp | int) -> TransferOp:
        """
        Makes the copy of one transfer (a TransferOp or its id) after the work of the current stream, waits for it and gives the transfer as it ended. The addresses must be real.
        """

    def run(self) -> int:
        """Makes the copies of all waiting transfers; how many were completed."""

    def get_operation(self, id: int) -> TransferOp | None:
        """The transfer, or None."""

    def stats(self) -> TransferStats: ...

    def get_in_progress_for_stream(self, stream_id: int) -> list[TransferOp]: ...

    def has_pending_work(self) -> bool: ...

    def gc(self) -> int:
        """Forgets finished transfers; how many."""

    def clear(self) -> None:
        """Forgets all transfers."""

    def __repr__(self) -> str: ...
