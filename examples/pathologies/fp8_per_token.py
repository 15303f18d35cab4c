"""FP8 right on average and wrong per token: one loud token sets the scale of all, and long sums lose their low bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import pygpukit as gp
from report import Report, on_gpu

TOKENS, WIDTH, WORDS = 256, 1024, 1024
LONG = 16384  # products in one sum
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def tokens_and_weights() -> tuple[np.ndarray, np.ndarray]:
    """Tokens that each point clearly at one row of the weights, and whose sizes spread over six decades."""
    rng = np.random.default_rng(5)
    weights = rng.standard_normal((WORDS, WIDTH), dtype=np.float32)
    tokens = rng.standard_normal((TOKENS, WIDTH), dtype=np.float32) + 0.2 * weights[rng.integers(0, WORDS, TOKENS)]
    sizes = np.logspace(-3, 0, TOKENS, dtype=np.float32)
    sizes[0] = 1000.0
    return tokens * sizes[:, None], weights


def judge(actual: np.ndarray, exact: np.ndarray) -> tuple[float, float, float]:
    """Error by norm, error of the worst token, share of tokens with the right argmax."""
    error = actual.astype(np.float64) - exact
    per_token = np.linalg.norm(error, axis=1) / np.linalg.norm(exact, axis=1)
    agree = float((actual.argmax(1) == exact.argmax(1)).mean())
    return float(np.linalg.norm(error) / np.linalg.norm(exact)), float(per_token.max()), agree


def words(judged: tuple[float, float, float]) -> str:
    norm, worst, agree = judged
    return f"error by norm {norm:.1%}, of the worst token {worst:.1%}, argmax right for {agree:.1%} of the tokens"


def ours(block_x: object, block_w: object) -> Product:
    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        x_data, x_scale = gp.quantize(gp.from_numpy(x), "fp8_e4m3", block=block_x)
        w_data, w_scale = gp.quantize(gp.from_numpy(w), "fp8_e4m3", block=block_w)
        return gp.scaled_matmul(x_data, w_data, x_scale, w_scale, out_dtype="float32").to_numpy()

    return product


def torch_tensorwise(torch: Any, fast: bool) -> Product:
    """The usual recipe: one scale a tensor."""

    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        def quantised(a: np.ndarray) -> tuple[Any, Any]:
            t = torch.from_numpy(a).cuda()
            scale = t.abs().max() / 448.0
            return (t / scale).to(torch.float8_e4m3fn), scale

        (a, scale_a), (b, scale_b) = quantised(x), quantised(w)
        y = torch._scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=torch.float32, use_fast_accum=fast)
        return y.cpu().numpy()

    return product


def sum_error(product: Product) -> float:
    """The largest relative error of long sums of exact terms.

    Whole numbers up to 14 with the largest in each row are FP8 numbers under any scale of rows or tensors, so what is
    wrong is the sum. All have one sign, as behind a ReLU: the sum only grows, and what it drops adds up.
    """
    rng = np.random.default_rng(6)
    x, w = (rng.integers(1, 15, (64, LONG)).astype(np.float32) for _ in range(2))
    x[:, 0] = w[:, 0] = 14.0
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    return float(np.abs(product(x, w) / exact - 1.0).max())


def show_on_torch(report: Report, torch: Any) -> None:
    x, w = tokens_and_weights()
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    name = f"torch {torch.__version__} _scaled_mm"
    report.peer(f"{name}, one scale a tensor: {words(judge(torch_tensorwise(torch, False)(x, w), exact))}")
    for fast in (True, False):
        error = sum_error(torch_tensorwise(torch, fast))
        report.peer(f"{name}, use_fast_accum={fast}, sums of {LONG}: largest error {error:.3%}")


def check_tokens(report: Report) -> None:
    x, w = tokens_and_weights()
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    report.peer(
        f"one scale a tensor, the recipe at fault, here by our kernels: {words(judge(ours('tensor', 'tensor')(x, w), exact))}"
    )
    for name, blocks in {
        "a scale a row, the default": (None, None),
        "blocks of 1 x 128 and 128 x 128": (128, (128, 128)),
    }.items():
        norm, worst, agree = judged = judge(ours(*blocks)(x, w), exact)
        report.check(name, words(judged), norm < 0.05 and worst < 0.05 and agree == 1.0)


def check_sums(report: Report) -> None:
    error = sum_error(ours("row", "row"))
    report.check(f"sums of {LONG} in parts of 128, largest error", f"{error:.3%}", error <= 0.001)
    if not on_gpu():
        report.skip("the short sums of FP8 tensor cores need a GPU; the CPU sums in float32")


def main() -> int:
    report = Report("FP8 right on average and wrong per token")
    report.show_torch(show_on_torch)
    check_tokens(report)
    check_sums(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
