"""pack: the same numbers where the fast kernels can read them."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import download

import pygpukit as gp


def lies_well(x):
    step = 16 // x.itemsize
    return x.strides[-1] == x.itemsize and all(s // x.itemsize % step == 0 for s in x.strides[:-1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float8_e4m3"])
@pytest.mark.parametrize("shape", [(7, 33), (3, 5, 129), (2, 1, 7)])
def test_layout(device, dtype, shape):
    x = gp.random.normal(shape, seed=1, device=device).astype(dtype)
    packed = gp.pack(x)
    assert packed.shape == x.shape and packed.dtype == x.dtype and lies_well(packed)
    assert (download(packed) == download(x)).all()
    assert gp.pack(packed) is packed
    turned = gp.pack(x.T)
    assert lies_well(turned)
    assert (download(turned) == download(x).T).all()


def test_what_lies_well_is_not_copied(device):
    for x in (gp.zeros((4, 64), device=device), gp.zeros((4, 1), device=device), gp.zeros((), device=device)):
        assert gp.pack(x) is x


def test_bad_argument():
    with pytest.raises(TypeError, match="pack"):
        gp.pack([[1.0]])


def test_weights_across_k(device):
    """Weights that a checkpoint keeps as [k, n] take the fast kernels once they are packed; the numbers are the same."""
    x = gp.random.normal((4, 512), seed=1, device=device).astype("bfloat16")
    across = gp.random.normal((512, 96), seed=2, device=device).astype("float8_e4m3")
    plain = gp.scaled_matmul(x, across.T, out_dtype="float32")
    packed = gp.scaled_matmul(x, gp.pack(across.T), out_dtype="float32")
    wanted = download(x) @ download(across.astype("float32"))
    for result in (plain, packed):
        assert np.linalg.norm(download(result) - wanted) < 1e-3 * np.linalg.norm(wanted)


@pytest.mark.gpu
def test_odd_rows_reach_the_copy_engine():
    """A k that is no multiple of 16 bytes: with rows that are, the copy engine of sm_90 reads the matrix."""
    if gp.get_device_info().compute_capability[0] != 9:
        pytest.skip("sm_90")
    a, b = (gp.random.normal((256, 1001), seed=s, device="cuda").astype("bfloat16") for s in (1, 2))
    assert "wgmma" not in gp.explain_matmul(a, b.T)
    left, right = gp.pack(a), gp.pack(b)
    assert "wgmma" in gp.explain_matmul(left, right.T)
    assert (download(left @ right.T) == download(a @ b.T)).all()
