"""Products with cuBLASLt at hand: the figures `mm_lt_*`, and the times of which the table of products is made.

    python bench/measure_vendor.py --out bench/vendor/nvidia-h200.json

adds a run of our kernels and of cuBLASLt's, contenders in turns, to the file. tools/make_vendor_table.py reads it; the
figures (measure.py) then judge what PYGPUKIT_PREFER_CUBLASLT=1 takes against torch. Names: format, `_nk` where the
weights are [n, k] and both operands lie along k, then m x k x n. After a change of our kernels for some numbers of
rows, `--rows 16,32,64 --anew` measures layers of these alone and forgets their earlier runs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from contest import CLOSE_S, LLM_ROWS, LLM_WEIGHTS, MANY_S, Call, Contest, geomean, size

BETWEEN_ROWS = (32, 128, 192)  # for the table alone
SQUARES = (  # format, dtype, sizes, layouts of the weights
    ("bf16", "bfloat16", (1024, 2048, 4096, 8192), ("_nk", "")),
    ("f16", "float16", (1024, 2048, 4096, 8192), ("_nk", "")),
    ("tf32", "float32", (4096, 8192), ("_nk", "")),
    ("f32", "float32", (4096,), ("",)),
    ("int8", "int8", (4096, 8192), ("_nk",)),
)
BOUNDS = {"bf16": 1e-2, "f16": 3e-3, "tf32": 2e-3, "f32": 1e-5, "int8": 0.0, "fp8_tensor": 1e-2, "fp8_row": 1e-2}

MakeCalls = Callable[[str | None], list[Call]]  # with a kernel, or what is preferred


class Vendor:
    """Every product in turns: by what is preferred or, for the table, by our kernel and by cuBLASLt's, and by torch."""

    def __init__(self, gp: Any, torch: Any, report: Any, for_table: bool) -> None:
        self.c = Contest(gp, torch, report)
        self.for_table = for_table
        self.found: dict[str, dict[str, float]] = {}

    def kernels(self, form: str) -> dict[str, str | None]:
        if self.for_table:
            return {"own_us": "simt" if form == "f32" else "wgmma", "lt_us": "cublaslt"}
        return {"us": None}

    def compete(self, form: str, name: str, ours: MakeCalls, theirs: Callable[[], list[Call]]) -> None:
        """A kernel that cannot serve, or is wrong, has no time."""
        c = self.c
        with c.guard(f"mm_lt {name}"):
            peer = theirs()
            c.gp.synchronize()
            contenders: dict[str, Any] = {f"{name} torch_us": lambda: c.theirs(peer)}
            for label, kernel in self.kernels(form).items():
                with c.guard(f"mm_lt {name} {label}"):
                    calls = ours(kernel)
                    c.agree(calls[0], peer[0], BOUNDS[form])
                    contenders[f"{name} {label}"] = functools.partial(c.ours, calls)
            us = c.race(contenders, MANY_S if self.for_table and form != "f32" else CLOSE_S)
            self.found[name] = {label.split()[-1]: value for label, value in us.items()}

    def dense(self, form: str, name: str, acts: Sequence[Any], weights: Sequence[Any]) -> None:
        c, torch = self.c, self.c.torch
        tf32 = form == "tf32"
        out_dtype = "int32" if form == "int8" else str(acts[0].dtype)
        shape = (acts[0].shape[0], weights[0].shape[1])
        pairs = list(zip(acts, weights, strict=True))
        out, other = (c.gp.zeros(shape, dtype=out_dtype) for _ in range(2))

        def ours(kernel: str | None) -> list[Call]:
            options = {"kernel": kernel, "use_tf32": True if tf32 else None, "out_dtype": out_dtype}
            return [functools.partial(c.gp.matmul, a, b, out=out, **options) for a, b in pairs]

        def multiply(x: Any, y: Any, target: Any) -> Any:
            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            try:
                return (torch._int_mm if form == "int8" else torch.mm)(x, y, out=target)
            finally:
                torch.set_float32_matmul_precision(before)

        def theirs() -> list[Call]:
            target = c.tensor(other)
            return [functools.partial(multiply, c.tensor(a), c.tensor(b), target) for a, b in pairs]

        self.compete(form, name, ours, theirs)

    def square(self, form: str, dtype: str, n: int, layouts: Sequence[str]) -> None:
        c = self.c
        d = size(n)
        with c.guard(f"mm_lt_{form}_{n}"):
            make = c.codes if dtype == "int8" else functools.partial(c.normal, dtype=dtype)
            count = c.copies(2 * d * d * {"float32": 4, "int8": 1}.get(dtype, 2))
            acts, weights = ([make((d, d)) for _ in range(count)] for _ in range(2))
            for layout in layouts:
                self.dense(form, f"{form}{layout} {n}x{n}x{n}", acts, [w.T for w in weights] if layout else weights)

    def layers(self, k: int, n: int, all_rows: Sequence[int]) -> None:
        c = self.c
        with c.guard(f"mm_lt_llm_{k}x{n}"):
            kk, nn = size(k), size(n)
            weights = [c.normal((nn, kk), "bfloat16").T for _ in range(c.copies(2 * kk * nn))]
            for m in all_rows:
                acts = [c.normal((size(m), kk), "bfloat16") for _ in weights]
                self.dense("bf16", f"bf16_nk {m}x{k}x{n}", acts, weights)

    def float8(self, n: int) -> None:
        """float8_e4m3 into bfloat16, against torch without its fast accumulation."""
        c, torch = self.c, self.c.torch
        d = size(n)
        with c.guard(f"mm_lt_fp8_{n}"):
            count = c.copies(2 * d * d)
            plain = [(c.normal((d, d), "bfloat16"), c.normal((d, d), "bfloat16")) for _ in range(count)]
            out, other = (c.gp.zeros((d, d), dtype="bfloat16") for _ in range(2))
            target = c.tensor(other)
            for kind in ("tensor", "row"):
                works = [[c.gp.quantize(x, "fp8_e4m3", block=kind) for x in pair] for pair in plain]

                def ours(kernel: str | None, works: Any = works) -> list[Call]:
                    return [
                        functools.partial(c.gp.scaled_matmul, a, b, s, t, out=out, kernel=kernel)
                        for (a, s), (b, t) in works
                    ]

                def theirs(works: Any = works) -> list[Call]:
                    return [
                        functools.partial(
                            torch._scaled_mm, c.tensor(a), c.tensor(b).t(), c.tensor(s),
                            c.tensor(t).t() if t.ndim == 2 else c.tensor(t),
                            out_dtype=torch.bfloat16, use_fast_accum=False, out=target,
                        )
                        for (a, s), (b, t) in works
                    ]  # fmt: skip

                self.compete(f"fp8_{kind}", f"fp8_{kind}_nk {n}x{n}x{n}", ours, theirs)

    def run(self) -> dict[str, dict[str, float]]:
        for form, dtype, sizes, layouts in SQUARES:
            for n in sizes:
                self.square(form, dtype, n, layouts)
        for n in (4096, 8192):
            self.float8(n)
        return self.run_layers(sorted(LLM_ROWS + BETWEEN_ROWS) if self.for_table else LLM_ROWS)

    def run_layers(self, rows: Sequence[int]) -> dict[str, dict[str, float]]:
        for k, n in LLM_WEIGHTS:
            self.layers(k, n, rows)
        return self.found


def library_version(gp: Any) -> str | None:
    version: str | None = next(entry["version"] for entry in gp._core._libraries() if entry["name"] == "cuBLASLt")
    return version


def measure(gp: Any, torch: Any, report: Any) -> None:
    vendor = Vendor(gp, torch, report, for_table=False)
    found = vendor.run()
    shapes = {name: {**us, "vs_torch": us["torch_us"] / us["us"]} for name, us in found.items() if "us" in us}
    report.add("mm_lt_shapes", len(shapes), shapes=shapes, library=library_version(gp))
    if shapes:
        worst = min(shapes, key=lambda name: shapes[name]["vs_torch"])
        report.add("mm_lt_min_vs_torch", shapes[worst]["vs_torch"], shape=worst, goal=0.95, turn_s=vendor.c.turn_s)
        mean = geomean([us["vs_torch"] for us in shapes.values()])
        report.add("mm_lt_geomean_vs_torch", mean, goal=0.97, turn_s=vendor.c.turn_s)


class Runs:
    """The file: times of each product in each run, all of one device and one version of the library."""

    def __init__(self, path: pathlib.Path, device: dict[str, Any], library: str) -> None:
        self.path = path
        self.data: dict[str, Any] = {"device": device, "library": library, "shapes": {}}
        if path.exists():
            self.data = json.loads(path.read_text())
        if (self.data["device"], self.data["library"]) != (device, library):
            raise SystemExit(
                f"{path} is of {self.data['device']} with cuBLASLt {self.data['library']}: name another file"
            )

    def add(self, found: dict[str, dict[str, float]], anew: bool) -> None:
        """Products that one of the contenders could not make are left out. `anew`: earlier runs of the others go."""
        for name, us in found.items():
            if {"own_us", "lt_us", "torch_us"} <= us.keys():
                if anew:
                    self.data["shapes"].pop(name, None)
                times = self.data["shapes"].setdefault(name, {"own_us": [], "lt_us": [], "torch_us": []})
                for label, values in times.items():
                    values.append(round(us[label], 3))
        kept = {key: value for key, value in self.data.items() if key != "faults"}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rows", help="layers of these numbers of rows alone, as 16,32,64")
    parser.add_argument("--anew", action="store_true", help="forget the earlier runs of what is measured")
    options = parser.parse_args()
    os.environ |= {"PYGPUKIT_DEVICE": "cuda", "PYGPUKIT_NO_CUBLASLT": "0", "PYGPUKIT_PREFER_CUBLASLT": "1"}
    import torch

    import pygpukit as gp

    info = gp.get_device_info()
    version = library_version(gp)
    if version is None:
        raise SystemExit("there is no cuBLASLt here; pygpukit doctor says why")
    runs = Runs(options.out, {"name": info.name, "sm": list(info.compute_capability)}, version)
    vendor = Vendor(gp, torch, runs, for_table=True)
    found = vendor.run_layers([int(m) for m in options.rows.split(",")]) if options.rows else vendor.run()
    runs.add(found, options.anew)
    return 0


if __name__ == "__main__":
    sys.exit(main())
