"""Factorisations by blocks against NumPy in float64: sizes around the edges of blocks, hard matrices, what has no answer."""

from __future__ import annotations

import numpy as np
import pytest
from test_linalg import (
    CAPTURED,
    DTYPES,
    EPSILON,
    adjoint,
    check_replays,
    check_svd,
    definite,
    exact,
    near,
    orthonormal,
    random,
    size,
    up,
    with_values,
)

import pygpukit as gp

# 64 is not factored by blocks; blocks have 32 to 128 columns, chunks of sums 256 rows.
SIZES = (64, 65, 127, 128, 129, 257, 515)


def backward(error, dtype, n, scale):
    """Within the error of a factorisation in that precision."""
    error = float(np.linalg.norm(error))
    assert error <= 8 * n * EPSILON[dtype] * scale, (error / scale / EPSILON[dtype], n)


def check_cholesky(x, dtype, upper=False):
    n = x.shape[-1]
    other = np.tril if upper else np.triu
    spoiled = x + other(np.full(x.shape, np.nan, dtype), -1 if upper else 1)  # the other triangle is not read
    factor = exact(gp.linalg.cholesky(up(spoiled), upper=upper).to_numpy())
    assert not np.any(other(factor, -1 if upper else 1))
    backward((adjoint(factor) @ factor if upper else factor @ adjoint(factor)) - exact(x), dtype, n, size(x))


def check_solve(a, b, dtype):
    got = exact(gp.linalg.solve(up(a), up(b)).to_numpy())
    assert got.shape == b.shape
    scale = np.linalg.norm(exact(a), 2) * np.linalg.norm(got) + np.linalg.norm(exact(b))
    backward(exact(a) @ got - exact(b), dtype, a.shape[-1], scale)


def check_qr(x, dtype, mode="reduced"):
    q, r = gp.linalg.qr(up(x), mode=mode)
    want = np.linalg.qr(np.zeros(x.shape), mode=mode)
    assert tuple(q.shape) == want.Q.shape and tuple(r.shape) == want.R.shape
    orthonormal(q, dtype)
    assert not np.any(np.tril(r.to_numpy(), -1))
    backward(exact(q.to_numpy()) @ exact(r.to_numpy()) - exact(x), dtype, max(x.shape), size(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_of_random_matrices(device, n, dtype):
    x = definite((n, n), dtype)
    check_cholesky(x, dtype)
    check_cholesky(x, dtype, upper=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_systems_of_random_matrices(device, n, dtype):
    a = random((n, n), dtype)
    check_solve(a, random((n, 1), dtype), dtype)
    check_solve(a, random((n, 70), dtype), dtype)
    vector = random((n,), dtype)
    got = gp.linalg.solve(up(a), up(vector)).to_numpy()
    assert got.tobytes() == gp.linalg.solve(up(a), up(vector[:, None])).to_numpy().tobytes()
    inverse = exact(gp.linalg.inv(up(a)).to_numpy())
    near(exact(a) @ inverse, np.eye(n), dtype, float(np.linalg.cond(exact(a))))
    sign, logarithm = gp.linalg.slogdet(up(a))
    want = np.linalg.slogdet(exact(a))
    near(sign, want.sign, dtype, n * 4)
    near(logarithm, want.logabsdet, dtype, n * 4)
    # Of a range that no element of the product leaves.
    a = (a / np.sqrt(n)).astype(dtype) + np.eye(n, dtype=dtype)
    want = np.linalg.det(exact(a))
    near(gp.linalg.det(up(a)), want, dtype, n * 4 * abs(want))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize(
    "shape",
    [(64, 65), (65, 64), (127, 127), (128, 129), (300, 40), (40, 300), (257, 130), (5000, 1), (1, 5000), (1030, 5)],
)
def test_qr_of_random_matrices(device, shape, mode, dtype):
    if mode == "complete" and shape[0] > 1000:
        shape = (400, shape[1])
    check_qr(random(shape, dtype), dtype, mode)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (2, 140, 30), (2, 30, 140), (900, 5)])
def test_svd_of_tall_and_wide_matrices(device, shape, full, dtype):
    check_svd(random(shape, dtype), dtype, full)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_svd_of_tall_matrices_without_full_rank(device, dtype):
    for x in (with_values(210, 20, np.append([3.0, 2.0, 1e-3], np.zeros(17)), dtype), np.zeros((210, 20), dtype)):
        check_svd(x, dtype, True)
        check_svd(adjoint(x), dtype, False)
    good = random((210, 20), dtype)
    bad = good.copy()
    bad[7, 3] = np.nan
    for both in (np.stack([good, bad]), np.stack([adjoint(good), adjoint(bad)])):
        for part in (*gp.linalg.svd(up(both)), gp.linalg.svdvals(up(both))):
            assert np.isfinite(part.to_numpy()[0]).all() and np.isnan(part.to_numpy()[1]).all()
    whole = gp.linalg.svd(up(np.stack([bad, good])), full_matrices=False)
    alone = gp.linalg.svd(up(good), full_matrices=False)
    for one, two in zip(alone, whole, strict=True):
        assert one.to_numpy().tobytes() == two.to_numpy()[1].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_matrices(device, dtype):
    n = 97
    single = dtype in ("float32", "complex64")
    chosen = {
        "ill conditioned": np.geomspace(1, 1e-4 if single else 1e-10, n),
        "nearly singular": np.append(np.ones(n - 1), 16 * EPSILON[dtype]),
        "large": np.geomspace(1e15, 1e12, n),
        "small": np.geomspace(1e-12, 1e-15, n),
    }
    for values in chosen.values():
        x = with_values(n, n, values, dtype)
        check_solve(x, random((n, 3), dtype), dtype)
        check_qr(x, dtype)
    check_qr(with_values(n, n, np.append(np.ones(20), np.zeros(n - 20)), dtype), dtype)
    check_qr(np.zeros((n, n), dtype), dtype)
    graded = (random((n, n), dtype) * np.geomspace(1, 1e-8, n)[:, None]).astype(dtype)
    check_qr(graded, dtype)
    check_solve(graded, random((n, 3), dtype), dtype)
    u, _ = np.linalg.qr(random((n, n), "c16" if dtype.startswith("complex") else "f8"))
    spectrum = np.geomspace(1, 1e-4 if single else 1e-10, n)
    check_cholesky(((u * spectrum) @ adjoint(u)).astype(dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_has_no_answer_is_nan_and_nothing_beside_it(device, dtype):
    n = 100
    good = definite((n, n), dtype)
    for at in (0, 40, 63, 64, n - 1):
        indefinite, singular, nan = good.copy(), random((n, n), dtype), good.copy()
        indefinite[at, at] = -1
        singular[:, at] = 0
        nan[at, 0] = np.nan
        got = gp.linalg.cholesky(up(np.stack([good, indefinite, nan]))).to_numpy()
        assert np.isfinite(got[0]).all() and np.isnan(got[1:]).all()
        both = up(np.stack([good, singular, nan]))
        for got in (gp.linalg.inv(both), gp.linalg.solve(both, up(np.ones((n, 2), dtype)))):
            values = got.to_numpy()
            assert np.isfinite(values[0]).all() and np.isnan(values[1]).all() and np.isnan(values[2]).all()
        got = gp.linalg.det(both).to_numpy()
        assert got[1] == 0 and not np.isfinite(got[2])
        sign, logarithm = gp.linalg.slogdet(both)
        assert sign.to_numpy()[1] == 0 and logarithm.to_numpy()[1] == -np.inf and np.isnan(logarithm.to_numpy()[2])
    for bad in (np.nan, np.inf):
        nan[3, 1] = bad
        q, r = (part.to_numpy() for part in gp.linalg.qr(up(np.stack([good, nan]))))
        assert np.isfinite(q[0]).all() and np.isfinite(r[0]).all() and np.isnan(q[1]).all()
        below = np.tri(n, k=-1, dtype=bool)
        assert (r[:, below] == 0).all() and np.isnan(r[1, ~below]).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_matrix_does_not_depend_on_its_batch(device, dtype):
    n = 130
    x = definite((2, 3, n, n), dtype)
    calls = [
        gp.linalg.cholesky,
        gp.linalg.inv,
        gp.linalg.det,
        lambda a: gp.linalg.solve(a, up(np.ones((n, 2), dtype))),
        lambda a: gp.linalg.qr(a[..., :70])[0],
        lambda a: gp.linalg.qr(a[..., :70])[1],
    ]
    for call in calls:
        whole = call(up(x)).to_numpy()
        assert call(up(x[1, 2])).to_numpy().tobytes() == whole[1, 2].tobytes()
        assert call(up(x)).to_numpy().tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_have_the_same_bits_on_both_devices(device, dtype):
    n = 90
    x = definite((n, n), dtype)
    calls = [gp.linalg.cholesky, gp.linalg.inv, gp.linalg.det, lambda a: gp.linalg.solve(a, a[:, :3])]
    here = [call(up(x)).to_numpy().tobytes() for call in calls]
    with gp.device("cpu"):
        assert [call(up(x)).to_numpy().tobytes() for call in calls] == here


def test_threads_do_not_change_bits():
    with gp.device("cpu"):
        x = up(random((300, 300), "float32"))

        def results():
            return [gp.linalg.inv(x).to_numpy().tobytes(), *(part.to_numpy().tobytes() for part in gp.linalg.qr(x))]

        before = gp.num_threads()
        try:
            gp.set_num_threads(1)
            alone = results()
            gp.set_num_threads(3)
            assert results() == alone
        finally:
            gp.set_num_threads(before)


def test_views_and_outputs_of_any_layout(device):
    n = 80
    x, b = definite((n, n), "float64"), random((n, 4), "float64")
    for out in (up(np.zeros((n, n))).mT, up(np.zeros((n, 2 * n)))[:, ::2]):
        assert gp.linalg.cholesky(up(x), out=out) is out
        near(out, np.linalg.cholesky(x), "float64", size(x))
    given = up(x)
    assert gp.linalg.inv(given, out=given) is given
    near(given, np.linalg.inv(x), "float64", 1)
    wide = up(np.repeat(x, 2, axis=1))[:, ::2]
    near(gp.linalg.solve(wide.mT, up(b)), np.linalg.solve(wide.to_numpy().T, b), "float64", 1e3)
    stacked = np.stack([b, 2 * b])
    near(gp.linalg.solve(up(x), up(stacked)), np.linalg.solve(x, stacked), "float64", 10)
    assert gp.linalg.solve(up(x), up(np.zeros((n, 0)))).shape == (n, 0)
    assert gp.linalg.cholesky(up(np.zeros((0, n, n)))).shape == (0, n, n)
    assert gp.linalg.qr(up(np.zeros((0, n, n)))).Q.shape == (0, n, n)


@pytest.mark.parametrize("name", ["cholesky", "det", "inv", "solve"])
def test_replays_are_eager_calls(device, name):
    n = 66
    check_replays(CAPTURED[name], definite((2, n, n), "float32") / np.float32(n))


def test_replays_of_tall_singular_values_are_eager_calls(device):
    check_replays(lambda x, right, out: gp.linalg.svdvals(x, out=out), random((2, 70, 61), "float32")[..., :30])
