"""Arguments made to break the library: each is refused by an exception, in a process that lives on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import pygpukit as gp

TIMEOUT_S = 120
PRELUDE = """
import threading, numpy as np, pygpukit as g

class Index:
    "An integer that runs code when it is read."
    def __init__(self, value, action=lambda: None):
        self.value, self.action = value, action
    def __index__(self):
        self.action()
        return self.value

def emptied(count, value=1):
    "A list that loses its items as soon as one is read."
    items = []
    def drop():
        items.clear()
        bytearray(1 << 16)
    items.extend(Index(value, drop) for _ in range(count))
    return items

def refused(kinds, call, *arguments, **named):
    try:
        result = call(*arguments, **named)
    except kinds as error:
        assert str(error), "an error without a text"
        return error
    raise SystemExit(f"{call} took {arguments} {named} and gave {type(result)} {getattr(result, 'shape', None)}")
"""


def lives_through(code: str, more: str = "") -> str:
    """What a process on the CPU that runs the code prints."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(code) + more],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYGPUKIT_DEVICE": "cpu"},
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


# Sizes


WRAPPING = [
    "x.reshape(2**62 + 1, 4)",
    "x.reshape((2**62 + 1, 4))",
    "x.reshape(2**32, 2**32, -1)",
    "x.view((2**62 + 1, 4))",
    "g.reshape(x, (2**62 + 1, 4))",
    "g.reshape(x, (2**32, 2**32, 4))",
    "g.reshape_copy(x, (2**62 + 1, 4))",
    "g.repeat(x, 2**62 + 1)",
    "g.repeat(x, 2**62, axis=0)",
    "g.repeat(x, [2**62, 2**62, 2**62, 2**62 + 4])",
    "g.tile(x, 2**62 + 1)",
    "g.tile(x, (2**62, 4))",
    "g.tile(x, (2**32, 2**32, 1))",
    "g.broadcast_to(g.ones(1), (2**62, 4))",
    "g.broadcast_to(g.ones(1), (2**62 + 1, 4)).nbytes",
    "g.broadcast_to(g.ones((1, 0)), (2**63 - 1, 0)).reshape(0).shape[1]",
    "g.expand(g.ones(1), (2**62, 2**62))",
    "g.ones(1).expand(2**62, 2**62)",
    "g.zeros((2**62, 4))",
    "g.zeros((2**32, 2**32))",
    "g.empty((2**61 + 1, 8))",
    "g.ones(2**61, dtype='float64')",
    "g.full((2**40, 2**40), 3)",
    "g.eye(2**40)",
    "g.pad(x, 2**62)",
    "g.pad(x, (2**63 - 1, 2**63 - 1))",
    "g.stack([g.broadcast_to(g.ones(1), (2**58,))] * 64)",
    "g.concat([g.broadcast_to(g.ones(1, dtype='uint8'), (2**61,))] * 4)",
    "g.random.uniform((2**62 + 1, 4))",
    "g.GPUArray((2**62 + 1, 4))",
    "g.GPUArray((2**62 + 1, 4), device_ptr=4096, owns_memory=False)",
    "g.asarray(np.broadcast_to(np.float32(1), (2**40, 2**10)))",
    "g.arange(2**62)",
    "g.linspace(0, 1, 2**62)",
    "g.unstack(g.broadcast_to(g.ones(1), (2**40,)))",
    "g.split(g.ones(0), 2**40)",
    "g.unstack(g.zeros((2**40, 0)))",
    "g.zeros((2**40, 0)).tolist()",
]


def test_sizes_that_wrap_are_refused():
    calls = "\n".join(f"attempt({call!r}, lambda: {call})" for call in WRAPPING)
    out = lives_through(
        """
        x = g.ones(4)
        def attempt(name, call):
            print(name, flush=True)
            refused((ValueError, MemoryError, OverflowError, IndexError), call)
            assert x.to_numpy().tolist() == [1.0] * 4
        """,
        calls,
    )
    assert out.splitlines() == WRAPPING


def test_a_wrapped_shape_reaches_no_other_array():
    lives_through(
        """
        x, other = g.ones(4), g.zeros(4)
        refused(ValueError, x.reshape, 2**62 + 1, 4)
        refused(ValueError, x.view, (2**62 + 1, 4))
        refused(ValueError, g.broadcast_to, x, (2**62, 4))
        assert other.to_numpy().tolist() == [0.0] * 4
        """
    )


def test_enormous_steps_and_bounds_of_slices():
    x = gp.arange(10)
    for key in [slice(None, None, 2**62), slice(3, None, 2**63 - 1), slice(None, None, -(2**63)), slice(-(2**70), 2**70)]:
        np.testing.assert_array_equal(x[key].to_numpy(), np.arange(10)[key])
        np.testing.assert_array_equal((x[key] + 1).to_numpy(), np.arange(10)[key] + 1)


def test_products_over_enormous_broadcast_views():
    lives_through(
        """
        import signal
        for dtype in ["uint8", "float32", "int8"]:
            long = 2**59 if dtype == "float32" else 2**61
            a = g.broadcast_to(g.ones(1, dtype=dtype), (1, long))
            b = g.broadcast_to(g.ones(1, dtype=dtype), (long, 1))
            def stop(*_):
                raise TimeoutError("stopped")
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            refused((TimeoutError, ValueError), g.matmul, a, b)
            signal.setitimer(signal.ITIMER_REAL, 0)
        refused(ValueError, g.broadcast_to, g.ones(1), (1, 2**61))
        """
    )


# Shapes


def test_zero_dimensional_arrays_are_sizes():
    lives_through(
        """
        x = g.arange(4)
        for n in [np.array(4), g.asarray(4), np.int64(4), Index(4)]:
            assert g.zeros(n).shape == (4,)
            assert x.reshape(n).shape == (4,)
            assert g.reshape(x, n).shape == (4,)
            assert g.tile(x, n).shape == (16,)
            assert g.repeat(x, n).shape == (16,)
            assert len(g.split(x, n)) == 4
            assert g.pad(x, n).shape == (12,)
            assert g.roll(x, n).tolist() == x.tolist()
        assert g.sum(x, axis=np.array(0)).item() == 6
        assert g.zeros(np.array([2, 3])).shape == (2, 3)
        assert g.zeros(range(2, 4)).shape == (2, 3)
        for bad in [np.array(1.5), np.array([1.5, 2]), np.array("4"), "44", b"44", None, 1.5, {}, {4}, object(), [[2]], [None]]:
            refused(TypeError, g.zeros, bad)
            refused(TypeError, x.reshape, bad)
            refused((TypeError, ValueError), g.tile, x, bad)
        """
    )


def test_an_index_that_changes_its_own_list():
    lives_through(
        """
        x = g.ones((2, 2, 2))
        for call in [
            lambda items: g.zeros(items),
            lambda items: g.full(items, 1),
            lambda items: x.reshape(items),
            lambda items: x.sum(axis=items),
            lambda items: g.sum(x, axis=items),
            lambda items: g.tile(x, items),
            lambda items: g.repeat(x, items),
            lambda items: g.roll(x, items, axis=(0, 1)),
            lambda items: g.roll(x, (1, 1, 1), axis=items),
            lambda items: g.split(x, items),
            lambda items: g.pad(x, items),
            lambda items: g.permute(x, items),
            lambda items: g.moveaxis(x, items, items),
            lambda items: g.broadcast_to(x, items),
            lambda items: g.flip(x, items),
            lambda items: x[tuple(items)],
            lambda items: g.random.uniform(items),
            lambda items: g.GPUArray(items),
        ]:
            for count in (1, 2, 3, 8, 9, 1000):
                try:
                    call(emptied(count))
                except (ValueError, IndexError, TypeError):
                    pass
        """
    )


def test_launch_grids_are_read_once():
    lives_through(
        """
        from pygpukit.runtime import dispatch
        for count in (1, 2, 3):
            made = dispatch.LaunchConfig(grid=emptied(count, 2), block=emptied(count, 3))
            assert tuple(made.grid) == (2,) * count + (1,) * (3 - count), made.grid
            assert tuple(made.block) == (3,) * count + (1,) * (3 - count), made.block
        refused(ValueError, dispatch.LaunchConfig, grid=emptied(4), block=1)
        refused(ValueError, dispatch.LaunchConfig, grid=(), block=1)
        kernel = g.jit('extern "C" __global__ void f(float* x) {}', func="f")
        for count in (1, 3, 4):
            refused(Exception, kernel, g.ones(4), grid_size=emptied(count), block_size=emptied(count))
            refused(Exception, kernel.launch, (g.ones(4),), grid=emptied(count), block=emptied(count))
        """
    )


def test_sequences_that_lie_about_their_length():
    lives_through(
        """
        class Endless:
            def __len__(self):
                return 2
            def __getitem__(self, i):
                return 1
        class Long(list):
            def __len__(self):
                return 2**40
        refused((ValueError, TypeError), g.zeros, Endless())
        refused((ValueError, TypeError), g.ones(4).reshape, Endless())
        refused((ValueError, TypeError), g.sum, g.ones(4), axis=Endless())
        assert g.zeros(Long([2, 3])).shape == (2, 3)
        """
    )


# Exchange


def test_short_and_wild_device_pairs():
    lives_through(
        """
        import types
        x = g.ones(4)
        bad = [(), (1,), (1, 0, 0), (2**32 + 1, 0), (1, 2**32), (1, 2**16), (1, -1), (2**70, 0), (1, 2**70), 3, None, "ab", (None, None)]
        kinds = (ValueError, TypeError, BufferError, OverflowError, RuntimeError)
        for pair in bad:
            if pair is not None:
                refused(kinds, x.__dlpack__, dl_device=pair)
                refused(kinds, x.__dlpack__, max_version=pair) if pair in [(), (1,), (1, 0, 0), 3] else None
            liar = types.SimpleNamespace(__dlpack__=lambda **_: x.__dlpack__(), __dlpack_device__=lambda: pair)
            refused(kinds, g.from_dlpack, liar)
        """
    )


def test_wild_cuda_array_interfaces():
    lives_through(
        """
        class Foreign:
            def __init__(self, **changes):
                self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3, **changes}
        kinds = (ValueError, TypeError, BufferError, OverflowError, RuntimeError, IndexError, KeyError)
        for changes in [
            {"data": None}, {"data": ()}, {"data": (4096,)}, {"data": (None, False)}, {"data": (2**70, False)},
            {"data": (-1, False)}, {"data": (4096, np.ones(2))}, {"data": 4096}, {"shape": None}, {"shape": (2**62, 4)},
            {"shape": (-1,)}, {"shape": (4,), "strides": (4, 4)}, {"shape": (4, 4), "strides": (4,)}, {"strides": (3,)},
            {"strides": (2**62,)}, {"typestr": None}, {"typestr": b"<f4"}, {"typestr": "<f9"}, {"stream": "x"},
            {"stream": 2**70}, {"mask": 1}, {},
        ]:
            refused(kinds, g.asarray, Foreign(**changes))
        odd = Foreign()
        odd.__cuda_array_interface__ = None
        refused(kinds, g.asarray, odd)
        odd.__cuda_array_interface__ = {}
        refused(kinds, g.asarray, odd)
        """
    )


def test_two_threads_cannot_consume_one_capsule():
    lives_through(
        """
        import gc
        for round in range(300):
            source = np.arange(16.0)
            capsule = source.__dlpack__()
            start = threading.Barrier(4)
            got = []
            def take():
                start.wait()
                try:
                    got.append(g.from_dlpack(capsule))
                except BufferError:
                    pass
            threads = [threading.Thread(target=take) for _ in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
            assert len(got) == 1, len(got)
            assert got[0].to_numpy().tolist() == list(range(16))
            del got, capsule
            gc.collect()
        """
    )


def test_a_refused_capsule_can_still_be_taken():
    source = np.arange(4.0)
    capsule = np.ones(4, dtype="<f8").__dlpack__()
    with pytest.raises(BufferError):
        gp.from_dlpack(np.zeros((1,) * 9).__dlpack__())
    assert gp.from_dlpack(capsule).tolist() == [1.0] * 4
    with pytest.raises(BufferError):
        gp.from_dlpack(capsule)
    assert source.tolist() == [0, 1, 2, 3]


def test_misaligned_memory_is_not_shared():
    raw = np.zeros(33, dtype=np.uint8)
    odd = raw[1:].view(np.float32)
    try:
        shared = gp.from_dlpack(odd)
    except BufferError:
        return
    np.testing.assert_array_equal(shared.to_numpy(), odd)
    assert shared.device_ptr % 4 == 0


def test_numpy_arrays_of_a_class_that_lies():
    class Liar(np.ndarray):
        shape = property(lambda self: (1 << 20,))
        dtype = property(lambda self: np.dtype("complex128"))
        ctypes = property(lambda self: None)

    liar = np.arange(4, dtype=np.float32).view(Liar)
    for made in [gp.from_numpy(liar), gp.asarray(liar)]:
        assert made.shape == (4,) and made.dtype.name == "float32" and made.tolist() == [0, 1, 2, 3]
    assert gp.arange(4)[np.arange(2).view(Liar)].tolist() == [0, 1]


def test_objects_that_cannot_be_shown():
    lives_through(
        """
        texts = ["\\udc80", "\\0", "x" * 100_000, None]
        class Shown:
            def __repr__(self):
                if texts[0] is None:
                    raise LookupError("no text")
                return texts[0]
            __str__ = __repr__
        calls = [
            lambda: g.zeros(2, dtype=Shown()),
            lambda: g.zeros(Shown()),
            lambda: g.ones(2).__dlpack__(dl_device=Shown()),
            lambda: g.ones(2).__dlpack__(stream=Shown()),
            lambda: g.Stream(priority=Shown()),
            lambda: g.matmul(g.ones((2, 2)), g.ones((2, 2)), precision=Shown()),
            lambda: g.device(Shown()),
            lambda: g.runtime.AsyncKernelRequest(Shown()),
            lambda: repr(g.runtime.AsyncKernelRequest(type("C", (Shown,), {"__call__": print})())),
        ]
        while texts:
            for call in calls:
                try:
                    call()
                except (TypeError, ValueError, LookupError):
                    pass
            del texts[0]
        """
    )


def test_values_that_have_no_truth():
    lives_through(
        """
        class Raises:
            def __bool__(self):
                raise LookupError("no truth")
        x, n = g.ones(4), np.ones(4, dtype=np.float32)
        refused(ValueError, g.asarray, n, copy=np.ones(2))
        refused(ValueError, g.asarray, x, copy=np.ones(2))
        refused(ValueError, g.asarray, x, copy=g.ones(2))
        refused(ValueError, g.from_dlpack, n, copy=np.ones(2))
        refused(ValueError, x.__dlpack__, copy=g.ones(2))
        refused(LookupError, g.asarray, n, copy=Raises())
        refused(LookupError, g.from_dlpack, n, copy=Raises())
        refused(LookupError, x.__dlpack__, copy=Raises())
        """
    )


# The process


def test_a_subinterpreter_is_refused_and_the_main_one_lives():
    out = lives_through(
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        code = '''
        try:
            import pygpukit
        except ImportError as error:
            assert "subinterpreter" in str(error), str(error)
        else:
            raise SystemExit("imported")
        '''
        import textwrap
        for _ in range(2):
            other = interpreters.create()
            found = interpreters.run_string(other, textwrap.dedent(code))
            assert found is None, found
            interpreters.destroy(other)
        assert (g.ones(4) + 1).tolist() == [2.0] * 4
        refused(ValueError, g.zeros, -1)
        print("fine")
        """
    )
    assert "fine" in out


@pytest.mark.parametrize("count", [-5, -1, -(2**31)])
def test_negative_thread_counts_are_refused(count):
    before = gp.ops.num_threads() if hasattr(gp.ops, "num_threads") else None
    from pygpukit import _core

    with pytest.raises(ValueError, match="count"):
        _core.set_num_threads(count)
    assert before is None or gp.ops.num_threads() == before


@pytest.mark.skipif(os.name == "nt", reason="the environment of Windows is text")
def test_bytes_in_the_environment():
    code = PRELUDE + "e = refused(g.ArgumentError, g.ones, 4)\nassert 'PYGPUKIT_DEVICE' in str(e), e\n"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environb, b"PYGPUKIT_DEVICE": b"c\xff\xfepu"}
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    for command in (["info"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-m", "pygpukit", *command],
            capture_output=True,
            env={**os.environb, b"PYGPUKIT_DEVICE": b"cpu", b"PYGPUKIT_ASSETS": b"\xff\xfe"},
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")[-2000:]


def test_deep_reports_are_refused(tmp_path):
    for text in ["[" * 100_000, '{"gpu":' * 100_000, json.dumps({"results": 3})]:
        path = tmp_path / "deep.json"
        path.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pygpukit", "bench", "--quick", "--compare", str(path)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "PYGPUKIT_DEVICE": "cpu"},
        )
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr[-2000:]
        assert "--compare" in done.stderr


LONG_WORK = {
    "sum": "g.broadcast_to(g.ones(1), (2**44,)).sum()",
    "sum_rows": "g.sum(g.broadcast_to(g.ones(1), (16, 2**40)), axis=1)",
    "sum_columns": "g.sum(g.broadcast_to(g.ones(16), (2**40, 16)), axis=0)",
    "argmax": "g.argmax(g.broadcast_to(g.ones(1), (2**44,)))",
    "any": "g.any(g.broadcast_to(g.zeros(1), (2**44,)))",
    "matmul": "g.matmul(g.broadcast_to(g.ones(1), (1, 2**44)), g.broadcast_to(g.ones(1), (2**44, 1)))",
}


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize(("work", "threads"), [("sum", "1"), *((work, "2") for work in LONG_WORK)])
def test_ctrl_c_ends_long_work(work, threads):
    code = PRELUDE + textwrap.dedent(
        f"""
        import sys
        g.ones(4).sum().item()
        print("ready", flush=True)
        try:
            {LONG_WORK[work]}
        except KeyboardInterrupt:
            print((g.ones(4) + 1).tolist() == [2.0] * 4, g.ones(100000).sum().item())
            sys.exit(7)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYGPUKIT_DEVICE": "cpu", "PYGPUKIT_NUM_THREADS": threads},
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 7
    assert out == "True 100000.0\n"


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_a_handler_that_returns_lets_the_work_go_on():
    lives_through(
        """
        import signal
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append((g.ones(8) + 1).sum().item()))
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        x = g.broadcast_to(g.ones(1, dtype="int32"), (2**31,))
        total = g.sum(x).item()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert total == 2**31 and seen and set(seen) == {16.0}, (total, seen)
        """
    )


def test_items_are_bounded_before_they_are_read():
    """An array can claim more items than memory holds."""
    many = gp.broadcast_to(gp.ones(1, "bool"), (2**58,))
    with pytest.raises(ValueError, match="split: indices_or_sections must have at most"):
        gp.split(gp.ones(8), many)
    with pytest.raises(ValueError, match="repeat: repeats must have at most"):
        gp.repeat(gp.ones(0), gp.broadcast_to(gp.ones(1, "uint8"), (2**30, 2**20)))


def test_bytes_of_a_bool_array_are_true_or_false():
    """Memory that nobody wrote, or that had another dtype."""
    with gp.device("cpu"):
        x = gp.bitcast(gp.from_numpy(np.array([0, 1, 3, 255], np.uint8)), gp.bool_)
    assert x.astype("int32").to_numpy().tolist() == [0, 1, 1, 1]
    assert gp.cumsum(x, dtype="uint32").to_numpy().tolist() == [0, 1, 2, 3]
