"""Compiles base, driver and the CPU ops for Windows with mingw-w64: nothing outside base and driver may need Linux."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("x86_64-w64-mingw32-g++-posix", "x86_64-w64-mingw32-g++")


def sources() -> list[Path]:
    found = [p for layer in ("base", "driver") for p in (ROOT / "gpukit" / layer).rglob("*.cpp")]
    found += (ROOT / "gpukit" / "ops").rglob("*_cpu.cpp")
    return sorted(p for p in found if not p.name.endswith(("_test.cpp", "_py.cpp", "_bench.cpp")))


def compile_one(compiler: str, path: Path) -> tuple[Path, str]:
    version = (ROOT / "VERSION").read_text().strip()
    flags = ["-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", f"-I{ROOT}", f'-DGPUKIT_VERSION="{version}"']
    run = subprocess.run([compiler, *flags, str(path)], capture_output=True, text=True)
    return path, "" if run.returncode == 0 else run.stderr


def main() -> int:
    compiler = next((c for c in COMPILERS if shutil.which(c)), None)
    if compiler is None:
        print("missing: a compiler for Windows (Debian: g++-mingw-w64-x86-64)")
        return 1
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, fault in pool.map(lambda p: compile_one(compiler, p), sources()):
            failures += bool(fault)
            print(f"{path.relative_to(ROOT)}: {'FAIL' if fault else 'ok'}", flush=True)
            if fault:
                print(fault)
    print(f"mingw: {failures} files fail" if failures else "mingw: ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
