"""``pygpukit bench``: the benchmark suite."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pygpukit.cli.text import complain

if TYPE_CHECKING:
    from pygpukit.benchmark import BenchmarkReport, BenchmarkSuite

__all__ = ["EPILOG", "add_arguments", "bench"]

EPILOG = """\
Without a selection gemm and gemv run. Times are GPU times of a graph of calls
that goes through copies of the inputs no cache holds, contenders in turns; on
the CPU they are the host clock's, and the sizes are small. Every result is
checked against float64. Ratios to peers are their time by ours: above 1, ours
is faster.

--llm is timed by the host's clock, each token waited for; its tokens are
checked against steps without graphs. Its peers are transformers' generate and,
on a GPU, transformers' step compiled over a static cache in a captured graph.

--sweep draws cases of every family of operations, of all sizes, widths and
layouts, by a seed that is the clock's unless --seed gives one, and prints for
each family the geometric mean, the tenth percentile and the ten worst beside
PyTorch, on the CPU beside NumPy. Every case is checked against float64. The
other options but --save are not its.

Exit codes: 0 good; 1 a wrong result, or a regression with
--fail-on-regression; 2 usage.
"""


def _list_of(kind: Callable[[str], object], text: str) -> list[object]:
    items = [part.strip() for part in text.split(",") if part.strip()]
    if not items:
        raise argparse.ArgumentTypeError("is empty")
    return [kind(item) for item in items]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"wanted whole numbers above 0, got {text}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"wanted a whole number, got {text}")
    return int(text)


def _sizes(text: str) -> list[object]:
    return _list_of(_positive, text)


def _names(text: str) -> list[object]:
    return _list_of(str, text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"wanted a share from 0 to below 1, got {text}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    what = parser.add_argument_group("what to run")
    what.add_argument("--all", action="store_true", help="everything")
    what.add_argument("--gemm", action="store_true", help="square products")
    what.add_argument("--gemv", action="store_true", help="one row times the weights of a layer")
    what.add_argument("--attention", action="store_true", help="causal attention of a prompt")
    what.add_argument("--decode", action="store_true", help="attention of one token over a cache")
    what.add_argument("--sampling", action="store_true", help="tokens drawn from logits")
    what.add_argument("--conv", action="store_true", help="convolutions of speech models")
    what.add_argument("--fp8", action="store_true", help="float8 products: gemm, and gemv with float8 on both sides")
    what.add_argument(
        "--llm", nargs="?", const="", metavar="SHAPE",
        help="a language model with random weights, of a shape by name or of a config.json",
    )  # fmt: skip
    what.add_argument("--batch-sizes", type=_sizes, metavar="N,N", help="--llm: texts that are decoded together")
    what.add_argument("--contexts", type=_sizes, metavar="N,N", help="--llm: tokens before the one that is decoded")
    what.add_argument("--prompts", type=_sizes, metavar="N,N", help="--llm: tokens of a prompt that is read")
    what.add_argument("--quantize", choices=("fp8", "int8", "int4", "nvfp4"), help="--llm: format of the weights")
    what.add_argument("--sweep", action="store_true", help="every family of operations at shapes drawn by a seed")
    what.add_argument("--seed", type=_count, metavar="N", help="--sweep: draw those shapes again (the clock)")
    what.add_argument("--count", type=_positive, metavar="N", help="--sweep: cases of a family (40; 5 on the CPU)")
    what.add_argument("--seconds", type=_positive, metavar="S", help="--sweep: of all families (360)")
    what.add_argument("--only", metavar="NAME,NAME", help="--sweep: these families")
    what.add_argument("--slice", metavar="I/N", help="--sweep: every N-th family from the I-th on")
    what.add_argument("--sizes", type=_sizes, metavar="N,N", help="sizes of the square products")
    what.add_argument("--dtypes", type=_names, metavar="T,T", help="gemm: fp32 tf32 fp16 bf16; gemv: bf16 fp8 nvf4")
    what.add_argument("--seq-lens", type=_sizes, metavar="N,N", help="lengths of prompts, and of caches")
    add("--quick", action="store_true", help="5 passes of warm-up, 20 samples, fewer sizes")
    add("--warmup", type=_count, default=10, metavar="N", help="passes before the clock starts (10)")
    add("--iterations", type=_positive, default=50, metavar="N", help="samples of each contender (50)")
    add("--peers", action="store_true", help="PyTorch and CuPy, where installed, in turns with ours; NumPy on the CPU")
    add("--save", type=Path, metavar="FILE", help="write the report as JSON")
    add("--compare", type=Path, metavar="FILE", help="compare with a saved report")
    add(
        "--threshold", type=_share, default=0.05, metavar="S", help="a change of speed below this share is noise (0.05)"
    )
    add(
        "--fail-on-regression", action="store_true", help="with --compare: exit 1 when something became slower or wrong"
    )
    add("--markdown", action="store_true", help="print the results as Markdown tables")
    add("--roofline", type=Path, metavar="FILE", help="write the roofline picture as SVG")
    add("--quiet", action="store_true", help="no progress and no table; regressions and wrong results are still named")


def _refuse(message: str) -> int:
    complain(f"pygpukit bench: {message}")
    return 2


def _complaint(arguments: argparse.Namespace) -> str | None:
    """What is wrong with the request, before anything runs."""
    for flag in ("seed", "count", "seconds", "only", "slice"):
        if getattr(arguments, flag) is not None and not arguments.sweep:
            return f"--{flag} is of --sweep, which is not selected"
    if arguments.fail_on_regression and arguments.compare is None:
        return "--fail-on-regression needs --compare FILE"
    for flag, path in (("--save", arguments.save), ("--roofline", arguments.roofline)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            return f"{flag}: cannot write {path}: wanted a file in a folder that exists"
    return None


def _select(arguments: argparse.Namespace, suite: BenchmarkSuite) -> str | None:
    """Fills the suite, or says why it cannot."""
    from pygpukit.benchmark.cases import GEMM_DTYPES, GEMV_DTYPES

    llm = arguments.llm is not None
    kinds = ("gemm", "gemv", "attention", "decode", "sampling", "conv", "fp8")
    nothing = not (llm or any(getattr(arguments, kind) for kind in kinds))
    gemm = arguments.all or arguments.gemm or nothing
    gemv = arguments.all or arguments.gemv or nothing
    fp8 = arguments.all or arguments.fp8
    attention, decode = arguments.all or arguments.attention, arguments.all or arguments.decode
    if arguments.sizes and not (gemm or fp8):
        return "--sizes are those of --gemm and --fp8, and neither is selected"
    if arguments.seq_lens and not (attention or decode):
        return "--seq-lens are those of --attention and --decode, and neither is selected"
    if not llm and (arguments.batch_sizes or arguments.contexts or arguments.prompts or arguments.quantize):
        return "--batch-sizes, --contexts, --prompts and --quantize are those of --llm, which is not selected"
    wanted = arguments.dtypes
    allowed = [*(GEMM_DTYPES if gemm else ()), *(GEMV_DTYPES if gemv else ())]
    for dtype in wanted or ():
        if dtype not in allowed:
            known = ", ".join(dict.fromkeys(allowed)) or "none: select --gemm or --gemv"
            return f"--dtypes: got {dtype}, the selection has {known}"
    if gemm:
        suite.add_gemm(arguments.sizes, wanted and [d for d in wanted if d in GEMM_DTYPES])
    if fp8:
        suite.add_fp8_gemm(arguments.sizes)
    if gemv:
        suite.add_gemv(dtypes=wanted and [d for d in wanted if d in GEMV_DTYPES])
    if fp8:
        suite.add_w8a8_gemv()
    if attention:
        suite.add_attention(arguments.seq_lens).add_gqa(arguments.seq_lens)
    if decode:
        suite.add_decode(arguments.seq_lens)
    if arguments.all or arguments.sampling:
        suite.add_sampling()
    if arguments.all or arguments.conv:
        suite.add_conv()
    if llm:
        chosen = (arguments.batch_sizes, arguments.contexts, arguments.prompts)
        suite.add_llm(arguments.llm or None, *chosen, quantize=arguments.quantize)
    return None


def bench(arguments: argparse.Namespace) -> int:
    """0 good, 1 a wrong result or a regression, 2 usage."""
    from pygpukit.benchmark import BenchmarkReport, BenchmarkSuite
    from pygpukit.errors import ArgumentError

    complaint = _complaint(arguments)
    if complaint is not None:
        return _refuse(complaint)
    if arguments.sweep:
        return _sweep(arguments)
    baseline = None
    if arguments.compare is not None:
        try:
            baseline = BenchmarkReport.load(arguments.compare)
        except (OSError, UnicodeDecodeError, ArgumentError) as error:
            return _refuse(f"--compare: {error}")
    suite = BenchmarkSuite(arguments.warmup, arguments.iterations, arguments.quick, peers=arguments.peers)
    complaint = _select(arguments, suite)
    if complaint is not None:
        return _refuse(complaint)
    return _finish(arguments, suite.run(verbose=not arguments.quiet), baseline)


def _sweep(arguments: argparse.Namespace) -> int:
    """0 good, 1 a wrong result, 2 usage."""
    import pygpukit as gp
    from pygpukit.benchmark.sweep import find_families, run_sweep, save
    from pygpukit.errors import ArgumentError

    try:
        families = find_families(arguments.only, arguments.slice)
    except ArgumentError as error:
        return _refuse(str(error))
    seed = time.time_ns() % 2**32 if arguments.seed is None else arguments.seed
    count = arguments.count or (40 if gp.default_device().kind == "cuda" else 5)

    def say(line: str) -> None:
        if not arguments.quiet:
            print(line, flush=True)

    say(f"-- seed {seed}")
    outcome = run_sweep(families, seed, count, arguments.seconds or 360, say=say)
    if arguments.save is not None:
        save(outcome, arguments.save)
    for line in outcome.wrong:
        print(f"pygpukit bench: wrong result: {line}", file=sys.stderr)
    return 1 if outcome.wrong else 0


def _finish(arguments: argparse.Namespace, report: BenchmarkReport, baseline: BenchmarkReport | None) -> int:
    """Writes and prints what was asked for; gives the exit code."""
    from pygpukit.benchmark import compare_reports, markdown, roofline, terminal_table

    if arguments.markdown:
        print(markdown(report))
    elif not arguments.quiet:
        print(terminal_table(report))
    if arguments.save is not None:
        report.save(arguments.save)
    if arguments.roofline is not None:
        arguments.roofline.write_text(roofline(report), encoding="utf-8", newline="\n")
    wrong = [result.name for result in report.results if not result.correct]
    if wrong:
        complain(f"pygpukit bench: wrong results: {', '.join(wrong)}")
    if baseline is None:
        return 1 if wrong else 0
    outcome = compare_reports(report, baseline, arguments.threshold)
    if not arguments.quiet or outcome.has_regression:
        print(outcome.summary())
    failed = outcome.has_regression and arguments.fail_on_regression
    return 1 if wrong or failed else 0
