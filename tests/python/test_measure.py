"""bench/measure_matmul.py on the CPU, every size divided, against a stand-in for torch that multiplies with ours."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pygpukit as gp

ROOT = Path(__file__).resolve().parents[2]
NAMES = {row["name"] for row in json.loads((ROOT / "bench/limits.json").read_text()) if row["name"].startswith("mm_")}
STAND_IN_LACKS = {"mm_gemv_int4_min_vs_torch_int4"}  # the torch of these tests has no packed int4


class Tensor:
    """As much of a tensor as the measurements use."""

    def __init__(self, array):
        self.array = array

    def t(self):
        return Tensor(self.array.T)

    def view(self, dtype):
        return Tensor(gp.bitcast(self.array, dtype))

    def add_(self, other):
        return Tensor(gp.add(self.array, other.array, out=self.array))

    def mul_(self, other):
        return Tensor(gp.mul(self.array, other.array, out=self.array))

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def product(x, y, out=None):
    into = {} if out is None else {"out": out.array, "out_dtype": out.array.dtype}
    return Tensor(gp.matmul(x.array, y.array, **into))


def scaled_product(x, y, scale_x, scale_y, out_dtype, use_fast_accum, out):
    scale = scale_y.array if scale_y.array.ndim == 0 else scale_y.array.T
    return Tensor(gp.scaled_matmul(x.array, y.array.T, scale_x.array, scale, out=out.array))


@pytest.fixture
def torch(monkeypatch):
    module = ModuleType("torch")
    module.__version__ = "stand-in"
    module.from_dlpack = Tensor
    module.mm = module.matmul = module._int_mm = product
    module._scaled_mm = scaled_product
    module.addmm = lambda r, x, w: product(x, w).add_(r)
    module.bfloat16, module.float8_e4m3fn = "bfloat16", "float8_e4m3"
    module.get_float32_matmul_precision = lambda: "highest"
    module.set_float32_matmul_precision = lambda precision: None
    functional = SimpleNamespace(
        linear=lambda x, w, b=None: Tensor(gp.linear(x.array, w.array, None if b is None else b.array)),
        gelu=lambda x, approximate: Tensor(gp.gelu(x.array)),
        silu=lambda x: Tensor(gp.silu(x.array)),
    )
    module.nn = SimpleNamespace(functional=functional)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def measure(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setenv("PYGPUKIT_DEVICE", "cpu")  # for the processes that are started
    import contest
    import measure as program
    import measure_matmul

    monkeypatch.setattr(contest, "DIVIDE", 128)
    report = program.Report(tmp_path / "result.json", {"name": "CPU"})
    with gp.device("cpu"):
        yield SimpleNamespace(groups=measure_matmul.GROUPS, report=report, contest=contest)


def run_all(measure, torch):
    for group in measure.groups.values():
        group(gp, torch, measure.report)
    return json.loads(measure.report.path.read_text())


def test_every_limit_of_a_matrix_product_is_measured(measure, torch):
    data = run_all(measure, torch)
    assert data["figures"].keys() >= NAMES - STAND_IN_LACKS
    assert {name.split()[-1] for name in data["faults"]} == {"torch_int4", *STAND_IN_LACKS}
    shapes = data["figures"]["mm_llm_nk_shapes"]["shapes"]
    assert len(shapes) == 32
    ratios = [figure["vs_torch"] for figure in shapes.values()]
    assert data["figures"]["mm_llm_nk_min_vs_torch"]["value"] == min(ratios)
    assert min(ratios) <= data["figures"]["mm_llm_nk_geomean_vs_torch"]["value"] <= max(ratios)


def test_a_peer_that_fails_costs_its_own_figures_alone(measure, torch):
    def broken(*args, **options):
        raise RuntimeError("no such product")

    torch._int_mm = torch._scaled_mm = torch.addmm = broken
    data = run_all(measure, torch)
    lost = {name for name in NAMES - STAND_IN_LACKS if name not in data["figures"]}
    assert lost == {name for name in NAMES if name.startswith(("mm_int8", "mm_fp8_tensor", "mm_fp8_row"))}
    assert "no such product" in data["faults"]["mm_int8_4096_nk_vs_torch"]


def test_a_wrong_result_has_no_speed(measure, torch):
    torch.mm = lambda x, y, out: Tensor(gp.add(product(x, y, out).array, 5, out=out.array))
    measure.groups["mm_square"](gp, torch, measure.report)
    assert not measure.report.data["figures"]
    assert "results differ" in measure.report.data["faults"]["mm_bf16_1024_vs_torch"]


def test_geometric_mean_and_tenth_percentile(measure):
    assert measure.contest.geomean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    assert measure.contest.tenth([0.2, 1.0, 1.1]) == pytest.approx(0.36)
