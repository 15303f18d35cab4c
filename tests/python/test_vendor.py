"""Products by cuBLASLt: refused without it, right with it. The table of what it makes is generated."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import driver_library
import numpy as np
import pytest
from conftest import REQUIRE_GPU

import pygpukit as gp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
make_vendor_table = importlib.import_module("make_vendor_table")
Product = make_vendor_table.Product


@pytest.mark.skipif(sys.platform != "linux", reason="uses LD_LIBRARY_PATH")
def test_without_the_library_the_kernel_is_refused_with_its_reason(tmp_path):
    code = """
    import pygpukit as gp
    a = gp.empty((16, 16), dtype="float16", device="cuda")
    try:
        gp.matmul(a, a, kernel="cublaslt")
    except RuntimeError as error:
        print(error)
    """
    text = driver_library.run(driver_library.build(tmp_path), code, PYGPUKIT_NO_CUBLASLT="1")
    assert text.startswith(
        "matmul: kernel 'cublaslt' cannot serve: cuBLASLt not available: PYGPUKIT_NO_CUBLASLT is set"
    )


def test_a_kernel_that_is_not_one_is_refused():
    codes, scale = gp.quantize(gp.ones((4, 16), device="cpu"), "fp8_e4m3", block="row")
    with pytest.raises(ValueError, match="'wgmma', 'cublaslt' or None"):
        gp.scaled_matmul(codes, codes, scale, scale, kernel="fast")
    for kernel in ("wgmma", "cublaslt"):
        with pytest.raises(NotImplementedError, match=f"scaled_matmul: kernel '{kernel}' is one of a GPU.*kernel=None"):
            gp.scaled_matmul(codes, codes, scale, scale, kernel=kernel)


def test_committed_table_is_current():
    assert make_vendor_table.main(["--check"]) == 0


def test_runs_of_rows_that_it_wins():
    def times(own, lt):
        return {"own_us": [own, own, 1.0], "lt_us": [lt, lt, 100.0]}  # the median counts

    shapes = {
        "bf16_nk 16x64x32": times(10.0, 9.0),
        "bf16_nk 64x64x32": times(10.0, 9.0),
        "bf16_nk 256x64x32": times(10.0, 9.95),  # within the margin
        "bf16_nk 2048x64x32": times(10.0, 8.0),
        "bf16 16x64x32": times(9.0, 10.0),
        "fp8_row_nk 64x64x64": times(3.0, 2.0),
    }
    rows = make_vendor_table.rows(make_vendor_table.winners([shapes]))
    assert rows == [
        (Product("bf16", True, 64, 32, 16), 64),
        (Product("bf16", True, 64, 32, 2048), 2048),
        (Product("fp8_row", True, 64, 64, 64), 64),
    ]
    text = make_vendor_table.generate(rows)
    assert "{VendorFormat::bfloat16, Major::k, 16, 64, 64, 32}," in text and "std::array<VendorRow, 3>" in text
    slower = {name: times(1.0, 2.0) for name in shapes}
    assert make_vendor_table.rows(make_vendor_table.winners([shapes, slower])) == []


def cublaslt():
    entry = next(library for library in gp._core._libraries() if library["name"] == "cuBLASLt")
    if entry["path"] is None:
        (pytest.fail if REQUIRE_GPU else pytest.skip)(entry["reason"])
    return entry["version"]


def relative(got, a, b):
    want = a.to_numpy(dtype="float64") @ b.to_numpy(dtype="float64")
    return np.linalg.norm(got.to_numpy(dtype="float64") - want) / np.linalg.norm(want)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "bound"), [("bfloat16", 4e-3), ("float16", 5e-4), ("float32", 1e-6), ("float64", 1e-14)]
)
@pytest.mark.parametrize("size", [(256, 512, 384), (16, 2048, 1024), (100, 200, 304), (1, 64, 512)])
def test_products_are_right(dtype, bound, size):
    cublaslt()
    m, k, n = size
    with gp.device("cuda"):
        a, b = gp.random.normal((m, k), dtype=dtype, seed=1), gp.random.normal((k, n), dtype=dtype, seed=2)
        turned = b.T.copy().T
        for right in (b, turned):
            assert relative(gp.matmul(a, right, kernel="cublaslt"), a, right) <= bound
        assert relative(gp.matmul(turned.T, a.T, kernel="cublaslt"), turned.T, a.T) <= bound


@pytest.mark.gpu
def test_integers_are_exact_and_tf32_is_asked_for():
    cublaslt()
    with gp.device("cuda"):
        a, b = (gp.random.randint(-127, 128, (128, 256), dtype="int8", seed=s) for s in (1, 2))
        theirs, ours = (gp.matmul(a, b.T, out_dtype="int32", kernel=kernel) for kernel in ("cublaslt", "wgmma"))
        assert (theirs.to_numpy() == ours.to_numpy()).all()
        x, y = (gp.random.normal((256, 256), dtype="float32", seed=s) for s in (3, 4))
        assert 1e-6 < relative(gp.matmul(x, y, kernel="cublaslt", use_tf32=True), x, y) < 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("block", ["tensor", "row"])
def test_float8_agrees_with_ours(block):
    cublaslt()
    with gp.device("cuda"):
        x, w = (gp.random.normal((256, 1024), dtype="bfloat16", seed=s) for s in (1, 2))
        (a, s), (b, t) = (gp.quantize(v, "fp8_e4m3", block=block) for v in (x, w))
        ours = gp.scaled_matmul(a, b, s, t, out_dtype="bfloat16", kernel="wgmma").to_numpy(dtype="float64")
        theirs = gp.scaled_matmul(a, b, s, t, out_dtype="bfloat16", kernel="cublaslt").to_numpy(dtype="float64")
        assert np.linalg.norm(ours - theirs) <= 4e-3 * np.linalg.norm(ours)


@pytest.mark.gpu
def test_replays_have_the_bits_of_calls():
    version = cublaslt()
    with gp.device("cuda"):
        x, w = (
            gp.random.normal((64, 3584), dtype="bfloat16", seed=1),
            gp.random.normal((3584, 3584), dtype="bfloat16", seed=2),
        )
        out = gp.zeros((64, 3584), dtype="bfloat16")
        eager = gp.matmul(x, w.T, kernel="cublaslt").to_numpy(dtype="float32")
        assert f": cuBLASLt {version}, its first algorithm for " in gp.explain_matmul(x, w.T, kernel="cublaslt")
        graph = gp.CudaGraph()
        graph.begin_capture()
        gp.matmul(x, w.T, out=out, kernel="cublaslt")
        graph.end_capture()
        for _ in range(3):
            graph.replay()
            gp.synchronize()
            assert (out.to_numpy(dtype="float32") == eager).all()
        assert graph.verify()
        with gp.determinism("batch_invariant"), pytest.raises(RuntimeError, match="batch_invariant"):
            gp.matmul(x, w.T, kernel="cublaslt")


@pytest.mark.gpu
def test_serves_only_where_it_is_asked_for():
    """Products of the table: ours by default, so that an installed library changes no bits."""
    cublaslt()
    with gp.device("cuda"):
        for m, k, n in ((64, 3584, 3584), (1024, 1024, 1024)):
            a, b = gp.zeros((m, k), dtype="bfloat16"), gp.zeros((n, k), dtype="bfloat16").T
            assert "cuBLASLt" not in gp.explain_matmul(a, b)
            with gp.determinism("batch_invariant"):
                assert "cuBLASLt" not in gp.explain_matmul(a, b)
            with gp.determinism("not_guaranteed"):
                assert "cuBLASLt" in gp.explain_matmul(a, b)
