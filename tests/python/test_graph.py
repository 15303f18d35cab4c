"""CudaGraph: capture, replay, refusals."""

import threading
import time

import numpy as np
import pytest

import pygpukit as gp


def captured(device, n=1000):
    x, y = gp.ones(n), gp.empty(n)
    gp.add(x, 1, out=y)  # loads the kernels
    graph = gp.CudaGraph()
    with graph.capture() as entered:
        assert entered is graph and graph.is_capturing() and not graph.is_ready()
        gp.add(x, 1, out=y)
        gp.multiply(y, 3, out=y)
    return graph, x, y


def test_capture_and_replay(device):
    graph, x, y = captured(device)
    assert graph.is_ready() and not graph.is_capturing() and graph.num_nodes >= 2
    y.fill(0)
    assert y.sum().item() == 0
    graph.replay()
    assert y[0].item() == 6
    x.fill(10)
    graph.replay()
    graph.replay()
    graph.synchronize()
    assert y[-1].item() == 33
    assert isinstance(graph.get_stream_handle(), int) and graph.stream.handle == graph.get_stream_handle()
    graph.reset()
    assert not graph.is_ready() and graph.num_nodes == 0
    with pytest.raises(RuntimeError):
        graph.replay()


def test_capture_itself_does_not_run(device):
    x = gp.zeros(4)
    graph = gp.CudaGraph()
    gp.add(x, 0, out=x)
    graph.begin_capture()
    gp.add(x, 1, out=x)
    graph.end_capture()
    assert x.tolist() == [0] * 4
    for n in range(1, 4):
        graph.replay()
        assert x.tolist() == [n] * 4


def test_verify(device):
    graph, _, y = captured(device)
    before = y.to_numpy()
    assert graph.verify() is True
    np.testing.assert_array_equal(y.to_numpy(), before)


def test_misuse_raises(device):
    graph = gp.CudaGraph()
    for call in (graph.end_capture, graph.replay):
        with pytest.raises(RuntimeError):
            call()
    graph.begin_capture()
    other = gp.CudaGraph()
    try:
        with pytest.raises(RuntimeError):
            other.begin_capture()
    finally:
        graph.end_capture()
    assert repr(gp.CudaGraph()) == "CudaGraph(empty)"


def test_waiting_and_allocating_inside_a_capture_raise(device):
    x = gp.ones(3)
    graph = gp.CudaGraph()
    refused = [
        (lambda: x.to_numpy(), "to_numpy"),
        (lambda: x.item() if x.size == 1 else x[0].item(), "item"),
        (lambda: bool(x[0]), "bool"),
        (lambda: repr(x), "repr"),
        (lambda: gp.synchronize(), "synchronize"),
        (lambda: x + 1, "alloc|empty|out="),
        (lambda: gp.from_numpy(np.ones(3)), "alloc|copy|empty"),
        (lambda: x.__dlpack__(), "dlpack"),
    ]
    with graph.capture():
        for call, text in refused:
            with pytest.raises(RuntimeError, match=text):
                call()
        gp.add(x, 1, out=x)
    assert x.tolist() == [1, 1, 1]
    graph.replay()
    assert x.tolist() == [2, 2, 2]


def test_an_exception_leaves_the_graph_empty(device):
    graph = gp.CudaGraph()
    outside = gp.current_stream()
    with pytest.raises(ZeroDivisionError), graph.capture():
        raise ZeroDivisionError
    assert not graph.is_ready() and not graph.is_capturing() and gp.current_stream() == outside
    assert (gp.ones(2) + 1).tolist() == [2, 2]
    with graph.capture():
        pass
    assert graph.is_ready()


def test_a_graph_dropped_while_it_captures_ends_the_capture(device):
    x = gp.zeros(4)
    gp.add(x, 1, out=x)
    for _ in range(3):
        graph = gp.CudaGraph()
        graph.begin_capture()
        gp.add(x, 1, out=x)
        del graph
        stream = gp.current_stream()
        assert x.sum().item() == 4, "nothing was run, and waiting is allowed again"
        assert gp.ones(3).sum().item() == 3
    again = gp.CudaGraph()
    with again.capture():
        gp.add(x, 1, out=x)
    again.replay()
    assert x.sum().item() == 8
    assert gp.current_stream() == stream


def test_a_graph_dropped_under_another_scope_ends_the_capture(device):
    x = gp.zeros(4)
    outside = gp.current_stream()
    graph = gp.CudaGraph()
    graph.begin_capture()
    with gp.device(device):
        del graph
        assert x.sum().item() == 0
    assert gp.current_stream() == outside


def test_a_graph_dropped_by_another_thread_ends_the_capture(device):
    held = [gp.CudaGraph()]
    x = gp.zeros(4)
    held[0].begin_capture()
    gp.add(x, 1, out=x)
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert gp.ones(3).sum().item() == 3 and x.sum().item() == 0
    with gp.CudaGraph().capture():
        gp.add(x, 1, out=x)


def test_a_thread_that_ends_while_it_captures_ends_the_capture(device):
    graph, x = gp.CudaGraph(), gp.zeros(4)

    def begin():
        graph.begin_capture()
        gp.add(x, 1, out=x)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    # join() may return before the thread's last C++ destructors.
    deadline = time.monotonic() + 10
    while graph.is_capturing() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not graph.is_capturing() and not graph.is_ready()
    with graph.capture():
        gp.add(x, 1, out=x)
    graph.replay()
    assert x.sum().item() == 4


def test_a_graph_keeps_its_buffers(device):
    x, y = gp.ones(1 << 16), gp.empty(1 << 16)
    gp.add(x, 1, out=y)
    graph = gp.CudaGraph()
    with graph.capture():
        gp.add(x, 1, out=y)
    view = y[:4]
    del x, y
    junk = [gp.full((1 << 16,), 99.0) for _ in range(4)]
    graph.replay()
    assert view.tolist() == [2] * 4 and junk[0][0].item() == 99


def test_allocation_inside_a_capture_names_the_call(device):
    x = gp.ones(4)
    graph = gp.CudaGraph()
    graph.begin_capture()
    with pytest.raises(RuntimeError, match=r"multiply: allocates its result \(pass out=\) and cannot run inside"):
        gp.multiply(x, 2)
    graph.end_capture()


def test_capture_is_of_this_thread(device):
    x = gp.zeros(4)
    graph = gp.CudaGraph()
    gp.add(x, 0, out=x)
    results = []
    with graph.capture():
        thread = threading.Thread(target=lambda: results.append((gp.ones(4, device=device) + 1).tolist()))
        thread.start()
        thread.join()
        gp.add(x, 1, out=x)
    assert results == [[2] * 4]
    graph.replay()
    assert x.tolist() == [1] * 4


def test_replay_is_ordered_with_the_current_stream(device):
    x, y = gp.zeros(1 << 18), gp.zeros(1 << 18)
    gp.add(x, 0, out=y)
    graph = gp.CudaGraph()
    with graph.capture():
        gp.add(x, 1, out=y)
    stream = gp.Stream()
    stream.wait(gp.current_stream())
    with stream:
        for i in range(10):
            x.fill(i)
            graph.replay()
            z = y + 0
            assert z[-1].item() == i + 1


def test_foreign_memory_may_be_dropped_inside_a_capture():
    x, out = gp.ones(8, device="cpu"), gp.zeros(8, device="cpu")
    source = np.arange(8, dtype=np.float32)
    foreign = gp.from_dlpack(source)
    assert (foreign + x).sum().item() == 36
    graph = gp.CudaGraph(device="cpu")
    with graph.capture():
        gp.add(x, x, out=out)
        del foreign
        gp.add(out, x, out=out)
    graph.replay()
    assert out.tolist() == [3.0] * 8
