"""The figures of the other operations of a model, `nn_*`: sampling, fused rows, mixtures of experts, recurrences and
convolutions, against torch, a copy or a kernel that only reads.

A share of the copy ceiling: the time of a copy that moves as many bytes, by ours. See measure.py.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import contest
from contest import CLOSE_S, MANY_S, POWER_S, Call, Contest, geomean, size, tenth
from measure_attention import torch_calls
from measure_conv import measure_conv, measure_drawn_conv

LSTMS, SCANS = 24, 12  # drawn layers
VOCAB = 152064
TOKENS = 4096
HIDDEN, HEADS, KV_HEADS, DIM, INNER = 3584, 28, 4, 128, 18944  # of a 7B model


def copier(c: Contest, nbytes: int) -> list[Any]:
    """Copies that read and write `nbytes` together: ours and torch's."""
    words = max(1, nbytes // 8)
    pairs = [(c.normal((words,), "float32"), c.gp.empty((words,), dtype="float32")) for _ in range(c.copies(nbytes))]
    theirs = [functools.partial(c.tensor(b).copy_, c.tensor(a)) for a, b in pairs]
    return [*c.ours([functools.partial(c.gp.copy_to, a, b) for a, b in pairs]), *c.theirs(theirs)]


def race_copy(c: Contest, name: str, make: Callable[[int], tuple[list[Call], int]], tokens: Sequence[int]) -> None:
    """`make` gives calls on copies, and the bytes that one of them moves, for a number of tokens."""
    for count in tokens:
        label = f"{name}_{count}"
        with c.guard(label):
            calls, nbytes = make(1 if count == 1 else size(count))
            us = c.race({"ours": lambda: c.ours(calls), "copy": lambda: copier(c, nbytes)}, CLOSE_S)
            details = {"us": us["ours"], "copy_us": us["copy"], "bytes": nbytes, "turn_s": c.turn_s}
            if count == 1:
                c.report.add(f"{label}_us", us["ours"], **details)
            else:
                c.report.add(f"{label}_vs_copy", us["copy"] / us["ours"], **details)


def measure_sampling(gp: Any, torch: Any, report: Any) -> None:
    """Temperature, top-k 50 and top-p 0.9 of bfloat16 logits, against torch's way by sorting."""
    c = Contest(gp, torch, report)
    options = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}
    for rows in (1, 64):
        name = f"nn_sample_{rows}x{VOCAB}_vs_torch"
        with c.guard(name):
            n, vocab = (rows, VOCAB) if contest.DIVIDE == 1 else (min(rows, 2), size(VOCAB))
            copies = [{"logits": c.normal((n, vocab), "bfloat16")} for _ in range(c.copies(2 * n * vocab))]
            out = gp.zeros((n,), dtype="int32")
            ours = [functools.partial(gp.sample, x["logits"], seed=1, out=out, **options) for x in copies]
            theirs = torch_calls(c, copies, "sampling", options)
            # Draws differ: what is compared is that both are tokens.
            calls = {name: lambda: c.ours(ours), f"{name} torch": lambda: c.theirs(theirs["sort"])}
            us = c.race(calls, CLOSE_S)
            c.add_ratio(name, us[name], us[f"{name} torch"])


def measure_fused(gp: Any, torch: Any, report: Any) -> None:
    """Split, RoPE and append; rmsnorm of a sum; swiglu: a prompt, and one token."""
    c = Contest(gp, torch, report)
    heads, kv_heads = (HEADS, KV_HEADS) if contest.DIVIDE == 1 else (4, 1)
    hidden, inner = size(HIDDEN), size(INNER)

    def rope_append(tokens: int) -> tuple[list[Call], int]:
        width = (heads + 2 * kv_heads) * DIM
        nbytes = 2 * 2 * tokens * width
        cos, sin = gp.rope_tables(tokens, DIM)
        ids, at = gp.zeros((tokens,), dtype="int32"), gp.arange(tokens, dtype="int32")
        calls: list[Call] = []
        for _ in range(c.copies(nbytes)):
            caches = [gp.zeros((1, tokens, kv_heads, DIM), dtype="bfloat16") for _ in "kv"]
            qkv, out = c.normal((tokens, width), "bfloat16"), gp.zeros((tokens, heads, DIM), dtype="bfloat16")
            calls.append(functools.partial(gp.qkv_rope_append, qkv, out, *caches, ids, at, cos=cos, sin=sin))
        return calls, nbytes

    def norm(tokens: int) -> tuple[list[Call], int]:
        nbytes = 2 * 4 * tokens * hidden
        gamma, calls = c.normal((hidden,), "bfloat16"), []
        for _ in range(c.copies(nbytes)):
            x, residual, out = (c.normal((tokens, hidden), "bfloat16") for _ in range(3))
            calls.append(functools.partial(gp.rmsnorm_residual, x, residual, gamma, out=out, sum=residual))
        return calls, nbytes

    def gated(tokens: int) -> tuple[list[Call], int]:
        nbytes = 2 * 3 * tokens * inner
        calls = []
        for _ in range(c.copies(nbytes)):
            gate, up, out = (c.normal((tokens, inner), "bfloat16") for _ in range(3))
            calls.append(functools.partial(gp.swiglu, gate, up, out=out))
        return calls, nbytes

    for name, make in (("nn_rope_append", rope_append), ("nn_rmsnorm_residual", norm), ("nn_swiglu", gated)):
        race_copy(c, name, make, (TOKENS, 1))


MIXTURES = {  # hidden, width of an expert, experts, experts of a token
    "mixtral": (4096, 14336, 8, 2),
    "qwen3": (2048, 768, 128, 8),
}


def dense_experts(gp: Any, x: Any, gate_up: Any, down: Any, parts: Sequence[int], buffers: Sequence[Any]) -> Any:
    """The same products as separate dense ones, for rows that already lie by expert."""
    wide, inner, out = buffers
    first = 0
    for expert, count in enumerate(parts):
        if count > 0:
            rows = slice(first, first + count)
            gp.matmul(x[rows], gate_up[expert].T, out=wide[rows])
            gp.swiglu_packed(wide[rows], out=inner[rows])
            gp.matmul(inner[rows], down[expert].T, out=out[rows])
            first += count
    return out


def measure_moe(gp: Any, torch: Any, report: Any) -> None:
    """One token against a read of the weights it touches; 512 against the same work as separate dense products."""
    c = Contest(gp, torch, report)
    for label, (hidden, width, experts, top_k) in MIXTURES.items():
        h, w, e = size(hidden), size(width), experts if contest.DIVIDE == 1 else 4
        k = min(top_k, e)
        with c.guard(f"nn_moe_{label}"):
            touched = 2 * k * 3 * h * w + 2 * e * h
            layers = [
                (c.normal((e, h), "bfloat16"), c.normal((e, 2 * w, h), "bfloat16"), c.normal((e, h, w), "bfloat16"))
                for _ in range(min(4, c.copies(touched)))
            ]
            for tokens in (1, 16, 512):
                n = tokens if contest.DIVIDE == 1 else min(tokens, 16)
                x, out = c.normal((n, h), "bfloat16"), gp.zeros((n, h), dtype="bfloat16")
                calls = [functools.partial(gp.moe, x, *layer, k, out=out) for layer in layers]
                contenders: dict[str, Any] = {"ours": functools.partial(c.ours, calls)}
                if tokens == 1:
                    contenders["read"] = lambda: c.reader(touched)
                if tokens == 512:
                    logits = (x.astype("float32") @ layers[0][0].astype("float32").T).to_numpy()
                    chosen = np.sort(np.argsort(-logits, axis=1)[:, :k].reshape(-1))
                    parts = np.bincount(chosen, minlength=e).tolist()
                    rows = c.normal((n * k, h), "bfloat16")
                    buffers = [gp.zeros((n * k, wide), dtype="bfloat16") for wide in (2 * w, w, h)]
                    apart = [functools.partial(dense_experts, gp, rows, g, d, parts, buffers) for _, g, d in layers]
                    contenders["separate"] = functools.partial(c.ours, apart)
                us = c.race(contenders, POWER_S if tokens == 512 else CLOSE_S)
                details = {f"{name}_us": value for name, value in us.items()} | {"turn_s": c.turn_s}
                if tokens == 1:
                    report.add(f"nn_moe_{label}_1_vs_read", us["read"] / us["ours"], **details)
                elif tokens == 512:
                    report.add(f"nn_moe_{label}_512_vs_separate", us["separate"] / us["ours"], **details)
                else:
                    report.add(f"nn_moe_{label}_16_us", us["ours"], **details)


def lstm_duel(
    c: Contest, name: str, shape: tuple[int, int, int, int], tf32: bool, turn_s: float
) -> tuple[float, float]:
    """Microseconds of ours and of cuDNN's layer of `inputs` and `hidden` over [batch, steps, inputs] in float32, TF32
    off or on on both sides."""
    gp = c.gp
    batch, steps, inputs, hidden = shape
    shapes = {"w_ih": (4 * hidden, inputs), "w_hh": (4 * hidden, hidden), "b_ih": (4 * hidden,), "b_hh": (4 * hidden,)}
    weights = {name: gp.mul(c.normal(shape, "float32"), hidden**-0.5) for name, shape in shapes.items()}
    copies = [{"x": c.normal((batch, steps, inputs), "float32"), **weights} for _ in range(2)]
    out = (gp.zeros((batch, steps, hidden)), gp.zeros((batch, hidden)), gp.zeros((batch, hidden)))
    ours = [functools.partial(gp.lstm_forward, *x.values(), use_tf32=tf32, out=out) for x in copies]
    calls = torch_calls(c, copies, "lstm", {"use_tf32": tf32})["lstm"]
    c.agree(lambda: ours[0]()[0], calls[0], 1e-2 if tf32 else 1e-4)
    us = c.race({name: lambda: c.ours(ours), f"{name} torch": lambda: c.theirs(calls)}, turn_s)
    return us[name], us[f"{name} torch"]


def measure_lstm(gp: Any, torch: Any, report: Any) -> None:
    """500 steps against torch's cuDNN, in float32 exactly and with TF32; then layers drawn by the clock."""
    c = Contest(gp, torch, report)
    for width in (256, 512):
        for batch in (1, 16):
            n, steps, b = size(width), size(500), batch if contest.DIVIDE == 1 else 2
            for suffix, tf32 in (("", False), ("_tf32", True)):
                name = f"nn_lstm_{width}_b{batch}{suffix}_vs_torch"
                with c.guard(name):
                    c.add_ratio(name, *lstm_duel(c, name, (b, steps, n, n), tf32, CLOSE_S))
    seed = time.time_ns() % 2**32
    rng = random.Random(seed)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(LSTMS if contest.DIVIDE == 1 else 3):
        hidden, inputs = rng.randint(16, 1024), rng.randint(16, 1024)
        batch, steps, tf32 = round(2 ** rng.uniform(0, 6)), rng.randint(20, 800), rng.random() < 0.5
        shape = (batch if contest.DIVIDE == 1 else 2, size(steps), size(inputs), size(hidden))
        name = "nn_lstm_drawn " + "x".join(str(n) for n in (batch, steps, inputs, hidden)) + (" tf32" if tf32 else "")
        with c.guard(name):
            us, torch_us = lstm_duel(c, name, shape, tf32, MANY_S)
            found[name] = {"us": us, "torch_us": torch_us, "vs_torch": torch_us / us}
    report.add("nn_lstm_drawn_shapes", len(found), seed=seed, shapes=found)
    if len(found) < 2:
        return
    ratios = [row["vs_torch"] for row in found.values()]
    worst = min(found, key=lambda key: found[key]["vs_torch"])
    report.add("nn_lstm_drawn_geomean_vs_torch", geomean(ratios), count=len(ratios), seed=seed)
    report.add("nn_lstm_drawn_tenth_vs_torch", tenth(ratios), worst=worst, seed=seed)


def measure_scan(gp: Any, torch: Any, report: Any) -> None:
    """The selective scan of a layer of Mamba: u, delta and the result are what moves. Then layers drawn by the clock:
    with more states a byte has more exponentials."""
    c = Contest(gp, torch, report)

    def scan(tokens: int, channels: int, state: int, dtype: str) -> tuple[list[Call], int]:
        nbytes = (4 if dtype == "float32" else 2) * (3 * channels + 2 * state) * tokens
        a, calls = gp.neg(gp.abs(c.normal((channels, state), "float32"))), []
        for _ in range(c.copies(nbytes)):
            u, delta, out = (c.normal((1, channels, tokens), dtype) for _ in range(3))
            b, d = (c.normal((1, state, tokens), dtype) for _ in range(2))
            calls.append(functools.partial(gp.selective_scan, u, delta, a, b, d, delta_softplus=True, out=out))
        return calls, nbytes

    race_copy(c, "nn_scan", lambda tokens: scan(tokens, size(5120), 16, "bfloat16"), (TOKENS,))
    seed = time.time_ns() % 2**32
    rng = random.Random(seed)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(SCANS if contest.DIVIDE == 1 else 2):
        tokens, channels = rng.randint(256, 8192), rng.randint(1024, 8192)
        state, dtype = rng.choice((4, 8, 16, 32, 64)), rng.choice(("bfloat16", "float32"))
        name = f"nn_scan_drawn {tokens}x{channels}x{state} {dtype}"
        with c.guard(name):
            calls, nbytes = scan(size(tokens), size(channels), state, dtype)
            us = c.race({"ours": functools.partial(c.ours, calls),
                         "copy": functools.partial(copier, c, nbytes)}, MANY_S)  # fmt: skip
            found[name] = {"us": us["ours"], "copy_us": us["copy"], "vs_copy": us["copy"] / us["ours"]}
    report.add("nn_scan_drawn_shapes", len(found), seed=seed, shapes=found)


GROUPS = {
    "nn_sampling": measure_sampling,
    "nn_fused": measure_fused,
    "nn_moe": measure_moe,
    "nn_lstm": measure_lstm,
    "nn_conv": measure_conv,
    "nn_conv_drawn": measure_drawn_conv,
    "nn_scan": measure_scan,
}
