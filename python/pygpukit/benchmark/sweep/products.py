"""Families of products: layers of many and few rows, plain matrices, quantised weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Input

__all__ = ["PRODUCT_FAMILIES"]

FORMATS: dict[str, dict[str, Any]] = {
    "fp8_128x128": {"format": "fp8_e4m3", "block": (128, 128)},
    "int8_row": {"format": "int8", "block": "row"},
    "int4_128": {"format": "int4", "block": 128},
    "nvfp4": {"format": "nvfp4"},
}


def _layer(d: Draw, rows: int, step: int, least_bytes: float = 0.0, bits: int = 16) -> Case:
    """Rows of bfloat16 by weights [n, k]; with `least_bytes` large enough for memory to count."""
    while True:
        k, n = (d.size(1024, 16384, step), d.size(512, 32768, step)) if d.large else (128 * d.choose(1, 2), 128)
        if not d.large or n * k * bits / 8 >= least_bytes:
            break
    dtype = "bfloat16" if d.large else "float32"
    return Case((Input((rows, k), dtype), Input((n, k), dtype)))


def _many_rows(d: Draw) -> Case:
    return _layer(d, d.size(65, 6000) if d.large else d.size(65, 96), 8)


def _few_rows(d: Draw) -> Case:
    return _layer(d, d.rng.randint(1, 64), 8)


def _quantised_rows(d: Draw) -> Case:
    return _layer(d, d.size(16, 2048) if d.large else d.size(2, 32), 128)


def _quantised_few(d: Draw, bits: int) -> Case:
    return _layer(d, d.rng.randint(1, 8), 128, 16e6, bits)


def _plain(d: Draw) -> Case:
    m, n, k = (d.size(1, 4096 if d.large else 64) for _ in range(3))
    dtype = d.floats()
    a = Input((m, k), dtype, d.layout("dense", "dense", "shifted", "transposed"))
    return Case((a, Input((k, n), dtype, d.layout("dense", "dense", "shifted", "transposed"))))


class _Weights:
    """Packed once for each matrix of a case, as a model does when it loads."""

    def __init__(self, name: str) -> None:
        self.options = dict(FORMATS[name])
        self.format = self.options.pop("format")
        self.packed: dict[int, tuple[Any, gp.Weight]] = {}

    def of(self, matrix: Any) -> Any:
        if id(matrix) not in self.packed:
            if len(self.packed) >= 512:
                self.packed.clear()
            self.packed[id(matrix)] = (matrix, gp.Weight.quantize(matrix, self.format, **self.options))
        return self.packed[id(matrix)][1]


def _quantised_ours(weights: _Weights, xs: Sequence[Any], out: Any) -> Any:
    return gp.linear(xs[0], weights.of(xs[1]), out=out)


def _quantised_inputs(weights: _Weights, xs: Sequence[Any]) -> list[Any]:
    """What is checked is the product with the numbers that the format holds."""
    return [xs[0], weights.of(xs[1]).dense(str(xs[0].dtype))]


def _product(xs: Sequence[Any]) -> Any:
    return np.matmul(xs[0], xs[1].T)


def _torch_layer(torch: Any, ts: Sequence[Any]) -> Any:
    return torch.mm(ts[0], ts[1].T)


def _quantised(name: str, draw: Any, prefix: str = "") -> Family:
    weights = _Weights(name)
    return Family(
        prefix + name,
        draw,
        functools.partial(_quantised_ours, weights),
        _torch_layer,
        _product,
        rows=((0, None), 0),
        columns=((None, 0), 1),
        bound=1.5,
        checked_inputs=functools.partial(_quantised_inputs, weights),
        done=weights.packed.clear,
    )


PRODUCT_FAMILIES = [
    *(
        Family(
            name,
            draw,
            lambda xs, out: gp.linear(*xs, out=out),
            _torch_layer,
            _product,
            rows=((0, None), 0),
            columns=((None, 0), 1),
            bound=1.5,
        )
        for name, draw in (("linear_many_rows", _many_rows), ("linear_few_rows", _few_rows))
    ),
    Family(
        "matmul",
        _plain,
        lambda xs, out: gp.matmul(*xs, out=out),
        lambda torch, ts: torch.matmul(*ts),
        lambda xs: np.matmul(*xs),
        rows=((0, None), 0),
        columns=((None, 1), 1),
        bound=1.5,
    ),
    *(_quantised(name, _quantised_rows) for name in FORMATS),
    *(
        _quantised(name, functools.partial(_quantised_few, bits=4 if name in ("int4_128", "nvfp4") else 8), "few_")
        for name in FORMATS
    ),
]
