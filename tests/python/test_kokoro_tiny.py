"""Kokoro's networks with few random weights: both backends, all dtypes, damaged weights."""

from __future__ import annotations

import shutil

import kokoro_tiny
import numpy as np
import pytest

import pygpukit as gp
from pygpukit._core._tts import Kokoro
from pygpukit.cli import main
from pygpukit.tts import KokoroModel, from_wav, load_kokoro_weights
from pygpukit.tts.kokoro import layers

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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_graph_says_the_same(device, folder, style, dtype):
    model = Kokoro.open(str(folder), device, dtype)
    audio, frames, unrounded, _ = model.say(IDS, style, 1.0, 5)
    ids, other = (gp.from_numpy(np.array([0, *row, 0], "i4")) for row in (IDS, IDS[::-1]))
    steps = gp.from_numpy(np.repeat(np.arange(len(frames)), frames).astype("i4"))
    styles = gp.from_numpy(np.array([style], "f4")).astype(dtype)
    given, samples = other + 0, gp.zeros(audio.shape)
    text, graphs = model.read(given, styles), (gp.CudaGraph(), gp.CudaGraph())
    with graphs[0].capture():
        model.read(given, styles, out=text)
    with graphs[1].capture():
        model.speak(text, steps, styles, 5, out=samples)
    given[:] = ids
    for graph in graphs:
        graph.replay()
    assert text.durations.tolist() == unrounded
    np.testing.assert_array_equal(samples.to_numpy(), audio.to_numpy())
    eager = model.speak(model.read(ids, styles), steps, styles, 5)
    np.testing.assert_array_equal(eager.to_numpy(), audio.to_numpy())


def test_a_graph_works_in_one_block(folder, style):
    model, place, frames = Kokoro.open(str(folder), "cpu"), gp.device("cpu"), 2000
    with place:
        ids, styles = gp.from_numpy(np.array([0, 50, 83, 0], "i4")), gp.from_numpy(np.array([style], "f4"))
        steps, samples = gp.from_numpy(np.repeat(np.arange(4), frames // 4).astype("i4")), gp.zeros(60 * frames)
        text, graph = model.read(ids, styles), gp.CudaGraph()
        before = place.memory_stats()["live_bytes"]
        with graph.capture():
            model.speak(text, steps, styles, 5, out=samples)
    # Taken piece by piece, blocks that were outgrown would be several times that.
    assert place.memory_stats()["live_bytes"] - before < 6000 * frames


def test_halves_are_checked(device, folder, style):
    model = Kokoro.open(str(folder), device)
    ids, styles = gp.from_numpy(np.array([0, *IDS, 0], "i4")), gp.from_numpy(np.array([style], "f4"))
    with pytest.raises(ValueError, match=r"Kokoro::read: ids must have 1 to 18 phonemes and two pads, got \[2\]"):
        model.read(ids[:2], styles)
    with pytest.raises(TypeError, match="ids must have dtype int32"):
        model.read(ids.astype("int64"), styles)
    with pytest.raises(ValueError, match=r"style must have shape \[1, 256\]"):
        model.read(ids, styles[:, :128])
    text = model.read(ids, styles)
    with pytest.raises(ValueError, match=r"Kokoro::read: out is of 9 steps, ids are 8"):
        model.read(ids[1:], styles, out=text)
    steps = gp.zeros(4, dtype="int32")
    with pytest.raises(ValueError, match=r"audio must have shape \[240\]"):
        model.speak(text, steps, styles, out=gp.zeros(239))
    with pytest.raises(TypeError, match="steps_of_frames must have dtype int32"):
        model.speak(text, steps.astype("float32"), styles)
    with pytest.raises(ValueError, match="steps_of_frames must have at least one frame, got none"):
        model.speak(text, steps[:0], styles)
    with pytest.raises(IndexError, match="index 9 is out of range for an axis of size 9"):
        model.speak(text, steps + 9, styles)
        gp.synchronize()


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


def test_layers_are_views_of_the_networks(device, folder, style):
    model = KokoroModel.from_pretrained(folder, "af_one", "float32", device=device)
    audio, frames, _, stages = model.networks.say(IDS, style, 1.0, 5)
    text = np.repeat(stages["text"].to_numpy(), frames, axis=0).T[None]
    dec = layers.StyleEncoder(folder / "voices" / "af_one.bin")(len(IDS))
    assert dec.shape == (1, 256) and dec.to_numpy().tolist() == [style]
    half = dec[:, :128]
    x = layers.Decoder(model)(gp.from_numpy(np.ascontiguousarray(text)), stages["f0"], stages["energy"], half)
    np.testing.assert_array_equal(x[0].to_numpy(), stages["decoder_out"].to_numpy())
    np.testing.assert_array_equal(layers.ISTFTNet(model)(x, stages["f0"], half, seed=5).to_numpy(), audio.to_numpy())
    with pytest.raises(ValueError, match="ISTFTNet: F0 must have shape"):
        layers.ISTFTNet(model)(x, stages["f0"][:-1], half)
    with pytest.raises(ValueError, match="Decoder: style must have shape"):
        layers.Decoder(model)(gp.from_numpy(text), stages["f0"], stages["energy"], dec)

    weights = load_kokoro_weights(folder, "float32", device)[0]
    ids = gp.from_numpy(np.array([[0, *IDS, 0]], "i4"))
    encoded = layers.build_plbert_from_weights(weights, num_attention_heads=2, num_hidden_layers=3)(ids)
    np.testing.assert_allclose(encoded[0].to_numpy(), stages["encoded"].to_numpy(), atol=2e-5)
    with pytest.raises(KeyError, match=r"bert_encoder\.weight"):
        layers.build_plbert_from_weights({k: v for k, v in weights.items() if not k.startswith("bert_encoder")})
    assert layers.BertLayer is layers.ALBERTLayer


def test_resblock_against_its_formula(device, rng):
    channels, steps, taps = 3, 9, 3
    arrays = {name: rng.normal(size=shape).astype("f4") for name, shape in {
        "x": (1, channels, steps), "style": (1, 4), "w1": (channels, channels, taps), "w2": (channels, channels, taps),
        "f1": (2 * channels, 4), "f2": (2 * channels, 4), "b": (2 * channels,), "a1": (1, channels, 1),
        "a2": (1, channels, 1)}.items()}  # fmt: skip
    g = {name: gp.from_numpy(value) for name, value in arrays.items()}
    block = layers.ResBlock1d(
        [layers.Conv1d(g["w1"], padding=1)], [layers.Conv1d(g["w2"], padding=1)],
        [layers.AdaIN(g["f1"], g["b"])], [layers.AdaIN(g["f2"], g["b"])], [g["a1"]], [g["a2"]],
    )  # fmt: skip
    a = {name: value.astype("f8") for name, value in arrays.items()}

    def norm(x, w):
        values = (a["style"] @ w.T + a["b"])[..., None]
        x = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5)
        return x * (1 + values[:, :channels]) + values[:, channels:]

    def snake(x, alpha):
        return x + np.sin(alpha * x) ** 2 / alpha

    def conv(x, w):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
        return sum(np.einsum("oc,bct->bot", w[:, :, k], padded[:, :, k : k + steps]) for k in range(taps))

    t = conv(snake(norm(a["x"], a["f1"]), a["a1"]), a["w1"])
    want = conv(snake(norm(t, a["f2"]), a["a2"]), a["w2"]) + a["x"]
    np.testing.assert_allclose(block(g["x"], g["style"]).to_numpy(), want, rtol=1e-4, atol=1e-4)


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
