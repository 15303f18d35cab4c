"""A language model that speaks: each sentence is said while the next one is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpukit._core._voice import Answer, SpeechStatsBook
from pygpukit._core._voice import SpeechStats as LLMToTTSStats
from pygpukit.llm import CausalTransformerModel, Tokenizer
from pygpukit.pipeline.stages import Contexts, Stages, spoken, written
from pygpukit.pipeline.vad import Samples
from pygpukit.tts import KokoroModel

__all__ = ["LLMToTTSPipeline", "LLMToTTSStats", "StreamingTTSCallback", "TTSChunk", "speak"]


@dataclass
class TTSChunk:
    """Some sound, and the sentence that begins with it, if one does. Times are seconds since the request."""

    audio: Samples
    sample_rate: int
    text: str
    start_time: float
    end_time: float
    is_final: bool = False

    @property
    def duration_ms(self) -> float:
        """Of the sound."""
        return 1000 * self.audio.size / self.sample_rate

    @property
    def latency_ms(self) -> float:
        """What it took to make it."""
        return 1000 * (self.end_time - self.start_time)


class StreamingTTSCallback:
    """Is told what happens. Override what you need."""

    def on_audio_chunk(self, chunk: TTSChunk) -> None:
        """Sound to play."""

    def on_complete(self) -> None:
        """That was the last one."""

    def on_error(self, error: Exception) -> None:
        """Nothing more comes."""


class LLMToTTSPipeline:
    """``llm_model`` writes, ``tts_model`` speaks, each in a thread of its own. ``llm_tokenizer`` is the model's own.

    Requests may overlap. ``contexts`` are execution contexts of ``"llm"`` and ``"tts"``.
    """

    def __init__(
        self,
        llm_model: CausalTransformerModel,
        tts_model: KokoroModel,
        llm_tokenizer: Tokenizer | None = None,
        voice: str | None = None,
        speed: float = 1.0,
        *,
        contexts: Contexts | None = None,
    ) -> None:
        tokenizer = llm_tokenizer if llm_tokenizer is not None else getattr(llm_model, "tokenizer", None)
        if tokenizer is None:
            raise ValueError("LLMToTTSPipeline: llm_tokenizer must be given: the model has none")
        self.llm_model, self.tts_model, self.tokenizer = llm_model, tts_model, tokenizer
        self.voice, self.speed = voice, speed
        self._contexts = {} if contexts is None else contexts
        self._book = SpeechStatsBook()

    @property
    def stats(self) -> LLMToTTSStats:
        """Sums over requests since reset_stats."""
        return self._book.read()

    def reset_stats(self) -> None:
        """Begins to count anew."""
        self._book.reset()

    def generate_speech(
        self,
        prompt: str,
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
        stream_sentences: bool = True,
        **sampling: Any,
    ) -> Iterator[TTSChunk]:
        """What the model writes after ``prompt``, in chunks of sound: sentence by sentence, or all text as one.

        A sentence is said while the next one is written. Closing the iterator stops both. ``sampling``: seed and what
        else the model's generate_stream takes.
        """
        ids = self.tokenizer.encode(prompt)
        draw = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
        answer = Answer(self._book, self.tts_model.sample_rate, stream_sentences)
        stages = Stages(answer, self._contexts)

        def write() -> None:
            with stages.within("llm"):
                written(answer, self.llm_model, self.tokenizer, ids, draw | sampling)

        return self._chunks(answer, stages, write)

    def synthesize_text(self, text: str) -> TTSChunk:
        """Says a text as it is. ValueError where it has nothing to say."""
        answer = Answer(self._book, self.tts_model.sample_rate, stream_sentences=False)
        answer.put_text(text, tokens=0)
        answer.end_text()
        chunks = list(self._chunks(answer, Stages(answer, self._contexts)))
        if not chunks:
            raise ValueError("synthesize_text: the text has nothing that can be spoken")
        audio = np.concatenate([chunk.audio for chunk in chunks])
        first, last = chunks[0], chunks[-1]
        return TTSChunk(audio, first.sample_rate, text, first.start_time, last.end_time, is_final=True)

    def generate_speech_with_callback(
        self,
        prompt: str,
        callback: StreamingTTSCallback,
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
        **sampling: Any,
    ) -> None:
        """generate_speech, told to a callback; errors too."""
        try:
            for chunk in self.generate_speech(prompt, max_new_tokens, temperature, top_k, top_p, **sampling):
                callback.on_audio_chunk(chunk)
        except Exception as error:
            callback.on_error(error)
        else:
            callback.on_complete()

    def _chunks(self, answer: Answer, stages: Stages, write: Callable[[], None] | None = None) -> Iterator[TTSChunk]:
        def speak() -> None:
            with stages.within("tts"):
                spoken(answer, self.tts_model, self.voice, self.speed)

        if write is not None:
            stages.run(write)
        stages.run(speak)
        rate = self.tts_model.sample_rate
        try:
            while (event := answer.next_event()).kind != "end":
                if event.kind == "sound":
                    audio = np.frombuffer(event.samples, np.float32)
                    yield TTSChunk(audio, rate, event.text, event.begun, event.ended, event.last)
            stages.check()
        finally:
            answer.stop()


def speak(
    llm: CausalTransformerModel,
    tts: KokoroModel,
    prompt: str,
    voice: str | None = None,
    max_new_tokens: int = 256,
    llm_tokenizer: Tokenizer | None = None,
) -> Samples:
    """The samples of what a model writes after a prompt."""
    pipeline = LLMToTTSPipeline(llm, tts, llm_tokenizer, voice)
    chunks = [chunk.audio for chunk in pipeline.generate_speech(prompt, max_new_tokens)]
    return np.concatenate([np.zeros(0, np.float32), *chunks])
