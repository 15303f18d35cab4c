"""Compares python/pygpukit/_core.pyi with the stub generated from the built extension; --write replaces it."""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

COMMITTED = Path(__file__).resolve().parent.parent / "python" / "pygpukit" / "_core.pyi"


def generate() -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "_core.pyi"
        command = [sys.executable, "-m", "nanobind.stubgen", "--quiet", "-P", "-m", "pygpukit._core", "-o", str(out)]
        subprocess.run(command, check=True, cwd=folder)
        return out.read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    text = generate()
    if parser.parse_args().write:
        COMMITTED.write_text(text)
        return 0
    committed = COMMITTED.read_text() if COMMITTED.exists() else ""
    difference = difflib.unified_diff(committed.splitlines(), text.splitlines(), "committed", "generated", lineterm="")
    lines = list(difference)
    for line in lines[:40]:
        print(line)
    print("stubs: differ; run `make stubs`" if lines else "stubs: ok")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
