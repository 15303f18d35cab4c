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

import pygpukit as gp
from pygpukit import _core

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


def test_registers_in_two_halves():
    body = """
    unsigned r;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, low};}" : "=r"(r) : "r"(0x12345678u));
    out[threadIdx.x] = r == 0x56781234u;
    """
    assert launch(body) == [1.0] * 64


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


def test_programs_of_fused_functions_compile_for_a_chip():
    """What the emulated GPU is given is what NVRTC is given: operations of several families in one program."""
    if _core._compiler_info()["version"] is None:
        pytest.skip("needs NVRTC: pip install nvidia-cuda-nvrtc-cu12")
    code = """
    import json, numpy as np, pygpukit as gp
    def function(a, b, z):
        y = gp.where(gp.swiglu(a, b.astype("float32")) > 0.5, gp.tanh(a) ** b, gp.round(a, decimals=1))
        return gp.abs(gp.exp(z) * y.astype("bfloat16")), gp.isnan(y) | (b.astype("int8") << 2 == 4)
    with gp.device("cuda"):
        a, b = (gp.from_numpy(np.ones((6, 40), t)) for t in (np.float32, np.float16))
        z = gp.from_numpy(np.ones(40, np.complex64))
        print(json.dumps([gp.fuse(function).fused.program(x, {}) for x in ((a, b, z), (a[:, ::2], b[:, :20], z[20:]))]))
    """
    done = run(code)
    assert done.returncode == 0, done.stderr
    for program in json.loads(done.stdout):
        options = ["--std=c++17", "--fmad=false", "-default-device"]
        with gp.device("cpu"):
            gp.jit(program, "fused_function", options=options).compile("80")


def test_without_a_compiler_a_fused_function_is_its_calls():
    code = """
    import numpy as np, pygpukit as gp
    calls = []
    fused = gp.fuse(lambda x: calls.append(x) or x)
    with gp.device("cuda"):
        x = gp.from_numpy(np.arange(5, dtype=np.float32))
        assert fused(x) is x and fused(x) is x and calls == [x, x], calls
        for kernel in (gp.ElementwiseKernel("T x", "T y", "y = x"), gp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0)):
            try:
                kernel(x)
            except gp.DeviceError as error:
                assert "NVRTC" in str(error) and "was not launched" in str(error), error
            else:
                raise AssertionError("launched")
    """
    done = run(code, "env", "PYGPUKIT_NVRTC=off")
    assert done.returncode == 0, done.stderr


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


# Hopper: one thread asks for a copy of 128 bytes that a barrier counts, all wait for it.
COPY = """
__shared__ __align__(128) float s[64];
__shared__ unsigned long long barrier;
unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared(s);
if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at));
__syncthreads();
if (threadIdx.x == 0) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(BYTES) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(x), "r"(128), "r"(at) : "memory");
}
BEFORE
asm volatile("{\\n.reg .pred done;\\nAGAIN%=:\\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n"
             "@!done bra AGAIN%=;\\n}" :: "r"(at) : "memory");
AFTER
"""


def copied(before="", after="out[threadIdx.x] = s[threadIdx.x % 32];", bytes_=128, arch="90", seed="1"):
    body = COPY.replace("BYTES", str(bytes_)).replace("BEFORE", before).replace("AFTER", after)
    return launch(body, options=("--arch", arch, "--seed", seed))


@pytest.mark.parametrize("seed", ["0", "5"])
def test_a_barrier_counts_the_bytes_of_a_copy(seed):
    assert copied(seed=seed) == [float(i % 32) for i in range(64)]


# What a thread does before and after it waits for the kernel before (PDL).
EARLY = {
    "after it waited": ("WAIT out[threadIdx.x] = x[threadIdx.x];", None),
    "after one waited": ("if (threadIdx.x == 5) WAIT __syncthreads(); out[threadIdx.x] = x[threadIdx.x];", None),
    "a read before": ("float v = x[threadIdx.x]; WAIT out[threadIdx.x] = v;", "reads before the kernel before"),
    "a write before": ("out[threadIdx.x] = 1.0f; WAIT", "writes before the kernel before"),
    "never": ("out[threadIdx.x] = 1.0f;", "before the kernel before has ended"),
    "another one waited": ("if (threadIdx.x == 5) WAIT out[threadIdx.x] = 1.0f;", "before the kernel before has ended"),
    "a copy asked for before": (
        "__shared__ float4 s[64]; asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" ::"
        ' "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x)), "l"(x + threadIdx.x / 4 * 4));'
        " WAIT out[threadIdx.x] = 1.0f;",
        "asks for bytes before the kernel before",
    ),
}


@pytest.mark.parametrize("name", EARLY)
def test_a_kernel_that_starts_early_waits_first(name):
    body, words = EARLY[name]
    wait = '{ asm volatile("griddepcontrol.wait;" ::: "memory"); }'
    found = launch(body.replace("WAIT", wait), options=("--arch", "90", "--early"))
    if words is None:
        assert found == [float(i) for i in range(64)]
    else:
        assert isinstance(found, str), f"nothing was found: {found}"
        assert words in found


def test_kernels_of_one_token_start_early():
    """All wait before they read or write: an embedding, norms, products, positions, the cache, attention, experts."""
    code = """
    import numpy as np, pygpukit as gp
    rng = np.random.default_rng(3)
    def short(*shape):
        with gp.device("cpu"):
            return gp.from_numpy(rng.standard_normal(shape).astype("float32")).astype("bfloat16").to("cuda")
    def host(x, dtype="int32"):
        return gp.from_numpy(np.asarray(x, dtype), device="cuda")
    table, gamma, beta, qkv_w, gate, up, down = (
        short(*s) for s in ((9, 64), (64,), (64,), (96, 64), (72, 64), (72, 64), (64, 72)))
    k, v = short(3, 16, 1, 32), short(3, 16, 1, 32)
    cos, sin = (host(f(np.outer(np.arange(48), np.arange(16))), "float32") for f in (np.cos, np.sin))
    ids, at, tables = host([4]), host([7]), host([[2, 0, 1]])
    x, normed, qkv, mlp, out = short(1, 64), short(1, 64), short(1, 96), short(1, 72), short(1, 64)
    q, rows, heads = short(1, 1, 32), short(1, 20, 2, 64), [short(1, 20, 2, 64) for _ in "qkv"]
    long = [short(1, 640, 1, 32) for _ in "kv"]
    router, gate_up, downs, routed, wide = (short(*s) for s in ((5, 64), (5, 48, 64), (5, 64, 24), (1, 64), (1, 66)))
    def step():
        gp.embedding(table, ids, out=x)
        gp.rmsnorm(x, gamma, out=normed)
        gp.linear(normed, qkv_w, out=qkv)
        gp.qkv_rope_append(qkv, q, k, v, host([0]), at, block_tables=tables, cos=cos, sin=sin)
        gp.attention_over_cache(q, k, v, host([0]), at, block_tables=tables, out=q)
        gp.attention_over_cache(q, *long, host([0]), host([600]), out=q)  # two pieces
        gp.attention(*heads, causal=True, out=rows)
        gp.layernorm(x, gamma, beta, out=normed)
        gp.linear_swiglu(normed, gate, up, out=mlp)
        gp.linear(mlp, down, residual=x, out=out)
        gp.moe(out, router, gate_up, downs, 2, out=routed)
        gp.add(out, routed, out=routed)
        gp.multiply(wide[:, 1:65], routed, out=routed)
        gp.gelu(routed, out=routed)
        return [a.to_numpy().tobytes() for a in (normed, qkv, q, k, v, rows, mlp, out, routed)]
    first = step()
    assert step() == first
    """
    done = run(code, "--arch", "90", "--early")
    assert done.returncode == 0, done.stderr


HOPPER_FAULTS = {
    "read before the copy came": ({"before": "out[threadIdx.x] = s[threadIdx.x % 32];", "after": ""}, "race"),
    "bytes that never come": ({"bytes_": 256}, "cannot go on"),
    "more bytes than announced": ({"bytes_": 64}, "more bytes than were announced"),
    "written while it is copied": ({"before": "if (threadIdx.x == 40) s[3] = 1;"}, "race"),
    "one arrival too many": (
        {
            "before": 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory"); '
            'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");'
        },
        ("more arrivals", "cannot go on"),
    ),
    "no such instruction on SM 80": ({"arch": "80"}, "not emulated"),
}


@pytest.mark.parametrize("name", HOPPER_FAULTS)
def test_fault_of_hopper_is_found(name):
    given, words = HOPPER_FAULTS[name]
    found = copied(**given)
    assert isinstance(found, str), f"nothing was found: {found}"
    assert any(word in found for word in ([words] if isinstance(words, str) else words)), found


def test_products_of_warpgroups_and_clusters():
    """TMA, wgmma from shared memory along and across k, multicast in a cluster: matmul's own kernels."""
    code = """
    import numpy as np, pygpukit as gp
    rng = np.random.default_rng(3)
    kernels = set()
    for m, k, n in ((200, 136, 264), (64, 512, 128), (384, 192, 1024)):
        for a_turned in (False, True):
            for b_turned in (False, True):
                a, b = (gp.from_numpy(rng.standard_normal(s).astype(np.float32)).astype("bfloat16")
                        for s in ((k, m) if a_turned else (m, k), (n, k) if b_turned else (k, n)))
                a, b = a.T if a_turned else a, b.T if b_turned else b
                kernels.add(gp.explain_matmul(a, b).split(":", 2)[2].split(";")[0])
                out = gp.matmul(a, b).astype("float32").to_numpy()
                want = a.astype("float32").to_numpy().astype(float) @ b.astype("float32").to_numpy().astype(float)
                assert np.abs(out - want).max() <= 0.005 * np.abs(want).max(), (m, k, n, a_turned, b_turned)
                exact = gp.matmul(a, b, out_dtype="float32").to_numpy()
                assert np.abs(exact - want).max() <= 1e-5 * np.abs(want).max(), (m, k, n, a_turned, b_turned)
    assert sum("wgmma" in kernel for kernel in kernels) >= 4, kernels
    """
    done = run(code, "--arch", "90")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("dim", "keys"), [(64, 600), (200, 80)])
def test_attention_of_hopper_has_the_bits_of_sm_80(dim, keys):
    code = f"""
    import numpy as np, pygpukit as gp
    rng = np.random.default_rng(5)
    q, k, v = (gp.from_numpy(rng.standard_normal(s).astype(np.float32)).astype("bfloat16")
               for s in ((1, 40, 2, {dim}), (1, {keys}, 1, {dim}), (1, {keys}, 1, {dim})))
    wide = gp.zeros((1, 40, 2, {2 * dim}), dtype="bfloat16")
    wide[..., ::2] = q
    spread = wide[..., ::2]  # what TMA cannot move
    assert "attention_sm90" in gp.explain_attention(q, k, v) and "attention_sm80" in gp.explain_attention(spread, k, v)
    for causal in (False, True):
        one, other = (gp.attention(x, k, v, causal=causal).to_numpy().tobytes() for x in (q, spread))
        assert one == other, causal
    """
    done = run(code, "--arch", "90")
    assert done.returncode == 0, done.stderr


def test_sums_are_not_there_before_the_wait():
    """Products of a warpgroup change their sums when somebody waits for them."""
    body = """
    __shared__ __align__(1024) unsigned char tile[16 * 1024];
    for (int i = threadIdx.x; i < 4096; i += 128) reinterpret_cast<unsigned*>(tile)[i] = 0x3f803f80u;
    __syncthreads();
    unsigned at = (unsigned)__cvta_generic_to_shared(tile);
    unsigned long long d = (at & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
    float v[4] = {1, 1, 1, 1};
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3]) : "l"(d), "l"(d));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    float early = v[0];
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x < 32) out[threadIdx.x] = early, out[threadIdx.x + 32] = v[0];
    """
    out = launch(body, threads=128, options=("--arch", "90"))
    assert out == [1.0] * 32 + [17.0] * 32


QUANTISED = """
import numpy as np, pygpukit as gp
rng = np.random.default_rng(3)
def product(format, m, n, k, kernel=None, zero=False, out="float32", **options):
    x, b = rng.integers(-31, 32, (m, k)), rng.integers(-2, 3, (n, k))
    with gp.device("cuda"):
        a = gp.from_numpy(x.astype(np.float32)).astype("bfloat16")
        data, scale, *more = gp.quantize(gp.from_numpy(b.astype(np.float32)), format, **options)
        b = gp.dequantize(data, scale, **({"tensor_scale": more[0]} if more else {})).to_numpy()
        tensor = {"tensor_scale_b": more[0]} if more else {}
        c = gp.scaled_matmul(a, data, scale_b=scale, out_dtype=out, **tensor, **({"kernel": kernel} if kernel else {}))
        got = c.to_numpy(dtype="float64")
    want = x @ b.T.astype(float)
    assert np.linalg.norm(got - want) <= 4e-3 * np.linalg.norm(want), (format, m, n, k, options)
"""


LEFT = ("scaled_matmul", "grouped_matmul-many", "linear-turned", "sum-long", "conv1d-16", "moe-one", "group_norm-turned")


@pytest.mark.parametrize("arch", ["80", "90"])
def test_what_was_left_in_a_workspace_changes_no_bit(arch):
    """Of all calls of test_workspaces.py those that leave most there."""
    tests = str(Path(__file__).with_name("test_workspaces.py"))
    options = ["-q", "-p", "no:cacheprovider", tests, "-k", f"cuda and ({' or '.join(LEFT)})"]
    done = run(f"import pytest\nraise SystemExit(pytest.main({options!r}))", "--arch", arch)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= len(LEFT), done.stdout


def test_boxes_of_the_tile_before_have_left():
    """An odd number of boxes leaves through two buffers in turns: the next tile must not write over the last one."""
    code = """
    import numpy as np, pygpukit as gp
    rng = np.random.default_rng(3)
    with gp.device("cuda"):
        a, b = (gp.from_numpy(rng.standard_normal(s).astype(np.float32)).astype("bfloat16") for s in ((220, 64), (2000, 64)))
        assert "wgmma 128x224x64, sides swapped" in gp.explain_matmul(a, b.T), gp.explain_matmul(a, b.T)
        want = a.to_numpy(dtype="float64") @ b.to_numpy(dtype="float64").T
        assert np.linalg.norm((a @ b.T).to_numpy(dtype="float64") - want) <= 4e-3 * np.linalg.norm(want)
    """
    done = run(code, "--arch", "90")
    assert done.returncode == 0, done.stderr


def test_rows_past_a_box_do_not_count():
    """A tile of fewer weights than the product has rows; with --strict the rest is a fault."""
    code = QUANTISED + "product('fp8_e4m3', 2, 72, 1408, kernel='wgmma', out='bfloat16', block='row')"
    done = run(code, "--arch", "90")
    assert done.returncode == 0, done.stderr
    done = run(code, "--arch", "90", "--strict")
    assert done.returncode != 0
    assert "race" in done.stderr or "nobody wrote" in done.stderr, done.stderr


def test_a_stage_is_left_when_all_lanes_have_read_it():
    """More stages of k than the ring has."""
    done = run(QUANTISED + "product('int8', 33, 200, 4224, block='row')", "--arch", "90")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("late", ["0", "1", "2"])
def test_warpgroups_may_fall_behind(late):
    """Several short tiles a block: the first warpgroup, the second and the loads are each as late as can be."""
    code = (
        QUANTISED
        + """
product('int4', 260, 640, 256, block=128)  # float32 leaves in an odd number of boxes
product('fp8_e4m3', 260, 640, 128, block=(128, 128))
product('nvfp4', 70, 640, 256)
product('int4', 20, 520, 4224, block=128)  # two warpgroups share k
"""
    )
    done = run(code, "--arch", "90", "--late", late)
    assert done.returncode == 0, done.stderr
