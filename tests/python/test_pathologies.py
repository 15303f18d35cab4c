"""The programs of examples/pathologies find ours free of each fault, and find the fault when it is put there."""

import importlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import DEVICES

import pygpukit as gp

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/pathologies"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "report.py")
sys.path.insert(0, str(FOLDER))


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ours_is_free_of_it(name, where, tmp_path):
    env = dict(os.environ, PYGPUKIT_DEVICE=where)
    run = subprocess.run(
        [sys.executable, FOLDER / name], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert sum(line.startswith("  ours: ") for line in lines) >= 3
    assert any(line.startswith(("  peer: ", "  skip: ")) for line in lines)
    assert "FAULT" not in run.stdout
    assert lines[-1].startswith(f"  0 faults on {where}")


class Graph:
    """A graph whose later replays write nothing."""

    def __init__(self):
        self.graph = kept_graph()
        self.replays = 0

    def capture(self):
        return self.graph.capture()

    def replay(self):
        self.replays += 1
        if self.replays < 100:
            self.graph.replay()

    def verify(self):
        return True


kept_graph = gp.CudaGraph
kept_matmul = gp.matmul
kept_quantize = gp.quantize


def one_scale(x, format, *, block=None):
    return kept_quantize(x, format, block="tensor")


def other_order_for_one_row(a, b, **options):
    """k from its end: the same number, other bits."""
    return kept_matmul(a[:, ::-1], b[::-1], **options) if a.shape[0] == 1 else kept_matmul(a, b, **options)


def shared(array):
    """The source's own memory, read when the result is."""
    return gp.from_dlpack(array)


@pytest.mark.parametrize(
    "program, name, faulty",
    [
        ("graph_replay", "CudaGraph", Graph),
        ("fp8_per_token", "quantize", one_scale),
        ("cublaslt_workspace", "matmul", other_order_for_one_row),
        ("hidden_h2d", "from_numpy", shared),
    ],
)
def test_the_fault_is_found(program, name, faulty, monkeypatch, capsys):
    module = importlib.import_module(program)
    monkeypatch.setattr(gp, name, faulty)
    monkeypatch.setattr(importlib.import_module("report"), "torch_with_gpu", lambda: None)
    with gp.device("cpu"):
        assert module.main() == 1
    assert "FAULT" in capsys.readouterr().out


def test_an_error_of_the_peer_is_said_and_is_no_fault(monkeypatch, capsys):
    report = importlib.import_module("report")
    monkeypatch.setattr(report, "torch_with_gpu", lambda: np)  # any module with a version
    found = report.Report("title")

    def fail(found, torch):
        raise ValueError("no such call")

    found.show_torch(fail)
    assert found.close() == 0
    assert f"torch {np.__version__} could not show it: ValueError: no such call" in capsys.readouterr().out


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_documented(name):
    assert (FOLDER / name).read_text().isascii()
    assert f"(../examples/pathologies/{name})" in (ROOT / "docs/pathologies.md").read_text()
    assert f"(pathologies/{name})" in (ROOT / "examples/README.md").read_text()
