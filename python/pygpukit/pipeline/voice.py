"""A conversation: hear, understand, answer, speak, and fall silent when interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import numpy as np

from pygpukit._core._voice import Answer, AnswerEvent, Conversation, StageNote, Turn
from pygpukit._core._voice import ConversationStats as PipelineStats
from pygpukit.asr import WhisperModel
from pygpukit.llm import (
    CausalTransformerModel,
    ChatMessage,
    Tokenizer,
    apply_chat_template,
    load_model_from_safetensors,
)
from pygpukit.pipeline.llm_tts import LLMToTTSStats
from pygpukit.pipeline.stages import Contexts, Stages, make_contexts, spoken, written
from pygpukit.pipeline.vad import Samples, VADConfig
from pygpukit.tts import KokoroModel
from pygpukit.typing import PathLike

__all__ = [
    "ConversationTurn",
    "PipelineState",
    "PipelineStats",
    "StageNote",
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
    an iterator is read: ``barge_in_seconds`` of new speech end that iterator at once, whether it transcribes, writes or
    speaks. Callbacks run in the thread that reads. ``contexts`` are execution contexts for "vad", "whisper", "llm" and
    "tts"; ``sampling`` is what the language model's generate_stream takes.
    """

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
        speed: float = 1.0,
        barge_in_seconds: float = 0.04,
        chunk_seconds: float = 0.02,
        max_history: int = 64,
        contexts: Contexts | None = None,
        **sampling: Any,
    ) -> None:
        tokenizer = llm_tokenizer if llm_tokenizer is not None else getattr(llm_model, "tokenizer", None)
        if tokenizer is None:
            raise ValueError("VoicePipeline: llm_tokenizer must be given: the model has none")
        self.whisper_model, self.llm_model, self.tts_model = whisper_model, llm_model, tts_model
        self.tokenizer, self.system_prompt = tokenizer, system_prompt
        self.callback = callback if callback is not None else VoicePipelineCallback()
        self._voice, self._speed, self._language = voice, speed, language
        self._draw = {"max_new_tokens": max_new_tokens, "temperature": 0.7, "top_k": 50, "top_p": 0.9} | sampling
        self._contexts = {} if contexts is None else contexts
        self._vad = vad_config if vad_config is not None else VADConfig()
        self._talk = Conversation(
            **asdict(self._vad),
            answer_rate=tts_model.sample_rate,
            barge_in_seconds=barge_in_seconds,
            max_history=max_history,
            chunk_seconds=chunk_seconds,
        )
        self._made = time.time()

    @property
    def state(self) -> PipelineState:
        """What it does now."""
        return PipelineState[self._talk.state]

    @property
    def stats(self) -> PipelineStats:
        """Sums since the last reset."""
        return self._talk.stats

    @property
    def speech_stats(self) -> LLMToTTSStats:
        """The same of the text and sound of all answers."""
        return self._talk.speech.read()

    @property
    def log(self) -> list[StageNote]:
        """What each stage made: speech found, words understood, an answer, sentences said, interruptions."""
        return self._talk.log

    @property
    def conversation_history(self) -> list[ConversationTurn]:
        """The last turns that are over. The language model sees those of them that it has room for."""
        return [ConversationTurn(turn.role, turn.text, self._made + turn.seconds) for turn in self._talk.history]

    def reset(self) -> None:
        """Forgets the conversation and the stream."""
        self._talk.reset()

    def start_listening(self) -> None:
        """From now on process_audio hears."""
        self._talk.start_listening()
        self.callback.on_listening_start()

    def stop_listening(self) -> None:
        """Until start_listening what comes is not heard; an answer stops."""
        if self._talk.stop_listening():
            self.callback.on_interruption()

    def interrupt(self) -> None:
        """Stops the turn that goes on; without one nothing happens."""
        if self._talk.interrupt():
            self.callback.on_interruption()

    def process_audio(self, audio: Samples) -> Iterator[Samples]:
        """Hears samples of vad_config.sample_rate; the iterator gives the answer to what has ended in them."""
        stages = Stages(None, self._contexts)
        with stages.within("vad"):
            heard = self._talk.hear(np.ascontiguousarray(audio, np.float32).tobytes())
        if heard.speech_started:
            self.callback.on_speech_detected()
        if heard.interrupted:
            self.callback.on_interruption()
        return self._answers([np.frombuffer(said, np.float32) for said in heard.said])

    def _answers(self, heard: Sequence[Samples]) -> Iterator[Samples]:
        for audio in heard:
            turn = self._talk.begin_turn(audio.size / self._vad.sample_rate)
            if turn is None:  # stopped by who hears
                return
            try:
                yield from self._answer(turn, audio)
            except Exception as error:
                self.callback.on_error(error)
                raise

    def _answer(self, turn: Turn, audio: Samples) -> Iterator[Samples]:
        answer, stages, notes = turn.answer, Stages(turn.answer, self._contexts), _Notes(self.callback)
        self.callback.on_transcription_start()
        stages.run(lambda: self._understand(turn, audio, stages))
        try:
            while (event := answer.next_event()).kind != "end":
                if event.kind == "heard" and event.text:
                    self._speak(answer, stages)
                notes.take(event)
                if event.kind == "sound":
                    samples = np.frombuffer(event.samples, np.float32)
                    if self._talk.note_sound(turn, samples.size, event.text):
                        self.callback.on_tts_start()
                    self.callback.on_audio_chunk(samples, self.tts_model.sample_rate)
                    yield samples
            stages.check()
        finally:
            notes.end(self._talk.finish(turn))

    def _understand(self, turn: Turn, audio: Samples, stages: Stages) -> None:
        """Whisper, then the language model."""
        with stages.within("whisper"):
            text = self.whisper_model.transcribe(audio, self._vad.sample_rate, self._language).text
        if not self._talk.heard(turn, text):
            turn.answer.end_text()
            turn.answer.end_sound()
            return
        prompt = self._prompt()
        self._talk.begin_answer(turn)
        with stages.within("llm"):
            written(turn.answer, self.llm_model, self.tokenizer, prompt, self._draw)

    def _speak(self, answer: Answer, stages: Stages) -> None:
        def speak() -> None:
            with stages.within("tts"):
                spoken(answer, self.tts_model, self._voice, self._speed)

        stages.run(speak)

    def _prompt(self) -> list[int]:
        """The token ids of the turns that leave room for the answer."""
        room = self.llm_model.config.max_position_embeddings - self._draw["max_new_tokens"]
        first = [] if self.system_prompt is None else [ChatMessage("system", self.system_prompt)]
        while True:
            turns = [ChatMessage(turn.role, turn.text) for turn in self._talk.window()]
            ids: list[int] = apply_chat_template([*first, *turns], self.tokenizer)
            if not self._talk.shrink_window(len(ids), room):
                return ids


class _Notes:
    """Tells a callback what the events of an answer say."""

    def __init__(self, callback: VoicePipelineCallback) -> None:
        self._callback, self._writes = callback, False

    def take(self, event: AnswerEvent) -> None:
        if event.kind == "heard":
            self._callback.on_transcription_complete(event.text)
            if event.text:
                self._writes = True
                self._callback.on_generation_start()
        elif event.kind == "token":
            self._callback.on_generation_token(event.text)
        elif event.kind == "written":
            self.end(event.text.strip())
        elif event.kind == "spoken":
            self._callback.on_tts_complete()

    def end(self, text: str) -> None:
        """The answer's text is over, once."""
        if self._writes:
            self._writes = False
            self._callback.on_generation_complete(text)


def create_voice_pipeline(
    whisper_path: PathLike,
    llm_path: PathLike,
    tts_path: PathLike,
    system_prompt: str | None = None,
    voice: str | None = None,
    *,
    shares: Mapping[str, float] | None = None,
    **options: Any,
) -> VoicePipeline:
    """A pipeline of the models in three folders; the language model's has a tokenizer.json.

    ``shares`` are parts of the GPU for "vad", "whisper", "llm" and "tts", at most 1 together: each of them gets an
    execution context, which its model is loaded in and stays with. ``options`` are those of VoicePipeline.
    """
    contexts = make_contexts(shares) if shares is not None else {}
    stages = Stages(None, contexts)
    with stages.within("tts"):
        tts = KokoroModel.from_pretrained(tts_path, voice or "af_heart", "float32")
    with stages.within("llm"):
        llm, tokenizer = load_model_from_safetensors(llm_path), Tokenizer(llm_path)
    with stages.within("whisper"):
        whisper = WhisperModel.from_pretrained(whisper_path)
    return VoicePipeline(
        whisper, llm, tts, tokenizer, system_prompt=system_prompt, voice=voice, contexts=contexts, **options
    )
