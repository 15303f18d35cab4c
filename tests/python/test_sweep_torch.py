"""The sweep's peer, PyTorch, on the CPU: every family's call takes the dtypes of a GPU and computes what ours does."""

import functools
import random

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.benchmark import sweep, torch_layers
from pygpukit.benchmark.sweep.family import _to_numpy, relative_error

torch = pytest.importorskip("torch")
TorchDispatchMode = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode

FAMILIES = {family.name: family for family in sweep.FAMILIES}


class Small(sweep.Draw):
    """What a GPU is given, at sizes for a CPU."""

    def size(self, low, high, step=1):
        most = (1 << 13) if high >= 1 << 20 else 64
        return super().size(low, max(low, 2 * step, min(high, most)), step)


class NothingWaits(TorchDispatchMode):
    """Refuses what on a GPU waits for its results, and so cannot be captured."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "multinomial", "repeat_interleave.Tensor")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert not any(name in str(function) for name in self.WAITING), f"{function} waits"
        return function(*args, **(kwargs or {}))


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
                with NothingWaits():
                    result = call()
            except RuntimeError as fault:  # flash and cuDNN are of a GPU
                assert "No viable backend" in str(fault), (str(case), way)
                continue
            ways.add(way)
            assert result.shape == family.pick(ours).shape, str(case)
            assert error_of(family, arrays, result, case.options) <= bound, (str(case), way)
        family.done()
    assert ways


def test_torch_draws_tokens_by_their_shares():
    shares = torch.tensor([[0.5, 0.0, 0.3, 0.2]]).expand(20000, 4)
    found = np.bincount(torch_layers.drawn(torch, shares)[:, 0].numpy(), minlength=4) / 20000
    assert found[1] == 0 and np.abs(found - [0.5, 0, 0.3, 0.2]).max() < 0.02


def test_torch_draws_among_the_likeliest():
    logits = gp.random.normal((64, 500), seed=1).astype("bfloat16")
    ways = torch_layers.layer_calls(torch, "sampling", {"logits": logits}, {"temperature": 0.8, "top_k": 5, "top_p": 0.9})
    with NothingWaits():
        tokens = ways["sort"]()
    likely = np.sort(_to_numpy(logits), axis=1)[:, -5]
    assert tokens.dtype == torch.int32
    assert (_to_numpy(logits)[np.arange(64), tokens.numpy()] >= likely).all()
