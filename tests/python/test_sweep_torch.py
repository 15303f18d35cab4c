"""The sweep's peer, PyTorch, on the CPU: every family's call takes the dtypes of a GPU and computes what ours does."""

import functools
import random

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.benchmark import sweep, torch_layers
from pygpukit.benchmark.sweep.family import _to_numpy, relative_error

torch = pytest.importorskip("torch")

FAMILIES = {family.name: family for family in sweep.FAMILIES}


class Small(sweep.Draw):
    """What a GPU is given, at sizes for a CPU."""

    def size(self, low, high, step=1):
        most = (1 << 13) if high >= 1 << 20 else 64
        return super().size(low, max(low, 2 * step, min(high, most)), step)


@pytest.fixture(autouse=True)
def cpu():
    with gp.device("cpu"):
        yield


def draws(family, count):
    """The few rows by large weights that only a GPU is given are drawn as for the CPU."""
    for number in range(count):
        rng = random.Random(f"{number} {family.name}")
        yield number, family.draw(sweep.Draw(rng, False) if family.name.startswith("few_") else Small(rng, True))


def torch_calls(family, arrays, options):
    """Calls of torch by the way they take."""
    if isinstance(family.torch, sweep.Layer):
        named = dict(zip(family.torch.names, arrays, strict=True))
        return torch_layers.layer_calls(torch, family.torch.kind, named, options)
    return {"": functools.partial(family.torch, torch, [torch.from_dlpack(x) for x in arrays], **options)}


def error_of(family, arrays, result, options):
    """By the unquantised inputs: torch multiplies weights as they are."""
    wide, got = [_to_numpy(x) for x in arrays], _to_numpy(gp.from_dlpack(result.contiguous()))
    if family.check is not None:
        return family.check(got, wide, **options)
    assert got.shape == family.numpy(wide, **options).shape
    return relative_error(got, np.asarray(family.numpy(wide, **options)))


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_torch_computes_the_same(name):
    family, ways = FAMILIES[name], set()
    for number, case in draws(family, 6):
        arrays = [x.make(100 * number + i) for i, x in enumerate(case.inputs)]
        ours = family.ours(arrays, None, **case.options)
        error, bound = family.error(arrays, family.pick(ours), case.options)
        assert error <= bound, str(case)
        for way, call in torch_calls(family, arrays, case.options).items():
            try:
                result = call()
            except RuntimeError as fault:  # flash and cuDNN are of a GPU
                assert "No viable backend" in str(fault), (str(case), way)
                continue
            ways.add(way)
            assert result.shape == family.pick(ours).shape, str(case)
            assert error_of(family, arrays, result, case.options) <= bound, (str(case), way)
        family.done()
    assert ways
