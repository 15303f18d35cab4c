"""The built-in kernels without a GPU: every module is listed, compile reports see what they should, the bundle holds all.

tools/check_kernels.py compiles every instance; here it is shown that its reports can fail.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import REQUIRE_GPU

from pygpukit import _core

pytestmark = pytest.mark.skipif(
    _core._compiler_info()["version"] is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)

MODULES = _core._kernel_modules()
ROOT = Path(__file__).resolve().parents[2]


def test_modules_are_listed_in_a_stable_order():
    assert MODULES
    sources = [m["source"] for m in MODULES]
    assert sources == sorted(sources)
    assert all(m["names"] and m["source"].endswith(".cuh") for m in MODULES)
    seen = [(m["source"], tuple(m["names"])) for m in MODULES]
    assert len(seen) == len(set(seen)), "an instance is declared twice"


def test_no_name_is_left_with_a_placeholder():
    for module in MODULES:
        assert not any("{" in name for name in module["names"]), module


def test_kernels_that_start_early_read_nothing_as_constant():
    """__restrict__ and __ldg make loads .nc, which nothing orders after the kernel that writes there meanwhile."""
    found = 0
    for source in sorted({m["source"] for m in MODULES}):
        for kernel in (ROOT / source).read_text().split("__global__")[1:]:
            body = kernel.split("\n}\n")[0]
            if re.search(r"\b(start_in_turn|wait_for_previous)\(\);", body):
                found += 1
                assert "__restrict__" not in body, f"{source}: {body.split('(')[1].split()[-1]}"
    assert found > 20
    in_turn = {"dequant_gemm_sm80.cuh", "grouped_gemm_sm90.cuh"}  # its kernels with a list of tiles
    users = {path.name for path in (ROOT / "gpukit").rglob("*.cuh") if "__ldg(" in path.read_text()}
    assert users <= in_turn


def smallest():
    """A module that compiles quickly: few kernels of one type."""
    plain = [i for i, m in enumerate(MODULES) if not m["archs"]]
    return min(plain, key=lambda i: len(MODULES[i]["names"]))


@pytest.mark.parametrize(("arch", "sm"), [("80", 80), ("90a", 90), ("100f", 100), ("120f", 120)])
def test_reports_read_the_image(arch, sm):
    report = _core._compile_module(smallest(), arch)
    assert report["sm"] == sm
    assert report["kernels"] == len(MODULES[smallest()]["names"])
    assert report["max_registers"] > 0
    major, _ = _core._compiler_info()["version"]
    assert report["abi_version"] == (8 if major >= 13 or sm >= 100 else 7)
    assert report["ptx_version"] >= 80
    again = _core._compile_module(smallest(), arch)
    assert again.pop("cached") and {**report, "cached": True} == {**again, "cached": True}


def test_bad_requests():
    with pytest.raises(IndexError):
        _core._compile_module(len(MODULES), "80")
    with pytest.raises(RuntimeError, match="sm_33"):
        _core._compile_module(0, "33")


BUNDLE_TEST = """
import json, sys
from pygpukit import _core
_core._set_bundle_path(sys.argv[1])
print(json.dumps(_core._bundle_info()))
"""


def test_a_bundle_holds_each_module_for_each_chip_and_as_ptx(tmp_path):
    path = tmp_path / "kernels.bundle"
    source = MODULES[smallest()]["source"]
    count = sum(1 for m in MODULES if source in m["source"] and not m["archs"])
    steps = []
    report = _core._build_bundle(str(path), ["90", "80"], 2, lambda done, total: steps.append((done, total)), source)
    assert report == {"entries": 3 * count, "bytes": path.stat().st_size}
    assert sorted(steps) == [(i + 1, 3 * count) for i in range(3 * count)]
    done = subprocess.run([sys.executable, "-c", BUNDLE_TEST, str(path)], capture_output=True, text=True, timeout=60)
    info = json.loads(done.stdout)
    assert info["path"] == str(path) and info["entries"] == 3 * count
    assert set(info["archs"]) == {"sm_80", "sm_90", "compute_80"}
    assert tuple(info["nvrtc"]) == _core._compiler_info()["version"]
    with pytest.raises(ValueError, match="archs"):
        _core._build_bundle(str(path), [])


DOCTOR_TEST = """
import sys
from pygpukit import _core
from pygpukit.cli import doctor
_core._set_bundle_path(sys.argv[1])
doctor.doctor()
"""


def test_doctor_lists_what_is_not_bundled(tmp_path):
    path = tmp_path / "kernels.bundle"
    source = MODULES[smallest()]["source"]
    _core._build_bundle(str(path), ["80"], 2, None, source)
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR_TEST, str(path)], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    others = [m for m in MODULES if m["source"] != source and not m["archs"]]
    count = sum(len(m["names"]) for m in others)
    lines = done.stdout.splitlines()
    words = " ".join(done.stdout.split())  # long lines are folded
    assert f"sm_80: {count} kernels are not in the bundle; NVRTC compiles them at their first use:" in words
    first = others[0]["source"]
    number = sum(len(m["names"]) for m in others if m["source"] == first)
    assert f"{first}: {number}" in (line.strip() for line in lines)
    assert not any(source in line for line in lines)


def test_a_damaged_bundle_is_passed_over(tmp_path):
    path = tmp_path / "kernels.bundle"
    path.write_bytes(b"GPUKIT\x01B" + bytes(100))
    done = subprocess.run([sys.executable, "-c", BUNDLE_TEST, str(path)], capture_output=True, text=True, timeout=60)
    info = json.loads(done.stdout)
    assert info["path"] is None and str(path) in info["reason"]


def installed_bundle():
    info = _core._bundle_info()
    if info["path"] is None:
        assert "bundle" in info["reason"]
        (pytest.fail if REQUIRE_GPU else pytest.skip)("no bundle is installed: make build ARCHS=90a")
    return info


def test_the_bundle_of_this_installation():
    """Whatever bundle is installed holds every module for each of its chips."""
    info = installed_bundle()
    targets = {arch for arch in info["archs"] if arch.startswith("sm_") and arch[-1].isdigit()}
    plain = sum(1 for m in MODULES if not m["archs"])
    assert info["entries"] >= plain * (len(targets) + 1)


@pytest.mark.gpu
def test_driver_only_mode_computes_from_the_bundle(tmp_path):
    """With the compiler switched off, operations run from a bundle made here for this chip."""
    import pygpukit as gp

    installed_bundle()
    code = """
        import pygpukit as gp
        import numpy as np
        assert not gp.is_nvrtc_available()
        x = gp.ones((33, 65), device="cuda")
        assert (gp.add(x, x).to_numpy() == 2).all()
        from pygpukit import _core
        used = {m["origin"] for m in _core._kernel_modules()} - {"none"}
        assert used == {"bundle"}, used
    """
    env = {**os.environ, "PYGPUKIT_NVRTC": "off", "PYGPUKIT_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert gp.is_cuda_available()


def test_the_host_plans_with_the_cost_of_the_kernel():
    """Threads and elements of a block follow from it on both sides."""
    costs = sorted(set(_core._map_costs()))
    assert len(costs) > 300
    families = ("binary", "unary", "unary_math")
    text = "".join(f'#include "gpukit/ops/elementwise/{family}.cuh"\n' for family in families)
    for name, cost in costs:
        operation = name.removeprefix("gpukit::map1<").removeprefix("gpukit::map2<").removesuffix(">")
        text += f'static_assert({operation}::kCost == {cost}, "");\n'
    _core._compile_source(text, "90")
    wrong = text.replace("::kCost == 0", "::kCost == 1", 1)
    with pytest.raises(RuntimeError, match="static assertion"):
        _core._compile_source(wrong, "90")
