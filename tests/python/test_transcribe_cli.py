"""``pygpukit transcribe``: its formats and its command line."""

from __future__ import annotations

import json

import pytest

from pygpukit.asr import TranscriptionResult, TranscriptionSegment
from pygpukit.cli import main
from pygpukit.cli.transcribe import as_json, as_srt, as_text, as_vtt

RESULT = TranscriptionResult(
    " One --> two. Three.",
    [TranscriptionSegment(" One --> two.", 0.0, 61.5, [1, 2]), TranscriptionSegment(" Three.", 61.5, 3723.0456, [3])],
    "en",
)


def test_formats():
    assert as_text(RESULT) == "One --> two.\nThree."
    assert as_srt(RESULT) == (
        "1\n00:00:00,000 --> 00:01:01,500\nOne --> two.\n\n2\n00:01:01,500 --> 01:02:03,046\nThree.\n"
    )
    assert as_vtt(RESULT) == (
        "WEBVTT\n\n00:00:00.000 --> 00:01:01.500\nOne -> two.\n\n00:01:01.500 --> 01:02:03.046\nThree.\n"
    )
    value = json.loads(as_json(RESULT))
    assert value["language"] == "en" and value["segments"][1]["tokens"] == [3]
    assert value["segments"][0]["end"] == 61.5 and "words" not in value["segments"][0]


@pytest.fixture
def run(assets, monkeypatch, capsys):
    monkeypatch.setenv("PYGPUKIT_DEVICE", "cpu")

    def run(*arguments):
        code = main(["transcribe", "--model", str(assets / "whisper-tiny"), *map(str, arguments)])
        return code, capsys.readouterr()

    return run


def test_command(run, assets):
    jfk = assets / "audio" / "jfk.wav"
    code, text = run(jfk, "--format", "json", "--words")
    value = json.loads(text.out)
    assert code == 0 and value["language"] == "en" and "fellow Americans" in value["text"]
    assert [w["text"] for w in value["segments"][0]["words"]][:2] == [" And", " so"]
    code, text = run(jfk, "--stream", "--language", "en")
    assert code == 0 and text.out.startswith("[00:00:00.000 --> 00:00:1") and "fellow Americans" in text.out


def test_command_refuses(run, tmp_path):
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    for arguments, words in [((tmp_path / "bad.wav",), "bad.wav"), ((tmp_path / "none.wav",), "none.wav")]:
        code, text = run(*arguments)
        assert code == 1 and words in text.err and not text.out
    assert main(["transcribe", "x.wav", "--model", str(tmp_path / "nowhere")]) == 1
    with pytest.raises(SystemExit):
        main(["transcribe"])
