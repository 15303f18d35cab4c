"""Writes the kernel bundle that a wheel carries: ``python -m pygpukit._bundle --out FILE --archs 80,90,100,120``."""

from __future__ import annotations

import argparse
import sys
import time

from pygpukit import _core, errors


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pygpukit._bundle", description="Compiles every built-in kernel.")
    parser.add_argument("--out", required=True, help="the file to write")
    parser.add_argument("--archs", default="80,90,100,120", help="chips, e.g. 80,90,100,120")
    parser.add_argument("--threads", type=int, default=0, help="0: one per CPU")
    options = parser.parse_args(arguments)

    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 5 or done == total:
            last = now
            print(f"-- {done} of {total} kernel modules", flush=True)

    try:
        report = _core._build_bundle(options.out, options.archs.split(","), options.threads, progress)
    except errors.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.out}: {report['entries']} entries, {report['bytes'] / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
