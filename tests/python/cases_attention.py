"""Attention and the functions of KV caches."""

from __future__ import annotations

from opcase import OpCase

CASES: list[OpCase] = []

DEDICATED = {
    "attention": "test_attention.py::test_attention",
    "attention_over_cache": "test_attention_cache.py::test_cache",
    "explain_attention": "test_attention.py::test_explanations",
    "explain_attention_over_cache": "test_attention.py::test_explanations",
    "sdpa_causal": "test_attention_names.py::test_sdpa",
    "sdpa_causal_fixed_cache": "test_attention_names.py::test_sdpa",
    "sdpa_causal_fixed_cache_ptr": "test_attention_names.py::test_sdpa",
    "sdpa_causal_fp8": "test_attention_names.py::test_sdpa",
    "cross_attention": "test_attention_names.py::test_sdpa",
    "sdpa_irope": "test_attention_names.py::test_irope",
    "irope_scale_q": "test_attention_names.py::test_irope",
    "fa3_fp8_available": "test_attention_names.py::test_devices_are_named",
    "get_sm_version": "test_attention_names.py::test_devices_are_named",
    "kv_cache_update": "test_attention_names.py::test_cache_functions",
    "kv_cache_prefill": "test_attention_names.py::test_cache_functions",
    "kv_cache_update_gqa": "test_attention_names.py::test_cache_functions",
    "kv_cache_prefill_gqa": "test_attention_names.py::test_cache_functions",
    "kv_cache_update_gqa_ptr": "test_attention_names.py::test_cache_functions",
    "allocate_kv_cache": "test_attention_names.py::test_paged_names",
    "paged_attention_v1": "test_attention_names.py::test_paged_names",
    "reshape_and_cache": "test_attention_names.py::test_paged_names",
    "gather_embeddings": "test_attention_names.py::test_batching_names",
    "scatter_last_token_logits": "test_attention_names.py::test_batching_names",
    "prepare_batch_inputs": "test_attention_names.py::test_lists_of_tokens",
    "prepare_position_ids": "test_attention_names.py::test_batching_names",
    "argmax_sample": "test_attention_names.py::test_batching_names",
    "check_eos": "test_attention_names.py::test_batching_names",
    "compute_cumsum": "test_attention_names.py::test_batching_names",
    "pope_init_encoding": "test_attention_names.py::test_pope",
    "pope_inplace": "test_attention_names.py::test_pope",
    "alibi_init_slopes": "test_attention_names.py::test_alibi",
    "alibi_compute_bias": "test_attention_names.py::test_alibi",
    "alibi_add_bias": "test_attention_names.py::test_alibi",
    "rope_init_linear": "test_attention_names.py::test_whole_tables",
    "rope_init_ntk_aware": "test_attention_names.py::test_whole_tables",
    "rope_init_yarn": "test_attention_names.py::test_whole_tables",
}
