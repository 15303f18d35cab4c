"""Fourier transforms against NumPy in float64."""

from __future__ import annotations

import os

import numpy as np
import pytest

import pygpukit as gp

LENGTHS = [*range(1, 66), 100, 101, 127, 128, 243, 256, 343, 400, 480, 512, 997, 1000, 1024, 2047, 2048, 2050, 4096]
LONG = [4097, 5000, 8192, 9973, 12000, 16384, 44100, 65536]
TOLERANCE = {"complex64": 3e-7, "complex128": 6e-16}


def error(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    return np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-300)


def allowed(n, dtype="complex64"):
    return TOLERANCE[dtype] * max(np.log2(n), 1)


def draw(rng, shape, dtype):
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.startswith("complex") else 0)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_every_length(device, rng, dtype):
    real = {"complex64": "float32", "complex128": "float64"}[dtype]
    for n in LENGTHS:
        x, r = draw(rng, (3, n), dtype), draw(rng, (3, n), real)
        given, reals = gp.from_numpy(x), gp.from_numpy(r)
        assert error(gp.fft.fft(given).to_numpy(), np.fft.fft(x.astype("c16"))) <= allowed(n, dtype), n
        assert error(gp.fft.ifft(given).to_numpy(), np.fft.ifft(x.astype("c16"))) <= allowed(n, dtype), n
        half = gp.fft.rfft(reals)
        assert half.dtype.name == dtype
        assert error(half.to_numpy(), np.fft.rfft(r.astype("f8"))) <= allowed(n, dtype), n
        back = gp.fft.irfft(half, n=n)
        assert back.dtype.name == real
        assert error(back.to_numpy(), r) <= 2 * allowed(n, dtype), n


def every_transform(rng, n, dtype="complex64", rows=1):
    """All transforms of one length against NumPy."""
    real = {"complex64": "float32", "complex128": "float64"}[dtype]
    limit = allowed(n, dtype)
    x, r = draw(rng, (rows, n), dtype), draw(rng, (rows, n), real)
    half = draw(rng, (rows, n // 2 + 1), dtype)
    given, reals, halves = gp.from_numpy(x), gp.from_numpy(r), gp.from_numpy(half)
    for name, array, host in (
        ("fft", given, x.astype("c16")),
        ("ifft", given, x.astype("c16")),
        ("fft", reals, r.astype("f8")),
        ("ifft", reals, r.astype("f8")),
        ("rfft", reals, r.astype("f8")),
        ("ihfft", reals, r.astype("f8")),
    ):
        got = getattr(gp.fft, name)(array)
        assert error(got.to_numpy(), getattr(np.fft, name)(host)) <= limit, (name, n)
    for name in ("irfft", "hfft"):
        got = getattr(gp.fft, name)(halves, n=n)
        assert error(got.to_numpy(), getattr(np.fft, name)(half.astype("c16"), n=n)) <= limit, (name, n)


def test_all_transforms_of_every_length(rng):
    """The emulated GPU and the real one have their own below; this is the CPU, all of it."""
    with gp.device("cpu"):
        for n in range(1, 2051):
            every_transform(rng, n)
        for n in range(1, 300):
            every_transform(rng, n, "complex128", rows=2)


def test_all_transforms_of_random_lengths(device, rng):
    """PYGPUKIT_FUZZ is how many, up to 10^7; a few short ones by default."""
    count = os.environ.get("PYGPUKIT_FUZZ")
    lengths = 10 ** rng.uniform(1, 7, int(count)) if count else 10 ** rng.uniform(1, 4.2, 6)
    for n in lengths.astype(int):
        every_transform(rng, int(n))


@pytest.mark.parametrize("n", [2, 4, 6, 10, 22, 30, 8192, 16384, 16386])
def test_pairs_of_reals(device, rng, n):
    """Even lengths of each kind: cut, padded, along other axes, whole spectra, both precisions."""
    every_transform(rng, n, "complex64", rows=2)
    if n < 16384:
        every_transform(rng, n, "complex128", rows=2)
    x = draw(rng, (3, n + 5, 2), "float32")
    for length in (n, 2 * n) if n < 16384 else (n,):
        got = gp.fft.rfft(gp.from_numpy(x), n=length, axis=1)
        assert error(got.to_numpy(), np.fft.rfft(x.astype("f8"), n=length, axis=1)) <= allowed(length)
        back = gp.fft.irfft(got, n=length, axis=1).to_numpy()
        padded = np.zeros((3, length, 2))
        padded[:, : min(length, n + 5)] = x[:, :length]
        assert error(back, padded) <= 2 * allowed(length)


@pytest.mark.parametrize("n", LONG)
def test_long(device, rng, n):
    x = draw(rng, (2, n), "complex64")
    assert error(gp.fft.fft(gp.from_numpy(x)).to_numpy(), np.fft.fft(x.astype("c16"))) <= allowed(n)
    r = draw(rng, (2, n), "float32")
    spectrum = np.fft.rfft(r.astype("f8"))
    assert error(gp.fft.rfft(gp.from_numpy(r)).to_numpy(), spectrum) <= allowed(n)
    assert error(gp.fft.irfft(gp.from_numpy(spectrum.astype("c8")), n=n).to_numpy(), r) <= allowed(n)


@pytest.mark.gpu
def test_random_lengths_on_the_gpu(rng):
    with gp.device("cuda"):
        for n in [*range(1, 2051), *(int(v) for v in 10 ** rng.uniform(2, 7, 60))]:
            every_transform(rng, n)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 9, 40, 121])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_norms_and_lengths(device, rng, name, n, norm):
    dtype = "float64" if name in ("rfft", "ihfft") else "complex128"
    for axis in (0, 1, -1):
        x = draw(rng, (12, 33, 5), dtype)
        got = getattr(gp.fft, name)(gp.from_numpy(x), n=n, axis=axis, norm=norm)
        want = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
        assert error(got.to_numpy(), want) < 1e-14


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize(
    "s, axes", [(None, None), (None, (0, 2)), ((6, 10), (2, 0)), ((5, 6), None), (None, (1,)), ((4, 5, 6), (0, 1, 2))]
)
def test_several_axes(device, rng, name, s, axes):
    x = draw(rng, (4, 7, 9), "float64" if name == "rfftn" else "complex128")
    got = getattr(gp.fft, name)(gp.from_numpy(x), s=s, axes=axes, norm="ortho")
    named = axes if axes is not None else (tuple(range(3 - len(s), 3)) if s is not None else None)
    assert error(got.to_numpy(), getattr(np.fft, name)(x, s=s, axes=named, norm="ortho")) < 1e-14


def test_layouts_and_out(device, rng):
    x = draw(rng, (6, 50, 7), "complex64")
    given = gp.from_numpy(x)
    for view, host in ((given.T, x.T), (given[::2, ::-1], x[::2, ::-1]), (given[:, 3:40:3], x[:, 3:40:3])):
        for axis in range(3):
            got = gp.fft.fft(view, axis=axis).to_numpy()
            assert error(got, np.fft.fft(host.astype("c16"), axis=axis)) < 3e-6
    out = gp.empty((6, 50, 7), dtype="complex64")
    assert gp.fft.fft(given, axis=1, out=out) is out
    assert out.to_numpy().tobytes() == gp.fft.fft(given, axis=1).to_numpy().tobytes()
    # In place, and into a view of the input itself.
    expected = out.to_numpy()
    gp.fft.fft(given, axis=1, out=given)
    assert given.to_numpy().tobytes() == expected.tobytes()
    square = gp.from_numpy(x[0, :7].copy())
    expected = gp.fft.fft(square).to_numpy()
    gp.fft.fft(square, out=square.T)
    assert square.T.to_numpy().tobytes() == expected.tobytes()


def test_a_row_does_not_depend_on_others(device, rng):
    for n in (48, 61, 400, 8192):
        x = gp.from_numpy(draw(rng, (37, n), "complex64"))
        whole = gp.fft.fft(x).to_numpy()
        for row in (0, 5, 36):
            assert gp.fft.fft(x[row]).to_numpy().tobytes() == whole[row].tobytes()


def test_real_inputs_and_16_bits(device, rng):
    x = draw(rng, (3, 20), "float32")
    assert error(gp.fft.fft(gp.from_numpy(x)).to_numpy(), np.fft.fft(x)) < 1e-6
    assert error(gp.fft.hfft(gp.from_numpy(x)).to_numpy(), np.fft.hfft(x)) < 1e-6
    short = gp.fft.rfft(gp.from_numpy(x).astype("float16"))
    assert short.dtype.name == "complex64"
    assert error(short.to_numpy(), np.fft.rfft(x.astype("f2").astype("f8"))) < 1e-6


def test_frequencies_and_shifts(device):
    for n in (1, 2, 7, 8):
        np.testing.assert_allclose(gp.fft.fftfreq(n, d=0.1).to_numpy(), np.fft.fftfreq(n, 0.1), rtol=1e-7)
        got = gp.fft.rfftfreq(n, d=2.0, dtype="float64")
        np.testing.assert_array_equal(got.to_numpy(), np.fft.rfftfreq(n, 2.0))
    x = np.arange(35.0).reshape(5, 7)
    for axes in (None, 0, (1,), (0, 1)):
        there = gp.fft.fftshift(gp.from_numpy(x), axes=axes)
        np.testing.assert_array_equal(there.to_numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(gp.fft.ifftshift(there, axes=axes).to_numpy(), x)


def test_empty_and_errors(device):
    assert gp.fft.fft(gp.zeros((0, 8), dtype="complex64")).shape == (0, 8)
    padded = gp.fft.fft(gp.zeros((2, 0), dtype="complex64"), n=4).to_numpy()
    np.testing.assert_array_equal(padded, np.zeros((2, 4)))
    with pytest.raises(ValueError, match="fft: n must be at least 1"):
        gp.fft.fft(gp.zeros((2, 0), dtype="complex64"))
    with pytest.raises(ValueError, match="fft: x must have at least one dimension"):
        gp.fft.fft(gp.zeros((), dtype="complex64"))
    with pytest.raises(IndexError):
        gp.fft.fft(gp.zeros((4,)), axis=1)
    with pytest.raises(TypeError, match="rfft: x must have a float dtype"):
        gp.fft.rfft(gp.zeros((4,), dtype="complex64"))
    with pytest.raises(TypeError, match="fft: x must have a float or complex dtype"):
        gp.fft.fft(gp.zeros((4,), dtype="int32"))
    with pytest.raises(ValueError, match="norm must be backward, ortho or forward"):
        gp.fft.fft(gp.zeros((4,)), norm="none")
    with pytest.raises(ValueError, match="fftn: axes must name each axis once"):
        gp.fft.fftn(gp.zeros((4, 4)), axes=(0, -2))
    with pytest.raises(ValueError, match="out"):
        gp.fft.fft(gp.zeros((4,)), out=gp.zeros((5,), dtype="complex64"))


@pytest.mark.parametrize("n", [1, 30, 61, 12000])
def test_captured(device, rng, n):
    """With out nothing is allocated, and a replay reads new values."""
    x, other = draw(rng, (2, n), "complex64"), draw(rng, (2, n), "complex64")
    given, out = gp.from_numpy(x), gp.empty((2, n), dtype="complex64")
    gp.fft.ifft(given, out=out)
    with gp.CudaGraph().capture() as graph:
        gp.fft.ifft(given, out=out)
    given[...] = gp.from_numpy(other)
    graph.replay()
    assert out.to_numpy().tobytes() == gp.fft.ifft(gp.from_numpy(other)).to_numpy().tobytes()
