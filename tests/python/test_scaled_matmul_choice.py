"""Which kernel makes a product of quantised matrices: explained, and the same for every layout."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp


@pytest.mark.parametrize("k", [256, 200])
@pytest.mark.parametrize("m", [1, 9, 130])
def test_layout_changes_no_bit_of_float8(device, rng, m, k):
    """Rows that start anywhere, results that lie by columns: never another kernel's sums."""
    left = gp.quantize(gp.from_numpy(rng.standard_normal((m, k)).astype(np.float32)), "fp8_e4m3", block="row")
    right = gp.quantize(gp.from_numpy(rng.standard_normal((64, k)).astype(np.float32)), "fp8_e4m3", block="row")

    bias = gp.from_numpy(rng.standard_normal(64).astype(np.float32))

    def product(a, b, out=None, scale_b=right[1], bias=bias):
        result = gp.scaled_matmul(a, b, scale_a=left[1], scale_b=scale_b, bias=bias, out=out)
        return result.contiguous().to_numpy().tobytes()

    def shifted(x, pitch, start):
        room = gp.zeros((x.shape[0], pitch), dtype="uint8")
        room[:, start : start + k] = gp.bitcast(x, gp.uint8)
        return gp.bitcast(room[:, start : start + k], x.dtype)

    expected = product(left[0], right[0])
    for pitch, start in ((272, 16), (301, 0), (301, 7)):
        assert product(shifted(left[0], pitch, start), right[0]) == expected
        assert product(left[0], shifted(right[0], pitch, start)) == expected
    for start, step in ((1, 1), (3, 2)):
        rooms = [gp.zeros((64 * step + start,), dtype=x.dtype) for x in (right[1], bias)]
        views = [room[start::step] for room in rooms]
        for view, x in zip(views, (right[1], bias), strict=True):
            view[:] = x.reshape(64)
        scale_b, shifted_bias = views[0].expand_dims(1), views[1]
        assert product(left[0], right[0], scale_b=scale_b, bias=shifted_bias) == expected
    assert product(left[0], right[0], gp.empty((64, m)).T) == expected
    assert product(left[0], right[0], gp.empty((m, 65))[:, 1:]) == expected


def test_explain(device, rng):
    """The file that it names holds the kernel of the call."""
    sm = 0 if device.kind == "cpu" else gp.get_device_capabilities().sm_version

    def explain(rows, format, block, activations="bfloat16"):
        weight = gp.quantize(gp.from_numpy(rng.standard_normal((4096, 1024)).astype(np.float32)), format, block=block)
        x = gp.zeros((rows, 1024), activations)
        tensor = {"tensor_scale_b": weight[2]} if len(weight) == 3 else {}
        return gp.explain_scaled_matmul(x, weight[0], scale_b=weight[1], **tensor)

    text = explain(16, "int4", 128)
    start = f"[16, 1024] of bfloat16 by [4096, 512] of int4 into bfloat16 on {device}: "
    assert text.startswith(start)
    if sm == 0:
        assert text == start + "row by row (scaled_matmul_cpu.cpp)"
    else:
        assert "dequant_gemv.cuh" in explain(1, "int4", 128)
        assert "nvfp4_gemv.cuh" in explain(1, "nvfp4", 16)
        assert "any_format.cuh" in explain(16, "int8", "row", "float32")
    if sm == 90:
        assert "dequant_gemm_sm90.cuh" in explain(700, "int4", 128)
        x = gp.zeros((16, 1024), "float8_e4m3")
        assert "gemm_sm90_swap_ab.cuh" in gp.explain_scaled_matmul(x, gp.zeros((4096, 1024), "float8_e4m3"))
    assert gp.explain_scaled_matmul(gp.zeros((0, 64)), gp.zeros((8, 64), "int8")).endswith("nothing to compute")
    with pytest.raises(ValueError, match="explain_scaled_matmul: b must be 2D"):
        gp.explain_scaled_matmul(gp.zeros((3, 64)), gp.zeros((1, 8, 64), "int8"))


@pytest.mark.parametrize("format, block", [("int4", 128), ("nvfp4", 16), ("int8", "row"), ("fp8_e4m3", "row")])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_explain_names_the_kernel_that_is_launched(device, rng, format, block, rows):
    weight = gp.quantize(gp.from_numpy(rng.standard_normal((96, 256)).astype(np.float32)), format, block=block)
    options = {"tensor_scale_b": weight[2]} if len(weight) == 3 else {}
    for activations in ("bfloat16", "float32"):
        x = gp.zeros((rows, 256), activations)
        text = gp.explain_scaled_matmul(x, weight[0], scale_b=weight[1], **options)
        gp.scaled_matmul(x, weight[0], scale_b=weight[1], **options)
        if device.kind == "cpu":
            assert text.endswith("row by row (scaled_matmul_cpu.cpp)")
        else:
            kernel = text[text.index("gpukit::") : text.index(" (")]
            assert device.health()["recent_launches"].startswith(kernel), text
