"""DLPack and the CUDA array interface with PyTorch, CuPy and JAX on the GPU: same memory, right order."""

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.gpu

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
MORE = ["uint16", "uint32", "uint64"]

SPIN = """
extern "C" __global__ void slow_fill(float* x, float value, long long cycles, int n) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
"""
CYCLES = 200_000_000  # about a tenth of a second


def ours(dtype):
    x = gp.arange(24, dtype="float32", device="cuda").astype(dtype)
    return x.reshape(2, 3, 4)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def jax(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module = pytest.importorskip("jax")
    module.config.update("jax_enable_x64", True)
    return module


@pytest.mark.parametrize("dtype", DTYPES + MORE)
def test_torch_round_trip(torch, dtype):
    x = ours(dtype)
    t = torch.from_dlpack(x)
    assert t.data_ptr() == x.device_ptr and tuple(t.shape) == x.shape and str(t.dtype) == f"torch.{dtype}"
    back = gp.from_dlpack(t)
    assert back.device_ptr == x.device_ptr and back.dtype == x.dtype
    assert back.to_numpy().tobytes() == x.to_numpy().tobytes()
    view = gp.from_dlpack(t.transpose(0, 2)[::2])
    assert view.device_ptr == t.data_ptr() and view.shape == (2, 3, 2)
    assert np.array_equal(view.to_numpy(), x.to_numpy().transpose(2, 1, 0)[::2])


@pytest.mark.parametrize("dtype", [d for d in DTYPES + MORE if d != "bfloat16"])
def test_cupy_round_trip(cupy, dtype):
    x = ours(dtype)
    c = cupy.from_dlpack(x)
    assert c.data.ptr == x.device_ptr and c.dtype == np.dtype(dtype)
    back = gp.from_dlpack(c)
    assert back.device_ptr == x.device_ptr
    assert np.array_equal(back.to_numpy(), x.to_numpy())
    through_interface = gp.asarray(c)
    assert np.array_equal(through_interface.to_numpy(), x.to_numpy())
    assert cupy.asarray(x).data.ptr == x.device_ptr


@pytest.mark.parametrize("dtype", DTYPES + MORE)
def test_jax_round_trip(jax, dtype):
    x = ours(dtype)
    j = jax.dlpack.from_dlpack(x)
    assert j.unsafe_buffer_pointer() == x.device_ptr and str(j.dtype) == dtype
    back = gp.from_dlpack(j)
    assert back.device_ptr == x.device_ptr
    assert back.to_numpy().tobytes() == x.to_numpy().tobytes()


def test_torch_waits_for_our_slow_kernel(torch):
    x = gp.zeros((1000,), device="cuda")
    gp.jit(SPIN, func="slow_fill")(x, 3.0, CYCLES, 1000)
    with torch.cuda.stream(torch.cuda.Stream()):
        total = torch.from_dlpack(x).sum()
        assert total.item() == 3000.0


def test_we_wait_for_torchs_slow_kernel(torch):
    side = torch.cuda.Stream()
    t = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        t.fill_(5.0)
        x = gp.from_dlpack(t)
    assert gp.sum(x).item() == 5000.0


def test_cupy_waits_for_our_slow_kernel(cupy):
    x = gp.zeros((1000,), device="cuda")
    gp.jit(SPIN, func="slow_fill")(x, 2.0, CYCLES, 1000)
    with cupy.cuda.Stream(non_blocking=True):
        assert float(cupy.from_dlpack(x).sum()) == 2000.0


def test_we_wait_for_cupys_slow_kernel(cupy):
    slow = cupy.RawKernel(SPIN, "slow_fill")
    stream = cupy.cuda.Stream(non_blocking=True)
    c = cupy.zeros(1000, dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    with stream:
        slow((4,), (256,), (c, np.float32(7), np.int64(CYCLES), np.int32(1000)))
        x = gp.from_dlpack(c)
    assert gp.sum(x).item() == 7000.0


def test_jax_waits_for_our_slow_kernel(jax):
    x = gp.zeros((1000,), device="cuda")
    gp.jit(SPIN, func="slow_fill")(x, 4.0, CYCLES, 1000)
    assert float(jax.numpy.sum(jax.dlpack.from_dlpack(x))) == 4000.0


def test_foreign_memory_outlives_its_first_owner(torch):
    t = torch.full((1 << 20,), 2.0, device="cuda")
    x = gp.from_dlpack(t)
    del t
    torch.cuda.empty_cache()
    junk = torch.full((1 << 20,), 9.0, device="cuda")
    assert gp.sum(x).item() == 2.0 * (1 << 20)
    del junk
