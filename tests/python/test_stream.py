"""Streams and events."""

import signal
import time

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core.stream import Stream, StreamManager, StreamPriority, default_stream, get_stream_manager


def test_priorities(device):
    assert StreamPriority.HIGH == 0 and StreamPriority.LOW == 1
    high, low = Stream(priority=StreamPriority.HIGH), Stream()
    assert high.priority is StreamPriority.HIGH and low.priority is StreamPriority.LOW
    assert "HIGH" in repr(high) and "LOW" in repr(low)
    assert high.device == device and isinstance(high.handle, int) and high.handle != low.handle
    assert Stream(high.handle) == high and hash(Stream(high.handle)) == hash(high) and high != low
    with pytest.raises(ValueError, match="priority"):
        Stream(priority=5)
    with pytest.raises(ValueError, match="handle"):
        Stream(12345)


def test_manager(device):
    manager = StreamManager()
    a = manager.create_stream("high")
    b = manager.create_stream(StreamPriority.LOW)
    assert a.priority is StreamPriority.HIGH and manager._streams == [a, b]
    default = manager.get_default_stream()
    assert manager.get_default_stream() is default and default.priority is StreamPriority.LOW
    assert len(manager._streams) == 3
    manager.synchronize_all()
    manager.destroy_stream(a)
    assert a not in manager._streams and "destroyed" in repr(a)
    with pytest.raises(RuntimeError, match="destroyed"):
        a.synchronize()
    with pytest.raises(ValueError, match="priority"):
        manager.create_stream("urgent")


def test_default_stream_is_one_object(device):
    assert default_stream() is default_stream() is get_stream_manager().get_default_stream()
    assert gp.default_stream() is default_stream()


def test_with_stream_makes_it_current(device):
    outside = gp.current_stream()
    stream = Stream()
    with stream as entered:
        assert entered is stream and gp.current_stream() == stream
        inner = Stream()
        with inner, stream:
            assert gp.current_stream() == stream
        x = gp.arange(1000) * 2
    assert gp.current_stream() == outside
    stream.synchronize()
    assert stream.query() and x[999].item() == 1998


def test_wait_orders_streams(device, rng):
    host = rng.standard_normal(1 << 16).astype(np.float32)
    a, b = Stream(), Stream()
    gp.synchronize()
    with a:
        x = gp.from_numpy(host)
        for _ in range(20):
            x = x + 1
    b.wait(a)
    with b:
        y = x * 2
        event = gp.CudaEvent()
        event.record()
    a.wait(event)
    with a:
        z = y + x
    a.synchronize()
    want = host
    for _ in range(20):
        want = want + np.float32(1)
    with a:
        np.testing.assert_array_equal(z.to_numpy(), want * 2 + want)
    with pytest.raises(TypeError, match="Stream.wait"):
        a.wait(3)


def test_events_measure_time(device):
    start, stop = gp.CudaEvent(), gp.CudaEvent(blocking_sync=True)
    assert start.query() is True
    start.synchronize()
    with pytest.raises(RuntimeError, match="recorded"):
        gp.event_elapsed_ms(start, stop)
    stream = Stream()
    start.record(stream)
    with stream:
        x = gp.zeros(1 << 20)
        for _ in range(10):
            x = x + 1
    stop.record(stream)
    stop.synchronize()
    assert stop.query()
    ms = gp.event_elapsed_ms(start, stop)
    assert 0 < ms < 10_000
    assert gp.event_elapsed_us(start, stop) == pytest.approx(ms * 1000)


def test_memory_freed_on_one_stream_is_safe_on_another(device):
    a, b = Stream(), Stream()
    for _ in range(20):
        with a:
            x = gp.ones(1 << 18)
            y = x + 1
        del x
        with b:
            z = gp.zeros(1 << 18)
        with a:
            assert y.sum().item() == 2 * (1 << 18)
        with b:
            assert z.sum().item() == 0


SPIN = """
extern "C" __global__ void spin(float* x, long long ns) {
  long long now, start;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < ns);
  x[0] += 1;
}
"""


@pytest.mark.gpu
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers")
@pytest.mark.parametrize("wait", ["device", "stream", "event", "copy", "item"])
def test_signals_end_waits(wait):
    def interrupt(*_):
        raise KeyboardInterrupt

    x = gp.zeros((4,), device="cuda")
    gp.synchronize("cuda")
    spin = gp.jit(SPIN, func="spin")
    stream, event = gp.Stream(device="cuda"), gp.CudaEvent()
    waits = {
        "device": gp.synchronize,
        "stream": stream.synchronize,
        "event": event.synchronize,
        "copy": x.to_numpy,
        "item": lambda: x[0].item(),
    }
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with gp.device("cuda"), stream:
            spin(x, 1, grid=1, block=1)
            gp.synchronize()
            spin(x, 1_000_000_000, grid=1, block=1)
            event.record(stream)
            start = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                waits[wait]()
            assert time.perf_counter() - start < 0.8
            gp.synchronize()
            assert x.to_numpy()[0] == 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
