"""gp.fuse: one pass with the bits of the calls one by one, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp


def bits(result):
    arrays = result if isinstance(result, tuple) else (result,)
    return [(x.dtype.name, x.shape, x.contiguous().to_numpy().tobytes()) for x in arrays]


def check(function, *args, **kwargs):
    """The fused function gives what the function gives, twice, and into arrays of the caller."""
    want = bits(function(*args, **kwargs))
    fused = gp.fuse(function)
    assert bits(fused(*args, **kwargs)) == want
    assert bits(fused(*args, **kwargs)) == want
    assert fused.fused.num_traces == 1
    made = function(*args, **kwargs)
    out = tuple(gp.empty_like(x) for x in made) if isinstance(made, tuple) else gp.empty_like(made)
    assert fused(*args, out=out, **kwargs) is out
    assert bits(out) == want
    return fused


def normal(rng, shape, dtype="float32"):
    return gp.from_numpy(rng.normal(size=shape).astype(np.float32)).astype(dtype)


def gelu_by_hand(x, b, scale):
    y = (x + b) * scale
    inner = gp.tanh(0.7978845608 * (y + 0.044715 * y * y * y))
    return gp.where(y > -3, 0.5 * y * (1 + inner), 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(0,), (1,), (31,), (1025,), (3, 33), (2, 5, 40), ()])
def test_a_chain_has_its_own_bits(device, rng, dtype, shape):
    check(gelu_by_hand, normal(rng, shape, dtype), normal(rng, shape[-1:], dtype), 0.5)


def test_sizes_past_a_block(device, rng):
    check(gelu_by_hand, normal(rng, (70001,)), normal(rng, (1,)), 2)
    check(gelu_by_hand, normal(rng, (37, 2500), "float16"), normal(rng, (2500,), "float16"), 2)


def test_layouts(device, rng):
    """Views, steps, rows and columns that are broadcast, and results that are not row-major."""

    def function(a, b, c):
        return gp.exp(-gp.abs(a - b)) * c

    a = normal(rng, (24, 40))
    row, column, one = normal(rng, (40,)), normal(rng, (24, 1)), normal(rng, ())
    for x in (a, a[::2, 3:], normal(rng, (40, 24)).T, a[::-1, ::-1]):
        check(function, x, row[: x.shape[1]], one)
        check(function, row[: x.shape[1]], x, column[: x.shape[0]])
    want = function(a, row, column)
    out = gp.zeros((40, 48), dtype="float32")
    view = out.T[::2]
    gp.fuse(function)(a, row, column, out=view)
    assert bits(view.copy()) == bits(want)
    assert float(out[:, 1::2].sum().item()) == 0.0
    shifted = gp.zeros((961,), dtype="float32")[1:].view((24, 40))
    assert bits(gp.fuse(function)(a, row, column, out=shifted)) == bits(want)


def test_dtypes_between_the_steps(device, rng):
    def function(i, h, f):
        a = i * 3 // 2 - (i % 5)
        b = (h + f).astype("float16") * h
        c = gp.where(i > 0, b, f).astype("bfloat16")
        d = (i << 3) ^ (i & 7) | ~i
        return (c.astype("int32") + a + d) / 7

    i = gp.from_numpy(rng.integers(-100, 100, (5, 70)).astype(np.int32))
    check(function, i, normal(rng, (5, 70), "float16"), normal(rng, (70,)))


def test_complex_numbers(device, rng):
    z = gp.from_numpy((rng.normal(size=300) + 1j * rng.normal(size=300)).astype(np.complex64))
    check(lambda z, x: gp.abs(gp.exp(z) * (z + 2j) / x) + gp.abs(gp.conj(z) ** 2), z, normal(rng, (300,)))


def test_bool_and_masks(device, rng):
    def function(x, y, mask):
        either = gp.logical_or(x > y, gp.logical_not(mask)) & ~mask
        return gp.where(either, gp.maximum(x, y), gp.minimum(x, 0)), either, gp.isnan(x) | mask

    x = normal(rng, (257,))
    x[3] = float("nan")
    check(function, x, normal(rng, (257,)), normal(rng, (257,)) > 0)


def test_functions_of_several_calls(device, rng):
    """Operations that are made of others, and those that write into what they have made."""
    check(
        lambda x: gp.round(gp.clip(gp.nan_to_num(x), -1, gp.abs(x)), decimals=2) + gp.clamp(x, -0.5, 0.5),
        normal(rng, (500,)),
    )
    check(
        lambda x, g: gp.swiglu(x, g) + gp.leaky_relu(x, 0.1) * gp.sigmoid(g), normal(rng, (300,)), normal(rng, (300,))
    )


def test_what_is_made_may_be_changed(device, rng):
    def function(x):
        y = x * 2
        before = y + 0
        y += 1
        return y, before

    check(function, normal(rng, (100,)))


def test_results_of_several_kinds(device, rng):
    x = normal(rng, (100,))
    check(lambda x: (x + 1, (x + 1) > 0, x + 1), x)
    y = x * 2
    check(lambda x, y: (y - x, x), x, y)
    check(lambda x: gp.ones_like(x) if False else gp.isfinite(x.astype("int32")), x)
    a, b = gp.empty_like(x), gp.empty_like(x)
    assert gp.fuse(lambda x: (x + 1, x + 2))(x, out=(a, b)) == (a, b)
    assert bits((a, b)) == bits((x + 1, x + 2))


def test_results_in_the_place_of_arguments(device, rng):
    def function(x, y):
        return x * y + x, y - x

    x, y = normal(rng, (700,)), normal(rng, (700,))
    want = bits(function(x, y))
    gp.fuse(function)(x, y, out=(x, y))
    assert bits((x, y)) == want
    x = normal(rng, (700,))
    want = bits(x[:-1] + x[1:] * 2)
    gp.fuse(lambda a, b: a + b * 2)(x[:-1], x[1:], out=x[1:])
    assert bits(x[1:].copy()) == want


def test_traced_once_for_each_kind_of_call(device, rng):
    calls = []

    @gp.fuse
    def function(x, scale, shift=None):
        """Its text."""
        calls.append(x.shape)
        return x * scale if shift is None else x * scale + shift

    assert function.__name__ == "function" and function.__doc__ == "Its text."
    x = normal(rng, (8,))
    for _ in range(3):
        function(x, 2.0)
    assert len(calls) == 1
    assert bits(function(x, 3.0)) == bits(x * 3.0) and len(calls) == 2
    assert bits(function(x, 3)) == bits(x * 3) and len(calls) == 3
    assert bits(function(x, 0.0)) == bits(x * 0.0) and bits(function(x, -0.0)) == bits(x * -0.0)
    assert bits(function(x, x, shift=1)) == bits(x * x + 1)
    assert bits(function(x.astype("float16"), 2.0)) == bits(x.astype("float16") * 2.0)
    for factor in range(600):
        function(x, factor)
    assert bits(function(x, 2.0)) == bits(x * 2.0)


def test_fused_functions_in_fused_functions(device, rng):
    inner = gp.fuse(lambda x: gp.exp(x) + 1)
    check(lambda x: inner(x) * inner(-x), normal(rng, (64,)))


REFUSED = {
    "sum": (lambda x: x / x.sum(), "sum"),
    "softmax": (lambda x: gp.softmax(x) + 1, "softmax"),
    "matmul": (lambda x: x @ x, "matmul"),
    "item": (lambda x: x * (x * 2).sum().item(), "sum"),
    "value": (lambda x: x * float(x[0, 0]), "item|waits for the device"),
    "branch": (lambda x: x if x[0, 0] > 0 else -x, "view"),
    "truth": (lambda x: -x if (x > 0) else x, "truth|ambiguous|one element"),
    "to_numpy": (lambda x: x + x.to_numpy().max(), "waits for the device"),
    "zeros": (lambda x: x + gp.zeros((4, 4)), "allocates"),
    "random": (lambda x: x + gp.random.normal((4, 4)), "normal|allocates"),
    "transpose": (lambda x: x + x.T, "view"),
    "slice": (lambda x: x[:2] + 1, "view"),
    "reshape": (lambda x: x.reshape(16) + 1, "view"),
    "concat": (lambda x: gp.concat([x + 1, x]), "concat"),
    "write": (lambda x: x.__iadd__(1), "in place"),
    "part": (lambda x: (x + 1).__setitem__(slice(0, 2), 0), "in place"),
    "shapes": (lambda x: (x + 1, x + gp.broadcast_to(x, (2, 4, 4))), "one shape"),
    "view": (lambda x: gp.broadcast_to(x + 1, (2, 4, 4)), "broadcast view"),
    "cumsum": (lambda x: gp.cumsum(x, axis=0), "cumsum"),
    "take": (lambda x: gp.take(x, gp.from_numpy(np.arange(2))), "take|allocates"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_elementwise_is_named(device, rng, name):
    function, words = REFUSED[name]
    x = normal(rng, (4, 4))
    with pytest.raises((gp.Error, ValueError), match=words):
        gp.fuse(function)(x)
    assert bits(gp.fuse(lambda x: x + 1)(x)) == bits(x + 1), "the thread traces no more"


def test_an_array_from_elsewhere_must_be_an_argument(device, rng):
    x, table = normal(rng, (8,)), normal(rng, (8,))
    with pytest.raises(gp.Error, match="fuse: .*add: takes an array that is no argument"):
        gp.fuse(lambda x: x + table)(x)
    with pytest.raises(TypeError, match="argument 2 must be a GPUArray, a number.* got builtins.list|list"):
        gp.fuse(lambda x, y: x + y[0])(x, [table])
    with pytest.raises(TypeError, match="an array at least"):
        gp.fuse(lambda: 1)()
    with pytest.raises(TypeError, match="must return an array"):
        gp.fuse(lambda x: 1)(x)
    with pytest.raises(TypeError, match="callable"):
        gp.fuse(3)


def test_a_traced_array_has_no_life_of_its_own(device, rng):
    kept = []

    def function(x):
        kept.append(x * 2)
        return x + 1

    x = normal(rng, (8,))
    gp.fuse(function)(x)
    for use in (lambda a: (a + 1).to_numpy(), lambda a: a.to_numpy(), lambda a: gp.softmax(a).to_numpy(), str):
        with pytest.raises(gp.Error, match="no memory"):
            use(kept[0])
    assert bits(x + 1) == bits(gp.fuse(function)(x))


def test_errors_of_the_calls_come_through(device, rng):
    with pytest.raises(gp.ShapeError, match="add"):
        gp.fuse(lambda x, y: x + y)(normal(rng, (3,)), normal(rng, (4,)))
    fused = gp.fuse(lambda x: x * 2)
    x = normal(rng, (3,))
    with pytest.raises(gp.ShapeError, match="out must have shape"):
        fused(x, out=gp.zeros((4,)))
    with pytest.raises(gp.DTypeError, match="out must have dtype"):
        fused(x, out=gp.zeros((3,), dtype="int32"))
    with pytest.raises(TypeError, match="tuple of 2"):
        gp.fuse(lambda x: (x, x + 1))(x, out=x)


def test_captured(device, rng):
    x, y, out = normal(rng, (300,)), normal(rng, (300,)), gp.zeros((300,))
    fused = gp.fuse(lambda x, y: gp.exp(x) * y + 2)
    fused(x, y, out=out)
    graph = gp.CudaGraph()
    with graph.capture():
        fused(x, y, out=out)
    x[:] = y * 0.5
    graph.replay()
    assert bits(out) == bits(gp.exp(x) * y + 2)


UNARY = [
    "negative",
    "abs",
    "square",
    "relu",
    "exp",
    "log1p",
    "tanh",
    "sigmoid",
    "sin",
    "floor",
    "reciprocal",
    "sign",
    "sqrt",
    "erf",
    "silu",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "remainder",
    "power",
    "atan2",
    "hypot",
    "copysign",
]
COMPARE = ["less", "greater_equal", "equal", "not_equal"]
DTYPES = ["float32", "float16", "bfloat16", "float64", "int32", "int8", "uint16", "int64"]


def chain_of(seed):
    """A random chain of calls over three arguments; each step takes what came before."""

    def function(a, b, c):
        rng = np.random.default_rng(seed)
        values = [a, b, c]
        for _ in range(int(rng.integers(2, 14))):
            x = values[int(rng.integers(len(values)))]
            y = values[int(rng.integers(len(values)))] if rng.random() < 0.7 else float(rng.normal())
            kind = rng.random()
            try:
                if kind < 0.35:
                    made = getattr(gp, UNARY[int(rng.integers(len(UNARY)))])(x)
                elif kind < 0.7:
                    made = getattr(gp, BINARY[int(rng.integers(len(BINARY)))])(x, y)
                elif kind < 0.85:
                    mask = getattr(gp, COMPARE[int(rng.integers(len(COMPARE)))])(x, y)
                    made = gp.where(mask, x, y)
                else:
                    made = x.astype(DTYPES[int(rng.integers(len(DTYPES)))])
            except gp.DTypeError:
                continue
            values.append(made)
        last = values[-1]
        return last if last is not a and last is not b and last is not c else a + 0

    return function


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(device, seed):
    rng = np.random.default_rng(1000 + seed)
    full = tuple(int(n) for n in rng.integers(1, 40, int(rng.integers(1, 4))))
    arguments = []
    for _ in range(3):
        shape = tuple(n if rng.random() < 0.7 else 1 for n in full)[int(rng.integers(len(full) + 1)) :]
        x = gp.from_numpy(rng.normal(size=shape) * 3).astype(DTYPES[int(rng.integers(len(DTYPES)))])
        arguments.append(x.T if rng.random() < 0.2 and len(set(shape)) <= 1 else x)
    function = chain_of(seed)
    with np.errstate(all="ignore"):
        check(function, *arguments)


@pytest.mark.gpu
def test_one_kernel_for_a_chain():
    x = gp.ones((4096,), dtype="float32", device="cuda")
    fused = gp.fuse(gelu_by_hand)
    b = gp.ones((1,), device="cuda")
    text = fused.fused.program((x, b, 1.0), {})
    assert text.count("__global__") == 1 and "Vec<float, 4>" in text
    assert bits(fused(x, b, 1.0)) == bits(gelu_by_hand(x, b, 1.0))
    assert fused.fused.program((x, b, 2.5), {}) == text, "numbers are no part of the program"
    assert fused.fused.program((x[:1024], b, 1.0), {}) == text, "nor are shapes"


@pytest.mark.gpu
def test_more_than_one_kernel_takes():
    def function(x):
        for i in range(100):
            x = x * (1 + i)
        return x

    with pytest.raises(gp.UnsupportedError, match="fused_function: 2 arrays and 100 numbers .* fuse it in parts"):
        gp.fuse(function)(gp.ones((4,), device="cuda"))


@pytest.mark.gpu
def test_on_a_stream_of_ones_own():
    x = gp.ones((5000,), device="cuda")
    fused = gp.fuse(lambda x: gp.exp(x) * 3)
    stream = gp.Stream(device="cuda")
    with stream:
        y = fused(fused(x))
    stream.synchronize()
    assert bits(y) == bits(gp.exp(gp.exp(x) * 3) * 3)
