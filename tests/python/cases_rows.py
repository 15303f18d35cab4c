"""Gated activations, rows of tables, positions."""

from __future__ import annotations

from math import erfc

import numpy as np
from opcase import OpCase, uniform

# exp makes a relative error of the rounding of its argument.
GATED_ULPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 64.0, "float64": 64.0}
# The rounding of a / sqrt(2) grows with the square of the argument in the tail of erfc.
ERF_ULPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 80.0, "float64": 80.0}


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * np.vectorize(erfc, otypes=[np.float64])(-x / np.sqrt(2))


def halves(function):
    def packed(x):
        n = x.shape[-1] // 2
        return function(x[..., :n]) * x[..., n:]

    return packed


CASES = [
    OpCase(
        "swiglu", lambda gate, up: silu(gate) * up, arity=2, ulps=GATED_ULPS, rejects=("int32", "bool", "complex64")
    ),
    OpCase(
        "geglu", lambda gate, up: gelu(gate) * up, arity=2, make=uniform(-4, 4), ulps=GATED_ULPS, rejects=("int32",)
    ),
    OpCase("gelu_erf", gelu_erf, make=uniform(-5, 5), ulps=ERF_ULPS, rejects=("int32", "bool")),
    OpCase(
        "leaky_relu",
        lambda a, slope: np.where(a > 0, a, a * np.float64(slope)),
        kwargs={"slope": 0.25},
        rejects=("int32", "bool"),
    ),
    *(
        OpCase(
            name,
            halves(function),
            shapes=((0, 8), (2,), (3, 66), (2, 5, 8), (7, 1024)),
            layout_shape=(6, 34),
            make=uniform(-4, 4),
            ulps=GATED_ULPS,
            elementwise=False,
            rejects=("int32",),
        )
        for name, function in (("swiglu_packed", silu), ("geglu_packed", gelu))
    ),
    OpCase(
        "modulate",
        lambda x, scale, shift: x * (1 + scale) + shift,
        arity=3,
        make=uniform(0.1, 2),
        ulps=GATED_ULPS,
        rejects=("int32",),
    ),
    OpCase(
        "gated_residual",
        lambda residual, gate, value: residual + gate * value,
        arity=3,
        make=uniform(0.1, 2),
        ulps=GATED_ULPS,
        rejects=("int32",),
    ),
]

DEDICATED = {
    "snake": "test_rows.py::test_snake",
    "rmsnorm_residual": "test_rows.py::test_norm_of_a_sum",
    "layernorm_residual": "test_rows.py::test_norm_of_a_sum",
    "embedding": "test_rows.py::test_embedding",
    "embedding_lookup": "test_rows.py::test_embedding_names",
    "embedding_lookup_ptr": "test_rows.py::test_embedding_names",
    "embedding_lookup_batch": "test_rows.py::test_embedding_names",
    "slice_rows_range_ptr": "test_rows.py::test_embedding_names",
    "rope": "test_rope.py::test_rope",
    "rope_tables": "test_rope.py::test_tables",
    "rope_inplace": "test_rope.py::test_rope_inplace",
    "rope_inplace_f32table": "test_rope.py::test_rope_inplace",
    "qkv_rope_append": "test_rope.py::test_qkv_rope_append",
    "split_qkv_batch": "test_rope.py::test_split_qkv_batch",
}
