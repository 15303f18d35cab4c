"""Runs a command on an emulated GPU: `python3 tools/emulate.py [--seed N] pytest -q tests/python/test_x.py`.

The package finds the emulator in place of NVIDIA's driver and of NVRTC: kernels are compiled by the host's compiler and
run on the CPU, one thread after another, with their memory accesses checked. See docs/testing-kernels.md. Standard
library only; needs what `make build` makes, and clang++.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "emulator"
FOLDER = ROOT / "build" / "emulator"
LIBRARY = FOLDER / "libcuda.so.1"
CORE = ROOT / "build" / "release" / "libgpukit.a"


def build():
    """Compiles the emulator when something is newer than it."""
    if not CORE.exists():
        sys.exit(f"{CORE} is missing: run make build")
    files = [p for p in SOURCES.iterdir() if p.suffix in (".cpp", ".h")] + [CORE]
    if LIBRARY.exists() and all(p.stat().st_mtime < LIBRARY.stat().st_mtime for p in files):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = LIBRARY.with_name(f"{LIBRARY.name}.{os.getpid()}")
    command = [
        *(os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
        *("-Wall", "-Wextra", f"-I{ROOT}", f"-Wl,-soname,{LIBRARY.name}", "-o", made),
        *(sorted(p for p in files if p.suffix == ".cpp")),
        *(CORE, "-lpthread", "-ldl"),
    ]
    subprocess.run(command, check=True)
    made.replace(LIBRARY)
    builtins = FOLDER / "libnvrtc-builtins.so.12.0"
    builtins.unlink(missing_ok=True)
    builtins.symlink_to(LIBRARY.name)


def environment(given):
    cache = FOLDER / "kernels"
    cache.mkdir(parents=True, exist_ok=True)
    settings = {
        "LD_LIBRARY_PATH": str(FOLDER),
        "PYGPUKIT_NVRTC": str(LIBRARY),
        "PYGPUKIT_CACHE": "off",
        "PYGPUKIT_NO_CUBLASLT": "1",
        "PYGPUKIT_MEMORY_DEBUG": os.environ.get("PYGPUKIT_MEMORY_DEBUG", "1"),
        "GPUKIT_EMULATOR_ROOT": str(ROOT),
        "GPUKIT_EMULATOR_CACHE": str(cache),
        "GPUKIT_EMULATOR_ARCH": str(given.arch),
        "GPUKIT_EMULATOR_SEED": str(given.seed),
        "GPUKIT_EMULATOR_STRICT": str(int(given.strict)),
        "GPUKIT_EMULATOR_EARLY": str(int(given.early)),
        "GPUKIT_EMULATOR_LATE": str(given.late),
    }
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **settings, "PATH": path}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="order of threads and blocks; 0: as they are numbered")
    parser.add_argument("--arch", type=int, choices=(80, 90), default=80, help="the chip: SM 80, or 90 with TMA and wgmma")
    parser.add_argument("--late", type=int, default=-1, help="a warpgroup that runs when the rest of its block cannot")
    parser.add_argument("--strict", action="store_true", help="kernels use all they read")
    parser.add_argument("--early", action="store_true", help="every launch may start before the one before has ended")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command:
        parser.error("what is to run?")
    if shutil.which(os.environ.get("GPUKIT_EMULATOR_CXX", "clang++")) is None:
        sys.exit("the emulator needs clang++ (Debian: clang)")
    build()
    env = environment(given)
    program = shutil.which(given.command[0], path=env["PATH"]) or given.command[0]
    sys.exit(subprocess.run([program, *given.command[1:]], env=env).returncode)


if __name__ == "__main__":
    main()
