"""bench/measure_attention.py and bench/measure_nn.py on the CPU, every size divided, against a stand-in for torch that
computes with ours."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pygpukit as gp
from pygpukit.benchmark import torch_layers

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {row["name"] for row in json.loads((ROOT / "bench/limits.json").read_text())}


class Tensor:
    """As much of a tensor as the measurements use."""

    def __init__(self, array):
        self.array = array

    def copy_(self, other):
        gp.copy_to(other.array, self.array)
        return self

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def layer_calls(torch, kind, inputs, options):
    """The ways of a library that has two, of which one fails."""

    def fail():
        raise RuntimeError("no kernel for this")

    def attend():
        return Tensor(gp.attention(inputs["q"], inputs["k"], inputs["v"], **options))

    def decode():
        q = inputs["q"]
        return Tensor(gp.attention(q.reshape(q.shape[0], 1, *q.shape[1:]), inputs["k"], inputs["v"]))

    calls = {
        "attention": attend,
        "decode": decode,
        "sampling": lambda: Tensor(gp.sample(inputs["logits"], seed=2, **options)),
        "conv1d": lambda: Tensor(gp.conv1d(inputs["x"], inputs["w"], inputs["b"], **options)),
        "lstm": lambda: Tensor(gp.lstm_forward(*inputs.values(), **options)[0]),
    }
    return {{"sampling": "sort", "lstm": "lstm"}.get(kind, "good"): calls[kind], "bad": fail}


@pytest.fixture
def torch(monkeypatch):
    module = ModuleType("torch")
    module.__version__ = "stand-in"
    module.from_dlpack = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(torch_layers, "layer_calls", layer_calls)
    return module


@pytest.fixture
def measure(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import contest
    import measure as program
    import measure_attention
    import measure_nn

    monkeypatch.setattr(contest, "DIVIDE", 128)
    report = program.Report(tmp_path / "result.json", {"name": "CPU"})
    groups = {"at_": measure_attention.GROUPS, "nn_": measure_nn.GROUPS}
    assert program.GROUPS.keys() >= {name for group in groups.values() for name in group}
    with gp.device("cpu"):
        yield SimpleNamespace(groups=groups, report=report, contest=contest, attention=measure_attention)


@pytest.mark.parametrize("prefix", ["at_", "nn_"])
def test_every_limit_is_measured(measure, torch, prefix):
    for group in measure.groups[prefix].values():
        group(gp, torch, measure.report)
    data = json.loads(measure.report.path.read_text())
    wanted = {name for name in LIMITS if name.startswith(prefix)}
    assert wanted and data["figures"].keys() >= wanted
    # Only the way that fails was noted.
    assert all("torch bad" in what for what in data["faults"]), data["faults"]
    for name in wanted:
        assert data["figures"][name]["value"] > 0, name


def test_no_way_of_torch_is_no_figure(measure, torch, monkeypatch):
    monkeypatch.setattr(torch_layers, "layer_calls", lambda *a: {"bad": layer_calls(*a)["bad"]})
    measure.groups["at_"]["at_prefill"](gp, torch, measure.report)
    assert not measure.report.data["figures"]
    faults = measure.report.data["faults"]
    assert "no backend of torch takes this shape" in faults["at_prefill_bf16_d64_full_2048_vs_torch"]


def test_drawn_shapes_are_in_range(measure):
    import random

    rng = random.Random(1)
    shapes = [measure.attention.drawn_shape(rng) for _ in range(500)]
    assert all(1 <= s["batch"] <= 16 and 4 <= s["heads"] <= 64 for s in shapes)
    assert all(s["heads"] % s["kv_heads"] == 0 and s["keys"] >= s["queries"] >= 1 for s in shapes)
    assert {s["dim"] for s in shapes} == set(measure.attention.DIMS)
    assert max(s["queries"] for s in shapes) > 4000


def test_fused_chains_are_measured(measure, torch):
    import measure_fuse

    measure_fuse.measure_chain(gp, torch, measure.report)
    figures = json.loads(measure.report.path.read_text())["figures"]
    assert {name: figures[name]["value"] > 0 for name in ("fuse_chain10_f32_vs_copy", "fuse_chain10_bf16_vs_copy")}
    assert all("copy" in name for name in figures) and not measure.report.data.get("faults")


def test_linear_algebra_and_sorts_are_measured(measure, torch):
    import measure_linalg

    def stand_in(op, function=None):
        function = function or getattr(gp.linalg, op)
        return lambda *tensors, **options: function(*(t.array for t in tensors))

    calls = {op: stand_in(op) for op in ("qr", "eigh", "svd")}
    torch.linalg = SimpleNamespace(cholesky_ex=stand_in("cholesky"), solve_ex=stand_in("solve"), **calls)
    torch.sort, torch.argsort = stand_in("sort", gp.sort), stand_in("argsort", gp.argsort)
    for group in measure_linalg.GROUPS.values():
        group(gp, torch, measure.report)
    data = measure.report.data
    assert not data.get("faults")
    wanted = {name for name in LIMITS if name.endswith("_least") and name.startswith(("linalg_", "sort_", "argsort_"))}
    assert len(wanted) == 10 and all(data["figures"][name]["value"] > 0 for name in wanted)
    for _ in range(100):
        sizes = measure_linalg.drawn((512, 4096))
        assert sizes[0] == 512 and sizes[-1] == 4096 and sizes == sorted(sizes)
