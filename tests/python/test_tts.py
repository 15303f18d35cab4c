"""pygpukit.tts: from text to samples and files, with the real weights."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

import pygpukit as gp
from pygpukit._core._tts import language_of
from pygpukit.cli import main
from pygpukit.tts import (
    KokoroConfig,
    KokoroModel,
    KokoroTokenizer,
    concatenate_audio,
    from_wav,
    list_available_voices,
    load_kokoro_weights,
    load_voice_embedding,
    resample_audio,
    to_wav,
)
from pygpukit.tts.kokoro import AudioBuffer, TokenizerOutput, get_weight_info, layers, print_weight_summary
from pygpukit.tts.kokoro import model as kokoro_model


@pytest.fixture(scope="module")
def folder(assets):
    return assets / "kokoro-82m"


@pytest.fixture(scope="module")
def model(folder):
    return KokoroModel.from_pretrained(folder, dtype="float32")


@pytest.fixture(scope="module")
def weights(folder):
    return load_kokoro_weights(folder, "float32")[0]


def test_config_has_the_published_sizes(folder):
    config = KokoroConfig.from_pretrained(folder)
    assert config == KokoroConfig()
    assert len(config.vocab) == 114
    assert (config.hop_length, config.plbert_head_dim) == (300, 64)
    assert KokoroConfig.from_dict(config.to_dict()) == config
    assert KokoroConfig.from_dict({"plbert": {"hidden_size": 24}, "n_layer": 2}).plbert_head_dim == 2
    for wrong in (
        {"n_token": 0},
        {"vocab": {"ab": 1}},
        {"vocab": {"a": 178}},
        {"upsample_rates": [10]},
        {"n_mels": "x"},
    ):
        with pytest.raises(ValueError, match="kokoro config"):
            KokoroConfig.from_dict(wrong)


def test_tokenizer_gives_golden_ids(folder, assets):
    tokenizer = KokoroTokenizer(lexicons=assets / "kokoro-g2p-misaki", use_misaki=False)
    golden = json.loads((folder / "golden_fox.json").read_text(encoding="utf-8"))
    assert tokenizer.phonemes_to_tokens(golden["phonemes"]) == golden["input_ids"]
    second = golden["second_case_same_text"]
    assert tokenizer.phonemes_to_tokens(second["phonemes"]) == second["input_ids"]
    assert tokenizer.decode(second["input_ids"]) == second["phonemes"]
    out = tokenizer.encode(golden["text"])
    assert out.text == golden["text"]
    assert out.phonemes == second["phonemes"].replace("\u02ccOv", "\u02c8Ov")
    assert KokoroTokenizer({"a": 5}, use_misaki=False).phonemes_to_tokens("ab") == [0, 5, 0]
    assert tokenizer.split_sentences("One. Two.") == ["One.", "Two."]
    assert tokenizer.normalize_text("2") == "two"


def test_speech_of_a_text(model, tmp_path):
    said = model.synthesize("It is 5 pm.")
    assert said.text == "It is five P.M."
    assert said.duration_sec == pytest.approx(said.to_numpy().size / 24000)
    assert 0.5 < said.duration_sec < 4
    assert not said.guessed and not said.skipped
    samples = said.to_numpy()
    assert np.isfinite(samples).all() and np.abs(samples).max() <= 1
    assert 0.01 < np.sqrt(np.mean(samples**2)) < 0.2
    np.testing.assert_array_equal(samples, model("It is 5 pm.").to_numpy())
    said.to_wav(tmp_path / "a.wav")
    back, rate = from_wav(tmp_path / "a.wav")
    assert rate == 24000
    np.testing.assert_allclose(back.to_numpy(), samples, rtol=0, atol=1 / 32000)


def test_voices(model, folder, tmp_path):
    assert model.available_voices == list_available_voices(folder) == sorted(model.available_voices)
    assert load_voice_embedding(folder / "voices" / "af_heart.bin").shape == (510, 1, 256)
    first = model.synthesize("Yes.", voice="bf_emma").to_numpy()
    assert not np.array_equal(first, model.synthesize("Yes.", voice="am_adam").to_numpy())
    path = str(folder / "voices" / "bf_emma.bin")
    np.testing.assert_array_equal(first, model.synthesize("Yes.", voice=path).to_numpy())
    assert model.current_voice == "af_heart" == model.load_voice("af_heart")
    with pytest.raises(KeyError, match="no voice 'nobody'.*af_heart"):
        model.set_voice("nobody")
    for content, reason in ((b"short", "must have 522240 bytes"), (b"\xff" * 522240, "not finite")):
        (tmp_path / "bad.bin").write_bytes(content)
        with pytest.raises(ValueError, match=reason):
            model.load_voice(str(tmp_path / "bad.bin"))
        with pytest.raises(ValueError, match=reason):
            model.synthesize("Yes.", voice=str(tmp_path / "bad.bin"))
        with pytest.raises(ValueError, match=reason):
            load_voice_embedding(tmp_path / "bad.bin")


def test_a_blend_is_the_mean(model):
    speaker = model._speaker
    parts = [np.array(speaker.voice(name).style(9)) for name in ("af_heart", "am_adam")]
    np.testing.assert_allclose(speaker.voice("af_heart+am_adam").style(9), (parts[0] + parts[1]) / 2, atol=1e-7)
    assert speaker.voice("af_heart").style(600) == speaker.voice("af_heart").style(509)


def test_stream_begins_with_the_first_clause(model):
    text = "Good morning, my dear friend. Yes."
    chunks = model.generate_stream(text, chunk_size=4000)
    first = next(chunks)
    assert isinstance(first, AudioBuffer)
    assert first.data.shape == (4000,) and first.sample_rate == 24000
    joined = np.concatenate([first.to_numpy(), *(chunk.to_numpy() for chunk in chunks)])
    speaker = model._speaker
    script, voice = speaker.script(text, soon=True), speaker.voice("af_heart")
    assert len(script) == 2
    pieces = [speaker.say(script, voice, piece=i).to_numpy() for i in range(2)]
    np.testing.assert_array_equal(joined, np.concatenate(pieces))
    for wrong in (0, -1, 2.5):
        with pytest.raises(ValueError, match="chunk_size must be a positive integer"):
            model.generate_stream("a", chunk_size=wrong)


def test_the_first_chunk_comes_before_the_rest_is_made(folder):
    class Counting:
        def __init__(self, speaker):
            self.speaker, self.made = speaker, []

        def __getattr__(self, name):
            return getattr(self.speaker, name)

        def say(self, *arguments):
            self.made.append(arguments[-1])
            return self.speaker.say(*arguments)

    model = KokoroModel.from_pretrained(folder, dtype="float32")
    model._speaker = Counting(model._speaker)
    one = model.generate_stream("Good morning, my dear friend. Yes.")
    next(one)
    assert model._speaker.made == [0]
    other = model.generate_stream("No.")  # begun later, over sooner
    assert len(list(other)) > 1
    assert model._speaker.made == [0, 0]
    assert len(list(one)) > 1
    assert model._speaker.made == [0, 0, 1]


def test_two_streams_go_on_together(model):
    async def collect(text):
        return np.concatenate([chunk.to_numpy() async for chunk in model.stream(text)])

    async def both():
        return await asyncio.gather(collect("Yes."), collect("No."))

    yes, no = asyncio.run(both())
    np.testing.assert_array_equal(yes, model.synthesize("Yes.").to_numpy())
    np.testing.assert_array_equal(no, model.synthesize("No.").to_numpy())


@pytest.mark.parametrize(
    "text", ["", " \n", "\U0001f600", "\u041f\u0440\u0438", "...", "?!", "\x00\x01", "(((", "\ud800\udfff"]
)
def test_nothing_to_say_is_an_error(model, text):
    with pytest.raises(ValueError, match="nothing that can be spoken"):
        model.synthesize(text)
    assert list(model.generate_stream(text)) == []


def test_normalize_is_of_the_text(model):
    assert model.synthesize("It is 5 pm.").text == "It is five P.M."
    plain = model.synthesize("It is 5 pm.", normalize=False)
    assert plain.text == "It is 5 pm." and plain.skipped == ["5"]
    said = model.synthesize("It is pm.", normalize=False)
    np.testing.assert_array_equal(plain.to_numpy(), said.to_numpy())
    chunks = model.generate_stream("It is 5 pm.", normalize=False)
    np.testing.assert_array_equal(np.concatenate([chunk.to_numpy() for chunk in chunks]), said.to_numpy())


def test_the_language_is_that_of_the_voices(model, folder, tmp_path):
    assert model.lang == "a"
    for voice, lang in (("bf_emma", "b"), ("bm_george+bf_emma", "b"), ("bf_emma+af_heart", "a"), ("bob", "a"),
                        ("af_heart", "a"), ("/b/af_heart.bin", "a"), ("b/bf_emma.bin", "b")):  # fmt: skip
        assert language_of(voice) == lang, voice
    data = (folder / "voices" / "af_heart.bin").read_bytes()
    (tmp_path / "bella.bin").write_bytes(data)
    american = model.synthesize("Hot water.").phonemes
    assert model.synthesize("Hot water.", voice=str(tmp_path / "bella.bin")).phonemes == american
    british = model.synthesize("Hot water.", voice="bf_emma").phonemes
    assert british != american
    spoken = KokoroModel.from_pretrained(folder, dtype="float32", lang="b")
    assert spoken.lang == "b" and spoken.synthesize("Hot water.").phonemes == british
    with pytest.raises(ValueError, match="lang must be 'a'"):
        KokoroModel.from_pretrained(folder, lang="c")


def test_other_front_ends_are_passed_through(folder, monkeypatch):
    given = {}

    class Other:
        source = "misaki"

        def __init__(self, **options):
            given.update(options)

        def encode(self, text, normalize=True):
            return TokenizerOutput([], "j\u02c8\u025bs", text, ["it"], [], self.source)

    monkeypatch.setattr(kokoro_model, "KokoroTokenizer", Other)
    for option in ("use_misaki", "use_espeak"):
        model = KokoroModel.from_pretrained(folder, "bf_emma", "float32", **{option: True})
        assert given[option] and given["lang"] == "b" and (given["lexicons"] / "us_gold.json").is_file()
        said = model.synthesize("What is it?")
        assert (said.phonemes, said.guessed, said.source) == ("j\u02c8\u025bs", ["it"], "misaki")
        assert model.synthesize("", phonemes="a").source == "phonemes"


def test_what_is_not_spoken_is_told(model):
    said = model.synthesize("Hi \U0001f600.")
    assert said.skipped == ["\U0001f600"]
    assert model.synthesize("", phonemes="h\u02c8I7").skipped == ["7"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"seed": -1}, ValueError, r"synthesize: seed must be 0 to 2\*\*64 - 1, or None, got -1"),
        ({"seed": 2**64}, ValueError, "seed must be 0 to"),
        ({"seed": 1.5}, TypeError, "seed must be an integer or None, got .*float"),
        ({"speed": "x"}, TypeError, "synthesize: speed must be a number, got .*str"),
        ({"speed": None}, TypeError, "speed must be a number"),
        ({"speed": float("nan")}, ValueError, "speed must be 0.1 to 10, got nan"),
        ({"speed": 0}, ValueError, "speed must be 0.1 to 10"),
        ({"voice": "nobody"}, KeyError, "no voice 'nobody'"),
        ({"voice": ""}, KeyError, "no voice ''"),
    ],
)
def test_options_that_are_not_possible(model, arguments, error, message):
    with pytest.raises(error, match=message):
        model.synthesize("Yes.", **arguments)
    with pytest.raises(error, match=message):
        model.generate_stream("Yes.", **arguments)


@pytest.mark.parametrize("text", [None, 5, b"Yes."])
def test_a_text_is_a_str(model, text):
    with pytest.raises(TypeError, match="synthesize: text must be a str, got"):
        model.synthesize(text)
    with pytest.raises(TypeError, match="synthesize: text must be a str, got"):
        model.generate_stream(text)


def test_half_characters_are_skipped(model):
    yes = model.synthesize("Yes.")
    assert model.synthesize("Yes\ud800.").phonemes == yes.phonemes


def test_audio_helpers(tmp_path):
    tone = np.sin(2 * np.pi * 1000 * np.arange(24000) / 24000).astype("f4")
    slow = resample_audio(tone, 24000, 16000).to_numpy()
    assert slow.shape == (16000,)
    wanted = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    np.testing.assert_allclose(slow[200:-200], wanted[200:-200], atol=2e-3)
    high = np.sin(2 * np.pi * 11000 * np.arange(24000) / 24000).astype("f4")
    assert np.abs(resample_audio(high, 24000, 16000).to_numpy()[200:-200]).max() < 1e-2
    with pytest.raises(ValueError, match="rate"):
        resample_audio(tone, 24000, 0)
    joined = concatenate_audio([tone[:3], gp.from_numpy(tone[3:5]), AudioBuffer(gp.from_numpy(tone[5:6]), 24000)], 2)
    np.testing.assert_array_equal(joined.to_numpy(), [*tone[:3], 0, 0, *tone[3:5], 0, 0, tone[5]])
    with pytest.raises(ValueError, match="at least one"):
        concatenate_audio([])
    to_wav(2 * tone, tmp_path / "loud.wav", 16000)
    loud, rate = from_wav(tmp_path / "loud.wav")
    assert rate == 16000
    np.testing.assert_allclose(loud.to_numpy(), tone, atol=1e-4)


def test_weights(weights, capsys):
    info = get_weight_info(weights)
    assert (info["num_tensors"], info["num_parameters"]) == (546, 81172818)
    print_weight_summary(weights)
    assert "81,172,818 parameters" in capsys.readouterr().out


def test_layers_are_the_networks(model, weights, folder):
    golden = json.loads((folder / "golden_fox.json").read_text(encoding="utf-8"))
    style = model._speaker.voice("af_heart").style(golden["style_row"])
    stages = model._speaker.networks.say(golden["input_ids"][1:-1], style)[3]
    ids = gp.from_numpy(np.array([golden["input_ids"]], "i4"))
    bert = layers.build_albert_from_weights(weights)(ids)
    np.testing.assert_allclose(bert[0].to_numpy(), stages["bert"].to_numpy(), atol=2e-5)
    text = layers.build_text_encoder_from_weights(weights)(ids)
    np.testing.assert_allclose(text[0].to_numpy(), stages["text"].to_numpy(), atol=2e-5)
    with pytest.raises(KeyError, match=r"text_encoder\.cnn\.0"):
        layers.build_text_encoder_from_weights({})


def test_small_layers(rng):
    x, style = (gp.from_numpy(rng.normal(size=shape).astype("f4")) for shape in ((2, 3, 7), (2, 5)))
    fc_w, fc_b = rng.normal(size=(6, 5)).astype("f4"), rng.normal(size=6).astype("f4")
    norm = layers.AdaIN(gp.from_numpy(fc_w), gp.from_numpy(fc_b))
    values = style.to_numpy() @ fc_w.T + fc_b
    a = x.to_numpy().astype("f8")
    wanted = (a - a.mean(2, keepdims=True)) / np.sqrt(a.var(2, keepdims=True) + 1e-5)
    wanted = wanted * (1 + values[:, :3, None]) + values[:, 3:, None]
    np.testing.assert_allclose(norm(x, style).to_numpy(), wanted, rtol=1e-4, atol=1e-5)
    g, v = rng.normal(size=(3, 1, 1)).astype("f4"), rng.normal(size=(3, 3, 3)).astype("f4")
    conv = layers.WeightNormConv1d(gp.from_numpy(g), gp.from_numpy(v), padding=1)
    folded = g * v / np.sqrt((v.astype("f8") ** 2).sum((1, 2), keepdims=True))
    np.testing.assert_allclose(conv._compute_weight().to_numpy(), folded, rtol=1e-5)
    block = layers.AdaINResBlock(conv, conv, norm, norm)
    assert block(x, style).shape == x.shape


def test_commands(folder, tmp_path, capsys):
    out = tmp_path / "o.wav"
    assert main(["voices", "--model", str(folder)]) == 0
    assert "bf_emma  British, female" in capsys.readouterr().out
    assert main(["speak", "Yes, Zorblix.", "--model", str(folder), "-o", str(out), "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert (
        "text: Yes, Zorblix." in printed
        and "said by spelling: Zorblix" in printed
        and "phonemes: j\u02c8\u025bs" in printed
    )
    assert from_wav(out)[1] == 24000
    assert main(["speak", "h\u0259l\u02c8O", "--phonemes", "--model", str(folder), "-o", str(out)]) == 0
    assert "phonemes: h\u0259l\u02c8O" in capsys.readouterr().out
    assert main(["speak", "Yes.", "--model", str(tmp_path / "none")]) == 1
    assert "is a folder with config.json, SafeTensors and voices" in capsys.readouterr().err
    assert main(["speak", "", "--model", str(folder)]) == 1
    assert main(["speak", "Yes.", "--voice", "nobody", "--model", str(folder)]) == 1
    assert "no voice 'nobody'" in capsys.readouterr().err
    assert main(["speak", "Yes.", "--seed", "-1", "--model", str(folder), "-o", str(out)]) == 1
    assert "seed must be 0 to 2**64 - 1" in capsys.readouterr().err
    assert main(["speak", "Yes.", "--speed", "0", "--model", str(folder), "-o", str(out)]) == 1
    assert "speed must be 0.1 to 10, got 0\n" in capsys.readouterr().err
    written = out.read_bytes()
    assert main(["speak", "\ud800", "--model", str(folder), "-o", str(out)]) == 1
    assert "nothing that can be spoken" in capsys.readouterr().err and out.read_bytes() == written
    options = ["--device", "cpu", "--lang", "b", "--model", str(folder), "-o", str(out)]
    assert main(["speak", "Hot.", *options]) == 0
    assert "\u0252" in capsys.readouterr().out  # a British vowel
    assert main(["speak", "Yes.", "--device", "cuda:99", "--model", str(folder), "-o", str(out)]) == 1
