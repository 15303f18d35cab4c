"""The kernel cache on disk: whatever is wrong with it costs a compilation, never a result or an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from pygpukit import _core

pytestmark = pytest.mark.skipif(
    _core._compiler_info()["version"] is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)

# Compiles one kernel for a fixed chip and tells what it got and what the cache did.
PROGRAM = """
import hashlib, json, logging, sys
records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append(record.getMessage())
logging.getLogger("pygpukit").addHandler(Keep())
import pygpukit as gp
from pygpukit import _core
kernel = gp.jit("__global__ void scale(float* x, float f) { x[threadIdx.x] *= f; }" + "%s", func="scale")
kernel.compile("80")
info = _core._cache_info()
info["hash"] = hashlib.sha256(kernel.ptx.encode()).hexdigest()
info["parameters"] = kernel.parameters
info["log"] = [r for r in records if "cache" in r]
print(json.dumps(info))
"""


def start(folder, source="", setup="", **environment):
    # No device: nothing but the chip asked for is compiled.
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYGPUKIT_CACHE_DIR": str(folder), **environment}
    code = textwrap.dedent(setup) + PROGRAM % source
    return subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    result = json.loads(out)
    assert result["parameters"] == [["x", "float*"], ["f", "float"]]
    return result


def run(folder, **kwargs):
    return finish(start(folder, **kwargs))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def reference(tmp_path):
    """What a compilation gives, with no cache in the way."""
    return run(tmp_path / "unused", PYGPUKIT_CACHE="off")["hash"]


def entry(folder):
    entries = list(folder.glob("*.gpukit"))
    assert len(entries) == 1
    return entries[0]


def test_second_process_finds_the_first_ones_kernel(folder, reference):
    first = run(folder)
    assert (first["hits"], first["writes"], first["hash"]) == (0, 1, reference)
    second = run(folder)
    assert (second["hits"], second["writes"], second["hash"]) == (1, 0, reference)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o077 == 0
    assert run(folder, source="// changed")["hits"] == 0


def test_off_by_environment(folder, reference):
    result = run(folder, PYGPUKIT_CACHE="off")
    assert result["hash"] == reference and not result["enabled"]
    assert not folder.exists()


def test_processes_racing_on_an_empty_cache(folder, reference):
    processes = [start(folder) for _ in range(4)]
    results = [finish(p) for p in processes]
    assert {r["hash"] for r in results} == {reference}
    assert not any(r["log"] for r in results)
    assert [p.name for p in folder.iterdir()] == [entry(folder).name]  # no temporary file is left
    assert run(folder)["hits"] == 1


@pytest.mark.parametrize("fault", ["empty", "cut", "flipped", "longer", "renamed", "link", "folder"])
def test_bad_entries_are_misses(folder, reference, tmp_path, fault):
    run(folder)
    path = entry(folder)
    good = path.read_bytes()
    if fault == "empty":
        path.write_bytes(b"")
    elif fault == "cut":
        path.write_bytes(good[: len(good) // 2])
    elif fault == "flipped":
        middle = len(good) // 2
        path.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    elif fault == "longer":
        path.write_bytes(good + b"\0")
    elif fault == "renamed":
        # A whole entry of another kernel under this one's name.
        path.unlink()
        run(folder, source="// another")
        entry(folder).rename(path)
    elif fault == "link":
        path.rename(tmp_path / "target")
        path.symlink_to(tmp_path / "target")
    elif fault == "folder":
        path.unlink()
        path.mkdir()
    result = run(folder)
    assert result["hits"] == 0
    assert result["hash"] == reference
    if fault != "folder":
        assert run(folder)["hits"] == 1  # it was replaced
        assert not path.is_symlink()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_entries_and_folders_of_another_owner(folder, reference):
    run(folder)
    os.chown(entry(folder), 12345, 12345)
    result = run(folder)
    assert (result["hits"], result["hash"]) == (0, reference)
    os.chown(folder, 12345, 12345)
    result = run(folder)
    assert result["hash"] == reference and not result["enabled"]
    assert len(result["log"]) == 1


def test_a_file_where_the_folder_should_be(folder, reference):
    folder.write_text("x")
    for place in (folder, folder / "below"):
        result = run(place)
        assert result["hash"] == reference and not result["enabled"] and result["reason"]
        assert len(result["log"]) == 1
    assert folder.read_text() == "x"


def test_a_link_where_the_folder_should_be(folder, reference, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    result = run(folder)
    assert result["hash"] == reference and not result["enabled"]
    assert not list((tmp_path / "real").iterdir())


def test_a_folder_others_can_write(folder, reference):
    folder.mkdir()
    folder.chmod(0o777)
    result = run(folder)
    assert result["hash"] == reference and not result["enabled"]
    assert not list(folder.iterdir())


def test_a_full_file_system(folder, reference):
    """A limit on the size of files stands in for a full disk: writes fail half-way."""
    setup = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    """
    result = run(folder, setup=setup)
    assert result["hash"] == reference
    assert result["writes"] == 0
    assert len(result["log"]) == 1
    assert not list(folder.iterdir())
    assert run(folder)["writes"] == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(folder, reference):
    folder.mkdir(mode=0o500)
    result = run(folder)
    assert result["hash"] == reference and result["writes"] == 0


def test_the_size_limit(folder):
    big = "static __device__ const char pad[600000] = {1}; __global__ void other(char* p) { *p = pad[p[1]]; } // %d"
    for i in range(4):
        run(folder, source=big % i, PYGPUKIT_CACHE_MAX_MB="1")
    assert sum(p.stat().st_size for p in folder.iterdir()) <= 1 << 20
    assert len(list(folder.iterdir())) == 1


def test_sources_with_files_outside_are_not_kept(folder, tmp_path):
    (tmp_path / "mine.h").write_text("#define VALUE 1\n")
    code = f"""
        import pygpukit as gp
        from pygpukit import _core
        source = '#include "mine.h"\\n__global__ void k(int* x) {{ *x = VALUE; }}'
        gp.jit(source, func="k", options=["-I{tmp_path}"]).compile("80")
        assert _core._cache_info()["writes"] == 0
    """
    env = {**os.environ, "PYGPUKIT_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
