"""Several models on one device: contexts with their own stream, memory wall and share.

>>> from pygpukit.scheduler import create_context, context_session, MB
>>> chat = create_context("chat", max_vram=256 * MB)
>>> with context_session(chat):
...     pass  # everything here uses the stream and the memory wall of "chat"
>>> chat.destroy()
True
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pygpukit._core.runtime import AsyncKernelRequest as AsyncKernelRequest
from pygpukit._core.runtime import KernelResult as KernelResult
from pygpukit._core.runtime import MultiLLMController as _MultiLLMController

if TYPE_CHECKING:
    from pygpukit._core.runtime import KernelFuture as _KernelFuture

__all__ = [
    "GB",
    "HAS_MULTI_LLM",
    "KB",
    "MB",
    "AsyncKernelRequest",
    "ContextStats",
    "ExecutionContext",
    "KernelFuture",
    "KernelResult",
    "SchedulerStats",
    "context_session",
    "create_context",
    "destroy_context",
    "get_available_vram",
    "get_context",
    "get_context_usage",
    "initialize",
    "is_session_active",
    "list_contexts",
    "reset",
    "session",
    "stats",
]

KB = 1024
MB = 1024 * KB
GB = 1024 * MB
HAS_MULTI_LLM = True

_controller = _MultiLLMController()


@dataclass
class ContextStats:
    """One context: its state is "IDLE", "RUNNING" or "PAUSED"."""

    llm_id: str
    state: str
    stream_id: int
    max_vram: int
    used_vram: int
    available_vram: int
    buffer_count: int


@dataclass
class SchedulerStats:
    """All contexts together."""

    initialized: bool
    device_id: int
    total_vram_budget: int
    device_total_memory: int
    used_vram: int
    available_vram: int
    context_count: int
    stream_pool_size: int


class KernelFuture:
    """The end of a dispatched kernel: wait for it, or ``await`` it, to get its :class:`KernelResult`."""

    def __init__(self, future: _KernelFuture) -> None:
        self._future = future

    @property
    def id(self) -> int:
        return self._future.id

    @property
    def stream_id(self) -> int:
        return self._future.stream_id

    @property
    def context_id(self) -> str:
        return self._future.context_id

    @property
    def state(self) -> str:
        """PENDING, RUNNING, COMPLETED, FAILED or CANCELLED."""
        return self._future.state.name.upper()

    def is_ready(self) -> bool:
        return self._future.is_ready()

    def wait(self, timeout: float | None = None) -> KernelResult:
        """Sleeps until it is over. Raises ``DeadlineError`` after ``timeout`` seconds."""
        return self._future.wait(timeout)

    def try_get(self) -> KernelResult | None:
        return self._future.try_get()

    def exec_time(self) -> float:
        """Seconds on the device."""
        return self._future.exec_time()

    def cancel(self) -> bool:
        """True when it was not launched yet and never will be."""
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, KernelResult]:
        return self._future.__await__()

    def __repr__(self) -> str:
        return repr(self._future)


class ExecutionContext:
    """A context of this process. ``create_context`` makes one; a second object of the same id is the same context."""

    def __init__(self, llm_id: str, stream_id: int, max_vram: int) -> None:
        self.llm_id = llm_id
        self.stream_id = stream_id
        self.max_vram = max_vram

    @property
    def stats(self) -> ContextStats:
        found = _controller.get_context(self.llm_id)
        if found is None:
            raise ValueError(f"ExecutionContext: {self.llm_id!r} was destroyed")
        return ContextStats(
            found.llm_id,
            found.state.name.upper(),
            found.stream_id,
            found.max_vram,
            found.used_vram,
            found.available_vram,
            found.buffer_count,
        )

    def track_allocation(self, buffer_id: int, size: int | str) -> bool:
        """Counts memory that was allocated elsewhere. False when it does not fit under the wall."""
        return _controller.track_allocation(self.llm_id, buffer_id, size)

    def track_deallocation(self, buffer_id: int) -> None:
        _controller.track_deallocation(self.llm_id, buffer_id)

    def dispatch_async(self, request: AsyncKernelRequest) -> KernelFuture:
        """Launches a kernel, or calls a callable that does, inside the context's session.

        On the CPU, in a thread with a running event loop, the callable runs in a thread of the context, in the order of the
        calls; whoever enters the context's session waits for it.
        """
        return KernelFuture(_controller.dispatch_async(self.llm_id, request))

    def start_session(self) -> None:
        """Enters the session here until ``end_session``. ``with context_session(ctx)`` does both."""
        _controller.start_context_session(self.llm_id)

    def end_session(self) -> None:
        _controller.end_context_session(self.llm_id)

    def is_session_active(self) -> bool:
        return _controller.is_context_session_active(self.llm_id)

    def destroy(self) -> bool:
        return destroy_context(self.llm_id)

    def __repr__(self) -> str:
        return f"ExecutionContext(llm_id={self.llm_id!r}, stream_id={self.stream_id}, max_vram={self.max_vram})"


def initialize(device_id: int = 0, device_total_memory: int | str = 0, total_vram_budget: int | str = 0) -> None:
    """Sets the device and the memory that all contexts share. 0: the GPU's memory, on the CPU 8 GiB; all of it."""
    _controller.initialize(device_id, device_total_memory, total_vram_budget)


def create_context(
    llm_id: str,
    max_vram: int | str = 0,
    *,
    device_id: int = 0,
    base_vram: int | str = 0,
    qos: Any = None,
    compute: float = 1.0,
    bandwidth: float = 1.0,
) -> ExecutionContext:
    """A new context. ``max_vram`` is its memory wall (0: the budget), ``base_vram`` what is kept for it, each a number of
    bytes or a text such as "16MB", ``compute`` its
    share of the SMs, ``bandwidth`` its share of the copies. ``qos`` follows from the two sizes when not given.
    The first one initialises with ``device_id``; later ones are there too, and another number raises.
    """
    stream_id = _controller.create_context(
        llm_id, max_vram, base_vram, qos, compute, bandwidth, device_id=device_id, initialize=True
    )
    made = _controller.get_context(llm_id)
    return ExecutionContext(llm_id, stream_id, 0 if made is None else made.max_vram)


def get_context(llm_id: str) -> ExecutionContext | None:
    """The context of this id, or None."""
    found = _controller.get_context(llm_id)
    return None if found is None else ExecutionContext(found.llm_id, found.stream_id, found.max_vram)


def destroy_context(llm_id: str) -> bool:
    """Waits for the context's work and gives everything back. False when unknown; raises inside its session."""
    return _controller.destroy_context(llm_id)


def list_contexts() -> list[str]:
    """The ids of all contexts, in the order of their making."""
    return _controller.list_contexts()


@contextmanager
def session() -> Generator[None, None, None]:
    """Marks the scheduler as active inside."""
    _controller.start_session()
    try:
        yield
    finally:
        _controller.end_session()


class context_session:
    """``with context_session(ctx):`` or ``async with context_session(ctx):``

    Everything inside, after an ``await`` and in ``asyncio.to_thread`` too, uses the context's stream, SMs and memory
    wall. Results are ready for the code around it in stream order.
    """

    def __init__(self, ctx: ExecutionContext) -> None:
        self._scope = _controller.context_session(ctx.llm_id, ctx)

    def __enter__(self) -> ExecutionContext:
        entered: ExecutionContext = self._scope.__enter__()
        return entered

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, value, trace)

    async def __aenter__(self) -> ExecutionContext:
        entered: ExecutionContext = self._scope.__enter__()
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, value, trace)

    def __repr__(self) -> str:
        return f"context_session({self._scope!r})"


def is_session_active() -> bool:
    """Inside ``session()``."""
    return _controller.is_session_active()


def stats() -> SchedulerStats:
    """All contexts together."""
    s = _controller.stats()
    return SchedulerStats(
        s.initialized,
        s.device_id,
        s.total_vram_budget,
        s.device_total_memory,
        s.used_vram,
        s.available_vram,
        s.context_count,
        s.stream_pool_size,
    )


def get_available_vram() -> int:
    """Bytes of the budget that are not in use."""
    return _controller.available_vram()


def get_context_usage(llm_id: str) -> dict[str, Any]:
    """What a context has and uses, measured."""
    return _controller.context_usage(llm_id)


def reset() -> None:
    """Destroys every context and starts anew."""
    _controller.reset()
