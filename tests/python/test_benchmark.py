"""The benchmark suite, on the CPU with small sizes: `pygpukit bench`, its reports, its exit codes."""

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import benchmark
from pygpukit.benchmark import (
    Benchmark,
    BenchmarkReport,
    BenchmarkResult,
    BenchmarkSuite,
    Ceiling,
    Effort,
    GEMMBenchmark,
    GEMVBenchmark,
    GPUInfo,
    NotRun,
    PeerResult,
    compare_reports,
    get_gpu_info,
    markdown,
    measure_kernel,
    peers,
    roofline,
    terminal_table,
)
from pygpukit.benchmark.reference import sampled_error
from pygpukit.benchmark.timing import Timer, enough_calls, take_turns
from pygpukit.cli import main

SMALL = ["--gemm", "--sizes", "33", "--warmup", "0", "--iterations", "3"]
GPU_KEYS = {"name", "sm_major", "sm_minor", "memory_gb", "driver_version", "cuda_version"}
RESULT_KEYS = {
    "name", "category", "params", "median_us", "min_us", "max_us", "std_us", "tflops", "bandwidth_gbps", "correct",
    "rel_error", "iterations", "timestamp",
}  # fmt: skip
QUANTISED = hasattr(gp, "scaled_matmul") and hasattr(gp, "quantize")


@pytest.fixture
def cpu():
    with gp.device("cpu"):
        yield


def suite(**options):
    return BenchmarkSuite(**{"warmup": 0, "iterations": 3, **options})


def result(name="gemm_fp32_8x8x8", median=100.0, correct=True, **more):
    return BenchmarkResult(
        name, "gemm", {"dtype": "fp32"}, median, 90.0, 120.0, 5.0, 2.0, 500.0, correct, 1e-7, 3, **more
    )


def report(*results, name="Some GPU"):
    return BenchmarkReport(GPUInfo(name, 9, 0, 141.0, "580.1", "13.0"), list(results))


class Fake(Timer):
    clock = "fake"

    def __init__(self, us, log):
        super().__init__([lambda: None, lambda: None])
        self.us, self.log = us, log

    def pass_us(self, passes):
        self.log.append((self.us, passes))
        return self.us


# Timing


def test_measure_kernel_counts_and_orders():
    calls, waits = [], []
    median, low, high, deviation = measure_kernel(
        lambda: calls.append(1), warmup=2, iterations=5, sync_fn=lambda: waits.append(1)
    )
    assert len(calls) == 7 and len(waits) == 7
    assert 0 <= low <= median <= high and deviation >= 0


def test_measure_kernel_of_our_own_call(cpu):
    x = gp.ones((100,))
    assert measure_kernel(lambda: gp.add(x, x), 1, 3)[0] > 0


@pytest.mark.parametrize(("counts", "argument"), [({"iterations": 0}, "iterations"), ({"warmup": -1}, "warmup")])
def test_counts_are_checked(counts, argument):
    with pytest.raises(gp.ArgumentError, match=f"measure_kernel: {argument}: got"):
        measure_kernel(lambda: None, **counts)
    with pytest.raises(gp.ArgumentError, match=f"{argument}: got"):
        BenchmarkSuite(**counts)


def test_contenders_take_turns():
    log = []
    first, second = take_turns([Fake(10.0, log), Fake(20.0, log)], Effort(warmup=2, iterations=7))
    assert first.values == (5.0,) * 7 and second.values == (10.0,) * 7  # two calls a pass
    measured = [us for us, _ in log[2 * 3 :]]  # after two warm-ups and one estimate each
    changes = sum(a != b for a, b in itertools.pairwise(measured))
    assert measured.count(10.0) == 7 and measured.count(20.0) == 7 and changes == 9


def test_a_turn_lasts():
    log = []
    take_turns([Fake(10.0, log)], Effort(warmup=0, iterations=10, turn_us=1000.0))
    assert [passes for _, passes in log[1:]] == [50] * 10  # two samples a turn, 500 us each


# Correctness


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 33, 700), (40, 17, 5), (100, 64, 600)])
def test_sampled_error_of_a_right_product(cpu, shape):
    m, k, n = shape
    a, b = gp.random.normal((m, k), seed=1, dtype="float64"), gp.random.normal((k, n), seed=2, dtype="float64")
    assert sampled_error(a, b, gp.matmul(a, b)) < 1e-14


@pytest.mark.parametrize("wrong", ["row", "column", "tile", "unwritten"])
def test_sampled_error_of_a_wrong_product(cpu, wrong):
    a, b = gp.random.normal((96, 16), seed=1), gp.random.normal((16, 96), seed=2)
    out = gp.matmul(a, b).to_numpy()
    if wrong == "row":
        out[40:44] *= 2
    elif wrong == "column":
        out[:, 7:12] = 0
    elif wrong == "tile":
        out[32:64, 64:96] = 0
    else:
        out[95, 95] = np.nan
    assert sampled_error(a, b, gp.from_numpy(out)) > 0.1


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_products_are_correct_and_complete(cpu, dtype):
    case = GEMMBenchmark(40, 33, 70, dtype)
    found = case.run(Effort(0, 4))
    assert found.name == f"gemm_{dtype}_40x33x70" and found.category == "gemm"
    assert found.correct is True and 0 < found.rel_error <= benchmark.cases.BOUNDS[dtype]
    assert found.iterations == 4 and found.clock == "host clock"
    assert found.min_us <= found.p5_us <= found.median_us <= found.p95_us <= found.max_us
    item = 4 if dtype == "fp32" else 2
    assert found.tflops == pytest.approx(2 * 40 * 33 * 70 / found.median_us / 1e6)
    assert found.bandwidth_gbps == pytest.approx((40 * 33 + 33 * 70 + 40 * 70) * item / found.median_us / 1e3)


def test_matrix_vector_has_a_measured_ceiling(cpu):
    found = GEMVBenchmark("tiny", 64, 96).run(Effort(0, 3))
    assert found.name == "gemv_bf16_tiny" and found.correct is True
    assert found.params["label"] == "tiny" and found.params["m"] == 1
    assert found.share_of_ceiling > 0 and "reads" in found.ceiling


@pytest.mark.parametrize("name", ["gemm_fp8_32x128x64", "gemv_fp8_tiny", "gemv_nvf4_tiny", "gemv_w8a8_tiny"])
def test_quantised_products_run_or_say_why_not(cpu, name):
    tiny = {"tiny": (128, 64)}
    shapes = suite().add_gemv(tiny, ["fp8", "nvf4"]).add_w8a8_gemv(tiny)
    shapes.add(benchmark.FP8GEMMBenchmark(32, 128, 64))
    case = next(case for case in shapes.benchmarks if case.name == name)
    if QUANTISED:
        found = case.run(Effort(0, 2))
        assert found.correct is True, found.rel_error
    else:
        assert case.obstacle().startswith("not yet: this version has no ")
        with pytest.raises(gp.UnsupportedError, match=name):
            case.run()


def test_tf32_is_not_pretended_on_the_cpu(cpu):
    found = suite().add_gemm([32], ["tf32"]).run(verbose=False)
    assert found.results == [] and found.memory_ceiling is None
    assert found.not_run == [NotRun("gemm_tf32_32x32x32", "the CPU has no TF32; it multiplies float32 exactly")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GEMMBenchmark(8, 8, 8, "fp64"), "dtype: got 'fp64', wanted one of fp32"),
        (lambda: GEMMBenchmark(8, 0, 8), "GEMMBenchmark: k: got 0"),
        (lambda: GEMVBenchmark("x", 8, 8, "fp32"), "wanted one of bf16, fp8, nvf4"),
        (lambda: benchmark.SDPABenchmark(0), "seq_len: got 0"),
        (lambda: benchmark.DecodeBenchmark(8, "9B"), "label: got '9B', wanted one of 7B, 8B"),
        (lambda: benchmark.DecodeBenchmark(8, cache="fp4"), "cache: got 'fp4'"),
        (lambda: benchmark.SamplingBenchmark(0), "rows: got 0"),
        (lambda: benchmark.ConvBenchmark("x"), "label: got 'x'"),
        (lambda: suite().add_gemm([8], ["int8"]), "add_gemm: dtypes: got 'int8'"),
        (lambda: suite().add_gemv(dtypes=["tf32"]), "add_gemv: dtypes: got 'tf32'"),
    ],
)
def test_wrong_cases_are_named(cpu, make, message):
    with pytest.raises(gp.ArgumentError, match=message):
        make()


# Suite


def test_exported_names_are_those_of_0_2():
    assert set(benchmark.__all__) >= {
        "Benchmark", "BenchmarkReport", "BenchmarkResult", "BenchmarkSuite", "ComparisonResult", "FP8GEMMBenchmark",
        "GEMMBenchmark", "GEMVBenchmark", "GPUInfo", "GQABenchmark", "Regression", "SDPABenchmark", "W8A8GEMVBenchmark",
        "compare_reports", "get_gpu_info", "measure_kernel", "run_full", "run_quick",
    }  # fmt: skip


def test_import_of_the_package_leaves_the_suite_alone():
    code = (
        "import sys, pygpukit; print('pygpukit.benchmark' in sys.modules, pygpukit.benchmark.BenchmarkSuite.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False BenchmarkSuite\n", done.stderr


def test_names_of_all_cases(cpu):
    everything = suite().add_all()
    names = [case.name for case in everything.benchmarks]
    assert len(names) == len(set(names))
    for name in ("gemm_tf32_128x128x128", "gemm_fp8_256x256x256", "gemv_bf16_7B_hidden", "gemv_nvf4_7B_hidden",
                 "gemv_w8a8_7B_hidden", "sdpa_seq64", "gqa_seq128", "decode_fp8_8B_kv256", "sample_4x4096",
                 "conv1d_fp32_tiny"):  # fmt: skip
        assert name in names
    shapes = benchmark.cases.GEMV_SHAPES
    assert list(shapes) == ["7B_hidden", "7B_mlp_up", "7B_mlp_down", "72B_hidden", "72B_mlp_up", "72B_mlp_down"]
    assert shapes["7B_mlp_up"] == (4096, 14336) and shapes["72B_mlp_down"] == (29568, 8192)


def test_quick_takes_fewer(cpu):
    assert (BenchmarkSuite().effort.warmup, BenchmarkSuite().effort.iterations) == (10, 50)
    quick = BenchmarkSuite(quick=True)
    assert (quick.effort.warmup, quick.effort.iterations) == (5, 20)
    assert len(quick.add_gemm().benchmarks) < len(BenchmarkSuite().add_gemm().benchmarks)
    assert BenchmarkSuite(iterations=3, quick=True).effort.iterations == 3


def test_run_gives_shares_of_the_best_of_the_run(cpu, capsys):
    found = suite(peers=True).add_gemm([16, 48], ["fp32"]).run()
    assert [r.name for r in found.results] == ["gemm_fp32_16x16x16", "gemm_fp32_48x48x48"]
    ceiling = found.compute_ceilings["fp32"]
    rates = [r.tflops for r in found.results]
    rates += [r.tflops / peer.ratio for r in found.results for peer in r.peers.values()]
    assert ceiling.rate == pytest.approx(max(rates)) and ceiling.by.split(" at ")[0] in {
        "pygpukit",
        *found.results[0].peers,
    }
    for r in found.results:
        assert r.share_of_ceiling == pytest.approx(r.tflops / ceiling.rate) and ceiling.by in r.ceiling
        numpy = r.peers["numpy"]
        assert numpy.ratio == pytest.approx(numpy.median_us / r.median_us)
        assert numpy.work == "the same product" and 0 < numpy.rel_error < 1e-5
    assert found.memory_ceiling.rate > 0
    shown = capsys.readouterr()
    assert (
        shown.out == ""
        and "[2/2] gemm_fp32_48x48x48: " in shown.err
        and "x numpy, " in shown.err
        and shown.err.endswith("correct\n")
    )


def test_peers_that_are_absent_are_named(cpu):
    found = suite(peers=True).add_gemm([16], ["bf16"]).run(verbose=False)
    assert "numpy" not in found.results[0].peers  # it has no bfloat16
    if importlib.util.find_spec("torch") is None:
        assert found.not_run == [NotRun("torch", "No module named 'torch'")]
    else:
        assert found.results[0].peers["torch"].rel_error < 4e-3


@pytest.mark.parametrize(("dtype", "precision"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "highest")])
def test_torch_multiplies_in_the_precision_of_the_case(cpu, dtype, precision):
    used, state = [], ["medium"]
    torch = SimpleNamespace(
        __version__="0", from_dlpack=lambda x: x, mm=lambda a, b, out: used.append(state[0]),
        get_float32_matmul_precision=lambda: state[0], set_float32_matmul_precision=lambda p: state.__setitem__(0, p),
    )  # fmt: skip
    x = gp.ones((2, 2))
    peers._Torch(torch, on_gpu=True).product(dtype, x, x, x)()
    assert used == [precision] and state == ["medium"]


def test_a_peer_that_fails_is_named(cpu):
    class Failing(peers._Numpy):
        name = "failing"

        def product(self, dtype, a, b, out):
            raise RuntimeError("no kernel\nmore")

    found = GEMMBenchmark(8, 8, 8, "fp32").run(Effort(0, 1), [Failing(), peers._Numpy()])
    assert list(found.peers) == ["numpy"] and found.peer_faults == {"failing": "RuntimeError: no kernel"}
    assert "not run: failing at gemm_fp32_8x8x8: RuntimeError: no kernel" in terminal_table(report(found))


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="the system has no load average")
@pytest.mark.parametrize("busy", [True, False])
def test_a_busy_machine_is_noted(cpu, monkeypatch, busy):
    monkeypatch.setattr(os, "getloadavg", lambda: (os.cpu_count() + (0.5 if busy else -0.5), 0.0, 0.0))
    found = suite().add_gemm([8], ["fp32"]).run(verbose=False)
    assert len(found.notes) == busy and ("note: the machine is busy: load" in terminal_table(found)) == busy


def test_a_case_of_your_own(cpu):
    class Addition(Benchmark):
        category = name = "addition"
        params = None

        def obstacle(self):
            return None

        def run(self, effort, peers=()):
            return BenchmarkResult(self.name, self.category, {}, 1.0, 1.0, 1.0, 0.0)

    found = suite().add(Addition()).run(verbose=False)
    assert [r.name for r in found.results] == ["addition"] and found.compute_ceilings == {}
    assert "not checked" in terminal_table(found)


def test_too_little_memory_ends_one_case_only(cpu, monkeypatch):
    def fail(self, effort, peers):
        raise gp.OutOfMemoryError("8 GiB wanted")

    monkeypatch.setattr(GEMVBenchmark, "run", fail)
    found = suite().add_gemv({"tiny": (8, 8)}, ["bf16"]).add_gemm([8], ["fp32"]).run(verbose=False)
    assert [r.name for r in found.results] == ["gemm_fp32_8x8x8"]
    assert found.not_run == [NotRun("gemv_bf16_tiny", "out of memory: 8 GiB wanted")]


# Reports


def test_gpu_info_on_the_cpu(cpu):
    info = get_gpu_info()
    assert info.sm_major == 0 and info.memory_gb > 0 and info.cuda_version == ""


def test_report_round_trip(tmp_path):
    one = result(p5_us=91.0, peers={"torch": PeerResult(90.0, 0.9, "the same product", "graph", 1e-7)})
    saved = report(one, result("other", correct=False))
    saved.not_run.append(NotRun("sdpa_seq512", "not yet"))
    saved.memory_ceiling = Ceiling(4500.0, "a read")
    saved.compute_ceilings["fp32"] = Ceiling(50.0, "torch")
    saved.notes.append("busy")
    path = tmp_path / "report.json"
    saved.save(path)
    assert BenchmarkReport.load(path) == saved
    assert BenchmarkResult.from_dict(one.to_dict()) == one
    data = json.loads(path.read_text())
    assert set(data) >= {"version", "timestamp", "gpu", "results"} and set(data["gpu"]) == GPU_KEYS
    assert all(set(r) >= RESULT_KEYS for r in data["results"]) and data["version"] == gp.__version__


def test_a_report_of_0_2_is_read(tmp_path):
    path = tmp_path / "old.json"
    data = report(result()).to_dict()
    old = {key: data[key] for key in ("version", "timestamp", "gpu")}
    old["results"] = [{key: data["results"][0][key] for key in RESULT_KEYS} | {"unknown": 1}]
    path.write_text(json.dumps(old))
    assert BenchmarkReport.load(path).results == [result(timestamp=data["results"][0]["timestamp"])]


def test_an_error_that_is_no_number_is_null_in_json(tmp_path):
    broken = result(correct=False)
    broken.rel_error = float("inf")
    report(broken).save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["results"][0]["rel_error"] is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gpu": 3}', '{"gpu": {"name": "x"}}', "no json"])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(gp.ArgumentError, match=r"x\.json: not a report of the benchmark suite"):
        BenchmarkReport.load(path)


def test_markdown_is_grouped():
    other = result("gemv_bf16_a")
    other.category = "gemv"
    lines = markdown(report(result(), other)).splitlines()
    assert lines.count("| Name | Time (us) | TFLOPS | Correct |") == 2
    assert lines.index("## gemm") < lines.index("| gemm_fp32_8x8x8 | 100.0 | 2 | yes |") < lines.index("## gemv")


def test_table_says_everything():
    one = result(p5_us=91.0, p95_us=119.0, share_of_ceiling=0.5, clock="a clock")
    one.peers["torch"] = PeerResult(97.0, 0.97, "the same product", "a graph")
    shown = report(one)
    shown.not_run.append(NotRun("sdpa_seq512", "not yet"))
    shown.memory_ceiling = Ceiling(4500.0, "a read")
    text = terminal_table(shown)
    for part in ("SM 9.0", "91.0 - 119.0", "2 TFLOP/s", "50 %", "vs torch", "0.97x", "1.0e-07", "yes", "4.5 TB/s by a read",
                 "time: a clock", "peer torch: the same product, a graph", "not run: sdpa_seq512: not yet"):  # fmt: skip
        assert part in text, part


# Roofline


def circles(picture):
    tree = ElementTree.fromstring(picture)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    return [c for c in tree.iter("{http://www.w3.org/2000/svg}circle") if len(c)]


def test_roofline_has_every_point_inside():
    one = result("a < b & c")
    one.peers["torch"] = PeerResult(97.0, 0.97, "the same product", "a graph")
    one.peers["other"] = PeerResult(97.0, 0.97, "the bf16 product", "a graph")
    fast = result("fast")
    fast.tflops, fast.bandwidth_gbps = 900.0, 300.0
    drawn = report(one, fast)
    drawn.memory_ceiling, drawn.compute_ceilings["fp32"] = Ceiling(4500.0, "a read"), Ceiling(950.0, "torch")
    points = circles(roofline(drawn))
    assert len(points) == 3  # ours twice, the peer that did the same
    for point in points:
        assert 70 <= float(point.get("cx")) <= 590 and 40 <= float(point.get("cy")) <= 430
    assert points[0][0].text == "a < b & c: 2 TFLOP/s"


def test_roofline_of_nothing():
    assert circles(roofline(report())) == []


# Comparison


def test_compare_finds_each_kind():
    before = report(result("slow"), result("fast"), result("same"), result("gone"), result("turned"))
    after = report(
        result("slow", 106.0), result("fast", 90.0), result("same", 104.0), result("turned", 50.0, correct=False),
        result("added"),
    )  # fmt: skip
    outcome = compare_reports(after, before)
    assert [r.result.name for r in outcome.regressions] == ["slow", "turned"] and outcome.has_regression
    assert outcome.regressions[0].delta_percent == pytest.approx((100 / 106 - 1) * 100)
    assert [r.result.name for r in outcome.improvements] == ["fast"] and outcome.improvements[0].delta_percent > 0
    assert outcome.missing == ["gone"] and outcome.new == ["added"]
    text = outcome.summary()
    assert "REGRESSION slow: 100.0 us -> 106.0 us (-5.7 %)" in text and "the result is WRONG now" in text
    assert "missing: gone" in text and "new: added" in text and text.endswith("\nregression")


def test_threshold_is_a_share_of_the_speed():
    before, after = report(result(median=100.0)), report(result(median=125.0))  # 0.8 of the speed
    assert compare_reports(after, before, threshold=0.19).has_regression
    assert not compare_reports(after, before, threshold=0.21).has_regression
    with pytest.raises(gp.ArgumentError, match="threshold: got 1.5"):
        compare_reports(after, before, threshold=1.5)


def test_another_device_is_said():
    assert "another device: X, now Y" in compare_reports(report(name="Y"), report(name="X")).summary()


def test_suite_compares_with_a_file(cpu, tmp_path, capsys):
    ours = suite().add_gemm([16], ["fp32"])
    ours.run(verbose=False).save(tmp_path / "r.json")
    outcome = ours.compare(tmp_path / "r.json")
    assert not outcome.has_regression and outcome.compared == 1
    assert capsys.readouterr().out.endswith("no regression\n")


# The command


def bench(*arguments):
    return main(["bench", *arguments])


def test_command_saves_and_draws(cpu, tmp_path, capsys):
    saved, drawn = tmp_path / "r.json", tmp_path / "r.svg"
    assert bench(*SMALL, "--save", str(saved), "--roofline", str(drawn), "--peers") == 0
    shown = capsys.readouterr()
    assert "gemm_bf16_33x33x33" in shown.out and "vs numpy" in shown.out and "[3/3]" in shown.err
    names = [r.name for r in BenchmarkReport.load(saved).results]
    assert names == [f"gemm_{dtype}_33x33x33" for dtype in ("fp32", "fp16", "bf16")]
    assert len(circles(drawn.read_text())) >= 4  # and NumPy's


def test_command_runs_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pygpukit.benchmark", *SMALL, "--dtypes", "fp32", "--quiet", "--save", str(tmp_path / "r.json")],
        capture_output=True, text=True, env={**os.environ, "PYGPUKIT_DEVICE": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert [r.iterations for r in BenchmarkReport.load(tmp_path / "r.json").results] == [3]


def test_no_selection_is_gemm_and_gemv(cpu, capsys):
    assert bench("--quick", "--iterations", "1", "--warmup", "0", "--dtypes", "bf16", "--markdown", "--quiet") == 0
    shown = capsys.readouterr()
    assert "## gemm" in shown.out and "| gemv_bf16_7B_hidden |" in shown.out and shown.err == ""


def test_fp8_selects_both(cpu, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark.suite, "GEMV_SHAPES", {"7B_hidden": (128, 64)})
    assert bench("--fp8", "--sizes", "64", "--iterations", "1", "--warmup", "0") == 0
    shown = capsys.readouterr().out
    assert "gemm_fp8_64x64x64" in shown and "gemv_w8a8_7B_hidden" in shown and "gemm_fp32" not in shown


def test_a_wrong_result_exits_1(cpu, capsys, monkeypatch):
    monkeypatch.setattr(gp, "matmul", lambda a, b, out, use_tf32: gp.copy_to(gp.zeros_like(out), out))
    assert bench(*SMALL, "--dtypes", "fp32", "--quiet") == 1
    assert "wrong results: gemm_fp32_33x33x33" in capsys.readouterr().err


def test_injected_regression_exits_1(cpu, capsys, tmp_path):
    saved = tmp_path / "r.json"
    small = [*SMALL, "--dtypes", "fp32", "--quiet"]
    assert bench(*small, "--save", str(saved)) == 0
    compared = [*small, "--compare", str(saved), "--fail-on-regression"]
    baseline = BenchmarkReport.load(saved)
    baseline.results[0].median_us *= 1000  # what runs now is far faster
    baseline.save(saved)
    assert bench(*compared) == 0 and capsys.readouterr().out == ""
    baseline.results[0].median_us /= 1e6
    baseline.save(saved)
    assert bench(*compared) == 1
    assert "REGRESSION gemm_fp32_33x33x33" in capsys.readouterr().out
    assert bench(*compared[:-1]) == 0  # compared, not judged
    assert "REGRESSION" in capsys.readouterr().out
    assert bench(*compared, "--threshold", "0.999999") == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--sizes", "0"], "wanted whole numbers above 0, got 0"),
        (["--sizes", "12,x"], "wanted whole numbers above 0, got x"),
        (["--sizes", ","], "is empty"),
        (["--seq-lens", "-5"], "--seq-lens"),
        (["--warmup", "-1"], "--warmup"),
        (["--iterations", "0"], "--iterations"),
        (["--threshold", "1"], "wanted a share"),
        (["--threshold", "x"], "wanted a share"),
        (["--nothing"], "unrecognized"),
        (["--dtypes", "fp64"], "--dtypes: got fp64, the selection has fp32, tf32, fp16, bf16, fp8, nvf4"),
        (["--gemv", "--sizes", "64"], "--sizes are those of --gemm and --fp8"),
        (["--gemm", "--seq-lens", "64"], "--seq-lens are those of --attention and --decode"),
        (["--gemm", "--dtypes", "nvf4"], "--dtypes: got nvf4, the selection has fp32"),
        (["--attention", "--dtypes", "bf16"], "select --gemm or --gemv"),
        (["--fail-on-regression"], "--fail-on-regression needs --compare FILE"),
        (["--compare", "/nowhere/r.json"], "No such file"),
        (["--compare", __file__], "not a report of the benchmark suite"),
        (["--save", "/nowhere/r.json"], "--save: cannot write /nowhere/r.json"),
        (["--roofline", "/"], "--roofline: cannot write /"),
    ],
)
def test_wrong_usage_exits_2(cpu, wrong, message, capsys):
    try:
        code = bench(*wrong)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_help_names_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        bench("--help")
    assert "Exit codes: 0 good; 1 a wrong result" in capsys.readouterr().out


# On a GPU


@pytest.mark.parametrize("count, us, expected", [(1, 1, 16), (5, 1, 20), (20, 1, 20), (2, 4000, 2)])
def test_graphs_have_enough_calls(monkeypatch, count, us, expected):
    done = []
    monkeypatch.setattr("time.perf_counter_ns", lambda: len(done) * us * 1000)
    assert len(enough_calls([lambda: done.append(0)] * count, lambda: None)) == expected
    assert len(done) == 2 * count
