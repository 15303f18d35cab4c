"""What docs/performance.md says in words: groups of figures, how they were measured, what stands in the way."""

from __future__ import annotations

SWEEP, SWEEP_TITLE = "sweep_", "Random shapes: torch's time over ours"

# Title, beginning and end of the names in it; the first that fits takes a limit.
GROUPS = [
    (SWEEP_TITLE, "sweep_", ""),
    ("Matrix products", "mm_", ""),
    ("Attention", "at_", ""),
    ("Layers of models", "nn_", ""),
    ("Linear algebra and sorts: torch's time over ours", "linalg_", ""),
    ("Linear algebra and sorts: torch's time over ours", "sort_", ""),
    ("Linear algebra and sorts: torch's time over ours", "argsort_", ""),
    ("Sound: transforms, spectra, streams", "fft_", ""),
    ("Sound: transforms, spectra, streams", "log_mel_", ""),
    ("Sound: transforms, spectra, streams", "audio_", ""),
    ("Language models", "llm_", ""),
    ("Language models", "load_", ""),
    ("Language models", "cpu_stories15m_", ""),
    ("Speech", "asr_", ""),
    ("Speech", "tts_", ""),
    ("Speech", "hearing_", ""),
    ("Speech", "cpu_tts", ""),
    ("Memory", "pool_", ""),
    ("Memory", "empty_", ""),
    ("Memory", "decode_", ""),
    ("Memory", "evict", ""),
    ("Memory", "restore_", ""),
    ("Isolation", "isolation_", ""),
    ("Isolation", "memory_hog", ""),
    ("Isolation", "context_bits", ""),
    ("Shares and copies", "share_", ""),
    ("Shares and copies", "bandwidth_", ""),
    ("Shares and copies", "overlap_", ""),
    ("Scheduler", "admissions_", ""),
    ("Scheduler", "tasks_", ""),
    ("Scheduler", "gate_", ""),
    ("Elementwise: share of the copy ceiling", "ew_", "_vs_copy"),
    ("Elementwise: torch's time over ours", "ew_", "_vs_torch"),
    ("Transposed inputs: share of the copy ceiling", "transpose_", "_vs_copy"),
    ("Sums: share of the read ceiling", "sum_", "_vs_read"),
    ("softmax and norms: torch's time over ours", "", "norm_bf16_vs_torch"),
    ("softmax and norms: torch's time over ours", "", "norm_f32_vs_torch"),
    ("softmax and norms: torch's time over ours", "softmax_", "_vs_torch"),
    ("Submitting work: our host time over theirs", "", "_vs_launch"),
    ("Submitting work: our host time over theirs", "", "_vs_torch"),
    ("Submitting work: our host time over theirs", "", "_vs_cupy"),
    ("Start", "", "_s"),
    ("Start", "", "_ms"),
    ("Start", "import_", ""),
    ("Determinism", "", "hashes"),
    ("Determinism", "graph_", ""),
    ("CPU backend: NumPy's time over ours", "cpu_", "_vs_numpy"),
    ("CPU backend, families of operations: NumPy's time over ours", "cpu_", "_mean"),
    ("CPU backend, families of operations: NumPy's time over ours", "cpu_", "_tenth"),
    ("Build and tests", "make_", ""),
    ("Build and tests", "wheel_", ""),
]

HOW = """Times of kernels are medians over repeats between two events, contenders in turns in the same run, with a call
queued before the first event; sizes are 16384 x 8192, matrix products apart. "No slower than torch" is checked to within
the noise of the run: how far two measurements of torch's own call differ. The copy ceiling is the faster of the driver's
and torch's device-to-device copy of 1 GiB, the read ceiling the fastest of four launches of a kernel that only reads as
many bytes. Submit times are 256 calls on an idle stream, without the wait, median of 50 rounds. `bench/measure.py` is the
program; `make gpu-test` runs as much of it as 25 minutes hold, what was longest ago first, and checks every limit. A row
with a date was measured on that day, the others on that of the file."""

# What is said below the title of a group.
NOTES = {
    SWEEP_TITLE: """`pygpukit bench --sweep`: shapes, dtypes, strides and alignments of each family drawn from wide distributions
by a seed of the clock, 40 cases at least, each checked against float64. Limits are on the geometric mean and on the tenth
percentile, never on a shape.""",
    "Matrix products": """Our own kernels, `mm_lt` apart: that is what serves with `PYGPUKIT_PREFER_CUBLASLT=1`, over
all shapes of square products and of layers. GPU time of a graph of calls, contenders in turns, medians of five turns
of 0.3 s where the row says so (three for `gemv` and `invariant`), else 0.06 s (0.02 s where there are many shapes),
random inputs in more copies than twice the L2 holds. A product whose result differs from torch's has no figure.
`_nk`: the weights are [n, k] and the product is x @ w.T, both operands along k; without it both are row-major.
`_vs_torch` is torch's time over ours (of host time, `submit`, ours over torch's), `_vs_read` our share of the speed
of a kernel that only reads as many bytes. `gemv` is one row, its `_min` the worst of the seven shapes above 100 MB in
bfloat16; `w8a16` and `w8a8` have float8 weights, `int4` groups of 128. `fused` is 2048 tokens, 4096 to 14336.
`mm_new_shape_ms` is the slowest first call of a shape in a new process with a warm cache of kernels. `mm_invariant_`
is the time of a product by default over that under `batch_invariant`, the smallest of three layers.""",
}

# What stands in the way of a product that is behind, as far as it is known: beginning and end of names, and the reason.
OBSTACLES = [
    ("nn_scan_", "_vs_copy", "sixteen exponentials for six bytes that move, of 16 a cycle that a multiprocessor makes"),
    ("mm_f32_", "", "one in ten instructions of the inner loop loads or counts instead of multiplying"),
    *(
        (
            f"mm_{kind}_{size}_vs_torch",
            "",
            "tensor cores take such operands along k alone, so a row-major b is turned first",
        )
        for kind in ("tf32", "int8")
        for size in (4096, 8192)
    ),
    ("mm_fp8_", "_fast", "torch leaves the whole sum to the tensor cores; ours adds sums of 128 of k in float32"),
    ("mm_fp8_", "_vs_row", "the sum of every 128 of k is multiplied by the scales of its blocks"),
    ("mm_gemv_nvfp4_", "_vs_read", "decoding takes nearly all instructions there is time for"),
    (
        "mm_gemv_",
        "_vs_m1",
        "one row is near the power limit of the chip already, and every further one takes more energy",
    ),
    ("mm_gemv_", "_vs_read", "starting and ending a kernel weighs more the fewer bytes it reads"),
    ("mm_fused_", "", "at the chip's power limit the product itself takes nearly all of the time"),
    *(
        (begin, "", "k is not split among blocks, for the bits of a row, so that few tiles leave multiprocessors idle")
        for begin in ("mm_bf16_1024_", "mm_bf16_2048_", "mm_f16_1024_", "mm_f16_2048_", "mm_llm_", "mm_lt_")
    ),
]
