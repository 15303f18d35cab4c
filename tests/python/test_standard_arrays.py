"""Creation, manipulation, indexing, dtypes and inspection against array-api-strict."""

from __future__ import annotations

import inspect
import itertools
import operator

import array_api_strict as strict
import numpy as np
import pytest
from standard_values import ALL, COMPLEX, FLOATS, INTEGERS, NAN, NUMERIC, REAL, SHAPES, SIGNED, Differences, draw

import pygpukit as gp

SLICES = [
    slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(None, None, 2), slice(3, 0, -1),
    slice(0, 0), slice(-3, None), slice(1, 3), slice(None, 1, -2),
]  # fmt: skip


def dtype_of(module, name):
    return None if name is None else getattr(module, name)


FINFO = ("bits", "eps", "max", "min", "smallest_normal")

# ---- Signatures


def positional(signature):
    return [p for p in signature.parameters.values() if p.kind != p.KEYWORD_ONLY]


def check_signature(name, mine, theirs):
    """Every parameter of the standard by place, and by name where it may be named; defaults where both have one."""
    got, expected = inspect.signature(mine), inspect.signature(theirs)
    for at, parameter in enumerate(positional(expected)):
        assert at < len(positional(got)), f"{name} lacks {parameter}"
        own = positional(got)[at]
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD:
            assert (own.name, own.kind) == (parameter.name, parameter.kind), f"{name}: {own} is not {parameter}"
        elif parameter.kind == parameter.VAR_POSITIONAL:
            assert own.kind == parameter.kind, f"{name}: {own} is not {parameter}"
        if parameter.default is not parameter.empty:
            assert own.default == parameter.default, f"{name}: {own} is not {parameter}"
    for parameter in expected.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY:
            own = got.parameters.get(parameter.name)
            assert own is not None and own.kind != own.POSITIONAL_ONLY, f"{name} lacks {parameter}"
            if parameter.default is None or isinstance(parameter.default, (bool, int, str)):
                assert own.default == parameter.default, f"{name}: {own} is not {parameter}"


def functions_of(module):
    return [n for n in module.__all__ if inspect.isfunction(getattr(module, n)) and not n.endswith("_strict_flags")]


@pytest.mark.parametrize("name", functions_of(strict))
def test_signatures(name):
    check_signature(name, getattr(gp, name), getattr(strict, name))


@pytest.mark.parametrize("extension", ["linalg", "fft"])
def test_signatures_of_extensions(extension):
    theirs = getattr(strict, extension)
    for name in functions_of(theirs):
        check_signature(name, getattr(getattr(gp, extension), name), getattr(theirs, name))


def test_methods_of_arrays():
    kept_out = {"__array__", "__buffer__", "__slots__", "__weakref__", "__array_priority__"}
    for name, method in vars(type(strict.ones(1))).items():
        if name in kept_out or (name.startswith("_") and not name.startswith("__")):
            continue
        assert hasattr(gp.GPUArray, name), name
        if inspect.isfunction(method) and name not in dir(object) and name != "to_device":
            check_signature(name, getattr(gp.GPUArray, name), method)


# ---- Creation


def test_arange(device):
    d = Differences(scale=8)
    for a in ((5,), (0,), (-3,), (1, 7), (7, 1), (7, 1, -2), (0, 10, 3), (1.0, 2.0, 0.25), (5, 5), (-5, 5, 2), (0, -5, -1),
              (10, None), (0, None, 2), (0, 2, 0.5), (1, 0.5, -0.125), (2**40, 2**40 + 3), (0, 3, 1.5)):  # fmt: skip
        for dtype in REAL:
            if all(v is None or isinstance(v, int) for v in a) or dtype in FLOATS:
                d.check(f"{a} {dtype}", lambda m, a=a, t=dtype: m.arange(*a, dtype=getattr(m, t)))
    d.finish(at_least=80)


def test_linspace(device):
    d = Differences(scale=8)
    for a in ((0, 1, 5), (0, 1, 1), (0, 1, 0), (1, 0, 3), (5, 5, 3), (0.0, 10.0, 11), (-1, 1, 2), (0, 1e-3, 7),
              (0j, 1j, 3), (1, 2j, 4), (1.5, 7, 50), (0, 2**62, 3)):  # fmt: skip
        for endpoint in (True, False):
            for dtype in COMPLEX if any(isinstance(v, complex) for v in a) else FLOATS + COMPLEX:
                d.check(
                    f"{a} {endpoint} {dtype}",
                    lambda m, a=a, e=endpoint, t=dtype: m.linspace(*a, endpoint=e, dtype=getattr(m, t)),
                )
    d.finish(at_least=60)
    assert gp.linspace(0, 1j, 3).dtype == gp.complex64
    with pytest.raises(ValueError, match="linspace: dtype must be complex"):
        gp.linspace(0, 1j, 3, dtype="float32")


def test_eye(device):
    d = Differences()
    for rows, columns, k in itertools.product((0, 1, 3, 5), (None, 0, 1, 4), (-6, -1, 0, 1, 3, 6)):
        d.check(f"{rows} {columns} {k}", lambda m, a=(rows, columns), k=k: m.eye(*a, k=k, dtype=m.float32))
    d.finish(at_least=90)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_no_dtype_is_the_default_one(device, name):
    assert getattr(gp, name)((2, 3), dtype=None, device=None).dtype == gp.float32
    assert gp.eye(3, dtype=None, device=None).dtype == gp.float32


def test_filled_arrays(device, rng):
    d = Differences()
    for dtype, shape in itertools.product(ALL, SHAPES):
        x = draw(rng, dtype, shape)
        for name in ("zeros_like", "ones_like"):
            d.check(f"{name} {dtype}", lambda m, x, n=name: getattr(m, n)(x), x)
            for other in (None, *ALL):
                d.check(
                    f"{name} {dtype} {other}", lambda m, x, n=name, t=other: getattr(m, n)(x, dtype=dtype_of(m, t)), x
                )
        for value in (0, 1, True, 2.5, 2j, NAN):
            if not isinstance(value, (bool, int)) and dtype not in COMPLEX and (dtype not in FLOATS or value == 2j):
                continue
            d.check(f"full_like {dtype} {value}", lambda m, x, v=value: m.full_like(x, v), x)
            d.check(f"full {dtype} {value}", lambda m, s=shape, v=value, t=dtype: m.full(s, v, dtype=getattr(m, t)))
        for k in (-5, -1, 0, 1, 5):
            d.check(f"tril {dtype} {k}", lambda m, x, k=k: (m.tril(x, k=k), m.triu(x, k=k)), x)
    for value, dtype in ((True, "bool"), (3, "int64"), (-(2**63), "int64")):
        d.check(f"full {value}", lambda m, v=value: m.full((2,), v))
        d.check(f"asarray {value}", lambda m, v=value: m.asarray(v))
        assert gp.full((), value).dtype.name == dtype
    d.finish(at_least=300)


def test_meshgrid(device, rng):
    d = Differences()
    for shapes in (((3,), (4,)), ((3,),), ((2,), (0,), (3,)), ((1,), (5,))):
        for indexing in ("xy", "ij"):
            arrays = [draw(rng, "float32", s) for s in shapes]
            d.check(f"{shapes} {indexing}", lambda m, *a, i=indexing: m.meshgrid(*a, indexing=i), *arrays)
    d.finish(at_least=8)


def test_asarray_takes_python_integers_exactly(device):
    """Of every dtype, beside others that NumPy would make float64 of them."""
    high = 2**63 + 1
    assert gp.asarray([1, high], dtype=gp.uint64).tolist() == [1, high]
    assert gp.asarray([2**53 + 1, 2.5], dtype=gp.int64).tolist() == [2**53 + 1, 2]
    assert gp.asarray([[high, 2**64 - 1]], dtype=gp.uint64).tolist() == [[high, 2**64 - 1]]
    x = gp.zeros(2, dtype=gp.uint64)
    x[0] = high
    assert int(x[0]) == high and bool(x[0] == high)
    for values, dtype in (([1, 300], "int8"), ([1, -1], "uint8")):
        with pytest.raises(ValueError, match=f"asarray: obj must hold only values of {dtype}"):
            gp.asarray(values, dtype=dtype)


def test_asarray_keeps_the_dtype_of_a_buffer(device):
    assert gp.asarray(memoryview(np.arange(3.0))).dtype == gp.float64
    assert gp.asarray(memoryview(np.arange(3, dtype="int16"))).tolist() == [0, 1, 2]
    assert gp.asarray(bytearray(b"abc")).dtype == gp.uint8


def test_asarray_copies(device):
    for copy in (None, True, False):
        x = gp.asarray([1.0, 2.0])
        y = gp.asarray(x, copy=copy)
        y[0] = 9
        assert x.tolist() == ([1.0, 2.0] if copy else [9.0, 2.0])
    with pytest.raises(ValueError, match="copy=False"):
        gp.asarray(gp.asarray([1]), dtype=gp.float32, copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        gp.asarray([1], copy=False)


# ---- Manipulation


@pytest.mark.parametrize("dtype", ["bool", "uint16", "float32", "complex128"])
def test_manipulation(device, rng, dtype):
    d = Differences()
    for shape in SHAPES:
        rank, x = len(shape), draw(rng, dtype, shape)
        single = list(range(-rank, rank))
        several = [(0, 1), (0, -1), tuple(range(-rank, 0))] if rank > 1 else []
        for axis in range(-rank - 1, rank + 1):
            d.check(f"expand_dims {axis}", lambda m, x, a=axis: m.expand_dims(x, axis=a), x)
            d.check(f"stack {axis}", lambda m, x, a=axis: m.stack((x, x), axis=a), x)
        for axis in [None, *single, *several]:
            d.check(f"flip {shape} {axis}", lambda m, x, a=axis: m.flip(x, axis=a), x)
            if axis is not None and rank:
                d.check(f"squeeze {shape} {axis}", lambda m, x, a=axis: m.squeeze(x, axis=a), x)
            for shift in (0, 2, -13, *([tuple(range(1, len(axis) + 1))] if isinstance(axis, tuple) else [])):
                d.check(f"roll {shape} {shift} {axis}", lambda m, x, s=shift, a=axis: m.roll(x, s, axis=a), x)
        for axis in [None, *single]:
            for count in (0, 1, 3):
                d.check(f"repeat {shape} {axis}", lambda m, x, n=count, a=axis: m.repeat(x, n, axis=a), x)
            d.check(f"concat {shape} {axis}", lambda m, x, a=axis: m.concat([x, x], axis=a), x)
        for axis in single:
            counts = rng.integers(0, 3, shape[axis])
            d.check(f"repeat {shape} {axis} each", lambda m, x, n, a=axis: m.repeat(x, n, axis=a), x, counts)
            d.check(f"unstack {shape} {axis}", lambda m, x, a=axis: m.unstack(x, axis=a), x)
            indices = rng.integers(0, max(shape[axis], 1), (4,) if shape[axis] else (0,))
            d.check(f"take {shape} {axis}", lambda m, x, i, a=axis: m.take(x, i, axis=a), x, indices)
            along = [2 if k == axis % rank else v for k, v in enumerate(shape)] if shape[axis] else shape
            indices = rng.integers(0, max(shape[axis], 1), along)
            d.check(f"take_along {shape} {axis}", lambda m, x, i, a=axis: m.take_along_axis(x, i, axis=a), x, indices)
        for order in itertools.permutations(range(rank)):
            d.check(f"permute {order}", lambda m, x, p=order: m.permute_dims(x, p), x)
            d.check(f"moveaxis {order}", lambda m, x, p=order: m.moveaxis(x, p, tuple(range(len(p)))), x)
        for source, goal in itertools.product(single, single):
            d.check(f"moveaxis {source} {goal}", lambda m, x, a=source, b=goal: m.moveaxis(x, a, b), x)
        for counts in ((), (2,), (0,), (2, 3), (1, 2, 2), (2, 1, 0, 1)):
            d.check(f"tile {shape} {counts}", lambda m, x, r=counts: m.tile(x, r), x)
        for wanted in ((-1,), (x.size,), (1, -1), (-1, 1, 1), (2, -1)):
            for copy in (None, True):
                d.check(f"reshape {shape}", lambda m, x, s=wanted, c=copy: m.reshape(x, s, copy=c), x)
        for other in ((3,), (2, 3, 4), (1, 1), (), (4, 1)):
            y = draw(rng, "float64", other)
            d.check(f"broadcast {shape} {other}", lambda m, x, y: m.broadcast_arrays(x, y), x, y)
            d.check(f"broadcast_to {shape} {other}", lambda m, x, s=other: m.broadcast_to(x, s), x)
    d.finish(at_least=400)


def test_dtypes_that_are_joined(device, rng):
    d = Differences()
    for first, second in itertools.product(ALL, ALL):
        x, y = draw(rng, first, (2, 3)), draw(rng, second, (2, 3))
        d.check(f"{first} {second}", lambda m, x, y: (m.concat([x, y]), m.stack([x, y])), x, y)
        if not (second in SIGNED + FLOATS and first in COMPLEX) and second != "bool":
            source = np.abs(x).astype(first) if second in INTEGERS else x
            d.check(f"{first} as {second}", lambda m, x, t=second: m.astype(x, getattr(m, t)), source)
    d.finish(at_least=90)


def test_clip(device, rng):
    d = Differences()
    for dtype, shape in itertools.product(REAL, SHAPES):
        x = draw(rng, dtype, shape)
        for low, high in ((None, None), (1, None), (None, 2), (0, 3)):
            d.check(f"{dtype}", lambda m, x, a=low, b=high: m.clip(x, min=a, max=b), x)
        low = draw(rng, dtype, (1,) * len(shape))
        d.check(f"{dtype} arrays", lambda m, x, a, b: m.clip(x, a, b), x, low, low + np.asarray(2, dtype))
        d.check(f"{dtype} array", lambda m, x, a: m.clip(x, a, None), x, low)
    d.finish(at_least=300)


# ---- Indexing


def keys_of(shape):
    keys = [(), Ellipsis, None, (None, Ellipsis), (Ellipsis, None)]
    if len(shape) == 1:
        keys += SLICES
    if shape:
        keys += [(s, Ellipsis) for s in SLICES] + [(Ellipsis, 0), (Ellipsis, -1, None), (0, Ellipsis)]
    if len(shape) > 1:
        inner = [*SLICES[:6], 0, 1]
        keys += [(a, b, Ellipsis) for a in [*SLICES[:5], 0, -1] for b in inner]
        keys += [(None, 0, slice(None), Ellipsis), (0,) * len(shape), (-1,) * len(shape)]
    return keys


def assign(value):
    def apply(module, x, *more):
        x = module.asarray(x, copy=True)
        key = more[0] if more else value[1]
        x[key] = value[0](module, x[key])
        return x

    return apply


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 4)])
def test_indexing(device, rng, shape):
    d = Differences()
    x = draw(rng, "int64", shape)
    number, full = (lambda m, part: 7), (lambda m, part: m.ones(part.shape, dtype=m.int64))
    for key in keys_of(shape):
        d.check(f"{shape}[{key}]", lambda m, x, k=key: x[k], x)
        for value in (number, full, lambda m, part: m.asarray(5)):
            d.check(f"{shape}[{key}] =", assign((value, key)), x)
    for mask in (x > 0, np.ones(shape, bool), np.zeros(shape, bool)):
        d.check(f"{shape} mask", lambda m, x, k: x[k], x, mask)
        d.check(f"{shape} mask =", assign((number, None)), x, mask)
    if shape and 0 not in shape:
        for index in (np.array([0, 1, 0]) % shape[0], np.array([[0, -1]])):
            d.check(f"{shape} integers", lambda m, x, i: x[(i,) * len(shape)] if max(shape) > 1 else x, x, index)
            d.check(f"{shape} integer first", lambda m, x, i: x[(i,) + (0,) * (len(shape) - 1)], x, index)
    d.finish(at_least=8)


def test_a_mask_axis_of_no_elements_selects_nothing(device):
    x = gp.ones((3, 2))
    for shape, expected in (((0,), (0, 2)), ((3, 0), (0,)), ((0, 2), (0,)), ((0, 0), (0,))):
        mask = gp.zeros(shape, dtype=bool)
        assert x[mask].shape == expected
        x[mask] = 5
    assert bool(gp.all(x == 1))
    for shape in ((4,), (3, 1), (0, 3), (3, 2, 1)):
        with pytest.raises(IndexError):
            x[gp.zeros(shape, dtype=bool)]


def test_indices_out_of_bounds(device):
    x = gp.ones((3, 4))
    for key in (3, -4, (0, 4), (Ellipsis, -5), (0, 0, 0), (Ellipsis, Ellipsis)):
        with pytest.raises(IndexError):
            x[key]


# ---- dtypes and single numbers


def test_dtype_functions():
    d = Differences()
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
    for dtype in ALL:
        for kind in [*kinds, ("bool", "integral"), ("real floating",), ()]:
            d.check(f"isdtype {dtype} {kind}", lambda m, t=dtype, k=kind: m.isdtype(getattr(m, t), k))
        for other in ALL:
            pair = lambda m, t=dtype, o=other: (getattr(m, t), getattr(m, o))  # noqa: E731
            d.check(f"{dtype} {other}", lambda m, p=pair: (p(m)[0] == p(m)[1], m.isdtype(*p(m))))
            d.check(f"result_type {dtype} {other}", lambda m, p=pair: m.zeros(1, dtype=m.result_type(*p(m))))
        for value in (True, 1, 1.5, 1j):
            d.check(f"result_type {dtype} {value}",
                    lambda m, t=dtype, v=value: m.zeros(1, dtype=m.result_type(v, getattr(m, t), m.ones(2, dtype=getattr(m, t)))))  # fmt: skip
        assert hash(getattr(gp, dtype)) == hash(gp.ones(1, dtype=dtype).dtype)
    for dtype in FLOATS + COMPLEX:
        d.check(f"finfo {dtype}", lambda m, t=dtype: [getattr(m.finfo(getattr(m, t)), n) for n in FINFO])
    for dtype in INTEGERS:
        d.check(
            f"iinfo {dtype}", lambda m, t=dtype: [getattr(m.iinfo(getattr(m, t)), n) for n in ("bits", "max", "min")]
        )
    d.finish(at_least=300)


def test_single_numbers_of_python(device, rng):
    d = Differences()
    for dtype in ALL:
        x = draw(rng, dtype, ())
        for function in (bool, int, float, complex, operator.index):
            if function in (int, float, operator.index) and dtype in COMPLEX:
                continue
            d.check(f"{function.__name__} {dtype}", lambda m, x, f=function: f(x), x)
    d.finish(at_least=40)
    for dtype in NUMERIC:
        with pytest.raises((TypeError, ValueError)):
            bool(gp.ones((2,), dtype=dtype))
