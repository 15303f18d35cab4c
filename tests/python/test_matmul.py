"""Matrix products against NumPy in float64."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import pygpukit as gp

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZES = [
    (1, 1, 1),
    (0, 3, 2),
    (2, 0, 3),
    (2, 3, 0),
    (1, 33, 1),
    (31, 1, 33),
    (65, 17, 63),
    (1, 300, 130),
    (70, 1025, 66),
]
EPSILON = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}


def make(rng, shape, dtype):
    return gp.from_numpy(rng.uniform(-1, 1, shape).astype(np.float32 if dtype != "float64" else dtype)).astype(dtype)


def exact(x):
    return x.to_numpy(dtype="float64")


def check(got, a, b, dtype):
    """Each product is rounded in float32 (float64), the result once more to its dtype."""
    a, b = exact(a), exact(b)
    terms = a.shape[-1] * (2**-53 if dtype == "float64" else 2**-24)
    bound = np.matmul(np.abs(a), np.abs(b)) * terms + np.abs(np.matmul(a, b)) * EPSILON[dtype] + 1e-300
    assert got.dtype.name == dtype
    assert got.shape == np.matmul(a, b).shape
    assert np.all(np.abs(exact(got) - np.matmul(a, b)) <= bound * 1.01)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_matches_float64(device, rng, dtype, size):
    m, k, n = size
    a, b = make(rng, (m, k), dtype), make(rng, (k, n), dtype)
    check(gp.matmul(a, b), a, b, dtype)
    check(a @ b, a, b, dtype)


@pytest.mark.parametrize(
    ("left", "right"),
    [((5,), (5,)), ((5,), (5, 3)), ((3, 5), (5,)), ((2, 3, 5), (5,)), ((5,), (2, 5, 4)), ((2, 3, 5), (2, 5, 4)),
     ((7, 1, 3, 5), (2, 5, 4)), ((3, 5), (6, 5, 4)), ((1, 3, 5), (0, 5, 4)),
     ((2, 1, 2, 1, 2, 1, 3, 5), (1, 2, 1, 2, 1, 2, 5, 4))],
)  # fmt: skip
def test_ranks(device, rng, left, right):
    a, b = make(rng, left, "float32"), make(rng, right, "float32")
    check(gp.matmul(a, b), a, b, "float32")


def test_layouts_give_the_same_bits(device, rng):
    a, b = make(rng, (67, 130), "float32"), make(rng, (130, 65), "float32")
    expected = (a @ b).to_numpy()
    columns = [x.T.contiguous().T for x in (a, b)]
    wide = gp.zeros((134, 390))
    wide[::2, 1::3] = a
    flipped = a[::-1, ::-1].contiguous()[::-1, ::-1]
    for left in (a, columns[0], wide[::2, 1::3], flipped):
        for right in (b, columns[1]):
            np.testing.assert_array_equal((left @ right).to_numpy(), expected)
    out = gp.zeros((65, 67)).T
    assert gp.matmul(a, b, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), expected)
    row = make(rng, (130,), "float32")
    np.testing.assert_array_equal((gp.broadcast_to(row, (67, 130)) @ b).to_numpy()[66], (row @ b).to_numpy())


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + ["bool", "complex64", "complex128"])
def test_same_bits_as_the_cpu(device, rng, dtype):
    host = rng.uniform(-100, 100, (65, 70))
    a = gp.from_numpy(host).astype("float32").astype(dtype) if dtype in FLOATS else gp.from_numpy(host.astype(dtype))
    # The order of the CPU; a GPU's tensor cores have their own.
    kernel = "simt" if gp.default_device().kind == "cuda" else None
    got, there = gp.matmul(a, a.T, kernel=kernel), gp.matmul(a.to("cpu"), a.to("cpu").T)
    assert got.to_numpy().tobytes() == there.to_numpy().tobytes()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(device, rng, dtype):
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, (33, 70), dtype, endpoint=True)
    b = rng.integers(info.min, info.max, (70, 31), dtype, endpoint=True)
    got = gp.matmul(gp.from_numpy(a), gp.from_numpy(b))
    assert got.dtype.name == dtype
    np.testing.assert_array_equal(got.to_numpy(), np.matmul(a, b))
    x = gp.from_numpy(a[:, :33].copy())
    x @= x
    np.testing.assert_array_equal(x.to_numpy(), np.matmul(a[:, :33], a[:, :33]))


def test_bool_and_complex(device, rng):
    a, b = rng.random((5, 7)) < 0.3, rng.random((7, 6)) < 0.3
    got = gp.matmul(gp.from_numpy(a), gp.from_numpy(b))
    assert got.dtype.name == "bool"
    np.testing.assert_array_equal(got.to_numpy(), a @ b)
    for dtype, tolerance in (("complex64", 2e-5), ("complex128", 1e-13)):
        x = (rng.standard_normal((33, 70)) + 1j * rng.standard_normal((33, 70))).astype(dtype)
        y = (rng.standard_normal((70, 5)) + 1j * rng.standard_normal((70, 5))).astype(dtype)
        np.testing.assert_allclose((gp.from_numpy(x) @ gp.from_numpy(y)).to_numpy(), x @ y, atol=tolerance * 10)


def test_dtypes_mix_and_widen(device, rng):
    h, f = make(rng, (4, 10), "float16"), make(rng, (10, 4), "float32")
    assert gp.matmul(h, f).dtype is gp.float32
    wide = gp.matmul(h, h.T, out_dtype="float32")
    assert wide.dtype is gp.float32
    np.testing.assert_array_equal(gp.matmul(h, h.T).to_numpy(), wide.to_numpy().astype(np.float16))
    i = gp.full((2, 2), 100, "int8")
    assert gp.matmul(i, i).tolist() == [[32, 32], [32, 32]]
    for wide in (gp.int32, gp.int64):
        got = gp.matmul(i, i, out_dtype=wide)
        assert got.dtype is wide and got.tolist() == [[20000, 20000], [20000, 20000]]
    with pytest.raises(TypeError, match="out_dtype"):
        gp.matmul(f, f.T, out_dtype="float16")


def test_tf32_is_for_float32(device, rng):
    a = make(rng, (3, 3), "float32")
    for options in ({}, {"use_tf32": False}, {"precision": "exact"}):
        check(gp.matmul(a, a, **options), a, a, "float32")
    tf32 = [gp.matmul(a, a, **options).to_numpy() for options in ({"use_tf32": True}, {"precision": "tf32"})]
    assert np.array_equal(*tf32)
    assert np.allclose(tf32[0], exact(a) @ exact(a), rtol=0, atol=3 * 2.0**-10)
    for dtype in ("float16", "float64", "int32"):
        with pytest.raises(RuntimeError, match="float32"):
            gp.matmul(a.astype(dtype), a.astype(dtype), use_tf32=True)
    with pytest.raises(ValueError, match="precision"):
        gp.matmul(a, a, precision="fast")
    with pytest.raises(ValueError, match="agree"):
        gp.matmul(a, a, use_tf32=True, precision="exact")


def test_out_may_be_an_input(device, rng):
    a, b = make(rng, (100, 100), "float32"), make(rng, (100, 100), "float32")
    expected = (a @ b).to_numpy()
    x, y = a.copy(), b.copy()
    gp.matmul(x, b, out=x)
    gp.matmul(a, y, out=y)
    np.testing.assert_array_equal(x.to_numpy(), expected)
    np.testing.assert_array_equal(y.to_numpy(), expected)
    a @= b
    np.testing.assert_array_equal(a.to_numpy(), expected)


def test_batched_and_transpose(device, rng):
    for shape in ((3, 5, 7), (2, 3, 5, 7)):
        a, b = make(rng, shape, "float32"), make(rng, (*shape[:-2], 7, 4), "float32")
        check(gp.batched_matmul(a, b), a, b, "float32")
        out = gp.zeros((*shape[:-1], 4))
        assert gp.batched_matmul(a, b, out=out) is out
    m = make(rng, (3, 5), "float32")
    np.testing.assert_array_equal(gp.transpose(m).to_numpy(), m.to_numpy().T)


@pytest.mark.parametrize("dtype", FLOATS)
def test_linear_bias_gelu(device, rng, dtype):
    x, w, b = make(rng, (5, 33), dtype), make(rng, (7, 33), dtype), make(rng, (7,), dtype)
    v = exact(x) @ exact(w).T + exact(b)
    expected = 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
    got = gp.linear_bias_gelu(x, w, b)
    assert got.dtype.name == dtype
    np.testing.assert_allclose(
        exact(got), expected, rtol=2 * EPSILON[dtype], atol=1e-13 if dtype == "float64" else 2e-5
    )


def test_errors(device, rng):
    z = gp.zeros
    with pytest.raises(ValueError, match="dimension"):
        gp.matmul(z((2, 3)), z((4, 5)))
    with pytest.raises(ValueError, match="2D"):
        gp.matmul(z(()), z((4, 5)))
    with pytest.raises(ValueError, match="shape"):
        gp.matmul(z((2, 3, 4)), z((3, 4, 5)))
    with pytest.raises(ValueError, match="out must have shape"):
        gp.matmul(z((2, 3)), z((3, 4)), out=z((2, 2)))
    with pytest.raises(ValueError, match="out"):
        gp.matmul(z((2, 3)), z((3, 4)), out=z((2, 4), "float64"))
    with pytest.raises(TypeError, match="float8_e4m3"):
        gp.matmul(z((2, 2), "float8_e4m3"), z((2, 2), "float8_e4m3"))
    with pytest.raises(TypeError, match="gp.from_numpy"):
        gp.matmul(np.zeros((2, 2)), z((2, 2)))
    with pytest.raises(ValueError, match="dimension"):
        gp.batched_matmul(z((2, 3)), z((3, 2)))
    with pytest.raises(ValueError, match="dimension"):
        gp.batched_matmul(z((2, 3, 4)), z((1, 4, 5)))
    with pytest.raises(ValueError, match="2D"):
        gp.transpose(z((2, 3, 4)))
    with pytest.raises(ValueError, match="bias must have shape"):
        gp.linear_bias_gelu(z((2, 3)), z((4, 3)), z((3,)))


def test_repeats_give_one_answer(device, rng):
    a, b = make(rng, (130, 257), "float32"), make(rng, (257, 65), "float32")
    expected = (a @ b).to_numpy().tobytes()
    for _ in range(50):
        assert (a @ b).to_numpy().tobytes() == expected


def turned(x):
    """The same values with the other axis dense."""
    return x.T.copy().T


THIN_AND_WIDE = [
    (16, 512, 256),
    (33, 64, 1000),
    (64, 200, 72),
    (100, 72, 520),
    (130, 1032, 264),
    (257, 136, 1160),
    (640, 72, 129),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", THIN_AND_WIDE)
def test_layouts_of_16_bit_products(device, rng, dtype, size):
    m, k, n = size
    a, b = make(rng, (m, k), dtype), make(rng, (k, n), dtype)
    for left in (a, turned(a)):
        for right in (b, turned(b)):
            check(gp.matmul(left, right), a, b, dtype)
            out = turned(gp.full((m, n), float("nan"), dtype=dtype))
            assert gp.matmul(left, right, out=out) is out
            check(out, a, b, dtype)
            wide = gp.matmul(left, right, out_dtype="float32")
            assert np.allclose(exact(wide), exact(a) @ exact(b), rtol=0, atol=k * 2e-6)


ROWS = (1, 2, 15, 16, 17, 63, 64, 65, 128, 129, 256)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(264, 328), (1000, 72), (63, 65), (4096, 8)])
def test_rows_do_not_depend_on_their_batch(device, rng, dtype, shape):
    k, n = shape
    a, b = make(rng, (300, k), dtype), make(rng, (k, n), dtype)
    with gp.determinism("batch_invariant"):
        whole = exact(gp.matmul(a, b))
        for rows in ROWS:
            assert np.array_equal(exact(gp.matmul(a[:rows], b)), whole[:rows])
            assert np.array_equal(exact(gp.matmul(a[300 - rows :], b)), whole[300 - rows :])
        assert np.array_equal(exact(gp.matmul(a[7], b)), whole[7])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", [5, 16, 20, 32])
def test_few_rows_by_many_matrices(device, rng, dtype, rows):
    """More tiles of up to 32 weights than a GPU has multiprocessors: each product is that of its own matrices alone."""
    a, w = make(rng, (150, rows, 328), dtype), make(rng, (150, 24, 328), dtype)
    b = w.transpose(0, 2, 1)
    with gp.determinism("batch_invariant"):
        got = gp.matmul(a, b)
        check(got, a, b, dtype)
        for i in (0, 77, 149):
            assert np.array_equal(exact(got[i]), exact(gp.matmul(a[i], b[i])))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "size", [(8, 8), (64, 512), (264, 328), (1000, 72), (63, 65), (1032, 2056), (264, 6152), (136, 12296)]
)
def test_a_vector_by_a_matrix(device, rng, dtype, size):
    k, n = size
    a, b = make(rng, (k,), dtype), make(rng, (k, n), dtype)
    for right in (b, turned(b)):
        check(gp.matmul(a, right), a, b, dtype)
        check(gp.matmul(right.T, a), b.T, a, dtype)
        out = gp.full((1, 2 * n), float("nan"), dtype=dtype)[:, ::2]
        gp.matmul(a[None], right, out=out)
        check(out, a[None], b, dtype)
        wide = gp.matmul(a, right, out_dtype="float32")
        assert np.allclose(exact(wide), exact(a) @ exact(b), rtol=0, atol=k * 1e-6)
        assert np.array_equal(exact(gp.matmul(a, right)), exact(gp.matmul(a, right)))


def test_determinism():
    assert gp.get_determinism() == "run_to_run"
    with gp.determinism("batch_invariant") as level:
        assert level == gp.get_determinism() == "batch_invariant"
        with gp.determinism("not_guaranteed"):
            assert gp.get_determinism() == "not_guaranteed"
        assert gp.get_determinism() == "batch_invariant"
    assert gp.get_determinism() == "run_to_run"
    with pytest.raises(ValueError, match="batch_invariant"):
        gp.determinism("exact")


@pytest.mark.parametrize("kernel", ["wgmma", "mma", "simt", "gemv", "cublaslt"])
def test_the_cpu_refuses_a_kernel_of_a_gpu_and_says_what_serves(kernel):
    a = gp.ones((4, 4), device="cpu")
    for call in (gp.matmul, gp.explain_matmul):
        with pytest.raises(NotImplementedError, match=f"kernel '{kernel}' is one of a GPU, a is on cpu.*kernel=None"):
            call(a, a, kernel=kernel)


def test_explain(device):
    a, b = gp.zeros((256, 128), dtype="bfloat16"), gp.zeros((128, 512), dtype="bfloat16")
    text = gp.explain_matmul(a, b)
    assert text.startswith(f"[256, 128] x [128, 512] of bfloat16 into bfloat16 on {a.device}: ")
    assert gp.explain_matmul(gp.zeros((0, 4)), gp.zeros((4, 3))).endswith("nothing to compute")
    with pytest.raises(ValueError, match="kernel"):
        gp.matmul(a, b, kernel="fast")
    one_by_one = "fused multiply-add for each k in ascending order"
    if device == "cpu":
        assert text.endswith(f": packed blocks, one {one_by_one}")
    else:
        assert one_by_one in gp.explain_matmul(a, b, kernel="simt")
        small = gp.zeros((64, 64), dtype="int8")
        assert gp.explain_matmul(small, small).endswith("; exact modulo 256")
        assert gp.explain_matmul(small, small, out_dtype="int32").endswith("; exact")
    with pytest.raises(ValueError, match="inner dimensions"):
        gp.explain_matmul(a, a)


@pytest.mark.gpu
def test_explain_on_hopper():
    if gp.get_device_info().compute_capability[0] != 9:
        pytest.skip("the text is that of sm_90")
    a, b = (
        gp.zeros((4096, 4096), dtype="bfloat16", device="cuda"),
        gp.zeros((4096, 4096), dtype="bfloat16", device="cuda"),
    )
    assert gp.explain_matmul(a, b) == (
        "[4096, 4096] x [4096, 4096] of bfloat16 into bfloat16 on cuda:0: wgmma 128x256x64, 4 stages, a along k, b along n, "
        "stored by box, 132 blocks; one accumulator, k ascending in steps of 16"
    )
    exact = gp.explain_matmul(a.astype("float32"), b.astype("float32"), kernel="simt")
    assert exact.endswith(
        ": CUDA cores, tiles of 128x128, a along k, b along n, 1024 blocks; "
        "one fused multiply-add for each k in ascending order"
    )
    with pytest.raises(RuntimeError, match="16 bytes"):
        gp.matmul(a[:, 1:], b[1:], kernel="wgmma")
    assert "gemv, w along its outputs" in gp.explain_matmul(a[0], b)
    assert "gemv, w along k" in gp.explain_matmul(a[0], b.T)
    with gp.determinism("batch_invariant"):
        assert ": wgmma 64x16x64, sides swapped" in gp.explain_matmul(a[0], b)
    with pytest.raises(RuntimeError, match="vector"):
        gp.matmul(a, b, kernel="gemv")
    with pytest.raises(RuntimeError, match="tf32"):
        gp.matmul(a.astype("float32"), b.astype("float32"), kernel="wgmma")
    with pytest.raises(RuntimeError, match="tf32"):
        gp.matmul(a.astype("float32"), b.astype("float32"), kernel="mma")


@pytest.mark.parametrize("size", [(64, 128, 96), (33, 72, 40), (200, 264, 136), (17, 63, 31), (1000, 100, 1036)])
def test_tf32(device, rng, size):
    """Inputs are rounded to 11 bits, sums are float32; the CPU stays exact."""
    m, k, n = size
    a, b = make(rng, (m, k), "float32"), make(rng, (k, n), "float32")
    for right in (b, turned(b)):
        got = exact(gp.matmul(a, right, use_tf32=True))
        bound = np.abs(exact(a)) @ np.abs(exact(b)) * (2.0**-10 if device == "cuda" else 2.0**-20)
        assert np.all(np.abs(got - exact(a) @ exact(b)) <= bound)
    assert np.array_equal(exact(gp.matmul(a, b)), exact(gp.matmul(a, b, precision="exact")))


@pytest.mark.parametrize("size", [(64, 128, 96), (33, 72, 40), (200, 272, 136), (17, 63, 31), (300, 1040, 520)])
def test_int8_is_exact(device, rng, size):
    m, k, n = size
    a, b = rng.integers(-128, 128, (m, k)).astype("int8"), rng.integers(-128, 128, (k, n)).astype("int8")
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    for right, out_dtype in itertools.product((y, turned(y)), ("int8", "int32")):
        got = gp.matmul(x, right, out_dtype=out_dtype)
        assert np.array_equal(got.to_numpy(), (a.astype("int32") @ b.astype("int32")).astype(out_dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_tensor_core_kernels_give_the_same_bits(rng, dtype):
    """Of all ways to compute it: sm_90's and sm_80's instructions, either operand turned, sides swapped."""
    sizes = [(8, 64, 8), (16, 4096, 64), (24, 1288, 4608), (40, 72, 18952), (64, 520, 136)]
    for m, k, n in [*sizes, (256, 1000, 264), (2048, 104, 2048)]:
        scale = gp.from_numpy((2.0 ** rng.integers(-12, 12, (1, k))).astype("float32")).astype(dtype)
        a, b = make(rng, (m, k), dtype) * scale, make(rng, (k, n), dtype)
        want = None
        for kernel in ("mma", "wgmma"):
            for left in (a, turned(a)):
                for right in (b, turned(b)):
                    if kernel == "wgmma" and gp.get_device_info().compute_capability[0] != 9:
                        continue
                    if kernel == "wgmma" and dtype == "float32" and left is not a:
                        continue  # of TF32 operands b alone may lie along n there
                    tf32 = True if dtype == "float32" else None
                    got = gp.matmul(left, right, kernel=kernel, use_tf32=tf32).to_numpy()
                    want = got if want is None else want
                    assert np.array_equal(got, want), (kernel, m, k, n)


TF32_SCRIPT = """
import pygpukit as gp

with gp.device("cuda"):
    a = gp.random.normal((64, 64), seed=1)
    options = [{}, {"use_tf32": True}, {"use_tf32": False}]
    texts = [gp.explain_matmul(a, a, **given) for given in options]
    results = [gp.matmul(a, a, **given).to_numpy().tobytes() for given in options]
    exact = gp.matmul(a, a, precision="exact", kernel="simt").to_numpy().tobytes()
print(*("exact" if "fused multiply-add" in text else "tf32" for text in texts))
print(*("exact" if result == exact else "tf32" if result == results[1] else "other" for result in results))
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("allow", "forbid", "unsaid"),
    [(None, None, "exact"), ("1", None, "tf32"), (None, "1", "exact"), ("1", "1", "exact")],
)
def test_variables_of_tf32(allow, forbid, unsaid):
    """They decide where a call says nothing."""
    wanted = {"PYGPUKIT_ALLOW_TF32": allow, "PYGPUKIT_NO_TF32": forbid}
    kept = {name: value for name, value in os.environ.items() if name not in wanted}
    env = kept | {name: value for name, value in wanted.items() if value is not None}
    run = subprocess.run([sys.executable, "-c", TF32_SCRIPT], capture_output=True, text=True, env=env, check=True)
    said, computed = run.stdout.splitlines()
    assert said.split() == computed.split() == [unsaid, "tf32", "exact"]
