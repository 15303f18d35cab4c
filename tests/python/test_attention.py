"""Attention over whole arrays and over caches, against float64 and against itself."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import download, round_to, upload

import pygpukit as gp

TOLERANCE = {"float16": 2e-3, "bfloat16": 1.5e-2, "float32": 3e-6}
DTYPES = tuple(TOLERANCE)


def bits(x):
    return x.contiguous().to_numpy().tobytes()


def int32(values):
    return gp.from_numpy(np.array(values, np.int32))


def reference(
    q, k, v, *, scale=None, causal=False, window=None, chunk=None, softcap=None, slopes=None, mask=None, positions=None
):
    """[queries, heads, dim] by [keys, kv_heads, dim] in float64: results and the logarithms of the sums."""
    queries, heads, dim = q.shape
    keys, kv_heads, _ = k.shape
    k, v = (np.repeat(x, heads // kv_heads, axis=1) for x in (k, v))
    s = np.einsum("qhd,khd->hqk", q, k) * (dim**-0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    at = np.arange(keys - queries, keys) if positions is None else np.asarray(positions)
    distance = at[:, None] - np.arange(keys)
    if slopes is not None:
        s = s - np.asarray(slopes)[:, None, None] * np.abs(distance)
    seen = np.ones((heads, queries, keys), bool)
    if mask is not None and mask.dtype == bool:
        seen &= mask
    elif mask is not None:
        s = s + mask
    if causal:
        seen &= distance >= 0
    if window:
        seen &= np.abs(distance) < window
    if chunk:
        seen &= np.arange(keys) >= at[:, None] // chunk * chunk
    s = np.where(seen, s, -np.inf)
    most = np.max(s, -1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isfinite(most), most, 0))
    total = p.sum(-1, keepdims=True)
    out = np.einsum("hqk,khd->qhd", p / np.where(total == 0, 1, total), v)
    with np.errstate(divide="ignore"):
        return out, (np.log(total) + np.where(np.isfinite(most), most, 0))[..., 0]


def make(rng, *shapes, dtype):
    return [round_to(rng.normal(size=shape), dtype) for shape in shapes]


def check(got, expected, dtype, what=""):
    assert got.dtype.name == dtype
    np.testing.assert_allclose(download(got), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=what)


SHAPES = [  # batch, queries, keys, heads, kv_heads, dim
    (1, 1, 1, 1, 1, 1),
    (2, 5, 5, 4, 2, 64),
    (1, 33, 70, 3, 3, 80),
    (1, 7, 700, 7, 1, 128),
    (2, 130, 1100, 2, 1, 32),
    (1, 3, 65, 2, 2, 256),
    (1, 70, 40, 2, 1, 24),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(device, rng, dtype, causal):
    for batch, queries, keys, heads, kv_heads, dim in SHAPES:
        q, k, v = make(
            rng, (batch, queries, heads, dim), (batch, keys, kv_heads, dim), (batch, keys, kv_heads, dim), dtype=dtype
        )
        given = [upload(x, dtype) for x in (q, k, v)]
        got, lse = gp.attention(*given, causal=causal, return_lse=True)
        assert got.shape == q.shape and lse.shape == (batch, heads, queries) and lse.dtype.name == "float32"
        for b in range(batch):
            expected, sums = reference(q[b], k[b], v[b], causal=causal)
            check(got[b], expected, dtype, str((batch, queries, keys, heads, kv_heads, dim)))
            np.testing.assert_allclose(lse[b].to_numpy(), sums, rtol=2e-6, atol=4e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.3},
        {"softcap": 5.0},
        {"window": 1, "causal": True},
        {"window": 100, "causal": True},
        {"chunk": 1, "causal": True},
        {"chunk": 70, "causal": True, "window": 300},
        {"window": 90},
        {"slopes": True, "causal": True},
        {"slopes": True, "softcap": 30.0, "window": 300, "scale": 0.5},
    ],
    ids=str,
)
def test_options(device, rng, dtype, options):
    q, k, v = make(rng, (40, 4, 32), (600, 2, 32), (600, 2, 32), dtype=dtype)
    options = dict(options)
    slopes = (2.0 ** -np.arange(1, 5)).astype(np.float32) if options.pop("slopes", False) else None
    expected, _ = reference(q, k, v, slopes=slopes, **options)
    given = [upload(x[None], dtype) for x in (q, k, v)]
    if slopes is not None:
        options["alibi_slopes"] = gp.from_numpy(slopes)
    check(gp.attention(*given, **options)[0], expected, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_masks(device, rng, dtype):
    q, k, v = make(rng, (2, 9, 4, 16), (2, 130, 4, 16), (2, 130, 4, 16), dtype=dtype)
    given = [upload(x, dtype) for x in (q, k, v)]
    for shape in [(2, 4, 9, 130), (9, 130), (130,), (2, 1, 1, 130), (4, 9, 1)]:
        for kind in ("bool", "float32", dtype):
            mask = rng.random(shape) < 0.7 if kind == "bool" else round_to(rng.normal(size=shape), kind)
            got = gp.attention(*given, mask=upload(mask, kind))
            whole = np.broadcast_to(mask, (2, 4, 9, 130))
            for b in range(2):
                check(got[b], reference(q[b], k[b], v[b], mask=whole[b])[0], dtype, f"{shape} {kind}")
    nothing = gp.attention(*given, mask=gp.zeros((9, 130), dtype="bool"))
    assert not download(nothing).any()
    with pytest.raises(ValueError, match="mask must broadcast"):
        gp.attention(*given, mask=gp.zeros((9, 129)))
    with pytest.raises(gp.errors.DTypeError, match="mask must have dtype"):
        gp.attention(*given, mask=gp.zeros((9, 130), dtype="int32"))


def test_lengths(device, rng):
    q, k, v = make(rng, (4, 6, 2, 8), (4, 90, 1, 8), (4, 90, 1, 8), dtype="float32")
    k[0, 70:], v[0, 70:] = np.nan, np.inf  # what no query sees may be anything
    q_lengths, k_lengths = [6, 3, 0, 2], [70, 90, 5, 0]
    for causal in (False, True):
        got, lse = gp.attention(
            *(upload(x, "float32") for x in (q, k, v)),
            causal=causal,
            q_lengths=int32(q_lengths),
            k_lengths=int32(k_lengths),
            return_lse=True,
        )
        for b, (nq, nk) in enumerate(zip(q_lengths, k_lengths, strict=True)):
            expected, _ = reference(q[b, :nq], k[b, :nk], v[b, :nk], causal=causal)
            check(got[b, :nq], expected, "float32")
            assert not download(got[b, nq:]).any()
            assert (lse[b, :, nq:].to_numpy() == -np.inf).all()
        assert (lse[3].to_numpy() == -np.inf).all()
    for name, bad in (("q_lengths", 7), ("k_lengths", -1)):
        got = gp.attention(*(upload(x, "float32") for x in (q, k, v)), **{name: int32([1, 1, bad, 1])})
        with pytest.raises(IndexError, match=f"attention: index {bad} is out of range"):
            gp.synchronize()
        assert not download(got[2]).any()


def test_hostile_values(device, rng):
    q, k, v = make(rng, (1, 80, 1, 16), (1, 80, 1, 16), (1, 80, 1, 16), dtype="float32")
    huge = gp.attention(*(upload(x, "float32") for x in (q * 1e4, k * 1e4, v)), causal=True)
    check(huge[0], reference(q[0] * 1e4, k[0] * 1e4, v[0], causal=True)[0], "float32")
    plain = gp.attention(*(upload(x, "float32") for x in (q, k, v)), causal=True)
    k[0, 40], v[0, 40] = np.nan, np.inf
    got = download(gp.attention(*(upload(x, "float32") for x in (q, k, v)), causal=True))
    np.testing.assert_array_equal(got[0, :40], download(plain)[0, :40])
    assert np.isnan(got[0, 40:]).all()
    k[0, 40] = 0
    got = download(gp.attention(*(upload(x, "float32") for x in (q, k, v)), causal=True))
    assert np.isinf(got[0, 40:]).all() and np.isfinite(got[0, :40]).all()


def growing(rng, queries, keys, dtype):
    """Scores whose maximum grows by less, about and more than a factor of 2^8 from tile to tile, by row."""
    q, k, v = make(rng, (1, queries, 1, 16), (1, keys, 1, 16), (1, keys, 1, 16), dtype=dtype)
    q[..., 0] = np.linspace(-4, 4, queries)[:, None]
    k[..., 0] = np.arange(keys)[:, None] / 16
    return [round_to(x, dtype) for x in (q, k, v)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_growing_scores(device, rng, dtype):
    for queries in (3, 40):
        q, k, v = growing(rng, queries, 700, dtype)
        got, lse = gp.attention(*(upload(x, dtype) for x in (q, k, v)), return_lse=True)
        expected, sums = reference(q[0], k[0], v[0])
        check(got[0], expected, dtype)
        np.testing.assert_allclose(lse[0].to_numpy(), sums, rtol=2e-6, atol=4e-6)


def float8(rng, queries, keys, q_dtype):
    """q [2, queries, 4, 32] of q_dtype, k and v [2, keys, 2, 32] of float8_e4m3, and their scales."""
    shapes = ((2, queries, 4, 32), (2, keys, 2, 32), (2, keys, 2, 32))
    dtypes = (q_dtype, "float8_e4m3", "float8_e4m3")
    given = [upload(rng.normal(size=x), "float32").astype(dtype) for x, dtype in zip(shapes, dtypes, strict=True)]
    data = [download(x.astype("float32")) for x in given]
    names = ("q_scale", "k_scale", "v_scale")[0 if q_dtype == "float8_e4m3" else 1 :]
    scales = {name: rng.uniform(0.5, 2, 2).astype(np.float32) for name in names}
    return data, given, scales


@pytest.mark.parametrize("q_dtype", ["float8_e4m3", "bfloat16", "float32"])
def test_float8(device, rng, q_dtype):
    for queries, keys in ((1, 70), (65, 150)):
        data, given, scales = float8(rng, queries, keys, q_dtype)
        on_device = {name: gp.from_numpy(scale) for name, scale in scales.items()}
        got, lse = gp.attention(*given, causal=True, return_lse=True, **on_device)
        by_head = [
            x * np.repeat(scales.get(name, np.ones(2)), x.shape[2] // 2)[:, None]
            for x, name in zip(data, ("q_scale", "k_scale", "v_scale"), strict=True)
        ]
        for b in range(2):
            expected, sums = reference(*(x[b] for x in by_head), causal=True)
            check(got[b], expected, "float32" if q_dtype == "float32" else "bfloat16")
            np.testing.assert_allclose(lse[b].to_numpy(), sums, rtol=4e-6, atol=8e-6)
        out = gp.empty(got.shape, dtype=got.dtype.name)
        assert gp.attention(*given, causal=True, out=out, **on_device) is out
        assert bits(out) == bits(got)
        assert "attention" in gp.explain_attention(*given, causal=True, **on_device)


def test_float8_arguments(device, rng):
    _, (q, k, v), scales = float8(rng, 3, 5, "float8_e4m3")
    scales = {name: gp.from_numpy(scale) for name, scale in scales.items()}
    for missing in scales:
        with pytest.raises(ValueError, match=f"{missing} is needed with float8_e4m3"):
            gp.attention(q, k, v, **{name: scale for name, scale in scales.items() if name != missing})
    with pytest.raises(gp.errors.DTypeError, match="k must have dtype float8_e4m3"):
        gp.attention(q, k.astype("bfloat16"), v, **scales)
    with pytest.raises(gp.errors.DTypeError, match="v must have dtype float8_e4m3"):
        gp.attention(q, k, v.astype("bfloat16"), **scales)
    with pytest.raises(ValueError, match="q_scale must have shape"):
        gp.attention(q, k, v, **{**scales, "q_scale": gp.zeros((4,))})
    with pytest.raises(ValueError, match="q_scale is taken with float8_e4m3 alone"):
        gp.attention(q.astype("bfloat16"), k, v, **scales)
    with pytest.raises(ValueError, match="k_scale is taken with float8_e4m3 alone"):
        wide = (x.astype("bfloat16") for x in (q, k, v))
        gp.attention(*wide, k_scale=scales["k_scale"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_layouts_and_out(device, rng, dtype):
    q, k, v = make(rng, (2, 70, 6, 24), (2, 70, 2, 24), (2, 70, 2, 24), dtype=dtype)
    given = [upload(x, dtype) for x in (q, k, v)]
    expected = bits(gp.attention(*given, causal=True))
    by_heads = [upload(x.transpose(0, 2, 1, 3), dtype).transpose(0, 2, 1, 3) for x in (q, k, v)]
    turned = [upload(x.transpose(3, 2, 1, 0), dtype).transpose(3, 2, 1, 0) for x in (q, k, v)]
    wide = [upload(np.repeat(x, 2, axis=3), dtype)[..., ::2] for x in (q, k, v)]
    for views in (by_heads, turned, wide):
        assert bits(gp.attention(*views, causal=True)) == expected
        out = gp.empty((24, 6, 70, 2), dtype=dtype).transpose(3, 2, 1, 0)
        assert gp.attention(*views, causal=True, out=out) is out
        assert bits(out) == expected
    source = given[0] + 0
    assert gp.attention(source, *given[1:], causal=True, out=source) is source
    assert bits(source) == expected


def test_arguments(device):
    q, k = gp.zeros((1, 3, 4, 8)), gp.zeros((1, 5, 2, 8))
    with pytest.raises(ValueError, match="multiple of the 3 KV heads"):
        gp.attention(q, gp.zeros((1, 5, 3, 8)), gp.zeros((1, 5, 3, 8)))
    with pytest.raises(ValueError, match="v must have shape"):
        gp.attention(q, k, gp.zeros((1, 4, 2, 8)))
    with pytest.raises(ValueError, match="1 to 256 dims"):
        gp.attention(gp.zeros((1, 1, 1, 257)), gp.zeros((1, 1, 1, 257)), gp.zeros((1, 1, 1, 257)))
    with pytest.raises(gp.errors.DTypeError, match="float16, bfloat16 or float32"):
        gp.attention(q.astype("float64"), k, k)
    with pytest.raises(gp.errors.DTypeError, match="k must have dtype float32"):
        gp.attention(q, k.astype("float16"), k)
    with pytest.raises(ValueError, match="window must be at least 1"):
        gp.attention(q, k, k, window=0)
    with pytest.raises(ValueError, match="chunk must be at least 1"):
        gp.attention(q, k, k, chunk=0)
    with pytest.raises(ValueError, match="softcap must be finite"):
        gp.attention(q, k, k, softcap=-1.0)
    with pytest.raises(ValueError, match="scale must be finite"):
        gp.attention(q, k, k, scale=float("inf"))
    with pytest.raises(ValueError, match="alibi_slopes must have shape"):
        gp.attention(q, k, k, alibi_slopes=gp.zeros((2,)))
    with pytest.raises(ValueError, match="q_lengths must have shape"):
        gp.attention(q, k, k, q_lengths=int32([1, 2]))
    with pytest.raises(ValueError, match="out must have shape"):
        gp.attention(q, k, k, out=gp.zeros((1, 3, 4, 9)))
    assert gp.attention(gp.zeros((0, 3, 4, 8)), gp.zeros((0, 5, 2, 8)), gp.zeros((0, 5, 2, 8))).shape == (0, 3, 4, 8)
    nothing, lse = gp.attention(q + 1, k[:, :0], k[:, :0], return_lse=True)
    assert not nothing.to_numpy().any() and (lse.to_numpy() == -np.inf).all()
    assert "cpu" in gp.explain_attention(q, k, k) or device.kind == "cuda"


def test_backends_agree_to_the_bit(device, rng):
    dtype = "float32"  # 16-bit data is multiplied by tensor cores on a GPU
    q, k, v = make(rng, (1, 20, 6, 40), (1, 600, 2, 40), (1, 600, 2, 40), dtype=dtype)
    given = [upload(x, dtype) for x in (q, k, v)]
    for options in ({"causal": True}, {"window": 70}):
        assert bits(gp.attention(*given, **options)) == bits(gp.attention(*(x.to("cpu") for x in given), **options))


def test_any_window_is_taken(device, rng):
    """One that reaches over all keys is none; no size overflows."""
    for queries, keys in ((5, 5), (3, 70), (70, 3)):
        q, k, v = (upload(x, "float32") for x in make(rng, (1, queries, 2, 8), *((1, keys, 2, 8),) * 2, dtype="float32"))
        for causal in (False, True):
            expected = gp.attention(q, k, v, causal=causal)
            for window in (queries + keys, 2**31, 2**62, 2**63 - 1):
                got = gp.attention(q, k, v, causal=causal, window=window)
                assert bits(got) == bits(expected), (queries, keys, window)
    cache, ids, at = gp.ones((1, 9, 2, 8)), int32([0]), int32([8])
    expected = gp.attention_over_cache(q[0, :1], cache, cache, ids, at)
    for window in (9, 2**63 - 1):
        assert bits(gp.attention_over_cache(q[0, :1], cache, cache, ids, at, window=window)) == bits(expected)


def test_explanations(device, rng):
    q, k = gp.zeros((2, 5, 4, 16)), gp.zeros((2, 700, 2, 16))
    lengths = int32([3, 5])
    text = gp.explain_attention(
        q, k, k, scale=0.5, causal=True, window=9, softcap=3.0, alibi_slopes=gp.zeros(4), mask=gp.zeros((5, 700)),
        q_lengths=lengths, k_lengths=lengths,
    )  # fmt: skip
    assert "gpukit/ops/attention/" in text
    for options, message in (
        ({"scale": float("nan")}, "scale must be finite"),
        ({"softcap": -1.0}, "softcap must be finite"),
        ({"alibi_slopes": gp.zeros(3)}, "alibi_slopes must have shape"),
        ({"mask": gp.zeros((5, 7))}, "mask must broadcast"),
        ({"k_lengths": gp.zeros(2)}, "k_lengths must have dtype int32"),
    ):
        with pytest.raises(ValueError, match=f"explain_attention: {message}"):
            gp.explain_attention(q, k, k, **options)
    ids = int32([0, 1, 0, 1, 0])
    assert "gpukit/ops/attention/" in gp.explain_attention_over_cache(q[0], k, k, ids, ids, window=3)
    with pytest.raises(ValueError, match="explain_attention_over_cache: positions must have shape"):
        gp.explain_attention_over_cache(q[0], k, k, ids, ids[:2])
    # No heads, no tokens, no keys.
    for shapes in (((1, 3, 0, 8), (1, 3, 0, 8)), ((1, 0, 2, 8), (1, 3, 2, 8)), ((1, 3, 2, 8), (1, 0, 2, 8))):
        a, b = (gp.zeros(s) for s in shapes)
        assert gp.explain_attention(a, b, b)
        assert gp.explain_attention_over_cache(a[0], b, b, int32([0] * a.shape[1]), int32([0] * a.shape[1]))
        assert gp.attention(a, b, b).shape == a.shape
        assert not gp.attention(a, b, b).to_numpy().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_beyond_float32(device, dtype):
    """-inf weighs nothing, as a key that is not seen; +inf and NaN make their own rows NaN, and no others."""
    huge = {"float16": 6e4, "bfloat16": 3e38, "float32": 3e38}[dtype]
    scale = 1e30 if dtype == "float16" else 1.0
    q = np.ones((1, 4, 1, 8))
    k, v = np.ones((1, 70, 1, 8)), np.ones((1, 70, 1, 8))
    q[0, 0] = -huge  # -inf with every key
    q[0, 1, 0, 0] = np.nan
    q[0, 2] = huge  # +inf
    q[0, 3] = 0
    k[0] *= huge if dtype != "float16" else 6e4
    v[0, 0] = 5
    given = [upload(round_to(x, dtype), dtype) for x in (q, k, v)]
    got, lse = gp.attention(*given, scale=scale, return_lse=True)
    got, lse = download(got), lse.to_numpy()
    assert not got[0, 0].any() and lse[0, 0, 0] == -np.inf
    assert np.isnan(got[0, 1:3]).all()
    np.testing.assert_allclose(got[0, 3], 74 / 70, rtol=1e-2)
    k[0, 1:] = 0  # one key overflows, the others are seen
    given[1] = upload(round_to(k, dtype), dtype)
    np.testing.assert_allclose(download(gp.attention(*given, scale=scale))[0, 0], 1.0, rtol=1e-2)
