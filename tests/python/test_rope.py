"""Rotary positions, and the kernel that prepares attention."""

from __future__ import annotations

import math

import numpy as np
import pytest
from opcase import download, round_to, upload

import pygpukit as gp

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-6}
DTYPES = tuple(TOLERANCE)


def bits(x):
    return x.contiguous().to_numpy().tobytes()


def int32(values):
    return gp.from_numpy(np.array(values, np.int32))


def turn(x, cos, sin, rotary, interleaved):
    """x [tokens, heads, dim] by rows of cos and sin [tokens, rotary / 2]."""
    y = x.copy()
    c, s = cos[:, None, : rotary // 2], sin[:, None, : rotary // 2]
    first = slice(0, rotary, 2) if interleaved else slice(0, rotary // 2)
    second = slice(1, rotary, 2) if interleaved else slice(rotary // 2, rotary)
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., second] * c + x[..., first] * s
    return y


def angles(positions, dim, base=10000.0):
    return np.outer(np.arange(positions), base ** (-np.arange(0, dim, 2) / dim))


def reference_frequencies(dim, base, scaling):
    f = base ** (-np.arange(0, dim, 2) / dim)
    factor, kind = scaling["factor"], scaling["scaling"]
    if kind == "linear":
        return f / factor
    if kind == "ntk":
        return (base * factor ** (dim / (dim - 2))) ** (-np.arange(0, dim, 2) / dim)
    length = scaling["original_length"]
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        result = []
        for v in f:
            wave = 2 * np.pi / v
            smooth = np.clip((length / wave - low) / (high - low), 0, 1)
            result.append((1 - smooth) * v / factor + smooth * v)
        return np.array(result)

    def place(turns):
        return dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(place(32)), 0), min(math.ceil(place(1)), dim - 1)
    keep = 1 - np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    return f / factor * (1 - keep) + f * keep


@pytest.mark.parametrize(
    "scaling",
    [
        {"scaling": "linear", "factor": 4.0},
        {"scaling": "ntk", "factor": 4.0},
        {"scaling": "yarn", "factor": 4.0, "original_length": 2048},
        {
            "scaling": "llama3",
            "factor": 8.0,
            "original_length": 8192,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ],
    ids=lambda s: s["scaling"],
)
def test_tables(device, scaling):
    cos, sin = gp.rope_tables(33, 64, 500000.0)
    np.testing.assert_allclose(cos.to_numpy(), np.cos(angles(33, 64, 500000.0)), atol=1e-6)
    np.testing.assert_allclose(sin.to_numpy(), np.sin(angles(33, 64, 500000.0)), atol=1e-6)
    cos, sin = gp.rope_tables(300, 64, 10000.0, **scaling)
    assert cos.shape == sin.shape == (300, 32) and cos.dtype.name == "float32"
    amplitude = 0.1 * math.log(4) + 1 if scaling["scaling"] == "yarn" else 1
    at = np.outer(np.arange(300), reference_frequencies(64, 10000.0, scaling))
    np.testing.assert_allclose(cos.to_numpy(), np.cos(at) * amplitude, atol=1e-6)
    np.testing.assert_allclose(sin.to_numpy(), np.sin(at) * amplitude, atol=1e-6)


def test_table_arguments(device):
    assert gp.rope_tables(0, 8)[0].shape == (0, 4)
    for arguments, message in (
        ({"rotary_dim": 7}, "rotary_dim"),
        ({"rotary_dim": 8, "base": 1.0}, "base"),
        ({"rotary_dim": 8, "scaling": "cubic"}, "scaling"),
        ({"rotary_dim": 8, "scaling": "yarn", "factor": 2.0}, "original_length"),
        ({"rotary_dim": 8, "scaling": "linear", "factor": 0.0}, "factor"),
    ):
        with pytest.raises(ValueError, match=message):
            gp.rope_tables(4, **arguments)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(device, rng, dtype, interleaved):
    for tokens, heads, dim, rotary in [
        (1, 1, 2, 2),
        (5, 3, 64, 64),
        (7, 2, 80, 32),
        (3, 4, 6, 4),
        (9, 5, 128, 128),
        (2, 1, 256, 0),
    ]:
        x = round_to(rng.normal(size=(tokens, heads, dim)), dtype)
        cos, sin = gp.rope_tables(40, rotary or dim)
        at = rng.integers(0, 40, tokens)
        given = upload(x, dtype)
        assert gp.rope(given, cos, sin, int32(at), rotary_dim=rotary, interleaved=interleaved) is None
        expected = turn(x, download(cos)[at], download(sin)[at], rotary or dim, interleaved)
        np.testing.assert_allclose(download(given), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        # Views of any layout hold the same bits.
        turned = gp.zeros((dim, heads, tokens), dtype=dtype)
        gp.copy_to(upload(x, dtype), turned.T)
        gp.rope(turned.T, cos, sin, int32(np.repeat(at, 2))[::2], rotary_dim=rotary, interleaved=interleaved)
        assert bits(turned.T) == bits(given)
        alone = upload(x[-1:], dtype)
        gp.rope(alone, cos, sin, int32(at[-1:]), rotary_dim=rotary, interleaved=interleaved)
        assert bits(alone) == bits(given[-1:])


def test_rope_keeps_rows_of_bad_positions(device, rng):
    x = round_to(rng.normal(size=(3, 2, 8)), "float32")
    cos, sin = gp.rope_tables(4, 8)
    given = upload(x, "float32")
    gp.rope(given, cos, sin, int32([1, 4, -1]))
    with pytest.raises(IndexError, match=r"rope: index (4|-1) is out of range"):
        gp.synchronize()
    np.testing.assert_array_equal(download(given)[1:], x[1:])
    assert not np.array_equal(download(given)[0], x[0])


def test_rope_arguments(device):
    x, (cos, sin) = gp.zeros((3, 2, 8)), gp.rope_tables(4, 8)
    with pytest.raises(ValueError, match="rotary_dim must be even"):
        gp.rope(x, cos, sin, rotary_dim=3)
    with pytest.raises(ValueError, match=r"cos must have shape \[positions, at least 4\]"):
        gp.rope(x, cos[:, :3], sin)
    with pytest.raises(ValueError, match="positions must have shape"):
        gp.rope(x, cos, sin, int32([1, 2]))
    with pytest.raises(gp.errors.DTypeError, match="positions must have dtype int32"):
        gp.rope(x, cos, sin, gp.zeros((3,), dtype="int64"))
    with pytest.raises(gp.errors.DTypeError, match="float16, bfloat16 or float32"):
        gp.rope(x.astype("float64"), cos, sin)
    with pytest.raises(ValueError, match="at least 5 rows"):
        gp.rope(gp.zeros((5, 2, 8)), cos, sin)
    gp.rope(gp.zeros((0, 2, 8)), cos, sin)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rope_inplace(device, rng, dtype):
    q, k = round_to(rng.normal(size=(6, 4, 16)), dtype), round_to(rng.normal(size=(6, 2, 16)), dtype)
    at = np.concatenate([angles(6, 16)] * 2, 1)
    for name, table in (("rope_inplace", dtype), ("rope_inplace_f32table", "float32")):
        cos, sin = round_to(np.cos(at), table), round_to(np.sin(at), table)
        a, b = upload(q, dtype), upload(k, dtype)
        assert getattr(gp, name)(a, b, upload(cos, table), upload(sin, table)) is None
        for got, x in ((a, q), (b, k)):
            expected = turn(x, cos, sin, 16, False)
            np.testing.assert_allclose(download(got), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_split_qkv_batch(device, rng):
    x = rng.normal(size=(5, 4 * 8 + 2 * 2 * 8)).astype(np.float32)
    q, k, v = gp.zeros((5, 4, 8)), gp.zeros((5, 2, 8)), gp.zeros((5, 2, 8))
    assert gp.split_qkv_batch(gp.from_numpy(x), q, k, v, 32, 16, 16) is None
    for part, start, width in ((q, 0, 32), (k, 32, 16), (v, 48, 16)):
        np.testing.assert_array_equal(part.to_numpy().reshape(5, -1), x[:, start : start + width])
    with pytest.raises(ValueError, match="qkv must have shape"):
        gp.split_qkv_batch(gp.from_numpy(x), q, k, v, 32, 16, 8)
    with pytest.raises(ValueError, match="k_out must have 8"):
        gp.split_qkv_batch(gp.from_numpy(x), q, k, v, 32, 8, 24)


class Cache:
    """A cache of zeros and what a test needs to read it back."""

    def __init__(self, rng, cache_dtype, paged, sequences, tokens, kv_heads, dim, page=4):
        self.dtype, self.paged, self.page = cache_dtype, paged, page
        per = -(-tokens // page)
        self.tables = rng.permutation(sequences * per + 2)[: sequences * per].reshape(sequences, per).astype(np.int32)
        shape = (sequences * per + 2, page, kv_heads, dim) if paged else (sequences, tokens, kv_heads, dim)
        if cache_dtype == "float8_e4m3":
            self.arrays = [gp.bitcast(gp.zeros(shape, dtype="uint8"), gp.float8_e4m3) for _ in range(2)]
            self.scales = [gp.from_numpy(rng.uniform(0.01, 0.05, kv_heads).astype(np.float32)) for _ in range(2)]
        else:
            self.arrays = [gp.zeros(shape, dtype=cache_dtype) for _ in range(2)]
            self.scales = [gp.zeros(shape[:3]) for _ in range(2)] if cache_dtype == "int8" else [None, None]
        self.options = {"k_scale": self.scales[0], "v_scale": self.scales[1]}
        if paged:
            self.options["block_tables"] = gp.from_numpy(self.tables)

    def read(self, which, sequence, position):
        at = (
            (self.tables[sequence, position // self.page], position % self.page) if self.paged else (sequence, position)
        )
        x = self.arrays[which]
        values = download(x.astype("float32") if self.dtype == "float8_e4m3" else x)[at]
        if self.dtype == "float8_e4m3":
            return values * self.scales[which].to_numpy()[:, None]
        if self.dtype == "int8":
            return values * self.scales[which].to_numpy()[at][:, None]
        return values


def rms(x, gamma, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * gamma


CACHE_ERROR = {"float8_e4m3": 0.07, "int8": 0.02}


@pytest.mark.parametrize("paged", [False, True], ids=["contiguous", "paged"])
@pytest.mark.parametrize(
    "dtype, cache_dtype",
    [
        ("bfloat16", "bfloat16"),
        ("float16", "float16"),
        ("float32", "float32"),
        ("bfloat16", "float8_e4m3"),
        ("float16", "int8"),
        ("float32", "bfloat16"),
    ],
)
@pytest.mark.parametrize(
    "heads, kv_heads, dim, rotary, interleaved", [(4, 2, 64, 64, False), (3, 1, 80, 32, True), (2, 2, 6, 4, False)]
)
def test_qkv_rope_append(device, rng, paged, dtype, cache_dtype, heads, kv_heads, dim, rotary, interleaved):
    total = heads + 2 * kv_heads
    cache = Cache(rng, cache_dtype, paged, 3, 11, kv_heads, dim)
    ids, at = [0, 0, 2, -1, 1], [3, 4, 10, 77, 0]
    x = round_to(rng.normal(size=(5, total * dim)), dtype)
    bias, q_norm, k_norm = (round_to(rng.normal(size=n), dtype) for n in (total * dim, dim, dim))
    cos, sin = gp.rope_tables(20, rotary)
    out = gp.zeros((5, heads, dim), dtype=dtype)
    gp.qkv_rope_append(
        upload(x, dtype),
        out,
        *cache.arrays,
        int32(ids),
        int32(at),
        **cache.options,
        bias=upload(bias, dtype),
        q_norm=upload(q_norm, dtype),
        k_norm=upload(k_norm, dtype),
        norm_eps=1e-5,
        cos=cos,
        sin=sin,
        rotary_dim=rotary,
        interleaved=interleaved,
    )
    gp.synchronize()
    y = (x + bias).reshape(5, total, dim)
    q, k, v = y[:, :heads], y[:, heads : heads + kv_heads], y[:, heads + kv_heads :]
    where = [p if s >= 0 else 0 for s, p in zip(ids, at, strict=True)]
    c, s = download(cos)[where], download(sin)[where]
    q, k = (turn(rms(a, g, 1e-5), c, s, rotary, interleaved) for a, g in ((q, q_norm), (k, k_norm)))
    kept = [i for i in range(5) if ids[i] >= 0]
    limit = TOLERANCE[dtype]
    np.testing.assert_allclose(download(out)[kept], q[kept], rtol=limit, atol=limit)
    assert np.isfinite(download(out)).all() and download(out)[3].any()
    allowed = max(limit, TOLERANCE.get(cache_dtype, 0), CACHE_ERROR.get(cache_dtype, 0))
    for i in kept:
        for which, expected in ((0, k[i]), (1, v[i])):
            most = np.abs(expected).max()
            np.testing.assert_allclose(
                cache.read(which, ids[i], at[i]),
                expected,
                rtol=allowed,
                atol=allowed * (1 + most if cache_dtype == "int8" else 1),
            )
    written = {(ids[i], at[i]) for i in kept}
    for sequence in range(3):
        for position in range(11):
            if (sequence, position) not in written:
                assert not cache.read(0, sequence, position).any()


def test_plain_append_moves_bits(device, rng):
    """No bias, norm, RoPE: q and the cache hold the very elements, whatever the layout of qkv."""
    x = round_to(rng.normal(size=(4, 6 * 16)), "bfloat16")
    for wide in (False, True):
        given = upload(np.concatenate([x, x], 1), "bfloat16")[:, 96:] if wide else upload(x.T, "bfloat16").T
        k, v, out = (
            gp.zeros((2, 8, 2, 16), dtype="bfloat16"),
            gp.zeros((2, 8, 2, 16), dtype="bfloat16"),
            gp.zeros((4, 2, 16), dtype="bfloat16"),
        )
        gp.qkv_rope_append(given, out, k, v, int32([0, 1, 1, 0]), int32([7, 0, 1, 6]))
        y = x.reshape(4, 6, 16)
        np.testing.assert_array_equal(download(out), y[:, :2])
        for cache, at in ((k, 2), (v, 4)):
            np.testing.assert_array_equal(download(cache)[[0, 1, 1, 0], [7, 0, 1, 6]], y[:, at : at + 2])


def test_append_faults_write_nothing(device, rng):
    x = upload(rng.normal(size=(1, 3 * 8)), "float32")
    out = gp.zeros((1, 1, 8))
    tables = int32([[1, 9], [0, 2]])
    for sequence, position, paged in (
        (2, 0, True),
        (-2, 0, True),
        (0, 8, True),
        (0, -1, True),
        (0, 5, True),
        (3, 0, False),
        (1, 4, False),
    ):
        k, v = gp.zeros((3, 4, 1, 8)), gp.zeros((3, 4, 1, 8))
        gp.qkv_rope_append(x, out, k, v, int32([sequence]), int32([position]), block_tables=tables if paged else None)
        with pytest.raises(IndexError, match="qkv_rope_append: index"):
            gp.synchronize()
        assert not k.to_numpy().any() and not v.to_numpy().any()
    cos, sin = gp.rope_tables(3, 8)
    gp.qkv_rope_append(x, out, k, v, int32([0]), int32([3]), cos=cos, sin=sin)
    with pytest.raises(IndexError, match="qkv_rope_append: index 3 is out of range for an axis of size 3"):
        gp.synchronize()


def test_append_arguments(device):
    x, out, k = gp.zeros((2, 24)), gp.zeros((2, 1, 8)), gp.zeros((3, 4, 1, 8))
    ids = int32([0, 1])
    with pytest.raises(ValueError, match="qkv must have shape"):
        gp.qkv_rope_append(gp.zeros((2, 25)), out, k, k + 0, ids, ids)
    with pytest.raises(ValueError, match="k_scale is needed"):
        gp.qkv_rope_append(x, out, k.astype("int8"), k.astype("int8"), ids, ids)
    with pytest.raises(ValueError, match="k_scale is not taken"):
        gp.qkv_rope_append(x, out, k, k + 0, ids, ids, k_scale=gp.zeros((1,)))
    with pytest.raises(ValueError, match="cos and sin come together"):
        gp.qkv_rope_append(x, out, k, k + 0, ids, ids, cos=gp.zeros((4, 4)))
    with pytest.raises(gp.errors.DTypeError, match="cache.k must"):
        gp.qkv_rope_append(x, out, k.astype("int32"), k.astype("int32"), ids, ids)


def test_append_is_captured(device, rng):
    x, out = upload(rng.normal(size=(2, 3 * 8)), "float32"), gp.zeros((2, 1, 8))
    k, v, ids, at = gp.zeros((2, 4, 1, 8)), gp.zeros((2, 4, 1, 8)), int32([0, 1]), int32([0, 0])
    cos, sin = gp.rope_tables(8, 8)
    graph = gp.CudaGraph()
    with graph.capture():
        gp.qkv_rope_append(x, out, k, v, ids, at, cos=cos, sin=sin)
        gp.rope(out, cos, sin, at)
    for position in range(3):
        gp.copy_to(int32([position, position + 1]), at)
        graph.replay()
    graph.synchronize()
    filled = v.to_numpy()[..., 0, :].any(-1)
    np.testing.assert_array_equal(filled, [[True, True, True, False], [False, True, True, True]])


def test_q_and_k_are_apart(device, rng):
    cos, sin = gp.rope_tables(6, 8)
    both = round_to(rng.normal(size=(6, 6, 8)), "float32")
    for name, tables in (("rope_inplace", (cos, sin)), ("rope_inplace_f32table", (cos, sin))):
        x = upload(both, "float32")
        refused = [(x, x), (x[:, :4], x[:, 3:]), (x[:, :4], x[:, 2:4]), (x[:, ::2], x[:, 2:3]), (x[:5], x[1:])]
        for q, k in refused:
            with pytest.raises(ValueError, match=f"{name}: q and k share memory"):
                getattr(gp, name)(q, k, *tables)
        np.testing.assert_array_equal(download(x), both)
        # Heads of one array, in any order.
        for q, k in ((slice(0, 4), slice(4, 6)), (slice(2, 6), slice(0, 2)), (slice(0, 6, 2), slice(1, 6, 2))):
            x = upload(both, "float32")
            getattr(gp, name)(x[:, q], x[:, k], *tables)
            alone = upload(both, "float32")
            gp.rope(alone[:, q], cos, sin)
            gp.rope(alone[:, k], cos, sin)
            assert bits(x) == bits(alone)
    one = upload(both[:1], "float32")
    gp.rope_inplace(one[:, :5], one[:, 5:], cos, sin)
    with pytest.raises(ValueError, match="q and k share memory"):
        gp.rope_inplace(one[:, :5], one[:, 4:], cos, sin)


@pytest.mark.parametrize("cache_dtype", ["float32", "int8"])
@pytest.mark.parametrize("paged", [False, True], ids=["contiguous", "paged"])
def test_the_last_token_of_a_place_stays(device, rng, cache_dtype, paged):
    for tokens in (2, 7, 300, 700):
        cache = Cache(rng, cache_dtype, paged, 3, 40, 1, 8)
        once = Cache(np.random.default_rng(0), cache_dtype, paged, 3, 40, 1, 8)
        if paged:
            once.tables = cache.tables
            once.options["block_tables"] = cache.options["block_tables"]
        x = round_to(rng.normal(size=(tokens, 3 * 8)), "float32")
        ids, at = rng.integers(-1, 3, tokens), rng.integers(0, 40, tokens)
        ids[:2], at[:2] = 1, 39
        cos, sin = gp.rope_tables(40, 8)
        out = gp.zeros((tokens, 1, 8))
        gp.qkv_rope_append(upload(x, "float32"), out, *cache.arrays, int32(ids), int32(at), **cache.options, cos=cos, sin=sin)
        last = {(s, p): i for i, (s, p) in enumerate(zip(ids, at, strict=True)) if s >= 0}
        for i in sorted(last.values()):
            one = slice(i, i + 1)
            gp.qkv_rope_append(
                upload(x[one], "float32"), gp.zeros((1, 1, 8)), *once.arrays, int32(ids[one]), int32(at[one]),
                **once.options, cos=cos, sin=sin,
            )  # fmt: skip
        for a, b in zip([*cache.arrays, *cache.scales], [*once.arrays, *once.scales], strict=True):
            assert a is b is None or bits(a) == bits(b)


def test_a_place_that_two_sequences_share(device, rng):
    """Of one page in two block tables the last token stays too; one that is not kept overtakes none."""
    k, v = gp.zeros((2, 4, 1, 8)), gp.zeros((2, 4, 1, 8))
    x = round_to(rng.normal(size=(3, 3 * 8)), "float32")
    cos, sin = gp.rope_tables(2, 8)
    out = gp.zeros((3, 1, 8))
    gp.qkv_rope_append(upload(x, "float32"), out, k, v, int32([0, 1, 2]), int32([1, 1, 0]), block_tables=int32([[1], [1], [0]]))
    np.testing.assert_array_equal(download(v)[1, 1, 0], x[1, 16:])
    gp.qkv_rope_append(upload(x[::-1].copy(), "float32"), out, k, v, int32([0, 0, 0]), int32([1, 1, 3]), cos=cos, sin=sin)
    with pytest.raises(IndexError, match="index 3 is out of range for an axis of size 2"):
        gp.synchronize()
    np.testing.assert_array_equal(download(v)[0, 1, 0], x[1, 16:])
    assert not download(v)[0, 3].any()


def test_append_writes_to_arrays_of_their_own(device, rng):
    x, ids = upload(rng.normal(size=(2, 24)), "float32"), int32([0, 1])
    both, out = gp.zeros((3, 2, 4, 1, 8)), gp.zeros((2, 1, 8))
    whole, halves = gp.zeros((96,)), gp.zeros((2, 3, 4, 1, 8))
    for caches, q, message in (
        ((both[:, 0], both[:, 0]), out, "cache.k and cache.v share memory"),
        ((both[1:, 0], both[:2, 0]), out, "cache.k and cache.v share memory"),
        ((both[:, 0], both[:, 1]), both[:2, 0, 0], "q_out and cache.k share memory"),
        ((halves[0], halves[1]), halves[1, :2, 0], "q_out and cache.v share memory"),
        ((whole.reshape(3, 4, 1, 8), both[:, 0]), out, "cache.k and qkv share memory"),
    ):
        given = whole[:48].reshape(2, 24) if "qkv" in message else x
        with pytest.raises(ValueError, match=f"qkv_rope_append: {message}"):
            gp.qkv_rope_append(given, q, *caches, ids, ids)
    codes, scales = gp.zeros((2, 3, 4, 1, 8), dtype="int8"), gp.zeros((3, 4, 1))
    with pytest.raises(ValueError, match="cache.k_scale and cache.v_scale share memory"):
        gp.qkv_rope_append(x, out, codes[0], codes[1], ids, ids, k_scale=scales, v_scale=scales)
    # The halves of one array are two caches, wherever its axis of two stands.
    gp.qkv_rope_append(x, out, both[:, 0], both[:, 1], ids, ids)
    np.testing.assert_array_equal(both.to_numpy()[[0, 1], 1, [0, 1], 0], x.to_numpy()[:, 16:])


def test_split_qkv_batch_writes_all_or_nothing(device, rng):
    x = rng.normal(size=(5, 32)).astype(np.float32)
    parts = [gp.zeros((5, 2, 8)), gp.zeros((5, 1, 8)), gp.zeros((5, 1, 8), dtype="float16")]
    with pytest.raises(gp.errors.DTypeError, match="split_qkv_batch: v_out"):
        gp.split_qkv_batch(gp.from_numpy(x), *parts, 16, 8, 8)
    assert not parts[0].to_numpy().any() and not parts[1].to_numpy().any()
    with pytest.raises(ValueError, match="split_qkv_batch: k_out and v_out share memory"):
        gp.split_qkv_batch(gp.from_numpy(x), parts[0], parts[1], parts[1], 16, 8, 8)
    # Over its own input.
    given = gp.from_numpy(x.copy())
    k, v = gp.zeros((5, 1, 8)), gp.zeros((5, 1, 8))
    gp.split_qkv_batch(given, given[:, 16:].reshape(5, 2, 8), k, v, 16, 8, 8)
    np.testing.assert_array_equal(given.to_numpy()[:, 16:], x[:, :16])
    np.testing.assert_array_equal(k.to_numpy()[:, 0], x[:, 16:24])
    np.testing.assert_array_equal(v.to_numpy()[:, 0], x[:, 24:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_hostile_values(device, rng, dtype):
    """NaN and infinities stay in their own pair, head and token; huge values become infinite where they must."""
    most = {"float16": 6e4, "bfloat16": 3e38, "float32": 3e38}[dtype]
    values = np.array([np.nan, np.inf, -np.inf, most, -most, 0.0, -0.0, 1.0])
    x = round_to(rng.choice(values, size=(40, 3, 16)), dtype)
    cos, sin = gp.rope_tables(40, 16)
    given = upload(x, dtype)
    gp.rope(given, cos, sin)
    with np.errstate(all="ignore"):
        expected = round_to(turn(x, download(cos), download(sin), 16, False), dtype)
    got = download(given)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    finite = np.isfinite(expected) & np.isfinite(got)
    assert (np.abs(got[finite] - expected[finite]) <= TOLERANCE[dtype] * most).all()
    where = ~finite & ~np.isnan(expected)
    assert (np.abs(got[where]) >= 0.99 * most).all() and (np.sign(got[where]) == np.sign(expected[where])).all()
    # Appending moves the very values, and what a format cannot hold is stated.
    qkv, out = upload(x.reshape(40, 48), dtype), gp.zeros((40, 1, 16), dtype=dtype)
    for cache_dtype in ("float32", "int8"):
        caches = [gp.zeros((1, 40, 1, 16), dtype=cache_dtype) for _ in range(2)]
        scales = {f"{n}_scale": gp.zeros((1, 40, 1)) for n in "kv"} if cache_dtype == "int8" else {}
        gp.qkv_rope_append(qkv, out, *caches, int32([0] * 40), int32(np.arange(40)), **scales)
        np.testing.assert_array_equal(download(out), x[:, :1])
        held = download(caches[1])[0, :, 0]
        if cache_dtype == "float32":
            np.testing.assert_array_equal(held, x[:, 2])
            continue
        np.testing.assert_array_equal(held[np.isnan(x[:, 2])], 0)
        np.testing.assert_array_equal(held[np.isinf(x[:, 2])], 127 * np.sign(x[:, 2][np.isinf(x[:, 2])]))
        finite = np.where(np.isfinite(x[:, 2]), np.abs(x[:, 2]), 0).max(-1)
        np.testing.assert_allclose(scales["v_scale"].to_numpy()[0, :, 0], finite / 127, rtol=1e-6, atol=2e-38)
