"""Streams and the manager that owns a set of them."""

from __future__ import annotations

from pygpukit._core import (
    CudaEvent,
    CudaGraph,
    Stream,
    StreamPriority,
    current_stream,
    event_elapsed_ms,
    event_elapsed_us,
)
from pygpukit.errors import ArgumentError

__all__ = [
    "CudaEvent",
    "CudaGraph",
    "Stream",
    "StreamManager",
    "StreamPriority",
    "current_stream",
    "default_stream",
    "event_elapsed_ms",
    "event_elapsed_us",
    "get_stream_manager",
]


class StreamManager:
    """Creates streams and keeps them until they are destroyed."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._default_stream: Stream | None = None

    def create_stream(self, priority: str | StreamPriority = "low") -> Stream:
        """A new stream; ``priority`` is "low", "high" or a :class:`StreamPriority`."""
        level = _priority(priority)
        stream = Stream(priority=level)
        self._streams.append(stream)
        return stream

    def destroy_stream(self, stream: Stream) -> None:
        """Forgets a stream of this manager; its work still finishes."""
        if stream in self._streams:
            self._streams.remove(stream)
            stream.close()

    def get_default_stream(self) -> Stream:
        """The manager's own low-priority stream, the same object every time."""
        if self._default_stream is None:
            self._default_stream = self.create_stream(StreamPriority.LOW)
        return self._default_stream

    def synchronize_all(self) -> None:
        """Waits for every stream of this manager."""
        for stream in self._streams:
            stream.synchronize()


def _priority(value: str | StreamPriority) -> StreamPriority:
    if isinstance(value, str):
        try:
            return {"high": StreamPriority.HIGH, "low": StreamPriority.LOW}[value.lower()]
        except KeyError:
            raise ArgumentError(
                f"create_stream: priority must be 'high', 'low' or a StreamPriority, got {value!r}"
            ) from None
    return StreamPriority(value)


_manager: StreamManager | None = None


def get_stream_manager() -> StreamManager:
    """The process-wide manager."""
    global _manager
    if _manager is None:
        _manager = StreamManager()
    return _manager


def default_stream() -> Stream:
    """The default stream of the process-wide manager."""
    return get_stream_manager().get_default_stream()
