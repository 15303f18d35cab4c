"""``pygpukit speak`` and ``pygpukit voices``."""

from __future__ import annotations

import argparse
import time

from pygpukit.cli.text import ending, fitting

__all__ = ["EPILOG", "add_arguments", "add_model", "speak", "voices"]

EPILOG = b"""\
examples:
  pygpukit speak "It is 5:30 pm." --model kokoro-82m -o time.wav
  pygpukit speak "[Kokoro](/k\\u02c8Ok\\u0259\\u0279O/) speaks." --voice bf_emma --speed 1.1
  pygpukit speak "h\\u0259l\\u02c8O" --phonemes
""".decode("unicode_escape")  # phonemes, in a source of ASCII


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="kokoro-82m", metavar="FOLDER",
                        help="config.json, SafeTensors and voices of Kokoro (kokoro-82m)")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="what to say")
    parser.add_argument("-o", "--output", type=ending(".wav"), default="speech.wav", metavar="FILE",
                        help="the WAV file (speech.wav)")  # fmt: skip
    parser.add_argument("--voice", default="af_heart", metavar="NAME", help="one, or several joined by + (af_heart)")
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="0.1 to 10")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the noise in the voice")
    parser.add_argument("--phonemes", action="store_true", help="TEXT is phonemes")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--lexicons", metavar="FOLDER", help="us_gold.json, us_silver.json, if not beside the model")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1 (the GPU if there is one)")
    parser.add_argument("--lang", choices=("a", "b"), help="American or British English (as the voice)")
    parser.add_argument("--use-misaki", action=argparse.BooleanOptionalAction,
                        help="phonemes of the package misaki (for British English, where it is installed)")  # fmt: skip
    parser.add_argument("--use-espeak", action="store_true", help="phonemes of the program espeak-ng")
    add_model(parser)


def speak(arguments: argparse.Namespace) -> int:
    from pygpukit.tts import KokoroModel

    model = KokoroModel.from_pretrained(
        arguments.model,
        arguments.voice,
        arguments.dtype,
        device=arguments.device,
        lexicons=arguments.lexicons,
        lang=arguments.lang,
        use_misaki=arguments.use_misaki,
        use_espeak=arguments.use_espeak,
    )
    start = time.perf_counter()
    phonemes = arguments.text if arguments.phonemes else None
    said = model.synthesize(arguments.text, speed=arguments.speed, seed=arguments.seed, phonemes=phonemes)
    said.to_wav(arguments.output)
    seconds = time.perf_counter() - start
    if not arguments.phonemes:
        print(fitting(f"text: {said.text}"))
    print(fitting(f"phonemes: {said.phonemes}"))
    print(f"phonemes by: {said.source}")
    if said.guessed:
        print(fitting(f"said by spelling: {', '.join(said.guessed)}"))
    if said.skipped:
        print(fitting(f"not spoken: {' '.join(said.skipped)}"))
    print(f"{arguments.output}: {said.duration_sec:.2f} s in {seconds:.2f} s")
    return 0


def voices(arguments: argparse.Namespace) -> int:
    from pygpukit.tts import list_available_voices

    kinds = {"af": "American, female", "am": "American, male", "bf": "British, female", "bm": "British, male"}
    for name in list_available_voices(arguments.model):
        print(f"{name}  {kinds.get(name[:2], '')}".rstrip())
    return 0
