"""Language models with random weights: how fast they decode and read prompts."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark.cases import Benchmark
from pygpukit.benchmark.ceilings import read_name, read_timers
from pygpukit.benchmark.language_peers import StepTimer, Transformers
from pygpukit.benchmark.peers import Peer
from pygpukit.benchmark.report import BenchmarkResult, PeerResult
from pygpukit.benchmark.timing import DEFAULT_EFFORT, Effort, HostTimer, Samples, Timer, take_turns
from pygpukit.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from pygpukit.llm import CausalTransformerModel, Engine

__all__ = ["SHAPES", "LanguageDecodeBenchmark", "LanguageModel", "LanguagePrefillBenchmark"]

_GIB = 1 << 30
_PROMPT_TOKENS = 2048  # of one step
FORMATS = {"fp8": "float8_e4m3", "int8": "int8", "int4": "int4", "nvfp4": "float4_e2m1"}


def _llama(kind: str, *sizes: int, **more: Any) -> dict[str, Any]:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
             "vocab_size", "max_position_embeddings")  # fmt: skip
    plain = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False}
    return {"model_type": kind, **plain, **dict(zip(names, sizes, strict=True)), **more}


# config.json of known models, as far as it says what is computed.
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": _llama("llama", 64, 172, 5, 8, 4, 512, 512, rope_theta=1e4, tie_word_embeddings=True),
    "stories15m": _llama("llama", 288, 768, 6, 6, 6, 32000, 256, rope_theta=1e4, tie_word_embeddings=True),
    "llama-3-8b": _llama("llama", 4096, 14336, 32, 32, 8, 128256, 8192, rope_theta=5e5),
    "qwen2.5-7b": _llama("qwen2", 3584, 18944, 28, 28, 4, 152064, 32768, rope_theta=1e6),
    "qwen3-30b-a3b": _llama(
        "qwen3_moe", 2048, 6144, 48, 32, 4, 151936, 40960, rope_theta=1e6, head_dim=128, num_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True,
    ),
}  # fmt: skip


class LanguageModel:
    """A shape by its name or the path of a config.json, with weights that are made when they are first needed."""

    def __init__(self, shape: str, dtype: str | None = None, quantize: str | None = None) -> None:
        if quantize is not None and quantize not in FORMATS:
            raise ArgumentError(f"LanguageModel: quantize: got {quantize!r}, wanted any of {', '.join(FORMATS)}")
        on_gpu = gp.default_device().kind == "cuda"
        self.dtype = dtype or ("bfloat16" if on_gpu else "float32")
        self.quantize = quantize
        self.label, self.config = shape.lower(), SHAPES.get(shape.lower())
        if self.config is None:
            path = Path(shape) / "config.json" if Path(shape).is_dir() else Path(shape)
            if not path.is_file():
                raise ArgumentError(
                    f"LanguageModel: shape: got {shape!r}, wanted {', '.join(SHAPES)}, or the path of a config.json"
                )
            self.label, self.config = path.absolute().parent.name, json.loads(path.read_text(encoding="utf-8"))
        self.label += f"_{quantize}" if quantize else ""

    @functools.cached_property
    def model(self) -> CausalTransformerModel:
        from pygpukit.llm import CausalTransformerModel, TransformerConfig

        config = TransformerConfig.from_json(json.dumps(self.config))
        quantize = FORMATS[self.quantize] if self.quantize else None
        return CausalTransformerModel.random(config, self.dtype, quantize=quantize)

    @functools.cached_property
    def peer(self) -> Transformers:
        """The same shape in transformers. ImportError says why there is none."""
        assert self.config is not None
        return Transformers(self.config, self.dtype)

    def prompts(self, count: int, tokens: int) -> list[list[int]]:
        ids = np.random.default_rng(tokens).integers(0, self.model.config.vocab_size, (count, tokens))
        return [[int(token) for token in row] for row in ids]


class _Decoding:
    """Requests that each have their prompt behind them and draw one token a step."""

    def __init__(self, model: LanguageModel, batch: int, context: int, room: int, graphs: bool = True) -> None:
        self._prompts = model.prompts(batch, context)
        budget = batch + min(context, _PROMPT_TOKENS)
        # The first text goes on while the prompts of the others are read.
        self._tokens = room + 1 + batch * -(-context // _PROMPT_TOKENS)
        self._engine: Engine = model.model.engine(
            max_sequences=batch, max_tokens=context + self._tokens, token_budget=budget, graphs=graphs, keep_prefixes=False
        )
        self._requests: list[int] = []

    def restart(self) -> None:
        for request in self._requests:
            self._engine.cancel(request)
        self._requests = [self._engine.submit(ids, self._tokens, temperature=0.0) for ids in self._prompts]
        waiting = set(self._requests)
        while waiting:
            waiting -= {token.request for token in self._engine.step()}

    def step(self) -> list[int]:
        return [token.id for token in self._engine.step()]


def _cut_requests(decoding: _Decoding, steps: int) -> list[list[int]]:
    decoding.restart()
    return [sorted(decoding.step()) for _ in range(steps)]


class _LanguageBenchmark(Benchmark):
    category = "llm"

    def __init__(self, model: LanguageModel) -> None:
        self.language = model

    def obstacle(self) -> str | None:
        return None

    def _result(self, samples: Samples, timer: Timer, tokens: int, correct: bool | None) -> BenchmarkResult:
        params = {**self.params, "tokens_per_second": tokens / samples.median * 1e6}
        return BenchmarkResult(
            self.name, self.category, params, samples.median, min(samples.values), max(samples.values), samples.std,
            correct=correct, iterations=len(samples.values), p5_us=samples.percentile(5), p95_us=samples.percentile(95),
            clock=timer.clock,
        )  # fmt: skip

    def _rivals(
        self, peers: Sequence[Peer], make: Callable[[Transformers], dict[str, Callable[[], Timer]]]
    ) -> tuple[dict[str, Timer], dict[str, str]]:
        """Timers of transformers, and why the others are absent."""
        found: dict[str, Timer] = {}
        faults: dict[str, str] = {}
        if not any(peer.name == "torch" for peer in peers):
            return found, faults
        try:
            contenders = make(self.language.peer)
        except (ImportError, RuntimeError, ValueError) as error:
            return found, {"transformers": str(error)}
        for name, build in contenders.items():
            try:
                found[name] = build()
            except Exception as error:  # what another library cannot do must not end ours
                faults[name] = f"{type(error).__name__}: {error}"[:300]
        return found, faults


class LanguageDecodeBenchmark(_LanguageBenchmark):
    """One step of a batch: every text gets its next token."""

    def __init__(self, model: LanguageModel, batch: int = 1, context: int = 512, room: int = 64) -> None:
        """room: steps before the texts begin anew, so that they stay near their length."""
        super().__init__(model)
        for argument, size in (("batch", batch), ("context", context), ("room", room)):
            if size < 1:
                raise ArgumentError(f"LanguageDecodeBenchmark: {argument}: got {size}, wanted 1 or more")
        self.batch, self.context, self.room = batch, context, room

    @property
    def name(self) -> str:
        return f"decode_{self.language.label}_b{self.batch}_c{self.context}"

    @property
    def params(self) -> dict[str, Any]:
        return {"batch": self.batch, "context": self.context, "dtype": self.language.dtype}

    def obstacle(self) -> str | None:
        limit = self.language.model.config.max_position_embeddings
        most = self.context + self.room + 1 + self.batch * -(-self.context // _PROMPT_TOKENS)
        return None if most <= limit else f"{most} tokens are more than the model's {limit} positions"

    def timer(self) -> Timer:
        """Steps of the batch, for contenders of your own."""
        return self._timer(_Decoding(self.language, self.batch, self.context, self.room))

    def _timer(self, decoding: _Decoding) -> Timer:
        return StepTimer(decoding.step, decoding.restart, self.room)

    def read_bytes(self) -> int | None:
        """What a step must read: weights, and keys and values; None where the experts of a batch are not known."""
        model = self.language.model
        config = model.config
        if config.is_moe and self.batch > 1:
            return None
        width = 4 if self.language.dtype == "float32" else 2
        token = 2 * config.num_layers * config.num_kv_heads * config.head_dim * width
        return model.weight_bytes + self.batch * self.context * token

    def run(self, effort: Effort = DEFAULT_EFFORT, peers: Sequence[Peer] = ()) -> BenchmarkResult:
        reason = self.obstacle()
        if reason is not None:
            raise UnsupportedError(f"{self.name}: {reason}")
        decoding = _Decoding(self.language, self.batch, self.context, self.room)
        plain = _Decoding(self.language, self.batch, self.context, 4, graphs=False)
        correct = _cut_requests(decoding, 4) == _cut_requests(plain, 4)
        del plain
        ours = self._timer(decoding)
        rivals, faults = self._rivals(peers, lambda peer: peer.decoders(self.batch, self.context))
        read, ceilings = self.read_bytes(), []
        if read is not None:
            words = max(4, min(read, _GIB) // 16 * 4)
            buffer = gp.random.uniform((words,), dtype="float32", seed=1)
            ceilings = read_timers([buffer])
        samples = take_turns([ours, *rivals.values(), *ceilings], effort)
        result = self._result(samples[0], ours, self.batch, correct)
        result.peer_faults = faults
        for (name, timer), theirs in zip(rivals.items(), samples[1:], strict=False):
            ratio = theirs.median / result.median_us
            result.peers[name] = PeerResult(theirs.median, ratio, "a step of the same shape", timer.clock)
        if read is not None:
            fastest = min(s.median for s in samples[len(samples) - len(ceilings) :])
            result.bandwidth_gbps = read / result.median_us / 1e3
            result.share_of_ceiling = read / result.median_us / (buffer.nbytes / fastest)
            result.ceiling = f"{read_name()}, {buffer.nbytes / 1e6:.0f} MB"
        return result


class LanguagePrefillBenchmark(_LanguageBenchmark):
    """From a prompt to its first token."""

    def __init__(self, model: LanguageModel, tokens: int = 512) -> None:
        super().__init__(model)
        if tokens < 1:
            raise ArgumentError(f"LanguagePrefillBenchmark: tokens: got {tokens}, wanted 1 or more")
        self.tokens = tokens

    @property
    def name(self) -> str:
        return f"prefill_{self.language.label}_{self.tokens}"

    @property
    def params(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "dtype": self.language.dtype}

    def obstacle(self) -> str | None:
        limit = self.language.model.config.max_position_embeddings
        return None if self.tokens < limit else f"{self.tokens} tokens leave no room in the model's {limit} positions"

    def run(self, effort: Effort = DEFAULT_EFFORT, peers: Sequence[Peer] = ()) -> BenchmarkResult:
        reason = self.obstacle()
        if reason is not None:
            raise UnsupportedError(f"{self.name}: {reason}")
        (prompt,) = self.language.prompts(1, self.tokens)
        engine = self.language.model.engine(
            max_tokens=self.tokens + 1, token_budget=self.tokens, keep_prefixes=False
        )

        def first_token() -> int:
            return engine.next(engine.submit(prompt, 1, temperature=0.0)).id

        hidden = self.language.model(prompt)[0][-1:]
        correct = first_token() == int(self.language.model.get_logits(hidden).argmax())
        ours = HostTimer([first_token], gp.synchronize)
        rivals, faults = self._rivals(peers, lambda peer: peer.readers(prompt))
        samples = take_turns([ours, *rivals.values()], effort)
        result = self._result(samples[0], ours, self.tokens, correct)
        result.peer_faults = faults
        for (name, timer), theirs in zip(rivals.items(), samples[1:], strict=True):
            ratio = theirs.median / result.median_us
            result.peers[name] = PeerResult(theirs.median, ratio, "the same prompt", timer.clock)
        return result


def host_us_between_steps(model: LanguageModel, context: int, steps: int = 200) -> float:
    """What a step of one text costs beside the GPU's work: its time less that of the same step without a wait."""
    decoding = _Decoding(model, 1, context, steps + 2)
    decoding.restart()
    decoding.step()
    start = time.perf_counter()
    for _ in range(steps):
        decoding.step()
    whole = (time.perf_counter() - start) / steps
    plain = model.model
    plain.init_fixed_cache(context + steps + 2)
    (prompt,) = model.prompts(1, context)
    plain.prefill_fixed_cache(prompt)
    decoder = plain.decoder()
    decoder.replay([0], context)
    gp.synchronize()
    start = time.perf_counter()
    for i in range(steps):
        decoder.replay([0], context + i)
    gp.synchronize()
    return (whole - (time.perf_counter() - start) / steps) * 1e6
