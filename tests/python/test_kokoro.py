"""Kokoro's networks with the real weights, against durations and loudness that another implementation gave."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from pygpukit._core._tts import Kokoro

# kokoro-82m, golden case 1: root mean square and first three values of what the networks hand on, in float32.
STAGES = {
    "bert": (0.59896, (-0.1905, 0.0337, 0.2486)),
    "encoded": (1.29357, (-0.2440, 0.4004, 0.2055)),
    "d": (0.35606, (-0.1967, 0.1608, -0.0414)),
    "f0": (165.07, (0.259, 0.426, 0.443)),
    "energy": (6.4865, (-9.598, -9.497, -9.412)),
    "text": (0.33966, (0.1366, -0.0068, 0.0559)),
    "decoder_in": (0.41508, (0.1946, 0.5849, -0.1303)),
    "decoder_out": (3.0930, (-0.802, -1.046, -2.101)),
}


def rms(x):
    return float(np.sqrt(np.mean(np.square(x, dtype="f8"))))


@pytest.fixture(scope="module")
def folder(assets):
    return assets / "kokoro-82m"


@pytest.fixture(scope="module")
def golden(folder):
    return json.loads((folder / "golden_fox.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def models(folder):
    """Opens each once: by device and dtype."""
    return functools.cache(lambda device, dtype="float32": Kokoro.open(str(folder), device, dtype))


@pytest.fixture
def model(models, device):
    return models(str(device))


@pytest.fixture(scope="module")
def float64():
    """What tools/make_kokoro_goldens.py wrote."""
    path = Path(__file__).parents[1] / "data" / "kokoro_golden.json"
    return json.loads(path.read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="module")
def voice(folder):
    return np.fromfile(folder / "voices" / "af_heart.bin", "<f4").reshape(510, 256)


def say(model, case, voice, **options):
    return model.say(case["input_ids"][1:-1], voice[case["style_row"]].tolist(), **options)


def check_curves(stages, wanted):
    """The pitch within 1 % of the independent run, the energy as close."""
    f0, exact = stages["f0"].to_numpy(), np.array(wanted["f0"])
    voiced = exact > 10
    assert voiced.sum() > 150
    np.testing.assert_allclose(f0[voiced], exact[voiced], rtol=0.01)
    np.testing.assert_allclose(f0[~voiced], exact[~voiced], atol=0.1)
    np.testing.assert_allclose(stages["energy"].to_numpy(), wanted["energy"], atol=0.05)


@pytest.mark.parametrize(("case", "loudness"), [(None, 0.0473), ("second_case_same_text", 0.0472)])
def test_a_golden_sentence(model, golden, float64, voice, case, loudness):
    wanted, exact = (golden[case], float64[1]) if case else (golden, float64[0])
    assert (exact["ids"], exact["row"]) == (wanted["input_ids"], wanted["style_row"])
    audio, frames, unrounded, stages = say(model, wanted, voice)
    assert frames == wanted["durations"] and sum(frames) == (130 if case else 132)
    np.testing.assert_allclose(unrounded, wanted["durations_before_rounding_fp32"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(unrounded, exact["durations"], rtol=0, atol=1e-3)
    assert audio.shape == (wanted["num_samples"],) == (600 * sum(frames),)
    samples = audio.to_numpy()
    assert rms(samples) == pytest.approx(loudness, rel=0.02)
    assert np.abs(samples).max() < 1.0
    check_curves(stages, exact)
    if case:
        return
    assert set(stages) == set(STAGES)
    for name, (level, first) in STAGES.items():
        values = stages[name].to_numpy()
        assert rms(values) == pytest.approx(level, rel=1e-4), name
        np.testing.assert_allclose(values.ravel()[:3], first, rtol=0, atol=6e-4, err_msg=name)
    assert (stages["f0"].to_numpy() > 10).sum() == 175


def test_a_seed_fixes_every_sample(model, golden, voice):
    case = {"input_ids": golden["input_ids"][:12] + [0], "style_row": 11}
    first, again, other, silent = (say(model, case, voice, seed=seed)[0].to_numpy() for seed in (7, 7, 8, None))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert rms(first - other) < 0.1 * rms(first) + 0.01
    assert rms(silent) == pytest.approx(rms(first), rel=0.1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_keeps_durations(models, device, golden, voice, dtype):
    audio, frames, _, _ = say(models(str(device), dtype), golden, voice, seed=0)
    assert np.abs(np.subtract(frames, golden["durations"])).max() <= 1
    assert abs(sum(frames) - 132) <= 2
    assert audio.dtype.name == "float32"
    assert rms(audio.to_numpy()) == pytest.approx(0.0476, rel=0.05)


def test_speed_divides_durations(model, golden, voice):
    case = {"input_ids": golden["input_ids"][:8] + [0], "style_row": 7}
    slow, fast = (say(model, case, voice, speed=speed)[2] for speed in (0.5, 2.0))
    np.testing.assert_allclose(slow, np.multiply(fast, 4), rtol=1e-6)


def test_arguments_are_checked(model, voice):
    style = voice[5].tolist()
    with pytest.raises(ValueError, match="ids must have 1 to 510 phonemes, got 0"):
        model.say([], style)
    with pytest.raises(ValueError, match="got 511"):
        model.say([50] * 511, style)
    with pytest.raises(ValueError, match="ids must be below 178"):
        model.say([178], style)
    with pytest.raises(ValueError, match="style must have 256 values"):
        model.say([50], style[:-1])
    for speed in (0.0, float("nan"), -1.0, 11.0):
        with pytest.raises(ValueError, match="speed must be 0.1 to 10"):
            model.say([50], style, speed)


def test_damaged_folders_are_refused(folder, tmp_path):
    with pytest.raises(OSError, match=r"config\.json"):
        Kokoro.open(str(tmp_path))
    config = (folder / "config.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    with pytest.raises((OSError, ValueError)):
        Kokoro.open(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b'\x08\0\0\0\0\0\0\0{"a":1}')
    with pytest.raises(ValueError, match="safetensors"):
        Kokoro.open(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    with pytest.raises(KeyError, match=r"no tensor bert\.embeddings"):
        Kokoro.open(str(tmp_path))
    for damage, reason in [('"n_token": 178', "n_token"), ('"hidden_size": 768', "hidden_size")]:
        (tmp_path / "config.json").write_text(config.replace(damage, damage.split(":")[0] + ": -1"), encoding="utf-8")
        with pytest.raises(ValueError, match=reason):
            Kokoro.open(str(tmp_path))
