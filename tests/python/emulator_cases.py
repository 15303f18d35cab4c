"""A small case of each kernel of attention, positions, caches, sampling, mixtures of experts, convolution, recurrence and
norms, for test_emulator.py: the emulated GPU gives what the CPU gives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from opcase import download, upload

import pygpukit as gp

Arrays = list[Any]
Make = Callable[..., Arrays]


def normal(rng: Any, *shapes: tuple[int, ...], dtype: str = "float32") -> Arrays:
    return [upload(rng.normal(size=shape), "float32").astype(dtype) for shape in shapes]


def int32(values: Any) -> Any:
    return gp.from_numpy(np.asarray(values, np.int32))


def attention(rng: Any) -> Iterator[Any]:
    q, k, v = normal(rng, (1, 5, 4, 16), (1, 70, 2, 16), (1, 70, 2, 16), dtype="bfloat16")
    yield gp.attention(q, k, v, causal=True, window=2**63 - 1)
    yield gp.attention_over_cache(q[0], k, v, int32([0] * 5), int32([3, 69, 0, 40, 12]))


def positions(rng: Any) -> Iterator[Any]:
    cos, sin = gp.rope_tables(9, 16)
    q, k = normal(rng, (3, 2, 16), (3, 1, 16), dtype="float16")
    gp.rope(q, cos, sin, int32([8, 0, 3]), rotary_dim=8, interleaved=True)
    both = upload(rng.normal(size=(3, 3, 16)), "float32")
    gp.rope_inplace(both[:, :2], both[:, 2:], cos, sin)
    gp.pope_inplace(q, k, gp.pope_init_encoding(9, 16), 4)
    scores = normal(rng, (1, 2, 3, 5))[0]
    gp.alibi_add_bias(scores, gp.alibi_init_slopes(2), 2)
    yield from (q, k, both, scores, gp.irope_scale_q(both, int32([1, 2, 70000]), 0.5, 8.0))


def append(rng: Any) -> Iterator[Any]:
    """Few tokens, and so many that later ones of the same place are looked for beforehand."""
    cos, sin = gp.rope_tables(40, 8)
    for tokens in (6, 300):
        qkv, out = normal(rng, (tokens, 24), (tokens, 1, 8))
        for dtype in ("float32", "int8"):
            caches = [gp.zeros((6, 8, 1, 8), dtype=dtype) for _ in "kv"]
            scales = [gp.zeros((6, 8, 1)) for _ in "kv"] if dtype == "int8" else [None, None]
            ids, at = rng.integers(-1, 1, tokens), rng.integers(0, 40, tokens)
            ids[:3], at[:3] = 0, 7
            options = {"k_scale": scales[0], "v_scale": scales[1], "block_tables": int32([[5, 0, 2, 1, 3]])}
            gamma = gp.ones((8,))
            gp.qkv_rope_append(qkv, out, *caches, int32(ids), int32(at), **options, cos=cos, sin=sin, q_norm=gamma)
            yield from (out, *caches, *(s for s in scales if s is not None))


def caches(rng: Any) -> Iterator[Any]:
    new, wide = normal(rng, (4, 2, 8), (4, 9, 8), dtype="float16")
    gp.kv_cache_prefill_gqa(new[:3], wide, 4, 2)
    gp.kv_cache_update_gqa_ptr(new[:1], wide, 4, int32([7]))
    paged = [gp.zeros((3, 2, 4, 8), dtype="float16") for _ in "kv"]
    gp.compat.copy_to_paged_cache(new, new, *paged, int32([3, 11, 3, -1]))
    out = gp.zeros((2, 8), dtype="float16")
    gp.embedding_lookup_batch(wide[0], out, int32([8, 1]), 2)
    gp.slice_rows_range_ptr(wide[1], out, int32([3]), 2)
    parts = [gp.zeros((2, n, 4), dtype="float16") for n in (2, 1, 1)]
    gp.split_qkv_batch(gp.repeat(wide[0, :2], 2, axis=1), *parts, 8, 4, 4)
    yield from (wide, *paged, out, *parts)


def sampling(rng: Any) -> Iterator[Any]:
    logits, history = normal(rng, (2, 700))[0], int32(rng.integers(0, 700, (2, 5)))
    top, shares, chosen = gp.zeros((2, 4), dtype="int32"), gp.zeros((2, 4)), gp.zeros((2,))
    options = {"logprobs": chosen, "top_ids": top, "top_logprobs": shares, "repetition_penalty": 1.3, "min_p": 0.01}
    yield gp.sample(logits, 0.8, 20, 0.9, history=history, seed=2**64 - 1, **options)
    yield from (top, shares, chosen, gp.sample(logits.astype("bfloat16"), 0.0))


def experts(rng: Any) -> Iterator[Any]:
    ids = rng.integers(-1, 5, 600).astype(np.int32)
    made = [gp.zeros((n,), dtype="int32") for n in (5, 6, 600, 600)]
    gp.moe_compute_permutation(gp.from_numpy(ids), *made, 5, 2)
    rows = gp.zeros((600,), dtype="int32")
    gp.moe_expand_expert_offsets(made[1], rows, 5)
    logits, values = normal(rng, (7, 20), (7, 3))
    indices = gp.zeros((7, 3), dtype="int32")
    gp.moe_topk_with_indices(logits, values, indices, 3)
    gp.moe_softmax_topk(values, 3)
    hidden, out, gathered = normal(rng, (7, 8), (7, 8), (21, 8))
    order = int32(rng.permutation(21))
    gp.moe_gather(hidden, order, gathered, 3)
    gp.moe_scatter(gathered, values, order, out, 3)
    yield from (*made, rows, values, indices, gathered, out)
    yield gp.moe(*normal(rng, (3, 32), (4, 32), (4, 32, 32), (4, 32, 16), dtype="bfloat16"), top_k=2)


def convolutions(rng: Any) -> Iterator[Any]:
    x, w, b = normal(rng, (1, 6, 40), (5, 6, 3), (5,), dtype="float16")
    yield gp.conv1d(x, w, b, stride=2, padding=1, activation="gelu")
    yield gp.conv1d(x, gp.repeat(w[:, :1], 6, axis=0)[:12], groups=6, padding=2, dilation=2)
    yield gp.conv_transpose1d(x, w[:1].transpose(1, 0, 2), stride=2, groups=6)
    yield gp.conv_transpose1d(x, w.transpose(1, 0, 2), stride=3)
    image, taps = normal(rng, (1, 3, 7, 9), (3, 1, 3, 2))
    yield gp.conv2d(image, taps, groups=3, padding=1)
    yield gp.conv2d(image, gp.ones((2, 3, 2, 2)), stride=2)
    x, w, b = normal(rng, (1, 20, 45), (9, 20, 3), (9,), dtype="bfloat16")
    yield gp.conv1d(x, w, b, stride=2, padding=3, activation="silu")
    yield gp.conv1d(x.transpose(2, 1, 0)[:2], w, padding=2)


def recurrence(rng: Any) -> Iterator[Any]:
    yield from gp.lstm_forward(*normal(rng, (2, 3, 5), (16, 5), (16, 4), (16,), (16,)))
    x, w = normal(rng, (2, 5, 9), (5, 4))
    yield gp.causal_conv1d(x, w)
    u, delta, a, b, c = normal(rng, (2, 3, 12), (2, 3, 12), (3, 4), (2, 4, 12), (2, 4, 12))
    yield gp.selective_scan(u, delta, a, b, c, delta_softplus=True)


def norms(rng: Any) -> Iterator[Any]:
    for width in (40, 9000):
        x, r, gamma = normal(rng, (2, width), (2, width), (width,), dtype="float16")
        yield from (gp.rmsnorm_residual(x, r, gamma), gp.layernorm_residual(x, r, gamma, gamma), gp.l2norm(x))
        yield gp.l2norm(x.T.copy().T)
    x, scale = normal(rng, (2, 6, 8), (2, 8))
    yield from (gp.group_norm(x, gp.ones(6), gp.zeros(6), 3), gp.adaln(x, scale, scale), gp.instance_norm(x))
    yield from (gp.swiglu(x, x), gp.geglu(x, x), gp.snake(x, gp.ones(6)))


def fused(rng: Any) -> Iterator[Any]:
    """Fused functions over dtypes and layouts: on each device the bits of the calls one by one."""

    def function(a: Any, b: Any, c: Any) -> Any:
        y = (a + b).astype("float16") * 0.5
        return gp.where(y > c, gp.tanh(y) - 1, y * y / 3), gp.logical_and(y > 0, ~(a < b))

    a, b, c = normal(rng, (5, 72), (72,), (5, 1))
    for arguments in ((a, b, c), (a[:, ::-1], a, b), (c, b, a.astype("bfloat16"))):
        made, want = gp.fuse(function)(*arguments), function(*arguments)
        assert [download(x).tobytes() for x in made] == [download(x).tobytes() for x in want]
        yield from made
    z = gp.from_numpy((rng.normal(size=33) + 1j).astype(np.complex64))
    yield gp.fuse(lambda z, x: gp.abs(gp.exp(z) / x))(z, normal(rng, (33,))[0])
    i = int32(rng.integers(-50, 50, (3, 21)))
    yield gp.fuse(lambda i: ((i // 7) << 2 ^ ~i) % 5 + (i > 3))(i)


def expressions(rng: Any) -> Iterator[Any]:
    """Kernels from expressions; on the CPU what they are to give."""
    x, y = normal(rng, (6, 50), (50,))
    half = normal(rng, (6, 50), dtype="float16")[0]
    if str(x.device) == "cpu":
        yield from (
            gp.square(x - y),
            gp.flip(x.T.copy().reshape(-1)),
            (half.astype("float32") * 2 + 1).astype("float16"),
        )
        for axis in (0, 1, None):
            yield gp.sqrt(gp.sum(gp.square(x), axis=axis))
        yield gp.full((3,), 9000.0)
        return
    yield gp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squares")(x, y)
    yield gp.ElementwiseKernel("raw T x", "T z", "z = x[_ind.size() - 1 - i]", "turned")(x.T, size=300)
    yield gp.ElementwiseKernel("T x, float32 s", "T z", "z = x * s + 1", "scaled")(half, 2)
    norm = gp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    for axis in (0, 1, None):
        yield norm(x, axis=axis)
    yield gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0)(gp.full((9000, 3), 1.0), axis=0)


CASES: dict[str, Make] = {
    function.__name__: lambda *a, f=function: list(f(*a))  # type: ignore[misc]
    for function in (
        attention,
        positions,
        append,
        caches,
        sampling,
        experts,
        convolutions,
        recurrence,
        norms,
        fused,
        expressions,
    )
}
TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 2e-5}


def main() -> None:
    for name, case in CASES.items():
        results = []
        for device in ("cpu", "cuda"):
            with gp.device(device):
                made = case(np.random.default_rng(5))
                gp.synchronize()
                results.append([(x.dtype.name, download(x.contiguous())) for x in made])
        assert results[0], name
        for i, ((dtype, a), (_, b)) in enumerate(zip(*results, strict=True)):
            limit = TOLERANCE.get(dtype, 0)
            np.testing.assert_allclose(b, a, rtol=limit, atol=limit, err_msg=f"{name} {i}")
        print(name, len(results[0]), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
