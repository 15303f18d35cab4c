"""The suite: cases in a row, one report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pygpukit as gp
from pygpukit.benchmark.cases import (
    GEMM_DTYPES,
    GEMV_DTYPES,
    GEMV_SHAPES,
    Benchmark,
    FP8GEMMBenchmark,
    GEMMBenchmark,
    GEMVBenchmark,
    W8A8GEMVBenchmark,
)
from pygpukit.benchmark.ceilings import measure_memory
from pygpukit.benchmark.compare import ComparisonResult, check_threshold, compare_reports
from pygpukit.benchmark.language import LanguageDecodeBenchmark, LanguageModel, LanguagePrefillBenchmark
from pygpukit.benchmark.layers import (
    CACHES,
    CONVOLUTIONS,
    DECODE_HEADS,
    ConvBenchmark,
    DecodeBenchmark,
    GQABenchmark,
    SamplingBenchmark,
    SDPABenchmark,
)
from pygpukit.benchmark.peers import Peer, find_peers
from pygpukit.benchmark.report import BenchmarkReport, Ceiling, NotRun, get_gpu_info
from pygpukit.benchmark.text import one_line
from pygpukit.benchmark.timing import Effort
from pygpukit.errors import ArgumentError, OutOfMemoryError

__all__ = ["BenchmarkSuite", "run_full", "run_quick"]

_QUICK_WARMUP, _QUICK_ITERATIONS = 5, 20


class _Defaults:
    """Sizes where none are given: what fills a GPU takes minutes on the CPU."""

    def __init__(self, on_gpu: bool, quick: bool) -> None:
        sizes = (2048, 4096, 8192) if on_gpu else (128, 256, 512)
        self.sizes = sizes[:2] if quick else sizes
        wanted = list(GEMV_SHAPES) if on_gpu else ["7B_hidden"]
        labels = [label for label in wanted if label.startswith("7B")] if quick else wanted
        self.shapes = {label: GEMV_SHAPES[label] for label in labels}
        self.sdpa_lengths = (512, 1024, 2048, 4096) if on_gpu else (64, 128)
        self.gqa_lengths = (512, 1024, 2048) if on_gpu else (64, 128)
        self.decode_keys = (4096, 32768, 131072) if on_gpu else (256,)
        self.sampling = ((1, 152064), (64, 152064)) if on_gpu else ((1, 4096), (4, 4096))
        self.convolutions = CONVOLUTIONS if on_gpu else {"tiny": {"ins": 16, "outs": 24, "length": 300, "taps": 3}}
        if quick:
            self.sdpa_lengths, self.gqa_lengths = self.sdpa_lengths[:2], self.gqa_lengths[:2]
            self.decode_keys = self.decode_keys[:1]
        self.turn_us = (20e3 if quick else 300e3) if on_gpu else 0.0


class BenchmarkSuite:
    """Cases, run one after the other on the default device.

    quick takes at most 5 passes of warm-up and 20 samples, and fewer sizes. peers=True measures PyTorch and CuPy (NumPy on
    the CPU) in turns with ours.
    """

    def __init__(self, warmup: int = 10, iterations: int = 50, quick: bool = False, *, peers: bool = False) -> None:
        on_gpu = gp.default_device().kind == "cuda"
        self._defaults = _Defaults(on_gpu, quick)
        if quick:
            warmup, iterations = min(warmup, _QUICK_WARMUP), min(iterations, _QUICK_ITERATIONS)
        self.effort = Effort(warmup, iterations, self._defaults.turn_us)
        self.benchmarks: list[Benchmark] = []
        self.report: BenchmarkReport | None = None
        self._with_peers = peers

    def add(self, benchmark: Benchmark) -> BenchmarkSuite:
        """One case, or one of your own."""
        self.benchmarks.append(benchmark)
        return self

    def add_gemm(self, sizes: Iterable[int] | None = None, dtypes: Iterable[str] | None = None) -> BenchmarkSuite:
        """Square products of fp32, tf32, fp16 and bf16."""
        for dtype in _chosen("add_gemm", dtypes, GEMM_DTYPES):
            for size in self._sizes(sizes):
                self.add(GEMMBenchmark(size, size, size, dtype))
        return self

    def add_fp8_gemm(self, sizes: Iterable[int] | None = None) -> BenchmarkSuite:
        """Square products of float8 with row scales."""
        for size in self._sizes(sizes):
            self.add(FP8GEMMBenchmark(size, size, size))
        return self

    def add_gemv(
        self, shapes: Mapping[str, tuple[int, int]] | None = None, dtypes: Iterable[str] | None = None
    ) -> BenchmarkSuite:
        """One row times weights of bf16, fp8 and nvf4. `shapes` is {label: (K, N)}."""
        for dtype in _chosen("add_gemv", dtypes, GEMV_DTYPES):
            for label, (k, n) in self._shapes(shapes).items():
                self.add(GEMVBenchmark(label, k, n, dtype))
        return self

    def add_w8a8_gemv(self, shapes: Mapping[str, tuple[int, int]] | None = None) -> BenchmarkSuite:
        """One row times weights, both float8."""
        for label, (k, n) in self._shapes(shapes).items():
            self.add(W8A8GEMVBenchmark(label, k, n))
        return self

    def add_attention(self, seq_lens: Iterable[int] | None = None) -> BenchmarkSuite:
        """Causal attention of 32 heads of width 128."""
        for length in self._defaults.sdpa_lengths if seq_lens is None else seq_lens:
            self.add(SDPABenchmark(length))
        return self

    def add_gqa(self, seq_lens: Iterable[int] | None = None) -> BenchmarkSuite:
        """Causal attention of 32 heads over 8 heads of keys and values."""
        for length in self._defaults.gqa_lengths if seq_lens is None else seq_lens:
            self.add(GQABenchmark(length))
        return self

    def add_decode(self, keys: Iterable[int] | None = None) -> BenchmarkSuite:
        """One token over caches of bf16, bf16 in pages, and float8, for two models' heads."""
        for length in self._defaults.decode_keys if keys is None else keys:
            for label in DECODE_HEADS:
                for cache in CACHES:
                    self.add(DecodeBenchmark(length, label, cache))
        return self

    def add_sampling(self, sizes: Iterable[tuple[int, int]] | None = None) -> BenchmarkSuite:
        """Tokens for rows of logits; `sizes` are (rows, vocab)."""
        for rows, vocab in self._defaults.sampling if sizes is None else sizes:
            self.add(SamplingBenchmark(rows, vocab))
        return self

    def add_conv(self, sizes: Mapping[str, Mapping[str, int]] | None = None) -> BenchmarkSuite:
        """One-dimensional convolutions of speech models in bf16 and fp32, by labels."""
        for label, size in (self._defaults.convolutions if sizes is None else sizes).items():
            for dtype in ("bf16", "fp32"):
                self.add(ConvBenchmark(label, size, dtype))
        return self

    def add_llm(
        self, shape: str | None = None, batch_sizes: Iterable[int] | None = None,
        contexts: Iterable[int] | None = None, prompts: Iterable[int] | None = None, quantize: str | None = None,
    ) -> BenchmarkSuite:  # fmt: skip
        """Decoding and reading of prompts by a language model of a known shape or a config.json, with random weights."""
        on_gpu = gp.default_device().kind == "cuda"
        model = LanguageModel(shape or ("qwen2.5-7b" if on_gpu else "tiny"), quantize=quantize)
        for context in contexts or ((512,) if on_gpu else (64,)):
            for batch in batch_sizes or ((1, 8, 32) if on_gpu else (1, 4)):
                self.add(LanguageDecodeBenchmark(model, batch, context))
        for tokens in prompts or ((128, 2048) if on_gpu else (64,)):
            self.add(LanguagePrefillBenchmark(model, tokens))
        return self

    def add_all(self) -> BenchmarkSuite:
        """Everything, with its default sizes."""
        self.add_gemm().add_fp8_gemm().add_gemv().add_w8a8_gemv()
        return self.add_attention().add_gqa().add_decode().add_sampling().add_conv()

    def run(self, verbose: bool = True) -> BenchmarkReport:
        """Runs every case. With verbose a line for each goes to stderr when it is done."""
        report = BenchmarkReport(get_gpu_info(), notes=_busy_notes())
        peers: list[Peer] = []
        if self._with_peers:
            peers, absent = find_peers()
            report.not_run += absent
        todo = [case for case in self.benchmarks if not _note_obstacle(case, report)]
        if todo:
            report.memory_ceiling = measure_memory(self.effort)
        for number, case in enumerate(todo, 1):
            try:
                result = case.run(self.effort, peers)
            except OutOfMemoryError as error:
                report.not_run.append(NotRun(case.name, f"out of memory: {error}"))
                continue
            report.add(result)
            if verbose:
                print(f"[{number}/{len(todo)}] {one_line(result)}", file=sys.stderr, flush=True)
        _find_compute_ceilings(report)
        self.report = report
        return report

    def compare(self, baseline_path: str | Path, threshold: float = 0.05, verbose: bool = True) -> ComparisonResult:
        """The last run, or a new one when there was none, against a saved report."""
        check_threshold(threshold)
        baseline = BenchmarkReport.load(baseline_path)
        outcome = compare_reports(self.report or self.run(verbose), baseline, threshold)
        if verbose:
            print(outcome.summary())
        return outcome

    def _sizes(self, sizes: Iterable[int] | None) -> Sequence[int]:
        return self._defaults.sizes if sizes is None else list(sizes)

    def _shapes(self, shapes: Mapping[str, tuple[int, int]] | None) -> Mapping[str, tuple[int, int]]:
        return self._defaults.shapes if shapes is None else shapes


def _chosen(where: str, dtypes: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    chosen = list(known if dtypes is None else dtypes)
    for dtype in chosen:
        if dtype not in known:
            raise ArgumentError(f"{where}: dtypes: got {dtype!r}, wanted any of {', '.join(known)}")
    return chosen


def _busy_notes() -> list[str]:
    """On the CPU other programs take part in what is measured; libraries that wait by spinning suffer most."""
    processors = os.cpu_count() or 1
    if gp.default_device().kind == "cuda" or not hasattr(os, "getloadavg") or os.getloadavg()[0] <= processors:
        return []
    return [
        f"the machine is busy: load {os.getloadavg()[0]:.1f} on {processors} processors; times and ratios are not reliable"
    ]


def _note_obstacle(case: Benchmark, report: BenchmarkReport) -> bool:
    reason = case.obstacle()
    if reason is not None:
        report.not_run.append(NotRun(case.name, reason))
    return reason is not None


def _find_compute_ceilings(report: BenchmarkReport) -> None:
    """The best rate seen in the run for each dtype of a product, by anyone; the share of every product of that dtype."""
    products = [result for result in report.results if result.category == "gemm" and result.tflops is not None]
    for result in products:
        assert result.tflops is not None
        rates = {"pygpukit": result.tflops, **{n: result.tflops / p.ratio for n, p in result.peers.items()}}
        dtype = result.params["dtype"]
        for name, rate in rates.items():
            best = report.compute_ceilings.get(dtype)
            if best is None or rate > best.rate:
                report.compute_ceilings[dtype] = Ceiling(rate, f"{name} at {result.name.rsplit('_', 1)[-1]}")
    for result in products:
        assert result.tflops is not None
        ceiling = report.compute_ceilings[result.params["dtype"]]
        result.share_of_ceiling = result.tflops / ceiling.rate
        result.ceiling = f"the best {result.params['dtype']} product of this run: {ceiling.by}"


def run_quick() -> BenchmarkReport:
    """Products and matrix-vector products with few samples."""
    return BenchmarkSuite(quick=True).add_gemm().add_gemv().run()


def run_full() -> BenchmarkReport:
    """Every case."""
    return BenchmarkSuite().add_all().run()
