"""Convolutions on the tensor cores of a GPU: their bounds, and that bits follow from channels and taps alone."""

from __future__ import annotations

import convolutions
import numpy as np
import pytest
from opcase import download, round_to, upload

import pygpukit as gp

DTYPES = ["float16", "bfloat16", "tf32"]
EPSILON = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24}
SIZES = [1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 40, 63, 64, 65, 80, 100, 129]
MOST_WORK = 4_000_000  # multiply-adds of a random case, of tiles that are filled with zeros
NUM_RANDOM = {"cpu": 6, "cuda": 10}


def stored(dtype):
    return "float32" if dtype == "tf32" else dtype


def values(rng, dtype, *shape):
    return round_to(rng.normal(size=shape), stored(dtype))


def tf32(dtype):
    return {"use_tf32": True} if dtype == "tf32" else {}


def bits(x):
    return gp.bitcast(x.contiguous().reshape(-1), "uint32" if x.dtype.name == "float32" else "uint16").to_numpy()


def assert_bound(got, function, x, w, b, dtype, options, where):
    """float32 sums in steps that the unit cuts off at 2^-23 of the largest, products of rounded factors, one rounding."""
    expected = function(x, w, b, **options)
    magnitude = function(np.abs(x), np.abs(w), np.abs(b), **options)
    step = 2.0**-24 * (w[0].size + w.shape[1] + 8) + (2.0**-10 if dtype == "tf32" else 0.0)
    bound = magnitude * step + np.abs(expected) * EPSILON[stored(dtype)] + (2.0**-24 if dtype == "float16" else 0.0)
    assert got.shape == expected.shape and got.dtype.name == stored(dtype), where
    assert (np.abs(download(got) - expected) <= bound).all(), where


def spaced(rng, values, dtype):
    """The same values as a view: rows apart by a number of elements that is no multiple of 16 bytes, from an odd place."""
    flat = values.reshape(-1, values.shape[-1])
    width = values.shape[-1] + int(rng.integers(0, 9))
    room = np.full((flat.shape[0] * width + 16,), np.nan)
    first = int(rng.integers(0, 9))
    rows = room[first : first + flat.shape[0] * width].reshape(-1, width)
    rows[:, : flat.shape[1]] = flat
    held = upload(room, stored(dtype))[first : first + flat.shape[0] * width]
    return held.reshape((*values.shape[:-1], width))[..., : values.shape[-1]]


def turned(values, dtype):
    """The same values with the channels side by side."""
    order = (0, *range(2, values.ndim), 1)
    back = (0, values.ndim - 1, *range(1, values.ndim - 1))
    return upload(values.transpose(order), stored(dtype)).transpose(*back)


def draw(rng, *more):
    return int(rng.choice(SIZES + list(more)))


def random_case(rng, axes):
    """groups, batch, channels in and out of a group, and of each axis: length, taps, stride, padding, dilation."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        batch, ins, outs = int(rng.integers(1, 4)), draw(rng), draw(rng)
        space = []
        for _ in range(axes):
            taps = int(rng.integers(1, 12 if axes == 1 else 5))
            stride, dilation = int(rng.choice([1, 1, 2, 3, 5, 17])), int(rng.choice([1, 1, 2, 3, 7, 40]))
            space.append(
                (draw(rng, 300, 511) if axes == 1 else draw(rng), taps, stride, int(rng.integers(0, 20)), dilation)
            )
        sizes = [(n + 2 * p - d * (t - 1) - 1) // s + 1 for n, t, s, p, d in space]
        places = np.prod([float(max(n, size)) for size, (n, *_) in zip(sizes, space, strict=True)])
        taps = np.prod([taps for _, taps, *_ in space])
        work = batch * groups * max(ins, 32) * max(outs, 64) * max(places, 64) * taps
        if min(sizes) > 0 and work <= MOST_WORK and ins * outs >= 64:
            return groups, batch, ins, outs, space


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_conv1d(device, rng, dtype):
    for _ in range(NUM_RANDOM[device.kind]):
        groups, batch, ins, outs, [(length, taps, stride, padding, dilation)] = random_case(rng, 1)
        x, w = values(rng, dtype, batch, groups * ins, length), values(rng, dtype, groups * outs, ins, taps)
        b = values(rng, dtype, groups * outs)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        where = f"x {x.shape}, w {w.shape}, {options}"
        given = upload(x, stored(dtype)), upload(w, stored(dtype)), upload(b, stored(dtype))
        got = gp.conv1d(*given, **options, **tf32(dtype))
        in_tuples = {k: v if k == "groups" else (v,) for k, v in options.items()}
        assert_bound(got, convolutions.conv, x, w, b, dtype, in_tuples, where)
        for other in (spaced(rng, x, dtype), turned(x, dtype)):
            out = spaced(rng, np.zeros(got.shape), dtype)
            gp.conv1d(other, *given[1:], **options, **tf32(dtype), out=out)
            np.testing.assert_array_equal(bits(out), bits(got), err_msg=where)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_conv_transpose1d(device, rng, dtype):
    done = 0
    while done < NUM_RANDOM[device.kind]:
        groups, batch, ins, outs, [(length, taps, stride, padding, dilation)] = random_case(rng, 1)
        options = {"stride": stride, "padding": padding % 5, "dilation": dilation, "groups": groups}
        if (length - 1) * stride + dilation * (taps - 1) + 1 - 2 * options["padding"] not in range(1, 1500):
            continue
        done += 1
        x, w = values(rng, dtype, batch, groups * ins, length), values(rng, dtype, groups * ins, outs, taps)
        b = values(rng, dtype, groups * outs)
        where = f"x {x.shape}, w {w.shape}, {options}"
        given = upload(x, stored(dtype)), upload(w, stored(dtype)), upload(b, stored(dtype))
        got = gp.conv_transpose1d(*given, **options, **tf32(dtype))
        assert_bound(got, convolutions.conv_transpose1d, x, w, b, dtype, options, where)
        same = gp.conv_transpose1d(spaced(rng, x, dtype), *given[1:], **options, **tf32(dtype))
        np.testing.assert_array_equal(bits(same), bits(got), err_msg=where)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_conv2d(device, rng, dtype):
    for _ in range(NUM_RANDOM[device.kind]):
        groups, batch, ins, outs, space = random_case(rng, 2)
        lengths, taps, strides, paddings, dilations = zip(*space, strict=True)
        x, w = values(rng, dtype, batch, groups * ins, *lengths), values(rng, dtype, groups * outs, ins, *taps)
        b = values(rng, dtype, groups * outs)
        options = {"stride": strides, "padding": paddings, "dilation": dilations, "groups": groups}
        where = f"x {x.shape}, w {w.shape}, {options}"
        given = upload(x, stored(dtype)), upload(w, stored(dtype)), upload(b, stored(dtype))
        got = gp.conv2d(*given, **options, **tf32(dtype))
        assert_bound(got, convolutions.conv, x, w, b, dtype, options, where)
        for other in (spaced(rng, x, dtype), turned(x, dtype)):
            same = gp.conv2d(other, *given[1:], **options, **tf32(dtype))
            np.testing.assert_array_equal(bits(same), bits(got), err_msg=where)


@pytest.mark.parametrize("dtype", ["float16", "tf32"])
def test_bits_follow_from_channels_and_taps_alone(device, rng, dtype):
    """Not from the tile, the place in it, the batch, the length, the other outputs, or how taps reach their input."""
    x, w = values(rng, dtype, 2, 40, 300), values(rng, dtype, 130, 40, 3)
    given, weight = upload(x, stored(dtype)), upload(w, stored(dtype))
    more = tf32(dtype)
    whole = gp.conv1d(given, weight, padding=1, **more)
    one = gp.conv1d(given[1:, :, 101:230], weight, **more)
    np.testing.assert_array_equal(bits(one), bits(whole[1:, :, 102:229]))
    few = gp.conv1d(given, weight[70:75], padding=1, **more)
    np.testing.assert_array_equal(bits(few), bits(whole[:, 70:75]))
    # The same sums by other strides and dilations, of which the last are too far apart for one window.
    every_third = gp.conv1d(given, weight, padding=1, stride=3, **more)
    np.testing.assert_array_equal(bits(every_third), bits(whole[:, :, ::3]))
    for apart in (5, 211, 5000):
        wide = np.zeros((1, 40, 2 * apart + 5))
        for tap in range(3):
            wide[:, :, tap * apart : tap * apart + 5] = x[:1, :, 100 + tap : 105 + tap]
        got = gp.conv1d(upload(wide, stored(dtype)), weight, dilation=apart, **more)
        np.testing.assert_array_equal(bits(got), bits(whole[:1, :, 101:106]))
    image = gp.conv2d(given[:, :, None], weight[:, :, None], padding=(0, 1), **more)
    np.testing.assert_array_equal(bits(image), bits(whole))
    # Turned taps of a transposed convolution are those of a plain one in descending order: close, and right.
    back = gp.conv_transpose1d(given, upload(w.transpose(1, 0, 2)[:, :, ::-1], stored(dtype)), padding=1, **more)
    np.testing.assert_allclose(download(back), download(whole), rtol=0.02, atol=0.05)
    rows = upload(x.reshape(2, 40, 20, 15), stored(dtype))
    taps = upload(rng.normal(size=(70, 40, 3, 2)), stored(dtype))
    whole = gp.conv2d(rows, taps, padding=1, **more)
    part = gp.conv2d(rows[1:, :, 3:13, 2:14], taps[3:20], **more)
    np.testing.assert_array_equal(bits(part), bits(whole[1:, 3:20, 4:12, 3:14]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_weights_that_are_laid_out(device, rng, dtype):
    """The same bits, and no packing where channels are blocks of 16 bytes or what follows them is not read."""
    plain = [(48, 40, 3, 1), (33, 22, 5, 1), (64, 64, 1, 1), (24, 16, 7, 2), (9, 3, 3, 1)]
    packed = []
    for outs, ins, taps, groups in plain:
        x, w = upload(values(rng, dtype, 2, groups * ins, 45), dtype), upload(values(rng, dtype, outs, ins, taps), dtype)
        laid = gp.lay_out_conv_weight(w)
        np.testing.assert_array_equal(bits(laid), bits(w))
        got = gp.conv1d(x, laid, padding=2, groups=groups)
        np.testing.assert_array_equal(bits(got), bits(gp.conv1d(x, w, padding=2, groups=groups)))
        packed.append("packed" in gp.explain_conv1d(x, laid, padding=2, groups=groups))
        if groups == 1:
            turned = w.transpose(1, 0, 2).contiguous()
            laid = gp.lay_out_conv_weight(turned, transposed=True)
            back = gp.conv_transpose1d(x, laid, stride=3, padding=1)
            np.testing.assert_array_equal(bits(back), bits(gp.conv_transpose1d(x, turned, stride=3, padding=1)))
            packed.append("packed" in gp.explain_conv_transpose1d(x, laid, stride=3, padding=1))
    assert not any(packed)
    image, taps = (upload(values(rng, dtype, *shape), dtype) for shape in ((1, 16, 9, 8), (24, 16, 3, 2)))
    laid = gp.lay_out_conv_weight(taps)
    np.testing.assert_array_equal(bits(gp.conv2d(image, laid)), bits(gp.conv2d(image, taps)))
    assert "packed" not in gp.explain_conv2d(image, laid)
    with pytest.raises(ValueError, match="lay_out_conv_weight: weight must have 3 or 4 dimensions"):
        gp.lay_out_conv_weight(taps[0, 0])


def test_what_lies_around_the_input_is_not_read(device, rng):
    """Rows that start and end inside of 16 bytes: their neighbours are NaN."""
    x, w = values(rng, "float16", 1, 24, 77), values(rng, "float16", 16, 24, 5)
    expected = bits(gp.conv1d(upload(x, "float16"), upload(w, "float16"), padding=2))
    for first in range(9):
        room = np.full((24 * 79 + 20,), np.nan)
        room[first : first + 24 * 79].reshape(24, 79)[:, :77] = x[0]
        view = upload(room, "float16")[first : first + 24 * 79].reshape((1, 24, 79))[:, :, :77]
        np.testing.assert_array_equal(bits(gp.conv1d(view, upload(w, "float16"), padding=2)), expected)


@pytest.mark.parametrize("activation", [a for a in convolutions.ACTIVATIONS if a is not None])
def test_activations(device, rng, activation):
    for dtype in ("float16", "bfloat16"):
        x, w, b = values(rng, dtype, 1, 16, 61), values(rng, dtype, 33, 16, 3) / 8, values(rng, dtype, 33)
        w = round_to(w, dtype)
        expected = convolutions.conv(x, w, b, padding=(1,), activation=activation)
        got = gp.conv1d(*(upload(v, dtype) for v in (x, w, b)), padding=1, activation=activation, slope=0.2)
        np.testing.assert_allclose(download(got), expected, rtol=4 * EPSILON[dtype], atol=EPSILON[dtype])


def test_tf32_is_asked_for(device, rng):
    x, w = values(rng, "float32", 1, 64, 100), values(rng, "float32", 64, 64, 3)
    given = upload(x, "float32"), upload(w, "float32")
    exact = convolutions.conv(x, w)
    error = {t: np.abs(download(gp.conv1d(*given, use_tf32=t)) - exact).max() for t in (None, False, True)}
    assert error[None] == error[False] < 1e-4
    if device.kind == "cuda":
        assert 1e-4 < error[True] < 0.1
    else:
        assert error[True] == error[None]
    for function in (gp.conv1d, gp.explain_conv1d):
        with pytest.raises(gp.errors.Error, match="use_tf32 needs float32 inputs, got float16"):
            function(given[0].astype("float16"), given[1].astype("float16"), use_tf32=True)


def test_explanations(device):
    x, w = gp.zeros((1, 256, 4000), dtype="bfloat16"), gp.zeros((256, 256, 7), dtype="bfloat16")
    text = gp.explain_conv1d(x, w, padding=9, dilation=3, activation="gelu")
    up = gp.explain_conv_transpose1d(x, gp.zeros((256, 128, 12), dtype="bfloat16"), stride=6, padding=3)
    image, taps = gp.zeros((2, 64, 40, 40), dtype="float16"), gp.zeros((64, 64, 3, 3), dtype="float16")
    flat = gp.explain_conv2d(image, taps, padding=1)
    assert text.startswith("bfloat16 [1, 256, 4000] on ")
    assert gp.explain_conv1d(x[:0], w).endswith("nothing to compute")
    if device.kind == "cpu":
        assert "strips of gathered inputs" in text
        return
    for line in (text, up, flat):
        assert "conv_sm80" in line and "windows of all taps" in line and "packed" in line
    assert "gathered" not in text + up + flat
    assert "gathered" in gp.explain_conv1d(x.transpose(0, 2, 1)[:, :256], w)
    assert "a window a tap" in gp.explain_conv1d(x, w[:, :, :2], dilation=3000)
    exact = x.astype("float32"), w.astype("float32")
    assert "CUDA cores" in gp.explain_conv1d(*exact) and "tensor cores" in gp.explain_conv1d(*exact, use_tf32=True)
    assert "conv_depthwise" in gp.explain_conv1d(x, w[:, :1], groups=256)
    few = gp.zeros((1, 2, 99), dtype="float16"), gp.zeros((3, 2, 3), dtype="float16")
    assert "CUDA cores" in gp.explain_conv1d(*few)
