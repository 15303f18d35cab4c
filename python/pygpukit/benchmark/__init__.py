"""The benchmark suite, ``pygpukit bench`` from Python: cases, timing, reports, comparison."""

from __future__ import annotations

from pygpukit.benchmark.cases import (
    Benchmark,
    FP8GEMMBenchmark,
    GEMMBenchmark,
    GEMVBenchmark,
    W8A8GEMVBenchmark,
)
from pygpukit.benchmark.compare import ComparisonResult, Regression, compare_reports
from pygpukit.benchmark.language import LanguageDecodeBenchmark, LanguageModel, LanguagePrefillBenchmark
from pygpukit.benchmark.layers import (
    ConvBenchmark,
    DecodeBenchmark,
    GQABenchmark,
    SamplingBenchmark,
    SDPABenchmark,
)
from pygpukit.benchmark.report import (
    BenchmarkReport,
    BenchmarkResult,
    Ceiling,
    GPUInfo,
    NotRun,
    PeerResult,
    get_gpu_info,
)
from pygpukit.benchmark.roofline import roofline
from pygpukit.benchmark.suite import BenchmarkSuite, run_full, run_quick
from pygpukit.benchmark.text import markdown, terminal_table
from pygpukit.benchmark.timing import Effort, measure_kernel

__all__ = [
    "Benchmark",
    "BenchmarkReport",
    "BenchmarkResult",
    "BenchmarkSuite",
    "Ceiling",
    "ComparisonResult",
    "ConvBenchmark",
    "DecodeBenchmark",
    "Effort",
    "FP8GEMMBenchmark",
    "GEMMBenchmark",
    "GEMVBenchmark",
    "GPUInfo",
    "GQABenchmark",
    "LanguageDecodeBenchmark",
    "LanguageModel",
    "LanguagePrefillBenchmark",
    "NotRun",
    "PeerResult",
    "Regression",
    "SDPABenchmark",
    "SamplingBenchmark",
    "W8A8GEMVBenchmark",
    "compare_reports",
    "get_gpu_info",
    "markdown",
    "measure_kernel",
    "roofline",
    "run_full",
    "run_quick",
    "terminal_table",
]
