"""Checks the rules of the tree that a compiler does not: who includes whom, where bindings live, text and length.

Prints `file:line: what is wrong` for each breach and exits 1 when there is one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Lowest first. Names in one entry stand side by side and do not see each other.
LAYERS: list[tuple[str, ...]] = [
    ("base",),
    ("driver",),
    ("memory",),
    ("runtime",),
    ("scheduler",),
    ("jit",),
    ("array",),
    ("ops",),
    ("io", "text"),
    ("models",),
    ("engine",),
    ("python",),
]
SHARED_FAMILIES = ("common", "hopper")  # of ops: whose kernel sources every family may include
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
NAMESPACE = re.compile(r"namespace\s*([\w:]*)\s*\{")
DEFINITION = re.compile(
    r"inline constexpr [\w:]+ (\w+) =|(?:struct|class) (?:alignas\(\d+\) )?(\w+) (?:final )?(?::[^:].*)?\{"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TEXT_SUFFIXES = {".h", ".cpp", ".cuh", ".py", ".pyi", ".cmake", ".toml", ".md", ".yml", ".yaml", ".json", ".txt", ".in"}
LENGTH_SUFFIXES = {".h", ".cpp", ".cuh", ".py"}
MAX_LINES = 600
SKIPPED = {".git", ".venv", "build", "dist", "wheelhouse", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache",
           ".hypothesis"}


def layer_of(path: str) -> str | None:
    """The layer of a path relative to the root: gpukit/<layer>/..."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "gpukit" else None


def family_of(path: str) -> str | None:
    """The op family of gpukit/ops/<family>/..."""
    parts = path.split("/")
    return parts[2] if len(parts) > 3 and parts[:2] == ["gpukit", "ops"] else None


def is_binding(path: str) -> bool:
    return path.endswith(("_py.cpp", "_py.h")) or path.startswith("gpukit/python/")


def check_include(path: str, bracket: str, name: str) -> str | None:
    """What is wrong with one include of one file, or None."""
    is_test = path.endswith(("_test.cpp", "_bench.cpp"))
    if path.endswith(".cuh"):
        if bracket == "<" or not name.endswith(".cuh"):
            return f"a kernel source includes kernel sources only, not {name}"
        if not name.startswith("gpukit/"):
            return f"a kernel source is included by its full name, not {name}"
    if name.endswith(".cuh") and family_of(name) not in (family_of(path), *SHARED_FAMILIES) and not is_test:
        return f"{name} is another family's"
    if name.startswith(("nanobind/", "Python.h")) and not is_binding(path):
        return f"only *_py.cpp, *_py.h and gpukit/python/ include {name}"
    if re.match(r"(cuda|nvrtc|cublas|cudnn|nccl|curand|cufft)\w*\.h$", name):
        return f"no toolkit header: {name}"
    if bracket == '"' and not name.startswith(("gpukit/", "tests/")):
        return f"our headers are included by their full name, not {name}"
    if name.startswith("tests/") and not is_test and path.startswith("gpukit/"):
        return f"only tests include {name}"
    return check_layer(path, name, is_test)


def check_layer(path: str, name: str, is_test: bool) -> str | None:
    own, other = layer_of(path), layer_of(name)
    if own is None or other is None:
        return None
    for layer, where in ((own, path), (other, name)):
        if layer not in RANK:
            return f"{where} is in no known layer"
    if own == other:
        mine, theirs = family_of(path), family_of(name)
        if mine and theirs and mine != theirs and theirs != "common" and not name.endswith((".h", ".cuh")):
            return f"another family's header is the only file of it to include, not {name}"
        return None
    # Kernel sources of every layer share the ones of ops/common.
    if path.endswith(".cuh") and family_of(name) == "common":
        return None
    # A binding stands above everything it binds, and converts with gpukit/python.
    if is_binding(path) and other == "python":
        return None
    if RANK[other] > RANK[own] and not is_test and not is_binding(path):
        return f"layer {own} must not include layer {other}: {name}"
    if RANK[other] == RANK[own]:
        return f"layers {own} and {other} stand side by side: {name}"
    return None


def host_lines(lines: list[bytes]) -> set[int]:
    """Numbers of the lines that only a host compiler sees: those cut out where __CUDACC_RTC__ is defined."""
    branches: list[tuple[bool, bool]] = []  # for each open #if: is this branch host only, is its #else
    result = set()
    for number, line in enumerate(lines, 1):
        words = line.replace(b"# ", b"#").split()
        if words[:1] in ([b"#if"], [b"#ifdef"], [b"#ifndef"]):
            about_rtc = words[1:2] == [b"__CUDACC_RTC__"]
            branches.append((about_rtc and words[0] == b"#ifndef", about_rtc and words[0] == b"#ifdef"))
        elif words[:1] == [b"#else"] and branches:
            branches[-1] = branches[-1][::-1]
        elif words[:1] == [b"#endif"] and branches:
            branches.pop()
        if any(host for host, _ in branches):
            result.add(number)
    return result


def check_file(root: Path, path: Path) -> Iterator[str]:
    relative = path.relative_to(root).as_posix()
    data = path.read_bytes()
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.isascii() and path.suffix != ".md":
            yield f"{relative}:{number}: text must be ASCII"
        if line.endswith((b" ", b"\t", b"\r")) and path.suffix in LENGTH_SUFFIXES:
            yield f"{relative}:{number}: blank at the end of the line"
    if path.suffix in LENGTH_SUFFIXES and len(lines) - 1 > MAX_LINES:
        yield f"{relative}:{MAX_LINES + 1}: {len(lines) - 1} lines, the most is {MAX_LINES}"
    if path.suffix not in {".h", ".cpp", ".cuh"}:
        return
    if path.suffix != ".cpp" and b"#pragma once" not in data:
        yield f"{relative}:1: a header says #pragma once"
    host_only = host_lines(lines) if path.suffix == ".cuh" else set()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line.decode("ascii", "replace"))
        if match and number not in host_only and (fault := check_include(relative, match[1], match[2])):
            yield f"{relative}:{number}: {fault}"


def check_tree(root: Path) -> Iterator[str]:
    stems: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not path.is_file() or path.suffix not in TEXT_SUFFIXES or SKIPPED.intersection(relative.parts):
            continue
        yield from check_file(root, path)
        if relative.parts[0] == "gpukit" and path.name.endswith("_py.cpp"):
            other = stems.setdefault(path.name, relative.as_posix())
            if other != relative.as_posix():
                yield f"{relative.as_posix()}:1: {other} has the same name, and so the same bind function"
    yield from check_definitions(root)


def lines_of_host(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines that a host compiler sees."""
    cut = False
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if line.startswith("#ifdef __CUDACC_RTC__"):
            cut = True
        elif line.startswith(("#else", "#endif")):
            cut = False
        elif not cut:
            yield number, line


def host_files(root: Path) -> set[str]:
    """The sources of the core and all they include."""
    found: set[str] = set()
    todo = [path.relative_to(root).as_posix() for path in (root / "gpukit").rglob("*.cpp")]
    while todo:
        name = todo.pop()
        if name in found or not (root / name).is_file():
            continue
        found.add(name)
        matches = (INCLUDE.match(line) for _, line in lines_of_host(root / name))
        todo += [match[2] for match in matches if match and match[1] == '"']
    return found


def check_definitions(root: Path) -> Iterator[str]:
    """One name in two headers: of templates over it a linker silently keeps one. Headers of kernels alone may repeat a
    name, since each kernel is compiled by itself."""
    seen: dict[str, str] = {}
    headers = (name for name in host_files(root) if name.startswith("gpukit/") and name.endswith((".h", ".cuh")))
    for relative in sorted(headers):
        namespaces: list[str] = []
        for number, line in lines_of_host(root / relative):
            if opened := NAMESPACE.match(line):
                namespaces.append(opened[1])
            elif line.startswith("}  // namespace") and namespaces:
                namespaces.pop()
            elif "" not in namespaces and (match := DEFINITION.match(line)):
                name = "::".join([*namespaces, match[1] or match[2]])
                first = seen.setdefault(name, relative)
                if first != relative:
                    yield f"{relative}:{number}: {first} defines {name} too"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    faults = list(check_tree(parser.parse_args().root))
    for fault in faults:
        print(fault)
    print(f"layers: {len(faults)} breaches" if faults else "layers: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
