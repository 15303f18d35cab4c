"""The figures of language models with random weights, made on the device: decoding, prompts, formats, host time.

See measure.py. The contenders of a figure take turns: transformers' generate, its step compiled over a static cache in a
captured graph, its prefill. Each group makes its models anew, so that groups can run one by one.
"""

from __future__ import annotations

from typing import Any

DENSE, EXPERTS = "qwen2.5-7b", "qwen3-30b-a3b"
CONTEXT, LONG_CONTEXT = 512, 8192
PROMPTS = (128, 2048, 8192)
STEPS = 1000  # of which none may ask the driver for memory
EFFORT = {"warmup": 3, "iterations": 15, "turn_us": 100e3}


def _run(case: Any, peers: bool = True) -> Any:
    from pygpukit.benchmark.peers import find_peers
    from pygpukit.benchmark.timing import Effort

    result = case.run(Effort(**EFFORT), find_peers()[0] if peers else ())
    if not result.correct:
        raise SystemExit(f"{case.name}: the tokens are wrong")
    return result


def _details(result: Any) -> dict[str, Any]:
    peers = {f"{name}_us": peer.median_us for name, peer in result.peers.items()}
    return {"us": result.median_us, **peers, **({"faults": result.peer_faults} if result.peer_faults else {})}


def _decode(report: Any, model: Any, batch: int, context: int) -> Any:
    """Adds what a batch shows; gives its result."""
    from pygpukit.benchmark.language import LanguageDecodeBenchmark

    result = _run(LanguageDecodeBenchmark(model, batch, context))
    name = f"llm_b{batch}_c{context}"
    details = {**_details(result), "tokens_per_second": result.params["tokens_per_second"]}
    if result.share_of_ceiling is not None:
        report.add(f"{name}_share_of_read", result.share_of_ceiling, **details)
    for peer, label in (("compiled", "compiled"), ("transformers", "generate")):
        if peer in result.peers:
            report.add(f"{name}_vs_{label}", result.peers[peer].ratio, **details)
    return result


def _dense() -> Any:
    from pygpukit.benchmark.language import LanguageModel

    return LanguageModel(DENSE)


def measure_b1(gp: Any, torch: Any, report: Any) -> None:
    _decode(report, _dense(), 1, CONTEXT)


def measure_b8(gp: Any, torch: Any, report: Any) -> None:
    _decode(report, _dense(), 8, CONTEXT)


def measure_b32(gp: Any, torch: Any, report: Any) -> None:
    _decode(report, _dense(), 32, CONTEXT)


def measure_long(gp: Any, torch: Any, report: Any) -> None:
    _decode(report, _dense(), 1, LONG_CONTEXT)


def measure_formats(gp: Any, torch: Any, report: Any) -> None:
    """Weights of fp8 and int4 against bfloat16, in turns."""
    from pygpukit.benchmark.language import LanguageDecodeBenchmark, LanguageModel
    from pygpukit.benchmark.timing import Effort, take_turns

    formats = (None, "fp8", "int4")
    models = [LanguageModel(DENSE, quantize=quantize) for quantize in formats]
    timers = [LanguageDecodeBenchmark(model, 1, CONTEXT).timer() for model in models]
    plain, *others = (samples.median for samples in take_turns(timers, Effort(**EFFORT)))
    for quantize, us, model in zip(formats[1:], others, models[1:], strict=True):
        report.add(f"llm_{quantize}_vs_bf16", plain / us, us=us, bf16_us=plain, weight_bytes=model.model.weight_bytes)


def measure_prefill(gp: Any, torch: Any, report: Any) -> None:
    from pygpukit.benchmark.language import LanguagePrefillBenchmark

    model = _dense()
    for tokens in PROMPTS:
        result = _run(LanguagePrefillBenchmark(model, tokens))
        if "transformers" in result.peers:
            report.add(f"llm_prefill_{tokens}_vs_torch", result.peers["transformers"].ratio, **_details(result))


def measure_host(gp: Any, torch: Any, report: Any) -> None:
    """What a step costs the host, and whether it asks the driver for memory."""
    from pygpukit.benchmark.language import LanguageDecodeBenchmark, host_us_between_steps

    model = _dense()
    report.add("llm_host_us_between_steps", host_us_between_steps(model, CONTEXT))
    case = LanguageDecodeBenchmark(model, 1, CONTEXT, room=STEPS + 1)
    timer = case.timer()
    timer.pass_us(1)
    before = gp.default_device().memory_stats()["driver_allocations"]
    us = timer.pass_us(STEPS)
    report.add("llm_driver_allocations", gp.default_device().memory_stats()["driver_allocations"] - before, us=us)


def measure_experts(gp: Any, torch: Any, report: Any) -> None:
    from pygpukit.benchmark.language import LanguageDecodeBenchmark, LanguageModel

    result = _run(LanguageDecodeBenchmark(LanguageModel(EXPERTS), 1, CONTEXT), peers=False)
    report.add("llm_experts_b1_share_of_read", result.share_of_ceiling, **_details(result))


GROUPS = {
    "llm_b1": measure_b1,
    "llm_b8": measure_b8,
    "llm_b32": measure_b32,
    "llm_long": measure_long,
    "llm_formats": measure_formats,
    "llm_prefill": measure_prefill,
    "llm_host": measure_host,
    "llm_experts": measure_experts,
}
