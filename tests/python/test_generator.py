"""default_rng and the methods NumPy's Generator has: moments, ranges, states, choices, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pygpukit as gp

COUNT = 200_000
# The method, its arguments, the mean and the variance of its distribution.
LAWS = [
    ("random", (), 0.5, 1 / 12),
    ("standard_normal", (), 0, 1),
    ("standard_exponential", (), 1, 1),
    ("exponential", (2.5,), 2.5, 6.25),
    ("standard_gamma", (3.0,), 3, 3),
    ("gamma", (0.2, 2.0), 0.4, 0.8),
    ("gamma", (1.0,), 1, 1),
    ("gamma", (50.0, 0.5), 25, 12.5),
    ("beta", (2.0, 5.0), 2 / 7, 10 / (49 * 8)),
    ("beta", (0.1, 0.1), 0.5, 0.25 / 1.2),
    ("poisson", (0.3,), 0.3, 0.3),
    ("poisson", (9.5,), 9.5, 9.5),
    ("poisson", (10.0,), 10, 10),
    ("poisson", (1234.5,), 1234.5, 1234.5),
    ("binomial", (10, 0.3), 3, 2.1),
    ("binomial", (10, 0.9), 9, 0.9),
    ("binomial", (100, 0.4), 40, 24),
    ("binomial", (100000, 0.7), 70000, 21000),
    ("geometric", (0.35,), 1 / 0.35, 0.65 / 0.35**2),
    ("integers", (3, 9), 5.5, 35 / 12),
]  # fmt: skip


@pytest.mark.parametrize("name, parameters, mean, variance", LAWS)
def test_mean_and_variance(device, name, parameters, mean, variance):
    x = getattr(gp.random.default_rng(7), name)(*parameters, size=COUNT).astype("float64").to_numpy()
    assert abs(x.mean() - mean) < 5 * math.sqrt(variance / COUNT)
    fourth = ((x - mean) ** 4).mean()
    assert abs(x.var() - variance) < 6 * math.sqrt(max(fourth - variance**2, 1e-9) / COUNT)


def probabilities(name, parameters, k):
    if name == "poisson":
        return math.exp(k * math.log(parameters[0]) - parameters[0] - math.lgamma(k + 1))
    n, p = parameters
    return math.exp(math.log(math.comb(n, k)) + k * math.log(p) + (n - k) * math.log1p(-p))


@pytest.mark.parametrize(
    "name, parameters", [("poisson", (4.0,)), ("poisson", (30.0,)), ("binomial", (20, 0.2)), ("binomial", (90, 0.6))]
)
def test_frequencies(device, name, parameters):
    """Each value as often as it should be, by a chi-squared test."""
    x = getattr(gp.random.default_rng(11), name)(*parameters, size=COUNT).to_numpy()
    counts = np.bincount(x)
    expected = np.array([probabilities(name, parameters, k) * COUNT for k in range(len(counts))])
    usual = expected > 20
    degrees = usual.sum()
    assert ((counts - expected)[usual] ** 2 / expected[usual]).sum() < degrees + 5 * math.sqrt(2 * degrees)


def test_the_same_seed_gives_the_same_bits_on_every_device(device):
    for name, parameters, _, _ in LAWS:
        here = getattr(gp.random.default_rng(3), name)(*parameters, size=(33, 7))
        there = getattr(gp.random.default_rng(3), name)(*parameters, size=(33, 7), device="cpu")
        assert here.to_numpy().tobytes() == there.to_numpy().tobytes(), name
        part = getattr(gp.random.default_rng(3), name)(*parameters, size=5)
        assert part.to_numpy().tobytes() == here.to_numpy().ravel()[:5].tobytes(), name


def test_each_call_draws_other_numbers(device):
    rng = gp.random.default_rng(5)
    for name, parameters, _, _ in LAWS:
        first, second = (getattr(rng, name)(*parameters, size=64) for _ in range(2))
        assert not gp.array_equal(first, second), name


def test_dtypes_shapes_and_out(device):
    rng = gp.random.default_rng(1)
    assert rng.random().shape == () and rng.random((2, 3)).dtype == gp.float32
    assert rng.random(4, dtype="float64").dtype == gp.float64
    assert rng.gamma(2.0, size=0).shape == (0,)
    assert rng.poisson(3.0, size=4).dtype == gp.int64 and rng.poisson(3.0, size=4, dtype="uint8").dtype == gp.uint8
    target = gp.zeros((4, 6))
    assert rng.exponential(1.0, out=target) is target and bool(gp.all(target > 0))
    state = rng.get_state()
    rng.beta(2.0, 3.0, out=target.T)
    rng.set_state(state)
    assert gp.array_equal(target.T, rng.beta(2.0, 3.0, size=(6, 4)))
    assert bool(gp.all(rng.integers(1, 3, size=1000, endpoint=True) <= 3))
    assert gp.unique(rng.integers(4, size=1000)).tolist() == [0, 1, 2, 3]


def test_edges_of_parameters(device):
    rng = gp.random.default_rng(2)
    assert not rng.poisson(0.0, size=50).any() and not rng.binomial(0, 0.5, size=50).any()
    assert bool(gp.all(rng.binomial(7, 1.0, size=50) == 7)) and not rng.binomial(7, 0.0, size=50).any()
    assert bool(gp.all(rng.geometric(1.0, size=50) == 1)) and not rng.exponential(0.0, size=50).any()
    tiny = rng.beta(1e-3, 1e-3, size=1000)
    assert not gp.isnan(tiny).any() and bool(gp.all((tiny >= 0) & (tiny <= 1)))


REFUSED = [
    ("exponential", (-1.0,), "random.exponential: scale must be 0 or above"),
    ("gamma", (0.0,), "random.gamma: shape must be finite and at least"),
    ("beta", (1.0, float("nan")), "random.beta: b must be finite and at least"),
    ("poisson", (-0.1,), "random.poisson: lam must be in"),
    ("binomial", (-1, 0.5), "random.binomial: n must be in"),
    ("binomial", (3, 1.5), "random.binomial: p must be in"),
    ("geometric", (0.0,), "random.geometric: p must be in"),
]


@pytest.mark.parametrize("name, parameters, message", REFUSED)
def test_refusals(device, name, parameters, message):
    with pytest.raises(ValueError, match=message):
        getattr(gp.random.default_rng(0), name)(*parameters, size=3)


def test_refused_dtypes(device):
    rng = gp.random.default_rng(0)
    with pytest.raises(TypeError, match="random.gamma: dtype must be float32 or float64"):
        rng.gamma(1.0, size=2, dtype="int32")
    with pytest.raises(TypeError, match="random.poisson: dtype must be an integer dtype"):
        rng.poisson(1.0, size=2, dtype="float32")


def test_permutation_and_shuffle(device):
    rng = gp.random.default_rng(9)
    order = rng.permutation(100)
    assert order.dtype == gp.int64 and sorted(order.tolist()) == list(range(100)) != order.tolist()
    x = gp.reshape(gp.arange(30), (10, 3))
    mixed = rng.permutation(x)
    assert sorted(mixed.tolist()) == x.tolist() != mixed.tolist()
    across = rng.permutation(x, axis=1)
    assert sorted(across[0].tolist()) == x[0].tolist()
    y = gp.asarray(x, copy=True)
    assert rng.shuffle(y) is None and sorted(y.tolist()) == x.tolist() != y.tolist()
    part = y[:, :2]
    rng.shuffle(part)
    assert sorted(y[:, 0].tolist()) == x[:, 0].tolist()
    assert rng.permutation(0).shape == (0,)
    firsts = [gp.random.default_rng(seed).permutation(4)[0].item() for seed in range(400)]
    assert np.bincount(firsts, minlength=4).min() > 60


def test_choice(device):
    rng = gp.random.default_rng(4)
    assert rng.choice(5).shape == () and rng.choice(5, (2, 3)).shape == (2, 3)
    assert sorted(rng.choice(6, 6, replace=False).tolist()) == list(range(6))
    values = gp.asarray([10.0, 20.0, 30.0])
    assert set(rng.choice(values, 100).tolist()) == {10.0, 20.0, 30.0}
    p = gp.asarray([0.1, 0.0, 0.6, 0.3])
    counts = np.bincount(rng.choice(4, 50_000, p=p).to_numpy(), minlength=4) / 50_000
    np.testing.assert_allclose(counts, [0.1, 0, 0.6, 0.3], atol=0.01)
    firsts = [rng.choice(4, 3, replace=False, p=p).tolist() for _ in range(300)]
    assert all(sorted(drawn) == [0, 2, 3] for drawn in firsts)
    assert 0.5 < np.mean([drawn[0] == 2 for drawn in firsts]) < 0.7
    assert rng.choice(gp.reshape(gp.arange(6), (2, 3)), 4, axis=1).shape == (2, 4)
    for arguments, message in (
        (dict(a=3, size=4, replace=False), "size must be at most the 3 elements"),
        (dict(a=0, size=1), "a must have at least one element"),
        (dict(a=2, size=1, p=p), "p must have one number for each of the 2"),
        (dict(a=2, p=gp.asarray([-1.0, 2.0])), "p must not be negative"),
        (dict(a=2, p=gp.asarray([0.0, 0.0])), "p must have a finite sum above 0"),
        (dict(a=4, size=4, replace=False, p=p), "p must have at least 4 chances above 0"),
    ):
        with pytest.raises(ValueError, match=f"random.choice: {message}"):
            rng.choice(**arguments)


def test_sequences_of_python(device):
    rng = gp.random.default_rng(6)
    assert set(rng.choice([10, 20, 30], 100, p=[0.5, 0, 0.5]).tolist()) == {10, 30}
    assert sorted(rng.permutation([3, 1, 2]).tolist()) == [1, 2, 3]
    assert set(rng.choice(np.array([1.5, 2.5]), 50).tolist()) == {1.5, 2.5}
    with pytest.raises(ValueError, match="random.choice: p must have one number"):
        rng.choice(3, p=[1.0])
    with pytest.raises(TypeError, match="random.choice: p must be"):
        rng.choice(3, p=1)


def test_functions_of_the_default_generator(device):
    x = gp.arange(20)
    gp.random.seed(8)
    first = [gp.random.permutation(20), gp.random.choice(5, 10)]
    gp.random.shuffle(x)
    rng = gp.random.default_rng(8)
    assert all(gp.array_equal(a, b) for a, b in zip(first, [rng.permutation(20), rng.choice(5, 10)], strict=True))
    assert gp.array_equal(x, rng.permutation(gp.arange(20)))


def test_states(device):
    assert gp.random.default_rng(5).get_state() == (5, 0) == gp.random.Generator(5).get_state()
    rng = gp.random.default_rng(5)
    assert gp.random.default_rng(rng) is rng and gp.random.default_rng().get_state() == (0, 0)
    far = rng.jumped()
    assert rng.get_state() == (5, 0) and far.get_state() == (5, 2**40) and rng.jumped(3).get_state() == (5, 3 * 2**40)
    children = rng.spawn(3) + rng.spawn(2)
    assert len({child.get_state()[0] for child in children}) == 5
    again = gp.random.default_rng(5).spawn(3)
    assert [c.get_state() for c in again] == [c.get_state() for c in children[:3]]
    assert abs(np.corrcoef([c.random(5000).to_numpy() for c in children]) - np.eye(5)).max() < 0.06


def test_whole_numbers_past_a_dtype_become_its_largest(device):
    rng = gp.random.default_rng(1)
    assert bool(gp.all(rng.geometric(1e-20, size=5, device=device) > 10**17))
    for name, parameters in (("geometric", (1e-5,)), ("poisson", (1000.0,)), ("binomial", (5000, 0.9))):
        drawn = getattr(rng, name)(*parameters, size=200, dtype="int8", device=device).to_numpy()
        assert drawn.min() >= 0 and drawn.max() == 127


def test_tiny_shapes_are_refused():
    with pytest.raises(ValueError, match="random.beta: a must be finite and at least 1e-300"):
        gp.random.default_rng(1).beta(1e-310, 1e-310, size=2)
