"""Products of random shapes, tiny and ragged ones among them: right within their bounds."""

import numpy as np
import pytest
from products import FORMATS, Scaled, bits, exact, operand

import pygpukit as gp

EPSILON = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}
SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 129, 192, 200, 255, 256, 257, 300]
DEPTHS = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 72, 100, 128, 129, 264, 520, 1000, 1032]
NUM_PLAIN = {"cpu": 40, "cuda": 84}  # shapes of each of six dtypes
NUM_SCALED = {"cpu": 8, "cuda": 42}  # of each of twelve formats
SCALED = [name for name, form in FORMATS.items() if isinstance(form, Scaled)]


def check_random_shape(rng, dtype, **options):
    stored = "float32" if dtype == "tf32" else dtype
    m, n, k = int(rng.choice(SIZES)), int(rng.choice(SIZES)), int(rng.choice(DEPTHS))
    a, b = operand(rng, (m, k), stored), operand(rng, (k, n), stored)
    if dtype == "int8":
        options["out_dtype"] = str(rng.choice(["int8", "int32"]))
    got = gp.matmul(a, b, use_tf32=True if dtype == "tf32" else None, **options)
    want = exact(a) @ exact(b)
    where = f"{m}x{k}x{n}, strides {a.strides} and {b.strides}"
    if dtype == "int8":
        assert np.array_equal(got.to_numpy(), want.astype("int32").astype(options["out_dtype"])), where
        return
    magnitude = np.abs(exact(a)) @ np.abs(exact(b))
    # Tensor cores cut off what they add at 2^-23 of the largest; TF32 keeps 11 bits of each factor.
    step = 2.0**-53 * (k + 1) if dtype == "float64" else 2.0**-24 * (k + 8)
    step += 2.0**-10 if dtype == "tf32" else 0.0
    bound = magnitude * step + np.abs(want) * EPSILON[stored] + (2.0**-25 if dtype == "float16" else 0.0)
    assert np.all(np.abs(exact(got) - want) <= bound), where


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "tf32", "float64", "int8"])
def test_random_shapes(device, rng, dtype):
    for _ in range(NUM_PLAIN[device.kind]):
        check_random_shape(rng, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "int8"])
def test_random_shapes_by_mma(rng, dtype):
    """The kernels of other chips, which every later one can run."""
    with gp.device("cuda"):
        for _ in range(NUM_PLAIN["cuda"]):
            check_random_shape(rng, dtype, kernel="mma")


@pytest.mark.parametrize("name", SCALED)
def test_random_shapes_of_codes(device, rng, name):
    """The kernel's error, against the float64 product of what the codes stand for: by norm, and the largest."""
    form = FORMATS[name]
    for _ in range(NUM_SCALED[device.kind]):
        m, n = int(rng.choice(SIZES)), int(rng.choice(SIZES))
        k = 16 * int(rng.integers(1, 80))
        a, b = form.make(rng, m, n, k)
        left, right = form.numbers(*a), form.numbers(*b)
        want = left @ right.T
        # What a result amounts to where its terms do not happen to cancel out.
        usual = np.sqrt(np.square(left) @ np.square(right.T))
        for out_dtype, by_norm in (("float32", 0.001), ("bfloat16", 0.004)):
            apart = np.abs(exact(form.multiply(a, b, out_dtype=out_dtype)) - want)
            where = f"{m}x{k}x{n} into {out_dtype}"
            assert np.linalg.norm(apart) <= by_norm * np.linalg.norm(np.maximum(usual, np.abs(want))), where
            assert np.all(apart <= 4 * by_norm * np.maximum(usual, np.abs(want))), where


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_beside_the_result_is_written(device, rng, name):
    """Results that lie inside of a larger array, at multiples of 16 bytes or not."""
    form = FORMATS[name]
    for _ in range(24):
        m, n = int(rng.choice([1, 2, 8, 17, 64, 65, 130])), int(rng.choice([1, 2, 3, 7, 9, 20, 130, 200]))
        a, b = form.make(rng, m, n, 272)
        want = form.multiply(a, b)
        row, column = 1, int(rng.choice([0, 5, 16, 32]))
        whole = gp.full((m + 2, 256 if m > 1 or rng.integers(2) else n + column + 3), 7, dtype=want.dtype)
        before = bits(whole)
        form.multiply(a, b, out=whole[row : row + m, column : column + n])
        after = bits(whole)
        before[row : row + m, column : column + n] = after[row : row + m, column : column + n]
        beside = np.argwhere(after != before)
        assert beside.size == 0, f"{m}x{n} at {row, column} of {whole.shape}: wrote {beside[:8].tolist()}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "tf32"])
def test_nothing_beside_an_operand_is_read(device, rng, dtype):
    """Rows that end within 16 bytes, with NaN behind them."""
    stored = "float32" if dtype == "tf32" else dtype
    for k, m in ((1, 3), (3, 130), (7, 64), (9, 1), (30, 17), (100, 200), (130, 65)):
        a, b = (rng.standard_normal((rows, 144)).astype("float32") for rows in (m, 72))
        a[:, k:] = b[:, k:] = np.nan
        left, right = (gp.from_numpy(x).astype(stored)[:, :k] for x in (a, b))
        got = gp.matmul(left, right.T, use_tf32=True if dtype == "tf32" else None)
        want, size = exact(left) @ exact(right).T, np.abs(exact(left)) @ np.abs(exact(right)).T
        assert np.all(np.abs(exact(got) - want) <= size * 2.0**-7), (m, k)
