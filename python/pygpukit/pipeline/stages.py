"""The threads that the stages of a pipeline run in, and the execution contexts around them."""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from pygpukit._core._voice import Answer
from pygpukit.llm import CausalTransformerModel, Tokenizer
from pygpukit.scheduler import ExecutionContext, context_session, create_context
from pygpukit.tts import KokoroModel
from pygpukit.tts.kokoro import AudioBuffer

__all__ = ["STAGES", "Contexts", "Draw", "Stages", "make_contexts", "spoken", "written"]

STAGES = ("vad", "whisper", "llm", "tts")
Contexts = Mapping[str, ExecutionContext]
Draw = Mapping[str, Any]


class Stages:
    """Runs stages in threads of their own. The first that fails stops the answer; ``check`` raises what it raised."""

    def __init__(self, answer: Answer | None, contexts: Contexts) -> None:
        self._answer, self._contexts = answer, contexts
        self._failed: list[Exception] = []

    def run(self, function: Callable[[], None]) -> None:
        """Starts a stage. It sees the caller's device and session."""

        def guarded() -> None:
            try:
                function()
            except Exception as error:
                self._failed.append(error)
                if self._answer is not None:
                    self._answer.stop()

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(guarded,), daemon=True).start()

    def within(self, stage: str) -> AbstractContextManager[Any]:
        """The session of a stage's execution context; nothing where it has none."""
        context = self._contexts.get(stage)
        return nullcontext() if context is None else context_session(context)

    def check(self) -> None:
        """Raises what a stage raised."""
        if self._failed:
            raise self._failed[0]


def make_contexts(shares: Mapping[str, float]) -> Contexts:
    """An execution context for each stage, with its share of the multiprocessors."""
    for stage in shares:
        if stage not in STAGES:
            raise ValueError(f"create_voice_pipeline: shares must name stages of {', '.join(STAGES)}, got {stage!r}")
    number = next(_numbers)
    return {stage: create_context(f"voice-{number}-{stage}", compute=share) for stage, share in shares.items()}


_numbers = itertools.count(1)


def written(
    answer: Answer, model: CausalTransformerModel, tokenizer: Tokenizer, ids: Sequence[int], draw: Draw
) -> None:
    """Puts what the model writes after ``ids`` into the answer, without the token that ends it."""
    end, stream = tokenizer.eos_token_id, tokenizer.stream()
    tokens = model.generate_stream(ids, eos_token_id=end, **draw)
    try:
        for token in tokens:
            if not answer.put_text("" if token == end else stream.push(token)):
                return
    finally:
        close = getattr(tokens, "close", None)
        if close is not None:
            close()
    answer.put_text(stream.flush(), tokens=0)
    answer.end_text()


def spoken(answer: Answer, model: KokoroModel, voice: str | None, speed: float) -> None:
    """Says the answer's sentences as they come, chunk by chunk."""
    while (sentence := answer.next_sentence()) is not None:
        text, final = sentence
        chunks = model.generate_stream(text, voice, speed=speed)
        for chunk, last in _with_last(chunks) if final else ((chunk, False) for chunk in chunks):
            if not answer.put_sound(np.ascontiguousarray(chunk.to_numpy(), np.float32).tobytes(), last):
                return
    answer.end_sound()


def _with_last(chunks: Iterator[AudioBuffer]) -> Iterator[tuple[AudioBuffer, bool]]:
    """Each, and whether it is the last one."""
    chunk = next(chunks, None)
    while chunk is not None:
        following = next(chunks, None)
        yield chunk, following is None
        chunk = following
