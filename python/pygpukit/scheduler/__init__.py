"""Scheduling: tasks (:mod:`pygpukit.scheduler.core`) and execution contexts (:mod:`pygpukit.scheduler.execution`)."""

from __future__ import annotations

from pygpukit.scheduler import core, execution
from pygpukit.scheduler.core import *  # noqa: F403
from pygpukit.scheduler.execution import *  # noqa: F403

__all__ = [*core.__all__, *execution.__all__]
