"""Tasks made of Python callables: :class:`Scheduler` runs them by dependencies, memory, priority and deadline.

>>> from pygpukit.scheduler import Scheduler
>>> scheduler = Scheduler(total_memory=1 << 30)
>>> task_id = scheduler.submit(lambda: 6 * 7, memory=1 << 20)
>>> scheduler.run()
1
>>> scheduler.result(task_id)
42
"""

from __future__ import annotations

from pygpukit._core._tasks import Scheduler, Task, TaskPolicy, TaskState
from pygpukit._core.runtime.scheduler import Scheduler as RustScheduler
from pygpukit._core.runtime.scheduler import SchedulerStats as RustSchedulerStats
from pygpukit._core.runtime.scheduler import TaskMeta as RustTaskMeta
from pygpukit._core.runtime.scheduler import TaskPolicy as RustTaskPolicy
from pygpukit._core.runtime.scheduler import TaskState as RustTaskState
from pygpukit._core.runtime.scheduler import TaskStats as RustTaskStats

__all__ = [
    "HAS_RUST_BACKEND",
    "RustScheduler",
    "RustSchedulerStats",
    "RustTaskMeta",
    "RustTaskPolicy",
    "RustTaskState",
    "RustTaskStats",
    "Scheduler",
    "Task",
    "TaskPolicy",
    "TaskState",
]

#: The low-level classes of the 0.2 series are there; they are those of :mod:`pygpukit.runtime`.
HAS_RUST_BACKEND = True
