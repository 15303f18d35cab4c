"""16-bit activations by weights of 8 and 4 bits: the kernels of sm_90 for many rows beside the plain ones.

Rows that lie backwards in memory are multiplied by the kernel whose order of sums is the definition: bits are compared.
"""

from __future__ import annotations

import numpy as np
import pytest
from opcase import download
from products import bits

import pygpukit as gp

FORMS = [
    ("fp8_e4m3", (128, 128), False),
    ("int8", "row", False),
    ("fp8_e4m3", "row", False),
    *(("int4", block, zero) for block in (32, 64, 128) for zero in (False, True)),
    ("nvfp4", 16, False),
    ("nvfp4", 32, False),
]


def weights(rng, n, k, format, block, zero):
    """Keywords of scaled_matmul, and the numbers in float64."""
    w = gp.from_numpy(rng.standard_normal((n, k)).astype(np.float32))
    data, scale, *more = gp.quantize(w, format, block=block, zero_point=zero)
    extra = {("zero" if zero else "tensor_scale"): more[0]} if more else {}
    numbers = gp.dequantize(data, scale, **extra).to_numpy().astype(np.float64)
    return {"b": data, "scale_b": scale} | {f"{name}_b": x for name, x in extra.items()}, numbers


def backwards(x):
    return gp.contiguous(x[::-1])[::-1]


def poisoned(shape, dtype):
    return gp.full(shape, float("nan"), dtype=dtype)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("m, n, k", [(16, 520, 640), (33, 200, 4224), (70, 1000, 2432), (129, 263, 1408), (300, 328, 4480)])
def test_bits_are_those_of_the_plain_kernel(device, rng, form, m, n, k):
    given, numbers = weights(rng, n, k, *form)
    x = gp.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).astype("bfloat16")
    wanted = download(x) @ numbers.T
    for dtype in ("bfloat16", "float32"):
        out = poisoned((m, n), dtype)
        gp.scaled_matmul(x, **given, out=out)
        assert np.linalg.norm(download(out) - wanted) <= 4e-3 * np.linalg.norm(wanted)
        if device.kind == "cuda":
            plain = gp.scaled_matmul(backwards(x), **given, out_dtype=dtype)
            assert np.array_equal(bits(out), bits(plain))


@pytest.mark.parametrize("form", [FORMS[0], FORMS[7], FORMS[8], FORMS[9]], ids=str)
@pytest.mark.parametrize("rounds", [1, 2])
def test_two_warpgroups_share_k(device, rng, form, rounds):
    """As many tiles as make that the fastest, for each multiprocessor one or two; chains that they share unevenly."""
    hopper = device.kind == "cuda" and gp.get_device_info().compute_capability[0] == 9
    sms = gp.get_device_info().multiprocessor_count if hopper else 1
    m, n, k = 33, (rounds - 1) * 128 * sms + 64 * sms - 9, 4480
    given, numbers = weights(rng, n, k, *form)
    x = gp.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).astype("bfloat16")
    if hopper:
        assert "two warpgroups" in gp.explain_scaled_matmul(x, **given)
    out = poisoned((m, n), "float32")
    gp.scaled_matmul(x, **given, out=out)
    wanted = download(x) @ numbers.T
    assert np.linalg.norm(download(out) - wanted) <= 4e-3 * np.linalg.norm(wanted)
    if device.kind == "cuda":
        assert np.array_equal(bits(out), bits(gp.scaled_matmul(backwards(x), **given, out_dtype="float32")))


@pytest.mark.parametrize("form", [FORMS[0], FORMS[1], FORMS[7], FORMS[9]], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_row_alone_and_in_the_batch(device, rng, form, dtype):
    m, n, k = 150, 392, 4352
    given, _ = weights(rng, n, k, *form)
    x = gp.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).astype(dtype)
    with gp.determinism("batch_invariant"):
        whole = bits(gp.scaled_matmul(x, **given))
        for first, last in ((0, 1), (3, 20), (7, 71), (149, 150)):
            part = gp.scaled_matmul(gp.contiguous(x[first:last]), **given)
            assert np.array_equal(bits(part), whole[first:last])


@pytest.mark.parametrize("form", [FORMS[0], FORMS[1], FORMS[8], FORMS[10]], ids=str)
def test_what_is_done_to_sums_and_where_they_go(device, rng, form):
    """Bias, alpha, results in any strides and of 8 bits; rows of weights and tokens that are slices."""
    m, n, k = 77, 330, 2304
    given, _ = weights(rng, n, k, *form)
    x = gp.from_numpy(rng.standard_normal((m, k + 16)).astype(np.float32)).astype("bfloat16")[:, 8 : k + 8]
    bias = gp.from_numpy(rng.standard_normal(n).astype(np.float16))
    options = {"alpha": 0.25, "bias": bias}
    plain = gp.scaled_matmul(x, **given, **options, out_dtype="float32")
    held = poisoned((n, m), "float32")
    gp.scaled_matmul(x, **given, **options, out=held.T)
    assert np.array_equal(bits(held).T, bits(plain))
    wide = poisoned((m, n + 3), "float32")
    gp.scaled_matmul(x, **given, **options, out=wide[:, 1 : n + 1])
    got = download(wide)
    assert np.array_equal(got[:, 1 : n + 1], download(plain))
    assert np.isnan(got[:, 0]).all() and np.isnan(got[:, n + 1 :]).all()
    by = gp.from_numpy(np.array(0.5, np.float32))
    small = gp.scaled_matmul(x, **given, **options, out_dtype="float8_e4m3", out_scale=by)
    wanted = gp.from_numpy((download(plain) / 0.5).astype(np.float32)).astype("float8_e4m3")
    assert np.array_equal(bits(small), bits(wanted))
