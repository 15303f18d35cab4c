"""Where somebody speaks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from pygpukit._core._voice import Detector
from pygpukit.ops.audio import AudioRingBuffer

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
    """The last ``max_duration`` seconds of a stream, on the host."""

    def __init__(self, sample_rate: int = 16000, max_duration: float = 60) -> None:
        self.sample_rate, self.max_duration = sample_rate, max_duration
        self._ring = AudioRingBuffer(int(max_duration * sample_rate), sample_rate, device="cpu")

    def append(self, audio: Samples) -> None:
        """Puts samples at the end; what has become too old leaves."""
        self._ring.write(np.ascontiguousarray(audio, np.float32))

    def get_audio(self, duration: float | None = None) -> Samples:
        """A copy of the last ``duration`` seconds, or of all there is."""
        there = len(self)
        count = there if duration is None else min(there, max(0, int(duration * self.sample_rate)))
        return np.asarray(self._ring.read(count, there - count).to_numpy(), np.float32)

    def clear(self) -> None:
        """Forgets what is there."""
        self._ring.clear()

    def __len__(self) -> int:
        return self._ring.samples_available
