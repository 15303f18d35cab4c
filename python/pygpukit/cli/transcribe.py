"""``pygpukit transcribe``: recordings to text, JSON or subtitles."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit.cli.text import progress

if TYPE_CHECKING:
    from pygpukit.asr import TranscriptionResult, TranscriptionSegment

__all__ = ["EPILOG", "add_arguments", "as_json", "as_srt", "as_text", "as_vtt", "transcribe"]

EPILOG = """\
examples:
  pygpukit transcribe talk.wav --model ./whisper-tiny
  pygpukit transcribe talk.wav --format srt --words > talk.srt
  pygpukit transcribe interview.flac --language ja --task translate --stream

Nothing is downloaded: --model is a folder, or the name of a model in the Hugging Face cache of this disk.
Files other than WAV need soundfile."""

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
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="windows at once, cut at quiet places (1)")
    parser.add_argument("--beams", type=int, default=1, metavar="N", help="beam search of this width (1: greedy)")
    parser.add_argument("--skip-silence", action="store_true", help="leave quiet parts out")
    parser.add_argument("--prompt", metavar="TEXT", help="names and spellings that may occur")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--quantize", metavar="FORMAT", help="int8, float8_e4m3, ...")


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


def transcribe(arguments: argparse.Namespace) -> int:
    from pygpukit.asr import TranscriptionResult, WhisperModel

    model = WhisperModel.from_pretrained(arguments.model, dtype=arguments.dtype, quantize=arguments.quantize)
    for path in arguments.files:
        try:
            work = model.transcriber(
                path, language=arguments.language, task=arguments.task, temperature=TEMPERATURES, best_of=5,
                beam_size=arguments.beams, word_timestamps=arguments.words, batch_size=arguments.batch,
                skip_silence=arguments.skip_silence, initial_prompt=arguments.prompt,
            )  # fmt: skip
        except ImportError as error:
            print(f"pygpukit: {error}", file=sys.stderr)
            return 1
        if len(arguments.files) > 1:
            print(f"{path}:", file=sys.stderr)
        show = None if arguments.stream else progress("seconds")
        given = 0
        while work.step():
            if show is not None:
                show(int(work.done), int(work.duration))
            if arguments.stream:
                segments = work.segments
                for s in segments[given:]:
                    print(f"[{clock(s.start, '.')} --> {clock(s.end, '.')}]{s.text}", flush=True)
                given = len(segments)
        if not arguments.stream:
            result = TranscriptionResult(work.text, work.segments, work.language or None)
            print(FORMATS[arguments.format](result, arguments.words))
    return 0
