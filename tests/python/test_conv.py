"""Convolutions against float64 sums by their definition."""

from __future__ import annotations

import convolutions
import numpy as np
import pytest
from opcase import FLOATS, download, round_to, upload

import pygpukit as gp

# Relative to the sum of magnitudes: each result is rounded once, float32 sums a little more.
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-14}

# batch, in channels, out channels, length, taps, and the rest
CASES_1D = [
    (1, 1, 1, 1, 1, {}),
    (2, 3, 5, 17, 3, {"padding": 1}),
    (1, 16, 9, 33, 5, {"padding": 2, "dilation": 2}),
    (3, 8, 33, 100, 4, {"stride": 2, "padding": 3}),
    (1, 40, 70, 300, 7, {"padding": 9, "dilation": 3}),
    (1, 22, 16, 61, 12, {"stride": 6, "padding": 3}),
    (2, 6, 9, 31, 3, {"groups": 3, "padding": 2}),
    (2, 7, 14, 40, 4, {"groups": 7, "stride": 3}),
    (1, 130, 300, 70, 3, {"padding": 1}),
    (2, 5, 4, 3, 3, {"padding": 8, "stride": 5}),  # outputs that read nothing
    (0, 3, 4, 8, 3, {}),
]
CASES_TRANSPOSED = [
    (1, 1, 1, 1, 1, {}),
    (2, 3, 5, 17, 3, {}),
    (1, 12, 10, 33, 20, {"stride": 10, "padding": 5}),
    (1, 9, 7, 40, 12, {"stride": 6, "padding": 3}),
    (2, 8, 8, 31, 3, {"stride": 2, "padding": 1, "output_padding": 1, "groups": 8}),
    (1, 6, 9, 10, 5, {"stride": 4, "dilation": 6, "padding": 2}),  # some outputs have no taps
    (2, 6, 4, 11, 4, {"stride": 3, "dilation": 2, "groups": 2, "output_padding": 2, "padding": 1}),
    (1, 4, 3, 5, 2, {"stride": 7, "padding": 4}),
    (1, 33, 270, 50, 4, {"stride": 2, "padding": 1}),
    (2, 3, 4, 2, 3, {"padding": 2}),  # no result is left
]
CASES_2D = [
    (2, 3, 5, (7, 9), (3, 3), {"padding": (1, 1)}),
    (1, 4, 6, (12, 5), (2, 3), {"stride": (2, 1), "padding": (0, 2), "dilation": (3, 2)}),
    (1, 6, 4, (9, 40), (1, 1), {"groups": 2}),
    (1, 31, 9, (5, 70), (3, 3), {"padding": (1, 1), "dilation": (1, 2)}),
    (2, 8, 8, (6, 35), (3, 5), {"groups": 8, "stride": (1, 3), "padding": (4, 2)}),
]


def values(rng, dtype, *shape):
    return round_to(rng.normal(size=shape), dtype)


def assert_close(got, expected, magnitude, dtype):
    assert got.dtype.name == dtype and got.shape == expected.shape
    error = np.abs(download(got) - expected)
    assert (error <= TOLERANCE[dtype] * np.maximum(magnitude, 1)).all(), np.max(error / np.maximum(magnitude, 1))


def check(function, reference, x, w, b, dtype, reference_options, **options):
    expected = reference(x, w, b, **reference_options)
    magnitude = reference(np.abs(x), np.abs(w), np.abs(b), **reference_options)
    given = [upload(v, dtype) for v in (x, w, b)]
    got = function(*given, **options)
    assert_close(got, expected, magnitude, dtype)
    return given, got


def in_tuples(options):
    return {k: (v,) if k in ("stride", "padding", "dilation") else v for k, v in options.items()}


@pytest.mark.parametrize("dtype", FLOATS)
def test_conv1d(device, rng, dtype):
    for batch, ins, outs, length, taps, options in CASES_1D:
        x = values(rng, dtype, batch, ins, length)
        w = values(rng, dtype, outs, ins // options.get("groups", 1), taps)
        check(gp.conv1d, convolutions.conv, x, w, values(rng, dtype, outs), dtype, in_tuples(options), **options)


@pytest.mark.parametrize("dtype", FLOATS)
def test_conv_transpose1d(device, rng, dtype):
    for batch, ins, outs, length, taps, options in CASES_TRANSPOSED:
        x = values(rng, dtype, batch, ins, length)
        w = values(rng, dtype, ins, outs // options.get("groups", 1), taps)
        b = values(rng, dtype, outs)
        check(gp.conv_transpose1d, convolutions.conv_transpose1d, x, w, b, dtype, options, **options)


@pytest.mark.parametrize("dtype", FLOATS)
def test_conv2d(device, rng, dtype):
    for batch, ins, outs, space, taps, options in CASES_2D:
        x = values(rng, dtype, batch, ins, *space)
        w = values(rng, dtype, outs, ins // options.get("groups", 1), *taps)
        plain = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), **options}
        check(gp.conv2d, convolutions.conv, x, w, values(rng, dtype, outs), dtype, plain, **options)
    square = gp.conv2d(upload(x, dtype), upload(w, dtype), groups=8, padding=2, stride=2)
    assert square.shape == (2, 8, 4, 18)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activation", [a for a in convolutions.ACTIVATIONS if a is not None])
def test_activations_are_fused(device, rng, dtype, activation):
    x, w, b = values(rng, dtype, 2, 6, 40), values(rng, dtype, 9, 6, 3) / 2, values(rng, dtype, 9)
    expected = convolutions.conv(x, w, b, activation=activation)
    given = [upload(v, dtype) for v in (x, w, b)]
    assert_close(gp.conv1d(*given, activation=activation, slope=0.2), expected, 10, dtype)
    expected = convolutions.conv_transpose1d(x, w.transpose(1, 0, 2)[:, :, ::-1], b, padding=2, activation=activation)
    turned = gp.conv_transpose1d(
        given[0], gp.flip(given[1].transpose(1, 0, 2), axis=2), given[2], padding=2, activation=activation, slope=0.2
    )
    assert_close(turned, expected, 10, dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_any_layout(device, rng, dtype):
    x, w, b = values(rng, dtype, 2, 6, 41), values(rng, dtype, 10, 6, 5), values(rng, dtype, 10)
    given = [upload(v, dtype) for v in (x, w, b)]
    expected = gp.conv1d(*given, stride=2, padding=2).to_numpy()
    time_first = upload(x.transpose(0, 2, 1), dtype).transpose(0, 2, 1)
    taps_first = upload(w.transpose(2, 1, 0), dtype).transpose(2, 1, 0)
    backwards = upload(b[::-1], dtype)[::-1]
    out = gp.zeros((2, 21, 10), dtype=dtype)
    assert gp.conv1d(time_first, taps_first, backwards, stride=2, padding=2, out=out.transpose(0, 2, 1)) is not None
    np.testing.assert_array_equal(out.to_numpy().transpose(0, 2, 1), expected)
    same = gp.broadcast_to(given[0][:1], (3, 6, 41))
    for item in gp.conv1d(same, *given[1:], stride=2, padding=2).to_numpy():
        np.testing.assert_array_equal(item, expected[0])
    # The result may lie where an input does.
    over = given[0] + 0
    square = upload(w[:6, :, :3], dtype)
    expected = gp.conv1d(over, square, padding=1).to_numpy()
    gp.conv1d(over, square, padding=1, out=over)
    np.testing.assert_array_equal(over.to_numpy(), expected)


def test_an_item_does_not_depend_on_the_batch_or_on_threads(device, rng):
    x, w = upload(rng.normal(size=(5, 48, 700)), "float32"), upload(rng.normal(size=(96, 48, 5)), "float32")
    transposed = upload(rng.normal(size=(48, 96, 8)), "float32")
    whole, up = gp.conv1d(x, w, padding=2).to_numpy(), gp.conv_transpose1d(x, transposed, stride=4).to_numpy()
    np.testing.assert_array_equal(gp.conv1d(x[3:4], w, padding=2).to_numpy(), whole[3:4])
    np.testing.assert_array_equal(gp.conv_transpose1d(x[3:4], transposed, stride=4).to_numpy(), up[3:4])
    # A step in time neither: the middle of the sound alone has the same bits.
    np.testing.assert_array_equal(gp.conv1d(x[:, :, 100:400], w).to_numpy(), whole[:, :, 102:398])
    threads = gp.num_threads()
    try:
        gp.set_num_threads(1)
        np.testing.assert_array_equal(gp.conv1d(x, w, padding=2).to_numpy(), whole)
        np.testing.assert_array_equal(gp.conv_transpose1d(x, transposed, stride=4).to_numpy(), up)
    finally:
        gp.set_num_threads(threads)


def test_conv_is_checked(device):
    x, w = gp.zeros((2, 6, 10)), gp.zeros((4, 6, 3))
    with pytest.raises(ValueError, match="conv1d: weight must have size 6 on axis 1"):
        gp.conv1d(x, gp.zeros((4, 5, 3)))
    with pytest.raises(ValueError, match="multiple of groups"):
        gp.conv1d(x, w, groups=4)
    with pytest.raises(ValueError, match="bias must have shape"):
        gp.conv1d(x, w, gp.zeros((6,)))
    with pytest.raises(ValueError, match="stride must be at least 1"):
        gp.conv1d(x, w, stride=0)
    with pytest.raises(ValueError, match="kernel of 13"):
        gp.conv1d(x, w, padding=1, dilation=6)
    with pytest.raises(ValueError, match="taps"):
        gp.conv1d(x, gp.zeros((4, 6, 0)))
    with pytest.raises(ValueError, match="activation must be"):
        gp.conv1d(x, w, activation="swish")
    with pytest.raises(gp.errors.DTypeError, match="weight must have dtype float32"):
        gp.conv1d(x, w.astype("float16"))
    with pytest.raises(gp.errors.DTypeError, match="float"):
        gp.conv1d(x.astype("int32"), w)
    with pytest.raises(ValueError, match="output_padding must be smaller"):
        gp.conv_transpose1d(x, gp.zeros((6, 4, 3)), output_padding=1)
    with pytest.raises(ValueError, match="weight must have size 6 on axis 0"):
        gp.conv_transpose1d(x, w)
    with pytest.raises(ValueError, match="padding must be one or two integers"):
        gp.conv2d(gp.zeros((1, 6, 4, 4)), gp.zeros((4, 6, 1, 1)), padding=(1, 1, 1))


DEPTHWISE = [  # batch, channels, outputs of a group, length, taps, and the rest
    (1, 1, 1, 1, 1, {}),
    (2, 7, 1, 33, 3, {"padding": 1}),
    (1, 40, 2, 1100, 5, {"padding": 4, "dilation": 2}),
    (3, 5, 8, 61, 4, {"stride": 3, "padding": 2}),
    (1, 3, 9, 40, 3, {"padding": 1}),  # so many outputs of a group are a tile's work
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_depthwise(device, rng, dtype):
    """Groups of one channel have a kernel of their own: the bits are those of the sums in one group on CUDA cores."""
    for batch, channels, outs, length, taps, options in DEPTHWISE:
        x, w = values(rng, dtype, batch, channels, length), values(rng, dtype, channels * outs, 1, taps)
        b = values(rng, dtype, channels * outs)
        wide = {**options, "groups": channels}
        given, got = check(gp.conv1d, convolutions.conv, x, w, b, dtype, in_tuples(wide), **wide, activation=None)
        full = np.zeros((channels * outs, channels, taps))
        for o in range(channels * outs):
            full[o, o // outs] = w[o, 0]
        same = gp.conv1d(given[0], upload(full, dtype), given[2], **options)
        if device.kind == "cpu" or dtype in ("float32", "float64"):
            np.testing.assert_array_equal(download(got), download(same))
        else:
            np.testing.assert_allclose(download(got), download(same), rtol=2 * TOLERANCE[dtype], atol=TOLERANCE[dtype])
        turned = gp.zeros(got.shape[::-1], dtype=dtype).T
        strided = upload(x.transpose(2, 0, 1), dtype).transpose(1, 2, 0)
        gp.conv1d(strided, upload(w.T, dtype).T, given[2], **wide, out=turned)
        np.testing.assert_array_equal(download(turned), download(got))
        image = [upload(v, dtype) for v in (x[:, :, None].repeat(3, 2), w[:, :, None].repeat(2, 2))]
        plain = {k: (0 if k == "padding" else 1, v) for k, v in options.items()}
        flat = convolutions.conv(x, 2 * w, b, **in_tuples(wide))
        got = gp.conv2d(*image, given[2], **plain, groups=channels)
        limit = convolutions.conv(np.abs(x), 2 * np.abs(w), np.abs(b), **in_tuples(wide))
        assert_close(got, flat[:, :, None].repeat(2, 2), limit[:, :, None], dtype)
        step = options.get("stride", 1)
        over = check(
            gp.conv_transpose1d, convolutions.conv_transpose1d, x, w.reshape(channels, outs, taps), b, dtype,
            {"stride": step, "groups": channels}, stride=step, groups=channels,
        )[1]  # fmt: skip
        assert over.shape[1] == channels * outs
    for name in convolutions.ACTIVATIONS:
        got = gp.conv1d(*given, **wide, activation=name, slope=0.2)
        expected = convolutions.conv(x, w, b, **in_tuples(wide), activation=name)
        assert_close(got, expected, 10, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("groups", [1, 4])
def test_hostile_sounds(device, rng, dtype, groups):
    """An output is NaN or infinite where, and only where, one of its own inputs or weights makes it so."""
    x, w = values(rng, dtype, 2, 4, 60), values(rng, dtype, 4, 4 // groups, 5)
    x[0, 1, 10], x[0, 2, 30], x[1, 0, 50] = np.nan, np.inf, -np.inf
    given = upload(x, dtype), upload(w, dtype)
    with np.errstate(invalid="ignore"):
        expected = convolutions.conv(x, w, padding=(2,), groups=groups)
        up = convolutions.conv_transpose1d(x, w, stride=3, groups=groups)
    for got, want in (
        (gp.conv1d(*given, padding=2, groups=groups), expected),
        (gp.conv_transpose1d(*given, stride=3, groups=groups), up),
    ):
        got = download(got)
        for state in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(state(got), state(want), err_msg=state.__name__)
        finite = np.isfinite(want)
        np.testing.assert_allclose(got[finite], want[finite], rtol=0.02, atol=0.05)
