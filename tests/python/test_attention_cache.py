"""Attention over caches: one answer however a prompt was cut and wherever its keys lie."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from opcase import download, round_to, upload
from test_attention import bits, check, int32, make, reference

import pygpukit as gp


def store(rng, sequences, page, dtype, capacity):
    """Caches that hold `sequences`, a list of (k, v) of [tokens, kv_heads, dim]: contiguous, and paged in a drawn order."""
    kv_heads, dim = sequences[0][0].shape[1:]
    flat = [np.full((len(sequences), capacity, kv_heads, dim), np.nan) for _ in range(2)]
    per = -(-capacity // page)
    tables = rng.permutation(len(sequences) * per + 3)[: len(sequences) * per].reshape(len(sequences), per)
    paged = [np.full((len(sequences) * per + 3, page, kv_heads, dim), np.nan) for _ in range(2)]
    for s, pair in enumerate(sequences):
        for which, x in enumerate(pair):
            flat[which][s, : len(x)] = x
            for t in range(len(x)):
                paged[which][tables[s, t // page], t % page] = x[t]
    return [upload(x, dtype) for x in flat], [upload(x, dtype) for x in paged], int32(tables)


@pytest.mark.parametrize(
    "dtype, cache_dtype", [("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "bfloat16")]
)
def test_cache(device, rng, dtype, cache_dtype):
    lengths = [1, 70, 1030]
    sequences = [make(rng, (n, 2, 48), (n, 2, 48), dtype=cache_dtype) for n in lengths]
    flat, paged, tables = store(rng, sequences, 16, cache_dtype, 1040)
    # Prefill, decode and padding in one call.
    ids = [2] * 5 + [1, -1, 0] + [1] * 3
    at = [1025, 1026, 1027, 1028, 1029, 69, 5, 0, 0, 1, 2]
    q = round_to(rng.normal(size=(len(ids), 6, 48)), dtype)
    for options in ({}, {"window": 40, "softcap": 20.0, "scale": 0.2}, {"chunk": 33}, {"chunk": 128, "window": 100}):
        given = (upload(q, dtype), *flat, int32(ids), int32(at))
        got = gp.attention_over_cache(*given, **options)
        out = gp.zeros((48, 6, len(ids)), dtype=dtype).T
        assert gp.attention_over_cache(given[0], *paged, *given[3:], block_tables=tables, out=out, **options) is out
        assert bits(out) == bits(got)
        for i, (s, p) in enumerate(zip(ids, at, strict=True)):
            if s < 0:
                assert not download(got[i]).any()
                continue
            k, v = sequences[s]
            expected, _ = reference(q[i : i + 1], k[: p + 1], v[: p + 1], causal=True, **options)
            check(got[i : i + 1], expected, dtype)


@pytest.mark.parametrize("paged", [False, True], ids=["contiguous", "paged"])
@pytest.mark.parametrize("cache_dtype", ["float8_e4m3", "int8"])
def test_quantised_caches(device, rng, paged, cache_dtype):
    tokens, heads, kv_heads, dim = 90, 4, 2, 32
    shape = (24, 4, kv_heads, dim) if paged else (1, 96, kv_heads, dim)
    tables = int32(rng.permutation(24)[None]) if paged else None
    if cache_dtype == "int8":
        caches = [gp.zeros(shape, dtype="int8") for _ in range(2)]
        scales = [gp.zeros(shape[:3]) for _ in range(2)]
    else:
        caches = [gp.bitcast(gp.zeros(shape, dtype="uint8"), gp.float8_e4m3) for _ in range(2)]
        scales = [gp.from_numpy(rng.uniform(0.01, 0.05, kv_heads).astype(np.float32)) for _ in range(2)]
    options = {"k_scale": scales[0], "v_scale": scales[1], "block_tables": tables}
    qkv = round_to(rng.normal(size=(tokens, (heads + 2 * kv_heads) * dim)), "bfloat16")
    q, ids, at = gp.zeros((tokens, heads, dim), dtype="bfloat16"), int32([0] * tokens), int32(np.arange(tokens))
    gp.qkv_rope_append(upload(qkv, "bfloat16"), q, *caches, ids, at, **options)

    def held(cache, scale):
        x = download(cache.astype("float32") if cache_dtype == "float8_e4m3" else cache).astype(np.float64)
        s = scale.to_numpy().astype(np.float64)
        x = x * (s[:, None] if cache_dtype == "float8_e4m3" else s[..., None])
        return (x[tables.to_numpy()[0]] if paged else x).reshape(-1, kv_heads, dim)[:tokens]

    expected, _ = reference(download(q), *(held(c, s) for c, s in zip(caches, scales, strict=True)), causal=True)
    got = gp.attention_over_cache(q, *caches, ids, at, **options)
    check(got, expected, "bfloat16")
    one = [
        gp.attention_over_cache(q[i : i + 1], *caches, ids[i : i + 1], at[i : i + 1], **options) for i in range(tokens)
    ]
    assert b"".join(bits(x) for x in one) == bits(got)


def test_bits_do_not_depend_on_the_cut(device):
    """100 cases: whole, cut anywhere, token by token, contiguous or paged, alone or among others; one answer each."""
    for case in range(100):
        rng = np.random.default_rng(case)
        dtype = ("bfloat16", "float16", "float32")[case % 3]
        kv_heads = int(rng.integers(1, 4))
        heads, dim = kv_heads * int(rng.integers(1, 5)), int(rng.choice([1, 8, 20, 64, 80, 128, 256]))
        tokens = int(rng.integers(1, 40) if case % 4 else rng.integers(500, 1100))
        first = 0 if case % 2 else max(0, tokens - 30)  # the others were there before
        page = int(rng.choice([4, 16, 64]))
        options = [{}, {"window": int(rng.integers(1, 100))}, {"softcap": 10.0}][int(rng.integers(3))]
        if tokens > 100:
            heads, kv_heads, dim = min(heads, 2), 1, min(dim, 64)
        q, k, v = make(rng, (tokens, heads, dim), (tokens, kv_heads, dim), (tokens, kv_heads, dim), dtype=dtype)
        other = make(rng, (tokens + 5, kv_heads, dim), (tokens + 5, kv_heads, dim), dtype=dtype)
        flat, paged, tables = store(rng, [(k, v), other], page, dtype, tokens + 9)
        query, at = upload(q, dtype), np.arange(tokens)

        def over(where, ids, positions, queries, flat=flat, paged=paged, tables=tables, options=options):
            caches = flat if where == "contiguous" else paged
            return gp.attention_over_cache(
                queries,
                *caches,
                int32(ids),
                int32(positions),
                block_tables=None if where == "contiguous" else tables,
                **options,
            )

        whole = over("contiguous", [0] * tokens, at, query)
        expected = bits(whole[first:])
        plain = gp.attention(*(upload(x[None], dtype) for x in (q, k, v)), causal=True, **options)
        assert bits(plain[0, first:]) == expected, case
        cuts = np.sort(rng.integers(first, tokens + 1, 5))
        singles = range(first, tokens)
        for where in ("contiguous", "paged"):
            for edges in ([first, *cuts, tokens], [*singles, tokens]):
                parts = [bits(over(where, [0] * (b - a), at[a:b], query[a:b])) for a, b in pairwise(edges) if b > a]
                assert b"".join(parts) == expected, (case, where)
        # Among tokens of another sequence and padding.
        order = rng.permutation(np.repeat(np.arange(3), tokens - first))
        mixed = np.zeros((len(order), heads, dim))
        ids, positions, mine = [], [], []
        for i, kind in enumerate(order):
            if kind == 0:
                token = first + len(mine)
                mixed[i], mine = q[token], [*mine, i]
                ids.append(0)
                positions.append(token)
            else:
                mixed[i] = rng.normal(size=(heads, dim))
                ids.append(1 if kind == 1 else -1)
                positions.append(int(rng.integers(0, tokens + 5)))
        got = over("paged", ids, positions, upload(round_to(mixed, dtype), dtype))
        assert download(got)[mine].tobytes() == download(whole)[first:].tobytes(), case


def test_bits_of_quantised_caches_do_not_depend_on_the_cut(device):
    """100 cases: a prompt goes into the cache, and over it, whole, in six parts, or token by token; paged or not."""
    for case in range(100):
        rng = np.random.default_rng(case)
        cache_dtype, paged = ("int8", "float8_e4m3")[case % 2], bool(case // 2 % 2)
        dtype = ("bfloat16", "float16", "float32")[case % 3]
        kv_heads = int(rng.integers(1, 3))
        heads, dim = kv_heads * int(rng.integers(1, 4)), int(rng.choice([2, 8, 20, 64, 80, 128]))
        tokens = int(rng.integers(1, 30) if case % 10 else rng.integers(500, 600))
        if tokens > 100:
            heads, kv_heads, dim = 1, 1, 16
        page = int(rng.choice([4, 16]))
        pages = -(-tokens // page)
        tables = int32(rng.permutation(pages + 2)[None, :pages]) if paged else None
        shape = (pages + 2, page, kv_heads, dim) if paged else (1, tokens, kv_heads, dim)
        fixed = [gp.from_numpy(rng.uniform(0.01, 0.1, kv_heads).astype(np.float32)) for _ in "kv"]
        qkv = upload(round_to(rng.normal(size=(tokens, (heads + 2 * kv_heads) * dim)), dtype), dtype)
        cos, sin = gp.rope_tables(tokens, dim)
        window = int(rng.integers(1, 50)) if case % 4 == 3 else None

        def run(edges, cache_dtype=cache_dtype, dtype=dtype, heads=heads, dim=dim, tables=tables, shape=shape,
                fixed=fixed, qkv=qkv, cos=cos, sin=sin, window=window):  # fmt: skip
            if cache_dtype == "int8":
                caches, scales = ([gp.zeros(shape[:n], dtype=t) for _ in "kv"] for n, t in ((4, "int8"), (3, "float32")))
            else:
                caches = [gp.bitcast(gp.zeros(shape, dtype="uint8"), gp.float8_e4m3) for _ in "kv"]
                scales = fixed
            options = {"k_scale": scales[0], "v_scale": scales[1], "block_tables": tables}
            parts = []
            for a, b in pairwise(edges):
                if b == a:
                    continue
                q, ids, at = gp.zeros((b - a, heads, dim), dtype=dtype), int32([0] * (b - a)), int32(range(a, b))
                gp.qkv_rope_append(qkv[a:b], q, *caches, ids, at, **options, cos=cos, sin=sin)
                parts.append(bits(gp.attention_over_cache(q, *caches, ids, at, **options, window=window)))
            held = [bits(gp.bitcast(x, "uint8") if x.dtype.name != "float32" else x) for x in (*caches, *scales)]
            return b"".join(parts), held

        expected = run([0, tokens])
        assert run([0, *np.sort(rng.integers(0, tokens + 1, 5)), tokens]) == expected, case
        if tokens < 100 or case % 20 == 0:
            assert run(range(tokens + 1)) == expected, case


def test_threads_do_not_matter(device, rng):
    q, k, v = (
        upload(x, "bfloat16") for x in make(rng, (2, 90, 4, 64), (2, 600, 2, 64), (2, 600, 2, 64), dtype="bfloat16")
    )
    results = []
    try:
        for count in (1, 2, 5):
            gp.set_num_threads(count)
            results.append(bits(gp.attention(q, k, v, causal=True)))
    finally:
        gp.set_num_threads(0)
    assert results[0] == results[1] == results[2]


def test_bad_values_are_faults(device, rng):
    k, v = (upload(rng.normal(size=(6, 4, 1, 8)), "float32") for _ in range(2))
    q, tables = upload(rng.normal(size=(1, 2, 8)), "float32"), int32([[1, 9], [0, 2]])
    for sequence, position, paged in (
        (2, 0, True),
        (-2, 0, True),
        (0, 8, True),
        (0, -1, True),
        (0, 5, True),
        (6, 0, False),
        (1, 4, False),
    ):
        got = gp.attention_over_cache(
            q, k, v, int32([sequence]), int32([position]), block_tables=tables if paged else None
        )
        with pytest.raises(IndexError, match="attention_over_cache: index"):
            gp.synchronize()
        assert np.isfinite(download(got)).all()
        assert download(got).any() == (position == 5)  # of a bad page only its own keys are left out


def test_cache_arguments(device):
    q, k, ids = gp.zeros((2, 4, 8)), gp.zeros((3, 5, 2, 8)), int32([0, 1])
    with pytest.raises(ValueError, match="cache.k must have 8 dims"):
        gp.attention_over_cache(q, gp.zeros((3, 5, 2, 7)), gp.zeros((3, 5, 2, 7)), ids, ids)
    with pytest.raises(ValueError, match="cache.v must have shape"):
        gp.attention_over_cache(q, k, k[:, 1:], ids, ids)
    with pytest.raises(ValueError, match="k_scale is needed"):
        gp.attention_over_cache(q, k.astype("int8"), k.astype("int8"), ids, ids)
    with pytest.raises(ValueError, match="positions must have shape"):
        gp.attention_over_cache(q, k, k, ids, int32([0]))
    with pytest.raises(gp.errors.DTypeError, match="block_tables must have dtype int32"):
        gp.attention_over_cache(q, k, k, ids, ids, block_tables=gp.zeros((2, 3)))
    assert gp.attention_over_cache(q[:0], k, k, ids[:0], ids[:0]).shape == (0, 4, 8)


def test_decode_is_captured(device, rng):
    k, v = (upload(rng.normal(size=(2, 700, 1, 16)), "float32") for _ in range(2))
    q, out, ids, at = upload(rng.normal(size=(2, 2, 16)), "float32"), gp.zeros((2, 2, 16)), int32([0, 1]), int32([0, 0])
    graph = gp.CudaGraph()
    with graph.capture():
        gp.attention_over_cache(q, k, v, ids, at, out=out)
    for positions in ([3, 600], [699, 0]):
        gp.copy_to(int32(positions), at)
        graph.replay()
        graph.synchronize()
        assert bits(out) == bits(gp.attention_over_cache(q, k, v, ids, int32(positions)))
