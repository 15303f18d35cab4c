"""Quantised arrays do not fit the form of a case: they have tests of their own."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []
DEDICATED = {
    "quantize": "test_quantize.py::test_round_trip_error",
    "dequantize": "test_quantize.py::test_round_trip_error",
    "scaled_matmul": "test_scaled_matmul.py::test_two_errors",
    "grouped_matmul": "test_grouped_matmul.py::test_against_float64",
    "pack": "test_pack.py::test_layout",
    "explain_scaled_matmul": "test_scaled_matmul_choice.py::test_explain",
    "explain_grouped_matmul": "test_grouped_matmul.py::test_explain",
}
