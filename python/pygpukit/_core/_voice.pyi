"""The parts of pygpukit.pipeline; internal."""



class SpeechStats:
    """Sums over requests; times are milliseconds."""

    def __init__(self) -> None: ...

    @property
    def total_tokens(self) -> int:
        """Tokens of text."""

    @property
    def total_sentences(self) -> int:
        """Sentences that were said."""

    @property
    def total_audio_duration_ms(self) -> float:
        """Sound."""

    @property
    def total_synthesis_time_ms(self) -> float:
        """What it took to make it."""

    @property
    def first_audio_latency_ms(self) -> float:
        """From the last request to its first sound."""

    @property
    def token_to_audio_latencies_ms(self) -> list[float]:
        """
        From the first text of a sentence to its first sound; of the last thousand.
        """

    @property
    def avg_synthesis_time_per_sentence_ms(self) -> float:
        """0 without sentences."""

    @property
    def realtime_factor(self) -> float:
        """Time to make the sound for each second of it; 0 without sound."""

class SpeechStatsBook:
    """What answers add to."""

    def __init__(self) -> None: ...

    def read(self) -> SpeechStats:
        """The sums so far."""

    def reset(self) -> None:
        """Begins anew."""

class AnswerEvent:
    """Something happened to an answer."""

    @property
    def kind(self) -> str:
        """heard, token, written, sound, spoken or end."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def samples(self) -> bytes:
        """float32."""

    @property
    def begun(self) -> float:
        """Seconds from the answer's beginning to when the sound was begun."""

    @property
    def ended(self) -> float:
        """The same for when it was there."""

    @property
    def last(self) -> bool:
        """No sound follows."""

class Answer:
    """One answer while it is written, spoken and heard, by three threads."""

    def __init__(self, book: SpeechStatsBook, sample_rate: int, stream_sentences: bool = True) -> None: ...

    def put_text(self, text: str, tokens: int = 1) -> bool:
        """False: stopped."""

    def end_text(self) -> None:
        """That was all."""

    def next_sentence(self) -> tuple[str, bool] | None:
        """
        Waits for (text, whether it is the last); None where nothing comes any more.
        """

    def put_sound(self, samples: bytes, last: bool = False) -> bool:
        """float32 samples of the sentence taken last. False: stopped."""

    def end_sound(self) -> None:
        """That was all."""

    def next_event(self) -> AnswerEvent:
        """Waits for what happens next."""

    def stop(self) -> bool:
        """True for the call that did it."""

    @property
    def stopped(self) -> bool:
        """stop() was called."""

    @property
    def text(self) -> str:
        """All text so far."""

class ConversationStats:
    """Sums over a conversation; times are milliseconds."""

    def __init__(self) -> None: ...

    @property
    def total_turns(self) -> int:
        """Turns with words."""

    @property
    def interruptions(self) -> int:
        """Turns that were stopped."""

    @property
    def total_speech_seconds(self) -> float:
        """Heard."""

    @property
    def transcription_time_ms(self) -> float:
        """Until it was written down."""

    @property
    def generation_time_ms(self) -> float:
        """Of answers, to the end of their sound."""

    @property
    def audio_seconds(self) -> float:
        """Sound that was given."""

    @property
    def first_audio_latency_ms(self) -> float:
        """From the last prompt to the first sound."""

class SpokenTurn:
    """What one side said."""

    @property
    def role(self) -> str:
        """user or assistant."""

    @property
    def text(self) -> str:
        """The words."""

    @property
    def seconds(self) -> float:
        """When, from the making of the conversation."""

class StageNote:
    """What one stage made of a turn."""

    @property
    def turn(self) -> int:
        """Its number, from 1."""

    @property
    def stage(self) -> str:
        """vad, whisper, llm, tts or interruption."""

    @property
    def text(self) -> str:
        """What it made."""

    @property
    def seconds(self) -> float:
        """When, from the making of the conversation."""

class Heard:
    """What samples of a microphone tell."""

    @property
    def speech_started(self) -> bool:
        """Somebody began to speak."""

    @property
    def interrupted(self) -> bool:
        """That stopped an answer."""

    @property
    def said(self) -> list[bytes]:
        """float32 samples of each stretch of speech that has ended."""

class Turn:
    """Someone's speech and its answer."""

    @property
    def answer(self) -> Answer:
        """The answer."""

class Conversation:
    """The logic of a spoken conversation."""

    def __init__(self, energy_threshold: float, silence_threshold: float, min_speech_duration: float, min_silence_duration: float, max_speech_duration: float, frame_duration_ms: float, sample_rate: int, answer_rate: int, barge_in_seconds: float, max_history: int, chunk_seconds: float) -> None: ...

    def start_listening(self) -> None:
        """From now on hear() hears."""

    def stop_listening(self) -> bool:
        """True when a turn was interrupted."""

    def reset(self) -> None:
        """Forgets everything."""

    def interrupt(self) -> bool:
        """True when there was a turn to stop."""

    def hear(self, samples: bytes) -> Heard:
        """The next samples of the microphone."""

    def begin_turn(self, speech_seconds: float) -> Turn:
        """None where nobody listens."""

    def heard(self, turn: Turn, text: str) -> bool:
        """What was said. False: nothing, or too late."""

    def begin_answer(self, turn: Turn) -> None:
        """The prompt is ready."""

    def note_sound(self, turn: Turn, samples: int, sentence: str) -> bool:
        """Sound was given. True for the first."""

    def finish(self, turn: Turn) -> str:
        """The turn is over; the text of the answer."""

    def window(self) -> list[SpokenTurn]:
        """The turns that a prompt has room for."""

    def shrink_window(self, tokens: int, room: int) -> bool:
        """Whether the window had to become shorter."""

    @property
    def state(self) -> str:
        """What goes on."""

    @property
    def stats(self) -> ConversationStats:
        """The sums."""

    @property
    def history(self) -> list[SpokenTurn]:
        """The last turns."""

    @property
    def log(self) -> list[StageNote]:
        """What the stages made."""

    @property
    def speech(self) -> SpeechStatsBook:
        """The sums of its answers."""

class Event:
    """Speech began or ended."""

    @property
    def start(self) -> bool:
        """It began."""

    @property
    def timestamp(self) -> float:
        """Seconds from the beginning of the stream."""

    @property
    def duration(self) -> float:
        """Seconds of audio."""

    @property
    def audio(self) -> bytes:
        """float32 samples of what was said, for an end."""

class Detector:
    """Where somebody speaks, by the energy of short frames."""

    def __init__(self, energy_threshold: float, silence_threshold: float, min_speech_duration: float, min_silence_duration: float, max_speech_duration: float, frame_duration_ms: float, sample_rate: int) -> None: ...

    def process(self, samples: bytes) -> list[Event]:
        """The events of float32 samples."""

    def reset(self) -> None:
        """Back to the beginning of a stream."""

    @property
    def state(self) -> str:
        """SILENCE, SPEECH or TRAILING."""

    @property
    def is_speaking(self) -> bool:
        """Between a start and its end."""

class SentenceBuffer:
    """Text that grows piece by piece, given on by whole sentences."""

    def __init__(self) -> None: ...

    def append(self, text: str) -> None:
        """Puts text behind what is there."""

    def extract_sentences(self) -> list[str]:
        """The sentences after which another has begun; they leave the buffer."""

    def flush(self) -> str:
        """All that is left."""

    def clear(self) -> None:
        """Forgets what is there."""
