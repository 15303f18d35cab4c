"""What ``generate`` and ``chat`` share: options, a loaded model, one answer with its speed."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pygpukit.llm import CausalTransformerModel, Engine, Tokenizer

__all__ = ["Answer", "Session", "add_arguments", "speed"]

# What --quantize calls the formats of weights.
FORMATS = {"fp8": "float8_e4m3", "int8": "int8", "int4": "int4", "nvfp4": "float4_e2m1"}


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
    parser.add_argument("--device", help="cpu, cuda or cuda:N")
    parser.add_argument("--dtype", help="of activations: float32 on the CPU and the checkpoint's on a GPU without it")
    parser.add_argument("--quantize", choices=FORMATS, help="format of the layers' matrices, made while loading")
    parser.add_argument("--max-seq-len", type=count, default=4096, metavar="N", help="tokens of prompt and answer")
    parser.add_argument("--max-new-tokens", type=count, default=512, metavar="N", help="tokens of an answer")
    parser.add_argument("--temperature", type=number, default=0.7, metavar="T", help="0: always the likeliest token")
    parser.add_argument("--top-k", type=_at_least(0, int), default=50, metavar="K", help="0: of all tokens")
    parser.add_argument("--top-p", type=number, default=0.9, metavar="P", help="the likeliest tokens of this sum")
    parser.add_argument("--repetition-penalty", type=_at_least(1e-6, float), default=1.0, metavar="X", help="1: none")
    parser.add_argument("--seed", type=int, help="the same seed draws the same tokens")
    parser.add_argument("--cuda-graph", action=argparse.BooleanOptionalAction, default=True, help="a step as one graph")
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
    """A model with its tokenizer, its engine and how tokens are drawn."""

    def __init__(
        self, model: CausalTransformerModel, tokenizer: Tokenizer, engine: Engine, limit: int, draw: dict[str, Any]
    ) -> None:
        self.model, self.tokenizer, self.engine = model, tokenizer, engine
        self._limit, self._draw = limit, draw

    @classmethod
    def open(cls, arguments: argparse.Namespace) -> Session:
        """Loads what the options name."""
        import pygpukit as gp
        from pygpukit.io import find_model
        from pygpukit.llm import CausalTransformerModel, Tokenizer

        name = arguments.model_option or arguments.model
        if name is None:
            raise gp.ArgumentError(f"{arguments.command}: name a MODEL; none comes with this build")
        path = Path(find_model(name))
        tokenizer = Tokenizer(arguments.tokenizer or (path if path.is_dir() else path.parent))
        device = gp.device(arguments.device) if arguments.device else gp.default_device()
        dtype = arguments.dtype or ("float32" if device.kind == "cpu" else None)
        quantize = FORMATS[arguments.quantize] if arguments.quantize else None
        model = CausalTransformerModel.from_safetensors(path, dtype, device=device, quantize=quantize)
        tokens = min(arguments.max_seq_len, model.config.max_position_embeddings)
        engine = model.engine(max_tokens=tokens, graphs=arguments.cuda_graph)
        ends = {*model.config.eos_token_ids, tokenizer.eos_token_id} - {None}
        draw = {
            "temperature": arguments.temperature,
            "top_k": arguments.top_k,
            "top_p": arguments.top_p,
            "repetition_penalty": arguments.repetition_penalty,
            "seed": arguments.seed,
            "stop_tokens": sorted(ends),
            "tokenizer": tokenizer,
        }
        return cls(model, tokenizer, engine, arguments.max_new_tokens, draw)

    def room(self, ids: Sequence[int]) -> int:
        """Tokens that may follow a prompt."""
        return min(self._limit, self.engine.max_tokens - len(ids))

    def answer(self, ids: Sequence[int], show: Callable[[str], None]) -> Answer:
        """Calls `show` with the text as it comes. Ctrl-C ends the answer: its `finish` is interrupted then."""
        texts, tokens, finish = [], 0, "interrupted"
        start = first = last = time.perf_counter()
        stream = self.model.stream(ids, self.room(ids), engine=self.engine, **self._draw)
        with contextlib.suppress(KeyboardInterrupt), contextlib.closing(stream):
            for token in stream:
                last = time.perf_counter()
                tokens += 1
                first = last if tokens == 1 else first
                texts.append(token.text)
                show(token.text)
                finish = token.finish or finish
        rate = (tokens - 1) / (last - first) if last > first else tokens / max(last - start, 1e-9)
        return Answer("".join(texts), tokens, len(ids), finish, last - start, rate)


def write(text: str) -> None:
    """Text of an answer as it comes."""
    sys.stdout.write(text)
    sys.stdout.flush()
