"""Products of quantised matrices: the kernel's error, the format's error, and what a caller can get wrong.

The bounds are those of docs/quantisation.md.
"""

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest
from opcase import download
from products import bits

import pygpukit as gp

PLAIN = ("float16", "bfloat16", "float32")
# Activations, weights, and the format's error: by norm, of the largest element (of the largest result), and the share of
# rows whose argmax changes. Normal data, k = 4224: every row has 160 results that differ little, the hardest case.
PAIRS = [
    (("fp8_e4m3", "tensor"), ("fp8_e4m3", "tensor"), 0.039, 0.043, 0.1),
    (("fp8_e4m3", "row"), ("fp8_e4m3", "row"), 0.039, 0.043, 0.1),
    (("fp8_e4m3", 128), ("fp8_e4m3", (128, 128)), 0.039, 0.043, 0.1),
    (("fp8_e5m2", "row"), ("fp8_e4m3", "row"), 0.062, 0.066, 0.12),
    (("int8", "row"), ("int8", "row"), 0.013, 0.0145, 0.05),
    (("int4", "row"), ("int4", "row"), 0.24, 0.26, 0.35),
    (("nvfp4", 16), ("nvfp4", 16), 0.142, 0.152, 0.22),
    (("nvfp4", 32), ("nvfp4", 32), 0.151, 0.157, 0.23),
    (("bfloat16", None), ("fp8_e4m3", "row"), 0.028, 0.031, 0.08),
    (("float16", None), ("fp8_e4m3", (128, 128)), 0.028, 0.031, 0.08),
    (("bfloat16", None), ("int8", "row"), 0.0095, 0.0107, 0.04),
    (("bfloat16", None), ("int4", 32), 0.102, 0.108, 0.17),
    (("bfloat16", None), ("int4", 64), 0.113, 0.12, 0.21),
    (("float16", None), ("int4", 128), 0.123, 0.13, 0.23),
    (("bfloat16", None), ("nvfp4", 16), 0.1, 0.107, 0.19),
    (("bfloat16", None), ("nvfp4", 32), 0.106, 0.108, 0.2),
]
# Of the kernel, beside the float64 product of the numbers that codes and scales stand for: by norm (twice that for the
# largest element), and rows whose argmax changes, which neighbours that round to the same 16-bit number may do.
KERNEL_BOUND = {"float32": (1e-3, 0.01), "float16": (4e-3, 0.02), "bfloat16": (4e-3, 0.04)}


def operand(x, format, block, side):
    """Keywords of scaled_matmul for one side, and its numbers in float64."""
    if format in PLAIN:
        plain = gp.from_numpy(x).astype(format)
        return {side: plain}, download(plain)
    codes = gp.quantize(gp.from_numpy(x), format, block=block)
    keywords = {side: codes[0], f"scale_{side}": codes[1]}
    more = {}
    if len(codes) == 3:
        keywords[f"tensor_scale_{side}"] = codes[2]
        more = {"tensor_scale": codes[2]}
    return keywords, gp.dequantize(codes[0], codes[1], **more).to_numpy().astype(np.float64)


@pytest.mark.parametrize("a, b, norm, element, argmax", PAIRS)
def test_two_errors(device, rng, a, b, norm, element, argmax):
    x, w = (rng.standard_normal((rows, 4224)).astype(np.float32) for rows in (200, 160))
    left, left_numbers = operand(x, *a, "a")
    right, right_numbers = operand(w, *b, "b")
    stored, original = left_numbers @ right_numbers.T, x.astype(np.float64) @ w.astype(np.float64).T
    for dtype in PLAIN:
        got = gp.scaled_matmul(**left, **right, out_dtype=dtype)
        assert got.dtype.name == dtype
        got = download(got)
        # The kernel's.
        bound, changed = KERNEL_BOUND[dtype]
        assert np.linalg.norm(got - stored) <= bound * np.linalg.norm(stored)
        assert np.abs(got - stored).max() <= 2 * bound * np.abs(stored).max()
        assert np.mean(got.argmax(1) != stored.argmax(1)) <= changed
        # The format's.
        assert np.linalg.norm(got - original) <= norm * np.linalg.norm(original)
        assert np.abs(got - original).max() <= element * np.abs(original).max()
        assert np.mean(got.argmax(1) != original.argmax(1)) <= argmax


@pytest.mark.parametrize("a, b", [pair[:2] for pair in PAIRS])
@pytest.mark.parametrize("rows", [1, 9, 40])
def test_few_rows(device, rng, a, b, rows):
    x, w = (rng.standard_normal((n, 4224)).astype(np.float32) for n in (rows, 161))
    left, left_numbers = operand(x, *a, "a")
    right, right_numbers = operand(w, *b, "b")
    stored = left_numbers @ right_numbers.T
    for dtype in PLAIN:
        got = download(gp.scaled_matmul(**left, **right, out_dtype=dtype))
        bound, _ = KERNEL_BOUND[dtype]
        assert np.linalg.norm(got - stored) <= bound * np.linalg.norm(stored)
        assert np.abs(got - stored).max() <= 2 * bound * np.abs(stored).max()


@pytest.mark.parametrize("a, b", [pair[:2] for pair in PAIRS if pair[0][0] in (*PLAIN, "fp8_e4m3")])
def test_one_row_of_any_length(device, rng, a, b):
    """A row of x is kept whole; how it is cut changes with its length. Rows of w for many blocks and for less than one."""
    for k, n in ((128, 700), (3584, 33), (8320, 3), (14336, 50), (18944, 17), (29568, 5), (33024, 2)):
        x, w = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (1, n))
        left, left_numbers = operand(x, *a, "a")
        right, right_numbers = operand(w, *b, "b")
        stored = left_numbers @ right_numbers.T
        got = download(gp.scaled_matmul(**left, **right, out_dtype="float32"))
        bound, _ = KERNEL_BOUND["float32"]
        assert np.abs(got - stored).max() <= bound * np.sqrt(k), (k, n)
        again = download(gp.scaled_matmul(**left, **right, out_dtype="float32"))
        assert np.array_equal(got, again)


def backwards(parts):
    """The same operand with its rows, and those of its scales, in reverse order in memory."""
    return {name: gp.contiguous(x[::-1])[::-1] if x.ndim == 2 and x.shape[0] > 1 else x for name, x in parts.items()}


@pytest.mark.parametrize("m", [1, 4, 16, 17, 40, 70])
@pytest.mark.parametrize("b", [("fp8_e4m3", "row"), ("int8", "row"), ("int4", 64), ("int4 zero", 64), ("nvfp4", 16)], ids=str)
def test_rows_that_lie_backwards(device, rng, m, b):
    """Not all kernels walk a matrix from its end: one that does is found."""
    k, n = 1024, 40
    x, w = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n))
    left = {"a": gp.from_numpy(x).astype("bfloat16")}
    zero = b[0] == "int4 zero"
    data, scale, *more = gp.quantize(gp.from_numpy(w), b[0].split()[0], block=b[1], zero_point=zero)
    right = {"b": data, "scale_b": scale} | ({("zero_b" if zero else "tensor_scale_b"): more[0]} if more else {})
    plain = download(gp.scaled_matmul(**left, **right, out_dtype="float32"))
    turned = download(gp.scaled_matmul(**backwards(left), **backwards(right), out_dtype="float32"))
    bound, _ = KERNEL_BOUND["float32"]
    assert np.abs(plain - turned).max() <= bound * np.sqrt(k)
    if b[1] == "row":  # all kernels have one order of sums
        with gp.determinism("batch_invariant"):
            plain = gp.scaled_matmul(**left, **right, out_dtype="float32")
            turned = gp.scaled_matmul(**left, **backwards(right), out_dtype="float32")
        assert np.array_equal(download(plain), download(turned))


@pytest.mark.parametrize(
    "dtype, power", [("float16", -12), ("float16", 12), *(("bfloat16", p) for p in (-90, 31, 32, 110))]
)
@pytest.mark.parametrize("block", [16, 32])
def test_nvfp4_takes_the_range_of_one_row(device, rng, dtype, power, block):
    """Codes lie far below 1 in the kernel, so that x has to be moved: powers of two change nothing but the result's."""
    x, w = (rng.standard_normal((rows, 4224)).astype(np.float32) for rows in (1, 70))
    right, numbers = operand(w, "nvfp4", block, "b")
    row = gp.from_numpy(np.clip(x, -3, 3) * np.float32(2.0) ** power).astype(dtype)
    stored = download(row) @ numbers.T
    got = download(gp.scaled_matmul(row, **right, out_dtype="float32"))
    assert np.linalg.norm(got - stored) <= KERNEL_BOUND["float32"][0] * np.linalg.norm(stored)


@pytest.mark.parametrize("block", [16, 32])
def test_nvfp4_takes_numbers_far_apart(device, rng, block):
    """One large number, which meets zeros, leaves those around it their bits."""
    x, w = (rng.standard_normal((rows, 4224)).astype(np.float32) for rows in (1, 70))
    x[0, 4000], w[:, 4000] = 2.0**40, 0
    right, numbers = operand(w, "nvfp4", block, "b")
    row = gp.from_numpy(x).astype("bfloat16")
    stored = download(row) @ numbers.T
    got = download(gp.scaled_matmul(row, **right, out_dtype="float32"))
    assert np.linalg.norm(got - stored) <= KERNEL_BOUND["float32"][0] * np.linalg.norm(stored)


@pytest.mark.parametrize("n", [19000, 33792, 33793, 70000])
def test_nvfp4_by_many_weights(device, rng, n):
    """Blocks end their rows together if these are few, else in parts. Rows of w repeat, and so do their results."""
    x, w = (rng.standard_normal((rows, 192)).astype(np.float32) for rows in (1, 1000))
    which = np.arange(n) % 1000
    row = gp.from_numpy(x).astype("bfloat16")
    right, numbers = operand(w, "nvfp4", 16, "b")
    few = download(gp.scaled_matmul(row, **right, out_dtype="float32"))
    stored = download(row) @ numbers.T
    assert np.linalg.norm(few - stored) <= KERNEL_BOUND["float32"][0] * np.linalg.norm(stored)
    right, _ = operand(w[which], "nvfp4", 16, "b")
    assert np.array_equal(download(gp.scaled_matmul(row, **right, out_dtype="float32")), few[:, which])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nvfp4_keeps_what_is_not_finite_in_its_place(device, rng, dtype):
    x, w = (rng.standard_normal((rows, 4096)).astype(np.float32) for rows in (1, 70))
    codes, scale, tensor_scale = gp.quantize(gp.from_numpy(w), "nvfp4")
    row = gp.from_numpy(x).astype(dtype)
    bits = gp.bitcast(scale, "uint8").to_numpy().copy()
    bits[17, 5] = bits[40, -1] = 0x7F
    broken = gp.bitcast(gp.from_numpy(bits), "float8_e4m3")
    got = download(gp.scaled_matmul(row, codes, scale_b=broken, tensor_scale_b=tensor_scale, out_dtype="float32"))
    assert np.flatnonzero(np.isnan(got)).tolist() == [17, 40]
    x[0, 100] = np.inf
    row = gp.from_numpy(x).astype(dtype)
    got = download(gp.scaled_matmul(row, codes, scale_b=scale, tensor_scale_b=tensor_scale, out_dtype="float32"))
    assert not np.isfinite(got).any()


@pytest.mark.parametrize("format", ["float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("k", [16, 128, 384, 512, 528, 640, 1152])
def test_slices_take_their_own_scales(device, rng, format, k):
    """Small integers and powers of two: every order of sums is exact, a scale out of place is not."""
    m, n, slices = 270, 400, -(-k // 128)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float32) for rows in (m, n))
    s, t = (2.0 ** rng.integers(-2, 3, (rows, slices)) for rows in (m, -(-n // 128)))
    spread_s = np.repeat(s, 128, 1)[:, :k]
    spread_t = np.repeat(np.repeat(t, 128, 0)[:n], 128, 1)[:, :k]
    left, right = (gp.from_numpy(x).astype(format) for x in (a, b))
    scales = [gp.from_numpy(x.astype(np.float32)) for x in (s, t)]
    got = gp.scaled_matmul(left, right, *scales, out_dtype="float32")
    assert np.array_equal(download(got), (a * spread_s) @ (b * spread_t).T)
    # Rows and columns have their own as well; the sums of slices are added one by one.
    rows = [gp.from_numpy(x[:, :1].astype(np.float32)) for x in (s, np.repeat(t, 128, 0)[:n])]
    got = gp.scaled_matmul(left, right, *rows, out_dtype="float32")
    assert np.array_equal(download(got), (a * s[:, :1]) @ (b * spread_t[:, :1]).T)


@pytest.mark.parametrize("format", ["float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("n, k", [(8, 16), (136, 528), (2400, 272), (13200, 144), (17000, 144)])
def test_few_rows_of_float8(device, rng, format, n, k):
    """Exact sums again. Weights for less than a tile, for tiles that do not divide blocks of 128, for two turns of tiles."""
    slices = -(-k // 128)
    b, t = rng.integers(-2, 3, (n, k)), 2.0 ** rng.integers(-2, 3, (-(-n // 128), slices))
    by_weight, bias = 2.0 ** rng.integers(-2, 3, (n, 1)), rng.integers(-8, 9, n)
    spread_b = b * np.repeat(np.repeat(t, 128, 0)[:n], 128, 1)[:, :k]
    for m in (1, 5, 16, 17, 32, 33, 64) if n <= 136 else (5, 17, 33):
        a, s = rng.integers(-2, 3, (m, k)), 2.0 ** rng.integers(-2, 3, (m, slices))
        one = np.array(2.0 ** rng.integers(-2, 3))
        whole = a @ b.T.astype(np.float64)
        cases = (  # scales of a and b, bias, alpha, the product
            (s, t, None, 1.0, (a * np.repeat(s, 128, 1)[:, :k]) @ spread_b.T),
            (s[:, :1], by_weight, bias, 1.0, whole * s[:, :1] * by_weight.T + bias),
            (one, by_weight, None, 0.5, whole * one * by_weight.T * 0.5),
            (s[:, :1], one, bias, 2.0, whole * s[:, :1] * one * 2 + bias),
        )
        left, right = (gp.from_numpy(x.astype(np.float32)).astype(format) for x in (a, b))
        for dtype in PLAIN:
            for scale_a, scale_b, shift, alpha, wanted in cases:
                scales = [gp.from_numpy(x.astype(np.float32)) for x in (scale_a, scale_b)]
                options = {} if shift is None else {"bias": gp.from_numpy(shift.astype(np.float32)).astype(dtype)}
                wanted = download(gp.from_numpy(wanted.astype(np.float32)).astype(dtype))
                with gp.determinism("batch_invariant"):
                    got = gp.scaled_matmul(left, right, *scales, alpha=alpha, out_dtype=dtype, **options)
                assert np.array_equal(download(got), wanted), (m, dtype, alpha)


@pytest.mark.parametrize("format", ["float8_e4m3", "int8"])
@pytest.mark.parametrize(
    "n, k", [(8, 16), (137, 528), (300, 4112), (30, 1296), (2401, 272), (5000, 1296), (14336, 144), (17000, 528)]
)
def test_rows_by_bytes(device, rng, format, n, k):
    """Exact sums. Weights for less than a tile, for tiles of less than a warpgroup and of more than four, for two turns of
    tiles; tokens for each number of columns, for more than one tile, and for several turns; stages of k that warpgroups
    share unevenly."""
    b, by_weight, bias = rng.integers(-2, 3, (n, k)), 2.0 ** rng.integers(-2, 3, (n, 1)), rng.integers(-8, 9, n)
    if format == "int8":
        b[:, ::3] *= 60
    right, one = gp.from_numpy(b.astype(np.float32)).astype(format), np.array(4.0)
    many = (300,) if n == 5000 else ()
    for m in (9000,) if n == 30 else (1, 2, 8, 9, 16, 17, 32, 33, 70) if n <= 137 else (5, 11, 30, 40, *many):
        a = rng.integers(-2, 3, (m, k))
        whole = a @ b.T.astype(np.float64)
        cases = (  # scales of b, bias, alpha, the product
            (by_weight, None, 1.0, whole * by_weight.T),
            (by_weight, bias, 0.5, whole * by_weight.T * 0.5 + bias),
            (one, bias, 2.0, whole * one * 2 + bias),
        )
        for dtype in ("float16", "bfloat16"):
            left = gp.from_numpy(a.astype(np.float32)).astype(dtype)
            for scale, shift, alpha, wanted in cases:
                options = {} if shift is None else {"bias": gp.from_numpy(shift.astype(np.float32))}
                options |= {"scale_b": gp.from_numpy(scale.astype(np.float32)), "alpha": alpha}
                got = gp.scaled_matmul(left, right, out_dtype="float32", **options)
                assert np.array_equal(download(got), wanted), (m, dtype, alpha)


def float8_unit(device):
    """Keywords for bfloat16 by float8 with the unit for float8, where there is one."""
    hopper = device.kind == "cuda" and gp.get_device_info().compute_capability[0] == 9
    return {"kernel": "wgmma"} if hopper else {}


@pytest.mark.parametrize(
    "n, k",
    [(72, 1408), (137, 1152), (300, 4096), (5000, 1280), (14336, 1024), (16384, 1024), (18944, 1152), (28672, 1024), (8192, 2048)],
)
def test_16_bits_of_bfloat16_by_float8(device, rng, n, k):
    """Exact sums, where Hopper takes rows apart: weights for less than a tile, for tiles alone and in clusters; any number of
    rows, of several tiles; chains of k that blocks share unevenly."""
    unit = float8_unit(device)
    b, by_weight, bias = rng.integers(-2, 3, (n, k)), 2.0 ** rng.integers(-2, 1, (n, 1)), rng.integers(-8, 9, n)
    right, scale = gp.from_numpy(b.astype(np.float32)).astype("float8_e4m3"), gp.from_numpy(by_weight.astype(np.float32))
    shift = gp.from_numpy(bias.astype(np.float32))
    for m in (1, 2, 8, 9, 17, 32, 33, 70, 150) if n <= 300 else (5, 30, 40):
        a = rng.integers(-31, 32, (m, k))  # both parts of a number count
        wanted = (a @ b.T.astype(np.float64)) * by_weight.T * 0.25 + bias
        left = gp.from_numpy(a.astype(np.float32)).astype("bfloat16")
        got = gp.scaled_matmul(left, right, None, scale, alpha=0.25, bias=shift, out_dtype="float16", **unit)
        rounded = gp.from_numpy(wanted.astype(np.float32)).astype("float16")
        assert np.array_equal(download(got), download(rounded)), m
        into = gp.zeros((n + 3, m + 1), dtype="bfloat16").T  # rows do not lie side by side
        gp.scaled_matmul(left, right, None, scale, alpha=0.25, bias=shift, out=into[:m, 2 : n + 2], **unit)
        rounded = gp.from_numpy(wanted.astype(np.float32)).astype("bfloat16")
        assert np.array_equal(download(into[:m, 2 : n + 2]), download(rounded)), m
        assert not download(into[m:]).any() and not download(into[:, :2]).any() and not download(into[:, n + 2 :]).any()
        even = n + 2 + n % 2
        for pitch, first in ((even, 0), (even, 1), (even + 1, 0)) if n <= 300 else ():  # pairs lie well, or not
            into = gp.zeros((m, pitch), dtype="bfloat16")
            gp.scaled_matmul(left, right, None, scale, alpha=0.25, bias=shift, out=into[:, first : first + n], **unit)
            expected = np.zeros((m, pitch))
            expected[:, first : first + n] = download(rounded)
            assert np.array_equal(download(into), expected), (m, pitch, first)


def test_threads_that_share_a_stream(device, rng):
    """What the kernels of one call hand to each other, another thread's call does not touch."""
    n, k, unit = 600, 2048, float8_unit(device)
    data, scale = gp.quantize(gp.from_numpy(rng.standard_normal((n, k)).astype(np.float32)), "fp8_e4m3", block="row")
    batches = [
        gp.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).astype("bfloat16") for m in (64, 100, 70, 40)
    ]
    wanted = [bits(gp.scaled_matmul(a, data, None, scale, out_dtype="bfloat16", **unit)) for a in batches]

    def multiply(i):
        results = [gp.scaled_matmul(batches[i], data, None, scale, out_dtype="bfloat16", **unit) for _ in range(30)]
        return all(np.array_equal(bits(result), wanted[i]) for result in results)

    with concurrent.futures.ThreadPoolExecutor(len(batches)) as pool:
        assert all(pool.map(multiply, range(len(batches))))


@pytest.mark.parametrize("m", [4, 40])
@pytest.mark.parametrize("power", [-120, -60, 0, 60, 105])
def test_16_bits_of_numbers_far_apart(device, rng, m, power):
    """The range of bfloat16; and what is not finite stays in its row."""
    n, k, unit = 200, 1024, float8_unit(device)
    x = rng.standard_normal((m, k)) * 2.0 ** rng.integers(-20, 1, (m, k)) * 2.0**power
    x[0, ::2] = 0
    x[1] = 0
    left = gp.from_numpy(x.astype(np.float32)).astype("bfloat16")
    data, scale = gp.quantize(gp.from_numpy(rng.standard_normal((n, k)).astype(np.float32)), "fp8_e4m3", block="row")
    wanted = download(left) @ gp.dequantize(data, scale).to_numpy().astype(np.float64).T * 2.0**-power
    got = download(gp.scaled_matmul(left, data, None, scale, alpha=2.0**-power, out_dtype="bfloat16", **unit))
    assert np.linalg.norm(got - wanted) <= 4e-3 * np.linalg.norm(wanted)
    assert np.abs(got - wanted).max() <= 8e-3 * np.abs(wanted).max()
    assert not got[1].any()
    x[2, 5], x[3, 700] = np.nan, np.inf
    left = gp.from_numpy(x.astype(np.float32)).astype("bfloat16")
    again = download(gp.scaled_matmul(left, data, None, scale, alpha=2.0**-power, out_dtype="bfloat16", **unit))
    finite = np.isfinite(again)
    assert np.isnan(again[2]).all() and not finite[3].any()
    others = np.delete(np.arange(m), [2, 3])
    assert np.array_equal(again[others], got[others])


@pytest.mark.parametrize("m", [1, 5, 40])
@pytest.mark.parametrize("format", ["int8", "float8_e4m3", "nvfp4"])
def test_ends_of_products(device, rng, format, m):
    """Exact sums: what is done to them, and where they go."""
    n, k = 72, 320
    b = rng.choice([-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6], (n, k))
    b[:, ::16] = 6  # every block has the scale 1
    a, bias = rng.integers(-2, 3, (m, k)), rng.integers(-8, 9, n)
    left, right = (gp.from_numpy(x.astype(np.float32)) for x in (a, b))
    left, scale = left.astype("bfloat16"), None
    if format == "nvfp4":
        right, scale = gp.quantize(right, format, block=16, tensor_scale=False)
    else:
        right = right.astype(format)
    whole = a @ b.T.astype(np.float64)
    options = {"scale_b": scale, "alpha": 0.5, "bias": gp.from_numpy(bias.astype(np.float16))}
    wanted = whole * 0.5 + bias
    assert np.array_equal(download(gp.scaled_matmul(left, right, out_dtype="float32", **options)), wanted)
    out = gp.zeros((n, m), dtype="float32").T
    gp.scaled_matmul(left, right, out=out, **options)
    assert np.array_equal(download(out), wanted)
    by = gp.from_numpy(np.array(64.0, np.float32))
    got = gp.scaled_matmul(left, right, out_dtype="float8_e4m3", out_scale=by, **options)
    rounded = gp.from_numpy((wanted / 64).astype(np.float32)).astype("float8_e4m3")
    assert np.array_equal(download(got.astype("float32")), download(rounded.astype("float32")))


def test_zero_points(device, rng):
    x, w = (rng.standard_normal((rows, 640)).astype(np.float32) for rows in (33, 70))
    data, scale, zero = gp.quantize(gp.from_numpy(w + 1), "int4", block=64, zero_point=True)
    numbers = gp.dequantize(data, scale, zero=zero).to_numpy().astype(np.float64)
    got = gp.scaled_matmul(gp.from_numpy(x), data, scale_b=scale, zero_b=zero).to_numpy()
    np.testing.assert_allclose(got, x @ numbers.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("block", [32, 64, 128])
@pytest.mark.parametrize("k", [640, 4224, 18944, 29568])
def test_zero_points_of_one_row(device, rng, block, k):
    """Rows of zero points begin at any byte; the last of them ends the array."""
    x, w = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (1, 35))
    data, scale, zero = gp.quantize(gp.from_numpy(w + 1), "int4", block=block, zero_point=True)
    numbers = gp.dequantize(data, scale, zero=zero).to_numpy().astype(np.float64)
    row = gp.from_numpy(x).astype("bfloat16")
    got = download(gp.scaled_matmul(row, data, scale_b=scale, zero_b=zero, out_dtype="float32"))
    np.testing.assert_allclose(got, download(row) @ numbers.T, rtol=1e-4, atol=1e-5 * k)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_integers_are_exact(device, rng, dtype):
    a, b = (rng.integers(0, 256, (rows, 1000), dtype=np.uint8) for rows in (65, 70))
    got = gp.scaled_matmul(*(gp.bitcast(gp.from_numpy(x), dtype) for x in (a, b)))
    if dtype == "int4":
        a, b = (np.stack([x & 15, x >> 4], -1).reshape(len(x), -1) for x in (a, b))
        a, b = ((x ^ 8).astype(np.int64) - 8 for x in (a, b))
    else:
        a, b = (x.view(np.int8).astype(np.int64) for x in (a, b))
    assert got.dtype is gp.int32
    np.testing.assert_array_equal(got.to_numpy(), a @ b.T)


def test_float8_results(device, rng):
    x = gp.from_numpy(rng.standard_normal((33, 256)).astype(np.float32))
    data, scale = gp.quantize(x, "fp8_e4m3")
    plain = gp.scaled_matmul(data, data, scale, scale)
    out_scale = gp.full((), 0.5, "float32")
    got = gp.scaled_matmul(data, data, scale, scale, out_dtype="float8_e4m3", out_scale=out_scale)
    np.testing.assert_array_equal(got.to_numpy(), (plain / 0.5).astype("float8_e4m3").to_numpy())
    out = gp.zeros((33, 33), "float8_e5m2")
    assert gp.scaled_matmul(data, data, scale, scale, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), plain.astype("float8_e5m2").to_numpy())


def test_bias_alpha_and_vectors(device, rng):
    w = gp.from_numpy(rng.standard_normal((70, 128)).astype(np.float32))
    x = gp.from_numpy(rng.standard_normal((128,)).astype(np.float32))
    bias = gp.from_numpy(rng.standard_normal((70,)).astype(np.float32))
    data, scale = gp.quantize(w, "int8")
    numbers = gp.dequantize(data, scale).to_numpy()
    got = gp.scaled_matmul(x, data, scale_b=scale, alpha=2.0, bias=bias)
    assert got.shape == (70,)
    np.testing.assert_allclose(got.to_numpy(), 2 * numbers @ x.to_numpy() + bias.to_numpy(), rtol=1e-5, atol=1e-4)


def test_weights_kept_as_k_by_n_are_a_view(device, rng):
    w = gp.from_numpy(rng.standard_normal((256, 130)).astype(np.float32))
    x = gp.from_numpy(rng.standard_normal((65, 256)).astype(np.float32)).astype("bfloat16")
    data, scale = gp.quantize(w.T, "fp8_e4m3", block=(128, 128))
    expected = gp.scaled_matmul(x, data, scale_b=scale)
    kept, kept_scale = data.T.copy(), scale.T.copy()
    got = gp.scaled_matmul(x, kept.T, scale_b=kept_scale.T)
    # On a GPU another kernel takes them: one rounding to bfloat16 apart.
    got, expected = (y.astype("float32").to_numpy() for y in (got, expected))
    np.testing.assert_allclose(got, expected, rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize("kind", ["bfloat16", "fp8_e4m3"])
def test_bits_do_not_depend_on_how_a_batch_lies(device, rng, kind):
    """Under batch_invariant: which kernel serves follows from shapes and weights. 16 bits would hide most differences."""
    x = gp.from_numpy(rng.standard_normal((40, 256)).astype(np.float32))
    data, scale = gp.quantize(gp.from_numpy(rng.standard_normal((80, 256)).astype(np.float32)), "fp8_e4m3", block="row")
    codes, of_rows = gp.quantize(x, kind, block="row") if kind != "bfloat16" else (x.astype(kind), None)
    wider, longer = (gp.zeros((40, 259), codes.dtype) for _ in range(2))
    wider[:, 1:257] = codes
    longer[:, :256] = codes
    into = gp.zeros((40, 83), "float32")

    def product(rows, of, **options):
        return gp.scaled_matmul(rows, data, None if of_rows is None else of_rows[of], scale, **options)

    with gp.determinism("batch_invariant"):
        want = bits(product(codes, slice(None), out_dtype="float32"))
        for rows in (wider[:, 1:257], codes.T.copy().T):
            product(rows, slice(None), out=into[:, 2:82])
            np.testing.assert_array_equal(bits(into)[:, 2:82], want)
            np.testing.assert_array_equal(bits(product(rows[7], slice(7, 8), out_dtype="float32")), want[7])
        np.testing.assert_array_equal(bits(product(longer[:1, :256], slice(1), out_dtype="float32")), want[:1])
    edge = bits(into)
    assert not edge[:, :2].any() and not edge[:, 82:].any()


def test_grouped_matmul(device, rng):
    x = rng.standard_normal((150, 256)).astype(np.float32)
    w = rng.standard_normal((6, 70, 256)).astype(np.float32)
    ids = rng.integers(0, 6, 150).astype(np.int32)
    data, scale = gp.quantize(gp.from_numpy(w), "fp8_e4m3", block=(128, 128))
    numbers = gp.dequantize(data, scale).to_numpy().astype(np.float64)
    for order in (ids, np.sort(ids)):
        got = gp.grouped_matmul(gp.from_numpy(x), data, gp.from_numpy(order), scale_b=scale)
        np.testing.assert_allclose(got.to_numpy(), np.einsum("mk,mnk->mn", x, numbers[order]), rtol=1e-4, atol=1e-4)
    plain = gp.grouped_matmul(gp.from_numpy(x), gp.from_numpy(w), gp.from_numpy(ids))
    np.testing.assert_allclose(plain.to_numpy(), np.einsum("mk,mnk->mn", x, w[ids]), rtol=1e-4, atol=1e-4)
    ids[77] = 6
    bad = gp.grouped_matmul(gp.from_numpy(x), gp.from_numpy(w), gp.from_numpy(ids))
    with pytest.raises(IndexError, match="grouped_matmul"):
        bad.to_numpy()
    np.testing.assert_array_equal(bad.to_numpy()[77], 0)


def test_graph(device, rng):
    x = gp.from_numpy(rng.standard_normal((4, 256)).astype(np.float32))
    data, scale = gp.quantize(gp.from_numpy(rng.standard_normal((70, 256)).astype(np.float32)), "int4")
    out = gp.scaled_matmul(x, data, scale_b=scale)
    graph = gp.CudaGraph()
    graph.begin_capture()
    gp.scaled_matmul(x, data, scale_b=scale, out=out)
    graph.end_capture()
    x *= 2.0
    graph.replay()
    graph.synchronize()
    np.testing.assert_array_equal(out.to_numpy(), gp.scaled_matmul(x, data, scale_b=scale).to_numpy())


@pytest.mark.parametrize("m", (1, 8, 24, 300))
@pytest.mark.parametrize("format", ("nvfp4", "fp8_e4m3", "bfloat16"))
def test_products_wait_for_what_they_read(device, rng, format, m):
    """Kernels that may start before the one before them has ended: it writes their x, or their weights, or is a copy."""
    size = 4096 if device == "cuda" else 256

    def dense(*shape):
        return gp.from_numpy(rng.standard_normal(shape).astype(np.float32) / 64).astype("bfloat16")

    def quantise(w):
        return (w + 0.0,) if format == "bfloat16" else gp.quantize(w, format)

    def product(x, codes, out=None):
        if format == "bfloat16":
            return gp.matmul(x, codes[0].T, out=out)
        tensor = {"tensor_scale_b": codes[2]} if len(codes) == 3 else {}
        return gp.scaled_matmul(x, codes[0], scale_b=codes[1], out=out, **tensor)

    weights, x = [dense(size, size) for _ in range(3)], dense(m, size)
    codes = [quantise(w) for w in weights]
    expected = []
    for c in codes:  # one after the other
        gp.synchronize()
        expected.append(product(expected[-1] if expected else x, c))
    expected = [e.to_numpy().view(np.uint16) for e in expected]
    for turn in range(10):
        got = [x + 0.0]
        for i in range(3):
            got.append(product(got[-1], codes[i] if turn % 2 else quantise(weights[i])))
        for e, g in zip(expected, got[1:], strict=True):
            np.testing.assert_array_equal(g.to_numpy().view(np.uint16), e)

    two = [gp.zeros((m, size), "bfloat16") for _ in range(2)]
    for _ in range(10):  # the last one writes what the one before it reads
        for i in range(3):
            product(two[(i - 1) % 2] if i else x, codes[i], out=two[i % 2])
        np.testing.assert_array_equal(two[0].to_numpy().view(np.uint16), expected[2])

    kept, outs, graph = x.copy(), [gp.zeros((m, size), "bfloat16") for _ in range(3)], gp.CudaGraph()
    graph.begin_capture()
    kept[...] = x
    for i in range(3):
        product(outs[i - 1] if i else kept, codes[i], out=outs[i])
    graph.end_capture()
    for _ in range(10):
        for o in outs:
            o[...] = 7.0
        kept[...] = 0.0
        graph.replay()
        graph.synchronize()
        for e, o in zip(expected, outs, strict=True):
            np.testing.assert_array_equal(o.to_numpy().view(np.uint16), e)


def test_errors(device):
    x, codes, scale = gp.ones((4, 64)), gp.zeros((6, 64), "int8"), gp.ones((6, 1))
    with pytest.raises(TypeError, match="matmul takes plain floats"):
        gp.scaled_matmul(x, x)
    with pytest.raises(ValueError, match="inner dimension"):
        gp.scaled_matmul(x, gp.zeros((6, 32), "int8"))
    with pytest.raises(ValueError, match="scale_b must be one number"):
        gp.scaled_matmul(x, codes, scale_b=gp.ones((5, 1)))
    with pytest.raises(ValueError, match="zero_b must be None"):
        gp.scaled_matmul(x, codes, scale_b=scale, zero_b=gp.zeros((6, 1), "int8"))
    with pytest.raises(ValueError, match="out must have shape"):
        gp.scaled_matmul(x, codes, scale_b=scale, out=gp.zeros((4, 5)))
    with pytest.raises(TypeError, match="out_dtype"):
        gp.scaled_matmul(x, codes, scale_b=scale, out_dtype="float64")
    with pytest.raises(TypeError, match="gp.from_numpy"):
        gp.scaled_matmul(np.ones((4, 64), "float32"), codes)
    with pytest.raises(TypeError, match="row_expert_ids must have dtype int32"):
        gp.grouped_matmul(x, gp.zeros((2, 6, 64), "int8"), gp.zeros((4,), "int64"))
