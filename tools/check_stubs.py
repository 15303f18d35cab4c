"""Compares python/pygpukit/_core with the stubs generated from the built extension; --write replaces them."""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

COMMITTED = Path(__file__).resolve().parent.parent / "python" / "pygpukit" / "_core"


def read(folder: Path) -> dict[str, str]:
    """The stubs of a folder by their path in it."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.pyi"))}


def generate() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nanobind.stubgen", "--quiet", "-P", "-r", "-m", "pygpukit._core", "-O", folder]
        subprocess.run(command, check=True, cwd=folder)
        return read(Path(folder) / COMMITTED.name)


def difference(committed: dict[str, str], generated: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for name in sorted({*committed, *generated}):
        old, new = committed.get(name, "").splitlines(), generated.get(name, "").splitlines()
        lines += difflib.unified_diff(old, new, f"committed/{name}", f"generated/{name}", lineterm="")
    return lines


def write(generated: dict[str, str]) -> None:
    for name in {*read(COMMITTED)} - {*generated}:
        (COMMITTED / name).unlink()
    for name, text in generated.items():
        path = COMMITTED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    generated = generate()
    if parser.parse_args().write:
        write(generated)
        return 0
    lines = difference(read(COMMITTED), generated)
    for line in lines[:40]:
        print(line)
    print("stubs: differ; run `make stubs`" if lines else "stubs: ok")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
