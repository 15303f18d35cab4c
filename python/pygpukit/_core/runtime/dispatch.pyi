from collections.abc import Sequence
import enum
from typing import Any

import pygpukit.typing


class CompileOptions:
    """What a kernel is compiled with. flag, define and include give copies."""

    def __init__(self, compute_capability: str = 'sm_75') -> None: ...

    def flag(self, f: str) -> CompileOptions: ...

    def define(self, name: str, value: str = '') -> CompileOptions: ...

    def include(self, path: str) -> CompileOptions: ...

    @property
    def compute_capability(self) -> str: ...

    @property
    def flags(self) -> list[str]: ...

    @property
    def defines(self) -> list[tuple[str, str]]:
        """(name, value) pairs."""

    @property
    def includes(self) -> list[str]: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class CacheConfig:
    """Limits of a kernel cache."""

    def __init__(self, max_entries: int = 1024, max_ptx_size: int | str = 268435456, enable_eviction: bool = True, ttl_seconds: float = 0.0) -> None: ...

    @property
    def max_entries(self) -> int: ...

    @property
    def max_ptx_size(self) -> int: ...

    @property
    def enable_eviction(self) -> bool: ...

    @property
    def ttl_seconds(self) -> float:
        """0: entries do not expire."""

    def __repr__(self) -> str: ...

class CachedKernel:
    """An entry of a kernel cache, as it stood when asked for."""

    @property
    def key(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def ptx(self) -> str: ...

    @property
    def module_handle(self) -> int | None: ...

    @property
    def function_handle(self) -> int | None: ...

    @property
    def created_at(self) -> float:
        """Seconds since 1970."""

    @property
    def last_access(self) -> float: ...

    @property
    def access_count(self) -> int: ...

    def is_loaded(self) -> bool:
        """True when its handles were set."""

    def __repr__(self) -> str: ...

class CacheStats:
    """Counts of a kernel cache."""

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    @property
    def entries(self) -> int: ...

    @property
    def ptx_size(self) -> int: ...

    @property
    def evictions(self) -> int: ...

    @property
    def ttl_evictions(self) -> int: ...

    @property
    def loaded_count(self) -> int: ...

    def hit_rate(self) -> float:
        """Hits of all lookups; 0 before the first."""

    def __repr__(self) -> str: ...

class KernelCache:
    """
    Compiled kernels in memory, for programs that compile by themselves. The least recently used goes first.
    """

    def __init__(self, config: CacheConfig | None = None) -> None: ...

    @staticmethod
    def compute_key(source: str, name: str, options: CompileOptions | None = None) -> int: ...

    @staticmethod
    def hash_source(source: str) -> int: ...

    def get(self, key: int) -> CachedKernel | None:
        """Counts as a hit or a miss."""

    def get_by_name(self, name: str, options: CompileOptions | None = None) -> CachedKernel | None:
        """What was inserted last under this name with these options."""

    def insert(self, source: str, name: str, ptx: str, options: CompileOptions | None = None) -> int:
        """Returns the key."""

    def set_handles(self, key: int, module: int, function: int) -> bool: ...

    def remove(self, key: int) -> bool: ...

    def contains(self, key: int) -> bool: ...

    def kernel_names(self) -> list[str]: ...

    def clear_expired(self) -> int:
        """Returns how many went."""

    def stats(self) -> CacheStats: ...

    def len(self) -> int: ...

    def __len__(self) -> int: ...

    def is_empty(self) -> bool: ...

    def clear(self) -> None: ...

    def __repr__(self) -> str: ...

class ArchFingerprint:
    """What compiled code depends on."""

    def __init__(self, sm_version: int, global_memory: int, shared_memory_per_sm: int, max_registers_per_block: int, l2_cache_size: int, driver_version: int) -> None: ...

    @property
    def sm_version(self) -> int: ...

    @property
    def global_memory(self) -> int: ...

    @property
    def shared_memory_per_sm(self) -> int: ...

    @property
    def max_registers_per_block(self) -> int: ...

    @property
    def l2_cache_size(self) -> int: ...

    @property
    def driver_version(self) -> int: ...

    def hash(self) -> int: ...

    def is_compatible(self, other: ArchFingerprint) -> bool:
        """True for the same SM version and driver."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class PersistentCacheConfig:
    """Place and limits of a cache on disk."""

    def __init__(self, cache_dir: str | None = None, max_size: int | str = 536870912, max_entries: int = 1000, auto_cleanup: bool = True, ttl_seconds: float = 0.0) -> None: ...

    @property
    def cache_dir(self) -> str | None:
        """None: ~/.pygpukit/cache."""

    @property
    def max_size(self) -> int: ...

    @property
    def max_entries(self) -> int: ...

    @property
    def auto_cleanup(self) -> bool: ...

    @property
    def ttl_seconds(self) -> float: ...

    def __repr__(self) -> str: ...

class PersistentEntry:
    """An entry of a cache on disk."""

    @property
    def name(self) -> str: ...

    @property
    def ptx(self) -> str: ...

    @property
    def source_hash(self) -> int: ...

    @property
    def options_hash(self) -> int: ...

    @property
    def created_at(self) -> float:
        """Seconds since 1970."""

    @property
    def last_access(self) -> float: ...

    @property
    def access_count(self) -> int: ...

    def ptx_size(self) -> int: ...

    def __repr__(self) -> str: ...

class PersistentCacheStats:
    """Counts of a cache on disk."""

    @property
    def entries(self) -> int: ...

    @property
    def total_size(self) -> int: ...

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    @property
    def evictions(self) -> int: ...

    @property
    def load_errors(self) -> int: ...

    @property
    def save_errors(self) -> int: ...

    def hit_rate(self) -> float: ...

    def __repr__(self) -> str: ...

class PersistentCache:
    """
    Compiled kernels on disk, for programs that compile by themselves: one file for each entry in a folder of this user alone. A file that is cut or changed is a miss.
    """

    def __init__(self, config: PersistentCacheConfig | None, arch: ArchFingerprint) -> None: ...

    def initialize(self) -> None:
        """Opens the folder, making it when missing."""

    @staticmethod
    def compute_key(source_hash: int, name: str, options_hash: int, arch_hash: int) -> int: ...

    @staticmethod
    def hash_source(source: str) -> int: ...

    @staticmethod
    def hash_options(options: Sequence[str]) -> int: ...

    def get(self, key: int) -> PersistentEntry | None: ...

    def insert(self, source: str, name: str, options: Sequence[str], ptx: str) -> int:
        """Returns the key."""

    def remove(self, key: int) -> bool: ...

    def clear(self) -> None: ...

    def cleanup(self) -> int:
        """Removes what has expired or is too much; returns how many."""

    def contains(self, key: int) -> bool: ...

    def len(self) -> int: ...

    def __len__(self) -> int: ...

    def is_empty(self) -> bool: ...

    def stats(self) -> PersistentCacheStats: ...

    def __repr__(self) -> str: ...

class KernelState(enum.Enum):
    """Where a launch stands."""

    Queued = 0

    Launched = 1

    Completed = 2

    Failed = 3

    Cancelled = 4

    def is_terminal(self) -> bool:
        """True for a state that never changes."""

class LaunchConfig:
    """The shape of a launch."""

    def __init__(self, grid: pygpukit.typing.Extent = (1, 1, 1), block: pygpukit.typing.Extent = (256, 1, 1), shared_mem: int = 0, stream_id: int = 0) -> None: ...

    @staticmethod
    def linear(n_elements: int, block_size: int = 256) -> LaunchConfig:
        """Enough blocks for one thread per element."""

    @staticmethod
    def grid_2d(grid_x: int, grid_y: int, block_x: int, block_y: int) -> LaunchConfig:
        """A grid and a block of two dimensions."""

    @property
    def grid(self) -> tuple[int, int, int]: ...

    @property
    def block(self) -> tuple[int, int, int]: ...

    @property
    def shared_mem(self) -> int:
        """Bytes of dynamic shared memory."""

    @shared_mem.setter
    def shared_mem(self, arg: int, /) -> None: ...

    @property
    def stream_id(self) -> int: ...

    @stream_id.setter
    def stream_id(self, arg: int, /) -> None: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class KernelLaunchRequest:
    """A launch that was asked for, as it stood then."""

    @property
    def id(self) -> int: ...

    @property
    def kernel_handle(self) -> int: ...

    @property
    def config(self) -> LaunchConfig: ...

    @property
    def args(self) -> list[int]: ...

    @property
    def state(self) -> KernelState: ...

    @property
    def task_id(self) -> str | None: ...

    @property
    def priority(self) -> int: ...

    @property
    def queued_at(self) -> float:
        """Seconds since 1970."""

    @property
    def launched_at(self) -> float | None: ...

    @property
    def completed_at(self) -> float | None: ...

    @property
    def error(self) -> str | None: ...

    def duration(self) -> float | None:
        """Seconds from launched to completed, or None."""

    def __repr__(self) -> str: ...

class DispatchStats:
    """Counts of a dispatcher."""

    @property
    def total_queued(self) -> int: ...

    @property
    def completed_count(self) -> int: ...

    @property
    def failed_count(self) -> int: ...

    @property
    def pending_count(self) -> int: ...

    @property
    def in_flight_count(self) -> int: ...

    @property
    def avg_exec_time(self) -> float:
        """Seconds, of completed launches."""

    @property
    def launches_per_stream(self) -> dict[int, int]: ...

    def __repr__(self) -> str: ...

class KernelDispatcher:
    """
    Launch requests in order of priority, with an in-flight limit per stream. Keeps the books; the caller launches.
    """

    def __init__(self, max_in_flight: int = 4) -> None: ...

    @property
    def max_in_flight(self) -> int: ...

    def queue(self, kernel_handle: int, config: LaunchConfig, args: Sequence[int] | None | None = None, task_id: str | None = None, priority: int = 0) -> int:
        """Asks for a launch; returns its id."""

    def queue_for_task(self, task_id: str, kernel_handle: int, config: LaunchConfig, args: Sequence[int] | None | None = None) -> int: ...

    def get_ready(self, max: int) -> list[KernelLaunchRequest]:
        """What may be launched now. Changes nothing."""

    def mark_launched(self, id: int) -> bool:
        """False when it may not be launched now."""

    def mark_completed(self, id: int) -> bool: ...

    def mark_failed(self, id: int, error: str) -> bool: ...

    def cancel(self, id: int) -> bool:
        """False unless it was still queued."""

    def get_request(self, id: int) -> KernelLaunchRequest | None: ...

    def get_in_flight(self, stream_id: int) -> list[KernelLaunchRequest]: ...

    def get_requests_for_task(self, task: str) -> list[KernelLaunchRequest]: ...

    def has_pending_work(self) -> bool: ...

    def stats(self) -> DispatchStats: ...

    def gc(self) -> int:
        """Forgets what is over; returns how many."""

    def clear(self) -> None: ...

    def __repr__(self) -> str: ...

class DispatchController:
    """
    The control at the launch gate of a device: what its streams submit is recorded, held to limits, and shared out by weight.
    """

    def attach(self, stream: pygpukit.typing.StreamLike, tenant: int = 0, max_in_flight: int = 0, launch_bandwidth: float = 0.0) -> None:
        """Takes a stream under control, or changes how. 0 means no limit."""

    def detach(self, stream: pygpukit.typing.StreamLike) -> None:
        """Lets a stream's later work pass freely."""

    def add_tenant(self, name: str, weight: float = 0.0, bytes_per_second: float = 0.0) -> int:
        """
        Someone whose streams get a share of the device's time by weight, and of the copies by bytes; returns an id.
        """

    def set_weight(self, tenant: int, weight: float) -> None: ...

    def set_bytes_per_second(self, tenant: int, bytes_per_second: float) -> None: ...

    def remove_tenant(self, tenant: int) -> None:
        """Detaches its streams too."""

    def in_flight(self, stream: pygpukit.typing.StreamLike) -> int:
        """Let through and not completed."""

    @property
    def waiting(self) -> int:
        """Threads held back now."""

    def drain(self) -> None:
        """Waits until nothing is held back or in flight."""

    def usage(self) -> list[Any]:
        """One dict for each tenant."""

    def kernel_statistics(self) -> list[Any]:
        """Counts and device times by name, the one with the most time first."""

    def records(self, limit: int = 4096) -> list[Any]:
        """The last submissions, oldest first, then those not yet over."""

    def reset_statistics(self) -> None: ...

    def __repr__(self) -> str: ...

def controller(device: pygpukit.typing.DeviceLike | None = None) -> DispatchController:
    """The controller of a device; nothing is attached at first."""

class PacingConfig:
    """Rules of a pacing engine."""

    def __init__(self, total_bandwidth: float = 1.0, window_ms: float = 100.0, min_interval_ms: float = 0.1, adaptive: bool = True) -> None: ...

    @property
    def total_bandwidth(self) -> float: ...

    @property
    def window_ms(self) -> float: ...

    @property
    def min_interval_ms(self) -> float: ...

    @property
    def adaptive(self) -> bool:
        """
        A stream's window starts with its first launch; else windows follow each other from the start.
        """

    def __repr__(self) -> str: ...

class PacingDecision:
    """Whether a stream may launch now."""

    def can_launch(self) -> bool: ...

    def is_throttled(self) -> bool: ...

    def wait_ms(self) -> float:
        """0 to launch now; infinite when the window is used up."""

    @property
    def decision_type(self) -> str:
        """'Launch', 'Wait' or 'Throttle'."""

    def __repr__(self) -> str: ...

class StreamPacingStats:
    """Counts of one stream."""

    @property
    def stream_id(self) -> int: ...

    @property
    def bandwidth(self) -> float: ...

    @property
    def launches_in_window(self) -> int: ...

    @property
    def total_launches(self) -> int: ...

    @property
    def throttled_count(self) -> int: ...

    def __repr__(self) -> str: ...

class PacingStats:
    """Counts of an engine."""

    @property
    def stream_count(self) -> int: ...

    @property
    def used_bandwidth(self) -> float: ...

    @property
    def available_bandwidth(self) -> float: ...

    @property
    def total_launches(self) -> int: ...

    @property
    def total_throttled(self) -> int: ...

    @property
    def total_waited(self) -> int: ...

    def __repr__(self) -> str: ...

class KernelPacingEngine:
    """
    A stream with bandwidth b launches at intervals of window_ms * (1 - b), and at most ceil(100 b) times in a window.
    """

    def __init__(self, config: PacingConfig | None = None) -> None: ...

    @property
    def config(self) -> PacingConfig: ...

    def allocate_stream(self, stream_id: int, bandwidth: float) -> bool:
        """False when the total would be exceeded."""

    def release_stream(self, stream_id: int) -> bool:
        """False when it had none."""

    def should_launch(self, stream_id: int) -> PacingDecision: ...

    def record_launch(self, stream_id: int) -> None: ...

    def record_throttle(self, stream_id: int) -> None: ...

    def record_wait(self, stream_id: int) -> None: ...

    def stream_stats(self, stream_id: int) -> StreamPacingStats | None:
        """None for a stream without bandwidth."""

    def stats(self) -> PacingStats: ...

    def reset(self) -> None:
        """Forgets launches and counts; the bandwidths stay."""

    def __repr__(self) -> str: ...

class SliceConfig:
    """How launches are cut."""

    def __init__(self, max_items_per_slice: int = 65536, max_duration_ms: float = 1.0, min_slices: int = 1, max_slices: int = 256, adaptive: bool = True) -> None: ...

    @property
    def max_items_per_slice(self) -> int: ...

    @property
    def max_duration_ms(self) -> float: ...

    @property
    def min_slices(self) -> int: ...

    @property
    def max_slices(self) -> int: ...

    @property
    def adaptive(self) -> bool:
        """Slices that took too long make the following ones smaller."""

    def __repr__(self) -> str: ...

class SliceInfo:
    """A slice to launch."""

    @property
    def kernel_handle(self) -> int: ...

    @property
    def block(self) -> tuple[int, int, int]: ...

    @property
    def shared_mem(self) -> int: ...

    @property
    def slice_id(self) -> int:
        """The number of the slice in its kernel."""

    @property
    def offset(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def grid(self) -> tuple[int, int, int]: ...

    @property
    def task_id(self) -> str | None: ...

    @property
    def priority(self) -> int: ...

    def __repr__(self) -> str: ...

class KernelSlice:
    """A slice of a kernel that is under way."""

    @property
    def id(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def grid(self) -> tuple[int, int, int]: ...

    @property
    def executed(self) -> bool: ...

    @property
    def exec_time_ms(self) -> float: ...

    def __repr__(self) -> str: ...

class SliceStats:
    """Counts of a slice scheduler. Pending means not completed."""

    @property
    def total_slices(self) -> int: ...

    @property
    def completed_slices(self) -> int: ...

    @property
    def pending_slices(self) -> int: ...

    @property
    def total_kernels(self) -> int: ...

    @property
    def completed_kernels(self) -> int: ...

    @property
    def pending_kernels(self) -> int: ...

    def __repr__(self) -> str: ...

class SliceScheduler:
    """
    Cuts kernels into slices and hands them out in turn: one of each kernel after the other, higher priorities first. Keeps the books; a kernel of gp.jit cuts itself with slice_ms.
    """

    def __init__(self, config: SliceConfig | None = None) -> None: ...

    def submit(self, kernel_handle: int, total_items: int, block: pygpukit.typing.Extent = (256, 1, 1), shared_mem: int = 0) -> int:
        """Returns the number of slices."""

    def submit_for_task(self, task_id: str, kernel_handle: int, total_items: int, block: pygpukit.typing.Extent = (256, 1, 1), shared_mem: int = 0, priority: int = 0) -> int: ...

    def get_next_slice(self) -> SliceInfo | None:
        """None when every slice was handed out."""

    def complete_slice(self, exec_time_ms: float) -> bool:
        """The slice handed out longest ago is over. False when none is out."""

    def pending_slices(self) -> int: ...

    def pending_kernels(self) -> int: ...

    def slices(self, kernel_handle: int) -> list[KernelSlice]:
        """Slices handed out of kernels not yet completed."""

    def stats(self) -> SliceStats: ...

    def clear(self) -> None: ...

    def config(self) -> SliceConfig: ...

    def __repr__(self) -> str: ...
