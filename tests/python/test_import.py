"""What importing the package does and does not do."""

import importlib
import json
import os
import subprocess
import sys
import textwrap

import pytest

import pygpukit as gp


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=120, env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_opens_no_driver_and_starts_nothing():
    out = run(
        """
        import json, os, sys, threading
        import numpy
        before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
        import pygpukit
        maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
        tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
        print(json.dumps({
            "libcuda": "libcuda.so" in maps, "nvrtc": "libnvrtc" in maps,
            "threads": threading.active_count(), "tasks": tasks, "subprocess": "subprocess" in sys.modules,
            "cli": "pygpukit.cli" in sys.modules,
        }))
        """,
        OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1",
    )  # fmt: skip
    facts = json.loads(out)
    assert facts["libcuda"] is False and facts["nvrtc"] is False
    assert facts["threads"] == 1 and facts["tasks"] == 1
    assert facts["cli"] is False


def test_import_shows_no_warning():
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import pygpukit"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "" and done.stderr == ""


@pytest.mark.skipif(gp.is_cuda_available(), reason="the CPU is not a fallback here")
def test_fallback_is_logged_once_at_the_first_array():
    code = """
        import pygpukit as gp
        print("imported")
        gp.zeros(2); gp.zeros(2); gp.ones(3) + 1
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout == "imported\n"
    assert done.stderr.count("Falling back to CPU simulation backend: ") == 1


def test_no_fallback_message_when_the_cpu_was_chosen():
    done = subprocess.run(
        [sys.executable, "-c", "import pygpukit as gp; gp.zeros(2)"],
        capture_output=True, text=True, env={**os.environ, "PYGPUKIT_DEVICE": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    done = subprocess.run(
        [sys.executable, "-c", "import pygpukit as gp\nwith gp.device('cpu'): gp.zeros(2)\ngp.zeros(2, device='cpu')"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""


def test_log_messages_reach_the_logger():
    out = run(
        """
        import logging
        records = []
        handler = logging.Handler()
        handler.emit = records.append
        logging.getLogger("pygpukit").addHandler(handler)
        import pygpukit as gp
        gp.zeros(2)
        print([(r.levelname, r.getMessage().split(":")[0]) for r in records])
        """
    )
    expected = "[]" if gp.is_cuda_available() else "[('WARNING', 'Falling back to CPU simulation backend')]"
    assert out == expected


def test_bad_environment_values_are_named():
    code = """
        import pygpukit as gp
        try:
            gp.zeros(2)
        except ValueError as error:
            print(error)
    """
    out = run(code, PYGPUKIT_DEVICE="tpu")
    assert "PYGPUKIT_DEVICE" in out and "tpu" in out and "cuda" in out


@pytest.mark.skipif(gp.is_cuda_available(), reason="there is a GPU")
def test_asking_for_cuda_fails_instead_of_falling_back():
    code = """
        import pygpukit as gp
        try:
            gp.zeros(2)
        except gp.DeviceError as error:
            print(error)
    """
    assert run(code, PYGPUKIT_DEVICE="cuda").startswith(("CUDA driver not detected", "No GPU devices found"))


def test_fork_leaves_the_cpu_usable():
    out = run(
        """
        import os, pygpukit as gp
        with gp.device("cpu"):
            x = gp.ones(1 << 18) + 1
            pid = os.fork()
            if pid == 0:
                good = (gp.ones(1 << 18) + x).sum().item() == 3 * (1 << 18)
                os._exit(0 if good else 3)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    )
    assert out == "0"


@pytest.mark.gpu
def test_fork_after_initialisation_gives_one_clear_error():
    out = run(
        """
        import os, pygpukit as gp
        x = gp.ones(3, device="cuda")
        pid = os.fork()
        if pid == 0:
            try:
                gp.ones(3, device="cuda")
                os._exit(3)
            except gp.DeviceError as error:
                os._exit(0 if "fork" in str(error) else 4)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    )
    assert out == "0"


def test_exit_is_clean_with_live_objects():
    out = run(
        """
        import numpy as np, pygpukit as gp
        x = gp.ones(1000); view = np.from_dlpack(x.to("cpu")); stream = gp.Stream(); event = gp.CudaEvent(); event.record(stream)
        graph = gp.CudaGraph(); y = gp.from_dlpack(np.ones(5)); stream.__enter__()
        print("done")
        """
    )
    assert out == "done"


def test_public_names():
    assert len(gp.__all__) == len(set(gp.__all__))
    for name in gp.__all__:
        assert hasattr(gp, name), name
    assert callable(gp.jit) and callable(gp.ops.matmul)
    importlib.import_module("pygpukit.jit.compiler")
    importlib.import_module("pygpukit.ops.matmul")
    assert callable(gp.jit) and callable(gp.ops.matmul)
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = gp.nothing_like_this


def test_ops_lists_every_operation():
    for name in ("add", "matmul", "softmax", "sum", "take", "where", "zeros"):
        assert name in gp.ops.__all__
    for name in gp.ops.__all__:
        assert callable(getattr(gp.ops, name)) and getattr(gp, name) is getattr(gp.ops, name)
    for other in ("GPUArray", "Stream", "synchronize", "devices"):
        assert other not in gp.ops.__all__


def test_modules_of_operations_are_attributes():
    code = """
import sys, pygpukit as gp
before = {name for name in sys.modules if name.startswith("pygpukit.ops.")}
for name in ("nn", "sampling", "conv", "audio", "elementwise", "reduction", "tensor", "unary", "basic"):
    module = getattr(gp.ops, name)
    assert module.__name__ == f"pygpukit.ops.{name}", module
    assert module.__all__
for name in ("matmul", "embedding", "moe"):
    assert callable(getattr(gp.ops, name)), name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_diffusion_says_that_it_is_out_of_scope():
    with pytest.raises(ImportError, match="diffusion models are out of scope"):
        importlib.import_module("pygpukit.diffusion")
