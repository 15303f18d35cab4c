"""Exceptions: classes, fields, text."""

import pickle

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import errors

BUILTINS = {
    "ArgumentError": ValueError,
    "ShapeError": ValueError,
    "DTypeError": (TypeError, ValueError),
    "OutOfRangeError": IndexError,
    "DeviceError": RuntimeError,
    "OutOfMemoryError": MemoryError,
    "CudaError": RuntimeError,
    "NvrtcError": RuntimeError,
    "FormatError": ValueError,
    "FileError": OSError,
    "NotFoundError": KeyError,
    "ExchangeError": BufferError,
    "DeadlineError": TimeoutError,
    "UnsupportedError": NotImplementedError,
}


@pytest.mark.parametrize("name", BUILTINS)
def test_classes_are_runtime_errors_and_their_builtin(name):
    cls = getattr(errors, name)
    bases = BUILTINS[name] if isinstance(BUILTINS[name], tuple) else (BUILTINS[name],)
    assert issubclass(cls, errors.Error) and issubclass(cls, RuntimeError)
    for base in bases:
        assert issubclass(cls, base)


@pytest.mark.parametrize("name", [n for n in BUILTINS if n != "FileError"])
def test_text_is_the_message_and_survives_pickling(name):
    error = getattr(errors, name)("what happened")
    assert str(error).endswith("what happened") and "'" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)


def test_nvrtc_error_has_code_and_log():
    error = gp.NvrtcError("bad source", gp.NvrtcErrorCode.Compilation, "line 1: error")
    assert str(error) == "[Compilation] bad source"
    assert error.code is gp.NvrtcErrorCode.Compilation and error.code == 6
    assert error.compilation_log == "line 1: error"
    assert gp.NvrtcError("x").code is gp.NvrtcErrorCode.InternalError
    assert pickle.loads(pickle.dumps(error)).compilation_log == "line 1: error"


def test_fields_come_from_the_library(device):
    with pytest.raises(gp.ShapeError) as caught:
        gp.zeros((2, 3)).view((4,))
    assert caught.value.op == "view" and caught.value.argument == "shape"
    assert "view" in str(caught.value) and "got [4]" in str(caught.value)

    with pytest.raises(gp.OutOfRangeError) as caught:
        gp.zeros(3)[7]
    assert caught.value.index == 7 and caught.value.limit == 3


def test_mixing_devices_names_both(device):
    x = gp.zeros(2)
    if device == "cpu":
        pytest.skip("one device")
    with pytest.raises(gp.DeviceError, match="cpu.*cuda:0|cuda:0.*cpu"):
        gp.add(x, gp.zeros(2, device="cpu"))


def test_unknown_device():
    with pytest.raises(ValueError, match="tpu"):
        gp.zeros(2, device="tpu")
    with pytest.raises(gp.DeviceError, match="cpu:9"):
        gp.zeros(2, device="cpu:9")
    with pytest.raises(TypeError, match="device"):
        gp.zeros(2, device=3.5)


def test_wrong_types_are_named(device):
    with pytest.raises(TypeError, match=r"add: b must be an array or a number, got numpy.ndarray; use gp.from_numpy"):
        gp.add(gp.zeros(2), np.zeros(2))
    with pytest.raises(TypeError, match="add: a must be an array or a number, got str"):
        gp.add("x", gp.zeros(2))
    with pytest.raises(TypeError, match="add: out must be a GPUArray, got int"):
        gp.add(gp.zeros(2), 1, out=3)


def test_a_huge_allocation_is_a_memory_error(device):
    with pytest.raises(MemoryError) as caught:
        gp.empty((1 << 45,), dtype="uint8")
    assert isinstance(caught.value, gp.OutOfMemoryError)
    assert caught.value.asked_bytes >= 1 << 45
    assert gp.ones(3).tolist() == [1, 1, 1]


def test_file_errors_say_what_happened(tmp_path):
    missing = tmp_path / "none.wav"
    with pytest.raises(gp.errors.FileError) as caught:
        gp.ops.audio.read_wav(missing)
    error = caught.value
    assert str(error) == f"cannot open {missing}: No such file or directory"
    assert (error.errno, error.filename) == (2, str(missing))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.errno, again.filename) == (str(error), 2, str(missing))
