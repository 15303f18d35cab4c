"""Well-formed calls for tools/fuzz_api.py whose results NumPy knows too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import fuzz_values as values
import pygpukit as gp

REAL = ["float16", "float32", "float64"]
WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
TOLERANCE = {"float16": 4e-3, "float32": 3e-5, "complex64": 3e-5, "float64": 1e-11, "complex128": 1e-11}

# (name here, name in NumPy, dtypes)
UNARY = [
    *[(n, n, REAL) for n in ["exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "log2", "log10"]],
    *[(n, n, REAL) for n in ["log1p", "expm1", "floor", "ceil", "trunc"]],
    ("acos", "arccos", REAL), ("asin", "arcsin", REAL), ("atan", "arctan", REAL), ("round", "round", REAL),
    ("abs", "abs", REAL + WHOLE + COMPLEX), ("negative", "negative", REAL + COMPLEX + WHOLE),
    ("square", "square", REAL + WHOLE),
    ("sign", "sign", REAL + WHOLE), ("isnan", "isnan", REAL), ("isfinite", "isfinite", REAL), ("isinf", "isinf", REAL),
    ("logical_not", "logical_not", REAL + WHOLE + ["bool"]), ("bitwise_invert", "invert", WHOLE), ("real", "real", COMPLEX),
    ("imag", "imag", COMPLEX), ("ravel", "ravel", REAL + WHOLE), ("argwhere", "argwhere", WHOLE), ("nonzero", "nonzero", WHOLE),
]  # fmt: skip
BINARY = [
    *[(n, n, REAL + WHOLE + COMPLEX) for n in ["add", "subtract", "multiply", "equal", "not_equal"]],
    *[(n, n, REAL + WHOLE) for n in ["maximum", "minimum", "less", "less_equal", "greater", "greater_equal"]],
    *[(n, n, REAL) for n in ["divide", "floor_divide", "remainder"]], ("atan2", "arctan2", REAL),
    *[(n, n, WHOLE) for n in ["bitwise_and", "bitwise_or", "bitwise_xor"]],
    *[(n, n, REAL + WHOLE + ["bool"]) for n in ["logical_and", "logical_or", "logical_xor"]],
]  # fmt: skip
REDUCE = ["sum", "prod", "mean", "max", "min", "any", "all", "var", "std", "cumsum", "argmax", "argmin"]


def both(r: Random, dtypes: list[str], least: int = 0) -> tuple[Any, Any, str]:
    """The same array twice: here and in NumPy, as the same view."""
    dtype = r.choice(dtypes)
    dims = tuple(r.choice([0, 1, 2, 3, 5, 8, 33]) for _ in range(max(least, r.choice([0, 1, 1, 2, 2, 3]))))
    seed = r.randrange(2**31)
    host = values.make_numpy(dims, dtype, seed)
    text = f"make_numpy({dims}, '{dtype}', {seed})"
    ours, twin = gp.from_numpy(host), host
    for _ in range(r.choice([0, 0, 1, 2])):
        state = r.getstate()
        ours, _ = values.view(r, ours, text)
        r.setstate(state)
        twin, text = values.view(r, twin, text)
    return ours, twin, text


def axis_of(r: Random, x: Any, several: bool) -> Any:
    if x.ndim == 0 or r.random() < 0.3:
        return None
    if several and r.random() < 0.3:
        return tuple(r.sample(range(x.ndim), r.randint(1, x.ndim)))
    return r.randrange(-x.ndim, x.ndim)


Case = tuple[str, Callable[[], Any], Callable[[], Any], str]


def case(r: Random) -> Case:
    """(text, the call here, the call in NumPy, dtype that bounds the precision)"""
    kind = r.choice([unary, binary, reduce, rearrange, rearrange, product, create, index])
    return kind(r)


def unary(r: Random) -> Case:
    name, twin, dtypes = r.choice(UNARY)
    x, y, text = both(r, dtypes, 1 if name in ("nonzero", "argwhere") else 0)
    return f"{name}({text})", lambda: getattr(gp, name)(x), lambda: getattr(np, twin)(y), str(y.dtype)


def binary(r: Random) -> Case:
    name, twin, dtypes = r.choice(BINARY)
    dtype = [r.choice(dtypes)]
    a, p, ta = both(r, dtype)
    b, q, tb = both(r, dtype)
    return f"{name}({ta}, {tb})", lambda: getattr(gp, name)(a, b), lambda: getattr(np, twin)(p, q), dtype[0]


def reduce(r: Random) -> Case:
    name = r.choice(REDUCE)
    x, y, text = both(r, REAL + WHOLE)
    one = name in ("cumsum", "argmax", "argmin")
    axis = axis_of(r, y, not one)
    keep = {} if name == "cumsum" else {"keepdims": r.random() < 0.3}
    named = f", axis={axis}, {keep}"
    wide = {"dtype": np.float32} if name in ("sum", "mean", "prod", "cumsum", "var", "std") and y.dtype == np.float16 else {}
    return (
        f"{name}({text}{named})",
        lambda: getattr(gp, name)(x, axis=axis, **keep),
        lambda: getattr(np, name)(y, axis=axis, **keep, **wide),
        str(y.dtype),
    )


def rearrange(r: Random) -> Case:
    x, y, text = both(r, [*WHOLE, *REAL, "bool"], 1)
    n = y.ndim
    axis = r.randrange(-n, n)
    count = r.choice([0, 1, 2, 3])
    order = r.sample(range(n), n)
    width = [(r.choice([0, 1, 4, 40]), r.choice([0, 1, 2])) for _ in range(n)]
    mode = r.choice(["constant", "edge", "reflect"])
    wider = (r.choice([1, 2]), *(r.choice([e, 3]) if e == 1 else e for e in y.shape))
    cuts = sorted(r.choice([-2, 0, 1, 3, 2**40]) for _ in range(count))
    shapes = [(-1,), (y.size,), (1, y.size), (y.size, 1), (-1, max(count, 1)), (0, -1), tuple(reversed(y.shape)), (2**62 + 1, 4)]
    shape = r.choice(shapes)
    sections = r.choice([1, 2, 3, y.shape[axis] or 1])
    repeats = r.choice([count, [count] * y.shape[axis], list(range(y.shape[axis]))])
    calls: list[tuple[str, Callable[[Any, Any], Any]]] = [
        (f"repeat({repeats}, {axis})", lambda m, v: m.repeat(v, repeats, axis=axis)),
        (f"tile({wider[:count]})", lambda m, v: m.tile(v, wider[:count])),
        (f"roll({count - 2}, {axis})", lambda m, v: m.roll(v, count - 2, axis=axis)),
        (f"pad({width}, {mode})", lambda m, v: m.pad(v, width, mode=mode)),
        (f"flip({axis})", lambda m, v: m.flip(v, axis)),
        (f"permute({order})", lambda m, v: (m.permute_dims if m is gp else m.transpose)(v, order)),
        (f"moveaxis({axis}, 0)", lambda m, v: m.moveaxis(v, axis, 0)),
        (f"swapaxes({axis}, 0)", lambda m, v: m.swapaxes(v, axis, 0)),
        (f"expand_dims({axis})", lambda m, v: m.expand_dims(v, axis)),
        (f"squeeze({axis})", lambda m, v: m.squeeze(v, axis)),
        (f"broadcast_to({wider})", lambda m, v: m.broadcast_to(v, wider)),
        (f"reshape({shape})", lambda m, v: m.reshape(v, shape)),
        (f"concatenate({axis})", lambda m, v: m.concatenate([v, v], axis=axis)),
        (f"stack({axis})", lambda m, v: m.stack([v, v], axis=axis)),
        (f"split({sections}, {axis})", lambda m, v: m.split(v, sections, axis)),
        (f"split({cuts}, {axis})", lambda m, v: m.split(v, cuts, axis)),
    ]
    name, call = r.choice(calls)
    return f"{name} of {text}", lambda: call(gp, x), lambda: call(np, y), str(y.dtype)


def product(r: Random) -> Case:
    dtype = r.choice(["float32", "float64", "int32", "uint8", "complex64", "float16"])
    m, n, k = (r.choice([0, 1, 2, 5, 17, 33]) for _ in range(3))
    seed = r.randrange(2**30)
    p, q = values.make_numpy((m, k), dtype, seed), values.make_numpy((n, k), dtype, seed + 1).T
    a, b = gp.from_numpy(p), gp.from_numpy(np.ascontiguousarray(q.T)).T
    wide = (lambda v: v.astype(np.float32)) if dtype == "float16" else (lambda v: v)
    return f"matmul({m}, {n}, {k}, {dtype})", lambda: gp.matmul(a, b), lambda: np.matmul(wide(p), wide(q)), dtype


def create(r: Random) -> Case:
    dims, text = values.shape(r)
    dtype = r.choice(WHOLE + REAL)
    start, stop, step = r.randint(-20, 20), r.randint(-20, 20), r.choice([1, 2, -1, -3, 7])
    rows, columns, k = (r.choice([0, 1, 2, 5]) for _ in range(3))
    calls: list[tuple[str, Callable[[Any], Any]]] = [
        (f"zeros({text}, {dtype})", lambda m: m.zeros(dims, dtype=dtype)),
        (f"ones({text}, {dtype})", lambda m: m.ones(dims, dtype=dtype)),
        (f"full({text}, 3, {dtype})", lambda m: m.full(dims, 3, dtype=dtype)),
        (f"arange({start}, {stop}, {step})", lambda m: m.arange(start, stop, step)),
        (f"eye({rows}, {columns}, {k - 2})", lambda m: m.eye(rows, columns, k - 2, dtype=dtype)),
        (f"linspace({start}, {stop}, {rows})", lambda m: m.linspace(start, stop, rows, dtype="float32")),
    ]
    name, call = r.choice(calls)
    return name, lambda: call(gp), lambda: call(np), "float32"


def index(r: Random) -> Case:
    x, y, text = both(r, WHOLE + REAL, 1)
    n = y.shape[0]
    bound = [None, 0, 1, -1, 2, n, -n, 2**62, -(2**62), 2**70]
    keys: list[Any] = [
        slice(r.choice(bound), r.choice(bound), r.choice([None, 1, 2, -1, -3, 2**62, -(2**63), 2**63 - 1])),
        r.randrange(-n, n) if n else slice(0),
        (Ellipsis, slice(None, None, -1)),
        None,
        [r.randrange(-n, n) for _ in range(3)] if n else slice(0),
        np.array([r.random() < 0.5 for _ in range(n)], dtype=bool),
    ]
    key = r.choice(keys)
    if r.random() < 0.3 and n:
        places = np.array([r.randrange(-n, n) for _ in range(4)])
        return f"take({text}, {places})", lambda: gp.take(x, places, axis=0), lambda: np.take(y, places, axis=0), str(y.dtype)
    return f"{text}[{key!r}]", lambda: x[key], lambda: y[key], str(y.dtype)


def plain(value: Any) -> Any:
    if isinstance(value, gp.GPUArray):
        return value.to_numpy()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return np.asarray(value)


def difference(ours: Any, twin: Any, dtype: str) -> str:
    """Empty when both are the same as far as the dtype's precision goes."""
    if isinstance(twin, (list, tuple)):
        if len(ours) != len(twin):
            return f"{len(ours)} results, NumPy has {len(twin)}"
        return "; ".join(filter(None, (difference(a, b, dtype) for a, b in zip(ours, twin, strict=True))))
    a, b = plain(ours), np.asarray(twin)
    if a.shape != b.shape:
        return f"shape {a.shape}, NumPy has {b.shape}"
    tolerance = max(TOLERANCE.get(dtype, 0.0), TOLERANCE.get(str(a.dtype), 0.0), TOLERANCE.get(str(b.dtype), 0.0))
    if tolerance == 0.0:
        same = np.array_equal(a, b)
    else:
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
            same = np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    return "" if same else f"{a.reshape(-1)[:6]} of {a.dtype}, NumPy has {b.reshape(-1)[:6]} of {b.dtype}"
