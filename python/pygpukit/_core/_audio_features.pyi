"""What pygpukit.ops.audio measures and changes; internal."""

import pygpukit._core
import pygpukit.typing


def cqt(audio: pygpukit.typing.AudioLike, sample_rate: int = 16000, hop_length: int = 160, f_min: float = 32.7, n_bins: int = 84, bins_per_octave: int = 12, *, return_complex: bool = False, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Constant-Q transform: float32 [..., frames, n_bins, 2], real and imaginary parts, or complex64 [..., frames, n_bins].
    """

def cqt_magnitude(audio: pygpukit.typing.AudioLike, sample_rate: int = 16000, hop_length: int = 160, f_min: float = 32.7, n_bins: int = 84, bins_per_octave: int = 12, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Magnitudes of cqt, [..., frames, n_bins]."""

def chroma_stft(spectrum: pygpukit._core.GPUArray, sample_rate: int = 16000, n_chroma: int = 12, tuning: float = 0.0, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Each frame of [..., bins] by pitch class from C up, over its largest: [..., n_chroma].
    """

def chroma_cqt(cqt_mag: pygpukit._core.GPUArray, bins_per_octave: int = 12, *, n_chroma: int = 12, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    The octaves of [..., n_bins] added up, over the largest: [..., n_chroma].
    """

def hpss(stft_mag: pygpukit._core.GPUArray, kernel_size: int = 31, power: float = 2.0, margin: float = 1.0) -> tuple[pygpukit._core.GPUArray, pygpukit._core.GPUArray]:
    """
    (harmonic, percussive) parts of magnitudes [..., frames, bins], by medians along time and frequency.
    """

def harmonic(stft_mag: pygpukit._core.GPUArray, kernel_size: int = 31, power: float = 2.0, margin: float = 1.0, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The first part that hpss gives."""

def percussive(stft_mag: pygpukit._core.GPUArray, kernel_size: int = 31, power: float = 2.0, margin: float = 1.0, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The second part that hpss gives."""

def griffin_lim(magnitude: pygpukit._core.GPUArray, n_iter: int = 32, hop_length: int = 160, win_length: int = -1, *, momentum: float = 0.99, seed: int = 0, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Signals [..., (frames - 1) * hop_length] whose spectra have about the magnitudes [..., frames, bins].
    """

def phase_vocoder(stft_output: pygpukit._core.GPUArray, rate: float, n_fft: int = 2048, hop_length: int = 512, *, phase_lock: bool = True, return_complex: bool = False, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    What stft gives at another tempo: ceil(frames / rate) frames whose phases go on as fast as they did.
    """

def time_stretch(audio: pygpukit.typing.AudioLike, rate: float, n_fft: int = 2048, hop_length: int = 512, *, phase_lock: bool = True, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    The sound at another tempo, the pitch as before: [..., round(n / rate)].
    """

def pitch_shift(audio: pygpukit.typing.AudioLike, sample_rate: int, n_steps: float, n_fft: int = 2048, hop_length: int = 512, *, phase_lock: bool = True, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The sound n_steps semitones higher, as long as before."""

def stft(audio: pygpukit.typing.AudioLike, n_fft: int = 512, hop_length: int = 160, win_length: int = -1, center: bool = True, *, window: pygpukit._core.GPUArray | None = None, return_complex: bool = False, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Short-time spectra: float32 [..., frames, n_fft // 2 + 1, 2], real and imaginary parts, or complex64 [..., frames, n_fft // 2 + 1].
    """

def istft(stft_output: pygpukit._core.GPUArray, hop_length: int = 160, win_length: int = -1, center: bool = True, length: int = -1, *, n_fft: int = -1, window: pygpukit._core.GPUArray | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The signals [..., n] of what stft gives."""

def power_spectrum(stft_output: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Squared magnitudes of what stft gives."""

def magnitude_spectrum(stft_output: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Magnitudes of what stft gives."""

def create_mel_filterbank(n_mels: int = 80, n_fft: int = 512, sample_rate: int = 16000, f_min: float = 0.0, f_max: float = -1.0, *, mel_scale: str = 'htk', norm: str | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Triangles of the htk or slaney mel scale, float32 [n_mels, n_fft // 2 + 1]; norm "slaney" gives all the same area. f_max below 0: half the sample rate.
    """

def apply_mel_filterbank(spectrogram: pygpukit._core.GPUArray, mel_filterbank: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """[..., n_mels] of a spectrogram [..., bins] and filters [n_mels, bins]."""

def log_mel(mel: pygpukit._core.GPUArray, eps: float = 1e-10, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """log(mel + eps)."""

def to_decibels(audio: pygpukit.typing.AudioLike, eps: float = 1e-10, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """10 log10(audio + eps)."""

def mel_spectrogram(audio: pygpukit.typing.AudioLike, n_fft: int = 512, hop_length: int = 160, n_mels: int = 80, sample_rate: int = 16000, f_min: float = 0.0, f_max: float = -1.0, *, win_length: int = -1, center: bool = True, window: pygpukit._core.GPUArray | None = None, mel_scale: str = 'htk', norm: str | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Power in mel bands, [..., frames, n_mels]: stft, power_spectrum and a mel filter bank.
    """

def log_mel_spectrogram(audio: pygpukit.typing.AudioLike, n_fft: int = 512, hop_length: int = 160, n_mels: int = 80, sample_rate: int = 16000, f_min: float = 0.0, f_max: float = -1.0, eps: float = 1e-10, *, win_length: int = -1, center: bool = True, window: pygpukit._core.GPUArray | None = None, mel_scale: str = 'htk', norm: str | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """log(mel_spectrogram + eps)."""

def mfcc(log_mel_input: pygpukit._core.GPUArray, n_mfcc: int = 13, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The first coefficients of the orthonormal DCT-II of [..., n_mels]."""

def delta(features: pygpukit._core.GPUArray, order: int = 1, width: int = 2, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Slopes along the frames of [..., frames, values] over width frames on either side, order times over.
    """

def autocorrelation(audio: pygpukit.typing.AudioLike, max_lag: int, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    [..., max_lag]: the sum of audio[i] * audio[i + lag] for lags from 0 up.
    """

def detect_pitch_yin(audio: pygpukit.typing.AudioLike, sample_rate: int = 16000, f_min: float = 50.0, f_max: float = 500.0, threshold: float = 0.1) -> float:
    """
    The pitch of a signal [n] in Hz, 0 where it has none. Waits for the device.
    """

def detect_pitch_yin_frames(audio: pygpukit.typing.AudioLike, sample_rate: int = 16000, frame_size: int = 1024, hop_size: int = 256, f_min: float = 50.0, f_max: float = 500.0, threshold: float = 0.1, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    The pitch of each frame in Hz, 0 where it has none: [..., 1 + (n - frame_size) // hop_size].
    """

def spectral_centroid(spectrum: pygpukit._core.GPUArray, sample_rate: int = 16000, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The mean frequency in Hz of each frame of [..., bins]."""

def spectral_bandwidth(spectrum: pygpukit._core.GPUArray, centroids: pygpukit._core.GPUArray, sample_rate: int = 16000, p: float = 2.0, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """How far each frame of [..., bins] spreads around its centroid, in Hz."""

def spectral_rolloff(spectrum: pygpukit._core.GPUArray, sample_rate: int = 16000, roll_percent: float = 0.85, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The frequency in Hz up to which a part of each frame's sum lies."""

def spectral_flatness(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The geometric over the arithmetic mean of each frame."""

def spectral_contrast(spectrum: pygpukit._core.GPUArray, n_bands: int = 6, alpha: float = 0.2, *, sample_rate: int = 16000, f_min: float = 200.0, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Peak over valley in dB of what lies below f_min and of n_bands octaves above: [..., n_bands + 1].
    """

def zero_crossing_rate(audio: pygpukit.typing.AudioLike, frame_size: int = 512, hop_size: int = 256, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Changes of sign over frame_size - 1: [..., 1 + (n - frame_size) // hop_size].
    """

def onset_strength(audio: pygpukit.typing.AudioLike, sample_rate: int = 16000, n_fft: int = 2048, hop_length: int = 512, n_mels: int = 128, f_min: float = 0.0, f_max: float = -1.0, lag: int = 1, max_size: int = 1, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """How much louder the mel bands get, in dB: [..., 1 + n // hop_length]."""

def onset_peaks(onset_envelope: pygpukit._core.GPUArray, sample_rate: int = 16000, hop_length: int = 512, delta: float = 0.07, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """bool [..., frames]: where the strengths have peaks."""

def onset_detect(onset_envelope: pygpukit._core.GPUArray, sample_rate: int = 16000, hop_length: int = 512, delta: float = 0.07) -> pygpukit._core.GPUArray:
    """
    The frames, int64, where strengths [frames] have peaks. Waits for the device.
    """
