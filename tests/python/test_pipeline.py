"""pygpukit.pipeline: speech in, speech out; real models where there are, small stand-ins where order is what counts."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.asr.whisper.model import TranscriptionResult
from pygpukit.llm import Tokenizer, load_model_from_safetensors
from pygpukit.pipeline import (
    AudioBuffer,
    LLMToTTSPipeline,
    PipelineState,
    SentenceBuffer,
    StreamingTTSCallback,
    VADConfig,
    VADState,
    VoiceActivityDetector,
    VoicePipeline,
    VoicePipelineCallback,
    create_voice_pipeline,
    speak,
)
from pygpukit.tts import KokoroModel

RATE = 16000


def tone(seconds, level=0.1):
    return (level * np.sin(2 * np.pi * 220 * np.arange(int(seconds * RATE)) / RATE)).astype("f4")


def quiet(seconds):
    return np.zeros(int(seconds * RATE), "f4")


STREAM = np.concatenate([quiet(0.6), tone(0.9), quiet(0.3), tone(0.6), quiet(0.9), tone(0.06), quiet(0.6)])


@pytest.mark.parametrize("size", [1, 77, 480, 5000, STREAM.size])
def test_speech_is_found_however_the_stream_is_cut(size):
    stream = STREAM[:20000] if size == 1 else STREAM
    detector = VoiceActivityDetector()
    events = [e for at in range(0, stream.size, size) for e in detector.process_audio(stream[at : at + size])]
    if size == 1:
        assert [e.event_type for e in events] == ["speech_start"]
        assert detector.is_speaking
        return
    assert [e.event_type for e in events] == ["speech_start", "speech_end"]
    start, end = events
    assert start.timestamp == pytest.approx(0.6, abs=0.04)
    assert end.timestamp == pytest.approx(0.6 + 1.8 + 0.5, abs=0.06)
    assert end.duration == pytest.approx(end.audio.size / RATE)
    first = round(end.timestamp * RATE) - end.audio.size
    np.testing.assert_array_equal(end.audio, stream[first : first + end.audio.size])
    assert 0 <= first <= 0.6 * RATE
    assert not detector.is_speaking


def test_detector_states_and_limits():
    detector = VoiceActivityDetector(VADConfig(max_speech_duration=1.0))
    assert detector.state is VADState.SILENCE
    assert [e.event_type for e in detector.process_audio(tone(0.3))] == ["speech_start"]
    assert detector.state is VADState.SPEECH
    assert detector.process_audio(quiet(0.12)) == []
    assert detector.state is VADState.TRAILING
    types = [e.event_type for e in detector.process_audio(tone(1.5))]
    assert types[:2] == ["speech_end", "speech_start"]
    detector.reset()
    assert detector.state is VADState.SILENCE
    assert detector.process_audio(np.full(4800, np.nan, "f4")) == []
    for wrong in ({"energy_threshold": 0}, {"silence_threshold": 1}, {"sample_rate": 0}, {"frame_duration_ms": 0},
                  {"max_speech_duration": 0.01}, {"min_silence_duration": -1}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong))):
            VoiceActivityDetector(VADConfig(**wrong))


def test_audio_buffer_keeps_the_end():
    buffer = AudioBuffer(sample_rate=10, max_duration=1)
    buffer.append(np.arange(8, dtype="f4"))
    buffer.append(np.arange(8, 13, dtype="f4"))
    assert len(buffer) == 10
    np.testing.assert_array_equal(buffer.get_audio(), np.arange(3, 13))
    np.testing.assert_array_equal(buffer.get_audio(0.2), [11, 12])
    buffer.clear()
    assert len(buffer) == 0 and buffer.get_audio(1).size == 0


def test_sentences_leave_when_the_next_begins():
    buffer = SentenceBuffer()
    given = []
    for piece in ["It co", "sts 3", ".", "50. D", "r. Lee ", "paid", "! And", " he", " left."]:
        buffer.append(piece)
        given += buffer.extract_sentences()
    assert given == ["It costs 3.50.", "Dr. Lee paid!"]
    assert buffer.flush() == "And he left."
    assert buffer.flush() == ""
    buffer.append("gone")
    buffer.clear()
    assert buffer.flush() == ""


class Ears:
    def transcribe(self, audio, rate, language):
        assert rate == RATE and audio.dtype == np.float32
        return TranscriptionResult(" What is this? ")


class Words:
    """A tokenizer of whole words, and a model that says a text over and over."""

    eos_token_id = 0
    chat_template = None
    config = type("Config", (), {"max_position_embeddings": 400})

    def __init__(self, text):
        self.words = ["", *text.split(" ")]

    def encode(self, text, add_special_tokens=True):
        return [1] * len(text.split())

    def stream(self):
        return self

    def push(self, token):
        return self.words[token] + " "

    def flush(self):
        return ""

    def generate_stream(self, ids, *options):
        self.seen = len(ids)
        yield from [*range(1, len(self.words)), 0]


class Tones:
    """A second of sound for each sentence."""

    sample_rate = 24000

    def generate_stream(self, text, voice, speed):
        if text.strip(" ."):
            yield gp.full((24000,), 0.5)


class Log(VoicePipelineCallback):
    def __init__(self):
        self.calls = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda *values: self.calls.append((name, *values))
        return super().__getattribute__(name)

    def names(self):
        return [call[0] for call in self.calls]


def make(text="It is a test. It goes on. The end.", **options):
    words = Words(text)
    log = Log()
    return VoicePipeline(Ears(), words, Tones(), words, callback=log, **options), log, words


def test_a_turn_from_speech_to_sound():
    pipeline, log, _ = make(system_prompt="Be brief.")
    assert list(pipeline.process_audio(STREAM)) == []
    pipeline.start_listening()
    assert pipeline.state is PipelineState.LISTENING
    pieces = list(pipeline.process_audio(STREAM))
    assert [p.size for p in pieces] == [2400] * 30
    assert [(t.role, t.text) for t in pipeline.conversation_history] == [
        ("user", "What is this?"), ("assistant", "It is a test. It goes on. The end."),
    ]  # fmt: skip
    names = [name for name in log.names() if name not in ("on_generation_token", "on_audio_chunk")]
    assert names == ["on_listening_start", "on_speech_detected", "on_transcription_start", "on_transcription_complete",
                     "on_generation_start", "on_tts_start", "on_generation_complete", "on_tts_complete"]  # fmt: skip
    assert pipeline.state is PipelineState.LISTENING
    stats = pipeline.stats
    assert (stats.total_turns, stats.interruptions, stats.audio_seconds) == (1, 0, pytest.approx(3.0))
    pipeline.stop_listening()
    assert pipeline.state is PipelineState.IDLE
    pipeline.reset()
    assert pipeline.conversation_history == [] and pipeline.stats.total_turns == 0


def test_new_speech_silences_the_answer_within_100_ms():
    pipeline, log, _ = make()
    pipeline.start_listening()
    answer = pipeline.process_audio(STREAM)
    heard = [next(answer) for _ in range(5)]
    assert pipeline.state is PipelineState.SPEAKING
    second = pipeline.process_audio(STREAM)
    assert "on_interruption" in log.names()
    assert list(answer) == [] and len(heard) == 5
    assert len(list(second)) == 30
    assert pipeline.stats.interruptions == 1
    roles = [turn.role for turn in pipeline.conversation_history]
    assert roles == ["user", "assistant", "user", "assistant"]
    third = pipeline.process_audio(STREAM)
    next(third)
    stopper = threading.Thread(target=pipeline.interrupt)
    stopper.start()
    stopper.join()
    assert list(third) == []


def test_a_long_conversation_keeps_within_the_model():
    pipeline, _, words = make(max_new_tokens=100)
    pipeline.start_listening()
    for _ in range(100):
        assert len(list(pipeline.process_audio(STREAM))) == 30
        assert words.seen <= 300
    assert pipeline.stats.total_turns == 100


def test_an_error_is_told_and_the_pipeline_goes_on():
    pipeline, log, _ = make()
    pipeline.start_listening()
    pipeline.whisper_model = None
    with pytest.raises(AttributeError):
        list(pipeline.process_audio(STREAM))
    assert log.names()[-1] == "on_error"
    assert pipeline.state is PipelineState.LISTENING


def test_sentences_of_a_model_are_said_one_by_one():
    words = Words("One two. Three four. ... Five")
    pipeline = LLMToTTSPipeline(words, Tones(), words)
    chunks = list(pipeline.generate_speech("Count."))
    assert [c.text for c in chunks] == ["One two.", "Three four.", "Five"]
    assert [c.is_final for c in chunks] == [False, False, True]
    assert all(c.duration_ms == 1000 and c.latency_ms > 0 for c in chunks)
    assert pipeline.stats.total_sentences == 3 and pipeline.stats.total_tokens == 7
    assert pipeline.stats.realtime_factor < 1 and pipeline.stats.first_audio_latency_ms > 0
    whole = list(pipeline.generate_speech("Count.", stream_sentences=False))
    assert [c.text for c in whole] == ["One two. Three four. ... Five"] and whole[0].is_final
    pipeline.reset_stats()
    assert pipeline.stats.total_sentences == 0
    assert pipeline.synthesize_text("Hi").is_final
    with pytest.raises(ValueError, match="nothing that can be spoken"):
        pipeline.synthesize_text("...")
    with pytest.raises(ValueError, match="llm_tokenizer must be given"):
        LLMToTTSPipeline(object(), Tones())
    assert speak(words, Tones(), "Count.", llm_tokenizer=words).size == 3 * 24000


def test_callbacks_of_speech():
    class Notes(StreamingTTSCallback):
        def __init__(self):
            self.chunks, self.done, self.errors = [], 0, []

        def on_audio_chunk(self, chunk):
            self.chunks.append(chunk)

        def on_complete(self):
            self.done += 1

        def on_error(self, error):
            self.errors.append(error)

    words = Words("One. Two.")
    notes = Notes()
    pipeline = LLMToTTSPipeline(words, Tones(), words)
    pipeline.generate_speech_with_callback("Go.", notes)
    assert [c.text for c in notes.chunks] == ["One.", "Two."] and notes.done == 1 and notes.errors == []
    words.generate_stream = None
    pipeline.generate_speech_with_callback("Go.", notes)
    assert notes.done == 1 and isinstance(notes.errors[0], TypeError)


def test_real_models_hear_and_speak(assets):
    pipeline = create_voice_pipeline(assets / "whisper-tiny", assets / "stories15M", assets / "kokoro-82m")
    said = KokoroModel.from_pretrained(assets / "kokoro-82m", dtype="float32").synthesize("The dog is happy.")
    heard = gp.ops.audio.resample(said.audio.data, 24000, RATE).to_numpy()
    pipeline._max_new_tokens = 6
    pipeline.start_listening()
    pieces = list(pipeline.process_audio(np.concatenate([quiet(0.3), heard, quiet(0.9)])))
    question, answer = pipeline.conversation_history
    assert question.text.lower().strip(" .!") == "the dog is happy"
    assert answer.role == "assistant"
    assert all(np.isfinite(piece).all() for piece in pieces)
    story = load_model_from_safetensors(assets / "stories15M")
    speech = LLMToTTSPipeline(story, pipeline._speech.tts_model, Tokenizer(assets / "stories15M"))
    chunks = list(speech.generate_speech("Once upon a time", max_new_tokens=5, temperature=0.0))
    assert chunks[-1].is_final and chunks[0].audio.size > 0
