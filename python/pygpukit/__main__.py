"""``python -m pygpukit``."""

from __future__ import annotations

import sys

from pygpukit.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
