"""Runs what README.md and docs/*.md show, and checks where they point.

- Every ```python block runs, those of one file in order and in one namespace, on the CPU backend. A block after the
  line `<!-- needs gpu -->` runs where there is a GPU, on the GPU; there the other blocks of that file run on it too.
- A block after `<!-- needs models -->` runs in a folder that holds the models of PYGPUKIT_ASSETS, and not without one;
  so does a ```sh block of `pygpukit` commands there, line by line.
- Every relative link names a file that exists, and a heading of it where it has a #part.
- Every `make X` in a ```sh block is a target, every `pygpukit X` a command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(\s*)```(.*)$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
NEEDS = re.compile(r"<!-- needs (gpu|models) -->")
SHELL = {"sh", "bash", "console", "shell"}


@dataclass(frozen=True)
class Block:
    line: int
    info: str
    text: str
    needs: str  # gpu, models or nothing


def read_blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    start, info, indent, last_text = None, "", "", ""
    needs = ""
    for number, line in enumerate(lines, 1):
        match = FENCE.match(line)
        if start is None and match:
            start, indent, info = number, match[1], match[2].strip()
            marker = NEEDS.fullmatch(last_text)
            needs = marker[1] if marker else ""
        elif start is not None and match and not match[2].strip():
            body = [part.removeprefix(indent) for part in lines[start : number - 1]]
            yield Block(start + 1, info, "\n".join(body) + "\n", needs)
            start, last_text = None, ""
        elif start is None and line.strip():
            last_text = line.strip()


def slug(heading: str) -> str:
    words = re.sub(r"[`*_]", "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def headings(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    return {slug(match[1]) for match in re.finditer(r"^#+ (.*)$", text, re.M)}


def check_links(path: Path, text: str) -> Iterator[str]:
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            in_block = not in_block
        if in_block:
            continue
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, part = target.partition("#")
            file = (path.parent / name) if name else path
            if not file.exists():
                yield f"{path.relative_to(ROOT)}:{number}: no such file: {target}"
            elif part and file.suffix == ".md" and part not in headings(file):
                yield f"{path.relative_to(ROOT)}:{number}: no such heading: {target}"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def is_command(name: str, known: dict[str, bool] = {}) -> bool:  # noqa: B006
    if name not in known:
        run = subprocess.run([sys.executable, "-m", "pygpukit", name, "--help"], capture_output=True)
        known[name] = run.returncode == 0
    return known[name]


def check_commands(path: Path, block: Block) -> Iterator[str]:
    targets = make_targets()
    for offset, line in enumerate(block.text.splitlines()):
        where = f"{path.relative_to(ROOT)}:{block.line + offset}"
        command = re.sub(r"^\$ |#.*$", "", line.strip()).strip()
        for words in (part.split() for part in re.split(r"&&|;|\|", command)):
            while words and re.match(r"[A-Z_]+=", words[0]):
                words = words[1:]
            if words[:1] == ["make"]:
                for word in words[1:]:
                    if not word.startswith("-") and "=" not in word and word not in targets:
                        yield f"{where}: make has no target {word}"
            if words[:3] in (["python", "-m", "pygpukit"], ["python3", "-m", "pygpukit"]):
                words = words[2:]
            named = words[:1] == ["pygpukit"] and len(words) > 1 and not words[1].startswith("-")
            if named and not is_command(words[1]):
                yield f"{where}: pygpukit has no command {words[1]}"


RUNNER = """
import json, sys, traceback
namespace = {"__name__": "__main__"}
for name, line, text in json.load(open(sys.argv[1])):
    try:
        exec(compile("\\n" * (line - 1) + text, name, "exec"), namespace)
    except BaseException:
        traceback.print_exc()
        print(f"{name}:{line}: this block fails", file=sys.stderr)
        sys.exit(1)
"""


def run_blocks(path: Path, blocks: list[Block], device: str) -> Iterator[str]:
    """Runs the blocks of one file in a new process and an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "blocks.json"
        listing.write_text(json.dumps([(str(path.relative_to(ROOT)), b.line, b.text) for b in blocks]))
        env = dict(os.environ, PYGPUKIT_DEVICE=device, PYTHONWARNINGS="error::DeprecationWarning:__main__")
        work = work_folder(folder)
        command = [sys.executable, "-c", RUNNER, str(listing)]
        run = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
    if run.returncode != 0:
        yield f"{path.relative_to(ROOT)}: on {device}:\n{run.stderr.strip()}"


def models() -> Path | None:
    folder = os.environ.get("PYGPUKIT_ASSETS")
    return Path(folder) if folder and Path(folder).is_dir() else None


def work_folder(parent: str) -> Path:
    """An empty folder, with the models in it where there are any."""
    work = Path(parent) / "work"
    work.mkdir()
    for entry in models().iterdir() if models() else []:
        (work / entry.name).symlink_to(entry.resolve())
    return work


def run_commands(path: Path, block: Block) -> Iterator[str]:
    """The `pygpukit` lines of a block, in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        work = work_folder(folder)
        for offset, line in enumerate(block.text.splitlines()):
            words = shlex.split(line, comments=True)
            if words[:1] != ["pygpukit"]:
                continue
            command = [sys.executable, "-m", *words]
            run = subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if run.returncode != 0:
                yield f"{path.relative_to(ROOT)}:{block.line + offset}: {line}\n{run.stderr.strip()}"


def has_gpu() -> bool:
    code = "import pygpukit, sys; sys.exit(not pygpukit.is_cuda_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def check_file(path: Path, gpu: bool) -> Iterator[str]:
    text = path.read_text()
    yield from check_links(path, text)
    python: list[Block] = []
    for block in read_blocks(text):
        language = block.info.split(" ")[0]
        if language in SHELL:
            yield from check_commands(path, block)
            if block.needs == "models" and models():
                yield from run_commands(path, block)
        elif language == "python":
            if block.info != "python" and not block.needs:
                yield f"{path.relative_to(ROOT)}:{block.line - 1}: every python block runs; got ```{block.info}"
            if block.needs != "models" or models():
                python.append(block)
    everywhere = [block for block in python if block.needs != "gpu"]
    if everywhere:
        yield from run_blocks(path, everywhere, "cpu")
    if gpu and python:
        yield from run_blocks(path, python, "cuda")


def documents() -> list[Path]:
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [path for path in [*top, *sorted((ROOT / "docs").glob("*.md"))] if path.exists()]


def main() -> int:
    gpu = has_gpu()
    faults = 0
    for path in documents():
        found = list(check_file(path, gpu))
        faults += len(found)
        print(f"{path.relative_to(ROOT)}: {'ok' if not found else 'FAIL'}", flush=True)
        for fault in found:
            print(f"  {fault}", flush=True)
    print(f"docs: {faults} faults" if faults else "docs: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
