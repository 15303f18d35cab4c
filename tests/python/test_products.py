"""Products beside matmul against NumPy: einsum, over axes, of vectors, along diagonals."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import COMPLEX, INTEGERS, download, normal, upload

import pygpukit as gp

DTYPES = ("bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", *COMPLEX)
# Of a sum's magnitude, for sums of some dozens of products.
TOLERANCE = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 1e-5,
    "float64": 1e-13,
    "complex64": 1e-5,
    "complex128": 1e-13,
}


def close(actual, expected, dtype, magnitude=None):
    expected = np.asarray(expected)
    assert actual.dtype.name == dtype and tuple(actual.shape) == expected.shape
    if dtype not in TOLERANCE:
        np.testing.assert_array_equal(download(actual), expected.astype(dtype))
        return
    scale = np.max(np.abs(expected), initial=1.0) if magnitude is None else np.maximum(magnitude, 1e-30)
    error = np.abs(download(actual) - expected) / scale
    assert np.max(error, initial=0) <= TOLERANCE[dtype], (np.max(error), dtype)


def lay_out(values, dtype, rng):
    """The values in some layout."""
    if values.ndim < 2 or rng.random() < 0.5:
        return upload(values, dtype)
    order = rng.permutation(values.ndim)
    return gp.permute_dims(upload(values.transpose(order), dtype), tuple(int(i) for i in np.argsort(order)))


def random_expression(rng):
    letters = list("abcdefgXYZ")[: rng.integers(2, 9)]
    sizes = {c: int(rng.choice([0, 1, 2, 3, 5], p=[0.02, 0.13, 0.35, 0.35, 0.15])) for c in letters}
    dotted = [int(n) for n in rng.integers(1, 4, rng.integers(0, 3))]
    terms, shapes, dots = [], [], bool(rng.random() < 0.4)
    for _ in range(rng.integers(1, 6)):
        labels = list(rng.choice(letters, rng.integers(0, 4)))  # repeated ones are diagonals
        shape = [sizes[c] for c in labels]
        if dots and rng.random() < 0.7:
            at = int(rng.integers(0, len(labels) + 1))
            own = [1 if rng.random() < 0.2 else n for n in dotted[rng.integers(0, len(dotted) + 1) :]]
            labels.insert(at, "...")
            shape[at:at] = own
        terms.append("".join(labels))
        shapes.append(tuple(shape))
    text = ",".join(terms)
    used = sorted({c for term in terms for c in term.replace(".", "")})
    if rng.random() < 0.7:
        out = list(rng.permutation([c for c in used if rng.random() < 0.5]))
        if "..." in text:
            out.insert(int(rng.integers(0, len(out) + 1)), "...")
        text += "->" + "".join(out)
    return text, shapes


def test_random_expressions(device):
    rng = np.random.default_rng(29)
    for _ in range(500):
        text, shapes = random_expression(rng)
        dtype = str(rng.choice(["float64", "float32", "complex128", "int32"]))
        values = [normal(rng, shape, dtype) for shape in shapes]
        if dtype == "int32":
            values = [v % 5 for v in values]
        expected = np.einsum(text, *values, optimize=False)
        if np.ndim(expected) > 8:
            continue
        magnitude = np.einsum(text, *map(np.abs, values), optimize=False)
        close(gp.einsum(text, *[lay_out(v, dtype, rng) for v in values]), expected, dtype, magnitude)


def test_einsum_of_many_operands(device, rng):
    """A chain of 14 is contracted two by two first; any order of its own would take 3^15 steps."""
    chain = [rng.normal(size=(3, 3)) for _ in range(14)]
    letters = "abcdefghijklmno"
    text = ",".join(letters[i : i + 2] for i in range(14)) + "->ao"
    expected = np.linalg.multi_dot(chain)
    close(gp.einsum(text, *[gp.asarray(x) for x in chain]), expected, "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_einsum_dtypes(dtype, device, rng):
    a, b = normal(rng, (7, 5), dtype), normal(rng, (5, 9), dtype)
    wide = a.astype(object) @ b.astype(object) if dtype in INTEGERS else a @ b
    if dtype in INTEGERS:
        wide = np.array([int(v) & (2**64 - 1) for v in wide.ravel()], "uint64").reshape(7, 9)
    close(gp.einsum("ij,jk", upload(a, dtype), upload(b, dtype)), wide, dtype)
    with np.errstate(over="ignore"):
        diagonal_sum = a[:5].trace() if dtype != "bool" else np.diagonal(a[:5]).any()
    if dtype not in INTEGERS:
        close(gp.einsum("ii", upload(a[:5], dtype)), diagonal_sum, dtype)


def test_einsum_promotes_and_writes_out(device, rng):
    a, b = normal(rng, (4, 3), "float32"), rng.integers(0, 9, (3, 4)).astype("int16")
    close(gp.einsum("ij,jk->ki", gp.asarray(a.astype("f4")), gp.asarray(b)), (a @ b).T, "float32")
    x = gp.asarray(rng.normal(size=(4, 4)))
    expected = np.einsum("ij,jk->ki", x.to_numpy(), x.to_numpy())
    assert gp.einsum("ij,jk->ki", x, x, out=x) is x  # over its own operand
    close(x, expected, "float64")
    copied = gp.einsum("ij->ji", x)
    copied += 1
    close(x, expected, "float64")


@pytest.mark.parametrize(
    "text, shapes, needed",
    [
        ("ij,jk", [(2, 3)], "name 1 operands"),
        ("ij", [(2, 3), (2, 3)], "name 2 operands"),
        ("ij->ik", [(2, 3)], "labels of an operand in the output"),
        ("ij->ii", [(2, 2)], "each label once in the output"),
        ("i1", [(2, 2)], "letters"),
        ("i.j", [(2, 2, 2)], "letters"),
        ("...i->i", [(2, 3)], "'...' in the output"),
        ("ijk", [(2, 3)], "3 dimensions"),
        ("i", [(2, 3)], "1 dimensions"),
        ("ii", [(2, 3)], "sizes 2 and 3"),
        ("ij,jk", [(2, 3), (4, 2)], "got 3 and 4 for 'j'"),
        ("...,...", [(2,), (3,)], "got 2 and 3 in '...'"),
        ("ij->->", [(2, 3)], "letters"),
    ],
)
def test_einsum_refuses(text, shapes, needed, device):
    with pytest.raises(ValueError) as caught:
        gp.einsum(text, *[gp.zeros(shape) for shape in shapes])
    assert needed in str(caught.value) and "einsum" in str(caught.value)


@pytest.mark.parametrize("dtype", ("int32", "float32", "float64", "complex64"))
def test_tensordot(dtype, device, rng):
    a, b = normal(rng, (3, 4, 5), dtype), normal(rng, (4, 5, 2), dtype)
    given = lay_out(a, dtype, rng), lay_out(b, dtype, rng)
    close(gp.tensordot(*given), np.tensordot(a, b), dtype)
    for axes in [((1,), (0,)), ([2, 1], [1, 0]), ((-1, 1), (-2, 0)), ((), ()), (1, 0)]:
        if axes == ((), ()):
            continue
        close(gp.tensordot(*given, axes=axes), np.tensordot(a, b, axes=axes), dtype)
    close(gp.tensordot(*given, axes=0), np.tensordot(a, b, axes=0), dtype)
    assert gp.tensordot(gp.zeros((3, 0)), gp.zeros((0, 2)), axes=1).tolist() == [[0, 0]] * 3
    for axes in (3, -1, ((0,), (0, 1)), ((0,), (0,)), ((1, 1), (0, 0)), ((1,),)):
        with pytest.raises(ValueError, match="tensordot"):
            gp.tensordot(*given, axes=axes)


@pytest.mark.parametrize("dtype", ("int8", "float32", "float64", "complex64", "complex128"))
def test_vecdot(dtype, device, rng):
    a, b = normal(rng, (3, 1, 5), dtype), normal(rng, (4, 5), dtype)
    close(gp.vecdot(upload(a, dtype), upload(b, dtype)), np.sum(a.conj() * b, -1, dtype=a.dtype), dtype)
    moved = gp.moveaxis(upload(a, dtype), 2, 1), upload(b.T, dtype)
    close(gp.vecdot(*moved, axis=-2), np.sum(a.conj() * b, -1, dtype=a.dtype), dtype)
    with pytest.raises(ValueError, match="equal lengths"):
        gp.vecdot(upload(a, dtype), upload(b[:, :1], dtype))
    with pytest.raises(ValueError, match="negative"):
        gp.vecdot(upload(a, dtype), upload(b, dtype), axis=1)


@pytest.mark.parametrize("dtype", ("int32", "float32", "complex128"))
def test_cross(dtype, device, rng):
    a, b = normal(rng, (5, 1, 3), dtype), normal(rng, (4, 3), dtype)
    close(gp.cross(upload(a, dtype), upload(b, dtype)), np.cross(a, b), dtype)
    c, d = normal(rng, (3, 6), dtype), normal(rng, (3, 6), dtype)
    close(gp.cross(upload(c, dtype), upload(d, dtype), axis=0), np.cross(c, d, axis=0), dtype)
    x = upload(c, dtype)
    assert gp.cross(x, upload(d, dtype), axis=0, out=x) is x
    close(x, np.cross(c, d, axis=0), dtype)
    with pytest.raises(ValueError, match="3 elements"):
        gp.cross(upload(a, dtype), upload(d, dtype))


@pytest.mark.parametrize("dtype", ("int64", "float32", "complex64"))
def test_outer_inner_dot(dtype, device, rng):
    a, b, c = normal(rng, (3, 5), dtype), normal(rng, (2, 5), dtype), normal(rng, (4, 5, 2), dtype)
    x, y, z = (upload(v, dtype) for v in (a, b, c))
    close(gp.outer(x, y), np.outer(a, b), dtype)
    close(gp.inner(x, y), np.inner(a, b), dtype)
    close(gp.dot(x, z), np.dot(a, c), dtype)
    close(gp.dot(x[0], y[1]), np.dot(a[0], b[1]), dtype)
    close(gp.dot(x[0], z), np.dot(a[0], c), dtype)
    scalar = x[0, 0].reshape(())
    close(gp.dot(scalar, y), a[0, 0] * b, dtype)
    close(gp.inner(y, scalar), a[0, 0] * b, dtype)
    with pytest.raises(ValueError, match="dot: summed axes must have equal sizes, got 5 and 2"):
        gp.dot(x, y)


def test_diagonal_and_transpose_are_views(device, rng):
    a = rng.normal(size=(4, 5, 6))
    x = gp.asarray(a)
    np.testing.assert_array_equal(gp.matrix_transpose(x).to_numpy(), np.swapaxes(a, -1, -2))
    for offset in range(-7, 8):
        np.testing.assert_array_equal(gp.diagonal(x, offset).to_numpy(), np.diagonal(a, offset))
        np.testing.assert_array_equal(gp.diagonal(x, offset, 2, 1).to_numpy(), np.diagonal(a, offset, 2, 1))
    square = gp.zeros((4, 4))
    gp.diagonal(square, 1)[...] = 7
    np.testing.assert_array_equal(square.to_numpy(), np.diag([7.0] * 3, 1))
    with pytest.raises(ValueError, match="differ"):
        gp.diagonal(x, 0, 1, -2)
    for function in (gp.diagonal, gp.matrix_transpose, gp.trace):
        with pytest.raises(ValueError, match="at least 2"):
            function(gp.ones(3))


def test_trace(device, rng):
    a = rng.integers(-9, 9, (4, 5, 6)).astype("int8")
    x = gp.asarray(a)
    assert gp.trace(x).dtype == gp.int64
    np.testing.assert_array_equal(gp.trace(x, 1).to_numpy(), np.trace(a, 1))
    np.testing.assert_array_equal(gp.trace(x, -2, 1, 2, dtype="float32").to_numpy(), np.trace(a, -2, 1, 2))
    assert gp.trace(gp.zeros((0, 3))).item() == 0
