from collections.abc import Sequence
import enum

from pygpukit._core.runtime import (
    AsyncExecStats as AsyncExecStats,
    AsyncKernelRequest as AsyncKernelRequest,
    ContextState as ContextState,
    ContextStats as ContextStats,
    ControllerStats as ControllerStats,
    FutureState as FutureState,
    KernelFuture as KernelFuture,
    KernelResult as KernelResult,
    MultiLLMController as MultiLLMController,
    Partition as Partition,
    PartitionConfig as PartitionConfig,
    PartitionLimits as PartitionLimits,
    PartitionManager as PartitionManager,
    PartitionStats as PartitionStats,
    PartitionUsage as PartitionUsage,
    SessionScope as SessionScope
)


class RejectReason(enum.IntEnum):
    """Why a task was refused."""

    InsufficientMemory = 0

    InsufficientBandwidth = 1

    QueueFull = 2

    UnsatisfiableDependencies = 3

    Custom = 4

class RejectReasonDetails:
    """Why a task was refused, with the numbers."""

    @property
    def reason_type(self) -> str:
        """The name of the RejectReason."""

    @property
    def requested_memory(self) -> int: ...

    @property
    def available_memory(self) -> int: ...

    def message(self) -> str:
        """The reason as a sentence."""

    def __repr__(self) -> str: ...

class AdmissionDecision:
    """Admit, Reject or Queue, and what comes with it."""

    @staticmethod
    def Admitted() -> AdmissionDecision:
        """A plain Admit."""

    @staticmethod
    def Queued() -> AdmissionDecision:
        """A plain Queue."""

    def is_admitted(self) -> bool: ...

    def is_rejected(self) -> bool: ...

    def is_queued(self) -> bool: ...

    def reject_reason(self) -> RejectReason | None:
        """The RejectReason, None unless rejected."""

    @property
    def decision_type(self) -> str: ...

    @property
    def reserved_memory(self) -> int:
        """Bytes set aside; 0 unless admitted."""

    @property
    def reserved_bandwidth(self) -> float: ...

    @property
    def queue_position(self) -> int:
        """Tasks that wait, this one included."""

    @property
    def estimated_wait_ms(self) -> float:
        """0 when nothing is known."""

    @property
    def rejection_reason(self) -> RejectReasonDetails | None:
        """RejectReasonDetails, None unless rejected."""

    def __repr__(self) -> str: ...

class AdmissionStats:
    """Decisions so far and what is reserved now."""

    @property
    def admitted_count(self) -> int: ...

    @property
    def rejected_count(self) -> int: ...

    @property
    def queued_count(self) -> int: ...

    @property
    def pending_count(self) -> int:
        """Tasks that wait now."""

    @property
    def reserved_memory(self) -> int: ...

    @property
    def used_memory(self) -> int:
        """The same as reserved_memory."""

    @property
    def reserved_bandwidth(self) -> float: ...

    @property
    def used_bandwidth(self) -> float:
        """The same as reserved_bandwidth."""

    @property
    def available_memory(self) -> int: ...

    @property
    def available_bandwidth(self) -> float: ...

    def __repr__(self) -> str: ...

class AdmissionConfig:
    """What an AdmissionController may hand out."""

    def __init__(self, max_memory: int | str, max_bandwidth: float, max_pending_tasks: int = 1000, enable_best_effort: bool = True) -> None:
        """
        With enable_best_effort what does not fit waits instead of being refused.
        """

    @property
    def max_memory(self) -> int: ...

    @property
    def max_bandwidth(self) -> float: ...

    @property
    def max_pending_tasks(self) -> int: ...

    @property
    def enable_best_effort(self) -> bool: ...

    def __repr__(self) -> str: ...

class AdmissionController:
    """
    Lets tasks reserve memory and bandwidth, or makes them wait, or refuses them. The same requests in the same order give the same decisions.
    """

    def __init__(self, config: AdmissionConfig) -> None: ...

    def try_admit(self, task_id: str, memory: int | str, bandwidth: float) -> AdmissionDecision:
        """
        Decides about one task. It needs the bandwidth given, at least memory / max_memory.
        """

    def release(self, task_id: str) -> None:
        """Gives back what the task reserved."""

    def stats(self) -> AdmissionStats: ...

    def decision_log(self, after: int = 0) -> str:
        """
        The decisions with a number above `after` as lines of JSON; the last 4096 are kept.
        """

    def __repr__(self) -> str: ...

class QosClass(enum.IntEnum):
    """How firmly a task holds what it asks for."""

    Guaranteed = 0

    Burstable = 1

    BestEffort = 2

    def priority(self) -> int: ...

    def can_preempt(self, other: QosClass) -> bool:
        """True for a strictly higher class."""

    def memory_overcommit_ratio(self) -> float:
        """How far the limits of the class may exceed the memory there is."""

    def bandwidth_ratio(self) -> float:
        """The part of the total bandwidth that requests of the class may fill."""

class ResourceRequirements:
    """What a task asks for and the most it may take."""

    def __init__(self, memory_request: int | str, memory_limit: int | str | None = None, bandwidth_request: float = 0.0, bandwidth_limit: float = 1.0) -> None: ...

    @staticmethod
    def guaranteed(memory: int | str) -> ResourceRequirements: ...

    @staticmethod
    def burstable(memory_request: int | str, burst_ratio: float) -> ResourceRequirements: ...

    @staticmethod
    def best_effort() -> ResourceRequirements: ...

    @property
    def memory_request(self) -> int: ...

    @property
    def memory_limit(self) -> int | None: ...

    @property
    def bandwidth_request(self) -> float: ...

    @property
    def bandwidth_limit(self) -> float: ...

    @property
    def qos_class(self) -> QosClass:
        """
        Guaranteed when request and limit are equal, BestEffort when neither is given, else Burstable.
        """

    def __repr__(self) -> str: ...

class QosPolicy:
    """What a class sets aside for a task."""

    def __init__(self, requirements: ResourceRequirements) -> None:
        """The class follows from the requirements."""

    @staticmethod
    def guaranteed(memory: int | str) -> QosPolicy: ...

    @staticmethod
    def burstable(memory_request: int | str, burst_ratio: float) -> QosPolicy: ...

    @staticmethod
    def best_effort() -> QosPolicy: ...

    @property
    def qos_class(self) -> QosClass: ...

    @property
    def requirements(self) -> ResourceRequirements: ...

    def memory_to_reserve(self) -> int:
        """
        The limit of a guaranteed task, the request of a burstable one, else 0.
        """

    def bandwidth_to_reserve(self) -> float: ...

    def __repr__(self) -> str: ...

class QosTaskMeta:
    """A task with its class and what it asks for."""

    def __init__(self, id: str, name: str, requirements: ResourceRequirements, priority: int = 0) -> None:
        """The class follows from the requirements."""

    @staticmethod
    def guaranteed(id: str, name: str, memory: int | str) -> QosTaskMeta: ...

    @staticmethod
    def burstable(id: str, name: str, memory_request: int | str, burst_ratio: float) -> QosTaskMeta: ...

    @staticmethod
    def best_effort(id: str, name: str) -> QosTaskMeta: ...

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def policy(self) -> QosPolicy: ...

    @property
    def priority(self) -> int:
        """Within the class."""

    @property
    def qos_class(self) -> QosClass: ...

    @property
    def memory_request(self) -> int: ...

    @property
    def memory_limit(self) -> int | None: ...

    @property
    def bandwidth_request(self) -> float: ...

    @property
    def burst_ratio(self) -> float:
        """Limit over request; 0 without one of them."""

    def effective_priority(self) -> int:
        """The class dominates."""

    def __repr__(self) -> str: ...

class QosEvaluation:
    """What was decided about a task, and what reserve() will set aside."""

    def is_admitted(self) -> bool: ...

    def is_throttled(self) -> bool: ...

    def is_queued(self) -> bool: ...

    def is_rejected(self) -> bool: ...

    @property
    def decision_type(self) -> str:
        """Admit, Throttle, Queue or Reject."""

    @property
    def qos_class(self) -> QosClass: ...

    @property
    def reserved_memory(self) -> int: ...

    @property
    def reserved_bandwidth(self) -> float: ...

    @property
    def reject_reason(self) -> str | None:
        """None unless rejected."""

    def __repr__(self) -> str: ...

class QosStats:
    """What each class has reserved."""

    @property
    def total_memory(self) -> int: ...

    @property
    def total_bandwidth(self) -> float: ...

    @property
    def guaranteed_memory(self) -> int: ...

    @property
    def guaranteed_bandwidth(self) -> float: ...

    @property
    def burstable_memory(self) -> int: ...

    @property
    def best_effort_queue(self) -> int: ...

    @property
    def available_memory(self) -> int: ...

    @property
    def available_bandwidth(self) -> float: ...

    def __repr__(self) -> str: ...

class QosPolicyEvaluator:
    """Decides by class what may run beside what is already reserved."""

    def __init__(self, total_memory: int | str, total_bandwidth: float = 1.0) -> None: ...

    def evaluate(self, task: QosTaskMeta) -> QosEvaluation:
        """
        Guaranteed: Admit or Reject. Burstable: Admit, Throttle when only limit or bandwidth do not fit, or Reject. BestEffort: Admit while memory is left, else Queue.
        """

    def reserve(self, evaluation: QosEvaluation) -> None:
        """Sets aside what the evaluation says."""

    def release(self, qos_class: QosClass, memory: int | str, bandwidth: float = 0.0) -> None:
        """Gives it back."""

    def stats(self) -> QosStats: ...

    def reset(self) -> None:
        """Gives everything back."""

    def decision_log(self, after: int = 0) -> str:
        """
        The decisions with a number above `after` as lines of JSON; the last 4096 are kept.
        """

    def __repr__(self) -> str: ...

class QosUsage:
    """What one tenant holds, for eviction_order."""

    def __init__(self, qos_class: QosClass, priority: int, request_bytes: int | str, used_bytes: int | str) -> None: ...

    @property
    def qos_class(self) -> QosClass: ...

    @property
    def priority(self) -> int: ...

    @property
    def request_bytes(self) -> int: ...

    @property
    def used_bytes(self) -> int: ...

    def __repr__(self) -> str: ...

def eviction_order(usages: Sequence[QosUsage]) -> list[int]:
    """
    Indices of those above their request, the first to give way first: by class, priority, bytes above the request.
    """

class TaskState(enum.IntEnum):
    """Where a task stands."""

    Pending = 0

    Running = 1

    Completed = 2

    Failed = 3

    Cancelled = 4

class TaskPolicy(enum.IntEnum):
    """How a task finds its place among those that may start."""

    Fifo = 0
    """In the order of submission."""

    Sjf = 1
    """Shorter tasks, by expected_ms, somewhat earlier."""

    Priority = 2
    """Higher priorities earlier; waiting makes up for a lower one."""

class TaskMeta:
    """
    A task: what is submitted, and a copy of what a scheduler knows about it.
    """

    def __init__(self, id: str, name: str, memory_estimate: int | str = 0, priority: int = 0, dependencies: Sequence[str] | None = None, *, policy: TaskPolicy | None = None, expected_ms: float = 0.0, timeout: float | None = None, qos_class: QosClass = QosClass.BestEffort) -> None:
        """
        policy: Priority when a priority is given, else Fifo. timeout: seconds from submission to the deadline. qos_class: who gets memory first when it is short.
        """

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> TaskState: ...

    @property
    def policy(self) -> TaskPolicy: ...

    @property
    def priority(self) -> int: ...

    @property
    def memory_estimate(self) -> int: ...

    @property
    def dependencies(self) -> list[str]: ...

    @property
    def submitted_at(self) -> float:
        """Seconds since 1970; before submission, when it was made."""

    @property
    def started_at(self) -> float | None: ...

    @property
    def completed_at(self) -> float | None:
        """When it ended, whichever way."""

    @property
    def error(self) -> str | None:
        """Why it did not complete, or None."""

    def is_terminal(self) -> bool: ...

    def elapsed(self) -> float:
        """Seconds since it was submitted, up to its end."""

    def duration(self) -> float | None:
        """Seconds it ran; None until it has."""

    def __repr__(self) -> str: ...

class TaskStats:
    """Times and memory of one task."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> TaskState: ...

    @property
    def wait_time(self) -> float:
        """Seconds from submission to start."""

    @property
    def exec_time(self) -> float:
        """Seconds from start to end, or to now."""

    @property
    def memory_used(self) -> int: ...

    def __repr__(self) -> str: ...

class SchedulerStats:
    """Counts, memory and mean times of a scheduler."""

    @property
    def total_submitted(self) -> int: ...

    @property
    def pending_count(self) -> int: ...

    @property
    def queued_count(self) -> int:
        """The pending ones that wait for a dependency or for memory."""

    @property
    def running_count(self) -> int: ...

    @property
    def completed_count(self) -> int: ...

    @property
    def failed_count(self) -> int: ...

    @property
    def cancelled_count(self) -> int: ...

    @property
    def reserved_memory(self) -> int: ...

    @property
    def available_memory(self) -> int | None:
        """None without a total."""

    @property
    def avg_wait_time(self) -> float:
        """Seconds."""

    @property
    def avg_exec_time(self) -> float:
        """Seconds."""

    def __repr__(self) -> str: ...

class Scheduler:
    """
    Says which tasks may run now, by dependencies, memory, priority and deadline; the caller runs them. A task holds its memory from submission (or the end of its last dependency) to its end; what does not fit waits.
    """

    def __init__(self, total_memory: int | str | None = None, sched_tick_ms: float = 10.0, window_ms: float = 100.0, *, aging: int = 1000, max_overtakes: int = 64, history: int = 10000, max_pending_tasks: int = 1000) -> None:
        """
        aging: tasks that one level of priority may overtake. max_overtakes: grants of memory past a task that is first in line. history: ended tasks that can still be asked about. max_pending_tasks: for admit().
        """

    def submit(self, task: TaskMeta) -> str:
        """
        Takes the task and gives its id. Raises MemoryError when it can never fit.
        """

    def admit(self, task: TaskMeta) -> AdmissionDecision:
        """Decides about the task and takes it unless it is rejected."""

    def evaluate_admission(self, task: TaskMeta) -> AdmissionDecision:
        """What admit() would decide."""

    def admission_stats(self) -> AdmissionStats: ...

    def get_runnable_tasks(self, max_tasks: int = 1) -> list[str]:
        """
        Ids of tasks that may start, now Running. A dependency that was never submitted counts as done.
        """

    def should_run(self, id: str) -> bool:
        """True when the task may start now."""

    def start_task(self, id: str) -> bool:
        """False unless it may start now."""

    def complete_task(self, id: str) -> bool:
        """
        False unless it is Running; False as well, and it fails, past its deadline.
        """

    def fail_task(self, id: str, error: str) -> bool:
        """False when it has ended."""

    def cancel_task(self, id: str) -> bool:
        """False when it has ended."""

    def get_task(self, id: str) -> TaskMeta | None:
        """A copy of the task as it stands, None when unknown."""

    def get_task_state(self, id: str) -> TaskState | None: ...

    def stats(self) -> SchedulerStats: ...

    def task_stats(self, id: str) -> TaskStats | None: ...

    def clear(self) -> None:
        """Cancels what has not ended and forgets what has, counts included."""

    def wait(self, id: str | None = None, timeout: float | None = None) -> bool:
        """Waits for one task, or for all, to end. False after `timeout` seconds."""

    def decision_log(self, after: int = 0) -> str:
        """
        The decisions with a number above `after` as lines of JSON; the last 4096 are kept.
        """

    @property
    def total_memory(self) -> int | None: ...

    @property
    def sched_tick_ms(self) -> float: ...

    @property
    def window_ms(self) -> float: ...

    def __repr__(self) -> str: ...
