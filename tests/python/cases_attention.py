"""Attention and the functions of KV caches."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "attention": "test_attention.py::test_attention",
    "attention_over_cache": "test_attention_cache.py::test_cache",
    "explain_attention": "test_attention.py::test_arguments",
}
