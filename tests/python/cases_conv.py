"""Convolutions have tests of their own."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "conv1d": "test_conv.py::test_conv1d",
    "conv2d": "test_conv.py::test_conv2d",
    "conv_transpose1d": "test_conv.py::test_conv_transpose1d",
    "lay_out_conv_weight": "test_conv_tensor_cores.py::test_weights_that_are_laid_out",
    "explain_conv1d": "test_conv_tensor_cores.py::test_explanations",
    "explain_conv2d": "test_conv_tensor_cores.py::test_explanations",
    "explain_conv_transpose1d": "test_conv_tensor_cores.py::test_explanations",
}
