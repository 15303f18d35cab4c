"""
The runtime core: memory pools, scheduler, transfers, dispatch, partitions, devices, under the class and method names of _pygpukit_rust.
"""

from collections.abc import Callable, Generator, Iterable
import enum
from typing import Any, NoReturn

import pygpukit._core
from pygpukit._core.runtime import (
    device as device,
    dispatch as dispatch,
    memory as memory,
    scheduler as scheduler,
    transfer as transfer
)
from pygpukit._core.runtime.device import (
    DeviceCapabilities as DeviceCapabilities,
    KernelType as KernelType
)
from pygpukit._core.runtime.dispatch import (
    CacheConfig as CacheConfig,
    CacheStats as CacheStats,
    CachedKernel as CachedKernel,
    CompileOptions as CompileOptions,
    DispatchController as DispatchController,
    DispatchStats as DispatchStats,
    KernelCache as KernelCache,
    KernelDispatcher as KernelDispatcher,
    KernelPacingEngine as KernelPacingEngine,
    KernelSlice as KernelSlice,
    LaunchConfig as LaunchConfig,
    PacingConfig as PacingConfig,
    PacingDecision as PacingDecision,
    PacingStats as PacingStats,
    SliceConfig as SliceConfig,
    SliceInfo as SliceInfo,
    SliceScheduler as SliceScheduler,
    SliceStats as SliceStats
)
from pygpukit._core.runtime.memory import (
    EvictionGroup as EvictionGroup,
    MemoryBlock as MemoryBlock,
    MemoryPool as MemoryPool,
    Pin as Pin,
    PoolStats as PoolStats,
    pin as pin,
    set_eviction_priority as set_eviction_priority
)
from pygpukit._core.runtime.scheduler import (
    AdmissionConfig as AdmissionConfig,
    AdmissionController as AdmissionController,
    AdmissionDecision as AdmissionDecision,
    AdmissionStats as AdmissionStats,
    QosClass as QosClass,
    QosEvaluation as QosEvaluation,
    QosPolicy as QosPolicy,
    QosPolicyEvaluator as QosPolicyEvaluator,
    QosStats as QosStats,
    QosTaskMeta as QosTaskMeta,
    RejectReason as RejectReason,
    RejectReasonDetails as RejectReasonDetails,
    ResourceRequirements as ResourceRequirements,
    Scheduler as Scheduler,
    SchedulerStats as SchedulerStats,
    TaskMeta as TaskMeta,
    TaskStats as TaskStats
)
from pygpukit._core.runtime.transfer import (
    AsyncTransferEngine as AsyncTransferEngine,
    PinnedBlock as PinnedBlock,
    PinnedMemoryManager as PinnedMemoryManager,
    PinnedPoolConfig as PinnedPoolConfig,
    PinnedStats as PinnedStats,
    TransferEngine as TransferEngine,
    TransferFuture as TransferFuture,
    TransferOp as TransferOp,
    TransferStats as TransferStats,
    copy_to_device_async as copy_to_device_async,
    copy_to_host_async as copy_to_host_async,
    pinned_empty as pinned_empty,
    transfers as transfers
)
import pygpukit.typing


def _bench_pool(count: int = 100000) -> float:
    """
    Nanoseconds of taking a block from the pool and giving it back, a hit each time.
    """

def _fill_workspaces(word: int) -> None:
    """
    Writes a word over what the current stream of the default device keeps for its next calls.
    """

class _Done:
    """An awaitable that is over; internal."""

    def __await__(self) -> _Done: ...

    def __iter__(self) -> _Done: ...

    def __next__(self) -> NoReturn: ...

class SessionScope:
    """
    `with scope:` or `async with scope:`: everything inside uses the stream, the SMs and the memory wall of a partition or context.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *args: object) -> None: ...

    def __aenter__(self) -> _Done: ...

    def __aexit__(self, *args: object) -> _Done: ...

    def __repr__(self) -> str: ...

class AsyncKernelRequest:
    """
    What dispatch_async runs. kernel_handle is a kernel of gp.jit, any callable that submits work, or an integer whose future is driven by the mark_future_* calls.
    """

    def __init__(self, kernel_handle: Callable[..., Any] | int) -> None: ...

    @staticmethod
    def linear(kernel_handle: Callable[..., Any] | int, n_elements: int, block_size: int = 256) -> AsyncKernelRequest:
        """One thread for each element."""

    def with_grid(self, x: int, y: int = 1, z: int = 1) -> AsyncKernelRequest:
        """The same with another grid."""

    def with_block(self, x: int, y: int = 1, z: int = 1) -> AsyncKernelRequest:
        """The same with another block."""

    def with_shared_mem(self, bytes: int) -> AsyncKernelRequest:
        """The same with dynamic shared memory."""

    def with_args(self, args: Iterable[Any]) -> AsyncKernelRequest:
        """The same with other arguments."""

    @property
    def kernel_handle(self) -> Callable[..., Any] | int: ...

    @property
    def args(self) -> tuple[Any, ...]: ...

    @property
    def grid(self) -> tuple[int, int, int]: ...

    @property
    def block(self) -> tuple[int, int, int]: ...

    @property
    def shared_mem(self) -> int: ...

    def __repr__(self) -> str: ...

class FutureState(enum.IntEnum):
    """Where a dispatched kernel stands."""

    Pending = 0

    Running = 1

    Completed = 2

    Failed = 3

    Cancelled = 4

class KernelResult:
    """How a dispatched kernel ended."""

    @property
    def success(self) -> bool: ...

    @property
    def error(self) -> str | None: ...

    @property
    def exec_time(self) -> float:
        """Seconds on the device."""

    @property
    def output(self) -> bytes | None:
        """Bytes, or None."""

    def __repr__(self) -> str: ...

class AsyncExecStats:
    """Counts of the kernels dispatched in a context."""

    @property
    def total_dispatched(self) -> int: ...

    @property
    def pending_count(self) -> int: ...

    @property
    def running_count(self) -> int: ...

    @property
    def completed_count(self) -> int: ...

    @property
    def failed_count(self) -> int: ...

    @property
    def cancelled_count(self) -> int: ...

    @property
    def avg_exec_time(self) -> float: ...

    def __repr__(self) -> str: ...

class KernelFuture:
    """
    The end of a dispatched kernel. `await future` gives its KernelResult; cancelling the await leaves the kernel alone.
    """

    @property
    def id(self) -> int: ...

    @property
    def stream_id(self) -> int: ...

    @property
    def context_id(self) -> str: ...

    @property
    def state(self) -> FutureState: ...

    def is_ready(self) -> bool:
        """True once it is over, however it ended."""

    def wait(self, timeout: float | None = None) -> KernelResult:
        """
        Sleeps until it is over and gives the result. Ctrl-C works. Raises DeadlineError after timeout seconds.
        """

    def try_get(self) -> KernelResult | None:
        """The result, or None while it is not over."""

    def exec_time(self) -> float:
        """Seconds on the device; 0 until completed."""

    def cancel(self) -> bool:
        """True when it was not launched yet and never will be."""

    def add_done_callback(self, callback: Callable[[KernelFuture], Any]) -> None:
        """Calls callback(future) on another thread once it is over."""

    def __await__(self) -> Generator[Any, None, KernelResult]: ...

    def __repr__(self) -> str: ...

class ContextState(enum.IntEnum):
    """What a context is doing."""

    Idle = 0

    Running = 1

    Paused = 2

class ContextStats:
    """One context of a controller."""

    @property
    def llm_id(self) -> str: ...

    @property
    def state(self) -> ContextState: ...

    @property
    def stream_id(self) -> int: ...

    @property
    def max_vram(self) -> int: ...

    @property
    def used_vram(self) -> int:
        """Bytes of its arrays and of what was tracked."""

    @property
    def available_vram(self) -> int: ...

    @property
    def buffer_count(self) -> int: ...

    def __repr__(self) -> str: ...

class ControllerStats:
    """A controller as a whole."""

    @property
    def initialized(self) -> bool: ...

    @property
    def device_id(self) -> int: ...

    @property
    def total_vram_budget(self) -> int: ...

    @property
    def device_total_memory(self) -> int: ...

    @property
    def used_vram(self) -> int: ...

    @property
    def available_vram(self) -> int: ...

    @property
    def context_count(self) -> int: ...

    @property
    def stream_pool_size(self) -> int: ...

    def __repr__(self) -> str: ...

class MultiLLMController:
    """
    Several models on one device, each in a context with its own stream, memory wall and share.
    """

    def __init__(self) -> None: ...

    def initialize(self, device_id: int = 0, device_total_memory: int | str = 0, total_vram_budget: int | str = 0) -> None:
        """Memory 0: the GPU's, on the CPU 8 GiB. Budget 0: all of it."""

    def is_initialized(self) -> bool: ...

    def used_vram(self) -> int: ...

    def available_vram(self) -> int: ...

    def start_session(self) -> None: ...

    def end_session(self) -> None: ...

    def is_session_active(self) -> bool: ...

    def stats(self) -> ControllerStats: ...

    def reset(self) -> None:
        """
        Destroys every context and starts anew. Raises while a session of one is entered.
        """

    def __repr__(self) -> str: ...

    def create_context(self, llm_id: str, max_vram: int | str = 0, base_vram: int | str = 0, qos: QosClass | str | None = None, compute: float = 1.0, bandwidth: float = 1.0, *, device_id: int = 0, initialize: bool = False) -> int:
        """
        A context with its own stream: max_vram is its memory wall, base_vram what is kept for it, compute its share of the SMs, bandwidth its share of the copies. Gives the stream's number. device_id: 0, or the controller's. initialize: initialises a controller that is not yet.
        """

    def get_context(self, llm_id: str) -> ContextStats | None:
        """What a context has and uses, or None."""

    def destroy_context(self, llm_id: str) -> bool:
        """
        Waits for the context's work and gives everything back. False when unknown; raises inside its session.
        """

    def list_contexts(self) -> list[str]: ...

    def context_count(self) -> int: ...

    def get_stream_id(self, llm_id: str) -> int | None: ...

    def track_allocation(self, llm_id: str, buffer_id: int, size: int | str) -> bool:
        """
        Counts memory that was allocated elsewhere against the context's wall. False when it does not fit.
        """

    def track_deallocation(self, llm_id: str, buffer_id: int) -> None: ...

    def context_usage(self, llm_id: str) -> dict[str, Any]:
        """What a context has and uses, measured."""

    def context_session(self, llm_id: str, value: Any | None = None) -> SessionScope:
        """A scope for `with` and `async with`; entering gives value."""

    def start_context_session(self, llm_id: str) -> None:
        """Enters the context's session here, until end_context_session."""

    def end_context_session(self, llm_id: str) -> None: ...

    def is_context_session_active(self, llm_id: str) -> bool: ...

    def dispatch_async(self, llm_id: str, request: AsyncKernelRequest) -> KernelFuture:
        """
        Launches the request's kernel, or calls its callable, inside the context's session. With an integer handle nothing is launched: the mark_future_* calls drive the future. On the CPU, in a thread with a running event loop, the callable runs in a thread of the context, in the order of the calls; whoever enters the context's session waits for it.
        """

    def get_pending_futures(self, llm_id: str) -> list[int]: ...

    def mark_future_launched(self, llm_id: str, future_id: int) -> bool: ...

    def mark_future_completed(self, llm_id: str, future_id: int, exec_time: float) -> bool: ...

    def mark_future_failed(self, llm_id: str, future_id: int, error: str) -> bool: ...

    def cancel_future(self, llm_id: str, future_id: int) -> bool:
        """True when it was not launched yet."""

    def get_future(self, llm_id: str, future_id: int) -> KernelFuture:
        """The future, or None when unknown or long over."""

    def async_stats(self, llm_id: str) -> AsyncExecStats: ...

def _bench_gate(count: int = 20000) -> tuple[float, float]:
    """
    Nanoseconds of a submission on the CPU through the gate with nothing attached, and with the gate compiled out.
    """

def snapshot() -> dict[str, Any]:
    """
    What the process has and does now: devices, pools, accounts, streams, transfers, dispatch, partitions, controllers, contexts, schedulers, admission, qos, counters, events, environment. Opens no device and waits for none.
    """

def snapshot_json(indent: int = 0) -> str:
    """The snapshot as JSON."""

def prometheus_text() -> str:
    """The snapshot in Prometheus' text format, version 0.0.4."""

def events(after: int = 0, limit: int | None = None) -> list[Any]:
    """
    Evictions, restores, refusals, changes of partitions and contexts, errors: those with a number above `after`, oldest first. The last 4096 are kept. Decisions about tasks: decisions_json.
    """

def events_json(after: int = 0) -> str:
    """The events as lines of JSON."""

def decisions_json() -> str:
    """
    What every living scheduler, admission controller and QoS evaluator has decided, as lines of JSON.
    """

def publish_snapshot(path: pygpukit.typing.PathLike | None = None, interval_s: float = 1.0) -> str:
    """
    Keeps a file fresh with snapshots, whole at any time, for `pygpukit top` in another terminal. Without a path it lies where `pygpukit top` looks, and goes with the process. Gives the path.
    """

def stop_publishing() -> None:
    """Ends publish_snapshot."""

def published_snapshots() -> list[Any]:
    """What programs of this user publish, the freshest first."""

def _read_snapshot(path: pygpukit.typing.PathLike) -> str:
    """A published snapshot as JSON; internal."""

def _top_text(snapshot: str, previous: str | None, width: int, colour: bool) -> str:
    """One screen of `pygpukit top`; internal."""

def trace_start(capacity: int = 1000000) -> None:
    """
    Starts recording tasks, submissions, kernels and copies of the whole process. The last trace is forgotten.
    """

def trace_stop(timeout: float = 5.0) -> None:
    """
    Ends it once what was submitted is over, after `timeout` seconds in any case.
    """

def trace_json() -> str:
    """The trace so far, or the last one, as trace-event JSON."""

def trace_save(path: pygpukit.typing.PathLike) -> None:
    """Writes the trace for ui.perfetto.dev or chrome://tracing."""

def trace_status() -> dict[str, Any]:
    """Whether a trace runs and what it has."""

def nvtx_start() -> bool:
    """
    Puts an NVTX range around every submission. False, and nothing done, without NVIDIA's library.
    """

def nvtx_stop() -> None:
    """Ends nvtx_start."""

class Simulation:
    """What became of a described workload."""

    def text(self, width: int = 60) -> str:
        """Lines of text; `width` columns for the time."""

    def svg(self) -> str:
        """A picture."""

    def json(self, indent: int = 0) -> str:
        """Everything, the decisions included, as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """The same as objects of Python."""

    @property
    def end_ms(self) -> float: ...

    def __repr__(self) -> str: ...

def simulate(workload: str | dict[str, Any]) -> Simulation:
    """
    Runs a described workload (a dict, or its JSON) through the scheduler, admission and QoS on a virtual clock.
    """

class PartitionLimits:
    """
    What a partition may use: bytes of memory (0: no wall), shares of the SMs and of the copy bandwidth (1: no limit of its own), streams.
    """

    def __init__(self, memory_quota: int | str = 0, compute_share: float = 1.0, bandwidth_share: float = 1.0, max_streams: int = 16) -> None: ...

    @staticmethod
    def with_memory(quota: int | str) -> PartitionLimits: ...

    @staticmethod
    def with_compute(share: float) -> PartitionLimits: ...

    def memory(self, quota: int | str) -> PartitionLimits:
        """The same with another memory quota."""

    def compute(self, share: float) -> PartitionLimits:
        """The same with another compute share."""

    def bandwidth(self, share: float) -> PartitionLimits:
        """The same with another bandwidth share."""

    @property
    def memory_quota(self) -> int: ...

    @property
    def compute_share(self) -> float: ...

    @property
    def bandwidth_share(self) -> float: ...

    @property
    def max_streams(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __repr__(self) -> str: ...

class PartitionConfig:
    """
    What all partitions have together. With allow_overcommit their limits may add up to overcommit_ratio times that; a ratio of 1 leaves the sum unchecked.
    """

    def __init__(self, total_memory: int | str = 8589934592, allow_overcommit: bool = False, overcommit_ratio: float = 1.0) -> None: ...

    @property
    def total_memory(self) -> int: ...

    @property
    def allow_overcommit(self) -> bool: ...

    @property
    def overcommit_ratio(self) -> float: ...

    def __repr__(self) -> str: ...

class PartitionUsage:
    """What a partition has obtained and used, measured."""

    @property
    def memory_used(self) -> int: ...

    @property
    def memory_peak(self) -> int: ...

    @property
    def memory_limit(self) -> int: ...

    @property
    def active_streams(self) -> int: ...

    @property
    def pending_kernels(self) -> int: ...

    @property
    def pending_transfers(self) -> int: ...

    @property
    def total_kernels(self) -> int: ...

    @property
    def total_transfers(self) -> int: ...

    @property
    def bytes_copied(self) -> int: ...

    @property
    def bytes_per_second(self) -> float:
        """What its copies are paced to; 0: not paced."""

    @property
    def compute_time_ms(self) -> float:
        """On the device."""

    @property
    def sm_asked(self) -> int:
        """SMs that the compute share comes to; 0: no share."""

    @property
    def sm_count(self) -> int:
        """SMs its work runs on; 0: not attached."""

    @property
    def enforced(self) -> bool:
        """The limits are enforced on a device."""

    @property
    def paced(self) -> bool:
        """The share is one of GPU time: this driver has no sets of SMs."""

    @property
    def note(self) -> str:
        """What lies outside the walls."""

    def __repr__(self) -> str: ...

class PartitionStats:
    """What the partitions of a manager take together and what is left."""

    @property
    def partition_count(self) -> int: ...

    @property
    def active_partitions(self) -> int: ...

    @property
    def total_memory_allocated(self) -> int: ...

    @property
    def total_compute_allocated(self) -> float: ...

    @property
    def total_bandwidth_allocated(self) -> float: ...

    @property
    def available_memory(self) -> int: ...

    @property
    def available_compute(self) -> float: ...

    @property
    def available_bandwidth(self) -> float: ...

    def __repr__(self) -> str: ...

class Partition:
    """One partition of a manager."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> PartitionLimits: ...

    @property
    def usage(self) -> PartitionUsage:
        """Measured now."""

    @property
    def tasks(self) -> list[str]: ...

    @property
    def enabled(self) -> bool:
        """False once it was deleted."""

    def memory_utilization(self) -> float:
        """Used part of the memory quota, 0 without one."""

    def __repr__(self) -> str: ...

class PartitionManager:
    """
    Partitions by name. The limits are enforced once attached to a device, at the latest when a session of a partition is entered.
    """

    def __init__(self, config: PartitionConfig | None = None, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    @staticmethod
    def with_memory(total_memory: int | str) -> PartitionManager: ...

    @property
    def config(self) -> PartitionConfig: ...

    @property
    def device(self) -> pygpukit._core.Device | None:
        """Where the limits are enforced, or None."""

    def attach(self, device: pygpukit.typing.DeviceLike | None = None) -> None:
        """Enforces the limits on a device, by default the current one."""

    def create_partition(self, id: str, name: str, limits: PartitionLimits) -> Partition:
        """ValueError when the id exists, RuntimeError when too little is left."""

    def delete_partition(self, id: str) -> Partition:
        """
        Waits for work in flight, then gives everything back. Raises while sessions are entered.
        """

    def resize_partition(self, id: str, limits: PartitionLimits) -> None:
        """
        Other limits: new work moves to them, work in flight finishes under the old ones.
        """

    def get(self, id: str) -> Partition:
        """The partition, or None."""

    def usage(self, id: str) -> PartitionUsage:
        """What a partition has obtained and used, measured."""

    def session(self, id: str) -> SessionScope:
        """
        A scope for `with` and `async with`: everything inside runs in the partition.
        """

    def assign_task(self, task_id: str, partition_id: str) -> None: ...

    def get_task_partition(self, task_id: str) -> str | None:
        """The id of the task's partition, by default that of the default one."""

    def unassign_task(self, task_id: str) -> bool:
        """False when it was not assigned."""

    def set_default(self, id: str) -> None: ...

    def default_partition(self) -> str | None:
        """The id of the default partition, or None."""

    def partition_ids(self) -> list[str]: ...

    def stats(self) -> PartitionStats: ...

    def clear(self) -> None:
        """Deletes all partitions."""

    def visibility(self) -> list[str]:
        """
        What was decided outside the process: CUDA_VISIBLE_DEVICES, MIG and MPS, one `name: value` for each thing that is set.
        """

    def __repr__(self) -> str: ...

def _use_sm_sets(on: bool) -> None:
    """
    False: shares are shares of GPU time, as where the driver has no sets of SMs. Internal.
    """

def _bench_scheduler(pending: int, count: int) -> float:
    """
    Tasks per second from submission to completion on one core with `pending` others waiting.
    """

def _bench_admission(count: int) -> float:
    """Admissions per second on one core, each with its release."""
