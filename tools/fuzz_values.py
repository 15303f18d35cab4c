"""Values for tools/fuzz_api.py: arguments that fit a parameter's name, and objects made to break whoever reads them.

Every generator takes a random.Random and gives (value, text): the text is written down before the call, so that a
process that died can be asked what it was doing.
"""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import numpy as np

import pygpukit as gp

Pair = tuple[Any, str]

EDGES = [2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**61, 2**62, 2**63, 2**64, 2**70]
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3", "float8_e5m2", "int4", "float4_e2m1",
]  # fmt: skip
NUMPY_DTYPES = [name for name in DTYPES if hasattr(np, name) or name == "bool"]


class Index:
    """An integer that runs code when it is read."""

    def __init__(self, value: Any, action: Any = None) -> None:
        self.value, self.action = value, action

    def __index__(self) -> Any:
        if self.action is not None:
            self.action()
        return self.value


class Raises:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(f"no {name}")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise LookupError("refused")

    __index__ = __len__ = __iter__ = __bool__ = __float__ = __int__ = __getitem__ = _refuse
    __hash__ = __eq__ = __call__ = _refuse  # type: ignore[assignment]


class Shown:
    """Its name for messages is no text, or there is none."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __repr__(self) -> str:
        if self.text is None:
            raise LookupError("no text")
        return self.text

    __str__ = __repr__


class Lies:
    """A sequence whose length is not what it holds; after a million items it gives up."""

    def __init__(self, length: int, holds: int, item: Any = 1) -> None:
        self.length, self.holds, self.item = length, holds, item

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        if i >= min(self.holds, 1_000_000):
            raise IndexError(i)
        return self.item


class LyingArray(np.ndarray):  # type: ignore[type-arg]
    shape = property(lambda self: (1 << 20,))  # type: ignore[assignment]
    dtype = property(lambda self: np.dtype("complex128"))  # type: ignore[assignment]
    ctypes = property(lambda self: None)  # type: ignore[assignment]


class LongList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 2**40


class Text(str):
    pass


class Foreign:
    """An array of another library, with whatever attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def emptied(count: int, value: int) -> list[Any]:
    """A list that loses its items as soon as one of them is read."""
    items: list[Any] = []

    def drop() -> None:
        items.clear()
        bytearray(1 << 12)

    items.extend(Index(value, drop) for _ in range(count))
    return items


def grown(count: int, value: int) -> list[Any]:
    """A list that grows while it is read."""
    items: list[Any] = []
    items.extend(Index(value, lambda: items.extend([1] * 100)) for _ in range(count))
    return items


# Numbers and shapes


def small_int(r: Random) -> Pair:
    value = r.choice([0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 33, -1, -2])
    return value, str(value)


def edge_int(r: Random) -> Pair:
    value = r.choice(EDGES) + r.choice([-1, 0, 1, 4])
    value = -value if r.random() < 0.3 else value
    return value, str(value)


def any_int(r: Random) -> Pair:
    return small_int(r) if r.random() < 0.6 else edge_int(r)


def number(r: Random) -> Pair:
    pick = r.randrange(8)
    if pick == 0:
        value: Any = r.choice([float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324, 1e39])
    elif pick == 1:
        value = complex(r.uniform(-2, 2), r.uniform(-2, 2))
    elif pick == 2:
        value = r.choice([True, False])
    elif pick == 3:
        value = r.choice([np.float32(1.5), np.int8(-3), np.uint64(2**64 - 1), np.float16(2), np.bool_(True)])
    elif pick == 4:
        return any_int(r)
    else:
        value = r.choice([0.0, 0.5, 1.0, -1.5, 2.0, 1e-5])
    return value, repr(value)


def shape(r: Random) -> Pair:
    value = tuple(r.choice([0, 1, 1, 2, 3, 4, 5, 8]) for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4])))
    return value, repr(value)


def hostile_shape(r: Random) -> Pair:
    pick = r.randrange(9)
    if pick == 0:
        count, value = r.choice([1, 2, 3, 8, 9, 1000]), r.choice([1, 2, 4])
        return emptied(count, value), f"emptied({count}, {value})"
    if pick == 1:
        count = r.choice([1, 2, 8])
        return grown(count, 1), f"grown({count}, 1)"
    if pick == 2:
        length, holds = r.choice([0, 2, 2**31, 2**62]), r.choice([0, 1, 3, 2**60])
        return Lies(length, holds), f"Lies({length}, {holds})"
    if pick == 3:
        return LongList([2, 2]), "LongList([2, 2])"
    if pick == 4:
        value = r.choice([np.array(3), np.array([2, 3]), np.array([[2]]), np.array(2.5), np.array([]), np.array("x")])
        return value, f"np.array({value.tolist()!r}, '{value.dtype}')"
    if pick == 5:
        return gp.asarray(4), "gp.asarray(4)"
    parts = [any_int(r) if r.random() < 0.7 else anything(r, 2) for _ in range(r.choice([1, 2, 2, 3, 8, 9]))]
    kind = r.choice([tuple, list])
    text = ", ".join(text for _, text in parts)
    return kind(value for value, _ in parts), f"{kind.__name__}([{text}])"


# Arrays


def numpy_array(r: Random) -> Pair:
    dims, _ = shape(r)
    dtype = r.choice(NUMPY_DTYPES)
    seed = r.randrange(2**31)
    return make_numpy(dims, dtype, seed), f"make_numpy({dims}, '{dtype}', {seed})"


def make_numpy(dims: tuple[int, ...], dtype: str, seed: int) -> Any:
    g = np.random.default_rng(seed)
    if dtype == "bool":
        return g.random(dims) < 0.5
    if np.dtype(dtype).kind == "u":
        return g.integers(0, 5, dims).astype(dtype)
    if np.dtype(dtype).kind == "i":
        return g.integers(-4, 5, dims).astype(dtype)
    values = g.uniform(-2, 2, dims)
    return (values + 1j * g.uniform(-2, 2, dims) if dtype.startswith("complex") else values).astype(dtype)


def array(r: Random) -> Pair:
    pick = r.randrange(10)
    if pick < 2:
        dims, text = shape(r)
        dtype = r.choice(DTYPES)
        return gp.zeros(dims, dtype), f"gp.zeros({text}, '{dtype}')"
    host, text = numpy_array(r)
    value, text = gp.from_numpy(host), f"gp.from_numpy({text})"
    for _ in range(r.choice([0, 0, 0, 1, 2])):
        value, text = view(r, value, text)
    return value, text


def view(r: Random, value: Any, text: str) -> Pair:
    """A view of an array, the same for GPUArrays and NumPy's."""
    pick = r.randrange(5)
    if pick == 0:
        return value.T, text + ".T"
    if pick == 1 and value.ndim > 0:
        step = r.choice([2, -1, -2, 3])
        return value[::step], text + f"[::{step}]"
    if pick == 2 and value.ndim > 1:
        return value[..., ::2], text + "[..., ::2]"
    if pick == 3 and value.ndim < 6:
        return value[None], text + "[None]"
    if pick == 4 and value.ndim > 0 and value.shape[0] > 1:
        return value[1:], text + "[1:]"
    return value, text


def enormous_view(r: Random) -> Pair:
    dtype = r.choice(["uint8", "float32", "int64", "bool"])
    dims = r.choice([(2**20, 0), (0, 2**50), (2**31, 1), (1, 2**32), (2**33,), (2**58,), (4, 2**40), (2**30, 2**20)])
    return gp.broadcast_to(gp.ones(1, dtype), dims) if 0 not in dims else gp.zeros(dims, dtype), f"enormous {dims} {dtype}"


def foreign(r: Random) -> Pair:
    """Objects of other libraries that lie in what they say of themselves, but never in an address."""
    x = gp.ones(4)
    pick = r.randrange(5)
    if pick == 0:
        pair, text = r.choice([(1, 0), (2, 0), (1,), (), (2**32 + 1, 0), (1, 2**16)]), "pair"
        text = repr(pair)
        return Foreign(__dlpack__=lambda **_: x.__dlpack__(), __dlpack_device__=lambda: pair), f"dlpack at {text}"
    if pick == 1:
        answer, text = anything(r, 3)
        return Foreign(__dlpack__=lambda **_: answer, __dlpack_device__=lambda: (1, 0)), f"dlpack giving {text}"
    if pick == 2:
        return np.ones(4).__dlpack__(), "a capsule"
    entries = {"shape": (0,), "typestr": "<f4", "data": (0, False), "version": 3}
    for key in r.sample(sorted(entries), r.randrange(4)):
        if key != "data":
            entries[key] = anything(r, 3)[0]
        else:
            entries[key] = r.choice([None, (), (0,), (None, None), 0, (2**70, True), (-1, 0)])
    name = r.choice(["__cuda_array_interface__", "__array_interface__", "__array_struct__"])
    return Foreign(**{name: entries if r.random() < 0.8 else anything(r, 3)[0]}), f"{name} {sorted(entries)}"


# Everything


def text_value(r: Random) -> Pair:
    value = r.choice(
        ["", "x", "cpu", "cpu:1", "cuda", "cuda:7", "cuda:99999999999", "float32", "float33", "\0", "cpu\0", "\udc80",
         "high", "edge", "sum", "a" * 5000, "\u20ac", "{}", "[[[", "%s%n", Text("cpu"), b"cpu", b"\xff", bytearray(b"4")]
    )  # fmt: skip
    return value, repr(value)[:60]


def anything(r: Random, depth: int = 0) -> Pair:
    """Any object at all."""
    pick = r.randrange(17 if depth < 3 else 9)
    if pick == 0:
        return None, "None"
    if pick == 1:
        return any_int(r)
    if pick == 2:
        return number(r)
    if pick == 3:
        return text_value(r)
    if pick == 4:
        value, text = any_int(r)
        return Index(value), f"Index({text})"
    if pick == 5:
        odd = r.choice([None, "\udc80", "\0", "x" * 10_000])
        return (Raises(), "Raises()") if r.random() < 0.5 else (Shown(odd), f"Shown({str(odd)[:9]!r})")
    if pick == 6:
        value = r.choice([object(), object, int, len, type, Ellipsis, NotImplemented, gp, threading.Lock(), np.dtype])
        return value, str(value)[:60]
    if pick == 7:
        bounds = [any_int(r) if r.random() < 0.6 else (None, "None") for _ in range(3)]
        return slice(*(v for v, _ in bounds)), f"slice({', '.join(t for _, t in bounds)})"
    if pick == 8:
        value = np.ones(r.choice([0, 1, 2]))
        return (value, "np.ones") if r.random() < 0.7 else (value.view(LyingArray), "a lying array")
    if pick == 9:
        return array(r)
    if pick == 10:
        return hostile_shape(r)
    if pick == 11:
        return numpy_array(r)
    if pick == 12:
        return enormous_view(r)
    if pick == 13:
        return foreign(r)
    parts = [anything(r, depth + 1) for _ in range(r.choice([0, 1, 2, 3]))]
    text = ", ".join(text for _, text in parts)
    if pick == 14:
        return [value for value, _ in parts], f"[{text}]"
    if pick == 15:
        return tuple(value for value, _ in parts), f"({text},)"
    return {f"k{i}": value for i, (value, _) in enumerate(parts)}, f"dict of {text}"


def callable_value(r: Random) -> Pair:
    return r.choice([(lambda *a, **k: None, "returns None"), (Raises(), "Raises()"), (lambda: 1 / 0, "1 / 0")])


NAMED: dict[str, Any] = {}


def _names(generator: Any, *names: str) -> None:
    NAMED.update(dict.fromkeys(names, generator))


_names(array, "x", "a", "b", "input", "other", "condition", "values", "gamma", "beta", "weight", "bias", "dst", "src", "value")
_names(shape, "shape", "new_shape", "size", "repetitions")
_names(small_int, "axis", "axis1", "axis2", "n", "num", "repeats", "shift", "k", "count", "offset", "length", "indices")
_names(small_int, "n_rows", "n_cols", "sections", "indices_or_sections", "priority", "block_size", "stream_id", "seed")
_names(callable_value, "callback", "func", "fn", "work", "callable")


def fitting(r: Random, name: str) -> Pair:
    """A value that the parameter of that name may well take."""
    if name == "dtype":
        value = r.choice([*DTYPES, None, np.float32, float, gp.int8])
        return value, str(value)
    if name == "device":
        value = r.choice([None, "cpu", gp.device("cpu")])
        return value, str(value)
    if name in ("axes", "source", "destination", "pad_width", "grid", "block"):
        return shape(r) if r.random() < 0.7 else small_int(r)
    if name == "arrays":
        one, text = array(r)
        return [one, one], f"[{text}] * 2"
    if name == "out":
        return (None, "None") if r.random() < 0.6 else array(r)
    if name in ("copy", "keepdims", "endpoint", "owns_memory"):
        value = r.choice([True, False, None])
        return value, str(value)
    if name in ("name", "id", "task_id", "mode", "path", "text"):
        value = r.choice(["a", "b", "edge", "reflect", "constant", "fuzz.json"])
        return value, repr(value)
    if name in NAMED:
        return NAMED[name](r)
    return r.choice([small_int, number, array, shape])(r)

