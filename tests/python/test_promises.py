"""What is promised word for word."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import pygpukit as gp

NO_GPU = not gp.is_cuda_available()


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=120, env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_arrays_snippet(device):
    x = gp.zeros((1024, 1024), dtype="float32")
    y = gp.ones((1024, 1024), dtype="float32")
    z = gp.add(x, y)
    w = gp.matmul(x, y)
    arr = z.to_numpy()
    g = gp.from_numpy(arr)
    assert arr.shape == (1024, 1024) and arr.all() and not w.to_numpy().any()
    np.testing.assert_array_equal(g.to_numpy(), arr)


def test_kernel_snippet():
    src = """
    extern "C" __global__ void scale(float* x, float factor, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) x[i] = x[i] * factor;
    }
    """
    x = gp.ones(1000)
    if gp.is_nvrtc_available():
        k = gp.jit(src, func="scale")
        k(x, factor=0.5, n=x.size)
        np.testing.assert_array_equal(x.to_numpy(), np.full(1000, 0.5, np.float32))
    else:
        kernel = gp.jit(src, func="scale")
        with pytest.raises(
            RuntimeError, match="CUDA driver not detected|No GPU devices found|NVRTC JIT compiler not available"
        ):
            kernel(x, factor=0.5, n=x.size)
        assert x.to_numpy().all()


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
def test_no_driver_or_no_device_message():
    reason = gp.cuda_unavailable_reason()
    assert reason.startswith(("CUDA driver not detected: ", "No GPU devices found (cudaGetDeviceCount == 0)"))
    with pytest.raises(gp.DeviceError, match="^(CUDA driver not detected|No GPU devices found)"):
        gp.zeros(1, device="cuda")
    out = run("import pygpukit as gp; gp.zeros(1)")
    assert f"Falling back to CPU simulation backend: {reason}" in out


@pytest.mark.gpu
def test_no_device_message():
    out = run("import pygpukit as gp; print(gp.cuda_unavailable_reason()); gp.zeros(1)", CUDA_VISIBLE_DEVICES="")
    assert out.startswith("No GPU devices found (cudaGetDeviceCount == 0)")
    assert "Falling back to CPU simulation backend: No GPU devices found" in out


def test_no_nvrtc_message():
    out = run(
        """
        import pygpukit as gp
        print(gp.is_nvrtc_available(), [l["reason"] for l in gp._core._libraries() if l["name"] == "NVRTC"][0])
        """,
        PYGPUKIT_NVRTC="off",
    )
    assert out.startswith("False NVRTC JIT compiler not available: ")


def test_no_message_points_at_a_cuda_wrapper():
    text = run("import pygpukit as gp; gp.zeros(1); print(gp.cuda_unavailable_reason())").lower()
    for wrapper in ("pip install cupy", "pip install pycuda", "pip install numba", "cuda-python"):
        assert wrapper not in text
