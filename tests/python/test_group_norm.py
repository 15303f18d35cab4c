"""Norms over groups of channels and with weights for each item, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, download, round_to, upload

import pygpukit as gp

TOLERANCE = {"float16": 3e-3, "bfloat16": 2e-2, "float32": 4e-6, "float64": 1e-14}
SHAPES = [
    ((2, 6, 33), 3),
    ((1, 8, 5, 7), 2),
    ((3, 4), 2),
    ((2, 64, 1025), 64),
    ((1, 1, 1), 1),
    ((5, 12, 1), 4),
    ((0, 4, 3), 2),
    ((2, 4, 0), 2),
]


def normalized(x, axes, eps):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


def group_norm(x, gamma, beta, groups, eps=1e-5):
    if x.size == 0:
        return x
    n = normalized(x.reshape(x.shape[0], groups, -1), 2, eps).reshape(x.shape)
    each = (-1, *[1] * (x.ndim - 2))
    return n * gamma.reshape(each) + beta.reshape(each)


def silu(x):
    return x / (1 + np.exp(-x))


def make(rng, dtype, *shapes):
    return [round_to(rng.normal(size=shape) * 2 + 0.5, dtype) for shape in shapes]


def up(dtype, *values):
    return [upload(v, dtype) for v in values]


def assert_close(got, expected, dtype):
    assert got.dtype.name == dtype and got.shape == expected.shape
    np.testing.assert_allclose(download(got), expected, rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


def bits(x):
    return x.contiguous().to_numpy().tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_norm(device, rng, dtype):
    for shape, groups in SHAPES:
        x, gamma, beta = make(rng, dtype, shape, shape[1:2], shape[1:2])
        given = up(dtype, x, gamma, beta)
        expected = group_norm(x, gamma, beta, groups)
        assert_close(gp.group_norm(*given, groups), expected, dtype)
        assert_close(gp.group_norm_silu(*given, groups), silu(expected), dtype)
        plain = group_norm(x, np.ones_like(gamma), np.zeros_like(beta), groups, 0.5)
        assert_close(gp.group_norm(given[0], None, None, groups, 0.5), plain, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_instance_norm(device, rng, dtype):
    for shape, _ in SHAPES:
        x, gamma, beta = make(rng, dtype, shape, shape[1:2], shape[1:2])
        expected = group_norm(x, gamma, beta, shape[1])
        assert_close(gp.instance_norm(*up(dtype, x, gamma, beta)), expected, dtype)
        out = gp.full(shape, 7, dtype=dtype)
        assert gp.instance_norm(*up(dtype, x, gamma, beta), out=out) is out
        assert_close(out, expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_adain(device, rng, dtype):
    for batch, channels, length in [(1, 5, 33), (3, 16, 700), (2, 3, 1), (1, 128, 2049)]:
        x, style = make(rng, dtype, (batch, channels, length), (batch, 2 * channels))
        gamma, beta = style[:, :channels, None], style[:, channels:, None]
        expected = (1 + gamma) * normalized(x, 2, 1e-5) + beta
        given, packed = up(dtype, x, style)
        assert_close(gp.adain(given, packed[:, :channels], packed[:, channels:]), expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_adain_and_an_activation(device, rng, dtype):
    for batch, channels, length in [(1, 5, 33), (3, 16, 700), (2, 3, 1), (1, 2, 8193), (1, 1, 20001)]:
        x, style, alpha = make(rng, dtype, (batch, channels, length), (batch, 2 * channels), (channels,))
        alpha = np.where(np.abs(alpha) < 0.1, 0.5, alpha)
        gamma, beta = style[:, :channels, None], style[:, channels:, None]
        normal = (1 + gamma) * normalized(x, 2, 1e-3) + beta
        given, packed, factors = up(dtype, x, style, alpha)
        weights = packed[:, :channels], packed[:, channels:]
        leaky = gp.adain_leaky_relu(given, *weights, 0.2, 1e-3)
        assert_close(leaky, np.where(normal > 0, normal, 0.2 * normal), dtype)
        snaked = gp.adain_snake(given, *weights, factors, 1e-3)
        a = alpha.reshape(-1, 1)
        assert snaked.shape == x.shape
        # The sine turns as fast as alpha, which may be large beside the norm's error.
        slack = 4 * TOLERANCE[dtype] * (1 + np.abs(a)) * (1 + np.abs(normal))
        assert (np.abs(download(snaked) - (normal + np.sin(a * normal) ** 2 / a)) <= slack).all()
        if dtype in ("float32", "float64"):
            apart = gp.adain(given, *weights, 1e-3)
            assert bits(leaky) == bits(gp.leaky_relu(apart, 0.2))
            assert bits(snaked) == bits(gp.snake(apart, factors))
        if batch > 1:
            last = [a[-1:] for a in (given, *weights)]
            assert bits(gp.adain_snake(*last, factors, 1e-3)) == bits(snaked[-1:])
        over = given + 0
        gp.adain_snake(over, *weights, factors, 1e-3, out=over)
        assert bits(over) == bits(snaked)
        turned = given.T.contiguous().T
        assert bits(gp.adain_leaky_relu(turned, *weights, 0.2, 1e-3)) == bits(leaky)


@pytest.mark.parametrize("dtype", FLOATS)
def test_adaln(device, rng, dtype):
    for batch, tokens, width in [(1, 3, 33), (2, 5, 512), (3, 1, 1), (2, 0, 4)]:
        x, residual = make(rng, dtype, (batch, tokens, width), (batch, tokens, width))
        scale, shift, gate = make(rng, dtype, *3 * ((batch, width),))
        expected = normalized(x, 2, 1e-3) * (1 + scale[:, None]) + shift[:, None] if x.size else x
        given = up(dtype, x, scale, shift, gate, residual)
        assert_close(gp.adaln(*given[:3], eps=1e-3), expected, dtype)
        assert_close(gp.adaln_zero(*given, eps=1e-3), residual + gate[:, None] * expected, dtype)
        if tokens:
            last = [a[-1] for a in given]
            assert bits(gp.adaln(*last[:3])) == bits(gp.adaln(*given[:3])[-1])
            assert bits(gp.adaln_zero(*last)) == bits(gp.adaln_zero(*given)[-1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_group_norms_in_any_layout_and_place(device, rng, dtype):
    values = make(rng, dtype, (3, 8, 6, 5), (8,), (8,))
    x, gamma, beta = up(dtype, *values)
    expected = bits(gp.group_norm(x, gamma, beta, 4))
    for turned in (x.transpose(0, 2, 3, 1).contiguous().transpose(0, 3, 1, 2), x.T.contiguous().T):
        backwards = [gp.flip(gp.flip(w).contiguous()) for w in (gamma, beta)]
        assert bits(gp.group_norm(turned, *backwards, 4)) == expected
        out = gp.full((3, 5, 6, 8), 7, dtype=dtype).transpose(0, 3, 2, 1)
        gp.group_norm(turned, gamma, beta, 4, out=out)
        assert bits(out) == expected
    assert bits(gp.group_norm(x[1:2], gamma, beta, 4)) == expected[len(expected) // 3 :][: len(expected) // 3]
    over = x + 0
    gp.group_norm(over, gamma, beta, 4, out=over)
    assert bits(over) == expected
    # The result over the weights of the channels.
    weights = gp.zeros((3 * 8 * 30 + 8,), dtype=dtype)
    weights[:8] = gamma
    out = weights[4:-4].reshape(3, 8, 6, 5)
    gp.group_norm(x, weights[:8], beta, 4, out=out)
    assert bits(out) == expected
    tokens, residual = up(dtype, *make(rng, dtype, (2, 7, 12), (2, 7, 12)))
    scale = up(dtype, *make(rng, dtype, (2, 12)))[0]
    expected = bits(gp.adaln_zero(tokens, scale, scale, scale, residual))
    turned = tokens.T.contiguous().T
    over = residual + 0
    gp.adaln_zero(turned, scale, scale, scale, over, out=over)
    assert bits(over) == expected


def test_group_norms_are_checked(device):
    x = gp.zeros((2, 6, 5))
    with pytest.raises(ValueError, match="num_groups must divide the 6 channels"):
        gp.group_norm(x, None, None, 4)
    with pytest.raises(ValueError, match=r"gamma must have shape \[6\]"):
        gp.instance_norm(x, gp.zeros((5,)))
    with pytest.raises(ValueError, match=r"adain: beta must have shape \[2, 6\]"):
        gp.adain(x, gp.zeros((2, 6)), gp.zeros((6,)))
    with pytest.raises(ValueError, match=r"adain_snake: alpha must have shape \[6\]"):
        gp.adain_snake(x, gp.zeros((2, 6)), gp.zeros((2, 6)), gp.zeros((5,)))
    with pytest.raises(ValueError, match=r"adain_leaky_relu: gamma must have shape \[2, 6\]"):
        gp.adain_leaky_relu(x, gp.zeros((6,)), gp.zeros((2, 6)))
    with pytest.raises(ValueError, match=r"adaln: scale must have shape \[2, 5\]"):
        gp.adaln(x, gp.zeros((2, 6)), gp.zeros((2, 5)))
    with pytest.raises(ValueError, match="2 or 3 dimensions"):
        gp.adaln(gp.zeros((4,)), gp.zeros((4,)), gp.zeros((4,)))
    with pytest.raises(gp.errors.DTypeError, match="gate must have dtype float32"):
        gp.adaln_zero(x, *2 * (gp.zeros((2, 5)),), gp.zeros((2, 5), dtype="float16"), x)
    with pytest.raises(ValueError, match="at least two dimensions"):
        gp.instance_norm(gp.zeros((4,)))
