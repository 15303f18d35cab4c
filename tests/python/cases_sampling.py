"""Sampling and mixtures of experts: none has the form of a case."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "moe": "test_moe.py::test_moe",
    "moe_compute_permutation": "test_moe.py::test_steps_of_0_2",
    "moe_expand_expert_offsets": "test_moe.py::test_steps_of_0_2",
    "moe_gather": "test_moe.py::test_steps_of_0_2",
    "moe_scatter": "test_moe.py::test_steps_of_0_2",
    "moe_softmax_topk": "test_moe.py::test_steps_of_0_2",
    "moe_topk_with_indices": "test_moe.py::test_topk",
    "sample": "test_sampling.py::test_cuts_and_shares",
    "sample_greedy": "test_sampling.py::test_names_of_0_2",
    "sample_multinomial": "test_sampling.py::test_names_of_0_2",
    "sample_token_gpu": "test_sampling.py::test_names_of_0_2",
    "sample_topk": "test_sampling.py::test_names_of_0_2",
    "sample_topk_to_buf": "test_sampling.py::test_topk_to_buffer_by_a_number",
    "sample_topk_to_buf_ptr": "test_sampling.py::test_names_of_0_2",
    "sample_topp": "test_sampling.py::test_names_of_0_2",
    "set_sampling_seed": "test_sampling.py::test_seeds",
}
