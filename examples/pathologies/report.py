"""What the programs of this folder share: the peer, if there is one here, and a report that ends in an exit status."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pygpukit as gp


class Report:
    """Prints what was found. Only checks of ours decide the exit status: 0 when all hold, 1 otherwise."""

    def __init__(self, title: str) -> None:
        print(title)
        self.faults = 0

    def peer(self, text: str) -> None:
        print("  peer:", text)

    def skip(self, text: str) -> None:
        print("  skip:", text)

    def check(self, what: str, measured: str, holds: bool) -> None:
        print(f"  ours: {what}: {measured}{'' if holds else '  FAULT'}")
        self.faults += not holds

    def close(self) -> int:
        print(f"  {self.faults} faults on {gp.ones((1,)).device}")
        return int(self.faults > 0)

    def show_torch(self, show: Callable[[Report, Any], None]) -> None:
        """Runs the peer's part where PyTorch has a GPU. What goes wrong there is said, and is no fault of ours."""
        torch = torch_with_gpu()
        if torch is None:
            self.skip("the fault on PyTorch needs PyTorch and a GPU")
            return
        try:
            show(self, torch)
        except Exception as error:
            self.skip(f"torch {torch.__version__} could not show it: {type(error).__name__}: {error}")


def torch_with_gpu() -> ModuleType | None:
    if not gp.is_cuda_available():
        return None
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def on_gpu() -> bool:
    """Whether new arrays of ours lie on a GPU."""
    return str(gp.ones((1,)).device).startswith("cuda")
