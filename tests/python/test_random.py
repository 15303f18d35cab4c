"""Random numbers: range, distribution, reproducibility, state."""

import hashlib

import numpy as np
import pytest

import pygpukit as gp

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def digest(*arrays):
    return hashlib.sha256(b"".join(a.to_numpy().tobytes() for a in arrays)).hexdigest()


@pytest.fixture(autouse=True)
def keep_state():
    state = gp.random.get_state()
    yield
    gp.random.set_state(state)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (33,), (7, 1025)])
def test_same_seed_same_bits_as_the_cpu(device, dtype, shape):
    for draw in (gp.random.uniform, gp.random.normal):
        here, there = draw(shape, dtype=dtype, seed=9), draw(shape, dtype=dtype, seed=9, device="cpu")
        assert here.shape == shape and here.dtype.name == dtype and here.device == device
        assert digest(here) == digest(there)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_same_integers_as_the_cpu(device, dtype):
    here = gp.random.randint(3, 100, (1025,), dtype, seed=9)
    assert here.dtype.name == dtype
    assert digest(here) == digest(gp.random.randint(3, 100, (1025,), dtype, seed=9, device="cpu"))
    values = here.to_numpy()
    assert values.min() >= 3 and values.max() < 100 and len(np.unique(values)) > 80


def test_numbers_of_a_seed_do_not_change(device):
    """They are part of the interface, the same on every machine and device."""
    draws = [f((1001,), dtype=d, seed=42) for d in FLOATS for f in (gp.random.uniform, gp.random.normal)]
    draws += [gp.random.randint(0, 100, (1001,), d, seed=42) for d in ("int8", "uint32", "int64")]
    assert digest(*draws) == "e734360d7d81feff2d42b07baeaf09365525a464a3eb68573e2c842528b1887a"


def test_moments(device):
    u = gp.random.uniform((200_000,), 2.0, 5.0, seed=1).to_numpy().astype(np.float64)
    assert u.min() >= 2.0 and u.max() < 5.0
    assert abs(u.mean() - 3.5) < 0.01 and abs(u.var() - 0.75) < 0.01
    z = gp.random.normal((200_000,), -1.0, 2.0, seed=1).to_numpy().astype(np.float64)
    assert abs(z.mean() + 1) < 0.02 and abs(z.std() - 2) < 0.02
    # Share of the values within one, two and three deviations.
    for width, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert abs(np.mean(np.abs(z + 1) < 2 * width) - share) < 0.005


def test_state(device):
    gp.random.seed(5)
    assert gp.random.get_state() == (5, 0)
    a, b = gp.random.uniform((9,)), gp.random.uniform((9,))
    assert digest(a) != digest(b)
    assert gp.random.get_state() == (5, 2)
    gp.random.seed(5)
    assert digest(gp.random.uniform((9,))) == digest(a)
    assert digest(gp.random.uniform((9,), seed=5)) == digest(a)
    assert gp.random.get_state() == (5, 1), "an explicit seed leaves the state alone"
    with pytest.raises(ValueError):
        gp.random.uniform((9,), 1, 0)
    assert gp.random.get_state() == (5, 1), "a refused call takes nothing"


def test_generator(device):
    g = gp.random.Generator(5)
    gp.random.seed(5)
    for _ in range(3):
        assert digest(g.normal((31,))) == digest(gp.random.normal((31,)))
    state = g.get_state()
    a = g.randint(10, shape=(31,))
    g.set_state(state)
    assert digest(g.randint(0, 10, (31,))) == digest(a)
    g.seed(-1)
    assert g.get_state() == (2**64 - 1, 0)


def test_out(device):
    out = gp.zeros((4, 33), "float16")
    assert gp.random.normal(out=out, seed=3) is out
    assert digest(out) == digest(gp.random.normal((4, 33), dtype="float16", seed=3))
    view = gp.zeros((33, 8)).T[::2]
    gp.random.uniform(out=view, seed=3)
    np.testing.assert_array_equal(view.to_numpy(), gp.random.uniform((4, 33), seed=3).to_numpy())
    with pytest.raises(ValueError, match="shape"):
        gp.random.uniform((3,), out=out, seed=3, dtype="float16")


def test_wide_integers(device):
    words = gp.random.randint(0, 2**64 - 1, (1000,), "uint64", seed=1).to_numpy()
    assert words.max() > 2**63 and words.min() < 2**60
    signed = gp.random.randint(-(2**63), 2**63, (1000,), seed=1).to_numpy()
    assert signed.min() < 0 < signed.max()
    assert gp.random.randint(7, 8, (5,), seed=1).to_numpy().tolist() == [7] * 5


def test_errors(device):
    with pytest.raises(TypeError, match="float dtype"):
        gp.random.uniform((2,), dtype="int32")
    with pytest.raises(ValueError, match="high must not be below low"):
        gp.random.uniform((2,), 1, 0)
    with pytest.raises(ValueError, match="finite"):
        gp.random.uniform((2,), 0, float("inf"))
    with pytest.raises(ValueError, match="std must not be negative"):
        gp.random.normal((2,), 0, -1)
    with pytest.raises(ValueError, match="high must be above low"):
        gp.random.randint(3, 3, (2,))
    with pytest.raises(ValueError, match="int8"):
        gp.random.randint(0, 200, (2,), "int8")
    with pytest.raises(ValueError, match="integer"):
        gp.random.randint(0, 2.5, (2,))
    with pytest.raises(TypeError, match="seed must be an integer"):
        gp.random.seed("a")
    with pytest.raises(TypeError, match="set_state"):
        gp.random.set_state(3)


def same(left, right):
    return left.shape == right.shape and digest(left) == digest(right)


@pytest.mark.parametrize("of_generator", [False, True])
def test_numpys_order_and_keywords(of_generator):
    """Where the numbers cannot mean a shape first, they are NumPy's (low, high, size)."""

    def draw(name, *args, **kwargs):
        gp.random.seed(4)
        return getattr(gp.random.Generator(4) if of_generator else gp.random, name)(*args, **kwargs)

    for name, first, second in (("uniform", "low", "high"), ("normal", "loc", "scale")):
        wanted = draw(name, (5,), -1.0, 2.0)
        assert same(draw(name, -1, 2, 5), wanted) and same(draw(name, -1.0, 2.0, (5,)), wanted)
        assert same(draw(name, -1, 2, size=5), wanted) and same(draw(name, -1, **{second: 2}, size=5), wanted)
        assert same(draw(name, **{first: -1, second: 2}, size=(5,)), wanted)
        assert same(draw(name, 5, -1.0, 2.0), wanted), "the third number cannot be a size"
        assert draw(name, size=(2, 3)).shape == (2, 3) and draw(name, 4).shape == (4,)
        assert draw(name, 0.0).shape == draw(name, 0.0, 1.0).shape == ()
        for numbers in ((0, 1), (0, 1.0), (0, 1.0, 1.0), (5, 2)):
            with pytest.raises(TypeError, match=rf"{name}: .*size="):
                draw(name, *numbers)
        with pytest.raises(TypeError, match="both a shape and size="):
            draw(name, (5,), size=5)
        with pytest.raises(TypeError, match="unexpected keyword 'sizes'; it takes shape"):
            draw(name, sizes=5)
    assert draw("normal", loc=0, scale=1).shape == ()
    assert same(draw("randint", 0, 9, size=5), draw("randint", 0, 9, (5,)))
    with pytest.raises(TypeError, match="both shape and size"):
        draw("randint", 0, 9, (5,), size=5)
