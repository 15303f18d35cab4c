"""The figures of attention, `at_*`: prompts against the best of torch's backends, decode against the read ceiling.

A share of the ceiling: the time of a kernel that only reads the keys and values, by ours. Every backend of
scaled_dot_product_attention that takes the shape is a contender; the fastest counts. See measure.py.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import contest
from contest import MANY_S, Call, Contest, geomean, size, tenth

TURN_S = 0.2
LENGTHS = (2048, 4096, 8192, 16384)
# Name, dtype, batch, query heads, KV heads, head dim, lengths.
PREFILL = (
    ("bf16_d128", "bfloat16", 1, 32, 32, 128, LENGTHS),
    ("bf16_d64", "bfloat16", 1, 32, 32, 64, LENGTHS),
    ("bf16_32_8", "bfloat16", 1, 32, 8, 128, LENGTHS),
    ("bf16_28_4", "bfloat16", 1, 28, 4, 128, LENGTHS),
    ("f16_d128", "float16", 1, 32, 32, 128, LENGTHS),
    ("bf16_b8", "bfloat16", 8, 32, 32, 128, (512, 1024)),
)
DRAWN = 60
DRAWN_S = 90.0  # of the whole group
DIMS = (64, 80, 96, 128, 192, 256)
DECODE = ((28, 4, 1, 32768), (28, 4, 8, 16384), (32, 8, 1, 32768), (32, 8, 8, 16384))  # heads, batch, keys
PAGE = 64
BOUND = 2e-2

Copies = Sequence[Mapping[str, Any]]


def heads(count: int) -> int:
    """Heads of the tiny form keep their ratio."""
    return count if contest.DIVIDE == 1 else max(1, count // 4)


def inputs(c: Contest, shape: tuple[int, int, int, int, int, int], dtype: str) -> list[dict[str, Any]]:
    """Copies of q [batch, queries, heads, dim] and k, v [batch, keys, kv_heads, dim]."""
    batch, queries, keys, q_heads, kv_heads, dim = shape
    nbytes = 2 * batch * dim * (queries * q_heads + 2 * keys * kv_heads)
    return [
        {
            "q": c.normal((batch, queries, q_heads, dim), dtype),
            "k": c.normal((batch, keys, kv_heads, dim), dtype),
            "v": c.normal((batch, keys, kv_heads, dim), dtype),
        }
        for _ in range(c.copies(nbytes))
    ]


def our_calls(c: Contest, copies: Copies, out: Any, **options: Any) -> list[Call]:
    return [functools.partial(c.gp.attention, x["q"], x["k"], x["v"], out=out, **options) for x in copies]


def torch_calls(c: Contest, copies: Copies, kind: str, options: Mapping[str, Any]) -> dict[str, list[Call]]:
    """{backend: a call per copy}."""
    ways: dict[str, list[Call]] = {}
    for x in copies:
        for way, call in c.peer.layer_calls(kind, x, options).items():
            ways.setdefault(way, []).append(call)
    return ways


def against_best(
    c: Contest, name: str, ours: Sequence[Call], theirs: Mapping[str, Sequence[Call]], turn_s: float, bound: float = BOUND
) -> tuple[float, float, str]:
    """Microseconds of ours and of the best way of torch that agrees, and its name."""
    right: dict[str, Sequence[Call]] = {}
    for way, calls in theirs.items():
        with c.guard(f"{name} torch {way}"):
            c.agree(ours[0], calls[0], bound)
            right[way] = calls
    contenders: dict[str, Any] = {name: lambda: c.ours(ours)}
    for way in c.peer.near_fastest(right):
        contenders[f"{name} torch {way}"] = functools.partial(c.theirs, right[way])
    us = c.race(contenders, turn_s)
    rivals = {key.rsplit(" ", 1)[1]: value for key, value in us.items() if key != name}
    if not rivals:
        raise AssertionError("no backend of torch takes this shape")
    best = min(rivals, key=lambda way: rivals[way])
    return us[name], rivals[best], best


def flops(batch: int, queries: int, keys: int, q_heads: int, dim: int, causal: bool) -> float:
    seen = queries * (2 * keys - queries + 1) / 2 if causal else queries * keys
    return 4.0 * batch * q_heads * dim * seen


def measure_prefill(gp: Any, torch: Any, report: Any, wanted: Sequence[str]) -> None:
    c = Contest(gp, torch, report)
    for label, dtype, batch, q_heads, kv_heads, dim, lengths in PREFILL:
        if label not in wanted:
            continue
        for length in lengths:
            n, h, kv = size(length), heads(q_heads), heads(kv_heads)
            copies = inputs(c, (batch, n, n, h, kv, dim), dtype)
            out = gp.zeros((batch, n, h, dim), dtype=dtype)
            for causal in (True, False):
                name = f"at_prefill_{label}_{'causal' if causal else 'full'}_{length}_vs_torch"
                with c.guard(name):
                    ours = our_calls(c, copies, out, causal=causal)
                    theirs = torch_calls(c, copies, "attention", {"causal": causal})
                    us, torch_us, way = against_best(c, name, ours, theirs, TURN_S)
                    tflops = flops(batch, n, n, h, dim, causal) / us / 1e6
                    c.add_ratio(name, us, torch_us, backend=way, tflops=tflops)


def drawn_shape(rng: random.Random) -> dict[str, int]:
    """Batch, heads of any ratio, queries, keys of at least as many, head dim; not more work than 8 full batches."""
    while True:
        kv_heads = rng.choice((1, 2, 3, 4, 5, 8, 12, 16, 32, 64))
        shape = {
            "batch": rng.randint(1, 16),
            "heads": kv_heads * rng.choice((1, 1, 2, 3, 4, 5, 7, 8)),
            "kv_heads": kv_heads,
            "queries": int(np.exp(rng.uniform(0, np.log(9000)))),
            "dim": rng.choice(DIMS),
            "causal": rng.randint(0, 1),
        }
        shape["keys"] = shape["queries"] + rng.choice((0, 0, rng.randint(0, 9000)))
        work = shape["batch"] * shape["heads"] * shape["queries"] * shape["keys"] * shape["dim"]
        if 4 <= shape["heads"] <= 64 and work < 8 * 32 * 4096**2 * 128:
            return shape


def sampled_errors(c: Contest, x: Mapping[str, Any], causal: bool, results: Sequence[Any]) -> list[float]:
    """Of each result the norm of its error against float64, over some rows of q."""
    q, k, v = (x[name] for name in "qkv")
    (batch, queries, q_heads, dim), keys, kv_heads = q.shape, k.shape[1], k.shape[2]
    rng, squares = np.random.default_rng(0), np.zeros(len(results))
    for _ in range(16):
        b, t, h = (int(rng.integers(n)) for n in (batch, queries, q_heads))
        end = keys - queries + t + 1 if causal else keys
        group = h // (q_heads // kv_heads)
        kk, vv = (a[b, :end, group].to_numpy(dtype="float64") for a in (k, v))
        scores = kk @ q[b, t, h].to_numpy(dtype="float64") * dim**-0.5
        weights = np.exp(scores - scores.max())
        exact = weights @ vv / weights.sum()
        for i, result in enumerate(results):
            squares[i] += np.sum((result[b, t, h].to_numpy(dtype="float64") - exact) ** 2)
    return [float(s) ** 0.5 for s in squares]


def measure_drawn(gp: Any, torch: Any, report: Any) -> None:
    """Shapes drawn by the clock."""
    c = Contest(gp, torch, report)
    seed = time.time_ns() % 2**32
    rng, until = random.Random(seed), time.monotonic() + DRAWN_S
    found: dict[str, dict[str, Any]] = {}
    for _ in range(DRAWN if contest.DIVIDE == 1 else 3):
        if time.monotonic() > until:
            break
        s = drawn_shape(rng)
        n, m, causal = size(s["queries"]), size(s["keys"]), bool(s["causal"])
        q_heads, kv_heads = (s["heads"], s["kv_heads"]) if contest.DIVIDE == 1 else (2, 1)
        batch = s["batch"] if contest.DIVIDE == 1 else 1
        name = "at_drawn " + "x".join(str(s[key]) for key in ("batch", "queries", "keys", "heads", "kv_heads", "dim"))
        with c.guard(name):
            copies = inputs(c, (batch, n, max(n, m), q_heads, kv_heads, s["dim"]), "bfloat16")
            out = gp.zeros(copies[0]["q"].shape, dtype="bfloat16")
            ours = our_calls(c, copies, out, causal=causal)
            theirs = torch_calls(c, copies, "attention", {"causal": causal})
            us, torch_us, way = against_best(c, name, ours, theirs, MANY_S)
            mine, other = sampled_errors(c, copies[0], causal, [ours[0](), gp.from_dlpack(theirs[way][0]())])
            found[name] = {**s, "us": us, "torch_us": torch_us, "vs_torch": torch_us / us, "backend": way,
                           "error_vs_torch": mine / max(other, 1e-30)}  # fmt: skip
    report.add("at_drawn_shapes", len(found), seed=seed, shapes=found)
    if len(found) < (DRAWN // 2 if contest.DIVIDE == 1 else 2):
        return
    ratios = [row["vs_torch"] for row in found.values()]
    worst = min(found, key=lambda key: found[key]["vs_torch"])
    report.add("at_drawn_geomean_vs_torch", geomean(ratios), count=len(ratios), seed=seed)
    report.add("at_drawn_tenth_vs_torch", tenth(ratios), worst=worst, seed=seed)
    report.add("at_drawn_error_vs_torch", max(row["error_vs_torch"] for row in found.values()), seed=seed)


def decode_calls(c: Contest, q: Any, caches: Copies, lengths: Any, out: Any) -> list[Call]:
    """One token of each sequence, at the end of what its cache holds."""
    ids = c.gp.from_numpy(np.arange(q.shape[0], dtype=np.int32))
    at = c.gp.from_numpy(np.asarray(lengths, np.int32) - 1)
    calls = []
    for x in caches:
        more = {name: x[name] for name in ("block_tables", "k_scale", "v_scale") if name in x}
        calls.append(functools.partial(c.gp.attention_over_cache, q, x["k"], x["v"], ids, at, out=out, **more))
    return calls


def paged(c: Contest, batch: int, keys: int, kv_heads: int, dim: int, count: int) -> list[dict[str, Any]]:
    per = -(-keys // PAGE)
    made = []
    for i in range(count):
        order = np.random.default_rng(i).permutation(batch * per).astype(np.int32).reshape(batch, per)
        shape = (batch * per, PAGE, kv_heads, dim)
        k, v = (c.normal(shape, "bfloat16") for _ in "kv")
        made.append({"k": k, "v": v, "block_tables": c.gp.from_numpy(order)})
    return made


def measure_decode(gp: Any, torch: Any, report: Any) -> None:
    """Caches of bfloat16, in pages, and float8, in more copies than twice the L2 holds."""
    c, dim = Contest(gp, torch, report), 128
    for q_heads, kv_heads, sequences, length in DECODE:
        h, kv, batch, keys = heads(q_heads), heads(kv_heads), sequences, size(length)
        nbytes = 4 * batch * keys * kv * dim
        shape, label = (batch, keys, kv, dim), f"{q_heads}_{kv_heads}_{sequences}x{length}"
        with c.guard(f"at_decode_{label}"):
            count = c.copies(nbytes)
            q, out = c.normal((batch, h, dim), "bfloat16"), gp.zeros((batch, h, dim), dtype="bfloat16")
            plain = [{"k": c.normal(shape, "bfloat16"), "v": c.normal(shape, "bfloat16")} for _ in range(count)]
            scale = gp.full((kv,), 1 / 16)
            small = [
                {"k": (x["k"] * 16).astype("float8_e4m3"), "v": (x["v"] * 16).astype("float8_e4m3"), "k_scale": scale,
                 "v_scale": scale}
                for x in plain
            ]  # fmt: skip
            lengths = [keys] * batch
            ours = decode_calls(c, q, plain, lengths, out)
            contenders: dict[str, Any] = {
                "bf16": lambda: c.ours(ours),
                "paged": lambda: c.ours(decode_calls(c, q, paged(c, batch, keys, kv, dim, count), lengths, out)),
                "fp8": lambda: c.ours(decode_calls(c, q, small, lengths, out)),
                "read": lambda: c.reader(nbytes),
            }
            wide = [{**x, "q": q} for x in plain]
            for way, calls in torch_calls(c, wide, "decode", {}).items():
                with c.guard(f"at_decode_{label} torch {way}"):
                    c.agree(lambda: ours[0]().reshape(batch, 1, h, dim), calls[0], BOUND)
                    contenders[f"torch {way}"] = functools.partial(c.theirs, calls)
            us = c.race(contenders, TURN_S)
            details = {"read_us": us["read"], "turn_s": c.turn_s, "kv_mb": nbytes / 1e6}
            rivals = {key: value for key, value in us.items() if key.startswith("torch")}
            for cache in ("bf16", "paged"):
                name = f"at_decode_{cache}_{label}_vs_read"
                report.add(name, us["read"] / us[cache], us=us[cache], torch_us=min(rivals.values(), default=0.0), **details)
            report.add(f"at_decode_fp8_{label}_vs_bf16", us["bf16"] / us["fp8"], us=us["fp8"], **details)
            if (q_heads, sequences) == (28, 1):
                report.add("at_decode_28_4_32768_us", us["bf16"], **details)


def measure_ragged(gp: Any, torch: Any, report: Any) -> None:
    """32 sequences of 100 to 20000 keys; and a prompt that attends over pages."""
    c, dim = Contest(gp, torch, report), 128
    h, kv = heads(28), heads(4)
    with c.guard("at_decode_ragged"):
        lengths = [size(int(n)) for n in np.random.default_rng(time.time_ns()).integers(100, 20001, 32)]
        caches = paged(c, 32, max(lengths), kv, dim, 1)
        q, out = c.normal((32, h, dim), "bfloat16"), gp.zeros((32, h, dim), dtype="bfloat16")
        nbytes = 4 * sum(lengths) * kv * dim
        ours = decode_calls(c, q, caches * c.copies(nbytes), lengths, out)
        us = c.race({"ragged": lambda: c.ours(ours), "read": lambda: c.reader(nbytes)}, TURN_S)
        report.add("at_decode_ragged_vs_read", us["read"] / us["ragged"], us=us["ragged"], read_us=us["read"],
                   keys=sum(lengths), turn_s=c.turn_s)  # fmt: skip
    for length in (2048, 8192):
        name, n = f"at_paged_prefill_{length}_vs_contiguous", size(length)
        with c.guard(name):
            q, out = c.normal((n, h, dim), "bfloat16"), gp.zeros((n, h, dim), dtype="bfloat16")
            ids, at = gp.zeros((n,), dtype="int32"), gp.arange(n, dtype="int32")
            pages = paged(c, 1, n, kv, dim, 1)[0]
            flat = {key: c.normal((1, n, kv, dim), "bfloat16") for key in "kv"}

            def call(x: Mapping[str, Any]) -> Call:
                tables = x.get("block_tables")
                return lambda: gp.attention_over_cache(q, x["k"], x["v"], ids, at, block_tables=tables, out=out)

            us = c.race({"paged": lambda: c.ours([call(pages)]), "flat": lambda: c.ours([call(flat)])}, TURN_S)
            report.add(name, us["flat"] / us["paged"], us=us["paged"], contiguous_us=us["flat"], turn_s=c.turn_s)


def measure_invariant(gp: Any, torch: Any, report: Any) -> None:
    """What batch_invariant costs: the time by default over that under the level."""
    c, dim = Contest(gp, torch, report), 128
    h, kv = heads(28), heads(4)

    def race(name: str, calls: Sequence[Call]) -> None:
        def invariant(call: Call) -> Any:
            with gp.determinism("batch_invariant"):
                return call()

        other = [functools.partial(invariant, call) for call in calls]
        us = c.race({"default": lambda: c.ours(calls), "invariant": lambda: c.ours(other)}, TURN_S)
        details = {"us": us["invariant"], "default_us": us["default"], "turn_s": c.turn_s}
        report.add(name, us["default"] / us["invariant"], **details)

    with c.guard("at_invariant_prefill"):
        n = size(4096)
        copies = inputs(c, (1, n, n, h, kv, dim), "bfloat16")
        race("at_invariant_prefill_vs_default", our_calls(c, copies, copies[0]["q"] + 0, causal=True))
    with c.guard("at_invariant_decode"):
        keys = size(32768)
        shape = (1, keys, kv, dim)
        q, out = c.normal((1, h, dim), "bfloat16"), gp.zeros((1, h, dim), dtype="bfloat16")
        count = c.copies(4 * keys * kv * dim)
        caches = [{"k": c.normal(shape, "bfloat16"), "v": c.normal(shape, "bfloat16")} for _ in range(count)]
        race("at_invariant_decode_vs_default", decode_calls(c, q, caches, [keys], out))


GROUPS = {
    "at_prefill": functools.partial(measure_prefill, wanted=("bf16_d128", "bf16_d64", "bf16_b8")),
    "at_prefill_gqa": functools.partial(measure_prefill, wanted=("bf16_32_8", "bf16_28_4", "f16_d128")),
    "at_drawn": measure_drawn,
    "at_decode": measure_decode,
    "at_ragged": measure_ragged,
    "at_invariant": measure_invariant,
}
