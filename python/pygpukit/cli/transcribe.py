"""``pygpukit transcribe``: recordings to text, JSON or subtitles."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit.cli.language import WEIGHT_FORMATS
from pygpukit.cli.text import Folder, complain, progress

if TYPE_CHECKING:
    from pygpukit.asr import TranscriptionResult, TranscriptionSegment, WhisperModel

__all__ = ["EPILOG", "add_arguments", "as_json", "as_srt", "as_text", "as_vtt", "transcribe"]

EPILOG = """\
examples:
  pygpukit transcribe talk.wav --model ./whisper-tiny
  pygpukit transcribe talk.wav --format srt --words > talk.srt
  pygpukit transcribe one.wav two.wav --format vtt -o subtitles
  pygpukit transcribe interview.flac --language ja --task translate --stream

Nothing is downloaded: --model is a folder, or the name of a model in the
Hugging Face cache of this disk. Files other than WAV need soundfile.
"""

# Tried in turn where a text repeats itself or is unlikely.
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="recordings")
    parser.add_argument("--model", default="openai/whisper-tiny", metavar="MODEL",
                        help="a folder, or a name in the Hugging Face cache (openai/whisper-tiny)")  # fmt: skip
    parser.add_argument("--language", metavar="CODE", help="en, ja, ...; without it, what is heard")
    parser.add_argument("--task", choices=("transcribe", "translate"), default="transcribe")
    parser.add_argument("--format", choices=("text", "json", "srt", "vtt"), default="text")
    parser.add_argument(
        "--words", action="store_true", help="the times of words too: in JSON, and a cue each in subtitles"
    )
    parser.add_argument("--stream", action="store_true", help="print each part, with its times, as soon as it is known")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="a file for each recording there, not stdout")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="windows at once, cut at quiet places (1)")
    parser.add_argument("--beams", type=int, default=1, metavar="N", help="beam search of this width (1: greedy)")
    parser.add_argument("--skip-silence", action="store_true", help="leave quiet parts out")
    parser.add_argument("--prompt", metavar="TEXT", help="names and spellings that may occur")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"))
    parser.add_argument(
        "--quantize", metavar="{fp8,int8,int4,nvfp4}", help="quantise the layers' weights while loading",
        type=lambda name: WEIGHT_FORMATS.get(name, name), choices=WEIGHT_FORMATS.values(),
    )  # fmt: skip


def clock(seconds: float, mark: str) -> str:
    """``00:01:02,345`` with the mark of SRT."""
    milliseconds = round(seconds * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{mark}{rest % 1000:03}"


def _cues(segments: Sequence[TranscriptionSegment], words: bool) -> list[Any]:
    return [cue for s in segments for cue in (s.words if words and s.words else [s])]


def as_text(result: TranscriptionResult, words: bool = False) -> str:
    return "\n".join(segment.text.strip() for segment in result.segments)


def as_srt(result: TranscriptionResult, words: bool = False) -> str:
    cues = [
        f"{i}\n{clock(c.start, ',')} --> {clock(c.end, ',')}\n{c.text.strip()}\n"
        for i, c in enumerate(_cues(result.segments, words), 1)
    ]
    return "\n".join(cues)


def as_vtt(result: TranscriptionResult, words: bool = False) -> str:
    cues = [
        f"{clock(c.start, '.')} --> {clock(c.end, '.')}\n{c.text.strip().replace('-->', '->')}\n"
        for c in _cues(result.segments, words)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def as_json(result: TranscriptionResult, words: bool = False) -> str:
    segments = []
    for s in result.segments:
        entry: dict[str, Any] = {"start": round(s.start, 3), "end": round(s.end, 3), "text": s.text, "tokens": s.tokens}
        for name in ("temperature", "avg_logprob", "compression_ratio", "no_speech_prob"):
            entry[name] = round(getattr(s, name), 5)
        if words:
            entry["words"] = [
                {
                    "text": w.text,
                    "start": round(w.start, 3),
                    "end": round(w.end, 3),
                    "probability": round(w.probability, 4),
                }
                for w in s.words
            ]
        segments.append(entry)
    return json.dumps({"text": result.text, "language": result.language, "segments": segments}, ensure_ascii=False)


FORMATS: dict[str, Callable[[TranscriptionResult, bool], str]] = {
    "text": as_text, "json": as_json, "srt": as_srt, "vtt": as_vtt,
}  # fmt: skip
SUFFIXES = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt"}


def _refusal(arguments: argparse.Namespace) -> str | None:
    """What does not go together, before any model is loaded."""
    several = len(arguments.files) > 1 and arguments.output is None
    if arguments.words and arguments.format == "text":
        return "--words needs --format json, srt or vtt"
    if arguments.stream and arguments.format == "json":
        return "--stream prints text, srt or vtt: JSON is whole at the end"
    if arguments.stream and arguments.output is not None:
        return "--stream prints, -o writes files: choose one"
    if several and arguments.format in ("srt", "vtt"):
        return f"{arguments.format} of several recordings is a file each: add -o FOLDER"
    names = [Path(path).stem for path in arguments.files]
    if arguments.output is not None and len(set(names)) < len(names):
        return "-o: two recordings have the same name"
    return None


def _line(index: int, cue: Any, format: str) -> str:
    """What --stream prints of a part, or of a word."""
    if format == "text":
        return f"[{clock(cue.start, '.')} --> {clock(cue.end, '.')}]{cue.text}"
    if format == "srt":
        return f"{index}\n{clock(cue.start, ',')} --> {clock(cue.end, ',')}\n{cue.text.strip()}\n"
    return f"{clock(cue.start, '.')} --> {clock(cue.end, '.')}\n{cue.text.strip().replace('-->', '->')}\n"


def _one(model: WhisperModel, path: str, arguments: argparse.Namespace) -> TranscriptionResult:
    """Writes a recording down, printing its parts as they are known with --stream."""
    from pygpukit.asr import TranscriptionResult

    work = model.transcriber(
        path, language=arguments.language, task=arguments.task, temperature=TEMPERATURES, best_of=5,
        beam_size=arguments.beams, word_timestamps=arguments.words, batch_size=arguments.batch,
        skip_silence=arguments.skip_silence, initial_prompt=arguments.prompt,
    )  # fmt: skip
    show = None if arguments.stream else progress("seconds")
    if arguments.stream and arguments.format == "vtt":
        print("WEBVTT\n", flush=True)
    given = printed = 0
    while work.step():
        if show is not None:
            show(int(work.done), int(work.duration))
        if not arguments.stream:
            continue
        segments = work.segments
        for cue in _cues(segments[given:], arguments.words):
            printed += 1
            line = _line(printed, cue, arguments.format)
            lines = Folder()
            print(lines.push(line) + lines.flush() if arguments.format == "text" else line, flush=True)
        given = len(segments)
    return TranscriptionResult(work.text, work.segments, work.language or None)


def transcribe(arguments: argparse.Namespace) -> int:
    from pygpukit.asr import WhisperModel
    from pygpukit.errors import Error

    if refusal := _refusal(arguments):
        complain(f"pygpukit transcribe: {refusal}")
        return 2
    model = WhisperModel.from_pretrained(arguments.model, dtype=arguments.dtype, quantize=arguments.quantize)
    folder = None if arguments.output is None else Path(arguments.output)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    several = len(arguments.files) > 1 and folder is None
    documents: list[str] = []
    failed = False
    for path in arguments.files:
        if several and arguments.format == "text":
            print(f"{path}:", file=sys.stderr)
        try:
            result = _one(model, path, arguments)
        except (Error, ImportError, OSError) as error:
            complain(f"pygpukit: {error}")
            failed = True
            continue
        if arguments.stream:
            continue
        text = FORMATS[arguments.format](result, arguments.words)
        if folder is not None:
            target = folder / (Path(path).stem + SUFFIXES[arguments.format])
            unfinished = target.with_name(target.name + ".unfinished")
            unfinished.write_text(text + "\n", encoding="utf-8")
            unfinished.replace(target)
        elif several and arguments.format == "json":
            documents.append(json.dumps({"file": path, **json.loads(text)}, ensure_ascii=False))
        elif arguments.format == "text":
            folder_of_lines = Folder()
            print(folder_of_lines.push(text) + folder_of_lines.flush())
        else:
            print(text)
    if several and arguments.format == "json":
        print("[" + ",\n".join(documents) + "]")
    return 1 if failed else 0
