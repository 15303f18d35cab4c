"""Every operation with ``out=`` can be captured, allocates nothing once warm, and gives the same bits either way."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from audio_calls import CALLS as AUDIO_CALLS
from cases_capture import CALLS, Call
from test_ops import CASES, lay_out

import pygpukit as gp
from pygpukit import memory
from pygpukit.ops import audio_features

MODULES = (gp.ops, gp.random, audio_features)


def with_out(module):
    """The functions of a module that may be given ``out``, by the signatures they are bound with."""
    signatures = {name: str(getattr(getattr(module, name), "__nb_signature__", "")) for name in module.__all__}
    return {name for name, text in signatures.items() if re.search(r"\bout: [^:]*\| None", text)}


def of_case(case, dtype, layout):
    shape = case.layout_shape

    def make(rng):
        return [lay_out(x, case.input_dtype(i, dtype), layout) for i, x in enumerate(case.inputs(rng, shape, dtype))]

    def run(arrays, **more):
        return getattr(gp.ops, case.name)(*arrays, **case.kwargs, **more)

    label = "-".join([*(f"{k}={v}" for k, v in case.kwargs.items()), dtype, layout])
    return Call(case.name, make, run, label)


def chosen(dtypes):
    """The first and the last, and those whose kernels differ most."""
    return sorted({dtypes[0], dtypes[-1], *({"float32", "float16", "int8"} & set(dtypes))})


def every_call():
    calls = [*CALLS, *AUDIO_CALLS]
    for case in CASES:
        if not case.has_out:
            continue
        calls += [of_case(case, dtype, "contiguous") for dtype in chosen(case.dtypes)]
        calls.append(of_case(case, case.dtypes[-1], "transposed"))
        calls += [
            Call(
                alias,
                call.make,
                lambda arrays, c=case, a=alias, **more: getattr(gp.ops, a)(*arrays, **c.kwargs, **more),
            )
            for alias in case.aliases
            for call in (of_case(case, case.dtypes[0], "contiguous"),)
        ]
    return calls


EVERY_CALL = [pytest.param(call, id=call.id) for call in every_call()]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def bits(result):
    return [(x.shape, x.dtype.name, x.contiguous().to_numpy().tobytes()) for x in as_tuple(result)]


def like(result):
    made = tuple(gp.empty(x.shape, dtype=x.dtype) for x in as_tuple(result))
    return made if isinstance(result, tuple) else made[0]


def turned_like(result):
    """Arrays of the same shapes, dense along their first axis."""
    return gp.empty(result.shape[::-1], dtype=result.dtype).T


def capture(call, arrays, out):
    graph = gp.CudaGraph()
    with graph.capture():
        returned = call.run(arrays, out=out)
    assert all(a is b for a, b in zip(as_tuple(returned), as_tuple(out), strict=True))
    return graph


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rsplit(".")[-1])
def test_every_function_with_out_has_a_call(module):
    called = {call.name for call in every_call() if call.module is module}
    assert with_out(module), "no function tells its signature"
    assert with_out(module) == called


@pytest.mark.parametrize("call", EVERY_CALL)
def test_replays_are_eager_calls(call, device, rng):
    arrays, others = call.make(rng), call.make(np.random.default_rng(99))
    eager = call.run(arrays)
    outs = [like(eager)]
    if not isinstance(eager, tuple) and eager.ndim > 1:
        outs.append(turned_like(eager))
    graphs = [capture(call, arrays, out) for out in outs]
    for graph, out in zip(graphs, outs, strict=True):
        graph.replay()
        assert bits(out) == bits(eager)
    changed = bits(call.run(others))
    for source, destination in zip(others, arrays, strict=True):
        gp.copy_to(source, destination)
    for graph, out in zip(graphs, outs, strict=True):
        graph.replay()
        graph.replay()
        assert bits(out) == changed


@pytest.mark.parametrize("call", EVERY_CALL)
def test_a_warm_call_allocates_nothing(call, device, rng):
    arrays = call.make(rng)
    out = like(call.run(arrays))
    call.run(arrays, out=out)
    gp.synchronize()
    before = device.memory_stats()["allocations"]
    for _ in range(3):
        call.run(arrays, out=out)
    assert device.memory_stats()["allocations"] == before


@pytest.mark.parametrize("call", [p for p in EVERY_CALL if p.values[0].overlaps])
def test_out_may_lie_in_an_input(call, device, rng):
    """Right, or refused by the operation itself."""
    result = call.run(call.make(rng))
    if isinstance(result, tuple) or result.size == 0:
        return
    for i in range(len(call.make(rng))):
        arrays = call.make(np.random.default_rng(5))
        if arrays[i].dtype != result.dtype or arrays[i].size < result.size or not arrays[i].is_contiguous():
            continue
        expected = bits(call.run(arrays))
        out = arrays[i].reshape(-1)[: result.size].reshape(*result.shape)
        try:
            call.run(arrays, out=out)
        except ValueError as error:
            assert re.match(rf"(random\.)?{call.name}: ", str(error)), error
        else:
            assert bits(out) == expected, f"over input {i}"


@pytest.mark.parametrize("call", [pytest.param(call, id=call.id) for call in [*CALLS, *AUDIO_CALLS]])
@pytest.mark.parametrize("quota", [1 << 10, 1 << 20])
def test_little_memory_changes_no_bits(call, quota, device, rng):
    """It raises, with its own name, or gives what it always gives."""
    arrays = call.make(rng)
    expected = call.run(arrays)
    out = like(expected)
    memory.set_default_pool(memory.MemoryPool(quota))
    try:
        call.run(arrays, out=out)
    except MemoryError as error:
        assert re.match(r"[\w.]+: needs a workspace of \d+ bytes: ", str(error)), error
    else:
        assert bits(out) == bits(expected)
    finally:
        memory.set_default_pool(None)


# One process a call, so that nothing at all has run before the capture.
COLD = """
import sys
import numpy as np
import pygpukit as gp
sys.path.insert(0, {folder!r})
from cases_capture import CALLS
from test_capture_every_op import capture, digest
call = next(call for call in CALLS if call.id == {id!r})
with gp.device({device!r}):
    arrays = call.make(np.random.default_rng(1234))
    out = gp.empty({shape!r}, dtype={dtype!r})
    graph = capture(call, arrays, out)
    graph.replay()
    print(digest(out))
"""


def digest(result):
    return hashlib.sha256(repr(bits(result)).encode()).hexdigest()


@pytest.mark.parametrize("id", ["sum-long", "var-long", "sum-tall", "cumsum-long", "scatter", "matmul-mixed"])
def test_the_first_call_of_a_process_may_be_captured(id, device, rng):
    call = next(call for call in CALLS if call.id == id)
    warm = call.run(call.make(rng))
    for _ in range(2):
        warm = call.run(call.make(np.random.default_rng(1234)))
    code = COLD.format(
        folder=str(Path(__file__).parent),
        id=id,
        device=str(device),
        shape=tuple(warm.shape),
        dtype=warm.dtype.name,
    )
    cold = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert cold.returncode == 0, cold.stderr
    assert cold.stdout.strip() == digest(warm)
