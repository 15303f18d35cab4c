"""A language model that speaks: each sentence is said while the next one is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pygpukit._core._voice import SentenceBuffer
from pygpukit.llm import CausalTransformerModel, Tokenizer
from pygpukit.pipeline.vad import Samples
from pygpukit.tts import KokoroModel

__all__ = ["LLMToTTSPipeline", "LLMToTTSStats", "StreamingTTSCallback", "TTSChunk", "speak"]


@dataclass
class TTSChunk:
    """A sentence and its sound. Times are seconds since the request."""

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


@dataclass
class LLMToTTSStats:
    """Sums over requests; first_audio_latency_ms is that of the last one."""

    total_tokens: int = 0
    total_sentences: int = 0
    total_audio_duration_ms: float = 0.0
    total_synthesis_time_ms: float = 0.0
    first_audio_latency_ms: float = 0.0
    token_to_audio_latencies_ms: list[float] = field(default_factory=list)

    @property
    def avg_synthesis_time_per_sentence_ms(self) -> float:
        """0 without sentences."""
        return self.total_synthesis_time_ms / max(1, self.total_sentences)

    @property
    def realtime_factor(self) -> float:
        """Time to make the sound for each second of it; 0 without sound."""
        made = self.total_audio_duration_ms
        return self.total_synthesis_time_ms / made if made > 0 else 0.0


class StreamingTTSCallback:
    """Is told what happens. Override what you need."""

    def on_audio_chunk(self, chunk: TTSChunk) -> None:
        """A sentence was said."""

    def on_complete(self) -> None:
        """That was the last one."""

    def on_error(self, error: Exception) -> None:
        """Nothing more comes."""


class LLMToTTSPipeline:
    """``llm_model`` writes, ``tts_model`` speaks. ``llm_tokenizer`` is the model's own."""

    _LATENCIES = 1000  # kept

    def __init__(
        self,
        llm_model: CausalTransformerModel,
        tts_model: KokoroModel,
        llm_tokenizer: Tokenizer | None = None,
        voice: str | None = None,
        speed: float = 1.0,
    ) -> None:
        tokenizer = llm_tokenizer if llm_tokenizer is not None else getattr(llm_model, "tokenizer", None)
        if tokenizer is None:
            raise ValueError("LLMToTTSPipeline: llm_tokenizer must be given: the model has none")
        self.llm_model, self.tts_model, self.tokenizer = llm_model, tts_model, tokenizer
        self.voice, self.speed = voice, speed
        self.stats = LLMToTTSStats()

    def reset_stats(self) -> None:
        """Begins to count anew."""
        self.stats = LLMToTTSStats()

    def generate_speech(
        self,
        prompt: str,
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
        stream_sentences: bool = True,
    ) -> Iterator[TTSChunk]:
        """What the model writes after ``prompt``, a chunk for each sentence, or one for all of them."""
        ids = self.tokenizer.encode(prompt)
        return self.speak_tokens(ids, max_new_tokens, temperature, top_k, top_p, stream_sentences)

    def speak_tokens(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
        stream_sentences: bool = True,
        on_token: Callable[[str], None] | None = None,
        stopped: Callable[[], bool] | None = None,
    ) -> Iterator[TTSChunk]:
        """The same after token ids. ``on_token`` gets pieces of text; ``stopped`` is asked between them."""
        start = time.perf_counter()
        buffer, first = SentenceBuffer(), True
        for piece in self._text(prompt_ids, max_new_tokens, temperature, top_k, top_p):
            if stopped is not None and stopped():
                return
            if on_token is not None:
                on_token(piece)
            buffer.append(piece)
            for sentence in buffer.extract_sentences() if stream_sentences else ():
                for chunk in self._said(sentence, start, first, final=False):
                    first = False
                    yield chunk
        if stopped is None or not stopped():
            yield from self._said(buffer.flush(), start, first, final=True)

    def synthesize_text(self, text: str) -> TTSChunk:
        """Says a text as it is. ValueError where it has nothing to say."""
        chunk = next(self._said(text, time.perf_counter(), first=True, final=True), None)
        if chunk is None:
            raise ValueError("synthesize_text: the text has nothing that can be spoken")
        return chunk

    def generate_speech_with_callback(
        self,
        prompt: str,
        callback: StreamingTTSCallback,
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
    ) -> None:
        """generate_speech, told to a callback; errors too."""
        try:
            for chunk in self.generate_speech(prompt, max_new_tokens, temperature, top_k, top_p):
                callback.on_audio_chunk(chunk)
        except Exception as error:
            callback.on_error(error)
        else:
            callback.on_complete()

    def _text(
        self, ids: Sequence[int], max_new_tokens: int, temperature: float, top_k: int, top_p: float
    ) -> Iterator[str]:
        """Pieces of what the model writes, without the token that ends it."""
        end = self.tokenizer.eos_token_id
        stream = self.tokenizer.stream()
        for token in self.llm_model.generate_stream(ids, max_new_tokens, temperature, top_k, top_p, end):
            self.stats.total_tokens += 1
            if token != end:
                yield stream.push(token)
        yield stream.flush()

    def _said(self, text: str, start: float, first: bool, final: bool) -> Iterator[TTSChunk]:
        """The chunk of a sentence; none of one that has nothing to say."""
        begun = time.perf_counter()
        samples = [np.zeros(0, np.float32)]
        samples += [part.to_numpy() for part in self.tts_model.generate_stream(text, self.voice, speed=self.speed)]
        audio = np.concatenate(samples)
        if audio.size == 0:
            return
        ended = time.perf_counter()
        rate = self.tts_model.sample_rate
        chunk = TTSChunk(audio, rate, text, begun - start, ended - start, final)
        stats = self.stats
        stats.total_sentences += 1
        stats.total_audio_duration_ms += chunk.duration_ms
        stats.total_synthesis_time_ms += chunk.latency_ms
        stats.token_to_audio_latencies_ms = [*stats.token_to_audio_latencies_ms, chunk.latency_ms][-self._LATENCIES :]
        if first:
            stats.first_audio_latency_ms = 1000 * (ended - start)
        yield chunk


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
