"""A conversation: hear, understand, answer, speak, and fall silent when interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from pygpukit.asr import WhisperModel
from pygpukit.llm import (
    CausalTransformerModel,
    ChatMessage,
    Tokenizer,
    apply_chat_template,
    load_model_from_safetensors,
)
from pygpukit.pipeline.llm_tts import LLMToTTSPipeline
from pygpukit.pipeline.vad import Samples, VADConfig, VoiceActivityDetector
from pygpukit.tts import KokoroModel
from pygpukit.typing import PathLike

__all__ = [
    "ConversationTurn",
    "PipelineState",
    "PipelineStats",
    "VoicePipeline",
    "VoicePipelineCallback",
    "create_voice_pipeline",
]


class PipelineState(Enum):
    """What a pipeline does now."""

    IDLE = "idle"
    LISTENING = "listening"
    TRANSCRIBING = "transcribing"
    GENERATING = "generating"
    SPEAKING = "speaking"


@dataclass
class ConversationTurn:
    """What the user or the assistant said, and when, in seconds of ``time.time``."""

    role: str
    text: str
    timestamp: float


@dataclass
class PipelineStats:
    """Sums over a conversation; times are milliseconds."""

    total_turns: int = 0
    interruptions: int = 0
    total_speech_seconds: float = 0.0
    transcription_time_ms: float = 0.0
    generation_time_ms: float = 0.0
    audio_seconds: float = 0.0
    first_audio_latency_ms: float = 0.0


class VoicePipelineCallback:
    """Is told what happens. Override what you need."""

    def on_listening_start(self) -> None:
        """start_listening was called."""

    def on_speech_detected(self) -> None:
        """Somebody began to speak."""

    def on_transcription_start(self) -> None:
        """Somebody has spoken."""

    def on_transcription_complete(self, text: str) -> None:
        """That is what was said."""

    def on_generation_start(self) -> None:
        """The answer begins."""

    def on_generation_token(self, token: str) -> None:
        """A piece of the answer's text."""

    def on_generation_complete(self, text: str) -> None:
        """The whole answer, or what there was of it when it was interrupted."""

    def on_tts_start(self) -> None:
        """The first sound follows."""

    def on_audio_chunk(self, audio: Samples, sample_rate: int) -> None:
        """Sound to play."""

    def on_tts_complete(self) -> None:
        """That was the last sound of the answer."""

    def on_interruption(self) -> None:
        """The answer stops here."""

    def on_error(self, error: Exception) -> None:
        """The turn is given up."""


class VoicePipeline:
    """Takes samples of a microphone, gives samples for a loudspeaker.

    ``process_audio`` returns an iterator of the answer's sound. It may be called again, from another thread too, while
    an iterator is read: new speech interrupts the answer, and the iterator ends within 100 ms of sound.
    """

    CHUNK_SECONDS = 0.1

    def __init__(
        self,
        whisper_model: WhisperModel,
        llm_model: CausalTransformerModel,
        tts_model: KokoroModel,
        llm_tokenizer: Tokenizer | None = None,
        vad_config: VADConfig | None = None,
        system_prompt: str | None = None,
        voice: str | None = None,
        callback: VoicePipelineCallback | None = None,
        *,
        language: str | None = "en",
        max_new_tokens: int = 128,
    ) -> None:
        self.whisper_model, self.system_prompt = whisper_model, system_prompt
        self.callback = callback if callback is not None else VoicePipelineCallback()
        self._speech = LLMToTTSPipeline(llm_model, tts_model, llm_tokenizer, voice)
        self._vad = VoiceActivityDetector(vad_config)
        self._language, self._max_new_tokens = language, max_new_tokens
        self._stop = threading.Event()  # of the answer that is being made
        self.reset()

    @property
    def state(self) -> PipelineState:
        """What it does now."""
        return self._state

    @property
    def stats(self) -> PipelineStats:
        """Sums since the last reset."""
        return self._stats

    @property
    def conversation_history(self) -> list[ConversationTurn]:
        """The turns so far, a copy. The language model sees the last ones that it has room for."""
        return list(self._history)

    def reset(self) -> None:
        """Forgets the conversation and the stream."""
        self._vad.reset()
        self._stop.set()
        self._history: list[ConversationTurn] = []
        self._stats = PipelineStats()
        self._state = PipelineState.IDLE

    def start_listening(self) -> None:
        """From now on process_audio hears."""
        self._state = PipelineState.LISTENING
        self.callback.on_listening_start()

    def stop_listening(self) -> None:
        """Until start_listening what comes is not heard; an answer stops."""
        self.interrupt()
        self._vad.reset()
        self._state = PipelineState.IDLE

    def interrupt(self) -> None:
        """Stops the answer that is being made; without one nothing happens."""
        if self._state in (PipelineState.GENERATING, PipelineState.SPEAKING) and not self._stop.is_set():
            self._stop.set()
            self._stats.interruptions += 1
            self.callback.on_interruption()

    def process_audio(self, audio: Samples) -> Iterator[Samples]:
        """Hears samples of vad_config.sample_rate; the iterator gives the answer to what has ended in them."""
        heard: list[Samples] = []
        for event in self._vad.process_audio(audio) if self._state is not PipelineState.IDLE else ():
            if event.event_type == "speech_start":
                self.callback.on_speech_detected()
                self.interrupt()
            elif event.audio is not None:
                heard.append(event.audio)
        return self._answer(heard)

    def _answer(self, heard: Sequence[Samples]) -> Iterator[Samples]:
        for audio in heard:
            if self.state is PipelineState.IDLE:  # stopped by who hears
                return
            stop = self._stop = threading.Event()
            try:
                yield from self._answer_one(audio, stop)
            except Exception as error:
                self.callback.on_error(error)
                raise
            finally:
                self._hear_again(stop)

    def _hear_again(self, stop: threading.Event) -> None:
        """After an answer, unless the pipeline was closed or is at another one."""
        if self._stop is stop and self._state is not PipelineState.IDLE:
            self._state = PipelineState.LISTENING

    def _answer_one(self, audio: Samples, stop: threading.Event) -> Iterator[Samples]:
        text = self._transcribe(audio)
        if not text:
            return
        self._history.append(ConversationTurn("user", text, time.time()))
        prompt = self._prompt()
        turn = ConversationTurn("assistant", "", time.time())
        self._history.append(turn)
        self._stats.total_turns += 1
        self._state = PipelineState.GENERATING
        self.callback.on_generation_start()
        start, spoken = time.perf_counter(), False
        for chunk in self._speech.speak_tokens(
            prompt, self._max_new_tokens, on_token=self._note(turn), stopped=stop.is_set
        ):
            if not spoken:
                spoken = True
                self._state = PipelineState.SPEAKING
                self._stats.first_audio_latency_ms = 1000 * (time.perf_counter() - start)
                self.callback.on_tts_start()
            size = int(self.CHUNK_SECONDS * chunk.sample_rate)
            for at in range(0, chunk.audio.size, size):
                if stop.is_set():
                    break
                piece = chunk.audio[at : at + size]
                self._stats.audio_seconds += piece.size / chunk.sample_rate
                self.callback.on_audio_chunk(piece, chunk.sample_rate)
                yield piece
            if stop.is_set():
                break
        self._stats.generation_time_ms += 1000 * (time.perf_counter() - start)
        turn.text = turn.text.strip()
        self.callback.on_generation_complete(turn.text)
        if spoken and not stop.is_set():
            self.callback.on_tts_complete()

    def _transcribe(self, audio: Samples) -> str:
        self._state = PipelineState.TRANSCRIBING
        self.callback.on_transcription_start()
        start = time.perf_counter()
        rate = self._vad.config.sample_rate
        text = self.whisper_model.transcribe(audio, rate, self._language).text.strip()
        self._stats.transcription_time_ms += 1000 * (time.perf_counter() - start)
        self._stats.total_speech_seconds += audio.size / rate
        self.callback.on_transcription_complete(text)
        return text

    def _note(self, turn: ConversationTurn) -> Callable[[str], None]:
        def note(piece: str) -> None:
            turn.text += piece
            self.callback.on_generation_token(piece)

        return note

    def _prompt(self) -> list[int]:
        """The conversation's token ids: as many of its last turns as leave room for the answer."""
        room = self._speech.llm_model.config.max_position_embeddings - self._max_new_tokens
        first = [] if self.system_prompt is None else [ChatMessage("system", self.system_prompt)]
        turns = [ChatMessage(turn.role, turn.text) for turn in self._history]
        ids: list[int] = apply_chat_template([*first, *turns], self._speech.tokenizer)
        while len(ids) > room and len(turns) > 1:
            turns = turns[1:]
            ids = apply_chat_template([*first, *turns], self._speech.tokenizer)
        return ids


def create_voice_pipeline(
    whisper_path: PathLike,
    llm_path: PathLike,
    tts_path: PathLike,
    system_prompt: str | None = None,
    voice: str | None = None,
) -> VoicePipeline:
    """A pipeline of the models in three folders; the language model's has a tokenizer.json."""
    tts = KokoroModel.from_pretrained(tts_path, voice or "af_heart", "float32")
    llm, tokenizer = load_model_from_safetensors(llm_path), Tokenizer(llm_path)
    return VoicePipeline(
        WhisperModel.from_pretrained(whisper_path), llm, tts, tokenizer, system_prompt=system_prompt, voice=voice
    )
