"""Under `batch_invariant` a row has the same bits in every batch, beside every neighbour, on any number of
multiprocessors; and what that rests on: the bits of tensor cores follow from the order of k alone."""

import contextlib

import numpy as np
import pytest
from products import FORMATS, Scaled, bits

import pygpukit as gp
from pygpukit import _core, runtime

ROWS = [*range(1, 65), 127, 128, 129, 255, 256, 257, 1000, 4096]
NUM_SHAPES = 200
LARGEST = {"cpu": 300, "cuda": 4096}
FIXED = [(64, 264), (130, 1024), (256, 2064)]  # n, k: every number of rows
OUTPUTS = [8, 16, 24, 40, 64, 72, 130, 256]
DEPTHS = [16, 32, 64, 96, 128, 136, 256, 520, 1024, 2064]


def rows_of(operands, largest, chosen):
    """The chosen rows of everything that has one for each; scales of a whole matrix stay."""

    def take(x):
        return x[chosen] if isinstance(x, gp.GPUArray) and x.ndim > 0 and x.shape[0] == largest else x

    return [take(x) for x in operands]


class Product:
    """One product of the largest batch, and the same rows in smaller ones."""

    def __init__(self, form, rng, largest, n, k, rows, out="float32", **options):
        self.form, self.rng, self.largest, self.rows = form, rng, largest, rows
        self.where = f"n {n}, k {k}"
        # 16 bits would hide most differences of sums.
        self.options = {"out_dtype": out, **options} if isinstance(form, Scaled) else {}
        self.a, self.b = form.make(rng, largest, n, k)
        self.whole = bits(form.multiply(self.a, self.b, **self.options))

    def check(self, place):
        for rows in self.rows:
            if self.rng.integers(2):  # neighbours side by side, or from anywhere
                first = int(self.rng.integers(0, self.largest - rows + 1))
                chosen, index = slice(first, first + rows), slice(first, first + rows)
            else:
                index = self.rng.permutation(self.largest)[:rows]
                chosen = gp.from_numpy(index.astype("int32"))
            part = bits(self.form.multiply(rows_of(self.a, self.largest, chosen), self.b, **self.options))
            assert np.array_equal(part, self.whole[index]), f"{self.where}: {rows} rows on {place}"


@contextlib.contextmanager
def partitions(kind):
    """Sessions on 32 multiprocessors and on those that are left, 100 of an H200."""
    if kind == "cpu":
        _core._set_host_sms(132)
    manager = runtime.PartitionManager(device=kind)
    try:
        total = gp.get_device_info().multiprocessor_count if kind == "cuda" else 132
        manager.create_partition("small", "small", runtime.PartitionLimits().compute(min(0.5, 32 / total)))
        manager.create_partition("large", "large", runtime.PartitionLimits())
        yield {name: manager.session(name) for name in ("small", "large")}
    finally:
        gp.synchronize()
        manager.clear()
        if kind == "cpu":
            _core._set_host_sms(0)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_do_not_depend_on_their_batch(device, name):
    rng = np.random.default_rng(list(FORMATS).index(name))
    largest = LARGEST[device.kind]
    known = [rows for rows in ROWS if rows <= largest]
    shapes = [(*shape, known) for shape in FIXED] if device.kind == "cuda" else []
    while len(shapes) < -(-NUM_SHAPES // len(FORMATS)):
        some = sorted(int(rows) for rows in rng.choice(known, 12 if device.kind == "cuda" else 6, replace=False))
        shapes.append((int(rng.choice(OUTPUTS)), int(rng.choice(DEPTHS)), some))
    with gp.determinism("batch_invariant"):
        products = [Product(FORMATS[name], rng, largest, *shape) for shape in shapes]
        for product in products:
            product.check("the whole device")
        with partitions(device.kind) as sessions:
            for place, session in sessions.items():
                with session:
                    for product in products:
                        product.check(place)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", [name for name in FORMATS if "weights" in name])
def test_few_rows_of_layers(name, dtype):
    """Many chains of k, which clusters of 1, 2, 4 and 5 blocks share, one after the other and side by side; many
    weights; the last chain cut short; tiles of 32, 64 and 128 tokens."""
    rng = np.random.default_rng(9)
    form = FORMATS[name]
    form = Scaled(*form.a, *form.b, dtype=dtype)
    with gp.device("cuda"), gp.determinism("batch_invariant"):
        many, short = ((9000, 512), (14336, 256), (17000, 256)), ((72, 14400), (300, 320))
        for n, k in ((2000, 3584), (1040, 4096), (1040, 8192), (1040, 10240), (520, 19072), (9, 14336), *many, *short):
            Product(form, rng, 48, n, k, [1, 3, 8, 9, 16, 17, 32, 33]).check("the whole device")
        Product(form, rng, 300, 5000, 640, [1, 30, 64, 129, 300]).check("the whole device")


# What it rests on


def needs_hopper():
    if gp.get_device_info().compute_capability[0] != 9:
        pytest.skip("compares the units of sm_90")


def wide(rng, shape, low, high, dtype):
    """Rows of which each has its own range of exponents within [low, high], down to subnormal numbers."""
    rows, columns = shape
    ends = np.sort(rng.integers(low, high + 1, (2, rows, 1)), axis=0)
    ends[:, ::4] = [[[low]], [[high]]]  # every fourth row spans all of it
    exponents = rng.integers(ends[0], ends[1] + 1, (rows, columns)).astype("float64")
    values = rng.choice([-1.0, 1.0], shape) * rng.uniform(1.0, 2.0, shape) * 2.0**exponents
    return gp.from_numpy(values.astype("float32")).astype(dtype)


# n, k of bfloat16 by float8 with the unit for float8: together they take every kernel for up to 32 rows and for more.
PARTED = [
    (14336, 1024), (16384, 1024), (18944, 1152), (8192, 2048), (3584, 2048), (3712, 2048), (4096, 2176), (28672, 1024),
    (300, 1408), (9, 14336),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("n, k", PARTED)
def test_rows_in_two_parts(n, k):
    """float16 has few enough bits to hide some differences, and there are many numbers to have one."""
    form = Scaled(None, None, "fp8_e4m3", "row")
    with gp.device("cuda"), gp.determinism("batch_invariant"):
        needs_hopper()
        rows = [1, 2, 8, 9, 16, 17, 31, 32, 33, 64, 65, 100]
        product = Product(form, np.random.default_rng(n), 130, n, k, rows, out="float16", kernel="wgmma")
        product.check("the whole device")
        with partitions("cuda") as sessions:
            for place, session in sessions.items():
                with session:
                    product.check(place)


@pytest.mark.gpu
def test_two_parts_in_a_graph_and_without_memory():
    """More than 32 rows are taken apart in memory of the call; where there is none, by every block."""
    form, n, k = Scaled(None, None, "fp8_e4m3", "row"), 3584, 14336
    with gp.device("cuda"):
        needs_hopper()
        options = {"out": "float16", "kernel": "wgmma"}
        product = Product(form, np.random.default_rng(n), 100, n, k, [], **options)
        out = gp.zeros((100, n), dtype="float16")
        graph = gp.CudaGraph()
        with graph.capture():
            form.multiply(product.a, product.b, kernel="wgmma", out=out)
        graph.replay()
        graph.synchronize()
        assert np.array_equal(bits(out), product.whole)
        manager = runtime.PartitionManager(device="cuda")
        try:
            manager.create_partition("poor", "poor", runtime.PartitionLimits().memory(1 << 20))
            out = gp.zeros((100, n), dtype="float16")
            with manager.session("poor"):
                with pytest.raises(gp.OutOfMemoryError):
                    gp.empty((2 * 100 * k,), dtype="uint8")
                form.multiply(product.a, product.b, kernel="wgmma", out=out)
            assert np.array_equal(bits(out), product.whole)
        finally:
            gp.synchronize()
            manager.clear()


@pytest.mark.gpu
def test_large_layers_are_multiplied_in_two_parts():
    """Where nobody asks for a kernel; a row alone under batch_invariant only."""
    form, n, k = Scaled(None, None, "fp8_e4m3", "row"), 14080, 3456
    with gp.device("cuda"):
        needs_hopper()
        with gp.determinism("batch_invariant"):
            product = Product(form, np.random.default_rng(n), 70, n, k, [1, 2, 8, 16, 32, 33, 64], out="bfloat16")
            product.check("the whole device")
            asked = form.multiply(product.a, product.b, out_dtype="bfloat16", kernel="wgmma")
            assert np.array_equal(bits(asked), product.whole)
        product.rows.remove(1)
        product.check("the whole device, run to run")
        alone = form.multiply(rows_of(product.a, product.largest, slice(0, 1)), product.b, out_dtype="bfloat16")
        assert not np.array_equal(bits(alone), product.whole[:1])


EXPONENTS = {"tf32": (-149, 56), "bfloat16": (-133, 56), "float16": (-24, 14)}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", EXPONENTS)
def test_units_agree_on_wide_exponents(dtype):
    """wgmma and mma.sync, the tokens on either side: the same bits."""
    needs_hopper()
    stored, options = ("float32", {"precision": "tf32"}) if dtype == "tf32" else (dtype, {"out_dtype": "float32"})
    rng = np.random.default_rng(10)
    with gp.device("cuda"):
        b = wide(rng, (256, 4096), *EXPONENTS[dtype], stored)  # n = 256
        across = b.T.copy()  # the same along n
        for rows in (1, 16, 64, 256):
            a = wide(rng, (rows, 4096), *EXPONENTS[dtype], stored)
            want = bits(gp.matmul(a, b.T, kernel="mma", **options))
            assert np.isfinite(want.view("float32")).all() and want.any()
            for right in (b.T, across):
                for kernel in ("wgmma", "mma"):
                    got = bits(gp.matmul(a, right, kernel=kernel, **options))
                    assert np.array_equal(got, want), (rows, kernel, right.strides)
            for kernel in ("wgmma", "mma"):
                turned = bits(gp.matmul(b, a.T, kernel=kernel, **options))
                assert np.array_equal(turned.T, want), (rows, kernel, "turned")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3"])
def test_float8_agrees_on_either_side(dtype):
    """Every finite code, subnormal ones among them: rows of any batch, at any place of a tile, on either side."""
    needs_hopper()
    rng = np.random.default_rng(11)
    largest = {"float8_e5m2": 0x7B, "float8_e4m3": 0x7E}[dtype]

    def codes(rows):
        values = rng.integers(0, largest + 1, (rows, 4096)) + 128 * rng.integers(0, 2, (rows, 4096))
        return gp.bitcast(gp.from_numpy(values.astype("uint8")), dtype)

    with gp.device("cuda"), gp.determinism("batch_invariant"):
        one = gp.ones((), dtype="float32")
        a, b = codes(300), codes(256)  # n = 256
        want = bits(gp.scaled_matmul(a, b, one, one, out_dtype="float32"))
        assert np.isfinite(want.view("float32")).all() and want.any()
        turned = bits(gp.scaled_matmul(b[:, :], a, one, one, out_dtype="float32"))
        assert np.array_equal(turned.T, want)
        for rows in (*range(1, 66), 127, 128, 129, 255, 256):
            first = int(rng.integers(0, 300 - rows + 1))
            got = bits(gp.scaled_matmul(a[first : first + rows], b, one, one, out_dtype="float32"))
            assert np.array_equal(got, want[first : first + rows]), (rows, first)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3"])
@pytest.mark.parametrize("n, k", [(264, 1040), (4608, 272)])
def test_few_rows_of_float8_have_the_bits_of_many(dtype, n, k):
    """Scales of rows and of blocks, a bias, and sums that end within a slice."""
    needs_hopper()
    rng = np.random.default_rng(12)
    largest, slices = {"float8_e5m2": 0x7B, "float8_e4m3": 0x7E}[dtype], -(-k // 128)

    def codes(rows):
        values = rng.integers(0, largest + 1, (rows, k)) + 128 * rng.integers(0, 2, (rows, k))
        return gp.bitcast(gp.from_numpy(values.astype("uint8")), dtype)

    def floats(*shape):
        return gp.from_numpy(rng.standard_normal(shape).astype("float32"))

    with gp.device("cuda"), gp.determinism("batch_invariant"):
        a, b = codes(200), codes(n)
        for out in ("float32", "float16", "bfloat16"):
            bias = (floats(n) * 1e3).astype(out)
            for scale_a, scale_b, options in (
                (floats(200, 1), floats(n, 1), {}),
                (floats(200, 1), floats(n, 1), {"bias": bias, "alpha": 0.3}),
                (floats(200, slices), floats(-(-n // 128), slices), {}),
            ):
                want = bits(gp.scaled_matmul(a, b, scale_a, scale_b, out_dtype=out, **options))
                for rows in (1, 2, 8, 16, 17, 32, 33, 64):
                    first = int(rng.integers(0, 200 - rows + 1))
                    part = slice(first, first + rows)
                    got = bits(gp.scaled_matmul(a[part], b, scale_a[part], scale_b, out_dtype=out, **options))
                    assert np.array_equal(got, want[part]), (out, rows, first, list(options))
