"""Sampling and mixtures of experts: none has the form of a case."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "sample": "test_sampling.py::test_cuts_and_shares",
    "sample_greedy": "test_sampling.py::test_names_of_0_2",
    "sample_multinomial": "test_sampling.py::test_names_of_0_2",
    "sample_token_gpu": "test_sampling.py::test_names_of_0_2",
    "sample_topk": "test_sampling.py::test_names_of_0_2",
    "sample_topk_to_buf_ptr": "test_sampling.py::test_names_of_0_2",
    "sample_topp": "test_sampling.py::test_names_of_0_2",
    "set_sampling_seed": "test_sampling.py::test_seeds",
}
