"""attention_sm90 against attention_sm80: the same bits, whatever is cut, paged or unseen."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import upload
from test_attention import bits, float8, growing, int32, make
from test_attention_cache import store

import pygpukit as gp

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _hopper():
    if gp.get_device_info().compute_capability[0] != 9:
        pytest.skip("the kernels are those of sm_90")


@pytest.fixture(params=["0", "1"], ids=["whole", "split"])
def flash_decoding(request, monkeypatch):
    monkeypatch.setenv("PYGPUKIT_FLASH_DECODING", request.param)


def spread(x):
    """The same values two elements apart: the copy engine cannot take them, and attention_sm80 does the work."""
    wide = gp.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype.name)
    wide[..., ::2] = x
    return wide[..., ::2]


def both(q, *args, over=None, lse=False, **options):
    """The call as it is and by attention_sm80."""
    run = over or gp.attention
    explain = gp.explain_attention if over is None else gp.explain_attention_over_cache
    other = spread(q)
    assert "attention_sm90" in explain(q, *args, **options) and "attention_sm80" in explain(other, *args, **options)
    if lse:
        options["return_lse"] = True
    got, expected = run(q, *args, **options), run(other, *args, **options)
    got, expected = (x if lse else (x,) for x in (got, expected))
    for ours, theirs in zip(got, expected, strict=True):
        assert bits(ours) == bits(theirs)


SHAPES = [  # batch, queries, keys, heads, kv_heads, dim
    (1, 20, 20, 1, 1, 64),
    (2, 130, 600, 2, 1, 128),
    (1, 19, 1100, 7, 1, 96),
    (1, 300, 300, 2, 2, 40),
    (3, 65, 64, 3, 3, 80),
    (1, 9, 700, 130, 1, 64),
    (1, 150, 1300, 2, 1, 256),
    (2, 70, 90, 2, 2, 136),
    (1, 20, 2100, 3, 1, 192),
]


@pytest.mark.parametrize("causal", [False, True])
def test_whole_arrays(rng, causal, flash_decoding):
    for i, (batch, queries, keys, heads, kv_heads, dim) in enumerate(SHAPES):
        if causal and keys < queries:
            continue
        dtype = ("bfloat16", "float16")[i % 2]
        q, k, v = make(
            rng, (batch, queries, heads, dim), (batch, keys, kv_heads, dim), (batch, keys, kv_heads, dim), dtype=dtype
        )
        q, k, v = (upload(x, dtype) for x in (q, k, v))
        both(q, k, v, causal=causal, lse=True)
        if causal:
            both(q, k, v, causal=True, window=70)


def test_lengths_and_views(rng, flash_decoding):
    shape = (3, 4, 200, 64)  # heads before tokens
    q, k, v = (upload(x, "bfloat16") for x in make(rng, shape, (3, 2, 600, 64), (3, 2, 600, 64), dtype="bfloat16"))
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    both(q, k, v, q_lengths=int32([200, 0, 77]), k_lengths=int32([599, 300, 0]))
    both(q, k, v, q_lengths=int32([1, 200, 130]), k_lengths=int32([600, 511, 513]), causal=True, lse=True)
    out = gp.zeros((64, 3, 200, 4), dtype="bfloat16").transpose(1, 2, 3, 0)
    gp.attention(q, k, v, out=out)
    assert bits(out) == bits(gp.attention(q, k, v))


@pytest.mark.parametrize("page", [16, 64, 128])
def test_caches(rng, page, flash_decoding):
    """What no one may see is NaN."""
    lengths = [3, 700, 150]
    sequences = [make(rng, (n, 2, 64), (n, 2, 64), dtype="bfloat16") for n in lengths]
    flat, paged, tables = store(rng, sequences, page, "bfloat16", 768)
    ids = [1] * 100 + [0] * 3 + [-1] * 2 + [2] * 150 + [1]
    at = [*range(590, 690), *range(3), 0, 7, *range(150), 699]
    q = upload(make(rng, (len(ids), 6, 64), dtype="bfloat16")[0], "bfloat16")
    for options in ({}, {"window": 40}, {"chunk": 128}):
        both(q, *flat, int32(ids), int32(at), over=gp.attention_over_cache, **options)
        both(q, *paged, int32(ids), int32(at), over=gp.attention_over_cache, block_tables=tables, **options)


def test_wide_heads_of_a_cache(rng, flash_decoding):
    sequences = [make(rng, (n, 1, 200), (n, 1, 200), dtype="float16") for n in (5, 1200)]
    flat, paged, tables = store(rng, sequences, 64, "float16", 1280)
    ids, at = [1] * 70 + [0] * 5, [*range(1130, 1200), *range(5)]
    q = upload(make(rng, (len(ids), 3, 200), dtype="float16")[0], "float16")
    for options in ({}, {"window": 40}):
        both(q, *flat, int32(ids), int32(at), over=gp.attention_over_cache, **options)
        both(q, *paged, int32(ids), int32(at), over=gp.attention_over_cache, block_tables=tables, **options)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_growing_scores(rng, dtype, flash_decoding):
    both(*(upload(x, dtype) for x in growing(rng, 40, 700, dtype)), lse=True)


@pytest.mark.parametrize("dim", [64, 96, 192])
def test_shaped_scores(rng, dim, flash_decoding):
    slopes = gp.from_numpy(np.array([0.5, 0, 0.1, 0.02], np.float32))
    q, k, v = make(rng, (1, 40, 4, dim), (1, 600, 2, dim), (1, 600, 2, dim), dtype="float16")
    q, k, v = (upload(x, "float16") for x in (q, k, v))
    both(q, k, v, softcap=5.0, lse=True)
    both(q, k, v, alibi_slopes=slopes, causal=True)
    both(q, k, v, alibi_slopes=slopes, softcap=20.0, window=90, scale=1.5)


def test_float8(rng, flash_decoding):
    _, given, scales = float8(rng, 70, 150, "bfloat16")
    both(*given, causal=True, lse=True, **{name: gp.from_numpy(scale) for name, scale in scales.items()})


def test_a_bad_page_is_told(rng):
    k = gp.zeros((4, 64, 1, 64), dtype="bfloat16")
    q = gp.zeros((40, 2, 64), dtype="bfloat16")
    out = gp.attention_over_cache(q, k, k, int32([0] * 40), int32(range(40)), block_tables=int32([[9, 1]]))
    with pytest.raises(IndexError, match="attention_over_cache"):
        gp.synchronize()
    assert not np.isnan(out.astype("float32").to_numpy()).any()
