"""The parts of pygpukit.pipeline; internal."""



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
