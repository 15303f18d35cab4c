"""The classes of pygpukit.scheduler.core; internal."""

from collections.abc import Callable, Sequence
import enum
from typing import Any


class TaskState(enum.Enum):
    """Where a task stands."""

    PENDING = 0
    """May start now."""

    QUEUED = 1
    """Waits for a dependency or for memory."""

    RUNNING = 2

    COMPLETED = 3

    FAILED = 4
    """Raised, was cancelled, missed its deadline, or lost a dependency."""

class TaskPolicy(enum.Enum):
    """Who gets memory first when it is short."""

    GUARANTEED = 0

    BURSTABLE = 1

    BEST_EFFORT = 2

class Task:
    """
    A callable with what it needs and what became of it. The object that Scheduler.get_task gives is live: it shows the task as it stands, and setting `state` moves the task.
    """

    def __init__(self, fn: Callable[[], Any], memory: int | str | None = None, bandwidth: float | None = None, policy: TaskPolicy | str = TaskPolicy.BEST_EFFORT, state: TaskState = TaskState.PENDING, id: str | None = None, last_launch: float = 0.0, execution_count: int = 0, pacing_delay_count: int = 0) -> None: ...

    @property
    def fn(self) -> Callable[[], Any]: ...

    @property
    def id(self) -> str: ...

    @property
    def memory(self) -> int | None: ...

    @property
    def bandwidth(self) -> float | None: ...

    @property
    def policy(self) -> TaskPolicy: ...

    @property
    def state(self) -> TaskState:
        """Raises Error for a move that the state does not allow."""

    @state.setter
    def state(self, arg: TaskState, /) -> None: ...

    @property
    def last_launch(self) -> float:
        """Seconds since 1970."""

    @last_launch.setter
    def last_launch(self, arg: float, /) -> None: ...

    @property
    def execution_count(self) -> int: ...

    @execution_count.setter
    def execution_count(self, arg: int, /) -> None: ...

    @property
    def pacing_delay_count(self) -> int: ...

    @pacing_delay_count.setter
    def pacing_delay_count(self, arg: int, /) -> None: ...

    @property
    def result(self) -> Any:
        """
        What the callable returned; None before. Scheduler.result() also raises what it raised.
        """

    @property
    def exception(self) -> BaseException | None:
        """What the callable raised, or None."""

    @property
    def stop_requested(self) -> bool:
        """
        True when the task was cancelled or is past its deadline: its result will be discarded.
        """

    def touch(self) -> None:
        """Sets last_launch to now."""

    def __repr__(self) -> str: ...

class Scheduler:
    """
    Runs callables by dependencies, memory, priority and deadline: in this thread with step() and run(), or in worker threads. Thread-safe.
    """

    def __init__(self, sched_tick_ms: float = 1.0, window_ms: float = 10.0, total_memory: int | str | None = None, *, history: int = 10000) -> None:
        """
        sched_tick_ms: how finely deadlines are watched. window_ms: of should_run(). total_memory: tasks whose memory does not fit beside the others wait. history: ended tasks that can still be asked about.
        """

    def submit(self, fn: Callable[[], Any], memory: int | str | None = None, bandwidth: float | None = None, policy: TaskPolicy | str = 'best_effort', *, priority: int = 0, dependencies: Sequence[str] | None = None, timeout: float | None = None) -> str:
        """
        Takes a callable and gives the id of its task. It runs in a copy of the context of this call. The memory is reserved until the task ends. timeout: seconds until its deadline.
        """

    def get_task(self, task_id: str) -> Task | None:
        """The live Task, None when unknown."""

    def step(self, max_tasks: int = 10) -> int:
        """
        Runs what may start now, at most max_tasks. What a callable raises fails its task.
        """

    def run(self) -> int:
        """
        Runs until no task can start and none runs in a worker. Gives how many ran in this thread.
        """

    def wait(self, task_id: str | None = None, timeout: float | None = None) -> bool:
        """Waits for one task, or for all, to end. False after `timeout` seconds."""

    def result(self, task_id: str, timeout: float | None = None) -> Any:
        """
        Waits for a task and gives what its callable returned, or raises what it raised.
        """

    def cancel(self, task_id: str) -> bool:
        """
        A waiting task ends at once; a running one is asked to stop and its result discarded. False when it has ended.
        """

    def should_run(self, task: Task, now: float) -> bool:
        """
        Whether a running task that may use the part `bandwidth` of each window may launch at the time `now`.
        """

    def start_workers(self, count: int = 1) -> None:
        """Starts threads that run tasks. All of them or none."""

    def stop_workers(self, timeout: float | None = None) -> bool:
        """
        Ends the threads after the task each of them runs. False when some did not end in `timeout` seconds.
        """

    @property
    def worker_count(self) -> int: ...

    def stats(self, task_id: str) -> dict[str, Any]:
        """Facts about one task; empty when unknown."""

    def global_stats(self) -> dict[str, Any]: ...

    def clear(self) -> None:
        """Cancels what has not ended and forgets what has, counts included."""

    def decision_log(self, after: int = 0) -> str:
        """
        The decisions with a number above `after` as lines of JSON; the last 4096 are kept.
        """

    @property
    def task_count(self) -> int: ...

    @property
    def completed_count(self) -> int: ...

    @property
    def reserved_memory(self) -> int: ...

    @property
    def available_memory(self) -> int | None:
        """None without a total."""

    @property
    def total_memory(self) -> int | None: ...

    def __repr__(self) -> str: ...
