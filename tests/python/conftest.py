"""Fixtures: every device present, fixed seeds, float64 comparison."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.testing import default_tolerance

REQUIRE_GPU = os.environ.get("PYGPUKIT_REQUIRE_GPU", "") not in ("", "0")
HAS_GPU = gp.is_cuda_available()


def pytest_collection_modifyitems(items):
    for item in items:
        if "gpu" in item.keywords and not HAS_GPU and not REQUIRE_GPU:
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def pytest_runtest_setup(item):
    if REQUIRE_GPU and not HAS_GPU and "gpu" in item.keywords:
        pytest.fail(f"PYGPUKIT_REQUIRE_GPU is set and there is no GPU: {gp.cuda_unavailable_reason()}", pytrace=False)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)] if HAS_GPU or REQUIRE_GPU else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request):
    """Runs the test on each device present; new arrays go there."""
    with gp.device(request.param):
        yield gp.device(request.param)


@pytest.fixture(scope="session")
def assets():
    """The folder of real weights, tokenizers and speech that PYGPUKIT_ASSETS names."""
    folder = os.environ.get("PYGPUKIT_ASSETS")
    if folder and Path(folder).is_dir():
        return Path(folder)
    reason = f"PYGPUKIT_ASSETS is {folder!r}: no folder of real weights"
    if os.environ.get("PYGPUKIT_REQUIRE_ASSETS", "") not in ("", "0"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def fresh_contexts():
    """On the CPU, with no execution context before and none after."""
    from pygpukit.scheduler.execution import reset

    with gp.device("cpu"):
        reset()
        yield
        reset()


@pytest.fixture
def rng():
    return np.random.default_rng(1234)


def to_float64(x):
    """A GPUArray or NumPy array as float64 (complex128 for complex), whatever its dtype."""
    if isinstance(x, gp.GPUArray):
        if x.dtype.name.startswith("complex"):
            return x.to_numpy(dtype="complex128")
        x = x.to_numpy(dtype="float64") if x.dtype.name.startswith(("float", "bfloat")) else x.to_numpy()
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def assert_close(actual, reference, dtype=None, scale=1.0):
    """Compares with a float64 reference. The tolerance is the dtype's, times `scale` for sums of many terms."""
    rtol, atol = default_tolerance(dtype if dtype is not None else actual.dtype)
    reference = np.asarray(reference)
    assert tuple(actual.shape) == reference.shape, f"shape {actual.shape} is not {reference.shape}"
    np.testing.assert_allclose(to_float64(actual), to_float64(reference), rtol=rtol * scale, atol=atol * scale)


@pytest.fixture
def close():
    return assert_close
