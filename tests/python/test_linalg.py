"""The linalg extension against NumPy in float64: random, ill-conditioned, singular, batched and empty matrices."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp

DTYPES = ("float32", "float64", "complex64", "complex128")
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}
SQUARES = [(0, 0), (1, 1), (2, 2), (5, 5), (3, 8, 8), (2, 0, 3, 3), (2, 1, 4, 4), (0, 4, 4), (13, 13)]
SHAPES = [*SQUARES, (5, 3), (3, 5), (2, 9, 4), (2, 4, 9), (1, 6), (6, 1), (0, 3), (3, 0), (2, 3, 0)]


def random(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    values = rng.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def exact(x):
    return x.astype("c16" if np.iscomplexobj(x) else "f8")


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def definite(shape, dtype):
    x = random(shape, dtype)
    return (x @ adjoint(x) + np.eye(shape[-1], dtype=dtype) * (0.5 + shape[-1])).astype(dtype)


def hermitian(shape, dtype):
    x = random(shape, dtype)
    return ((x + adjoint(x)) / 2).astype(dtype)


def with_values(m, n, values, dtype, seed=3):
    """A matrix of these singular values."""
    u, _ = np.linalg.qr(random((m, m), "c16" if dtype.startswith("complex") else "f8", seed))
    v, _ = np.linalg.qr(random((n, n), "c16" if dtype.startswith("complex") else "f8", seed + 1))
    k = len(values)
    return ((u[:, :k] * values) @ v[:, :k].T).astype(dtype)


def up(x):
    return gp.from_numpy(np.array(x))


def near(got, want, dtype, scale=1.0, factor=50):
    got = got.to_numpy() if isinstance(got, gp.GPUArray) else got
    assert got.shape == np.shape(want), (got.shape, np.shape(want))
    error = np.max(np.abs(exact(got) - want), initial=0)
    assert error <= factor * EPSILON[dtype] * scale, (error, scale)


def size(x):
    return float(np.max(np.linalg.norm(exact(x), axis=(-2, -1)), initial=0)) + 1e-300


def orthonormal(q, dtype):
    q = exact(q.to_numpy())
    near(
        adjoint(q) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])),
        dtype,
        1 + q.shape[-2] / 8,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES)
def test_cholesky(device, shape, dtype):
    x = definite(shape, dtype)
    want = np.linalg.cholesky(exact(x))
    for upper in (False, True):
        other = np.tril if upper else np.triu
        spoiled = x + other(np.full(shape, 7, dtype), -1 if upper else 1)  # the other triangle is not read
        got = gp.linalg.cholesky(up(spoiled), upper=upper)
        assert got.dtype.name == dtype
        near(got, adjoint(want) if upper else want, dtype, size(x))
    out = up(np.zeros(shape, dtype))
    assert gp.linalg.cholesky(up(x), out=out) is out
    near(out, want, dtype, size(x))
    gp.linalg.cholesky(up(x).mT, out=out.mT)
    near(out.mT, np.linalg.cholesky(np.swapaxes(exact(x), -1, -2)), dtype, size(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES)
def test_det_slogdet_inv(device, shape, dtype):
    x = random(shape, dtype) + np.eye(shape[-1], dtype=dtype)
    d = np.linalg.det(exact(x))
    condition = float(np.max(np.linalg.cond(exact(x)), initial=1)) if shape[-1] and x.size else 1.0
    scale = condition * float(np.max(np.abs(d), initial=1))
    near(gp.linalg.det(up(x)), d, dtype, scale)
    sign, logarithm = gp.linalg.slogdet(up(x))
    assert logarithm.dtype.name == ("float32" if dtype in ("float32", "complex64") else "float64")
    want = np.linalg.slogdet(exact(x))
    near(sign, want.sign, dtype, condition)
    near(logarithm, want.logabsdet, dtype, condition)
    inverse = np.linalg.inv(exact(x))
    near(gp.linalg.inv(up(x)), inverse, dtype, condition * (size(inverse) if x.size else 1))
    x = up(x)
    gp.linalg.inv(x, out=x)
    near(x, inverse, dtype, condition * (size(inverse) if inverse.size else 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4, 4), (4,)),
        ((3, 4, 4), (4,)),
        ((4, 4), (4, 2)),
        ((3, 4, 4), (4, 2)),
        ((4, 4), (3, 4, 2)),
        ((2, 1, 7, 7), (3, 7, 1)),
        ((0, 0), (0,)),
        ((3, 3), (3, 0)),
        ((0, 3, 3), (3, 2)),
        ((1, 1), (1,)),
    ],
)
def test_solve(device, left, right, dtype):
    a, b = random(left, dtype), random(right, dtype)
    want = np.linalg.solve(exact(a), exact(b))
    condition = float(np.max(np.linalg.cond(exact(a)), initial=1)) if a.size else 1.0
    got = gp.linalg.solve(up(a), up(b))
    near(got, want, dtype, condition * float(np.max(np.abs(want), initial=1)))


def test_solve_promotes_and_reads_views(device):
    a, b = random((5, 5), "float32"), random((3, 5), "float64")
    got = gp.linalg.solve(up(a).T, up(b).T)
    assert got.dtype.name == "float64"
    near(got, np.linalg.solve(exact(a).T, b.T), "float64", 1e3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(device, shape, dtype, mode):
    x = random(shape, dtype)
    made = gp.linalg.qr(up(x), mode=mode)
    q, r = made
    assert made.Q is q and made.R is r
    want = np.linalg.qr(exact(x), mode=mode)
    assert tuple(q.shape) == want.Q.shape and tuple(r.shape) == want.R.shape
    orthonormal(q, dtype)
    near(exact(q.to_numpy()) @ exact(r.to_numpy()), exact(x), dtype, size(x))
    assert not np.any(np.tril(r.to_numpy(), -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARES)
def test_eigh(device, shape, dtype):
    x = hermitian(shape, dtype)
    made = gp.linalg.eigh(up(x))
    values, vectors = made
    assert made.eigenvalues is values and made.eigenvectors is vectors
    assert values.dtype.name == ("float32" if dtype in ("float32", "complex64") else "float64")
    near(values, np.linalg.eigvalsh(exact(x)), dtype, size(x))
    near(gp.linalg.eigvalsh(up(x)), np.linalg.eigvalsh(exact(x)), dtype, size(x))
    orthonormal(vectors, dtype)
    v = exact(vectors.to_numpy())
    near((v * values.to_numpy()[..., None, :]) @ adjoint(v), exact(x), dtype, size(x))


def check_svd(x, dtype, full):
    made = gp.linalg.svd(up(x), full_matrices=full)
    u, s, vh = made
    assert made.U is u and made.S is s and made.Vh is vh
    want = np.linalg.svd(exact(x), full_matrices=full)
    assert tuple(u.shape) == want.U.shape and tuple(vh.shape) == want.Vh.shape
    near(s, want.S, dtype, size(x))
    near(gp.linalg.svdvals(up(x)), want.S, dtype, size(x))
    orthonormal(u, dtype)
    orthonormal(up(adjoint(vh.to_numpy())), dtype)
    k = s.shape[-1]
    product = (exact(u.to_numpy())[..., :k] * s.to_numpy()[..., None, :]) @ exact(vh.to_numpy())[..., :k, :]
    near(product, exact(x), dtype, size(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(device, shape, full, dtype):
    check_svd(random(shape, dtype), dtype, full)


SINGULAR_VALUES = {
    "ill conditioned": lambda eps: np.geomspace(1, eps, 7),
    "rank 3": lambda eps: np.array([3.0, 2.0, 1e-2, 0, 0, 0, 0]),
    "one value": lambda eps: np.array([5.0, 5, 5, 5, 5, 5, 5]),
    "zero": lambda eps: np.zeros(7),
    "large": lambda eps: np.array([1e30, 1e29, 1e28, 1e28, 1e27, 1e26, 0]),
    "tiny": lambda eps: np.array([1e-30, 1e-31, 1e-31, 1e-32, 1e-33, 0, 0]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", SINGULAR_VALUES)
def test_orthogonal_factors_of_hard_matrices(device, kind, dtype):
    chosen = SINGULAR_VALUES[kind](EPSILON[dtype])
    for m, n in ((7, 7), (12, 7), (7, 12)):
        x = with_values(m, n, chosen, dtype)
        u, s, vh = gp.linalg.svd(up(x))
        orthonormal(u, dtype)
        orthonormal(up(adjoint(vh.to_numpy())), dtype)
        near(s, np.linalg.svd(exact(x))[1], dtype, size(x))
        product = (exact(u.to_numpy())[:, :7] * exact(s.to_numpy())) @ exact(vh.to_numpy())[:7]
        near(product, exact(x), dtype, size(x))
        q, r = gp.linalg.qr(up(x))
        orthonormal(q, dtype)
        near(exact(q.to_numpy()) @ exact(r.to_numpy()), exact(x), dtype, size(x))
    x = with_values(7, 7, np.sqrt(chosen) if kind != "tiny" else chosen, dtype)
    x = (x + adjoint(x)).astype(dtype)
    values, vectors = gp.linalg.eigh(up(x))
    orthonormal(vectors, dtype)
    near(values, np.linalg.eigvalsh(exact(x)), dtype, size(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_has_no_answer_is_nan_and_nothing_beside_it(device, dtype):
    good = definite((4, 4), dtype)
    indefinite, singular, nan = good.copy(), good.copy(), good.copy()
    indefinite[2, 2] = -1
    singular[3] = 0
    nan[3, 1] = np.nan
    both = up(np.stack([good, indefinite, nan]))
    got = gp.linalg.cholesky(both).to_numpy()
    near(got[0], np.linalg.cholesky(exact(good)), dtype, size(good))
    assert np.isnan(got[1:]).all()
    both = up(np.stack([good, singular, nan]))
    for got in (gp.linalg.inv(both), gp.linalg.solve(both, up(np.ones((4, 2), dtype)))):
        values = got.to_numpy()
        assert np.isfinite(values[0]).all() and np.isnan(values[1]).all() and np.isnan(values[2]).all()
    got = gp.linalg.det(both).to_numpy()
    assert got[1] == 0 and np.isnan(got[2])
    sign, logarithm = gp.linalg.slogdet(both)
    assert sign.to_numpy()[1] == 0 and logarithm.to_numpy()[1] == -np.inf and np.isnan(logarithm.to_numpy()[2])
    for bad in (np.nan, np.inf):
        nan[3, 1] = bad
        both = up(np.stack([good, nan]))
        rotation, triangle = gp.linalg.qr(both)
        for made in ((rotation, triangle), gp.linalg.eigh(both), gp.linalg.svd(both)):
            for part in made:
                sound, lost = part.to_numpy()
                assert np.isfinite(sound).all()
                unknown = np.triu(np.ones_like(lost)) == 1 if part is triangle else True
                np.testing.assert_array_equal(np.isnan(lost), unknown)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rank_and_pseudo_inverse(device, dtype):
    for m, n in ((7, 7), (9, 7), (7, 9)):
        for rank in (0, 1, 3, 7):
            x = with_values(m, n, np.array([2.0, 1.5, 1, 0.9, 0.8, 0.7, 0.6])[:rank], dtype)
            assert gp.linalg.matrix_rank(up(x)).item() == rank
            near(gp.linalg.pinv(up(x), rtol=1e-3), np.linalg.pinv(exact(x), rcond=1e-3), dtype, 10)
    x = np.stack([np.diag([4.0, 2.0, 1.0]), np.diag([4.0, 0.1, 0.1])]).astype(dtype)
    got = gp.linalg.matrix_rank(up(x), rtol=0.3)
    assert got.dtype.name == "int64" and got.to_numpy().tolist() == [2, 1]
    limits = up(np.array([0.6, 0.01], "float32" if dtype in ("float32", "complex64") else "float64"))
    assert gp.linalg.matrix_rank(up(x), rtol=limits).to_numpy().tolist() == [1, 3]
    near(gp.linalg.pinv(up(x), rtol=limits)[0], np.diag([0.25, 0, 0]), dtype)
    for shape in ((0, 3), (3, 0), (0, 3, 3), (2, 0, 0)):
        empty = np.zeros(shape, dtype)
        assert gp.linalg.matrix_rank(up(empty)).to_numpy().tolist() == [0] * (shape[0] if len(shape) == 3 else 0) or (
            len(shape) == 2 and gp.linalg.matrix_rank(up(empty)).item() == 0
        )
        assert tuple(gp.linalg.pinv(up(empty)).shape) == (*shape[:-2], shape[-1], shape[-2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 7, 8])
def test_matrix_power(device, n, dtype):
    x = random((2, 4, 4), dtype) + 3 * np.eye(4, dtype=dtype)
    want = np.linalg.matrix_power(exact(x), n)
    near(gp.linalg.matrix_power(up(x), n), want, dtype, 20 * size(want))
    given = up(x)
    assert gp.linalg.matrix_power(given, n, out=given) is given
    near(given, want, dtype, 20 * size(want))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norm(device, ord, keepdims, dtype):
    for shape in ((3, 4), (2, 5, 3), (1, 1), (2, 2, 2, 2)):
        x = random(shape, dtype)
        got = gp.linalg.matrix_norm(up(x), ord=ord, keepdims=keepdims)
        assert got.dtype.name == ("float32" if dtype in ("float32", "complex64") else "float64")
        near(got, np.linalg.matrix_norm(exact(x), ord=ord, keepdims=keepdims), dtype, size(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (-1, 1)])
def test_vector_norm(device, axis, ord, dtype):
    x = random((3, 4, 5), dtype)
    x[0, 0, 0] = 0 if ord >= 0 else x[0, 0, 0]
    for keepdims in (False, True):
        got = gp.linalg.vector_norm(up(x), axis=axis, keepdims=keepdims, ord=ord)
        want = np.linalg.vector_norm(exact(x), axis=axis, keepdims=keepdims, ord=ord)
        near(got, want, dtype, 10 * float(np.max(np.abs(want))))


def test_products_and_diagonals_of_the_extension(device):
    x = random((2, 3, 4), "float64")
    np.testing.assert_array_equal(gp.linalg.diagonal(up(x), offset=1).to_numpy(), np.linalg.diagonal(x, offset=1))
    near(gp.linalg.trace(up(x), offset=-1), np.linalg.trace(x, offset=-1), "float64")
    assert gp.linalg.trace(up(x), dtype=gp.float32).dtype.name == "float32"
    for name in ("cross", "matmul", "matrix_transpose", "outer", "tensordot", "vecdot"):
        assert getattr(gp.linalg, name) is getattr(gp, name)
    assert len(gp.linalg.__all__) == 23 and all(hasattr(gp.linalg, name) for name in gp.linalg.__all__)


def test_a_matrix_does_not_depend_on_its_batch(device):
    x = hermitian((5, 6, 6), "float32")
    calls = [
        lambda a: gp.linalg.eigh(a)[1],
        lambda a: gp.linalg.svd(a)[0],
        lambda a: gp.linalg.qr(a)[0],
        gp.linalg.inv,
        gp.linalg.det,
    ]
    for call in calls:
        whole = call(up(x)).to_numpy()
        assert call(up(x[3])).to_numpy().tobytes() == whole[3].tobytes()
        assert call(up(x)).to_numpy().tobytes() == whole.tobytes()


CAPTURED = {
    "cholesky": lambda x, right, out: gp.linalg.cholesky(x, out=out),
    "det": lambda x, right, out: gp.linalg.det(x, out=out),
    "inv": lambda x, right, out: gp.linalg.inv(x, out=out),
    "solve": lambda x, right, out: gp.linalg.solve(x, right, out=out),
    "eigvalsh": lambda x, right, out: gp.linalg.eigvalsh(x, out=out),
    "svdvals": lambda x, right, out: gp.linalg.svdvals(x.mT, out=out),
}


def check_replays(call, base):
    """A replay on other values is an eager call on them."""
    right = up(np.ones((base.shape[-1], 2), "float32"))
    x, other = up(base), up(base * np.float32(1.5))
    first = call(x, right, None)
    out = gp.zeros(first.shape, dtype="float32")
    graph = gp.CudaGraph()
    with graph.capture():
        assert call(x, right, out) is out
    for values in (x, other):
        gp.copy_to(up(values.to_numpy()), x)
        graph.replay()
        assert out.to_numpy().tobytes() == call(x, right, None).to_numpy().tobytes()
    assert out.to_numpy().tobytes() != first.to_numpy().tobytes()


@pytest.mark.parametrize("name", CAPTURED)
def test_replays_are_eager_calls(device, name):
    check_replays(CAPTURED[name], definite((2, 4, 4), "float32"))


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_larger_matrices(device, dtype):
    n = 58 if str(device).startswith("cuda") else 150  # more than shared memory holds
    x, h = random((n, n), dtype), hermitian((n, n), dtype)
    near(gp.linalg.solve(up(x), up(x)), np.eye(n), dtype, float(np.linalg.cond(exact(x))))
    values, vectors = gp.linalg.eigh(up(h))
    orthonormal(vectors, dtype)
    near(values, np.linalg.eigvalsh(exact(h)), dtype, size(h))
    u, s, vh = gp.linalg.svd(up(x))
    orthonormal(u, dtype)
    near(exact(u.to_numpy() * s.to_numpy()) @ exact(vh.to_numpy()), exact(x), dtype, size(x))


def test_errors_name_the_argument(device):
    square, flat, wide = (gp.zeros(s, dtype="float32") for s in ((3, 3), (3,), (2, 3)))
    integers = gp.zeros((3, 3), dtype="int32")
    for name in ("cholesky", "det", "slogdet", "inv", "eigh", "eigvalsh"):
        with pytest.raises(gp.ShapeError, match=f"{name}: x must be square"):
            getattr(gp.linalg, name)(wide)
    for name in ("qr", "svd", "svdvals", "matrix_norm"):
        with pytest.raises(gp.ShapeError, match=f"{name}: x must have at least 2 dimensions"):
            getattr(gp.linalg, name)(flat)
    for name in ("cholesky", "det", "inv", "eigh", "qr", "svd", "svdvals", "matrix_norm", "vector_norm"):
        with pytest.raises(gp.DTypeError, match=f"{name}: x must have dtype float32"):
            getattr(gp.linalg, name)(integers)
        with pytest.raises(gp.DTypeError):
            getattr(gp.linalg, name)(square.astype("float16"))
    with pytest.raises(gp.ShapeError, match="solve: x2 must have 3 rows"):
        gp.linalg.solve(square, gp.zeros((2, 3), dtype="float32"))
    with pytest.raises(gp.ShapeError):
        gp.linalg.solve(gp.zeros((2, 3, 3), dtype="float32"), gp.zeros((3, 3, 1), dtype="float32"))
    with pytest.raises(ValueError, match="mode must be reduced or complete"):
        gp.linalg.qr(square, mode="r")
    for ord in (3, "x", 0):
        with pytest.raises(ValueError, match="matrix_norm: ord must be"):
            gp.linalg.matrix_norm(square, ord=ord)
    with pytest.raises(gp.ShapeError):
        gp.linalg.inv(square, out=gp.zeros((3, 4), dtype="float32"))
    with pytest.raises(TypeError):
        gp.linalg.inv(np.eye(3))
