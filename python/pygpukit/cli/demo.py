"""``pygpukit demo``: a look at what the library does here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pygpukit as gp
from pygpukit.cli import facts
from pygpukit.cli.text import bold, green, human_bytes, red, short_reason, table, wrapped

__all__ = ["demo"]

_SOURCE = """
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""


def _check(name: str, good: bool) -> bool:
    print(f"  {name}: {green('equal to NumPy') if good else red('DIFFERENT from NumPy')}")
    return good


def _arrays(np: Any) -> bool:
    print(bold("Arrays"))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((257, 129), dtype=np.float32) for _ in range(2))
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    good = _check("x * 2 + y", np.array_equal((x * 2 + y).to_numpy(), a * 2 + b))
    good &= _check("x[::2, 1:].T", np.array_equal(x[::2, 1:].T.to_numpy(), a[::2, 1:].T))
    good &= _check("x @ y.T", np.allclose((x @ y.T).to_numpy(), a @ b.T, rtol=1e-4, atol=1e-4))
    good &= _check("x.sum(axis=0)", np.allclose(x.sum(axis=0).to_numpy(), a.sum(axis=0), rtol=1e-4, atol=1e-4))
    print(wrapped(f"repr: {gp.arange(10)!r}"))
    return good


def _kernel(np: Any) -> bool:
    print(bold("Custom CUDA kernel"))
    if not gp.is_nvrtc_available():
        print(wrapped(f"not here: {short_reason(gp.jit_unavailable_reason())}; pygpukit doctor says what to do"))
        return True
    x = gp.ones(1000)
    kernel = gp.jit(_SOURCE, func="scale")
    kernel(x, factor=0.5, n=x.size)
    return _check("scale", np.array_equal(x.to_numpy(), np.full(1000, 0.5, np.float32)))


def _median_us(work: Callable[[], object], rounds: int = 7) -> float:
    work()
    gp.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        gp.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)[rounds // 2]


def _timings() -> None:
    print(bold("Timings (median, with the wait)"))
    n = 1 << 20
    a, b, out = gp.ones(n), gp.ones(n), gp.empty(n)
    m = gp.ones((256, 256))
    size = f"{human_bytes(a.nbytes)} of float32"
    rows = [["operation", "size", "time"]]
    cases: list[tuple[str, str, Callable[[], object]]] = [
        ("add", size, lambda: gp.add(a, b, out=out)),
        ("exp", size, lambda: gp.exp(a, out=out)),
        ("sum", size, lambda: gp.sum(a)),
        ("matmul", "256 x 256 float32", lambda: gp.matmul(m, m)),
        ("to_numpy", size, a.to_numpy),
    ]
    for name, what, work in cases:
        rows.append([name, what, f"{_median_us(work):.0f} us"])
    print(table(rows))


def _story() -> bool:
    print(bold("A story by the toy model in PyGPUkit"))
    print(wrapped("Name others: pygpukit generate MODEL TEXT"))
    from pygpukit.llm import DEFAULT_MODEL, CausalTransformerModel, Tokenizer

    model, tokenizer = CausalTransformerModel.from_safetensors(DEFAULT_MODEL, progress=False), Tokenizer(DEFAULT_MODEL)
    start = time.perf_counter()
    tokens = list(model.generate_stream(tokenizer.encode(""), 250, temperature=0.7, eos_token_id=1, seed=11))
    seconds = time.perf_counter() - start
    for paragraph in tokenizer.decode(tokens).strip().splitlines():
        print(wrapped(paragraph))
    print(f"{len(tokens)} tokens in {seconds:.2f} s on {model.device}")
    return len(tokens) > 20


def demo() -> int:
    """0 when every result agrees with NumPy."""
    import numpy as np

    device = gp.default_device()
    print(bold(f"PyGPUkit {gp.__version__}") + f" on {device} ({device.properties.name})")
    print(f"mode: {facts.mode()[1]}")
    good = _arrays(np)
    good &= _kernel(np)
    _timings()
    good &= _story()
    return 0 if good else 1
