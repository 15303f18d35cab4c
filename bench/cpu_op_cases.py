"""The calls that measure_cpu_ops.py makes, ours and NumPy's, by family and number of elements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pygpukit as gp

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")
COMPLEX = ("complex64", "complex128")
REAL = FLOATS + INTEGERS


@dataclass(frozen=True)
class Call:
    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    pauses: bool = False


def ours_of(array: np.ndarray) -> Any:
    return gp.from_numpy(np.ascontiguousarray(array), device="cpu")


@functools.lru_cache(maxsize=12)
def values(dtype: str, shape: int | tuple[int, ...], low: float = -4, high: float = 4, seed: int = 1) -> np.ndarray:
    """The same for the same arguments: who changes it copies it."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "i":
        return rng.integers(-1000, 1000, shape).astype(dtype)
    real = rng.uniform(low, high, shape)
    return (real + 1j * rng.uniform(low, high, shape) if kind == "c" else real).astype(dtype)


def sides(size: int) -> tuple[int, int]:
    """Rows and columns of a matrix of about so many elements."""
    return {10**3: (25, 40), 10**5: (250, 400), 10**7: (2500, 4000)}[size]


def result_of(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.empty_like(function(*arrays), order="C")


def pointwise(name: str, ours: Any, theirs: Any, arrays: list[np.ndarray], given: list[Any] | None = None) -> Call:
    """`given`: our operands, where they are views."""
    out = result_of(theirs, *arrays)
    mine, target = given or [ours_of(x) for x in arrays], ours_of(out)

    def call_theirs() -> None:
        with np.errstate(all="ignore"):
            theirs(*arrays, out=out)

    # The error state is no part of the work: it is set once for small arrays.
    quick = (lambda: theirs(*arrays, out=out)) if out.size < 10**4 else call_theirs
    return Call(name, lambda: ours(*mine, out=target), quick)


BASIC_1 = {"negative": REAL + COMPLEX, "abs": REAL, "sign": REAL, "square": REAL + COMPLEX, "floor": FLOATS, "ceil": FLOATS,
           "trunc": FLOATS, "reciprocal": FLOATS, "isnan": FLOATS, "isfinite": FLOATS, "logical_not": ("bool",)}  # fmt: skip
BASIC_2 = {"add": REAL + COMPLEX, "subtract": REAL + COMPLEX, "multiply": REAL + COMPLEX, "divide": FLOATS + COMPLEX,
           "minimum": REAL, "maximum": REAL, "less": REAL, "equal": (*REAL, "bool"), "copysign": FLOATS,
           "bitwise_and": (*INTEGERS, "bool"), "bitwise_xor": INTEGERS, "logical_or": ("bool",)}  # fmt: skip
DIVIDING = {"floor_divide": REAL, "remainder": REAL}
MATH_1 = {"exp": (-4, 4), "expm1": (-4, 4), "log": (0.1, 9), "log1p": (0, 9), "log2": (0.1, 9), "log10": (0.1, 9), "sqrt": (0, 9),
          "sin": (-9, 9), "cos": (-9, 9), "tan": (-1.4, 1.4), "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9), "sinh": (-4, 4),
          "cosh": (-4, 4), "tanh": (-4, 4), "asinh": (-9, 9), "acosh": (1, 9), "atanh": (-0.9, 0.9)}  # fmt: skip
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
               "atan2": "arctan2", "pow": "power"}  # fmt: skip


def numpy_of(name: str) -> Any:
    return getattr(np, NUMPY_NAMES.get(name, name))


def elementwise(size: int) -> Iterator[Call]:
    rows, columns = sides(size)
    for name, dtypes in BASIC_1.items():
        for dtype in dtypes:
            yield pointwise(f"{name} {dtype}", getattr(gp, name), numpy_of(name), [values(dtype, size)])
    for name, dtypes in BASIC_2.items():
        for dtype in dtypes:
            pair = [values(dtype, size), values(dtype, size, seed=2)]
            yield pointwise(f"{name} {dtype}", getattr(gp, name), numpy_of(name), pair)
    for name in ("add", "multiply", "maximum"):
        for dtype in ("float32", "float64", "int32"):
            whole = [values(dtype, 2 * size), values(dtype, 2 * size, seed=2)]
            views = [ours_of(x)[::2] for x in whole]
            strided = [x[::2] for x in whole]
            yield pointwise(f"{name} {dtype} strided", getattr(gp, name), numpy_of(name), strided, views)
            x, row, column = values(dtype, (rows, columns)), values(dtype, (columns,)), values(dtype, (rows, 1))
            yield pointwise(f"{name} {dtype} row", getattr(gp, name), numpy_of(name), [x, row])
            yield pointwise(f"{name} {dtype} column", getattr(gp, name), numpy_of(name), [x, column])
            turned = values(dtype, (columns, rows))
            given = [ours_of(x), ours_of(turned).T]
            yield pointwise(f"{name} {dtype} transposed", getattr(gp, name), numpy_of(name), [x, turned.T], given)
    for dtype in REAL:
        x = values(dtype, size)
        out, mine = np.empty_like(x), ours_of(x)
        target = ours_of(out)
        yield Call(f"add number {dtype}", lambda m=mine, t=target: gp.add(m, 3, out=t),
                   lambda x=x, out=out: np.add(x, 3, out=out))  # fmt: skip
        yield Call(f"clip {dtype}", lambda m=mine, t=target: gp.clip(m, -2, 2, out=t),
                   lambda x=x, out=out: np.clip(x, -2, 2, out=out))  # fmt: skip
        yield Call(f"operator + {dtype}", lambda m=mine: m + m, lambda x=x: x + x)
    casts = ("float32 float64", "float64 float32", "int32 float32", "float32 int32", "bool float32")
    for source, wanted in map(str.split, casts):
        x = values(source, size)
        mine = ours_of(x)
        yield Call(f"astype {source} {wanted}", lambda m=mine, w=wanted: m.astype(w), lambda x=x, w=wanted: x.astype(w))


def division(size: int) -> Iterator[Call]:
    for name, dtypes in DIVIDING.items():
        for dtype in dtypes:
            a, b = values(dtype, size), values(dtype, size, seed=2).copy()
            b[b == 0] = 7
            yield pointwise(f"{name} {dtype}", getattr(gp, name), numpy_of(name), [a, b])
            ours, theirs, mine, out = getattr(gp, name), numpy_of(name), ours_of(a), np.empty_like(a)
            target = ours_of(out)
            yield Call(f"{name} {dtype} by a number", lambda f=ours, m=mine, t=target: f(m, 7, out=t),
                       lambda f=theirs, a=a, out=out: f(a, 7, out=out))  # fmt: skip


def functions(size: int) -> Iterator[Call]:
    for name, (low, high) in MATH_1.items():
        for dtype in FLOATS:
            yield pointwise(f"{name} {dtype}", getattr(gp, name), numpy_of(name), [values(dtype, size, low, high)])
    for name in ("pow", "atan2", "hypot", "logaddexp"):
        for dtype in FLOATS:
            pair = [values(dtype, size, 0.1, 4), values(dtype, size, -3, 3, seed=2)]
            yield pointwise(f"{name} {dtype}", getattr(gp, name), numpy_of(name), pair)
    for name in ("exp", "log", "sqrt", "sin", "tanh", "abs"):
        for dtype in COMPLEX:
            yield pointwise(f"{name} {dtype}", getattr(gp, name), numpy_of(name), [values(dtype, size)])


def reductions(size: int) -> Iterator[Call]:
    shape = sides(size)
    every = {"sum": REAL + COMPLEX + ("bool",), "prod": REAL, "mean": REAL, "max": REAL, "min": REAL, "argmax": REAL,
             "argmin": FLOATS,
             "any": ("bool", "float32"), "all": ("bool", "int32"), "var": FLOATS, "std": FLOATS}  # fmt: skip
    for name, dtypes in every.items():
        for dtype in dtypes:
            # What any and all look at is what they must see to its end.
            same = {"any": np.zeros, "all": np.ones}.get(name)
            x = values(dtype, shape) if same is None else same(shape, dtype)
            for axis in (None, 0, 1):
                ours, theirs = getattr(gp, name), getattr(np, name)
                out = np.asarray(theirs(x, axis=axis))
                mine, target = ours_of(x), ours_of(out).reshape(*out.shape)
                yield Call(f"{name} {dtype} axis {axis}", lambda f=ours, m=mine, a=axis, t=target: f(m, axis=a, out=t),
                           lambda f=theirs, x=x, a=axis, out=out: f(x, axis=a, out=out))  # fmt: skip
    for dtype in REAL:
        x = values(dtype, shape)
        for axis in (0, 1):
            out = np.cumsum(x, axis=axis)
            mine, target = ours_of(x), ours_of(out)
            yield Call(f"cumsum {dtype} axis {axis}", lambda m=mine, a=axis, t=target: gp.cumsum(m, axis=a, out=t),
                       lambda x=x, a=axis, out=out: np.cumsum(x, axis=a, out=out))  # fmt: skip


def indexing(size: int) -> Iterator[Call]:
    rows, columns = sides(size)
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float64", "int32", "bool", "complex128"):
        flat, matrix = values(dtype, size), values(dtype, (rows, columns))
        a, m = ours_of(flat), ours_of(matrix)
        places, lines, spots = (rng.integers(0, n, k) for n, k in ((size, size), (rows, rows), (columns, columns)))
        p, q, r = (ours_of(x) for x in (places, lines, spots))
        out_flat, out_matrix = np.empty_like(flat), np.empty_like(matrix)
        tf, tm = ours_of(out_flat), ours_of(out_matrix)
        tag = f" {dtype}"
        yield Call("take" + tag, lambda a=a, p=p, t=tf: gp.take(a, p, out=t),
                   lambda x=flat, i=places, o=out_flat: np.take(x, i, out=o, mode="wrap"))  # fmt: skip
        yield Call("take axis 0" + tag, lambda m=m, q=q, t=tm: gp.take(m, q, axis=0, out=t),
                   lambda x=matrix, i=lines, o=out_matrix: np.take(x, i, axis=0, out=o, mode="wrap"))  # fmt: skip
        yield Call("take axis 1" + tag, lambda m=m, r=r, t=tm: gp.take(m, r, axis=1, out=t),
                   lambda x=matrix, i=spots, o=out_matrix: np.take(x, i, axis=1, out=o, mode="wrap"))  # fmt: skip
        yield Call("a[indices]" + tag, lambda a=a, p=p: a[p], lambda x=flat, i=places: x[i])
        mask = rng.random(size) < 0.5
        k = ours_of(mask)
        yield Call("a[mask]" + tag, lambda a=a, k=k: a[k], lambda x=flat, k=mask: x[k])
        yield Call("repeat" + tag, lambda a=a: gp.repeat(a, 3), lambda x=flat: np.repeat(x, 3))
        yield Call("repeat axis 0" + tag, lambda m=m: gp.repeat(m, 2, axis=0), lambda x=matrix: np.repeat(x, 2, axis=0))
        yield Call("tile" + tag, lambda m=m: gp.tile(m, (2, 2)), lambda x=matrix: np.tile(x, (2, 2)))
        yield Call("transposed copy" + tag, lambda m=m: m.T.copy(), lambda x=matrix: x.T.copy())
        yield Call("strided copy" + tag, lambda a=a: a[::2].copy(), lambda x=flat: x[::2].copy())
        yield Call("copy" + tag, lambda a=a: a.copy(), lambda x=flat: x.copy())
        yield Call("concat" + tag, lambda m=m, t=None: gp.concat([m, m], axis=1), lambda x=matrix: np.concatenate([x, x], axis=1))
        yield Call("roll" + tag, lambda a=a: gp.roll(a, 17), lambda x=flat: np.roll(x, 17))
        yield Call("where" + tag, lambda k=k, a=a: gp.where(k, a, a), lambda k=mask, x=flat: np.where(k, x, x))
        yield Call("nonzero" + tag, lambda a=a: gp.nonzero(a), lambda x=flat: np.nonzero(x))
        order = rng.permutation(size)
        po, value, mine = ours_of(order), flat.copy(), ours_of(flat)

        def put(x: Any, i: Any, v: Any) -> None:
            x[i] = v

        yield Call("a[indices] =" + tag, lambda x=mine, i=po, v=a: put(x, i, v), lambda x=value, i=order, v=flat: put(x, i, v))


def sorting(size: int) -> Iterator[Call]:
    for dtype in (*REAL, "int16", "bool"):
        x = values(dtype, size) if dtype != "int64" else np.random.default_rng(5).integers(-(2**62), 2**62, size)
        m = ours_of(x)
        yield Call(f"sort {dtype}", lambda m=m: gp.sort(m), lambda x=x: np.sort(x, kind="stable"))
        yield Call(f"argsort {dtype}", lambda m=m: gp.argsort(m), lambda x=x: np.argsort(x, kind="stable"))
        lines = x.reshape(-1, 100)
        rows = ours_of(lines)
        yield Call(f"sort rows {dtype}", lambda m=rows: gp.sort(m, axis=1), lambda x=lines: np.sort(x, axis=1, kind="stable"))
    for dtype in FLOATS:
        x = np.sort(values(dtype, size))
        wanted = values(dtype, min(size, 10**6), seed=4)
        m, w = ours_of(x), ours_of(wanted)
        yield Call(f"searchsorted {dtype}", lambda m=m, w=w: gp.searchsorted(m, w), lambda x=x, w=wanted: np.searchsorted(x, w))


def numpy_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    e /= e.sum(axis=axis, keepdims=True)
    return e


def numpy_layernorm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * gamma + beta


def numpy_rmsnorm(x: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * gamma


def rows(size: int) -> Iterator[Call]:
    shape = sides(size)
    for dtype in FLOATS:
        x = values(dtype, shape)
        gamma, beta = values(dtype, shape[1], seed=2), values(dtype, shape[1], seed=3)
        m, g, b, out = (ours_of(v) for v in (x, gamma, beta, x))
        yield Call(f"softmax {dtype}", lambda m=m, o=out: gp.softmax(m, out=o), lambda x=x: numpy_softmax(x, -1))
        yield Call(f"softmax axis 0 {dtype}", lambda m=m, o=out: gp.softmax(m, axis=0, out=o), lambda x=x: numpy_softmax(x, 0))
        yield Call(f"layernorm {dtype}", lambda m=m, g=g, b=b, o=out: gp.layernorm(m, g, b, out=o),
                   lambda x=x, g=gamma, b=beta: numpy_layernorm(x, g, b))  # fmt: skip
        yield Call(f"rmsnorm {dtype}", lambda m=m, g=g, o=out: gp.rmsnorm(m, g, out=o), lambda x=x, g=gamma: numpy_rmsnorm(x, g))


def products(size: int) -> Iterator[Call]:
    """Square matrices of so many elements, at most 1024 on a side; and a vector by one."""
    side = {10**3: 32, 10**5: 316, 10**7: 1024}[size]
    for dtype in COMPLEX:
        for name, a, b in (
            ("square", (side, side), (side, side)),
            ("thin", (16, side), (side, side)),
            ("vector", (1, side), (side, side)),
            ("batch", (8, side // 2, side // 2), (8, side // 2, side // 2)),
        ):
            left, right = values(dtype, a), values(dtype, b, seed=2)
            out = np.matmul(left, right)
            x, y, t = ours_of(left), ours_of(right), ours_of(out)
            yield Call(f"{name} {dtype}", lambda x=x, y=y, t=t: gp.matmul(x, y, out=t),
                       lambda x=left, y=right, o=out: np.matmul(x, y, out=o), pauses=True)  # fmt: skip


def families(size: int) -> Iterator[tuple[str, Iterator[Call]]]:
    for function in (elementwise, division, functions, reductions, indexing, sorting, rows, products):
        yield function.__name__, function(size)
