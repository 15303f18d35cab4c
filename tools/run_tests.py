"""Runs the Python tests, one process per file, several at a time, and adds up what they say.

    python tools/run_tests.py [--jobs N] [--part I/N] [--seconds S] [files or pytest options ...]

Exit status 0 when every file passed. The closing line is `N passed, N failed, N skipped`. A part has every N-th file.
Files that were not done when the time was over are named, and count as failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import math
import os
import pathlib
import re
import subprocess
import sys
import time

from parts import part_of

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"
# The longest first, so that none of them is left running alone at the end.
LONG = ["test_ops.py", "test_cpp_package.py", "test_cache.py", "test_examples.py", "test_reduce.py", "test_cli.py"]
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error)")


NOT_DONE = "no time"


def run(path: pathlib.Path, options: list[str], until: float = math.inf) -> tuple[pathlib.Path, int, float, str]:
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--tb=short", *options, str(path)]
    left = None if until == math.inf else until - begin
    try:
        if left is not None and left <= 0:
            return path, 1, 0.0, NOT_DONE
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left)
    except subprocess.TimeoutExpired:
        return path, 1, time.monotonic() - begin, NOT_DONE
    return path, done.returncode, time.monotonic() - begin, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--part", default="1/1", help="I/N")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all of it")
    known, rest = parser.parse_known_args()
    options = [a for a in rest if a.startswith("-")]
    named = [pathlib.Path(a) for a in rest if not a.startswith("-")]
    files = named or sorted(FOLDER.glob("test_*.py"))
    files.sort(key=lambda f: LONG.index(f.name) if f.name in LONG else len(LONG))
    files = part_of(files, known.part)
    until = time.monotonic() + known.seconds
    not_done: list[str] = []
    totals = {"passed": 0, "failed": 0, "skipped": 0, "error": 0}
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(known.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, f, options, until) for f in files]):
            path, status, seconds, text = future.result()
            if text == NOT_DONE:
                not_done.append(path.name)
                continue
            closing = text.strip().splitlines()[-1] if text.strip() else "no output"
            for number, word in COUNT.findall(closing):
                totals[word] += int(number)
            # 5: no test of the file was selected.
            if status not in (0, 5):
                bad += 1
                print(text, flush=True)
            print(f"{path.name:32s} {seconds:6.1f} s  {closing}", flush=True)
    if not_done:
        print(f"not done, no time: {', '.join(sorted(not_done))}")
    failed = max(totals["failed"] + totals["error"], bad + len(not_done))
    print(f"{totals['passed']} passed, {failed} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
