"""The benchmark suite on a GPU, beside the peers that are installed."""

import importlib.util

import pytest

import pygpukit as gp
from pygpukit import benchmark
from pygpukit.benchmark import BenchmarkReport, Effort, GEMVBenchmark
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
