"""Products of random shapes: right within their bounds, and rows that do not depend on their batch."""

import numpy as np
import pytest

import pygpukit as gp

EPSILON = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}
SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 129, 192, 200, 255, 256, 257, 300]
DEPTHS = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 72, 100, 128, 129, 264, 520, 1000, 1032]
NUM_SHAPES = {"cpu": 240, "cuda": 504}
NUM_BATCHES = {"cpu": 50, "cuda": 200}
OUTPUTS = [8, 16, 24, 40, 64, 72, 130, 256]
ROWS = [*range(1, 65), 127, 128, 129, 255, 256, 257]


def operand(rng, shape, dtype):
    """In one of the ways a matrix may lie in memory."""
    rows, columns = shape
    way = rng.integers(4)
    pad = int(rng.choice([0, 1, 8])) if way >= 2 else 0
    held = (columns + pad, rows) if way in (1, 3) else (rows, columns + pad)
    if dtype == "int8":
        whole = gp.from_numpy(rng.integers(-128, 128, held).astype("int8"))
    else:
        values = rng.standard_normal(held).astype("float64" if dtype == "float64" else "float32")
        whole = gp.from_numpy(values).astype(dtype)
    return (whole.T if way in (1, 3) else whole)[:, :columns]


def exact(x):
    return x.to_numpy(dtype="float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "tf32", "float64", "int8"])
def test_random_shapes(device, rng, dtype):
    stored = "float32" if dtype == "tf32" else dtype
    for _ in range(NUM_SHAPES[device] // 6):
        m, n, k = int(rng.choice(SIZES)), int(rng.choice(SIZES)), int(rng.choice(DEPTHS))
        a, b = operand(rng, (m, k), stored), operand(rng, (k, n), stored)
        got = gp.matmul(a, b, use_tf32=True if dtype == "tf32" else None)
        want = exact(a) @ exact(b)
        where = f"{m}x{k}x{n}, strides {a.strides} and {b.strides}"
        if dtype == "int8":
            assert np.array_equal(got.to_numpy(), want.astype("int32")), where
            continue
        magnitude = np.abs(exact(a)) @ np.abs(exact(b))
        # Tensor cores cut off what they add at 2^-23 of the largest; TF32 keeps 11 bits of each factor.
        step = 2.0**-53 * (k + 1) if dtype == "float64" else 2.0**-24 * (k + 8)
        step += 2.0**-10 if dtype == "tf32" else 0.0
        bound = magnitude * step + np.abs(want) * EPSILON[stored] + (2.0**-25 if dtype == "float16" else 0.0)
        assert np.all(np.abs(exact(got) - want) <= bound), where


def plain(dtype, **options):
    def make(rng, shape):
        return operand(rng, shape, dtype)

    return make, lambda a, b: gp.matmul(a, b.T, **options)


def scaled(a_format, a_block, b_format, b_block):
    """Codes with their scales; a plain a where there is no format."""

    def make(rng, shape):
        return gp.from_numpy(rng.standard_normal(shape).astype("float32")).astype("bfloat16")

    def multiply(a, b):
        left = (a, None) if a_format is None else gp.quantize(a, a_format, block=a_block)
        codes, scale, *whole = gp.quantize(b, b_format, block=b_block)
        options = {"tensor_scale_b": whole[0]} if whole else {}
        return gp.scaled_matmul(left[0], codes, left[1], scale, **options)

    return make, multiply


FORMATS = {
    "float16": plain("float16"),
    "bfloat16": plain("bfloat16"),
    "float32": plain("float32"),
    "tf32": plain("float32", use_tf32=True),
    "float8 rows": scaled("fp8_e4m3", "row", "fp8_e4m3", "row"),
    "float8 blocks": scaled("fp8_e4m3", 128, "fp8_e4m3", (128, 128)),
    "float8 weights": scaled(None, None, "fp8_e4m3", "row"),
    "int8 weights": scaled(None, None, "int8", "row"),
    "int4 weights": scaled(None, None, "int4", 64),
    "nvfp4 weights": scaled(None, None, "nvfp4", 16),
}


@pytest.mark.parametrize("name", FORMATS)
def test_rows_of_random_shapes_do_not_depend_on_their_batch(device, rng, name):
    make, multiply = FORMATS[name]
    with gp.determinism("batch_invariant"):
        for _ in range(max(1, NUM_BATCHES[device] // len(FORMATS))):
            n, k = int(rng.choice(OUTPUTS)), 16 * int(rng.choice([1, 2, 4, 6, 8, 16, 32, 64]))
            a, b = make(rng, (300, k)), make(rng, (n, k))
            whole = multiply(a, b).to_numpy()
            for rows in rng.choice(ROWS, 6, replace=False):
                first = int(rng.integers(0, 300 - rows))
                part = multiply(a[first : first + int(rows)].copy(), b).to_numpy()
                assert np.array_equal(part, whole[first : first + int(rows)]), (name, n, k, int(rows))
