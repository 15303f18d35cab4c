"""Buffers, streams, filters, gates and voice activity against plain loops in float64."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops import audio

LENGTHS = [0, 1, 2, 7, 8, 9, 255, 256, 257, 2047, 2048, 2049, 4097, 10000]


def one_pole(x, a, b0, b1):
    y, state, before = np.zeros(len(x)), 0.0, 0.0
    for i, v in enumerate(x.astype("f8")):
        state = a * state + b0 * v + b1 * before
        before = v
        y[i] = state
    return y


def pole_of(cutoff, rate):
    r = 1 / (2 * np.pi * cutoff)
    return r / (r + 1 / rate)


RECURRENCES = {
    "preemphasis": (lambda x, **k: audio.preemphasis(x, 0.97, **k), (0.0, 1.0, -0.97)),
    "deemphasis": (lambda x, **k: audio.deemphasis(x, 0.97, **k), (0.97, 1.0, 0.0)),
    "deemphasis, sharp": (lambda x, **k: audio.deemphasis(x, -0.999, **k), (-0.999, 1.0, 0.0)),
    "deemphasis, none": (lambda x, **k: audio.deemphasis(x, 0.0, **k), (0.0, 1.0, 0.0)),
    "highpass": (
        lambda x, **k: audio.highpass_filter(x, 20.0, 16000, **k),
        (pole_of(20, 16000), pole_of(20, 16000), -pole_of(20, 16000)),
    ),
    "highpass, slow": (
        lambda x, **k: audio.highpass_filter(x, 0.1, 48000, **k),
        (pole_of(0.1, 48000), pole_of(0.1, 48000), -pole_of(0.1, 48000)),
    ),
}


@pytest.mark.parametrize("name", RECURRENCES)
def test_recurrences(device, rng, name):
    call, (a, b0, b1) = RECURRENCES[name]
    for n in LENGTHS:
        x = rng.normal(size=n).astype("f4")
        want = one_pole(x, a, b0, b1)
        given = gp.from_numpy(x)
        out = gp.empty((n,), "float32")
        assert call(given, out=out) is out
        np.testing.assert_array_equal(given.to_numpy(), x)
        scale = max(1.0, np.abs(want).max(initial=0))
        np.testing.assert_allclose(out.to_numpy(), want, atol=2e-5 * scale)
        # In place: the same object, the same bits.
        assert call(given) is given
        assert given.to_numpy().tobytes() == out.to_numpy().tobytes()


@pytest.mark.parametrize("name", RECURRENCES)
def test_recurrences_of_rows_and_views(device, rng, name):
    call, _ = RECURRENCES[name]
    x = rng.normal(size=(3, 5000)).astype("f4")
    alone = np.stack([call(gp.from_numpy(row)).to_numpy() for row in x])
    assert call(gp.from_numpy(x)).to_numpy().tobytes() == alone.tobytes()
    turned = gp.from_numpy(np.ascontiguousarray(x.T))
    view = turned.T
    assert call(view) is view
    assert turned.to_numpy().T.copy().tobytes() == alone.tobytes()
    wide = gp.zeros((3, 5100))
    assert call(gp.from_numpy(x), out=wide[:, 50:5050]).to_numpy().tobytes() == alone.tobytes()
    assert not wide.to_numpy()[:, :50].any() and not wide.to_numpy()[:, 5050:].any()


def test_a_long_recurrence(device, rng):
    """Of many tiles."""
    n = 2048 * 130
    x = rng.normal(size=n).astype("f4")
    y = audio.deemphasis(gp.from_numpy(x), 0.9999)
    back = audio.preemphasis(y, 0.9999).to_numpy()
    np.testing.assert_allclose(back, x, atol=1e-4)


def test_filters_are_captured(device, rng):
    x = gp.from_numpy(rng.normal(size=(2, 5000)).astype("f4"))
    calls = [call for call, _ in RECURRENCES.values()]
    calls += [
        lambda x, **k: audio.remove_dc(x, **k),
        lambda x, **k: audio.noise_gate(x, 0.5, **k),
        lambda x, **k: audio.spectral_gate(x, 0.5, **k),
        lambda x, **k: audio.resample(x, 44100, 16000, **k),
        lambda x, **k: audio.resample(x, 44100, 44101, **k),
        lambda x, **k: audio.compute_short_term_energy(x, 100, **k),
    ]
    for call in calls:
        expected = call(x, out=gp.empty(call(gp.array(x.to_numpy()), out=None).shape))
        out = gp.zeros(expected.shape)
        with gp.CudaGraph().capture() as graph:
            call(x, out=out)
        graph.replay()
        assert out.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_remove_dc_and_noise_gate(device, rng):
    x = (rng.normal(size=(2, 3001)) + [[3.0], [-7.0]]).astype("f4")
    got = audio.remove_dc(gp.from_numpy(x)).to_numpy()
    np.testing.assert_allclose(got, x - x.astype("f8").mean(axis=1, keepdims=True), atol=1e-5)
    values = np.array([0.0, 0.009, -0.009, 0.01, -0.01, 0.5, -0.5, np.inf, -np.inf, np.nan], "f4")
    gated = gp.from_numpy(values)
    assert audio.noise_gate(gated) is gated
    np.testing.assert_array_equal(gated.to_numpy(), np.where(np.abs(values) < np.float32(0.01), 0, values))


def reference_gate(x, threshold, attack, release):
    x = x.astype("f8")
    size = min(attack, len(x))
    frames = -(-len(x) // size)
    energy = np.array([np.mean(x[f * size : (f + 1) * size] ** 2) for f in range(frames)])
    target = np.where(energy >= threshold, 1, (energy / threshold) ** 2) if threshold > 0 else np.ones(frames)
    gain = target.copy()
    for f in range(1, frames):
        gain[f] = max(target[f], gain[f - 1] - size / release if release > size else 0)
    before = np.concatenate([gain[:1], gain[:-1]])
    i = np.arange(len(x))
    part = (i % size + 1) / size
    return x * (before[i // size] + (gain - before)[i // size] * part)


@pytest.mark.parametrize("attack, release", [(64, 256), (64, 0), (1, 7), (100, 950), (5000, 5000)])
def test_spectral_gate(device, rng, attack, release):
    x = rng.normal(size=1601) * np.repeat([0.001, 0.5, 0.05, 0.3, 0.0], 321)[:1601]
    x = x.astype("f4")
    got = audio.spectral_gate(gp.from_numpy(x), 0.01, attack, release).to_numpy()
    np.testing.assert_allclose(got, reference_gate(x, 0.01, attack, release), atol=2e-6)


def test_short_term_energy(device, rng):
    x = rng.normal(size=(2, 1000)).astype("f4")
    got = audio.compute_short_term_energy(gp.from_numpy(x), 33)
    assert got.shape == (2, 30)
    want = (x[:, :990].astype("f8") ** 2).reshape(2, 30, 33).mean(axis=2)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-6)
    assert audio.compute_short_term_energy(gp.zeros((255,))).shape == (0,)


def test_filters_refuse(device):
    x = gp.zeros((10,))
    for call, match in (
        (lambda: audio.preemphasis(x, float("nan")), "preemphasis: alpha must be finite"),
        (lambda: audio.deemphasis(x, 1.0), "deemphasis: alpha must lie between -1 and 1"),
        (lambda: audio.highpass_filter(x, 0.0), "cutoff_hz must lie between"),
        (lambda: audio.highpass_filter(x, 8000.0), "cutoff_hz must lie between"),
        (lambda: audio.highpass_filter(x, 20.0, 0), "sample_rate must be at least 1"),
        (lambda: audio.noise_gate(x, -1.0), "noise_gate: threshold"),
        (lambda: audio.spectral_gate(x, 0.1, 0), "attack_samples must be at least 1"),
        (lambda: audio.spectral_gate(x, 0.1, 1, -1), "release_samples must not be negative"),
        (lambda: audio.compute_short_term_energy(x, 0), "frame_size must be at least 1"),
        (lambda: audio.remove_dc(gp.zeros((1, 2, 3))), "audio must have shape"),
        (lambda: audio.remove_dc(x, out=gp.zeros((9,))), "out"),
        (lambda: audio.preemphasis(x.astype("float64")), "float32"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="audio"):
        audio.preemphasis(np.zeros(3, "f4"))


def test_from_pcm(device, rng):
    pcm = np.array([0, 1, -1, 32767, -32768], "i2")
    for samples in (pcm, gp.from_numpy(pcm)):
        buffer = audio.from_pcm(samples, 8000)
        np.testing.assert_array_equal(buffer.to_numpy(), pcm / 32768)
        assert (buffer.sample_rate, buffer.channels, len(buffer)) == (8000, 1, 5)
    kept = gp.zeros((4,))
    assert audio.from_pcm(kept, 8000, 2).data is kept
    assert repr(audio.from_pcm(kept, 8000, 2)) == "AudioBuffer(samples=4, sample_rate=8000, channels=2)"
    for wrong in (np.zeros(3, "f8"), np.zeros(3, "i4"), np.zeros(3, "u1")):
        with pytest.raises(ValueError, match="samples must be int16 or float32"):
            audio.from_pcm(wrong, 8000)
    for arguments, match in (
        ((kept, 0), "sample_rate must be at least 1"),
        ((kept, 8000, 0), "channels must be at least 1"),
        ((kept, 8000, 3), "hold 3 samples at a time"),
        ((gp.zeros((2, 2)), 8000), "dimension"),
    ):
        with pytest.raises(ValueError, match=match):
            audio.from_pcm(*arguments)


def test_buffer_chain(device, rng):
    x = (rng.normal(size=(3000, 2)) * 0.1).astype("f4")
    stereo = audio.from_pcm(x.reshape(-1), 48000, 2)
    mono = stereo.to_mono()
    np.testing.assert_allclose(mono.to_numpy(), x.astype("f8").mean(axis=1), atol=1e-7)
    assert mono.to_mono() is mono and mono.resample(48000) is mono and mono.channels == 1
    slower = stereo.resample(16000)
    assert (len(slower), slower.sample_rate, slower.channels) == (2000, 16000, 2)
    for c in range(2):
        one = audio.resample(gp.from_numpy(x[:, c].copy()), 48000, 16000).to_numpy()
        np.testing.assert_array_equal(slower.to_numpy().reshape(-1, 2)[:, c], one)
    assert slower.normalize() is slower
    assert np.abs(slower.to_numpy()).max() == pytest.approx(1, rel=1e-6)
    assert np.sqrt(np.mean(mono.normalize("rms", -12).to_numpy().astype("f8") ** 2)) == pytest.approx(10 ** (-12 / 20))
    quiet = audio.from_pcm(gp.zeros((10,)), 16000)
    assert not quiet.normalize().normalize("rms").to_numpy().any()
    with pytest.raises(ValueError, match="mode must be peak or rms"):
        mono.normalize("loud")
    with pytest.raises(ValueError, match="channels must be 1 or 2"):
        audio.from_pcm(gp.zeros((6,)), 8000, 3).to_mono()
    # Filters take buffers, each channel by itself.
    expected = np.stack([audio.preemphasis(gp.from_numpy(x[:, c].copy())).to_numpy() for c in range(2)], axis=1)
    assert audio.preemphasis(stereo) is stereo
    np.testing.assert_array_equal(stereo.to_numpy().reshape(-1, 2), expected)
    cut = audio.from_pcm(gp.from_numpy(x[:, 0].copy()), 48000)
    by_rate = audio.highpass_filter(gp.from_numpy(x[:, 0].copy()), 100.0, 48000).to_numpy()
    assert audio.highpass_filter(cut, 100.0).to_numpy().tobytes() == by_rate.tobytes()


def test_ring_buffer(device, rng):
    ring = audio.AudioRingBuffer(10, 5)
    assert (ring.capacity, ring.sample_rate, ring.samples_available, ring.duration_available) == (10, 5, 0, 0)
    kept = np.zeros(0, "f4")
    for n in (3, 0, 4, 5, 10, 1, 27, 2, 9):
        x = rng.normal(size=n).astype("f4")
        assert ring.write(gp.from_numpy(x) if n % 2 else x) == n
        kept = np.concatenate([kept, x])[-10:]
        assert ring.samples_available == len(kept) and ring.duration_available == len(kept) / 5
        np.testing.assert_array_equal(ring.read(len(kept)).to_numpy(), kept)
        if len(kept) > 4:
            np.testing.assert_array_equal(ring.read(3, 2).to_numpy(), kept[2:5])
    with pytest.raises(ValueError, match="at most the 10 there are"):
        ring.read(8, 3)
    with pytest.raises(ValueError, match="offset must not be negative"):
        ring.read(1, -1)
    with pytest.raises(ValueError, match="float32"):
        ring.write(np.zeros(3))
    with pytest.raises(ValueError, match="dimension"):
        ring.write(np.zeros((3, 2), "f4"))
    with pytest.raises(TypeError, match="samples"):
        ring.write([1.0, 2.0])
    ring.clear()
    assert ring.samples_available == 0 and ring.read(0).shape == (0,)
    for wrong in ({"capacity": 0}, {"capacity": 5, "sample_rate": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            audio.AudioRingBuffer(**wrong)
    with gp.CudaGraph().capture(), pytest.raises(RuntimeError, match="cannot run inside a graph capture"):
        ring.write(np.zeros(1, "f4"))


def test_stream(device, rng):
    x = rng.normal(size=2000).astype("f4")
    stream = audio.AudioStream(480, 160)
    plain = audio.AudioStream(480)
    assert (stream.hop_size, plain.hop_size, plain.sample_rate) == (160, 240, 16000)
    chunks, at = [], 0
    for size in (100, 379, 1, 160, 700, 660):
        assert stream.push(x[at : at + size]) == size
        at += size
        assert stream.chunks_available == max(0, (at - 480) // 160 + 1 - len(chunks)) and stream.has_chunk() == (
            stream.chunks_available > 0
        )
        while stream.has_chunk():
            chunks.append(stream.pop_chunk().to_numpy())
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 479)
    want = np.stack([x[i * 160 : i * 160 + 480] * window for i in range(len(chunks))])
    assert len(chunks) == 10
    np.testing.assert_allclose(np.stack(chunks), want, atol=1e-6)
    plain.push(gp.from_numpy(x))
    np.testing.assert_array_equal(plain.pop_chunk(apply_window=False).to_numpy(), x[:480])
    np.testing.assert_array_equal(plain.pop_chunk(False).to_numpy(), x[240:720])
    plain.reset()
    assert plain.chunks_available == 0
    with pytest.raises(RuntimeError, match="there are 0 samples, a chunk has 480"):
        plain.pop_chunk()
    short = audio.AudioStream(4, 2, 10, 1.0)
    short.push(x[:25])
    np.testing.assert_array_equal(short.pop_chunk(False).to_numpy(), x[15:19])
    for wrong in ({"chunk_size": 0}, {"hop_size": 0}, {"sample_rate": 0}, {"buffer_duration": float("nan")}):
        with pytest.raises(ValueError, match="AudioStream"):
            audio.AudioStream(**wrong)


def spoken(rng, parts, rate=16000):
    """A tone of 300 Hz where parts say so, faint noise elsewhere."""
    out = []
    for seconds, loud in parts:
        n = int(seconds * rate)
        out.append(0.3 * np.sin(2 * np.pi * 300 * np.arange(n) / rate) if loud else 0.001 * rng.normal(size=n))
    return np.concatenate(out).astype("f4")


def test_voice_activity(device, rng):
    x = spoken(rng, [(0.5, False), (1.0, True), (0.6, False), (0.3, True), (0.05, False), (0.3, True)])
    vad = audio.VAD()
    assert (vad.frame_size, vad.hop_size) == (320, 160)
    segments = vad.detect(gp.from_numpy(x))
    assert len(segments) == 2
    first, second = segments
    assert first.start_time == pytest.approx(0.5, abs=0.02) and first.end_time == pytest.approx(1.6, abs=0.03)
    assert second.start_time == pytest.approx(2.1, abs=0.02) and second.end_sample == len(x)
    assert first.start_sample == first.start_time * 16000 and first.end_sample == round(first.end_time * 16000)
    assert repr(first).startswith("SpeechSegment(start_sample=") and first == audio.SpeechSegment(
        first.start_sample, first.end_sample, first.start_time, first.end_time
    )
    energy, zcr = vad.get_frame_features(audio.from_pcm(gp.from_numpy(x), 16000))
    frames = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), 320)[::160]
    np.testing.assert_allclose(energy.to_numpy(), np.sqrt((frames**2).mean(axis=1)), rtol=1e-5)
    changes = ((frames[:, 1:] >= 0) != (frames[:, :-1] >= 0)).sum(axis=1)
    np.testing.assert_allclose(zcr.to_numpy(), changes / 319, rtol=1e-6)
    assert energy.shape == ((len(x) - 320) // 160 + 1,)
    assert len(audio.VAD(hangover_ms=0.0).detect(gp.from_numpy(x))) == 3
    assert audio.VAD(energy_threshold=0.5).detect(gp.from_numpy(x)) == []
    assert audio.VAD(zcr_low=0.9).detect(gp.from_numpy(x)) == []
    assert vad.detect(gp.zeros((319,))) == [] and vad.detect(gp.full((1000,), np.nan)) == []
    for wrong in ({"sample_rate": 0}, {"frame_ms": 0.0}, {"hop_ms": float("nan")}, {"hangover_ms": -1.0}):
        with pytest.raises(ValueError, match="VAD"):
            audio.VAD(**wrong)
    with pytest.raises(ValueError, match="dimension"):
        vad.detect(gp.zeros((2, 1000)))
