"""Devices, backends and memory helpers."""

import asyncio
import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import backend as backends
from pygpukit.core import memory


def test_devices_are_listed():
    found = gp.devices()
    assert found[-1] == "cpu" and all(isinstance(d, gp.Device) for d in found)
    assert gp.is_cuda_available() == any(d.kind == "cuda" for d in found)
    assert (gp.cuda_unavailable_reason() == "") == gp.is_cuda_available()


def test_device_object(device):
    same = gp.device(str(device))
    assert same == device and hash(same) == hash(device) and same == str(device)
    assert device != "nowhere" and device != 3
    assert repr(device) == f"Device('{device}')"
    assert device.kind in ("cpu", "cuda") and device.index == 0
    p = device.properties
    assert p.name and p.total_memory > 0
    free, total = device.memory_info()
    assert 0 < free <= total
    device.synchronize()
    assert device.health()["ok"] is True


@pytest.mark.parametrize("bad", ["tpu", "cuda:x", "cpu:-1", ""])
def test_bad_device_names(bad):
    with pytest.raises(ValueError, match="device"):
        gp.device(bad)


def test_with_device_nests():
    with gp.device("cpu") as outer:
        assert gp.default_device() == outer and gp.zeros(1).device == "cpu"
        with gp.device("cpu"):
            assert gp.default_device() == "cpu"
    with pytest.raises(RuntimeError, match="out of order"):
        outer.__exit__(None, None, None)


def test_with_device_left_out_of_order():
    a, b = gp.device("cpu"), gp.device("cpu")
    a.__enter__()
    b.__enter__()
    with pytest.raises(RuntimeError, match="out of order"):
        a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    a.__exit__(None, None, None)


def test_threads_and_tasks_have_their_own_stream():
    streams = [gp.Stream(device="cpu") for _ in range(8)]

    def seen(stream, rounds=50):
        with stream:
            return all(gp.current_stream("cpu") == stream for _ in range(rounds))

    results = []
    threads = [threading.Thread(target=lambda s=s: results.append(seen(s))) for s in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8

    async def task(stream):
        with stream:
            for _ in range(5):
                await asyncio.sleep(0)
                assert gp.current_stream("cpu") == stream
        return gp.current_stream("cpu") != stream

    async def main():
        return await asyncio.gather(*(task(s) for s in streams))

    assert asyncio.run(main()) == [True] * 8


def test_get_device_info():
    with gp.device("cpu"):
        info = gp.get_device_info()
    assert info.compute_capability is None and info.total_memory > 0 and info.name
    caps = gp.get_device_capabilities()
    assert isinstance(caps.tensorcore, bool) and caps.compute_capability == caps.sm_version


def test_capabilities_by_chip():
    caps = gp.DeviceCapabilities.hopper()
    assert caps.sm_version == 90 and caps.compute_major == 9 and caps.compute_minor == 0
    assert caps.tensorcore and caps.tensorcore_bf16 and caps.async_copy and caps.is_ampere_or_newer()
    kinds = gp.KernelType
    assert caps.supports_kernel(kinds.TF32_MMA) and kinds.TF32_MMA.min_sm_version() == 80
    assert caps.best_matmul_kernel() == kinds.TILED_SMEM
    assert caps.best_matmul_kernel(use_tf32=True) == kinds.TF32_MMA
    assert caps.best_matmul_kernel(dtype_is_fp32=False) == kinds.BF16_MMA
    assert not gp.DeviceCapabilities(75).tensorcore and gp.DeviceCapabilities(75).tensorcore_fp16
    assert kinds.FP32_FMA.uses_tensor_cores() is False and kinds.FP16_MMA.name() == "FP16_MMA"
    assert gp.DeviceCapabilities().sm_version == 86 and gp.DeviceCapabilities.ada().sm_version == 89


def backend_of(device):
    return backends.CPUSimulationBackend() if device == "cpu" else backends.NativeBackend()


def test_backend_memory(device):
    b = backend_of(device)
    assert b.is_available() and b.get_device_count() >= 1
    assert b.get_device_properties().total_memory > 0
    ptr = b.allocate(64)
    assert not b.copy_device_to_host(ptr, 64, np.uint8).any()
    data = np.arange(8, dtype=np.float64)
    b.copy_host_to_device(data, ptr)
    np.testing.assert_array_equal(b.copy_device_to_host(ptr, 64, "float64"), data)
    b.memset(ptr, 0xFF, 8)
    np.testing.assert_array_equal(b.copy_device_to_host(ptr, 16, np.uint8), [255] * 8 + [0] * 6 + [240, 63])
    b.synchronize()
    with pytest.raises(ValueError, match="fit"):
        b.copy_host_to_device(np.zeros(65, np.uint8), ptr)
    x = gp.GPUArray((8,), "float64", device_ptr=ptr, owns_memory=False, device=device)
    assert x.device_ptr == ptr and x[7].item() == 7
    b.free(ptr)
    for call in (lambda: b.free(ptr), lambda: b.memset(ptr, 0, 1), lambda: b.copy_device_to_host(1, 1, np.uint8)):
        with pytest.raises(RuntimeError, match="Invalid device pointer"):
            call()


def test_an_array_can_own_a_backend_block(device):
    b = backend_of(device)
    ptr = b.allocate(16)
    x = gp.GPUArray((4,), "float32", device_ptr=ptr, device=device)
    assert x.tolist() == [0] * 4
    with pytest.raises(RuntimeError, match="Invalid device pointer"):
        b.free(ptr)


def test_backend_streams(device):
    b = backend_of(device)
    handle = b.create_stream(priority=-1)
    assert isinstance(handle, int) and gp.Stream(handle).priority == gp.StreamPriority.HIGH
    b.stream_synchronize(handle)
    b.destroy_stream(handle)
    with pytest.raises(ValueError, match="handle"):
        b.stream_synchronize(handle)


def test_set_backend_chooses_the_device():
    try:
        backends.set_backend(backends.CPUSimulationBackend())
        assert gp.default_device() == "cpu" and gp.zeros(2).device == "cpu"
        assert isinstance(backends.get_backend(), backends.CPUSimulationBackend)
        assert gp.get_device_info().compute_capability is None
    finally:
        backends.reset_backend()
    expected = "cuda" if gp.default_device().kind == "cuda" else "cpu"
    assert gp.zeros(2).device.kind == expected
    assert backends.has_native_module() and backends.get_native_module() is not None


def test_memory_info(device):
    free, total = gp.get_memory_info()
    assert 0 < free <= total
    before = device.memory_stats()
    x = gp.zeros(1 << 20, dtype="uint8")
    after = device.memory_stats()
    assert after["live_bytes"] >= before["live_bytes"] + (1 << 20) and after["allocations"] > before["allocations"]
    del x
    assert device.memory_stats()["live_bytes"] <= after["live_bytes"] - (1 << 20)
    device.synchronize()
    device.trim()
    assert device.memory_stats()["cached_bytes"] == 0


def test_copies_from_pointers(device):
    host = np.arange(6, dtype=np.float32)
    x = gp.zeros(6)
    memory.copy_to_device(x, host.ctypes.data, host.nbytes)
    np.testing.assert_array_equal(x.to_numpy(), host)
    stream = gp.Stream(device=device)
    y = gp.zeros(6)
    gp.synchronize(device)
    memory.copy_to_device_async(y, host.ctypes.data, 12, stream)
    memory.copy_to_device_async_raw_stream(y[3:], host.ctypes.data, 12, stream.handle)
    stream.synchronize()
    assert y.tolist() == [0, 1, 2, 0, 1, 2]
    memory.copy_device_to_device_async(y, x, stream)
    stream.synchronize()
    np.testing.assert_array_equal(y.to_numpy(), host)
    memory.copy_device_to_device_offset(y, 4, x, 0, 8)
    memory.synchronize(device)
    assert y.tolist() == [0, 0, 1, 3, 4, 5]


def test_copies_check_their_ranges(device):
    x, y = gp.zeros(4), gp.zeros(5)
    for call in (
        lambda: memory.copy_device_to_device_async(x, y),
        lambda: memory.copy_to_device(x, 0, 17),
        lambda: memory.copy_to_device(x[::2], 0, 4),
        lambda: memory.copy_device_to_device_offset(x, 12, y, 0, 8),
        lambda: memory.copy_device_to_device_offset(x, 0, y, -4, 8),
        lambda: memory.copy_device_to_device_offset(x, 0, x, 4, 8),
    ):
        with pytest.raises(ValueError, match="copy"):
            call()
