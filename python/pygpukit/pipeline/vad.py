"""Where somebody speaks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from pygpukit._core._voice import Detector

__all__ = ["AudioBuffer", "Samples", "VADConfig", "VADEvent", "VADState", "VoiceActivityDetector"]

Samples = NDArray[np.float32]


@dataclass
class VADConfig:
    """Levels are root mean squares of frames, times are seconds."""

    energy_threshold: float = 0.01
    silence_threshold: float = 0.005
    min_speech_duration: float = 0.1
    min_silence_duration: float = 0.5
    max_speech_duration: float = 30.0
    frame_duration_ms: float = 30
    sample_rate: int = 16000


class VADState(Enum):
    """Nobody speaks; somebody does; somebody has just stopped, perhaps."""

    SILENCE = "silence"
    SPEECH = "speech"
    TRAILING = "trailing"


@dataclass
class VADEvent:
    """``speech_start``, or ``speech_end`` with what was said. ``timestamp`` counts from the stream's beginning."""

    event_type: str
    timestamp: float
    audio: Samples | None = None
    duration: float = 0.0


class VoiceActivityDetector:
    """Finds speech in a stream. Its events do not depend on how the stream is cut into calls."""

    def __init__(self, config: VADConfig | None = None) -> None:
        self.config = config if config is not None else VADConfig()
        self._detector = Detector(**asdict(self.config))

    def process_audio(self, audio: Samples) -> list[VADEvent]:
        """What the next samples tell."""
        found = self._detector.process(np.ascontiguousarray(audio, np.float32).tobytes())
        return [
            VADEvent("speech_start", event.timestamp)
            if event.start
            else VADEvent("speech_end", event.timestamp, np.frombuffer(event.audio, np.float32), event.duration)
            for event in found
        ]

    def reset(self) -> None:
        """Back to the beginning of a stream."""
        self._detector.reset()

    @property
    def state(self) -> VADState:
        """What goes on now."""
        return VADState[self._detector.state]

    @property
    def is_speaking(self) -> bool:
        """Between a start and its end."""
        return self._detector.is_speaking


class AudioBuffer:
    """The last ``max_duration`` seconds of a stream."""

    def __init__(self, sample_rate: int = 16000, max_duration: float = 60) -> None:
        self.sample_rate, self.max_duration = sample_rate, max_duration
        self._samples = np.zeros(0, np.float32)

    def append(self, audio: Samples) -> None:
        """Puts samples at the end; what has become too old leaves."""
        joined = np.concatenate([self._samples, np.asarray(audio, np.float32)])
        self._samples = joined[max(0, joined.size - int(self.max_duration * self.sample_rate)) :].copy()

    def get_audio(self, duration: float | None = None) -> Samples:
        """A copy of the last ``duration`` seconds, or of all there is."""
        count = self._samples.size if duration is None else int(duration * self.sample_rate)
        last: Samples = self._samples[max(0, self._samples.size - count) :].copy()
        return last

    def clear(self) -> None:
        """Forgets what is there."""
        self._samples = np.zeros(0, np.float32)

    def __len__(self) -> int:
        return int(self._samples.size)
