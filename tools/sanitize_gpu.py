"""Every kernel of matrix products and quantisation once, under compute-sanitizer: memcheck, then racecheck.

    python tools/sanitize_gpu.py [--tools memcheck,racecheck] [--kernels REGEX]

A first run without it finds, among many small products, one for every kernel. The runs under it allocate each operand
by itself, with guard bytes around it. Exit status 0: nothing was found; 1: something was, or there is no sanitizer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = ("gpukit/ops/matmul/", "gpukit/ops/quantize/")
SIZES = (1, 16, 24, 64, 100, 200, 520, 2048, 4104, 16896)
ROWS = (1, 2, 8, 16, 17, 33, 64, 100, 300)
OUTPUTS = {  # of a product of plain dtypes
    "float16": ("float16", "float32"), "bfloat16": ("bfloat16", "float32"), "tf32": ("float32",), "float32": ("float32",),
    "float64": ("float64",), "int8": ("int8", "int32"), "bool": ("bool",), "int32": ("int32",), "int64": ("int64",),
    "uint8": ("uint8",), "complex64": ("complex64",), "complex128": ("complex128",),
    "int16": ("int16",), "uint16": ("uint16",), "uint32": ("uint32",), "uint64": ("uint64",),
}  # fmt: skip
FLOAT8: list[tuple[Any, Any]] = [("tensor", "tensor"), ("row", "row"), (128, [128, 128])]
WEIGHTS: list[tuple[str, Any, bool]] = [  # format, block, zero points
    ("fp8_e4m3", "tensor", False), ("fp8_e4m3", "row", False), ("fp8_e4m3", [128, 128], False), ("fp8_e5m2", "row", False),
    ("int8", "row", False), *(("int4", block, zero) for block in (32, 64, 128) for zero in (False, True)),
    ("nvfp4", 16, False), ("nvfp4", 32, False),
]  # fmt: skip
GROUPED = (  # rows, columns, experts: each takes another kernel on sm_90
    (2, 136, 3), (8, 4104, 3), (32, 136, 3), (64, 136, 3), (100, 136, 3), (700, 136, 3), (1500, 136, 1),
    (300, 2056, 1), (5000, 136, 1), (5000, 520, 1),
)  # fmt: skip
Spec = list[Any]


def specs() -> Iterator[Spec]:
    """What may be run: a kind of work and its parameters."""
    for dtype, outs in OUTPUTS.items():
        sizes = SIZES if dtype in ("float16", "bfloat16", "tf32", "float32", "float64", "int8") else (100,)
        for out, m, n in itertools.product(outs, sizes, sizes):
            if m * n > 1 << 25:
                continue
            for ways in itertools.product(range(3), repeat=3):
                for kernel in (None, "mma", "simt"):
                    yield ["matmul", dtype, out, m, 208, n, *ways, kernel]
    for (k, n), dtype in itertools.product(((4096, 512), (16384, 512), (4096, 4096), (14336, 4096)), ("float16", "bfloat16")):
        for b_way in (0, 1):
            yield ["matmul", dtype, dtype, 1, k, n, 0, b_way, 0, None]  # k shared by blocks
    for m, dtype in itertools.product((16, 32), ("float16", "bfloat16")):
        yield ["matmul", dtype, dtype, m, 208, 6000, 0, 1, 0, None]  # tiles of 48 weights
    for m, k, a in itertools.product(ROWS, (264, 1024, 2080), ("float16", "bfloat16")):
        for format, block, zero in WEIGHTS:
            yield ["scaled", a, None, format, block, zero, a, False, m, k, 272]
        for format in ("fp8_e4m3", "fp8_e5m2"):
            for block_a, block_b in FLOAT8:
                for out, bias in itertools.product((a, "float32"), (False, True)):
                    yield ["scaled", format, block_a, format, block_b, False, out, bias, m, k, 272]
    for (format, a), (m, k, n) in itertools.product(
        itertools.product(("fp8_e4m3", "int8"), ("float16", "bfloat16")),
        (
            *((1, k, 72) for k in (1040, 9008, 18944, 29568)),
            *itertools.product((5, 11, 30), (272, 1296), (72, 4608, 14336, 18944)),
            *itertools.product((40, 300), (272, 1296), (5000,)),
        ),
    ):
        rest = [a, None, format, "row", False, a, False, m, k, n]
        yield ["scaled", *rest]  # rounds of a row; columns, chains, ways
        if m == 1:
            yield ["invariant", *rest]
    parted = ((1024, 300), (1152, 3584), (1024, 3712), (1024, 4096), (1024, 8192), (1024, 16384), (1024, 18944), (1024, 28672))
    for m, (k, n) in itertools.product((9, 40), parted):
        yield ["parted", m, k, n]
    for (block_a, block_b), out in itertools.product(FLOAT8, ("float16", "bfloat16", "float32")):
        yield ["scaled", "fp8_e4m3", block_a, "fp8_e4m3", block_b, False, out, False, 2048, 272, 2112]  # wide tiles
    for format in ("int8", "int4", "nvfp4"):
        yield ["scaled", format, 16 if format == "nvfp4" else "row", format, 16 if format == "nvfp4" else "row", False,
               "float32", False, 100, 264, 272]  # fmt: skip
    for dtype, m in itertools.product(("float16", "bfloat16", "float32"), (1, 16, 100, 2048)):
        for bias, activation, residual in itertools.product((False, True), (None, "gelu"), (False, True)):
            yield ["linear", dtype, bias, activation, residual, m]
        yield ["swiglu", dtype, m]
        for format, block, zero in WEIGHTS:
            yield ["quantize", dtype, format, block, zero, m]
    for dtype, (m, n, experts) in itertools.product(("float16", "bfloat16", "float32"), GROUPED):
        yield ["grouped", dtype, m, n, experts]
    for format, (block_a, block_b) in itertools.product(("fp8_e4m3", "fp8_e5m2"), FLOAT8):
        for out, bias in itertools.product(("float16", "bfloat16", "float32"), (False, True)):
            yield ["grouped_float8", format, block_a, block_b, out, bias]


def random(gp: Any, shape: tuple[int, ...], dtype: str) -> Any:
    return gp.random.normal(shape, seed=len(shape)).astype(dtype)


def empty(gp: Any, shape: tuple[int, ...], dtype: str) -> Any:
    return gp.empty(shape, dtype=dtype)


def laid(gp: Any, shape: tuple[int, int], dtype: str, way: int, make: Any = random) -> Any:
    """Along its rows, along its columns, or with rows that start anywhere."""
    rows, columns = shape
    if way == 1:
        return make(gp, (columns, rows), dtype).T
    return make(gp, (rows, columns + 1), dtype)[:, :columns] if way == 2 else make(gp, shape, dtype)


def run(gp: Any, spec: Spec) -> None:
    kind, *rest = spec
    if kind == "matmul":
        dtype, out, m, k, n, a_way, b_way, out_way, kernel = rest
        stored, options = ("float32", {"use_tf32": True}) if dtype == "tf32" else (dtype, {})
        a, b = laid(gp, (m, k), stored, a_way), laid(gp, (k, n), stored, b_way)
        gp.matmul(a, b, out=laid(gp, (m, n), out, out_way), out_dtype=out, kernel=kernel, **options)
    elif kind == "scaled":
        a_format, a_block, format, block, zero, out, bias, m, k, n = rest
        a: Any = random(gp, (m, k), "float32" if a_block is not None else a_format)
        options = {"zero_point": True} if zero else {}
        codes, scale, *more = gp.quantize(random(gp, (n, k), "float32"), format, block=fixed(block), **options)
        given = {"zero_b" if zero else "tensor_scale_b": more[0]} if more else {}
        scale_a = None
        if a_block is not None:
            a, scale_a, *more = gp.quantize(a, a_format, block=fixed(a_block))
            given |= {"tensor_scale_a": more[0]} if more else {}
        given |= {"bias": random(gp, (n,), out)} if bias else {}
        gp.scaled_matmul(a, codes, scale_a, scale, out_dtype=out, **given)
    elif kind == "parted":
        m, k, n = rest
        codes, scale = gp.quantize(random(gp, (n, k), "float32"), "fp8_e4m3", block="row")
        gp.scaled_matmul(random(gp, (m, k), "bfloat16"), codes, None, scale, kernel="wgmma")
    elif kind == "invariant":
        with gp.determinism("batch_invariant"):
            run(gp, ["scaled", *rest])
    elif kind == "grouped":
        dtype, m, n, experts = rest
        ids = gp.random.randint(0, experts, (m,), dtype="int32", seed=1)
        gp.grouped_matmul(random(gp, (m, 264), dtype), random(gp, (experts, n, 264), dtype), ids)
    elif kind == "grouped_float8":
        format, block_a, block_b, out, bias = rest
        ids = gp.random.randint(0, 3, (100,), dtype="int32", seed=1)
        a, scale_a = gp.quantize(random(gp, (100, 272), "float32"), format, block=fixed(block_a))
        codes, scale = gp.quantize(random(gp, (3, 136, 272), "float32"), format, block=fixed(block_b))
        given = {"bias": random(gp, (136,), out)} if bias else {}
        gp.grouped_matmul(a, codes, ids, scale_a, scale, out_dtype=out, **given)
    elif kind == "linear":
        dtype, bias, activation, residual, m = rest
        n = 520 if m < 2048 else 4096
        gp.linear(
            random(gp, (m, 264), dtype), random(gp, (n, 264), dtype), random(gp, (n,), dtype) if bias else None,
            activation=activation, residual=random(gp, (m, n), dtype) if residual else None,
        )  # fmt: skip
    elif kind == "swiglu":
        dtype, m = rest
        n = 520 if m < 2048 else 4096
        gp.linear_swiglu(*(random(gp, shape, dtype) for shape in ((m, 264), (n, 264), (n, 264))))
    else:
        dtype, format, block, zero, m = rest
        codes, scale, *more = gp.quantize(
            random(gp, (m, 1056), dtype), format, block=fixed(block), **({"zero_point": True} if zero else {})
        )
        gp.dequantize(codes, scale, dtype=dtype, **({"zero" if zero else "tensor_scale": more[0]} if more else {}))


def fixed(block: Any) -> Any:
    return tuple(block) if isinstance(block, list) else block


def loaded(gp: Any) -> dict[tuple[str, str], bool]:
    """(source, kernel) of every module that this chip may use, and whether it was."""
    major, minor = gp.get_device_info().compute_capability
    return {
        (module["source"], " ".join(module["names"])): module["origin"] != "none"
        for module in gp._core._kernel_modules()
        if module["source"].startswith(SOURCES)
        and (not module["archs"] or any(arch.rstrip("af") == f"{major}{minor}" for arch in module["archs"]))
    }


def same_kernel(gp: Any, spec: Spec) -> str:
    """Products that give the same text here use the same kernel."""
    if spec[0] != "matmul":
        return json.dumps(spec)
    _, dtype, out, m, k, n, a_way, b_way, out_way, kernel = spec
    options = {"use_tf32": True} if dtype == "tf32" else {}
    stored = "float32" if dtype == "tf32" else dtype
    text = gp.explain_matmul(
        laid(gp, (m, k), stored, a_way, empty), laid(gp, (k, n), stored, b_way, empty),
        out_dtype=out, kernel=kernel, **options,
    )  # fmt: skip
    return f"{dtype} {out} {out_way} " + re.sub(r"\d+ blocks", "", text.split(": ", 1)[1])


def choose(gp: Any, kernels: str) -> tuple[list[Spec], set[str]]:
    """One piece of work for every kernel that any of the list reaches, and the names of these."""
    wanted = re.compile(kernels)

    def used() -> set[str]:
        return {name for (_, name), yes in loaded(gp).items() if yes and wanted.search(name)}

    tried: set[str] = set()
    chosen: list[Spec] = []
    before = used()
    for spec in specs():
        try:
            key = same_kernel(gp, spec)
            if key in tried:
                continue
            tried.add(key)
            run(gp, spec)
        except (gp.errors.UnsupportedError, NotImplementedError, ValueError, TypeError):
            continue  # not every combination is an operation
        now = used()
        if now != before:
            chosen.append(spec)
            before = now
    gp.synchronize()
    missed = sorted(name for (_, name), yes in loaded(gp).items() if not yes and wanted.search(name))
    print(f"-- {len(before)} kernels by {len(chosen)} of {len(tried)} pieces of work", flush=True)
    for name in missed:
        print(f"-- not run: {name}", flush=True)
    return chosen, {match for name in before for match in re.findall(r"(?:^|(?<=[>\w]) )gpukit::(\w+)", name)}


def runs_clean(gp: Any, spec: Spec) -> bool:
    try:
        run(gp, spec)
        gp.synchronize()
    except Exception as error:  # the guard bytes of the library's own memory debugging
        print(f"-- {json.dumps(spec)}: {error}", flush=True)
        return False
    return True


def find_sanitizer() -> str | None:
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *map(str, Path("/usr/local").glob("cuda-*"))]
    found = (shutil.which("compute-sanitizer", path=f"{home}/bin") for home in homes if home)
    return shutil.which("compute-sanitizer") or next((path for path in found if path), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default="memcheck,racecheck")
    parser.add_argument("--kernels", default="", help="only kernels whose name matches")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("error: compute-sanitizer is not here: it comes with the CUDA toolkit")
        return 1

    import pygpukit as gp

    if not gp.is_cuda_available():
        print(f"error: no GPU: {gp.cuda_unavailable_reason()}")
        return 1
    if options.run is not None:
        return 1 if [spec for spec in json.loads(options.run.read_text()) if not runs_clean(gp, spec)] else 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder) / "work.json"
        work, names = choose(gp, options.kernels)
        chosen.write_text(json.dumps(work))
        print(f"-- found in {time.monotonic() - begin:.1f} s", flush=True)
        status = 0
        for tool in options.tools.split(","):
            begin = time.monotonic()
            command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20"]
            for name in sorted(names):  # those that only make the operands take most of the time
                command += ["--kernel-name", f"kns={name}"]
            env = {**os.environ, "PYGPUKIT_MEMORY_DEBUG": "1", "PYGPUKIT_DEVICE": "cuda"}
            code = subprocess.run([*command, sys.executable, __file__, "--run", str(chosen)], env=env).returncode
            print(f"-- {tool}: {'nothing found' if code == 0 else f'exit status {code}'}, {time.monotonic() - begin:.1f} s")
            status |= code != 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
