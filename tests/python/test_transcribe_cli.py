"""``pygpukit transcribe``: its formats and its command line."""

from __future__ import annotations

import json

import pytest

from pygpukit.asr import TranscriptionResult, TranscriptionSegment
from pygpukit.cli import main
from pygpukit.cli.transcribe import as_json, as_srt, as_text, as_vtt
from pygpukit.ops.audio import read_wav, write_wav

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


@pytest.mark.parametrize("format", ["fp8", "float8_e4m3", "int4"])
def test_command_quantizes(run, assets, format):
    code, text = run(assets / "audio" / "jfk.wav", "--quantize", format)
    assert code == 0 and "my fellow Americans" in text.out


def test_command_refuses(run, tmp_path):
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    for arguments, words in [((tmp_path / "bad.wav",), "bad.wav"), ((tmp_path / "none.wav",), "none.wav")]:
        code, text = run(*arguments)
        assert code == 1 and words in text.err and not text.out
        assert "pygpukit: cannot open" in text.err or words == "bad.wav", "a message, not a tuple"
    assert main(["transcribe", "x.wav", "--model", str(tmp_path / "nowhere")]) == 1
    for wrong in ([], ["x.wav", "--quantize", "int3"]):
        with pytest.raises(SystemExit):
            main(["transcribe", *wrong])


@pytest.mark.parametrize("arguments,words", [
    (["a.wav", "--words"], "--words needs"), (["a.wav", "--stream", "--format", "json"], "--stream prints"),
    (["a.wav", "b.wav", "--format", "vtt"], "add -o FOLDER"), (["a.wav", "b.wav", "--format", "srt"], "add -o FOLDER"),
    (["a.wav", "x/a.wav", "-o", "out"], "same name"), (["a.wav", "--stream", "-o", "out"], "choose one"),
])
def test_what_does_not_go_together(capsys, arguments, words):
    assert main(["transcribe", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.fixture
def short(assets, tmp_path):
    """The first words of the clip."""
    path = tmp_path / "short.wav"
    write_wav(path, read_wav(assets / "audio" / "jfk.wav")[0][:, :35000], 16000)
    return path


def test_several_recordings(run, short, tmp_path):
    """One that is missing does not end the others; JSON of several is one list; subtitles are a file each."""
    again = tmp_path / "again.wav"
    again.write_bytes(short.read_bytes())
    code, text = run(short, tmp_path / "none.wav", again, "--format", "json", "--language", "en")
    value = json.loads(text.out)
    assert code == 1 and [entry["file"] for entry in value] == [str(short), str(again)] and "none.wav" in text.err
    assert value[0]["text"] == value[1]["text"] and "Americans" in value[0]["text"]
    out = tmp_path / "subtitles"
    code, text = run(short, again, "--format", "vtt", "--language", "en", "-o", out)
    assert code == 0 and text.out == "" and sorted(p.name for p in out.iterdir()) == ["again.vtt", "short.vtt"]
    assert all(p.read_text().count("WEBVTT") == 1 and "Americans" in p.read_text() for p in out.iterdir())


def test_stream_in_a_format(run, short):
    code, text = run(short, "--stream", "--format", "vtt", "--words", "--language", "en")
    lines = text.out.splitlines()
    assert code == 0 and lines[0] == "WEBVTT" and "Americans" in [line.rstrip(".,") for line in lines]
    assert sum("-->" in line for line in lines) == len(value := [w for w in lines[1:] if w and "-->" not in w]), value
