"""What ``generate`` and ``chat`` share: options, a loaded model, one answer with its speed."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit.cli.text import complain

if TYPE_CHECKING:
    from pygpukit.llm import CausalTransformerModel, Engine, Tokenizer
    from pygpukit.llm.decode import DecodeSpeculative

__all__ = ["WEIGHT_FORMATS", "Answer", "Session", "add_arguments", "speed"]

# What --quantize calls the formats of weights.
WEIGHT_FORMATS = {"fp8": "float8_e4m3", "int8": "int8", "int4": "int4", "nvfp4": "float4_e2m1"}


def _at_least(low: float, kind: type) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = kind(text)
        if not value >= low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, got {text}")
        return value

    return convert


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of both commands, and the model."""
    count, number = _at_least(1, int), _at_least(0.0, float)
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="a folder, a SafeTensors file, or a name in the Hugging Face cache"
    )
    parser.add_argument("--model", dest="model_option", metavar="MODEL", help="the same as an option")
    parser.add_argument("--tokenizer", metavar="PATH", help="tokenizer.json or its folder; without it the model's own")
    parser.add_argument("--device", help="cpu, cuda or cuda:N (the GPU if there is one)")
    parser.add_argument("--dtype", help="of activations (float32 on the CPU, the checkpoint's on a GPU)")
    parser.add_argument("--quantize", choices=WEIGHT_FORMATS, help="quantise the layers' weights while loading")
    parser.add_argument(
        "--max-seq-len", type=count, default=4096, metavar="N", help="tokens of prompt and answer (4096)"
    )
    parser.add_argument("--max-new-tokens", type=count, default=512, metavar="N", help="tokens of an answer (512)")
    parser.add_argument("--batch-size", type=count, default=512, metavar="N", help="prompt tokens per step (512)")
    parser.add_argument("--temperature", type=number, default=0.7, metavar="T", help="0: the likeliest token (0.7)")
    parser.add_argument(
        "--top-k", type=_at_least(0, int), default=50, metavar="K", help="keep the K likeliest tokens; 0: all (50)"
    )
    parser.add_argument(
        "--top-p", type=number, default=0.9, metavar="P", help="keep the likeliest tokens up to this probability (0.9)"
    )
    parser.add_argument(
        "--repetition-penalty", type=_at_least(1e-6, float), default=1.0, metavar="X", help="1: none (1)"
    )
    parser.add_argument("--seed", type=int, help="the same seed draws the same tokens")
    parser.add_argument(
        "--cuda-graph", action=argparse.BooleanOptionalAction, default=True, help="a step is one CUDA graph (on)"
    )
    parser.add_argument("--speculative", action="store_true", help="speculative decoding; needs --temperature 0")
    parser.add_argument("--draft-tokens", type=count, default=4, metavar="N", help="tokens per draft (4)")
    parser.add_argument("--draft-layers", type=count, default=8, metavar="N", help="layers that make the draft (8)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


@dataclass
class Answer:
    """The text of one answer, why it ended and how fast it came."""

    text: str
    tokens: int
    prompt_tokens: int
    finish: str
    seconds: float
    tokens_per_second: float


def speed(answer: Answer) -> str:
    """``12 tokens in 0.40 s, 31.0 tokens/s``; the rate is of all tokens but the first, which the prompt delays."""
    return f"{answer.tokens} tokens in {answer.seconds:.2f} s, {answer.tokens_per_second:.1f} tokens/s"


class Session:
    """A model with its tokenizer and how tokens are drawn."""

    def __init__(self, model: CausalTransformerModel, tokenizer: Tokenizer, arguments: argparse.Namespace) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_tokens: int = min(arguments.max_seq_len, model.config.max_position_embeddings)
        self._new_tokens: int = arguments.max_new_tokens
        self._batch_size: int = arguments.batch_size
        ends = {*model.config.eos_token_ids}
        if tokenizer.eos_token_id is not None:
            ends.add(tokenizer.eos_token_id)
        self._ends = sorted(ends)
        self._draw: dict[str, Any] = {
            "temperature": arguments.temperature,
            "top_k": arguments.top_k,
            "top_p": arguments.top_p,
            "repetition_penalty": arguments.repetition_penalty,
            "seed": arguments.seed,
        }
        self._drafter: DecodeSpeculative | None = None
        self.engine: Engine | None = None
        if arguments.speculative:
            self._drafter = self._make_drafter(arguments)
        else:
            self.engine = model.engine(
                max_tokens=self.max_tokens, token_budget=self._batch_size, graphs=arguments.cuda_graph
            )

    @classmethod
    def open(cls, arguments: argparse.Namespace, default: bool = False) -> Session:
        """Loads what the options name; with `default` the model that comes with the package where they name none."""
        import pygpukit as gp
        from pygpukit.io import find_model
        from pygpukit.llm import DEFAULT_MODEL, CausalTransformerModel, Tokenizer

        name = arguments.model_option or arguments.model
        if name is None and not default:
            raise gp.ArgumentError(f"{arguments.command}: name a MODEL; the one in the package writes stories only")
        if name is None:
            name = DEFAULT_MODEL
            complain("(a toy model in PyGPUkit, which writes little stories; name a MODEL for others)")
        if arguments.speculative and (arguments.temperature > 0 or arguments.repetition_penalty != 1):
            raise gp.ArgumentError("--speculative takes the likeliest tokens: add --temperature 0, without a penalty")
        path = Path(find_model(name))
        tokenizer = Tokenizer(arguments.tokenizer or (path if path.is_dir() else path.parent))
        device = gp.device(arguments.device) if arguments.device else gp.default_device()
        dtype = arguments.dtype or ("float32" if device.kind == "cpu" else None)
        quantize = WEIGHT_FORMATS[arguments.quantize] if arguments.quantize else None
        return cls(
            CausalTransformerModel.from_safetensors(path, dtype, device=device, quantize=quantize), tokenizer, arguments
        )

    def _make_drafter(self, arguments: argparse.Namespace) -> DecodeSpeculative:
        from pygpukit.llm.decode import DecodeSpeculative

        drafter = DecodeSpeculative(arguments.draft_tokens, arguments.draft_layers)
        drafter.bind(self.model)
        self.model.init_fixed_cache(self.max_tokens)
        return drafter

    def room(self, ids: Sequence[int]) -> int:
        """Tokens that may follow a prompt. A draft needs its place in the cache too."""
        drafted = self._drafter.max_tokens if self._drafter else 0
        return min(self._new_tokens, self.max_tokens - len(ids) - drafted)

    def answer(self, ids: Sequence[int], show: Callable[[str], None]) -> Answer:
        """Calls `show` with the text as it comes. Ctrl-C ends the answer: its `finish` is interrupted then."""
        texts, tokens, finish = [], 0, "interrupted"
        start = first = last = time.perf_counter()
        pieces = self._checked_drafts(ids) if self._drafter else self._drawn(ids)
        with contextlib.suppress(KeyboardInterrupt), contextlib.closing(pieces):
            for text, end in pieces:
                last = time.perf_counter()
                tokens += 1
                first = last if tokens == 1 else first
                texts.append(text)
                show(text)
                finish = end or finish
        rate = (tokens - 1) / (last - first) if last > first else tokens / max(last - start, 1e-9)
        return Answer("".join(texts), tokens, len(ids), finish, last - start, rate)

    def _drawn(self, ids: Sequence[int]) -> Generator[tuple[str, str | None], None, None]:
        """The text of each token, and why the last one is the last."""
        stops: dict[str, Any] = {"stop_tokens": self._ends, "tokenizer": self.tokenizer}
        tokens = self.model.stream(ids, self.room(ids), engine=self.engine, **self._draw, **stops)
        with contextlib.closing(tokens) as stream:
            for token in stream:
                yield token.text, token.finish

    def _checked_drafts(self, ids: Sequence[int]) -> Generator[tuple[str, str | None], None, None]:
        """The same by drafts that the whole model checks."""
        assert self._drafter is not None
        room, position = self.room(ids), len(ids)
        for start in range(0, len(ids), self._batch_size):
            logits = self.model.prefill_fixed_cache(ids[start : start + self._batch_size], start)
        tokens = [int(logits.argmax())]
        stream = self.tokenizer.stream()
        for count in range(1, room + 1):
            token = tokens.pop(0)
            ended = token in self._ends
            finish = "stop_token" if ended else "length" if count == room else None
            yield stream.push(token) + (stream.flush() if finish else ""), finish
            if ended:
                return
            if not tokens:
                tokens, position, _ = self._drafter.step_speculative(token, position, position + 1)


def write(text: str) -> None:
    """Text of an answer as it comes."""
    sys.stdout.write(text)
    sys.stdout.flush()
