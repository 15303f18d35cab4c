"""softmax and normalisation."""

from __future__ import annotations

import numpy as np
from opcase import OpCase, uniform

ROWS = ((0, 8), (3, 0), (1, 1), (31,), (3, 33), (2, 5, 7), (4, 1025), (2, 8192), (3, 64), (1, 33000))
# exp makes a relative error of the rounding of x - max; 16-bit results are rounded once from float32.
SOFTMAX_ULPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 24.0, "float64": 24.0}


def softmax(x, axis=-1):
    if x.size == 0:
        return x
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def l2norm(x, eps=1e-6):
    return x if x.size == 0 else x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


CASES = [
    *(
        OpCase(
            "l2norm",
            l2norm,
            shapes=ROWS,
            kwargs=kwargs,
            ulps={"float16": 1.0, "bfloat16": 1.0, "float32": 16.0, "float64": 16.0},
            elementwise=False,
            rejects=("int32", "bool", "complex64"),
        )
        for kwargs in ({}, {"eps": 0.5})
    ),
    OpCase(
        "softmax",
        softmax,
        shapes=ROWS,
        make=uniform(-6, 6),
        ulps=SOFTMAX_ULPS,
        elementwise=False,
        rejects=("int32", "bool", "complex64"),
    ),
    OpCase(
        "softmax",
        softmax,
        shapes=((1,), (33, 3), (3, 33), (1025, 24), (700, 33), (2, 5, 64)),
        make=uniform(-6, 6),
        kwargs={"axis": 0},
        ulps=SOFTMAX_ULPS,
        elementwise=False,
    ),
    OpCase(
        "softmax",
        softmax,
        shapes=((2, 5, 7), (3, 33, 16), (2, 300, 9)),
        layout_shape=(5, 9, 12),
        make=uniform(-6, 6),
        kwargs={"axis": 1},
        ulps=SOFTMAX_ULPS,
        elementwise=False,
    ),
]

DEDICATED = {
    "layernorm": "test_norm.py::test_layernorm",
    "rmsnorm": "test_norm.py::test_rmsnorm",
    "bias_add_inplace": "test_norm.py::test_bias_add_inplace",
}
