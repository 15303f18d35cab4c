"""A product whose bits vary with the workspace, the batch or the multiprocessors it is given."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit import runtime
from report import Report, on_gpu

ROWS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128)
K, N = 2048, 256
WORKSPACES = (":16:8", ":4096:8", ":0:0")

# Long sums of small results: what a library likes to split over k, as far as its workspace allows.
SPLIT_K = """
import hashlib, torch
torch.manual_seed(1)
a, b = torch.randn(64, 65536, device="cuda"), torch.randn(65536, 64, device="cuda")
print(" ".join(hashlib.sha256((a.to(t) @ b.to(t)).float().cpu().numpy().tobytes()).hexdigest()[:12]
               for t in (torch.float32, torch.bfloat16)))
"""


def variants(results: Iterable[bytes]) -> int:
    return len(set(results))


def start(workspace: str) -> subprocess.Popen[str]:
    """cuBLAS reads the setting once a process, so each has its own; all run at the same time."""
    return subprocess.Popen(
        [sys.executable, "-c", SPLIT_K],
        env=dict(os.environ, CUBLAS_WORKSPACE_CONFIG=workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def show_batches(report: Report, torch: Any) -> None:
    torch.manual_seed(2)
    for dtype in (torch.bfloat16, torch.float32):
        a, b = torch.randn(ROWS[-1], K, device="cuda").to(dtype), torch.randn(K, N, device="cuda").to(dtype)
        found = variants((a[:m] @ b)[0].float().cpu().numpy().tobytes() for m in ROWS)
        report.peer(f"torch {torch.__version__}, {dtype}: {found} results of row 0 among {len(ROWS)} batch sizes")


def show_on_torch(report: Report, torch: Any, running: dict[str, subprocess.Popen[str]]) -> None:
    show_batches(report, torch)
    found = {size: process.communicate()[0].split() for size, process in running.items()}
    for column, dtype in enumerate(("float32", "bfloat16")):
        digests = {size: row[column] for size, row in found.items() if row}
        what = f"torch {torch.__version__}, {dtype}, CUBLAS_WORKSPACE_CONFIG {', '.join(digests)}"
        report.peer(f"{what}: {len(set(digests.values()))} results of one product")


def show_on_numpy(report: Report) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((ROWS[-1], K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)
    found = variants((a[:m] @ b)[0].tobytes() for m in ROWS)
    report.peer(f"numpy {np.__version__}, float32: {found} results of row 0 among {len(ROWS)} batch sizes")


def products() -> dict[str, Callable[[int], gp.GPUArray]]:
    """By name: the product of the first m rows."""
    a, b = gp.random.normal((ROWS[-1], K), seed=1), gp.random.normal((K, N), seed=2)
    made: dict[str, Callable[[int], gp.GPUArray]] = {}
    for dtype in ("float32", "bfloat16", "float16"):
        x, w = a.astype(dtype), b.astype(dtype)
        made[dtype] = lambda m, x=x, w=w: gp.matmul(x[:m], w)
    turned = b.T.contiguous()
    x_data, x_scale = gp.quantize(a, "fp8_e4m3", block="row")
    w_data, w_scale = gp.quantize(turned, "fp8_e4m3", block="row")
    made["float8 by float8"] = lambda m: gp.scaled_matmul(x_data[:m], w_data, x_scale[:m], w_scale, out_dtype="float32")
    codes, scale = gp.quantize(turned, "int4", block=128)
    x16 = a.astype("bfloat16")
    made["bfloat16 by int4"] = lambda m: gp.scaled_matmul(x16[:m], codes, scale_b=scale)
    return made


def check_batches(report: Report) -> None:
    for name, product in products().items():
        whole = product(ROWS[-1]).to_numpy()
        differ = [m for m in ROWS if product(m).to_numpy().tobytes() != whole[:m].tobytes()]
        report.check(f"{name}, batch sizes of {len(ROWS)} that change a row", str(differ or 0), not differ)


def check_partitions(report: Report) -> None:
    """The same products on parts of the device: other numbers of multiprocessors, other memory."""
    alone = {name: product(ROWS[-1]).to_numpy().tobytes() for name, product in products().items()}
    manager = runtime.PartitionManager(runtime.PartitionConfig(total_memory=1 << 30))
    differ = []
    for share in (0.25, 0.75):
        manager.create_partition(
            "part", "a part of the device", runtime.PartitionLimits().memory(1 << 29).compute(share)
        )
        with manager.session("part"):
            for name, product in products().items():
                if product(ROWS[-1]).to_numpy().tobytes() != alone[name]:
                    differ.append(f"{name} on {share:.0%}")
        manager.clear()
    text = f"products that a partition of 25 % or 75 % changes, of {2 * len(alone)}"
    report.check(text, ", ".join(differ) or "0", not differ)
    if not on_gpu():
        report.skip("partitions of multiprocessors need a GPU; on the CPU they are walls for memory")


def check_repeats(report: Report, times: int = 50) -> None:
    for name, product in products().items():
        found = variants(product(16).to_numpy().tobytes() for _ in range(times))
        report.check(f"{name}, results of {times} calls", str(found), found == 1)


def main() -> int:
    report = Report("a product that varies with workspace, batch or multiprocessors")
    with contextlib.ExitStack() as stack:
        sizes = WORKSPACES if gp.is_cuda_available() else ()
        running = {size: stack.enter_context(start(size)) for size in sizes}
        show_on_numpy(report)
        report.show_torch(lambda report, torch: show_on_torch(report, torch, running))
    with gp.determinism("batch_invariant"):
        check_batches(report)
        check_partitions(report)
        check_repeats(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
