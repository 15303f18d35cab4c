"""pygpukit.pipeline: speech in, speech out; real models where there are, small stand-ins where order is what counts."""

from __future__ import annotations

import gc
import statistics
import threading
import time
import tracemalloc

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.asr.whisper.model import TranscriptionResult
from pygpukit.llm import ChatMessage, Tokenizer, apply_chat_template, load_model_from_safetensors
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
from pygpukit.pipeline.stages import make_contexts
from pygpukit.scheduler import get_context, list_contexts
from pygpukit.tts import KokoroModel, from_wav, resample_audio

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

    def generate_stream(self, ids, *options, **named):
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
    assert [p.size for p in pieces] == [480] * 150
    assert [(t.role, t.text) for t in pipeline.conversation_history] == [
        ("user", "What is this?"), ("assistant", "It is a test. It goes on. The end."),
    ]  # fmt: skip
    names = [name for name in log.names() if name not in ("on_generation_token", "on_audio_chunk")]
    assert names[:5] == ["on_listening_start", "on_speech_detected", "on_transcription_start",
                         "on_transcription_complete", "on_generation_start"]  # fmt: skip
    assert sorted(names[5:]) == ["on_generation_complete", "on_tts_complete", "on_tts_start"]
    assert names.index("on_tts_start") < names.index("on_tts_complete") == len(names) - 1
    assert pipeline.state is PipelineState.LISTENING
    stats = pipeline.stats
    assert (stats.total_turns, stats.interruptions, stats.audio_seconds) == (1, 0, pytest.approx(3.0))
    assert stats.total_speech_seconds > 1.8 and stats.generation_time_ms > 0 and stats.first_audio_latency_ms > 0
    assert pipeline.speech_stats.total_sentences == 3
    assert [(note.stage, note.text) for note in pipeline.log if note.stage in ("whisper", "tts", "llm")] == [
        ("whisper", "What is this?"), ("tts", "It is a test."), ("tts", "It goes on."), ("tts", "The end."),
        ("llm", "It is a test. It goes on. The end."),
    ]  # fmt: skip
    assert pipeline.log[0].stage == "vad" and pipeline.log[0].text.endswith(" ms of speech")
    pipeline.stop_listening()
    assert pipeline.state is PipelineState.IDLE
    pipeline.reset()
    assert pipeline.conversation_history == [] and pipeline.stats.total_turns == 0 and pipeline.log == []


def test_new_speech_silences_the_answer():
    pipeline, log, _ = make()
    pipeline.start_listening()
    answer = pipeline.process_audio(STREAM)
    heard = [next(answer) for _ in range(5)]
    assert pipeline.state is PipelineState.SPEAKING
    assert list(pipeline.process_audio(tone(0.05))) == []  # long before a detector is sure of speech
    assert "on_interruption" in log.names()
    assert list(answer) == [] and len(heard) == 5
    assert pipeline.stats.interruptions == 1
    pipeline.process_audio(quiet(1.0))
    second = pipeline.process_audio(STREAM)
    assert len(list(second)) == 150
    roles = [turn.role for turn in pipeline.conversation_history]
    assert roles == ["user", "assistant", "user", "assistant"]
    third = pipeline.process_audio(STREAM)
    next(third)
    stopper = threading.Thread(target=pipeline.interrupt)
    stopper.start()
    stopper.join()
    assert list(third) == []


class SlowEars(Ears):
    """Begins to understand and does not end until it is told to."""

    def __init__(self):
        self.began, self.go_on = threading.Event(), threading.Event()

    def transcribe(self, audio, rate, language):
        self.began.set()
        assert self.go_on.wait(30)
        return super().transcribe(audio, rate, language)


def in_thread(iterator):
    """Reads an iterator in a thread; the thread, and the list that it fills."""
    got = []
    thread = threading.Thread(target=lambda: got.extend(iterator))
    thread.start()
    return thread, got


def test_new_speech_cancels_a_transcription():
    pipeline, log, _ = make()
    ears = pipeline.whisper_model = SlowEars()
    pipeline.start_listening()
    thread, got = in_thread(pipeline.process_audio(STREAM))
    assert ears.began.wait(30)
    assert pipeline.state is PipelineState.TRANSCRIBING
    list(pipeline.process_audio(tone(0.05)))
    thread.join(30)  # although the ears have not ended
    assert not thread.is_alive() and got == []
    ears.go_on.set()
    assert pipeline.stats.interruptions == 1 and pipeline.stats.total_turns == 0
    assert "on_interruption" in log.names() and "on_generation_start" not in log.names()
    assert pipeline.state is PipelineState.LISTENING and pipeline.conversation_history == []


class SlowVoice(Tones):
    """Waits in the middle of a synthesis."""

    def __init__(self):
        self.began, self.go_on = threading.Event(), threading.Event()

    def generate_stream(self, text, voice, speed):
        yield gp.full((2400,), 0.5)
        self.began.set()
        assert self.go_on.wait(30)
        yield gp.full((2400,), 0.25)


def test_new_speech_does_not_wait_for_a_synthesis():
    pipeline, _, _ = make()
    voice = pipeline.tts_model = SlowVoice()
    pipeline.start_listening()
    thread, got = in_thread(pipeline.process_audio(STREAM))
    assert voice.began.wait(30)
    pipeline.interrupt()
    thread.join(30)
    assert not thread.is_alive() and len(got) <= 5
    voice.go_on.set()


class CountingTokenizer(Words):
    """Counts how often a prompt is made."""

    made = 0

    def apply_chat_template(self, messages, add_generation_prompt=True):
        type(self).made += 1
        return [1] * sum(len(message["content"].split()) + 4 for message in messages)


def test_two_hundred_turns_cost_what_the_first_ones_did():
    class Short(Tones):
        def generate_stream(self, text, voice, speed):
            yield gp.full((480,), 0.5)

    pipeline, _, words = make(max_new_tokens=100, system_prompt="Be brief.")
    tokenizer = pipeline.tokenizer = CountingTokenizer(" ".join(words.words[1:]))
    pipeline.tts_model = Short()
    pipeline.callback = VoicePipelineCallback()
    pipeline.start_listening()
    tracemalloc.start()
    sizes, times, prompts = [], [], []
    for turn in range(200):
        start = time.process_time()
        assert len(list(pipeline.process_audio(STREAM))) == 3
        times.append(time.process_time() - start)
        prompts.append(words.seen)
        if turn % 50 == 49:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert pipeline.stats.total_turns == 200
    assert tokenizer.made <= 260
    assert max(prompts) <= 300
    assert len(pipeline.conversation_history) <= 64 and len(pipeline.log) <= 1000
    assert sizes[3] - sizes[1] < 100_000
    assert statistics.median(times[100:]) < 2 * statistics.median(times[:100])


def test_a_turn_that_fits_nowhere_is_an_error():
    pipeline, log, _ = make(max_new_tokens=398)
    pipeline.start_listening()
    with pytest.raises(ValueError, match="VoicePipeline: the last turn must fit into 2 tokens"):
        list(pipeline.process_audio(STREAM))
    assert log.names()[-1] == "on_error"


def test_an_error_is_told_and_the_pipeline_goes_on():
    pipeline, log, _ = make()
    pipeline.start_listening()
    ears, pipeline.whisper_model = pipeline.whisper_model, None
    with pytest.raises(AttributeError):
        list(pipeline.process_audio(STREAM))
    assert log.names()[-1] == "on_error"
    assert pipeline.state is PipelineState.LISTENING
    pipeline.whisper_model = ears
    assert len(list(pipeline.process_audio(STREAM))) == 150


def test_an_answer_that_is_not_heard_to_its_end_is_over():
    pipeline, log, _ = make()
    pipeline.start_listening()
    answer = pipeline.process_audio(STREAM)
    next(answer)
    answer.close()
    assert pipeline.state is PipelineState.LISTENING
    assert log.names().count("on_generation_complete") == 1
    assert pipeline.stats.generation_time_ms > 0
    assert pipeline.conversation_history[-1].role == "assistant"


def test_sentences_of_a_model_are_said_one_by_one():
    words = Words("One two. Three four. ... Five")
    pipeline = LLMToTTSPipeline(words, Tones(), words)
    chunks = list(pipeline.generate_speech("Count."))
    assert [c.text for c in chunks] == ["One two.", "Three four.", "Five"]
    assert [c.is_final for c in chunks] == [False, False, True]
    assert all(c.duration_ms == 1000 and c.latency_ms > 0 for c in chunks)
    stats = pipeline.stats
    assert stats.total_sentences == 3 and stats.total_tokens == 7
    assert stats.total_audio_duration_ms == 3000
    assert stats.realtime_factor < 1 and stats.first_audio_latency_ms > 0
    assert stats.avg_synthesis_time_per_sentence_ms == pytest.approx(stats.total_synthesis_time_ms / 3)
    assert len(stats.token_to_audio_latencies_ms) == 3
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


class WordByWord(Words):
    """Writes its last sentence only when it is told to."""

    def __init__(self, text):
        super().__init__(text)
        self.go_on = threading.Event()

    def generate_stream(self, ids, *options, **named):
        for token in range(1, len(self.words)):
            if self.words[token] == "Last":
                assert self.go_on.wait(30)
            yield token
        yield 0


def test_a_sentence_is_said_while_the_next_is_written():
    words = WordByWord("One two. Three four. Five. Last words.")
    pipeline = LLMToTTSPipeline(words, Tones(), words)
    chunks = pipeline.generate_speech("Count.")
    assert [next(chunks).text, next(chunks).text] == ["One two.", "Three four."]  # the writer has not ended
    words.go_on.set()
    assert [c.text for c in chunks] == ["Five.", "Last words."]


def test_the_first_sound_does_not_wait_for_its_sentence():
    words, voice = Words("One two three."), SlowVoice()
    pipeline = LLMToTTSPipeline(words, voice, words)
    pipeline.tts_model = voice
    talk = Words("One two. Three.")
    chunks = LLMToTTSPipeline(talk, voice, talk).generate_speech("Count.")
    first = next(chunks)  # the synthesis of the rest waits
    assert first.audio.size == 2400 and first.text == "One two."
    voice.go_on.set()
    assert [c.audio.size for c in chunks] == [2400] * 3


def test_requests_overlap():
    slow, quick = WordByWord("One. Two. Last."), Words("Quick. Answer.")
    slow_voice = LLMToTTSPipeline(slow, Tones(), slow)
    waiting = slow_voice.generate_speech("Count.")
    next(waiting)
    assert [c.text for c in LLMToTTSPipeline(quick, Tones(), quick).generate_speech("Go.")] == ["Quick.", "Answer."]
    waiting.close()
    slow.go_on.set()


def test_closing_an_iterator_stops_the_writer():
    closed = threading.Event()

    class Endless(Words):
        def generate_stream(self, ids, *options, **named):
            try:
                while True:
                    yield from range(1, len(self.words))
            finally:
                closed.set()

    words = Endless("One two. Three four.")
    chunks = LLMToTTSPipeline(words, Tones(), words).generate_speech("Count.")
    next(chunks)
    chunks.close()
    assert closed.wait(30)


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


def test_stages_run_in_their_contexts(fresh_contexts):
    seen = {}

    def note(stage):
        seen[stage] = [name for name in list_contexts() if get_context(name).stats.state == "RUNNING"]

    class NotedEars(Ears):
        def transcribe(self, *arguments):
            note("whisper")
            return super().transcribe(*arguments)

    class NotedVoice(Tones):
        def generate_stream(self, text, voice, speed):
            note("tts")
            yield from super().generate_stream(text, voice, speed)

    class NotedWords(Words):
        def generate_stream(self, ids, *options, **named):
            note("llm")
            yield from super().generate_stream(ids)

    contexts = make_contexts({"vad": 0.05, "whisper": 0.25, "llm": 0.4, "tts": 0.3})
    words = NotedWords("One. Two.")
    pipeline = VoicePipeline(NotedEars(), words, NotedVoice(), words, contexts=contexts)
    pipeline.start_listening()
    assert len(list(pipeline.process_audio(STREAM))) == 100
    for stage in ("whisper", "llm", "tts"):
        assert contexts[stage].llm_id in seen[stage]
    with pytest.raises(ValueError, match="shares must name stages of vad, whisper, llm, tts, got 'ears'"):
        make_contexts({"ears": 1})


def test_three_conversations_of_real_models(assets, fresh_contexts, tmp_path):
    shares = {"vad": 0.05, "whisper": 0.25, "llm": 0.4, "tts": 0.3}
    pipeline = create_voice_pipeline(
        assets / "whisper-tiny", assets / "stories15M", assets / "kokoro-82m",
        shares=shares, max_new_tokens=6, temperature=0.0,
    )  # fmt: skip
    assert len(list_contexts()) == 4
    llm, tokenizer = load_model_from_safetensors(assets / "stories15M"), pipeline.tokenizer
    voice = KokoroModel.from_pretrained(assets / "kokoro-82m", dtype="float32")
    for number, question in enumerate(["The dog is happy.", "She likes green.", "It is cold."]):
        path = tmp_path / f"{number}.wav"
        voice.synthesize(question).to_wav(path)
        samples, rate = from_wav(path)
        heard = resample_audio(samples, rate, RATE).to_numpy()
        pipeline.reset()
        pipeline.start_listening()
        sound = np.concatenate([quiet(0.3), heard, quiet(0.9)])
        blocks = [list(pipeline.process_audio(sound[at : at + 1600])) for at in range(0, sound.size, 1600)]
        pieces = [piece for block in blocks for piece in block]
        asked, answer = pipeline.conversation_history
        assert asked.text.lower().strip(" .!") == question.lower().strip(".")
        stages = {note.stage: note.text for note in pipeline.log}
        assert stages["whisper"] == asked.text and stages["llm"] == answer.text and "ms of speech" in stages["vad"]
        if number > 0:
            continue
        # What each model makes alone.
        prompt = apply_chat_template([ChatMessage("user", asked.text)], tokenizer)
        ids = list(llm.generate_stream(prompt, 6, temperature=0.0, eos_token_id=tokenizer.eos_token_id))
        assert answer.text == tokenizer.decode([i for i in ids if i != tokenizer.eos_token_id]).strip()
        spoken = [note.text for note in pipeline.log if note.stage == "tts"]
        alone = [chunk.to_numpy() for text in spoken for chunk in voice.generate_stream(text)]
        np.testing.assert_array_equal(np.concatenate([quiet(0), *pieces]), np.concatenate([quiet(0), *alone]))
        assert sum(piece.size for piece in pieces) > 0


def test_a_story_is_told(assets):
    story, voice = load_model_from_safetensors(assets / "stories15M"), Tones()
    speech = LLMToTTSPipeline(story, voice, Tokenizer(assets / "stories15M"))
    chunks = list(speech.generate_speech("Once upon a time", max_new_tokens=40, temperature=0.0))
    assert chunks[-1].is_final and len(chunks) > 1 and chunks[0].audio.size > 0
    again = list(speech.generate_speech("Once upon a time", max_new_tokens=40, temperature=0.0))
    assert [chunk.text for chunk in again] == [chunk.text for chunk in chunks]
