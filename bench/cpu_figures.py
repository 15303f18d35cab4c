"""The file of figures that measure_cpu.py and measure_cpu_ops.py write together."""

from __future__ import annotations

import json
from pathlib import Path


def report(measured: dict[str, object], out: Path | None) -> None:
    """Prints figures and adds them to those of a file."""
    print(json.dumps(measured, indent=1, sort_keys=True))
    if out:
        known = json.loads(out.read_text()) if out.exists() else {}
        out.write_text(json.dumps(known | measured, indent=1, sort_keys=True) + "\n")
