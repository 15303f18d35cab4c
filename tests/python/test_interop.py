"""DLPack, the CUDA array interface and NumPy's protocols."""

import gc
import weakref

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import runtime

SHARED = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", "complex128"]  # fmt: skip


class Wrapper:
    """Another library's array, with chosen protocol features."""

    def __init__(self, host, versions=True):
        self.host, self.versions, self.calls = host, versions, []

    def __dlpack_device__(self):
        return self.host.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        if not self.versions and "max_version" in keywords:
            raise TypeError("unexpected keyword")
        return self.host.__dlpack__(**keywords)


def test_np_asarray_raises_with_a_hint(device):
    x = gp.ones(3)
    for convert in (np.asarray, np.array, np.asanyarray, lambda a: np.zeros(3) + np.asarray(a)):
        with pytest.raises(TypeError, match=r"to_numpy\(\)|from_dlpack"):
            convert(x)
    with pytest.raises(TypeError):
        np.add(x, 1)


@pytest.mark.parametrize("dtype", SHARED)
def test_numpy_views_a_cpu_array(dtype):
    x = gp.from_numpy(np.arange(6).reshape(2, 3).astype(dtype), device="cpu")
    view = np.from_dlpack(x)
    assert view.ctypes.data == x.device_ptr and view.dtype == dtype and view.flags.writeable
    view[0, 0] = 1
    assert x[0, 0].item() == 1
    np.testing.assert_array_equal(view, x.to_numpy())


def test_export_waits_for_a_queued_transfer():
    size = 64 << 20
    x = gp.zeros((size,), dtype="uint8", device="cpu")
    future = runtime.copy_to_device_async(x, np.ones(size, np.uint8))
    view = np.from_dlpack(x)
    assert view[-1] == 1
    future.result()


@pytest.mark.gpu
def test_everything_that_reads_an_address_waits_for_a_queued_transfer():
    size = 64 << 20
    ones = np.ones(size, np.uint8)
    x = gp.zeros((size,), dtype="uint8", device="cuda")
    runtime.copy_to_device_async(x, ones)
    assert gp.from_dlpack(x.__dlpack__(max_version=(1, 1)))[-1].item() == 1
    runtime.copy_to_device_async(x, 2 * ones)
    x.__cuda_array_interface__  # noqa: B018  the current stream is behind the transfer now
    assert x[-1].item() == 2
    y = gp.zeros((size,), dtype="uint8", device="cpu")
    runtime.copy_to_device_async(y, ones)
    assert y.to("cuda")[-1].item() == 1


def test_numpy_views_strided_arrays():
    x = gp.from_numpy(np.arange(24.0).reshape(4, 6), device="cpu")
    for y in (x.T, x[::2, ::-1], x[1], x[:, 2:2]):
        np.testing.assert_array_equal(np.from_dlpack(y), y.to_numpy())
    wide = x[0].expand(5, 6)
    assert not np.from_dlpack(wide).flags.writeable


def test_a_view_keeps_the_memory_alive():
    x = gp.ones(1000, device="cpu")
    view = np.from_dlpack(x)
    del x
    gc.collect()
    _ = [gp.zeros(1000, device="cpu") for _ in range(10)]
    assert view.sum() == 1000


@pytest.mark.parametrize("dtype", SHARED)
@pytest.mark.parametrize("versions", [True, False])
def test_from_dlpack_shares_memory(dtype, versions):
    host = np.arange(12).reshape(3, 4).astype(dtype)
    producer = Wrapper(host, versions)
    x = gp.from_dlpack(producer)
    assert x.device == "cpu" and x.shape == (3, 4) and x.dtype.name == dtype and x.device_ptr == host.ctypes.data
    host[1, 1] = 0
    np.testing.assert_array_equal(x.to_numpy(), host)
    assert producer.calls[-1].get("max_version") == ((1, 1) if versions else None)
    np.testing.assert_array_equal(gp.from_dlpack(host[::2, ::-1].copy()[:, ::2]).to_numpy(), host[::2, ::-1][:, ::2])


def test_from_dlpack_keeps_the_owner_alive():
    class Owned(np.ndarray):
        pass

    host = np.arange(100.0).view(Owned)
    ref = weakref.ref(host)
    x = gp.from_dlpack(host)
    view = x[10:20] + 0
    part = x[10:20]
    del host, x
    gc.collect()
    assert part.tolist() == view.tolist() and ref() is not None
    del part, view
    gp.synchronize("cpu")
    gc.collect()
    assert ref() is None


def test_an_owner_dropped_without_the_gil_is_released_later():
    class Owned(np.ndarray):
        pass

    with gp.device("cpu"):
        host = np.arange(100.0).view(Owned)
        ref = weakref.ref(host)
        x, out = gp.from_dlpack(host), gp.empty(100, dtype="float64")
        graph = gp.CudaGraph()
        with graph.capture():
            gp.add(x, 1, out=out)
        del x, host
        gc.collect()
        assert ref() is not None
        graph.replay()
        assert out[99].item() == 100
        graph.reset()
        gp.synchronize()
        gc.collect()
        assert ref() is None


def test_from_dlpack_of_read_only_data_copies():
    host = np.arange(4.0)
    host.flags.writeable = False
    x = gp.from_dlpack(host)
    assert x.device_ptr != host.ctypes.data
    x += 1
    assert host[0] == 0
    with pytest.raises(BufferError, match="read-only"):
        gp.from_dlpack(host, copy=False)


def test_from_dlpack_copy_and_device(device):
    host = np.arange(4.0)
    x = gp.from_dlpack(host, device=device, copy=True)
    host[0] = 9
    assert x.device == device and x.tolist() == [0, 1, 2, 3]
    y = gp.from_dlpack(x)
    assert y is not x and y.device_ptr == x.device_ptr
    if device != "cpu":
        with pytest.raises(BufferError, match="copy=False"):
            gp.from_dlpack(host, device=device, copy=False)


def test_export_arguments(device):
    x = gp.asarray([1.0, 2.0])
    kind = 1 if device == "cpu" else 2
    assert x.__dlpack_device__() == (kind, 0)
    assert 'dltensor"' in repr(x.__dlpack__()) and "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(2, 5)))
    assert 'dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    y = gp.from_dlpack(x.__dlpack__(copy=True))
    y += 1
    assert x.tolist() == [1, 2]
    host = gp.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
    assert host.device == "cpu" and host.tolist() == [1, 2]
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(7, 0))
    if device == "cpu":
        with pytest.raises(ValueError, match="stream"):
            x.__dlpack__(stream=1)
    else:
        with pytest.raises(ValueError, match="stream"):
            x.__dlpack__(stream=0)
        with pytest.raises(BufferError, match="copy=False"):
            x.__dlpack__(dl_device=(1, 0), copy=False)
        for stream in (None, -1, 1, 2):
            assert gp.from_dlpack(x.__dlpack__(stream=stream)).tolist() == [1, 2]


def test_capsules_are_used_once(device):
    capsule = gp.ones(2).__dlpack__()
    assert gp.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(BufferError, match="already consumed"):
        gp.from_dlpack(capsule)
    with pytest.raises(TypeError, match="__dlpack__"):
        gp.from_dlpack([1, 2])


def test_an_unused_capsule_frees_its_memory(device):
    before = device.memory_stats()["live_bytes"]
    for version in (None, (1, 0)):
        capsule = gp.zeros(1 << 16).__dlpack__(max_version=version)
        assert device.memory_stats()["live_bytes"] > before
        del capsule
        assert device.memory_stats()["live_bytes"] == before


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "bfloat16"])
def test_dtypes_numpy_lacks(device, dtype):
    x = gp.asarray([1.0, -2.0], dtype=dtype)
    y = gp.from_dlpack(x.__dlpack__(max_version=(1, 1)))
    assert y.dtype is x.dtype and y.tolist() == [1, -2]
    if dtype != "bfloat16":
        for version in (None, (1, 0)):
            with pytest.raises(BufferError, match="1.1"):
                x.__dlpack__(max_version=version)


def test_int4_cannot_be_represented(device):
    with pytest.raises(BufferError, match="int4"):
        gp.zeros(2, dtype="int4").__dlpack__(max_version=(1, 1))


def test_cuda_array_interface_is_absent_on_the_cpu():
    assert not hasattr(gp.zeros(2, device="cpu"), "__cuda_array_interface__")


@pytest.mark.gpu
def test_cuda_array_interface():
    x = gp.arange(12, dtype="float32", device="cuda").reshape(3, 4)
    d = x.__cuda_array_interface__
    assert d["version"] == 3 and d["shape"] == (3, 4) and d["typestr"] == "<f4" and d["strides"] is None
    assert d["data"] == (x.device_ptr, False) and d["stream"] == gp.current_stream("cuda").handle
    assert x.T.__cuda_array_interface__["strides"] == (4, 16)
    assert not hasattr(x.astype("bfloat16"), "__cuda_array_interface__")

    class Foreign:
        __cuda_array_interface__ = d

    y = gp.asarray(Foreign())
    assert y.device_ptr == x.device_ptr and y.tolist() == x.tolist()
    y[0, 0] = 5
    assert x[0, 0].item() == 5


@pytest.mark.gpu
def test_exchange_waits_for_work_on_every_stream():
    stream = gp.Stream(device="cuda")
    x = gp.zeros(1 << 24, device="cuda")
    gp.synchronize("cuda")
    with stream:
        for _ in range(50):
            x += 1
    # Exported from another current stream than the one that wrote it.
    y = gp.from_dlpack(x.__dlpack__(stream=gp.current_stream("cuda").handle))
    assert y[-1].item() == 50


def test_functions_of_numpy_call_ours():
    """np.array_equal takes a refused conversion for False, so that it must never ask for one."""
    x = gp.arange(6, device="cpu").reshape(2, 3)
    assert np.array_equal(x, x) and np.array_equal(x, x.copy()) and not np.array_equal(x, x + 1)
    assert np.shape(x) == (2, 3) and np.ndim(x) == 2 and np.size(x) == 6
    assert isinstance(np.sum(x, axis=0), gp.GPUArray) and np.sum(x, axis=0).tolist() == [3, 5, 7]
    assert np.concatenate([x, x]).shape == (4, 3) and np.allclose(x, x)
    assert np.fft.fft(x.astype("complex64")).dtype == gp.complex64
    with pytest.raises(TypeError, match=r"array_equal: b must be a GPUArray, got numpy.ndarray; use gp\."):
        np.array_equal(x, np.ones(3))
    with pytest.raises(TypeError, match=r"numpy.kron does not take GPUArrays.*to_numpy"):
        np.kron(x, x)
    with pytest.raises(TypeError, match=r"numpy.linalg.cond does not take GPUArrays"):
        np.linalg.cond(x)
