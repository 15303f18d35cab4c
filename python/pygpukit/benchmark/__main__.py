"""``python -m pygpukit.benchmark``, which is ``pygpukit bench``."""

from __future__ import annotations

import sys

from pygpukit.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
