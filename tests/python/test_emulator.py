"""The emulated GPU of tools/emulate.py: it runs kernels, and finds what a GPU would not tell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    shutil.which("clang++") is None or not (ROOT / "build" / "release" / "libgpukit.a").exists(),
    reason="needs clang++ and the library that make build leaves",
)


def run(code, *options):
    command = [sys.executable, ROOT / "tools" / "emulate.py", *options, sys.executable, "-c", textwrap.dedent(code)]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=here)


def launch(body, threads=64, signature="float* out, const float* x", options=()):
    """Runs one block of a kernel over 64 floats; what it gave, or what was found."""
    source = f"__global__ void k({signature}) {{\n{body}\n}}"
    code = f"""
    import json, numpy as np, pygpukit as gp
    kernel = gp.jit({('extern "C" ' + source)!r}, func="k")
    with gp.device("cuda"):
        x = gp.from_numpy(np.arange(64, dtype=np.float32))
        out = gp.zeros((64,), dtype="float32")
        kernel(out, x, grid_size=1, block_size={threads}, shared_mem=256)
        print(json.dumps(out.to_numpy().tolist()))
    """
    done = run(code, "--strict", *options)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_threads_meet_at_barriers_and_in_warps():
    body = """
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    __syncthreads();
    float v = s[63 - i];
    for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
    out[i] = v + __popc(__ballot_sync(0xffffffffu, i % 2));
    """
    for seed in ("0", "7"):
        out = launch(body, options=("--seed", seed))
        assert out == [sum(range(32, 64)) + 16.0] * 32 + [sum(range(32)) + 16.0] * 32


def test_copies_arrive_at_the_wait_and_not_before():
    body = """
    extern __shared__ float s[];
    int i = threadIdx.x;
    if (i < 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
        "r"((unsigned)__cvta_generic_to_shared(s + 4 * i)), "l"(x + 4 * i), "r"(i == 15 ? 8 : 16));
    asm volatile("cp.async.commit_group;" ::: "memory");
    WAIT
    __syncthreads();
    out[i] = s[i];
    """
    done = launch(body.replace("WAIT", 'asm volatile("cp.async.wait_group 0;" ::: "memory");'))
    assert done == [*range(62), 0.0, 0.0]
    assert "nobody wrote" in launch(body.replace("WAIT", ""))


def test_products_of_fragments():
    code = """
    import numpy as np, pygpukit as gp
    rng = np.random.default_rng(1)
    with gp.device("cuda"):
        for dtype in ("float16", "bfloat16"):
            a, b = (gp.from_numpy(rng.standard_normal(s).astype("float32")).astype(dtype) for s in ((70, 96), (96, 72)))
            want = a.to_numpy(dtype="float64") @ b.to_numpy(dtype="float64")
            error = np.abs((a @ b).to_numpy(dtype="float64") - want).max()
            assert error < 0.1, (dtype, error)
    """
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_kernels_of_models_give_what_the_cpu_gives():
    """Attention, positions, caches, sampling, experts, convolutions, recurrences, norms: one small case of each."""
    done = run("import emulator_cases; emulator_cases.main()")
    assert done.returncode == 0, done.stderr
    assert done.stderr.split()[0] == "attention", done.stderr


FAULTS = {
    "past the end": ("out[threadIdx.x + 1] = 1.0f;", "out of bounds"),
    "before the start": ("out[threadIdx.x] = x[(int)threadIdx.x - 1];", "out of bounds"),
    "past shared memory": ("extern __shared__ float s[]; s[threadIdx.x + 1] = 1.0f;", "shared memory"),
    "past a local array": ("int n[2] = {1, 2}; out[threadIdx.x] = n[1 + (int)x[threadIdx.x]];", "outside of its array"),
    "unwritten shared memory": ("__shared__ float s[64]; out[threadIdx.x] = s[threadIdx.x];", "nobody wrote"),
    "no barrier": (
        "__shared__ float s[64]; s[threadIdx.x] = 1.0f; out[threadIdx.x] = s[threadIdx.x ^ 1];",
        ("race", "nobody wrote"),
    ),
    "read, then written": (
        "__shared__ float s[64]; s[threadIdx.x] = 1.0f; __syncthreads();"
        "float v = s[63 - threadIdx.x]; s[threadIdx.x] = v;",
        "race",
    ),
    "two writers": ("out[threadIdx.x / 2] = 1.0f;", "race"),
    "misaligned": ("out[threadIdx.x] = reinterpret_cast<const float4*>(x + 1)->x;", "multiple of 16"),
    "a barrier in a branch": (
        "if (threadIdx.x < 32) __syncthreads();\nelse\n__syncthreads();\nout[threadIdx.x] = 1.0f;",
        "different barriers",
    ),
    "a barrier and a warp": (
        "if (threadIdx.x < 16) __syncwarp(); else __syncthreads(); out[threadIdx.x] = 1.0f;",
        "cannot go on",
    ),
    "a lane missing": (
        "out[threadIdx.x] = threadIdx.x % 32 < 16 ? __shfl_xor_sync(~0u, 1.0f, 1) : __shfl_up_sync(~0u, 1.0f, 1);",
        "lanes of a warp differ",
    ),
    "not in the mask": ("out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);", "lacks the lane"),
    "unknown instruction": ('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', "not emulated"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name):
    body, words = FAULTS[name]
    found = launch(body)
    assert isinstance(found, str), f"nothing was found: {found}"
    assert any(word in found for word in ([words] if isinstance(words, str) else words)), found
    assert "emulated kernel: " in found
