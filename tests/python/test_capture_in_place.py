"""Every operation that writes to an array it is given can be captured: a replay gives the bits of a call."""

from __future__ import annotations

import re

import numpy as np
import pytest
from opcase import upload

import pygpukit as gp
from pygpukit import compat

# Return nothing and write no array, or take what they write from the host.
NOT_OPS = {"copy_device_to_device_offset", "sample_topk_to_buf", "set_sampling_seed"}


def normal(rng, *shapes, dtype="float32"):
    return [upload(rng.normal(size=shape), "float32").astype(dtype) for shape in shapes]


def integers(rng, high, *shape, low=0, dtype="int32"):
    return upload(rng.integers(low, high, shape), dtype)


def tables(tokens=20, dim=16):
    return list(gp.rope_tables(tokens, dim))


def whole_tables():
    return list(gp.rope_init_linear(20, 16))


def qkv(rng):
    """qkv, q_out, caches with their scales, ids and positions of different places, tables."""
    return [
        *normal(rng, (5, 64), (5, 2, 16), dtype="bfloat16"),
        *(gp.zeros((3, 8, 1, 16), dtype="int8") for _ in "kv"),
        *(gp.zeros((3, 8, 1)) for _ in "kv"),
        integers(rng, 3, 5, low=-1),
        upload(rng.permutation(8)[:5], "int32"),
        *tables(8),
    ]


def append(x):
    gp.qkv_rope_append(*x[:4], *x[6:8], k_scale=x[4], v_scale=x[5], cos=x[8], sin=x[9])


def moe_order(rng):
    return [
        integers(rng, 4, 9, 2, low=-1),
        *(gp.zeros((n,), dtype="int32") for n in (4, 5, 18, 18)),
    ]


def moe_offsets(rng):
    return [upload(np.sort([0, *rng.integers(0, 18, 4)]), "int32"), gp.zeros((18,), dtype="int32")]


def slots(rng):
    return upload(rng.permutation(12)[:3], "int32")


# Name of the operation: the arrays, those written among them or not, and the call.
CALLS = {
    "rope": (lambda r: [*normal(r, (5, 3, 16), dtype="float16"), *tables(), integers(r, 20, 5)], lambda x: gp.rope(*x)),
    "rope_inplace": (lambda r: [*normal(r, (9, 4, 16), (9, 2, 16)), *whole_tables()], lambda x: gp.rope_inplace(*x)),
    "rope_inplace_f32table": (
        lambda r: [*normal(r, (9, 4, 16), (9, 2, 16), dtype="bfloat16"), *whole_tables()],
        lambda x: gp.rope_inplace_f32table(*x),
    ),
    "pope_inplace": (
        lambda r: [*normal(r, (9, 4, 16), (9, 2, 16), dtype="bfloat16"), gp.pope_init_encoding(20, 16)],
        lambda x: gp.pope_inplace(*x, 7),
    ),
    "alibi_add_bias": (
        lambda r: [*normal(r, (2, 4, 3, 9)), gp.alibi_init_slopes(4)],
        lambda x: gp.alibi_add_bias(*x, 6),
    ),
    "split_qkv_batch": (
        lambda r: normal(r, (5, 32), (5, 2, 8), (5, 8), (5, 1, 8)),
        lambda x: gp.split_qkv_batch(*x, 16, 8, 8),
    ),
    "qkv_rope_append": (qkv, append),
    "embedding_lookup": (lambda r: normal(r, (7, 9), (1, 9)), lambda x: gp.embedding_lookup(*x, 4)),
    "embedding_lookup_ptr": (
        lambda r: [*normal(r, (7, 9), (1, 9)), integers(r, 7, 1)],
        lambda x: gp.embedding_lookup_ptr(*x),
    ),
    "embedding_lookup_batch": (
        lambda r: [*normal(r, (7, 9), (6, 9)), integers(r, 7, 6)],
        lambda x: gp.embedding_lookup_batch(*x, 5),
    ),
    "slice_rows_range_ptr": (
        lambda r: [*normal(r, (7, 9), (3, 9)), integers(r, 4, 1)],
        lambda x: gp.slice_rows_range_ptr(*x, 3),
    ),
    "kv_cache_update": (lambda r: normal(r, (1, 2, 8), (9, 2, 8)), lambda x: gp.kv_cache_update(*x, 4)),
    "kv_cache_prefill": (lambda r: normal(r, (3, 2, 8), (9, 2, 8)), lambda x: gp.kv_cache_prefill(*x, 4)),
    "kv_cache_update_gqa": (lambda r: normal(r, (1, 2, 8), (4, 9, 8)), lambda x: gp.kv_cache_update_gqa(*x, 4, 5)),
    "kv_cache_prefill_gqa": (lambda r: normal(r, (3, 2, 8), (4, 9, 8)), lambda x: gp.kv_cache_prefill_gqa(*x, 4, 5)),
    "kv_cache_update_gqa_ptr": (
        lambda r: [*normal(r, (1, 2, 8), (4, 9, 8)), integers(r, 9, 1)],
        lambda x: gp.kv_cache_update_gqa_ptr(*x[:2], 4, x[2]),
    ),
    "copy_to_paged_cache": (
        lambda r: [*normal(r, *((3, 2, 8),) * 2, *((3, 2, 4, 8),) * 2, dtype="float16"), slots(r)],
        lambda x: compat.copy_to_paged_cache(*x),
    ),
    "reshape_and_cache": (
        lambda r: [*normal(r, *((3, 2, 8),) * 2, *((3, 2, 4, 8),) * 2), slots(r)],
        lambda x: compat.reshape_and_cache(*x),
    ),
    "sdpa_causal_fixed_cache": (
        lambda r: normal(r, (4, 5, 16), (2, 70, 16), (2, 70, 16), (4, 5, 16)),
        lambda x: gp.sdpa_causal_fixed_cache(*x, 33),
    ),
    "sdpa_causal_fixed_cache_ptr": (
        lambda r: [*normal(r, (4, 1, 16), (2, 70, 16), (2, 70, 16), (4, 1, 16)), integers(r, 71, 1, low=1)],
        lambda x: gp.sdpa_causal_fixed_cache_ptr(*x, 70),
    ),
    "sdpa_causal_fp8": (
        lambda r: normal(r, (4, 5, 16), (2, 7, 16), (2, 7, 16), (4, 5, 16), dtype="bfloat16"),
        lambda x: compat.sdpa_causal_fp8(*x),
    ),
    "moe_topk_with_indices": (
        lambda r: [*normal(r, (9, 20), (9, 3)), gp.zeros((9, 3), dtype="int32")],
        lambda x: gp.moe_topk_with_indices(*x, 3),
    ),
    "moe_softmax_topk": (lambda r: normal(r, (9, 3), dtype="bfloat16"), lambda x: gp.moe_softmax_topk(*x, 3)),
    "moe_compute_permutation": (moe_order, lambda x: gp.moe_compute_permutation(*x, 4, 2)),
    "moe_gather": (
        lambda r: [*normal(r, (9, 8)), upload(r.permutation(18), "int32"), gp.zeros((18, 8))],
        lambda x: gp.moe_gather(*x, 2),
    ),
    "moe_scatter": (
        lambda r: [*normal(r, (18, 8), (9, 2)), upload(r.permutation(18), "int32"), gp.zeros((9, 8))],
        lambda x: gp.moe_scatter(*x, 2),
    ),
    "moe_expand_expert_offsets": (moe_offsets, lambda x: gp.moe_expand_expert_offsets(*x, 4)),
    "sample_topk_to_buf_ptr": (
        lambda r: [*normal(r, (1, 90)), gp.zeros((1,), dtype="int32"), upload(r.uniform(size=1), "float32")],
        lambda x: gp.sample_topk_to_buf_ptr(*x, 5, 0.8),
    ),
    "bias_add_inplace": (lambda r: normal(r, (9, 8), (8,)), lambda x: gp.bias_add_inplace(*x)),
    "add_inplace": (lambda r: normal(r, (9, 8), (8,), dtype="float16"), lambda x: compat.add_inplace(*x)),
    "mul_inplace": (lambda r: normal(r, (9, 8), (9, 1)), lambda x: compat.mul_inplace(*x)),
    "put_along_axis": (
        lambda r: [*normal(r, (5, 9)), integers(r, 9, 5, 1, dtype="int64"), *normal(r, (5, 1))],
        lambda x: gp.put_along_axis(*x, 1),
    ),
    "copy_to": (lambda r: normal(r, (9, 8), (9, 8)), lambda x: gp.copy_to(*x)),
}


def bits(arrays):
    return [x.contiguous().to_numpy().tobytes() for x in arrays]


def fill(arrays, values):
    for x, value in zip(arrays, values, strict=True):
        gp.copy_to(value, x)


def test_every_function_that_returns_nothing_has_a_call():
    found = set()
    for module in (gp.ops, compat):
        for name in module.__all__:
            signature = str(getattr(getattr(module, name), "__nb_signature__", ""))
            if re.search(r"-> None\b", signature):
                found.add(name)
    assert found == CALLS.keys() | NOT_OPS


@pytest.mark.parametrize("name", CALLS)
def test_replays_are_calls(name, device):
    make, call = CALLS[name]
    states = []
    for seed in (1, 2):
        arrays = make(np.random.default_rng(seed))
        before = [x + 0 if x.dtype.name != "bool" else x for x in arrays]
        assert call(arrays) is None
        assert bits(arrays) != bits(before), "nothing was written"
        states.append((before, bits(arrays)))
    arrays = make(np.random.default_rng(1))
    graph = gp.CudaGraph()
    with graph.capture():
        call(arrays)
    assert bits(arrays) == bits(states[0][0]), "the capture wrote"
    for before, after in (*states, states[0]):
        fill(arrays, before)
        graph.replay()
        assert bits(arrays) == after


@pytest.mark.parametrize("name", CALLS)
def test_a_warm_call_allocates_nothing(name, device, rng):
    make, call = CALLS[name]
    arrays = make(rng)
    call(arrays)
    gp.synchronize()
    before = device.memory_stats()["allocations"]
    for _ in range(3):
        call(arrays)
    assert device.memory_stats()["allocations"] == before
