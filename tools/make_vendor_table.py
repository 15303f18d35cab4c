"""Writes gpukit/ops/matmul/vendor/cublaslt_table.h, the products that cuBLASLt makes, from bench/vendor/*.json.

`--check` writes nothing and exits 1 when the file is not what would be written. Needs no GPU and no package.

bench/measure_vendor.py measures: a file is a device of sm_90, its runs took our kernel and cuBLASLt's in turns. A product
is cuBLASLt's where it was more than 1 % faster in the median of the runs, on every device. Weights that were measured
with several numbers of rows are its for all numbers between two neighbours that both are; nothing is said about other
sizes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "bench" / "vendor"
TARGET = ROOT / "gpukit" / "ops" / "matmul" / "vendor" / "cublaslt_table.h"
MARGIN = 1.01
FORMATS = {
    "bf16": "bfloat16", "f16": "float16", "f32": "float32", "tf32": "tf32", "int8": "int8",
    "fp8_tensor": "float8_tensor", "fp8_row": "float8_row",
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Product:
    """One measured product; `along_k`: the weights lie along k."""

    form: str
    along_k: bool
    k: int
    n: int
    m: int

    @staticmethod
    def read(name: str) -> Product:
        form, sizes = name.split()
        m, k, n = (int(size) for size in sizes.split("x"))
        return Product(form.removesuffix("_nk"), form.endswith("_nk"), k, n, m)


def measured(folder: Path) -> list[dict[str, Any]]:
    """The times of every product on each device."""
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [data["shapes"] for data in files if data["device"]["sm"] == [9, 0]]


def winners(devices: list[dict[str, Any]]) -> dict[Product, bool]:
    """For each measured product whether cuBLASLt was faster everywhere."""
    result: dict[Product, bool] = {}
    for shapes in devices:
        for name, us in shapes.items():
            product = Product.read(name)
            gain = statistics.median(own / lt for own, lt in zip(us["own_us"], us["lt_us"], strict=True))
            result[product] = result.get(product, True) and gain > MARGIN
    return result


def rows(faster: dict[Product, bool]) -> list[tuple[Product, int]]:
    """(the product of the fewest rows, the most rows) for each run of neighbours that cuBLASLt won."""
    weights: dict[tuple[str, bool, int, int], list[Product]] = defaultdict(list)
    for product in sorted(faster):
        weights[product.form, product.along_k, product.k, product.n].append(product)
    result: list[tuple[Product, int]] = []
    for products in weights.values():
        first: Product | None = None
        for product in products:
            if not faster[product]:
                first = None
            elif first is None:
                first = product
                result.append((product, product.m))
            else:
                result[-1] = (first, product.m)
    return sorted(result)


def generate(found: list[tuple[Product, int]]) -> str:
    lines = [
        f"    {{VendorFormat::{FORMATS[p.form]}, Major::{'k' if p.along_k else 'mn'}, {p.m}, {last}, {p.k}, {p.n}}},"
        for p, last in found
    ]
    table = "{{\n" + "\n".join(lines) + "\n}}" if lines else "{}"
    return f"""// Written by tools/make_vendor_table.py from bench/vendor: the products that cuBLASLt made faster.
#pragma once

#include <array>

#include "gpukit/ops/matmul/vendor/cublaslt.h"

namespace gpukit::cuda {{

inline constexpr std::array<VendorRow, {len(lines)}> kVendorTable = {table};

}}  // namespace gpukit::cuda
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = generate(rows(winners(measured(MEASURED))))
    name = TARGET.relative_to(ROOT).as_posix()
    if TARGET.exists() and TARGET.read_text() == text:
        print(f"{name}: ok")
        return 0
    if options.check:
        print(f"{name}: differs; run tools/make_vendor_table.py")
        return 1
    TARGET.write_text(text)
    print(f"{name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
