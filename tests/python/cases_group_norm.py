"""Norms over groups have tests of their own."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "group_norm": "test_group_norm.py::test_group_norm",
    "group_norm_silu": "test_group_norm.py::test_group_norm",
    "instance_norm": "test_group_norm.py::test_instance_norm",
    "adain": "test_group_norm.py::test_adain",
    "adain_leaky_relu": "test_group_norm.py::test_adain_and_an_activation",
    "adain_snake": "test_group_norm.py::test_adain_and_an_activation",
    "adaln": "test_group_norm.py::test_adaln",
    "adaln_zero": "test_group_norm.py::test_adaln",
}
