"""Kokoro's networks with few random weights: both backends, all dtypes, damaged weights."""

from __future__ import annotations

import shutil

import kokoro_tiny
import numpy as np
import pytest

from pygpukit._core._tts import Kokoro
from pygpukit.cli import main
from pygpukit.tts import KokoroModel, from_wav

IDS = [50, 83, 54, 156, 31, 16, 62]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return kokoro_tiny.write(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def style(folder):
    return KokoroModel.from_pretrained(folder, "af_one", "float32", device="cpu")._speaker.voice("af_one").style(7)


@pytest.fixture(scope="module")
def on_cpu(folder, style):
    return Kokoro.open(str(folder), "cpu").say(IDS, style, seed=3)


def test_both_backends_agree(device, folder, style, on_cpu):
    audio, frames, unrounded, stages = Kokoro.open(str(folder), device).say(IDS, style, seed=3)
    want, want_frames, want_unrounded, want_stages = on_cpu
    assert frames == want_frames and len(frames) == len(IDS) + 2
    np.testing.assert_allclose(unrounded, want_unrounded, atol=1e-4)
    assert audio.device.kind == device.kind and audio.shape == (60 * sum(frames),)
    for name, stage in stages.items():
        reference = want_stages[name].to_numpy()
        np.testing.assert_allclose(
            stage.to_numpy(), reference, atol=1e-4 * max(1, np.abs(reference).max()), err_msg=name
        )
    # The phases that the source's spectrum has at levels near 0 are chance; loudness is not.
    assert np.isfinite(audio.to_numpy()).all()
    assert np.std(audio.to_numpy()) == pytest.approx(np.std(want.to_numpy()), rel=0.2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(device, folder, style, on_cpu, dtype):
    audio, frames, unrounded, _ = Kokoro.open(str(folder), device, dtype).say(IDS, style, seed=3)
    np.testing.assert_allclose(unrounded, on_cpu[2], atol=0.2)
    assert audio.dtype.name == "float32" and audio.shape == (60 * sum(frames),)
    assert np.isfinite(audio.to_numpy()).all()


def test_the_same_bits_every_time(device, folder, style):
    model = Kokoro.open(str(folder), device)
    first, again = (model.say(IDS, style, 1.3, 5)[0].to_numpy() for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_several_at_once_are_as_alone(device, folder, style):
    model = Kokoro.open(str(folder), device)
    many = [IDS, IDS[:1], IDS[2:5], [*IDS, *IDS], IDS]
    together = model.say_all(many, [style] * len(many), 0.9, 3)
    assert len({audio.shape for audio in together}) > 2
    for ids, audio in zip(many, together, strict=True):
        np.testing.assert_array_equal(audio.to_numpy(), model.say(ids, style, 0.9, 3)[0].to_numpy())
    assert model.say_all([], []) == []
    with pytest.raises(ValueError, match="ids must have 1 to 18 phonemes, got 0"):
        model.say_all([IDS, []], [style, style])
    with pytest.raises(ValueError, match="styles must be as many as ids, got 1"):
        model.say_all([IDS, IDS], [style])


def test_a_text_is_its_pieces(device, folder):
    speaker = KokoroModel.from_pretrained(folder, "af_one", "float32", device=device)._speaker
    script = speaker.script("One two three, four five. Six seven eight; nine ten. Eleven twelve.")
    voice = speaker.voice("af_one")
    assert len(script) > 3
    pieces = [speaker.say(script, voice, limit_peak=False, piece=i).to_numpy() for i in range(len(script))]
    joined = speaker.say(script, voice, limit_peak=False).to_numpy()
    np.testing.assert_array_equal(joined, np.concatenate(pieces))


def test_a_very_long_text(tmp_path, capsys):
    def soft(arrays):
        arrays["decoder.generator.conv_post.weight_g"][:] = 0.01

    folder = kokoro_tiny.write(tmp_path / "model", soft, positions=512)
    model = KokoroModel.from_pretrained(folder, "af_one", "float32", device="cpu")
    text = ("word " * 99 + "end. ") * 200
    assert len(text) == 100_000
    chunks = model.generate_stream(text, chunk_size=100)
    assert len(next(chunks)) == 100
    chunks.close()
    wav = tmp_path / "o.wav"
    arguments = ["--speed", "10", "--voice", "af_one", "--model", str(folder), "-o", str(wav)]
    assert main(["speak", text, *arguments]) == 0
    samples = from_wav(wav)[0].to_numpy()
    assert samples.size > 100 * 24000 and np.abs(samples[-100_000:]).max() > 0
    assert "said by spelling: end, word" in capsys.readouterr().out


def test_a_damaged_voice_is_named(folder, tmp_path, capsys):
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    (copy / "voices" / "af_two.bin").write_bytes(b"short")
    arguments = ["speak", "Yes.", "--model", str(copy), "-o", str(tmp_path / "o.wav")]
    for name, reason in (("af_two", "must have 522240 bytes"), ("af_one+af_two", "must have 522240 bytes"),
                         ("af_one+nobody", "no voice 'nobody'")):  # fmt: skip
        assert main([*arguments, "--voice", name]) == 1
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "o.wav").exists()


def test_damaged_weights(tmp_path, style):
    def not_finite(arrays):
        arrays["predictor.duration_proj.linear_layer.bias"][:] = np.nan

    model = Kokoro.open(str(kokoro_tiny.write(tmp_path / "a", not_finite)), "cpu")
    with pytest.raises(RuntimeError, match="durations that are not finite"):
        model.say(IDS, style)

    def narrow(arrays):
        arrays["decoder.decode.1.conv2.weight_v"] = arrays["decoder.decode.1.conv2.weight_v"][:, :-1].copy()

    with pytest.raises(ValueError, match=r"decoder\.decode\.1\.conv2\.weight_v must have shape"):
        Kokoro.open(str(kokoro_tiny.write(tmp_path / "b", narrow)), "cpu")

    def flat(arrays):
        arrays["decoder.encode.conv1.weight_v"] = arrays["decoder.encode.conv1.weight_v"].reshape(-1)

    with pytest.raises(ValueError, match="must have 3 dimensions"):
        Kokoro.open(str(kokoro_tiny.write(tmp_path / "c", flat)), "cpu")


@pytest.mark.parametrize(
    "name", ["bert_encoder.bias", "decoder.generator.conv_post.weight_g", "text_encoder.lstm.bias_hh_l0"]
)
def test_every_tensor_is_needed(tmp_path, name):
    with pytest.raises(KeyError, match=f"no tensor {name}"):
        Kokoro.open(str(kokoro_tiny.write(tmp_path / "m", lambda arrays: arrays.pop(name))), "cpu")
