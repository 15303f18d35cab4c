"""Whisper's encoder and decoder: golden ids of real weights, and what may not change them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.asr import (
    WHISPER_CONFIGS,
    WhisperConfig,
    WhisperDecoder,
    WhisperEncoder,
    WhisperModel,
    WhisperWeights,
)
from pygpukit.errors import FormatError
from pygpukit.io import load_safetensors, save_safetensors
from pygpukit.ops.audio import log_mel_whisper, read_wav


@pytest.fixture(scope="module")
def golden(assets):
    return json.loads((assets / "whisper-tiny" / "golden_jfk.json").read_text())


@pytest.fixture(scope="module")
def jfk(assets):
    return read_wav(assets / "audio" / "jfk.wav")[0].to_numpy()[0]


def parts(assets, **options):
    weights = WhisperWeights.from_safetensors(assets / "whisper-tiny", **options)
    return weights, WhisperEncoder(weights.config, weights), WhisperDecoder(weights.config, weights)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_golden_ids(assets, golden, jfk, device, dtype):
    _, encoder, decoder = parts(assets, dtype=dtype)
    mel = log_mel_whisper(gp.from_numpy(jfk))
    assert mel.mean().item() == pytest.approx(golden["mel_mean"], abs=1e-5)
    heard = encoder(mel)
    values = heard.to_numpy(dtype="float32")
    tolerance = 1e-4 if dtype == "float32" else 1e-2
    assert heard.shape == (1, 1500, 384) and heard.dtype.name == dtype
    assert values.mean() == pytest.approx(golden["encoder_out_mean"], abs=tolerance)
    assert values.std() == pytest.approx(golden["encoder_out_std"], abs=tolerance)
    np.testing.assert_allclose(values[0, 0, :8], golden["encoder_out_0_0_8"], atol=tolerance)
    assert decoder.generate(heard, temperature=0.0) == golden["greedy_ids"][:-1]


def test_tokens_do_not_depend_on_the_batch(assets, golden, jfk):
    """The golden ids alone and as one of 8, and every text of 1 to 16 the same; eager and one graph a token."""
    with gp.device("cpu"):
        _, encoder, decoder = parts(assets, dtype="float32")
        sounds = np.stack([jfk, *(np.roll(jfk, 48000 * i) for i in range(1, 4))])
        heard = encoder(log_mel_whisper(gp.from_numpy(sounds)))
        items = [heard[i % 4] for i in range(16)]
        short = {"temperature": 0.0, "max_length": 10}
        alone = [decoder.generate(item, **short) for item in items[:4]]
        assert len({tuple(ids) for ids in alone}) > 1
        for batch, graphs in [(1, True), (2, False), (3, True), (16, False), (16, True)]:
            texts = decoder.generate(gp.stack(items[:batch]), graphs=graphs, **short)
            assert (texts if batch > 1 else [texts]) == [alone[i % 4] for i in range(batch)], (batch, graphs)
        eight = decoder.generate(gp.stack(items[:8]), temperature=0.0)
        assert eight[0] == eight[4] == golden["greedy_ids"][:-1]
        # Draws follow the seed alone too.
        drawn = {"temperature": 1.2, "seed": 5, "max_length": 12}
        first = decoder.generate(gp.stack(items[:1]), graphs=False, **drawn)
        assert decoder.generate(heard[:1], graphs=True, **drawn) == first


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_golden_ids_by_graph(assets, golden, jfk, device, dtype):
    _, encoder, decoder = parts(assets, dtype=dtype)
    heard = encoder(log_mel_whisper(gp.from_numpy(jfk)))
    assert decoder.generate(heard, temperature=0.0, graphs=True) == golden["greedy_ids"][:-1]
    texts = decoder.generate(gp.stack([heard[0]] * 8), temperature=0.0, graphs=True)
    assert texts == [golden["greedy_ids"][:-1]] * 8


def test_decoder_takes_batches(assets, jfk):
    """Lists of lists and arrays, with the numbers that each text has alone."""
    with gp.device("cpu"):
        weights, encoder, decoder = parts(assets, dtype="float32")
        heard = encoder(log_mel_whisper(gp.from_numpy(np.stack([jfk, jfk[::-1]]))))
        ids = [[50258, 50259, 50359], [50258, 50260, 50358]]
        together, cache = decoder(ids, heard)
        assert together.shape == (2, 3, 51865) and cache.length == 3
        for i in range(2):
            assert (decoder(ids[i], heard[i])[0].to_numpy() == together.to_numpy()[i]).all()
            assert decoder([ids[i]], heard[i : i + 1])[0].shape == (1, 3, 51865)
        more, cache = decoder(np.array([[50363], [50363]]), heard, cache)
        assert more.shape == (2, 1, 51865) and cache.length == 4
        with pytest.raises(ValueError, match="text for each of 2 sounds"):
            decoder([1, 2], heard)
        with pytest.raises(ValueError, match="one length"):
            decoder([[1, 2], [3]], heard)
        with pytest.raises(ValueError, match="sizes of the weights"):
            WhisperDecoder(WhisperConfig(), weights)


def test_weights_of_a_configuration():
    """Zeros on a device, until others are loaded; a model can be made of parts."""
    with gp.device("cpu"):
        config = WhisperConfig(d_model=8, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
                               decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16)  # fmt: skip
        weights = WhisperWeights(config, dtype="float16")
        assert len(weights.encoder_layers) == 2 and len(weights.decoder_layers) == 1 and weights.dtype == gp.float16
        model = WhisperModel(config, WhisperEncoder(config, weights), WhisperDecoder(config, weights))
        assert model.config == config and model.tokenizer is None and len(model.encoder.layers) == 2
        with pytest.raises(ValueError, match="tokenizer must be given"):
            model.transcribe(np.zeros(16000, "float32"))
        other = WhisperWeights(config)
        with pytest.raises(ValueError, match="dtype of the encoder"):
            WhisperModel(config, WhisperEncoder(config, weights), WhisperDecoder(config, other))


@pytest.mark.parametrize("format", ["int8", "float8_e4m3"])
def test_quantised_weights_hear_the_same(assets, golden, jfk, format):
    with gp.device("cpu"):
        weights, encoder, decoder = parts(assets, dtype="float32", quantize=format)
        assert weights.nbytes < 0.72 * parts(assets, dtype="float32")[0].nbytes
        ids = decoder.generate(encoder(log_mel_whisper(gp.from_numpy(jfk))), temperature=0.0)
    # Words may be set apart by commas.
    assert [i for i in ids if i != 11] == golden["greedy_ids"][:-1]


def test_items_of_a_batch_are_alone(assets, jfk, device, rng):
    _, encoder, _ = parts(assets, dtype="float16")
    sounds = [jfk, rng.standard_normal(jfk.size).astype("float32") * 0.1, np.zeros_like(jfk), jfk[::-1]]
    mel = log_mel_whisper(gp.from_numpy(np.stack(sounds)))
    together = encoder(mel).to_numpy()
    for i in range(4):
        assert (encoder(mel[i]).to_numpy()[0] == together[i]).all()


def test_tokens_one_by_one_and_together(assets, golden, jfk, device):
    """Logits do not depend on how the tokens come; the cache goes on where it stopped."""
    _, encoder, decoder = parts(assets, dtype="float32")
    heard = encoder(log_mel_whisper(gp.from_numpy(jfk)))
    ids = golden["prompt_ids"] + golden["greedy_ids"][:6]
    together, cache = decoder(ids, heard)
    assert together.shape == (10, 51865) and cache.length == 10
    cache, alone = None, []
    for token in ids:
        logits, cache = decoder([token], heard, cache)
        alone.append(logits.to_numpy()[0])
    assert (np.stack(alone) == together.to_numpy()).all()
    assert together.to_numpy()[3:-1].argmax(1).tolist()[1:] == golden["greedy_ids"][1:6]
    with pytest.raises(IndexError):
        decoder([51865], heard)
    with pytest.raises(IndexError):
        decoder([0] * 449, heard)


def test_drawn_tokens_follow_the_seed(assets, jfk):
    with gp.device("cpu"):
        _, encoder, decoder = parts(assets)
        heard = encoder(log_mel_whisper(gp.from_numpy(jfk)))
        draws = [tuple(decoder.generate(heard, temperature=1.5, max_length=16, seed=seed)) for seed in (1, 1, 2, 3)]
        assert draws[0] == draws[1] and len(set(draws)) > 1
        greedy = decoder.generate(heard, temperature=0.0, max_length=16)
        assert len(greedy) == 12
        assert decoder.generate(heard, temperature=1.5, top_k=1, max_length=16) == greedy
        with pytest.raises(ValueError, match="temperature"):
            decoder.generate(heard, temperature=-1.0)


def test_configuration(assets, tmp_path):
    config = WhisperConfig.from_pretrained(assets / "whisper-tiny")
    assert config.head_dim == 64 and not config.is_distilled and config.begin_suppress_tokens == [220, 50257]
    assert len(config.suppress_tokens) == 88
    values = config.to_dict()
    assert WhisperConfig.from_dict(values) == config
    del values["suppress_tokens"]
    assert WhisperConfig.from_dict(values) == WHISPER_CONFIGS["tiny"]
    assert WHISPER_CONFIGS["kotoba-v2"].is_distilled and WhisperConfig().d_model == 1280
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    assert WhisperConfig.from_json(path) == WHISPER_CONFIGS["tiny"]
    with pytest.raises(TypeError, match="d_modle"):
        WhisperConfig(d_modle=3)


@pytest.mark.parametrize("change,words", [
    ({"d_model": 0}, "d_model is 0"), ({"d_model": 385}, "multiple of 6 heads"), ({"d_model": "x"}, "not an integer"),
    ({"vocab_size": 100}, "not in the vocabulary"), ({"vocab_size": 60000}, "none of Whisper's"),
    ({"encoder_layers": -1}, "encoder_layers"), ({"suppress_tokens": [99999]}, "suppressed token 99999"),
    ({"model_type": "bert"}, "not whisper"), ({"suppress_tokens": {}}, "not a list"),
])
def test_hostile_configuration(assets, tmp_path, change, words):
    config = json.loads((assets / "whisper-tiny" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(FormatError, match=words) as error:
        WhisperConfig.from_pretrained(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_weights_that_do_not_fit(assets, tmp_path):
    small = WhisperConfig(d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                          decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16)
    path = tmp_path / "model.safetensors"
    save_safetensors(path, {"model.encoder.conv1.weight": gp.zeros((8, 128, 4), device="cpu")})
    with pytest.raises(FormatError, match=r"conv1.weight' has shape \[8, 128, 4\], the configuration says \[8, 128, 3\]"):
        WhisperWeights.from_safetensors(path, small)
    save_safetensors(path, {"model.encoder.conv1.weight": gp.zeros((8, 128, 3), device="cpu")})
    with pytest.raises(FormatError, match="no tensor 'model.encoder.conv1.bias'"):
        WhisperWeights.from_safetensors(path, small)
    with pytest.raises(TypeError, match="float64"):
        WhisperWeights.from_safetensors(assets / "whisper-tiny", dtype="float64")
    assert len(load_safetensors(path)) == 1
