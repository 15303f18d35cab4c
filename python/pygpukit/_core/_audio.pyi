"""The functions of pygpukit.ops.audio; internal."""

from collections.abc import Sequence
from typing import SupportsIndex

import pygpukit._core
import pygpukit.typing


class AudioRingBuffer:
    """The last samples of a stream; the oldest are written over."""

    def __init__(self, capacity: int, sample_rate: int = 16000, *, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    @property
    def capacity(self) -> int:
        """Samples that it can hold."""

    @property
    def sample_rate(self) -> int:
        """Samples of a second."""

    @property
    def samples_available(self) -> int:
        """Samples that it holds."""

    @property
    def duration_available(self) -> float:
        """Seconds that it holds."""

    def write(self, samples: pygpukit.typing.AudioLike | pygpukit.typing.HostBuffer) -> int:
        """Puts samples at the end and says how many."""

    def read(self, num_samples: int, offset: int = 0) -> pygpukit._core.GPUArray:
        """A copy of samples, counted from the oldest. They stay."""

    def clear(self) -> None:
        """Forgets what is there."""

    def __len__(self) -> int:
        """Samples that it holds."""

class AudioStream:
    """Chunks of a stream of samples, which may overlap."""

    def __init__(self, chunk_size: int = 480, hop_size: SupportsIndex | None = None, sample_rate: int = 16000, buffer_duration: float = 30.0, *, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    @property
    def chunk_size(self) -> int:
        """Samples of a chunk."""

    @property
    def hop_size(self) -> int:
        """Samples from one chunk to the next."""

    @property
    def sample_rate(self) -> int:
        """Samples of a second."""

    @property
    def capacity(self) -> int:
        """Samples that it can hold; the oldest are written over."""

    def push(self, samples: pygpukit.typing.AudioLike | pygpukit.typing.HostBuffer) -> int:
        """Puts samples at the end and says how many."""

    def has_chunk(self) -> bool:
        """A whole chunk is there."""

    @property
    def chunks_available(self) -> int:
        """Whole chunks that are there."""

    def pop_chunk(self, apply_window: bool = True) -> pygpukit._core.GPUArray:
        """
        The next chunk, times a symmetric Hann window. RuntimeError when there is none.
        """

    def reset(self) -> None:
        """Forgets what is there."""

class SpeechSegment:
    """Samples [start_sample, end_sample) and their times in seconds."""

    def __init__(self, start_sample: int, end_sample: int, start_time: float, end_time: float) -> None: ...

    @property
    def start_sample(self) -> int:
        """The first sample."""

    @start_sample.setter
    def start_sample(self, arg: int, /) -> None: ...

    @property
    def end_sample(self) -> int:
        """The one behind the last."""

    @end_sample.setter
    def end_sample(self, arg: int, /) -> None: ...

    @property
    def start_time(self) -> float:
        """Seconds."""

    @start_time.setter
    def start_time(self, arg: float, /) -> None: ...

    @property
    def end_time(self) -> float:
        """Seconds."""

    @end_time.setter
    def end_time(self, arg: float, /) -> None: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __repr__(self) -> str: ...

class VAD:
    """Where somebody speaks: frames that are loud enough and not a hum."""

    def __init__(self, sample_rate: int = 16000, frame_ms: float = 20.0, hop_ms: float = 10.0, energy_threshold: float | None = None, hangover_ms: float = 100.0, zcr_low: float = 0.02, zcr_high: float = 0.25) -> None: ...

    @property
    def sample_rate(self) -> int:
        """Samples of a second."""

    @property
    def frame_size(self) -> int:
        """Samples of a frame."""

    @property
    def hop_size(self) -> int:
        """Samples from one frame to the next."""

    @property
    def energy_threshold(self) -> float | None:
        """
        Root mean square above which a frame is speech; None: three times the quietest, 0.01 at least.
        """

    @property
    def hangover_ms(self) -> float:
        """For so long speech goes on after its last frame."""

    @property
    def zcr_low(self) -> float:
        """Changes of sign that speech has at least."""

    @property
    def zcr_high(self) -> float:
        """Not used."""

    def detect(self, audio: pygpukit.typing.AudioLike) -> list[SpeechSegment]:
        """The segments with speech, in order of time. Waits for the device."""

    def get_frame_features(self, audio: pygpukit.typing.AudioLike) -> tuple[pygpukit._core.GPUArray, pygpukit._core.GPUArray]:
        """(root mean square, changes of sign over size - 1) of each frame."""

def preemphasis(audio: pygpukit.typing.AudioLike, alpha: float = 0.97, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """x[i] - alpha x[i - 1], in place unless out is given."""

def deemphasis(audio: pygpukit.typing.AudioLike, alpha: float = 0.97, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """
    y[i] = x[i] + alpha y[i - 1], which undoes preemphasis; in place unless out is given.
    """

def remove_dc(audio: pygpukit.typing.AudioLike, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """Takes the mean away, in place unless out is given."""

def highpass_filter(audio: pygpukit.typing.AudioLike, cutoff_hz: float = 20.0, sample_rate: SupportsIndex | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """
    A one-pole high-pass, in place unless out is given. The rate is that of a buffer, else 16000.
    """

def noise_gate(audio: pygpukit.typing.AudioLike, threshold: float = 0.01, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """
    Samples nearer to 0 than the threshold become 0, in place unless out is given.
    """

def spectral_gate(audio: pygpukit.typing.AudioLike, threshold: float = 0.01, attack_samples: int = 64, release_samples: int = 256, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """Lowers what has little energy, in place unless out is given."""

def compute_short_term_energy(audio: pygpukit.typing.AudioLike, frame_size: int = 256, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The mean square of each whole frame, [n // frame_size]."""

def normalize(audio: pygpukit.typing.AudioLike, mode: str = 'peak', target_db: float = -20.0, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit.typing.AudioLike:
    """
    All samples by one factor: the peak to 1, or the root mean square to target_db. In place unless out is given.
    """

def check_buffer(data: pygpukit._core.GPUArray, sample_rate: SupportsIndex, channels: SupportsIndex) -> None:
    """Raises for what is no buffer of samples."""

def from_pcm(samples: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
    """float32 of int16 samples, full scale at 1; float32 samples themselves."""

def to_full_scale(samples: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
    """float32 of samples; integers lie in [-1, 1) then."""

def to_mono(samples: pygpukit._core.GPUArray, channels: int) -> pygpukit._core.GPUArray:
    """The mean of two channels that lie side by side."""

def stft(x: pygpukit._core.GPUArray, n_fft: int = 512, hop_length: int = 160, win_length: int = -1, center: bool = True, window: pygpukit._core.GPUArray | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """complex64 [frames, bins] of a signal, or of each row of a batch."""

def istft(spectrum: pygpukit._core.GPUArray, n_fft: int = -1, hop_length: int = 160, win_length: int = -1, center: bool = True, length: int = -1, window: pygpukit._core.GPUArray | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The signal of a complex64 spectrogram."""

def power_spectrum(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """|z|^2 of a complex64 array."""

def magnitude_spectrum(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """|z| of a complex64 array."""

def resample(signal: pygpukit._core.GPUArray, from_rate: int, to_rate: int, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    A float32 signal [n] or [batch, n] at another rate, [n * to_rate // from_rate].
    """

def resample_channels(samples: pygpukit._core.GPUArray, channels: int, from_rate: int, to_rate: int) -> pygpukit._core.GPUArray:
    """The same for channels that lie side by side."""

def log_mel_whisper(audio: pygpukit._core.GPUArray, n_mels: int = 80, frames: int = 3000, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    float32 [batch, n_mels, frames] of audio at 16 kHz, cut or padded with zeros, as Whisper wants it.
    """

def create_mel_filterbank(n_mels: int = 80, n_fft: int = 512, sample_rate: int = 16000, f_min: float = 0.0, f_max: float = -1.0, scale: str = 'htk', area_norm: bool = False, exact: bool = False, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
    """Triangles of the mel scale, float32 [n_mels, n_fft // 2 + 1]."""

def harmonic_source(f0: pygpukit._core.GPUArray, mix: Sequence[float], bias: float = 0.0, noise: pygpukit._core.GPUArray | None = None, rate: float = 24000.0, step: int = 300, *, seed: int | None = None, offset: int = 0, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Samples of a mix of harmonics of f0, which is in Hz and has one value for each step; noise: standard normal, or that of a seed.
    """

def samples_from_logs(x: pygpukit._core.GPUArray, hop_length: SupportsIndex, length: SupportsIndex, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """istft of spectrum_from_logs(x), in one step."""

def magnitude_phase(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    [2 bins, frames]: magnitudes, then phases, of a complex64 spectrum [frames, bins].
    """

def spectrum_from_logs(x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    complex64 [frames, bins] of [2 bins, frames]: the exponential of the first half at the angle sin of the second.
    """

def read_wav(path: pygpukit.typing.PathLike) -> tuple[pygpukit._core.GPUArray, int]:
    """
    (samples, sample rate) of a WAV file: float32 [channels, n] on the CPU.
    """

def write_wav(path: pygpukit.typing.PathLike, samples: pygpukit._core.GPUArray, sample_rate: SupportsIndex, format: str = 'pcm16') -> None:
    """
    Writes float32 samples [n] or [channels, n] as pcm8, pcm16, pcm24, pcm32, float32 or float64.
    """
