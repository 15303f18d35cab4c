"""Whisper from sound to text: windows, times, words, languages, and what may not change them."""

from __future__ import annotations

import json
import os
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
import whisper_random

import pygpukit as gp
from pygpukit._core import _asr
from pygpukit.asr import (
    TranscriptionResult,
    TranscriptionSegment,
    WhisperConfig,
    WhisperDecoder,
    WhisperEncoder,
    WhisperModel,
    WhisperTokenizer,
    WhisperWeights,
    download_model,
    load_audio,
    load_whisper_model,
    normalize_mel,
    pad_or_trim,
    preprocess_audio,
    preprocess_audio_batch,
)
from pygpukit.ops.audio import log_mel_whisper, read_wav, write_wav

WORDS = "and so my fellow americans ask not what your country can do for you ask what you can do for your country"


@pytest.fixture(scope="module")
def model(assets):
    with gp.device("cpu"):
        return WhisperModel.from_pretrained(assets / "whisper-tiny")


@pytest.fixture(scope="module")
def jfk(assets):
    return read_wav(assets / "audio" / "jfk.wav")[0].to_numpy()[0]


@pytest.fixture(autouse=True)
def on_cpu():
    with gp.device("cpu"):
        yield


def plain(text):
    return " ".join("".join(c if c.isalnum() or c == "'" else " " for c in text.lower()).split())


def test_golden_text(model, assets, jfk):
    golden = json.loads((assets / "whisper-tiny" / "golden_jfk.json").read_text())
    result = model.transcribe(assets / "audio" / "jfk.wav", language="en", timestamps=False)
    assert isinstance(result, TranscriptionResult) and result.text == golden["text"] and result.language == "en"
    (segment,) = result.segments
    assert segment.tokens == golden["greedy_ids"][:-1] and (segment.start, segment.end) == (0.0, 11.0)
    assert -0.5 < segment.avg_logprob < 0 and segment.no_speech_prob < 0.3 and segment.temperature == 0
    assert model.tokenizer.decode(golden["prompt_ids"] + segment.tokens) == golden["text"]
    assert model.tokenizer.decode(model.tokenizer.encode(golden["text"])) == golden["text"]


def test_times_and_words(model, jfk):
    result = model.transcribe(jfk, word_timestamps=True)
    assert plain(result.text) == WORDS and result.language == "en"
    words = [word for segment in result.segments for word in segment.words]
    assert "".join(word.text for word in words) == result.text and len(words) == len(WORDS.split())
    times = [time for word in words for time in (word.start, word.end)]
    assert times == sorted(times) and 0 <= times[0] < 1.0 and 10.0 < times[-1] <= 11.0
    assert all(0 < word.probability <= 1 for word in words)
    # A pause counts to the word after it.
    ask = [word for word in words if plain(word.text) == "ask"]
    assert ask[0].end == pytest.approx(3.75, abs=0.2) and ask[1].start == pytest.approx(8.2, abs=0.2)
    assert all(0 <= s.start < s.end <= 11.0 for s in result.segments)


def test_flac_through_resampling(model, assets):
    assert plain(model.transcribe(assets / "audio" / "jfk.flac").text) == WORDS


def test_other_rates_and_channels(model, jfk, tmp_path):
    from pygpukit.ops.audio import resample

    fast = resample(gp.from_numpy(jfk), 16000, 44100)
    path = tmp_path / "fast.wav"
    write_wav(path, gp.stack([fast, fast * 0.5]), 44100)
    assert plain(model.transcribe(path).text) == WORDS
    integers = (np.clip(jfk, -1, 1) * 32767).astype("int16")
    np.testing.assert_allclose(load_audio(integers).to_numpy(), jfk, atol=1e-4)
    assert load_audio(np.zeros((2, 100), "float32")).shape == (100,)
    with pytest.raises(ValueError, match="shape"):
        load_audio(np.zeros((2, 2, 100), "float32"))


def test_beam_search(model, jfk):
    result = model.transcribe(jfk, language="en", beam_size=4)
    assert plain(result.text) == WORDS
    greedy = model.transcribe(jfk, language="en")
    assert result.segments[0].avg_logprob >= greedy.segments[0].avg_logprob - 0.02


def test_language_and_translation(model, jfk):
    languages = model.detect_language(jfk)
    assert next(iter(languages)) == "en" and languages["en"] > 0.9 and len(languages) == 99
    assert sum(languages.values()) == pytest.approx(1.0, abs=1e-5)
    for name in ("en", "<|en|>", "English"):
        assert model.transcriber(jfk, language=name).language == "en"
    assert plain(model.transcribe(jfk, task="translate").text).startswith("and so my fellow americans")
    with pytest.raises(ValueError, match="language must be one that the model knows"):
        model.transcribe(jfk, language="xx")
    with pytest.raises(ValueError, match="task must be transcribe or translate"):
        model.transcribe(jfk, language="en", task="sing")


def test_prompt_changes_the_spelling(model, jfk):
    with_prompt = model.transcribe(jfk, language="en", initial_prompt="A speech of John F. Kennedy, my fellow Americans.")
    assert plain(with_prompt.text) == WORDS
    assert with_prompt.segments[0].avg_logprob != model.transcribe(jfk, language="en").segments[0].avg_logprob


def test_temperatures(model, jfk):
    """The next one is tried where a test fails; draws follow the seed."""
    hard = dict(language="en", temperature=(0.0, 0.4), logprob_threshold=-0.01)
    first = model.transcribe(jfk, seed=1, **hard)
    assert first.segments[0].temperature == pytest.approx(0.4)
    assert model.transcribe(jfk, seed=1, language="en", temperature=0.4).segments[0].tokens == first.segments[0].tokens
    assert model.transcribe(jfk, language="en", temperature=(0.0, 0.4)).segments[0].temperature == 0
    assert plain(model.transcribe(jfk, language="en", temperature=0.2, best_of=3).text) == WORDS
    for bad in (-1.0, float("nan"), ()):
        with pytest.raises(ValueError, match="temperature"):
            model.transcribe(jfk, temperature=bad)


@pytest.mark.parametrize("text", [
    " And so my fellow Americans ask not what your country can do for you.", " Thank you." * 30, "a", "abc" * 100,
    " ".join(str(i * i) for i in range(300)), "\u3053\u3093\u306b\u3061\u306f" * 20,
])
def test_compression_ratio_is_near_zlibs(text):
    raw = text.encode()
    assert _asr.compression_ratio(text) == pytest.approx(len(raw) / len(zlib.compress(raw)), rel=0.1)


def test_nothing_to_hear(model, jfk):
    assert model.transcribe(np.zeros(0, "float32")).segments == []
    for sound in (np.zeros(1, "float32"), np.zeros(16000 * 3, "float32")):
        result = model.transcribe(sound, language="en", skip_silence=True)
        assert (result.text, result.segments) == ("", [])
    broken = jfk.copy()
    broken[100:200] = np.nan
    broken[300] = np.inf
    assert plain(model.transcribe(broken, language="en").text) == WORDS


def long_sound(jfk, gaps):
    return np.concatenate([part for gap in gaps for part in (jfk, np.zeros(int(gap * 16000), "float32"))])


@pytest.mark.parametrize("options", [{}, {"batch_size": 4, "skip_silence": True}])
def test_long_sound_loses_nothing(model, jfk, options):
    gaps = [0.3, 5.0, 12.0]
    result = model.transcribe(long_sound(jfk, gaps), language="en", compression_ratio_threshold=None,
                              condition_on_previous_text=False, **options)
    assert plain(result.text) == " ".join([WORDS] * 3)
    starts = [s.start for s in result.segments]
    assert starts == sorted(starts) and all(s.end > s.start for s in result.segments)
    begin = 0.0
    for gap in gaps:  # something begins where each clip does
        assert any(abs(start - begin) < 1.5 for start in starts), (begin, starts)
        begin += 11.0 + gap


def test_windows_that_follow_each_other(model, jfk):
    """Text before as context, and gaps of random length: no sentence is lost, or said again; words ascend."""
    gaps = np.random.default_rng(0).uniform(0.2, 6, 8)
    result = model.transcribe(long_sound(jfk, gaps), language="en", compression_ratio_threshold=None,
                              word_timestamps=True)
    assert plain(result.text) == " ".join([WORDS] * 8)
    last = 0.0
    for segment in result.segments:
        assert last <= segment.start < segment.end and segment.words
        last = segment.start
        for word in segment.words:
            assert last <= word.start <= word.end <= segment.end
            last = word.end
        last = segment.end


def test_initial_prompt_reaches_every_window(model, jfk):
    """With it the tokens of a window are the same alone and beside others."""
    sound = np.concatenate([long_sound(jfk[:35000], [2.0]), long_sound(jfk[50000:], [2.0]), jfk[:35000]])
    options = dict(language="en", initial_prompt="My Fellow Americans!", skip_silence=True, max_length=60,
                   condition_on_previous_text=False)
    alone, together = ([s.tokens for s in model.transcribe(sound, batch_size=batch, **options).segments]
                       for batch in (1, 2))
    assert len(alone) == 3 and together == alone and alone[0] == alone[2]


def test_chunks_that_overlap(model, jfk):
    """Windows of 8 s, each hearing two again: the words are those of the clip, and none comes twice."""
    pieces = list(model.transcribe_streaming(jfk, language="en", chunk_length=8, overlap=2.0))
    assert len(pieces) > 1 and plain("".join(s.text for s in pieces)) == WORDS
    for bad, words in [({"chunk_length": 31}, "chunk_length"), ({"chunk_length": 0.5}, "chunk_length"),
                       ({"chunk_length": 4, "overlap": 3}, "overlap"), ({"overlap": 1, "timestamps": False}, "overlap")]:
        with pytest.raises(ValueError, match=words):
            next(model.transcribe_streaming(jfk, **bad))


@pytest.mark.parametrize("sound,rate", [
    (np.full(16000, np.nan, "float32"), 16000), (np.full(16000, np.inf, "float32"), 16000),
    (np.zeros(0, "float32"), 16000), (np.ones(1, "float32"), 16000), (np.zeros((32, 0), "float32"), 16000),
    (np.zeros((32, 1), "float32"), 192000),
])
def test_hostile_sound_says_nothing(model, sound, rate):
    result = model.transcribe(sound, sample_rate=rate, language="en", max_length=8)
    assert result.text == "" or sound.size == 1, "a single loud sample is sound"


def test_many_channels_at_a_high_rate(model, jfk):
    """192 kHz and 32 channels, one of which is NaN where nothing is said."""
    fast = np.repeat(jfk[:35000], 12)  # steps: what lies above 8 kHz is cut by the resampler
    channels = np.tile(fast, (32, 1))
    assert "fellow americans" in plain(model.transcribe(channels, sample_rate=192000, language="en").text)


def test_suppressed_tokens(model, jfk):
    free = model.transcribe(jfk[:35000], language="en", timestamps=False)
    names = model.config.suppress_tokens
    assert not set(free.segments[0].tokens) & set(names)
    allowed = model.transcribe(jfk[:35000], language="en", timestamps=False, suppress_tokens=False)
    assert "americans" in plain(allowed.text)


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux' /proc")
def test_memory_stays(assets, rng):
    """Nothing is left over by a transcription: 300 of them, after some that fill what is kept."""
    fields = whisper_random.CONFIGS["distilled"]
    config = WhisperConfig(**fields, pad_token_id=50256)
    weights = WhisperWeights(config)
    halves = WhisperEncoder(config, weights), WhisperDecoder(config, weights)
    small = WhisperModel(config, *halves, WhisperTokenizer(assets / "whisper-tiny"))
    sound = rng.standard_normal(8000).astype("float32") * 0.1

    def many(count):
        for i in range(count):
            small.transcribe(sound, max_length=4 + i % 3, word_timestamps=i % 2 == 0, graphs=i % 2 == 1)
        return resident()

    many(40)
    before = many(60)
    after = many(300)
    assert after - before < 300 * 4096, f"{(after - before) / 300:.0f} bytes a transcription"


def test_windows_are_alone_in_a_batch(model, jfk):
    """Tokens of a window do not depend on the others; greedy, beams and draws."""
    sound = np.concatenate([long_sound(jfk[:35000], [2.0]), long_sound(jfk[50000:], [2.0])])
    for options in ({}, {"beam_size": 3}, {"temperature": 0.6, "best_of": 2}):
        alone, together = ([s.tokens for s in model.transcribe(
            sound, language="en", batch_size=batch, skip_silence=True, condition_on_previous_text=False, max_length=24,
            seed=3, **options).segments] for batch in (1, 2))
        assert len(alone) == 2 and alone == together


def test_streaming_gives_segments_as_they_are_known(model, jfk):
    sound = long_sound(jfk[:35000], [25.0, 1.0])
    seen = list(model.transcribe_streaming(sound, language="en", max_length=24))
    whole = model.transcribe(sound, language="en", max_length=24)
    assert [s.text for s in seen] == [s.text for s in whole.segments] and isinstance(seen[0], TranscriptionSegment)
    work = model.transcriber(sound, language="en", max_length=10)
    done = [work.done]
    while work.step():
        done.append(work.done)
    assert done == sorted(done) and done[0] == 0 and done[-1] == work.duration and len(done) > 2


@pytest.mark.parametrize("option", [
    {"beam_size": 0}, {"best_of": 65}, {"batch_size": 0}, {"max_length": 0}, {"patience": 0.0},
    {"word_timestamps": True, "timestamps": False}, {"length_penalty": float("inf")},
])
def test_options_out_of_range(model, jfk, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        model.transcribe(jfk, **option)


def test_features(jfk, assets):
    mel = preprocess_audio(assets / "audio" / "jfk.wav")
    expected = log_mel_whisper(gp.from_numpy(jfk))[0].to_numpy()
    assert mel.shape == (80, 3000)
    np.testing.assert_array_equal(mel.to_numpy(), expected)
    assert preprocess_audio(jfk, padding=False).shape == (80, 1100)
    assert preprocess_audio_batch([jfk, jfk[:1000]]).shape == (2, 80, 3000)
    assert pad_or_trim(jfk, 100).tolist() == jfk[:100].tolist()
    padded = pad_or_trim(gp.from_numpy(jfk), 200000).to_numpy()
    assert padded.shape == (200000,) and (padded[:176000] == jfk).all() and not padded[176000:].any()
    logs = np.log10(np.array([[1.0, 1e-3, 1e-12]], "float32"))
    np.testing.assert_allclose(normalize_mel(gp.from_numpy(logs)).to_numpy(), [[1.0, 0.25, -1.0]], atol=1e-6)


def test_features_lie_on_the_current_device(device, jfk, assets):
    """Of files, samples and arrays of any device, so that the encoder of a model there takes them."""
    elsewhere = gp.from_numpy(jfk, device="cpu")
    batch = preprocess_audio_batch([assets / "audio" / "jfk.wav", jfk, elsewhere])
    assert batch.device == gp.zeros((1,)).device and preprocess_audio(assets / "audio" / "jfk.wav").device == batch.device
    values = batch.to_numpy()
    assert (values[0] == values[1]).all() and (values[0] == values[2]).all()


def test_features_of_very_little(rng):
    """Without padding there are two frames at least, however few samples."""
    for count in (0, 1, 159, 160, 319, 320, 401):
        mel = preprocess_audio(rng.standard_normal(count).astype("float32"), padding=False)
        assert mel.shape == (80, max(2, count // 160)) and np.isfinite(mel.to_numpy()).all()


def test_download_needs_and_calls_huggingface_hub(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub"):
        download_model("openai/whisper-tiny")
    calls = []
    stand_in = types.ModuleType("huggingface_hub")
    stand_in.snapshot_download = lambda *args, **options: calls.append((args, options)) or tmp_path
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    assert download_model("openai/whisper-tiny", cache_dir=tmp_path / "cache") == str(tmp_path)
    ((args, options),) = calls
    assert args == ("openai/whisper-tiny",) and options["cache_dir"] == str(tmp_path / "cache")
    assert "*.safetensors" in options["allow_patterns"] and "*.bin" not in options["allow_patterns"]


def test_parts_of_0_2(assets):
    config, weights = load_whisper_model(assets / "whisper-tiny")
    assert config.d_model == 384 and "4 encoder" in weights.summary()
    with pytest.raises(OSError):
        load_whisper_model(assets / "nothing")
