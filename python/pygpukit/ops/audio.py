"""Sound: spectra, mel bands, files."""

from __future__ import annotations

from pygpukit._core._audio import log_mel_whisper, read_wav, resample, write_wav

__all__ = ["log_mel_whisper", "read_wav", "resample", "write_wav"]
