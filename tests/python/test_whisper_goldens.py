"""Whisper beside the transformers library: tests/data/whisper_goldens.json, made by tools/make_whisper_goldens.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import whisper_random

import pygpukit as gp
from pygpukit.asr import (
    WhisperConfig,
    WhisperDecoder,
    WhisperDecoderLayer,
    WhisperEncoder,
    WhisperEncoderLayer,
    WhisperModel,
    WhisperWeights,
)
from pygpukit.io import save_safetensors


@pytest.fixture(scope="module")
def goldens():
    return json.loads((Path(__file__).parents[1] / "data" / "whisper_goldens.json").read_text())


def plain(text):
    return text.strip().strip(",.").lower()


def test_times_of_segments_and_words(assets, goldens):
    """Within 0.1 s of what transformers finds for the same weights."""
    with gp.device("cpu"):
        model = WhisperModel.from_pretrained(assets / "whisper-tiny")
        result = model.transcribe(assets / "audio" / "jfk.wav", language="en", word_timestamps=True)
    segments = goldens["jfk"]["segments"]
    assert [s.text.strip() for s in result.segments] == [text.strip() for text, _, _ in segments]
    for segment, (_, start, end) in zip(result.segments, segments, strict=True):
        assert (segment.start, segment.end) == (pytest.approx(start, abs=0.1), pytest.approx(end, abs=0.1))
    words = [word for segment in result.segments for word in segment.words]
    assert [plain(w.text) for w in words] == [plain(text) for text, _, _ in goldens["jfk"]["words"]]
    for word, (text, start, end) in zip(words, goldens["jfk"]["words"], strict=True):
        end = min(end, result.segments[-1].end)  # ours lie in their segment
        assert (word.start, word.end) == (pytest.approx(start, abs=0.1), pytest.approx(end, abs=0.1)), text


@pytest.mark.parametrize("layout", list(whisper_random.CONFIGS))
def test_random_weights_of_other_layouts(goldens, layout, tmp_path):
    fields, golden = whisper_random.CONFIGS[layout], goldens[layout]
    with gp.device("cpu"):
        config = WhisperConfig(**fields, pad_token_id=50256)
        assert config.is_distilled
        values = {name: gp.from_numpy(value) for name, value in whisper_random.weights(fields).items()}
        save_safetensors(tmp_path / "model.safetensors", values)
        (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
        weights = WhisperWeights.from_safetensors(tmp_path)
        assert weights.config == config
        encoder, decoder = WhisperEncoder(config, weights), WhisperDecoder(config, weights)
        heard = encoder(gp.from_numpy(whisper_random.mel(fields)))
        np.testing.assert_allclose(heard.to_numpy()[:, ::7, ::5], golden["encoder"], atol=2e-4)
        logits, cache = decoder(whisper_random.IDS, heard)
        assert cache.length == 5
        found = logits.to_numpy()
        np.testing.assert_allclose(found[:, :, goldens["columns"]], golden["logits"], atol=2e-3)
        assert found.argmax(-1).tolist() == golden["largest"]
        # The layers by themselves are the same numbers: those of the decoder from its input to its output.
        given = heard[:, :7]
        once = WhisperEncoderLayer(config, weights.encoder_layers[0])(given)
        assert (encoder.layers[0](given).to_numpy() == once.to_numpy()).all() and once.shape == given.shape
        x = gp.from_numpy(whisper_random.mel(fields)[:, :5, :32].copy())
        together = WhisperDecoderLayer(config, weights.decoder_layers[1])(x, heard)
        assert (decoder.layers[1](x[1:], heard[1:]).to_numpy()[0] == together.to_numpy()[1]).all()
        with pytest.raises(ValueError, match="be of the encoder"):
            WhisperEncoderLayer(config, weights.decoder_layers[0])


def test_layers_make_the_decoder(tmp_path):
    """Embedding, layers, norm and head by hand give the decoder's logits."""
    fields = whisper_random.CONFIGS["distilled"]
    with gp.device("cpu"):
        values = whisper_random.weights(fields)
        config = WhisperConfig(**fields, pad_token_id=50256)
        path = tmp_path / "model.safetensors"
        save_safetensors(path, {name: gp.from_numpy(value) for name, value in values.items()})
        weights = WhisperWeights.from_safetensors(path, config)
        heard = WhisperEncoder(config, weights)(gp.from_numpy(whisper_random.mel(fields)))
        ids = np.array(whisper_random.IDS)
        x = values["model.decoder.embed_tokens.weight"][ids] + values["model.decoder.embed_positions.weight"][:5]
        x = gp.from_numpy(x.astype("float32"))
        for layer in weights.decoder_layers:
            x = WhisperDecoderLayer(config, layer)(x, heard)
        norm = [gp.from_numpy(values[f"model.decoder.layer_norm.{name}"]) for name in ("weight", "bias")]
        out = gp.layernorm(x, *norm, 1e-5).to_numpy() @ values["model.decoder.embed_tokens.weight"].T
        expected = WhisperDecoder(config, weights)(gp.from_numpy(ids), heard)[0].to_numpy()
        np.testing.assert_allclose(out, expected, atol=1e-3)


def test_steps_on_each_device(device, tmp_path):
    """Greedy, drawn and beam-searched tokens: the same eager and by graph, on every device, with a row left over."""
    fields = whisper_random.CONFIGS["distilled"]
    config = WhisperConfig(**fields, pad_token_id=50256)
    path = tmp_path / "model.safetensors"
    values = whisper_random.weights(fields)
    save_safetensors(path, {name: gp.from_numpy(value, device="cpu") for name, value in values.items()})

    def texts(where, **options):
        with gp.device(where):
            weights = WhisperWeights.from_safetensors(path, config, dtype="float32")
            heard = WhisperEncoder(config, weights)(gp.from_numpy(whisper_random.mel(fields, 3)))
            return WhisperDecoder(config, weights).generate(heard, max_length=8, **options)

    for options in ({"temperature": 0.0, "timestamps": True}, {"temperature": 0.7, "seed": 4, "top_k": 3}):
        expected = texts("cpu", graphs=False, **options)
        assert len(expected) == 3 and all(expected)
        assert texts(device, graphs=True, **options) == expected
        assert texts(device, graphs=False, **options) == expected
