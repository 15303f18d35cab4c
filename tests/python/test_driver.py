"""How the package finds and judges the CUDA driver, with a driver library made for the test."""

from __future__ import annotations

import sys

import driver_library
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses LD_LIBRARY_PATH")

REASON = "import pygpukit as gp; print(gp.cuda_unavailable_reason())"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return driver_library.build(tmp_path_factory.mktemp("driver"))


def test_import_makes_no_driver_call(library, tmp_path):
    log = tmp_path / "calls"
    driver_library.run(library, "import pygpukit, pygpukit.ops, pygpukit.jit", FAKE_CUDA_LOG=str(log))
    assert not log.exists()
    driver_library.run(library, "import pygpukit as gp; gp.devices()", FAKE_CUDA_LOG=str(log))
    assert "cuInit connections=32" in log.read_text().splitlines()


def test_the_users_number_of_connections_is_kept(library, tmp_path):
    log = tmp_path / "calls"
    settings = {"FAKE_CUDA_LOG": str(log), "CUDA_DEVICE_MAX_CONNECTIONS": "8"}
    driver_library.run(library, "import pygpukit as gp; gp.devices()", **settings)
    assert "cuInit connections=8" in log.read_text().splitlines()


def test_device_is_found(library):
    out = driver_library.run(
        library,
        """
        import pygpukit as gp
        x = gp.empty(4, device="cuda")
        print(gp.cuda_unavailable_reason() == "", [str(d) for d in gp.devices()], x.device, gp.default_device())
        """,
        FAKE_CUDA_DEVICES="2",
    )
    assert out == "True ['cuda:0', 'cuda:1', 'cpu'] cuda:0 cuda:0"


def test_old_driver_is_refused_with_its_version(library):
    reason = driver_library.run(library, REASON, FAKE_CUDA_VERSION="11080")
    assert reason.startswith("CUDA driver not detected: ")
    assert str(library / "libcuda.so.1") in reason
    assert "serves CUDA 11.8, needed is 12.0 (driver 525) or newer" in reason


def test_small_chip_is_refused(library):
    reason = driver_library.run(library, REASON, FAKE_CUDA_SM="75")
    assert reason.startswith("PyGPUkit requires SM >= 80 (Ampere)")
    assert "Fake GPU" in reason and "75" in reason
    out = driver_library.run(
        library,
        """
        import pygpukit as gp
        try:
            gp.zeros(1, device="cuda")
        except gp.DeviceError as error:
            print(error)
        print(gp.default_device())
        """,
        FAKE_CUDA_SM="75",
    )
    assert out.startswith("PyGPUkit requires SM >= 80 (Ampere)") and out.endswith("cpu")


@pytest.mark.parametrize("settings", [{"FAKE_CUDA_DEVICES": "0"}, {"FAKE_CUDA_INIT": "100"}])
def test_no_device(library, settings):
    assert driver_library.run(library, REASON, **settings).startswith("No GPU devices found (cudaGetDeviceCount == 0)")


def test_missing_device_index_is_named(library):
    out = driver_library.run(
        library,
        """
        import pygpukit as gp
        try:
            gp.zeros(1, device="cuda:3")
        except gp.DeviceError as error:
            print(error)
        """,
    )
    assert "cuda:3" in out


def test_library_that_is_no_driver_is_reported(tmp_path):
    (tmp_path / "libcuda.so.1").write_text(
        "this is not a library, and it is long enough for the loader to look at it\n"
    )
    reason = driver_library.run(tmp_path, REASON)
    assert (
        reason.startswith("CUDA driver not detected: tried libcuda.so.1 (")
        and "/usr/lib/wsl/lib/libcuda.so.1" in reason
    )
