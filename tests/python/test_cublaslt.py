"""How the package finds cuBLASLt, with a library made for the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import driver_library
import pytest

SOURCE = Path(__file__).resolve().parent.parent / "support" / "fake_libcublaslt.c"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses LD_LIBRARY_PATH")
FOUND = """
import json, pygpukit as gp
print(json.dumps(next(l for l in gp._core._libraries() if l["name"] == "cuBLASLt")))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The folder of a driver and of a cuBLASLt, both made for the tests."""
    folder = driver_library.build(tmp_path_factory.mktemp("driver"))
    compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / "libmine.so"), str(SOURCE)], check=True)
    return folder


def found(library, **settings):
    return json.loads(driver_library.run(library, FOUND, **settings))


def test_the_path_of_the_variable_is_opened(library):
    path = str(library / "libmine.so")
    entry = found(library, PYGPUKIT_CUBLASLT=path)
    assert entry == {"name": "cuBLASLt", "path": path, "version": "12.9.5", "reason": ""}


def test_a_newer_or_older_library_is_passed_over(library):
    path = str(library / "libmine.so")
    reason = found(library, PYGPUKIT_CUBLASLT=path, FAKE_CUBLASLT_VERSION="130100")["reason"]
    assert f"{path} (CUDA 13 is newer than the driver's 12)" in reason
    entry = found(library, PYGPUKIT_CUBLASLT=path, FAKE_CUBLASLT_VERSION="130100", FAKE_CUDA_VERSION="13000")
    assert entry["version"] == "13.1.0"
    reason = found(library, PYGPUKIT_CUBLASLT=path, FAKE_CUBLASLT_VERSION="11080")["reason"]
    assert "older than CUDA 12" in reason


def test_no_cublaslt_wins_and_nothing_is_opened(library, tmp_path):
    log = tmp_path / "opened"
    settings = {"PYGPUKIT_CUBLASLT": str(library / "libmine.so"), "FAKE_CUBLASLT_LOG": str(log)}
    entry = found(library, PYGPUKIT_NO_CUBLASLT="1", **settings)
    assert entry["path"] is None and entry["reason"] == "cuBLASLt not available: PYGPUKIT_NO_CUBLASLT is set"
    assert not log.exists()
    driver_library.run(library, "import pygpukit as gp; gp.devices(); gp.empty(4, device='cuda')", **settings)
    assert not log.exists()
    found(library, **settings)
    assert log.read_text() == "opened\n"


def test_a_wheel_is_found(library, tmp_path):
    folder = tmp_path / "nvidia" / "cublas" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(library / "libmine.so", folder / "libcublasLt.so.12")
    code = f"import pygpukit as gp; gp._core._set_site_packages([{str(tmp_path)!r}])" + FOUND
    entry = json.loads(driver_library.run(library, code))
    assert entry["path"] == str(folder / "libcublasLt.so.12")
