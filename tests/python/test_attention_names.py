"""Attention, caches and positions under the names of 0.2."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import download, round_to, upload
from test_attention import check, int32, make, reference

import pygpukit as gp
from pygpukit import compat

DTYPES = ("float16", "bfloat16", "float32")


def by_tokens(x):
    return x.transpose(1, 0, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sdpa(device, rng, dtype):
    q, k, v = make(rng, (4, 5, 16), (2, 70, 16), (2, 70, 16), dtype=dtype)
    given = [upload(x, dtype) for x in (q, k, v)]

    def expected(keys=70, **options):
        return by_tokens(reference(by_tokens(q), by_tokens(k[:, :keys]), by_tokens(v[:, :keys]), **options)[0])

    check(gp.sdpa_causal(*given), expected(causal=True), dtype)
    out = gp.zeros(q.shape, dtype=dtype)
    assert gp.sdpa_causal(*given, 0.3, out=out) is out
    check(out, expected(causal=True, scale=0.3), dtype)
    check(gp.cross_attention(*given), expected(), dtype)
    assert gp.sdpa_causal_fixed_cache(*given, out, 33) is None
    check(out, expected(33, causal=True), dtype)
    assert gp.sdpa_causal_fixed_cache_ptr(*given, out, int32([60]), 64) is None
    check(out, expected(60, causal=True), dtype)
    compat.sdpa_causal_fp8(*given, out)
    check(out, expected(causal=True), dtype)
    gp.sdpa_causal_fixed_cache_ptr(*given, out, int32([65]), 64)
    with pytest.raises(IndexError, match="sdpa_causal_fixed_cache_ptr: index 65"):
        gp.synchronize()
    with pytest.raises(IndexError, match="71 keys"):
        gp.sdpa_causal_fixed_cache(*given, out, 71)
    with pytest.raises(ValueError, match="K must have the 16 dims of Q"):
        gp.sdpa_causal(given[0], given[1][..., :8], given[2][..., :8])
    with pytest.raises(ValueError, match="V must have shape"):
        gp.sdpa_causal(given[0], given[1], given[2][:, :9])


def test_devices_are_named(device):
    assert compat.fa3_fp8_available() is False
    version = compat.get_sm_version()
    assert version == 0 if device.kind == "cpu" else version >= 80


@pytest.mark.parametrize("dtype", DTYPES)
def test_irope(device, rng, dtype):
    q, k, v = make(rng, (4, 5, 16), (2, 9, 16), (2, 9, 16), dtype=dtype)
    at = np.array([0, 7, 8, 100, 70000])
    factor = 1 + 0.5 * np.log1p(np.floor((at + 1) / 8.0))
    for positions in (int32(at), gp.from_numpy(at)):
        scaled = gp.irope_scale_q(upload(by_tokens(q), dtype), positions, 0.5, 8.0)
        check(scaled, by_tokens(q) * factor[:, None, None], dtype)
    held = by_tokens(round_to(q * factor[:, None], dtype))
    for offset in (4, 0, 6, -2):
        got = gp.sdpa_irope(*(upload(x, dtype) for x in (q, k, v)), int32(at), 0.5, 8.0, offset)
        expected, _ = reference(held, by_tokens(k), by_tokens(v), causal=True, positions=np.arange(5) + offset)
        check(got, by_tokens(expected), dtype)
    with pytest.raises(gp.errors.DTypeError, match="positions must have dtype int32 or int64"):
        gp.irope_scale_q(upload(q, dtype), gp.zeros((4,)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cache_functions(device, rng, dtype):
    new = round_to(rng.normal(size=(3, 2, 8)), dtype)
    plain, wide = np.zeros((10, 2, 8)), np.zeros((6, 10, 8))
    cache, spread = upload(plain, dtype), upload(wide, dtype)
    gp.kv_cache_prefill(upload(new, dtype), cache, 4)
    gp.kv_cache_update(upload(new[:1], dtype), cache, 9)
    plain[4:7], plain[9] = new, new[0]
    np.testing.assert_array_equal(download(cache), plain)
    gp.kv_cache_prefill_gqa(upload(new, dtype), spread, 6, 1)
    gp.kv_cache_update_gqa(upload(new[1:2], dtype), spread, 6, 8)
    gp.kv_cache_update_gqa_ptr(upload(new[2:], dtype), spread, 6, int32([9]))
    heads = np.repeat(by_tokens(new), 3, axis=0)
    wide[:, 1:4], wide[:, 8], wide[:, 9] = heads, heads[:, 1], heads[:, 2]
    np.testing.assert_array_equal(download(spread), wide)
    gp.kv_cache_update_gqa_ptr(upload(new[2:], dtype), spread, 6, int32([10]))
    with pytest.raises(IndexError, match="kv_cache_update_gqa_ptr: index 10"):
        gp.synchronize()
    np.testing.assert_array_equal(download(spread), wide)
    with pytest.raises(IndexError, match="kv_cache_prefill: positions 8 to 11"):
        gp.kv_cache_prefill(upload(new, dtype), cache, 8)
    with pytest.raises(ValueError, match="new_kv must have shape"):
        gp.kv_cache_update(upload(new, dtype), cache, 0)
    with pytest.raises(ValueError, match="num_heads must be a multiple"):
        gp.kv_cache_update_gqa(upload(new[:1], dtype), spread, 5, 0)


def test_update_by_pointer_is_captured(device, rng):
    over = upload(rng.normal(size=(4, 9, 8)), "float32")
    first = over.to_numpy()[:2, 0]
    gp.kv_cache_update_gqa_ptr(over[:2, :1].transpose(1, 0, 2), over, 4, int32([0]))
    np.testing.assert_array_equal(over.to_numpy()[:, 0], first.repeat(2, axis=0))
    new, cache, at = upload(rng.normal(size=(1, 1, 4)), "float32"), gp.zeros((2, 6, 4)), int32([0])
    graph = gp.CudaGraph()
    with graph.capture():
        gp.kv_cache_update_gqa_ptr(new, cache, 2, at)
    for position in (5, 2):
        gp.copy_to(int32([position]), at)
        graph.replay()
    graph.synchronize()
    np.testing.assert_array_equal(cache.to_numpy().any(-1), [[False, False, True, False, False, True]] * 2)


def test_paged_names(device, rng):
    k_cache, v_cache = (compat.allocate_kv_cache(5, 2, 4, 16) for _ in range(2))
    assert k_cache.shape == (5, 2, 4, 16) and k_cache.dtype.name == "float16"
    tables, lengths = np.array([[3, 0, 1], [2, 4, 0]], np.int32), [9, 6]
    sequences = [make(rng, (n, 2, 16), (n, 2, 16), dtype="float16") for n in lengths]
    for name, tokens in (("reshape_and_cache", slice(0, -1)), ("copy_to_paged_cache", slice(-1, None))):
        for table, (k, v) in zip(tables, sequences, strict=True):
            at = np.arange(len(k))[tokens]
            slots = int32([*(table[at // 4] * 4 + at % 4), -1])
            rows = [upload(np.concatenate([x[tokens], x[:1]]), "float16") for x in (k, v)]
            getattr(compat, name)(*rows, k_cache, v_cache, slots)
    q = round_to(rng.normal(size=(2, 4, 16)), "float16")
    got = compat.paged_attention_v1(upload(q, "float16"), k_cache, v_cache, gp.from_numpy(tables), int32(lengths))
    for i, (k, v) in enumerate(sequences):
        check(got[i : i + 1], reference(q[i : i + 1], k, v)[0], "float16")
    compat.copy_to_paged_cache(*(gp.zeros((1, 2, 16), dtype="float16"),) * 2, k_cache, v_cache, int32([20]))
    with pytest.raises(IndexError, match="copy_to_paged_cache: index 20 is out of range"):
        gp.synchronize()


def test_batching_names(device, rng):
    table, logits = rng.normal(size=(9, 4)).astype("f4"), rng.normal(size=(7, 5)).astype("f4")
    got = compat.gather_embeddings(int32([3, 1, 8, 0]), gp.from_numpy(table), 3)
    np.testing.assert_array_equal(got.to_numpy(), table[[3, 1, 8]])
    starts, inputs = [0, 4, 5], [4, 1, 2]
    got = compat.scatter_last_token_logits(gp.from_numpy(logits), int32(starts), int32(inputs), 3, 5)
    np.testing.assert_array_equal(got.to_numpy(), logits[[3, 4, 6]])
    got = compat.prepare_position_ids(int32(starts), int32([4, 17, 2]), int32([1, 0, 1]), int32(inputs), 3, 7)
    assert got.dtype.name == "int32"
    np.testing.assert_array_equal(got.to_numpy(), [0, 1, 2, 3, 16, 0, 1])
    got = compat.argmax_sample(gp.from_numpy(logits), 7, 5)
    np.testing.assert_array_equal(got.to_numpy(), logits.argmax(1))
    assert got.dtype.name == "int32"
    np.testing.assert_array_equal(compat.check_eos(int32([3, 2, 3]), 3).to_numpy(), [1, 0, 1])
    np.testing.assert_array_equal(compat.compute_cumsum(int32([3, 2, 4])).to_numpy(), [0, 3, 5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_pope(device, rng, dtype):
    encoding = gp.pope_init_encoding(20, 6)
    angle = np.outer(np.arange(20), 10000.0 ** (-np.array([0, 0, 2, 2, 4, 4]) / 6))
    expected = np.where(np.arange(6) % 2 == 0, np.sin(angle), np.cos(angle))
    np.testing.assert_allclose(encoding.to_numpy(), expected, atol=1e-6)
    q, k = make(rng, (5, 3, 6), (5, 1, 6), dtype=dtype)
    a, b = upload(q, dtype), upload(k, dtype)
    gp.pope_inplace(a, b, encoding, 15)
    check(a, q + expected[15:, None], dtype)
    check(b, k + expected[15:, None], dtype)
    with pytest.raises(IndexError, match="out of range"):
        gp.pope_inplace(a, b, encoding, 16)


def test_alibi(device, rng):
    slopes = gp.alibi_init_slopes(4)
    np.testing.assert_array_equal(slopes.to_numpy(), 2.0 ** -np.array([2, 4, 6, 8]))
    distance = np.arange(5) - np.arange(5)[:, None]
    expected = slopes.to_numpy()[:, None, None] * distance
    np.testing.assert_array_equal(gp.alibi_compute_bias(5, 4, slopes, False).to_numpy(), expected)
    np.testing.assert_array_equal(
        gp.alibi_compute_bias(5, 4, slopes).to_numpy(), np.where(distance > 0, np.float32(-1e9), expected)
    )
    scores = rng.normal(size=(2, 4, 3, 9)).astype("f4")
    given = gp.from_numpy(scores.copy())
    gp.alibi_add_bias(given, slopes, 6)
    bias = slopes.to_numpy()[:, None, None] * (np.arange(9) - (6 + np.arange(3))[:, None])
    np.testing.assert_allclose(given.to_numpy(), scores + bias, atol=1e-6)


def test_whole_tables(device):
    for got, options in (
        (gp.rope_init_linear(30, 16, scale=4.0), {"scaling": "linear", "factor": 4.0}),
        (gp.rope_init_ntk_aware(30, 16, 500.0, 4.0), {"base": 500.0, "scaling": "ntk", "factor": 4.0}),
        (
            gp.rope_init_yarn(30, 16, scale=4.0, original_max_len=64, mscale=0.2),
            {
                "scaling": "yarn",
                "factor": 4.0,
                "original_length": 64,
                "attention_factor": 0.2 * float(np.log(4.0)) + 1,
            },
        ),
    ):
        for table, half in zip(got, gp.rope_tables(30, 16, **options), strict=True):
            np.testing.assert_array_equal(table.to_numpy(), np.concatenate([half.to_numpy()] * 2, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_names_take_out(device, rng, dtype):
    q, k, v = (upload(x, dtype) for x in make(rng, (4, 5, 16), (2, 9, 16), (2, 9, 16), dtype=dtype))
    at = int32(np.arange(5) * 3)
    for function, arguments in (
        (gp.cross_attention, (q, k, v)),
        (gp.sdpa_irope, (q, k, v, at, 0.5, 8.0, 4)),
        (gp.irope_scale_q, (q.transpose(1, 0, 2), at, 0.5, 8.0)),
    ):
        expected = function(*arguments)
        out = gp.zeros((16, *expected.shape[:2]), dtype=dtype).transpose(1, 2, 0)
        assert function(*arguments, out=out) is out
        np.testing.assert_array_equal(download(out), download(expected))
        with pytest.raises(ValueError, match=f"{function.__name__}: out must have shape"):
            function(*arguments, out=out[:1])


def test_two_arrays_are_written_or_none(device, rng):
    encoding, q = gp.pope_init_encoding(20, 6), gp.zeros((5, 3, 6))
    for k, message in (
        (gp.zeros((5, 3, 4)), "encoding must have 4 columns"),
        (gp.zeros((5, 3, 6), dtype="int32"), "k must have a float dtype"),
        (gp.zeros((9, 3, 6)), "9 tokens from position 15 are out of range for 20"),
        (q, "q and k share memory"),
    ):
        with pytest.raises((ValueError, IndexError), match=f"pope_inplace: {message}"):
            gp.pope_inplace(q, k, encoding, 15)
        assert not q.to_numpy().any()
    with pytest.raises(IndexError, match="pope_inplace: 5 tokens from position 9223372036854775807"):
        gp.pope_inplace(q, gp.zeros((5, 1, 6)), encoding, 2**63 - 1)
    k_cache, v_cache = (compat.allocate_kv_cache(5, 2, 4, 16) for _ in range(2))
    new = upload(rng.normal(size=(1, 2, 16)), "float16")
    for name in ("copy_to_paged_cache", "reshape_and_cache"):
        store = getattr(compat, name)
        with pytest.raises(gp.errors.DTypeError, match=name):
            store(new, new.astype("float32"), k_cache, v_cache, int32([3]))
        with pytest.raises(ValueError, match=f"{name}: K_cache and V_cache share memory"):
            store(new, new, k_cache, k_cache, int32([3]))
        assert not k_cache.to_numpy().any() and not v_cache.to_numpy().any()


def test_errors_name_the_operation(device, rng):
    cache = gp.zeros((10, 2, 8))
    for start in (2**63 - 1, 2**63 - 3, -1):
        with pytest.raises(IndexError, match=f"kv_cache_update: positions {start} to"):
            gp.kv_cache_update(gp.zeros((1, 2, 8)), cache, start)
        with pytest.raises(IndexError, match=f"kv_cache_prefill_gqa: positions {start} to"):
            gp.kv_cache_prefill_gqa(gp.zeros((3, 2, 8)), gp.zeros((4, 10, 8)), 4, start)
    for name in ("rope_init_linear", "rope_init_ntk_aware", "rope_init_yarn"):
        with pytest.raises(ValueError, match=f"^{name}: rotary_dim must be even"):
            getattr(gp, name)(4, 7)
        with pytest.raises(ValueError, match=f"^{name}: factor must be positive"):
            getattr(gp, name)(4, 8, 10000.0, -1.0)
    out, table = gp.zeros((1, 4)), gp.zeros((3, 4))
    for name, arguments in (("embedding_lookup_ptr", ()), ("embedding_lookup_batch", (1,))):
        getattr(gp, name)(table, out, int32([3]), *arguments)
        with pytest.raises(IndexError, match=f"^{name}: index 3 is out of range"):
            gp.synchronize()


def test_lists_of_tokens(device):
    ids, count = compat.prepare_batch_inputs([[3, 1], [], [7]])
    assert count == 3 and ids.dtype.name == "int32" and ids.tolist() == [3, 1, 7]
    ids, count = compat.prepare_batch_inputs([])
    assert count == 0 and ids.shape == (0,)
    with pytest.raises(IndexError, match="prepare_batch_inputs: token 2147483648 is out of range"):
        compat.prepare_batch_inputs([[1], [2**31]])
    with pytest.raises(TypeError, match="prepare_batch_inputs"):
        compat.prepare_batch_inputs([[1.5]])
