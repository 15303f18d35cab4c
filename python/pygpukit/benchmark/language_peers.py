"""transformers at the same work: its generate, and one compiled step in a captured graph."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import pygpukit as gp
from pygpukit.benchmark.timing import HostTimer, Timer

__all__ = ["StepTimer", "Transformers"]

_CLOCK = "host clock, each token waited for"


class StepTimer(Timer):
    """Steps of which only `room` may follow each other; what begins them anew is not timed."""

    clock = _CLOCK

    def __init__(self, step: Callable[[], object], restart: Callable[[], object], room: int) -> None:
        super().__init__([step])
        self._restart, self._room, self._left = restart, room, 0

    def pass_us(self, passes: int) -> float:
        seconds = 0.0
        for _ in range(passes):
            if self._left == 0:
                self._restart()
                self._left = self._room
            start = time.perf_counter()
            self.calls[0]()
            seconds += time.perf_counter() - start
            self._left -= 1
        return seconds * 1e6 / passes


class _GenerateTimer(Timer):
    """A token of generate(): what more tokens cost, over how many more they are."""

    clock = "host clock over generate, less its first token"
    _MORE = 16

    def __init__(self, generate: Callable[[int], object]) -> None:
        super().__init__([lambda: generate(self._MORE)])
        self._generate = generate

    def pass_us(self, passes: int) -> float:
        more = max(passes, self._MORE)
        seconds = []
        for tokens in (1, 1 + more):
            start = time.perf_counter()
            self._generate(tokens)
            seconds.append(time.perf_counter() - start)
        return max(seconds[1] - seconds[0], 1e-9) * 1e6 / more


class Transformers:
    """A model of the same shape with random weights. ImportError where torch or transformers is missing."""

    def __init__(self, config: dict[str, Any], dtype: str) -> None:
        self._torch = torch = importlib.import_module("torch")
        transformers = importlib.import_module("transformers")
        self._on_gpu = gp.default_device().kind == "cuda"
        self._device = "cuda" if self._on_gpu else "cpu"
        self._static_cache = transformers.StaticCache
        rest = {name: value for name, value in config.items() if name != "model_type"}
        known = transformers.AutoConfig.for_model(config["model_type"], **rest)
        for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(known, token, None)
        with torch.device(self._device):
            self._model = transformers.AutoModelForCausalLM.from_config(
                known, dtype=getattr(torch, dtype), attn_implementation="sdpa"
            ).eval()
        self._vocab = known.vocab_size

    def decoders(self, batch: int, context: int) -> dict[str, Callable[[], Timer]]:
        """Steps of a batch, by name; each is made when called."""
        prompt = self._torch.randint(0, self._vocab, (batch, context), device=self._device)
        contenders: dict[str, Callable[[], Timer]] = {"transformers": lambda: self._generate(prompt)}
        if self._on_gpu:
            contenders["compiled"] = lambda: self._static(prompt, compiled=True)
        return contenders

    def readers(self, prompt: Sequence[int]) -> dict[str, Callable[[], Timer]]:
        """A prompt to the logits of its last token."""
        ids = self._torch.tensor([list(prompt)], device=self._device)

        def read() -> object:
            with self._torch.no_grad():
                return self._model(ids, use_cache=True, logits_to_keep=1).logits.argmax().item()

        return {"transformers": lambda: HostTimer([read], self._synchronize)}

    def _generate(self, prompt: Any) -> Timer:
        mask = self._torch.ones_like(prompt)

        def generate(tokens: int) -> None:
            with self._torch.no_grad():
                self._model.generate(
                    prompt, attention_mask=mask, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens
                )
            self._synchronize()

        generate(2)
        return _GenerateTimer(generate)

    def _static(self, prompt: Any, compiled: bool) -> Timer:
        """One token a step over a static cache, in a graph of CUDA where there is one."""
        torch, room = self._torch, 64
        batch, context = prompt.shape
        cache = self._static_cache(config=self._model.config, max_cache_len=context + room + 8)
        token = torch.zeros((batch, 1), dtype=torch.long, device=self._device)

        def forward() -> None:
            logits = self._model(token, past_key_values=cache, use_cache=True).logits[:, -1]
            token.copy_(logits.argmax(-1, keepdim=True))

        lengths: list[Any] = []

        def restart() -> None:
            for length in lengths:
                length.fill_(context)

        with torch.no_grad():
            first = self._model(prompt, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
            token.copy_(first.argmax(-1, keepdim=True))
            lengths += [layer.cumulative_length for layer in cache.layers]
            step = torch.compile(forward, dynamic=False) if compiled else forward
            run = self._captured(step) if self._on_gpu else step

        def one() -> None:
            with torch.no_grad():
                run()
            token[0, 0].item()

        return StepTimer(one, restart, room)

    def _captured(self, step: Callable[[], object]) -> Callable[[], object]:
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        replay: Callable[[], object] = graph.replay
        return replay

    def _synchronize(self) -> None:
        if self._on_gpu:
            self._torch.cuda.synchronize()
