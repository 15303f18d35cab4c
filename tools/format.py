"""Formats C++ and kernels with clang-format and Python with ruff; --check only says what would change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    check = "--check" in sys.argv[1:]
    sources = [p for folder in ("gpukit", "tests", "examples") for p in (ROOT / folder).rglob("*")]
    cpp = sorted(str(p) for p in sources if p.suffix in {".h", ".cpp", ".cuh"})
    formatter = str(Path(sys.executable).parent / "clang-format")
    flags = ["--dry-run", "--Werror"] if check else ["-i"]
    status = subprocess.run([formatter, *flags, *cpp]).returncode
    lint = ["check", "."] if check else ["check", "--fix", "."]
    status |= subprocess.run([sys.executable, "-m", "ruff", *lint], cwd=ROOT).returncode
    print("format: ok" if status == 0 else "format: run `make format`" if check else "format: see above")
    return status


if __name__ == "__main__":
    sys.exit(main())
