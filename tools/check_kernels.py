"""Compiles the built-in kernels for chips that need not be here, and looks at what the compiler made.

    check_kernels.py --quick          one instance of each kernel for 80 and 90a
    check_kernels.py --archs 80,...   every instance for these chips, with NVRTC 12.9 and with 13
    ... --source conv --source moe    of files with one of these in their path alone

A kernel fails that does not compile, spills registers, serializes wgmma, or whose image an older driver of its series
would refuse. Results are kept by content under build/, so unchanged kernels are not compiled again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "kernel-cache"
QUICK = ("80", "90a")
NVRTC_13 = "nvidia-cuda-nvrtc>=13,<14"
# Drivers of CUDA 12.0 load ABI 7; Blackwell needs 570 and newer, which load 8.
MAX_ABI_12 = {80: 7, 86: 7, 89: 7, 90: 7}
MAX_PTX_12 = 88


def number(arch: str) -> int:
    return int(arch.rstrip("af"))


def spilling(log: str) -> list[str]:
    """The functions for which ptxas reports spills, by their lowered names."""
    pattern = r"Function properties for (\S+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    return [name for name, stores, loads in re.findall(pattern, log) if stores != "0" or loads != "0"]


def find_faults(report: dict[str, Any], arch: str, major: int) -> list[str]:
    faults = []
    if report["spill_bytes"]:
        faults.append(f"spills {report['spill_bytes']} bytes in {' '.join(spilling(report['log']))}")
    if report["serialized"]:
        faults.append("wgmma is serialized")
    if report["sm"] != number(arch):
        faults.append(f"the image is for SM {report['sm']}")
    if major == 12:
        if report["abi_version"] > MAX_ABI_12.get(number(arch), 8):
            faults.append(f"ABI {report['abi_version']} is not loaded by CUDA 12.0 drivers")
        if report["ptx_version"] > MAX_PTX_12:
            faults.append(f"PTX {report['ptx_version']} is newer than NVRTC 12.9 writes")
    return faults


def jobs(modules: list[dict[str, Any]], quick: bool, archs: list[str], sources: list[str]) -> list[tuple[int, str]]:
    """(module, chip). Modules of one set are the instances of the same kernels."""
    from pygpukit import _core

    listed = [i for i, m in enumerate(modules) if not sources or any(text in m["source"] for text in sources)]
    if quick:
        sets = [module["set"] for module in modules]
        listed = [i for i in listed if sets.index(sets[i]) == i]
    return [(i, arch) for i in listed for arch in (QUICK if quick else archs) if _core._module_applies(i, arch)]


def compile_all(quick: bool, archs: list[str], sources: list[str]) -> int:
    import pygpukit as gp
    from pygpukit import _core

    version = _core._compiler_info()["version"]
    if version is None:
        print("error: no NVRTC to compile with; install nvidia-cuda-nvrtc-cu12")
        return 1
    modules = _core._kernel_modules()
    work = jobs(modules, quick, archs, sources)
    print(f"NVRTC {version[0]}.{version[1]}: {len(modules)} modules, {len(work)} to compile", flush=True)
    failures = cached = kernels = registers = 0
    began = last = time.monotonic()

    def compile_one(job: tuple[int, str]) -> tuple[tuple[int, str], dict[str, Any] | None, list[str]]:
        try:
            report = _core._compile_module(*job)
        except gp.errors.Error as error:
            return job, None, [str(error)]
        return job, report, find_faults(report, job[1], version[0])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (job, report, faults) in enumerate(pool.map(compile_one, work), 1):
            module = modules[job[0]]
            if report is not None:
                cached += report["cached"]
                kernels += report["kernels"]
                registers = max(registers, report["max_registers"])
            for fault in faults:
                failures += 1
                print(f"FAIL {module['source']} {module['dtype'] or ''} sm_{job[1]}: {fault}", flush=True)
            if time.monotonic() - last > 5:
                last = time.monotonic()
                print(f"-- {done} of {len(work)} after {last - began:.0f} s", flush=True)
    print(
        f"kernels: {kernels} instances in {time.monotonic() - began:.0f} s, {cached} of {len(work)} modules known, "
        f"at most {registers} registers, {failures} failures",
        flush=True,
    )
    return 1 if failures or not work else 0


def nvrtc_13() -> Path:
    """The library of CUDA 13, in a folder of its own: one environment has one NVRTC."""
    target = ROOT / "build" / "nvrtc13"
    if not list(target.rglob("libnvrtc.so.13")):
        print(f"-- fetching {NVRTC_13}", flush=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), NVRTC_13]
        subprocess.run(command, check=True)
    return next(iter(target.rglob("libnvrtc.so.13")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--archs", default="")
    parser.add_argument("--source", action="append", default=[])
    parser.add_argument("--this-nvrtc-only", action="store_true", help="do not look for another NVRTC")
    options = parser.parse_args()
    os.environ["PYGPUKIT_CACHE_DIR"] = str(CACHE)
    os.environ["PYGPUKIT_CACHE_MAX_MB"] = "2048"
    CACHE.mkdir(parents=True, exist_ok=True)
    CACHE.chmod(0o700)
    if options.quick or options.this_nvrtc_only:
        return compile_all(options.quick, options.archs.split(","), options.source)
    status = 0
    for environment in ({}, {"PYGPUKIT_NVRTC": str(nvrtc_13())}):
        command = [sys.executable, __file__, "--archs", options.archs, "--this-nvrtc-only"]
        command += [part for text in options.source for part in ("--source", text)]
        status |= subprocess.run(command, env={**os.environ, **environment}).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
