"""The benchmark suite on a GPU, beside the peers that are installed."""

import importlib.util

import pytest

import pygpukit as gp
from pygpukit import benchmark
from pygpukit.benchmark import BenchmarkReport, Effort, GEMVBenchmark, sweep, timing
from pygpukit.benchmark.sweep import run as sweep_run
from pygpukit.cli import main


@pytest.mark.gpu
def test_command_on_the_gpu_with_peers(tmp_path, capsys):
    saved = tmp_path / "r.json"
    with gp.device("cuda"):
        assert main(["bench", "--quick", "--gemm", "--sizes", "1024", "--peers", "--save", str(saved)]) == 0
    found = BenchmarkReport.load(saved)
    assert found.gpu.sm_major >= 8 and found.memory_ceiling.rate > 100
    results = {r.name: r for r in found.results}
    assert set(results) == {f"gemm_{dtype}_1024x1024x1024" for dtype in ("fp32", "tf32", "fp16", "bf16")}
    for r in results.values():
        assert r.correct is True and r.clock == "GPU time of a graph of calls" and r.p5_us <= r.median_us
    if importlib.util.find_spec("torch") is not None:
        assert all(r.peers["torch"].rel_error <= benchmark.cases.BOUNDS[r.params["dtype"]] for r in results.values())
    if importlib.util.find_spec("cupy") is not None:
        assert results["gemm_fp32_1024x1024x1024"].peers["cupy"].rel_error <= 1e-5
    print(capsys.readouterr().out)


@pytest.mark.gpu
def test_matrix_vector_on_the_gpu_reads_past_the_cache():
    with gp.device("cuda"):
        found = GEMVBenchmark("small", 4096, 4096).run(Effort(2, 5))
    assert found.correct is True and 0 < found.share_of_ceiling < 1.1


@pytest.mark.gpu
@pytest.mark.parametrize("name", [family.name for family in sweep.FAMILIES if not family.name.startswith("few_")])
def test_every_family_of_the_sweep_is_timed(name, monkeypatch):
    """Small cases, in the graphs that are measured, beside the peer where there is one."""
    size = sweep.Draw.size

    def small(draw, low, high, step=1):
        return size(draw, low, max(low, 2 * step, min(high, 12 if high < 1 << 20 else 128)), step)

    monkeypatch.setattr(sweep.Draw, "size", small)
    monkeypatch.setattr(sweep_run, "num_copies", lambda nbytes: 2)
    monkeypatch.setattr(sweep_run, "_TURN_US", 1.0)
    monkeypatch.setattr(timing, "_GRAPH_CALLS", 2)
    with gp.device("cuda"):
        (row,) = sweep.run_sweep(sweep.find_families(name), 11, 1).rows[name]
    assert not row.wrong, (row.case, row.finding)
    assert row.us > 0
