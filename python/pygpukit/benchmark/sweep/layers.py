"""Families of models' layers: attention, convolution, LSTM, rotary positions, embeddings, draws of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark.sweep import family
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Input, Layer
from pygpukit.benchmark.torch_layers import drawn

__all__ = ["LAYER_FAMILIES"]

Arrays = Sequence[Any]
_MOST_SCORES = 1 << 21  # of attention, checked
_MOST_IDS = 256  # of an embedding, checked


def _heads(d: Draw) -> tuple[int, int, int]:
    kv = d.choose(1, 2, 4, 8)
    return kv * d.choose(1, 1, 2, 4), kv, d.choose(64, 128) if d.large else d.choose(8, 16)


def _attention(d: Draw, batch: int, queries: int, keys: int, causal: bool) -> Case:
    heads, kv, dim = _heads(d)
    dtype = d.choose("bfloat16", "float16") if d.large else "float32"
    q, k = (batch, queries, heads, dim), (batch, keys, kv, dim)
    return Case((Input(q, dtype), Input(k, dtype), Input(k, dtype)), {"causal": causal})


def _prefill(d: Draw) -> Case:
    tokens = d.size(17, 2048) if d.large else d.size(2, 48)
    return _attention(d, d.choose(1, 1, 2, 4), tokens, tokens, d.choose(True, True, False))


def _decode(d: Draw) -> Case:
    batch, keys = (d.size(1, 64), d.size(16, 8192)) if d.large else (d.size(1, 4), d.size(2, 64))
    return _attention(d, batch, 1, keys, False)


def _attention_numpy(xs: Arrays, causal: bool) -> Any:
    q, k, v = (np.swapaxes(x, 1, 2) for x in xs)
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
    if causal:
        scores = np.where(np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.swapaxes(shares @ v / shares.sum(-1, keepdims=True), 1, 2)


def _attention_part(xs: Arrays, result: Any) -> Any:
    """Of many scores: one item, and the query heads of its last head of keys."""
    q, k, v = xs
    if q.shape[0] * q.shape[1] * q.shape[2] * k.shape[1] <= _MOST_SCORES:
        return xs, result
    first = q.shape[2] - q.shape[2] // k.shape[2]
    return [q[-1:, :, first:], k[-1:, :, -1:], v[-1:, :, -1:]], result[-1:, :, first:]


def _conv1d(d: Draw) -> Case:
    kernel, stride = d.choose(1, 3, 5, 7, 11), d.choose(1, 1, 1, 2)
    most = 512 if d.large else 12
    inputs, outputs = d.size(1, most), d.size(1, most)
    length = kernel + (d.size(64, 8192) if d.large else d.size(4, 64))
    x = Input((d.choose(1, 1, 2, 4), inputs, length), "float32")
    options = {"stride": stride, "padding": kernel // 2}
    return Case((x, Input((outputs, inputs, kernel), "float32"), Input((outputs,), "float32")), options)


def _conv1d_numpy(xs: Arrays, stride: int, padding: int) -> Any:
    x, w, b = xs
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2], axis=2)[:, :, ::stride]
    return np.einsum("nclk,ock->nol", windows, w, optimize=True) + b[:, None]


def _lstm(d: Draw) -> Case:
    large = (d.size(1, 32), d.size(4, 256), d.size(16, 512), d.size(16, 512))
    batch, steps, inputs, hidden = large if d.large else (d.size(1, 3), d.size(1, 8), d.size(1, 16), d.size(1, 16))
    shapes = ((4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
    return Case((Input((batch, steps, inputs)), *(Input(shape, scale=1 / 16) for shape in shapes)))


def _lstm_numpy(xs: Arrays) -> Any:
    x, w, u, b, c = xs
    batch, steps, _ = x.shape
    h = state = np.zeros((batch, u.shape[1]), x.dtype)
    out = np.empty((batch, steps, u.shape[1]), x.dtype)
    for t in range(steps):
        i, f, g, o = np.split(x[:, t] @ w.T + b + h @ u.T + c, 4, axis=1)
        state = state / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(state) / (1 + np.exp(-o))
        out[:, t] = h
    return out


def _rope(d: Draw) -> Case:
    tokens, heads, dim = (d.size(1, 4096), d.size(1, 64), d.choose(64, 128)) if d.large else (d.size(1, 32), 3, 16)
    tables = Input((tokens, dim // 2), "float32")
    return Case((Input((tokens, heads, dim), d.floats() if d.large else "float32"), tables, tables))


def _rope_ours(xs: Arrays, out: Any) -> Any:
    if out is None:
        out = gp.copy(xs[0])
    else:
        gp.copy_to(xs[0], out)
    gp.rope(out, xs[1], xs[2])
    return out


def _rope_numpy(xs: Arrays) -> Any:
    x, cos, sin = xs[0], xs[1][:, None], xs[2][:, None]
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _rope_torch(torch: Any, ts: Arrays) -> Any:
    a, b = ts[0].chunk(2, dim=-1)
    cos, sin = ts[1][:, None], ts[2][:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(ts[0].dtype)


def _embedding(d: Draw) -> Case:
    rows, width = (d.size(1000, 150000), d.size(64, 8192)) if d.large else (d.size(10, 300), d.size(4, 64))
    rows = max(1, min(rows, (1 << 27) // width))
    ids = Input((d.size(1, 4096) if d.large else d.size(1, 64),), "int32", kind="index", limit=rows)
    return Case((Input((rows, width), d.floats()), ids))


def _looked_up(xs: Arrays, result: Any) -> Any:
    """Some ids, in a table of their rows alone."""
    table, ids = xs
    if table.size <= family.MOST_CHECKED:
        return xs, result
    places = np.unique(np.linspace(0, ids.size - 1, min(ids.size, _MOST_IDS)).astype(np.int64))
    rows = [table[int(i) : int(i) + 1] for i in ids.to_numpy()[places]]
    return [gp.concatenate(rows), gp.arange(len(rows), dtype="int32")], gp.take(result, gp.from_numpy(places), axis=0)


def _sampling(d: Draw) -> Case:
    rows, vocab = (d.size(1, 256), d.size(1000, 200000)) if d.large else (d.size(1, 8), d.size(10, 500))
    options = {"top_k": d.choose(1, 20, 50), "temperature": d.choose(0.6, 1.0)}
    return Case((Input((rows, vocab), "float32"), Input((rows,), "float32", kind="uniform")), options)


def _sampling_error(got: Any, xs: Arrays, top_k: int, temperature: float) -> float:
    """Every token is one of the likeliest."""
    logits = xs[0]
    for row, token in enumerate(got):
        above = int((logits[row] > logits[row, token]).sum()) if 0 <= token < logits.shape[1] else top_k
        if above >= top_k:
            return float("inf")
    return 0.0


def _sampling_numpy(xs: Arrays, top_k: int, temperature: float) -> Any:
    order = np.argsort(-xs[0], axis=-1, kind="stable")[:, :top_k]
    shares = np.exp(np.take_along_axis(xs[0], order, 1) / temperature)
    sums = np.cumsum(shares / shares.sum(-1, keepdims=True), axis=-1)
    place = np.minimum((sums < xs[1][:, None]).sum(-1), order.shape[1] - 1)
    return np.take_along_axis(order, place[:, None], 1)[:, 0].astype(np.int32)


def _sampling_torch(torch: Any, ts: Arrays, top_k: int, temperature: float) -> Any:
    scores, order = torch.topk(ts[0], min(top_k, ts[0].shape[1]), dim=-1)
    shares = torch.softmax(scores / temperature, dim=-1)
    return order.gather(1, drawn(torch, shares))[:, 0]


LAYER_FAMILIES = [
    Family(
        "attention_prefill",
        _prefill,
        lambda xs, out, causal: gp.attention(*xs, causal=causal, out=out),
        Layer("attention", "qkv"),
        _attention_numpy,
        part=_attention_part,
    ),
    Family(
        "attention_decode",
        _decode,
        lambda xs, out, causal: gp.attention(*xs, causal=causal, out=out),
        Layer("attention", "qkv"),
        _attention_numpy,
        part=_attention_part,
    ),
    Family(
        "conv1d",
        _conv1d,
        lambda xs, out, stride, padding: gp.conv1d(xs[0], xs[1], xs[2], stride, padding, out=out),
        Layer("conv1d", "xwb"),
        _conv1d_numpy,
        rows=((0, None, None), 0),
        columns=((None, 0, 0), 1),
    ),
    Family(
        "lstm",
        _lstm,
        lambda xs, out: gp.lstm_forward(*xs, out=out),
        Layer("lstm", ("x", "w_ih", "w_hh", "b_ih", "b_hh")),
        _lstm_numpy,
        bound=5.0,
        pick=lambda found: found[0],
    ),
    Family("rope", _rope, _rope_ours, _rope_torch, _rope_numpy, rows=((0, 0, 0), 0)),
    Family(
        "embedding",
        _embedding,
        lambda xs, out: gp.embedding(*xs, out=out),
        lambda torch, ts: torch.nn.functional.embedding(ts[1], ts[0]),
        lambda xs: xs[0][xs[1]],
        part=_looked_up,
    ),
    Family(
        "sampling",
        _sampling,
        lambda xs, out, **options: gp.sample(xs[0], uniform=xs[1], out=out, **options),
        _sampling_torch,
        _sampling_numpy,
        check=_sampling_error,
    ),
]
