"""The command ``pygpukit``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    from pygpukit import __version__

    parser = argparse.ArgumentParser(
        prog="pygpukit",
        description="Runs models, measures, and tells what works on this machine. Exit codes: 0 good, 1 a problem, 2 usage.",
    )
    parser.add_argument("--version", action="version", version=f"pygpukit {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    commands.add_parser("doctor", help="what works here, and one fix for each thing that does not")
    info = commands.add_parser("info", help="facts about the library, devices and environment")
    info.add_argument("--json", action="store_true", help="machine-readable")
    cache = commands.add_parser("cache", help="the disk cache of compiled kernels")
    actions = cache.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("info", help="folder, entries, size")
    actions.add_parser("clear", help="remove every entry")
    actions.add_parser("warm", help="load every built-in kernel once, so that later processes start fast")
    commands.add_parser("demo", help="arrays against NumPy, a custom kernel, a timing table")
    _add_language(commands)
    _add_bench(commands)
    _add_top(commands)
    _add_simulate(commands)
    _add_transcribe(commands)
    _add_speech(commands)
    _add_audio(commands)
    return parser


def _add_audio(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.audio import EPILOG, add_arguments

    audio = commands.add_parser(
        "audio", help="levels of a recording, and a plot of it", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_arguments(audio)


def _add_language(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.chat import EPILOG
    from pygpukit.cli.language import add_arguments

    generate = commands.add_parser("generate", help="continue a text with a language model")
    add_arguments(generate)
    generate.add_argument("text", nargs="?", metavar="TEXT", help="how the text begins; - reads it from stdin")
    chat = commands.add_parser(
        "chat", help="chat with a language model", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(chat)
    chat.add_argument("--system", metavar="TEXT", help="the system prompt")
    chat.add_argument(
        "--thinking", action=argparse.BooleanOptionalAction, default=True, help="let a thinking model think"
    )


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.bench import EPILOG, add_arguments

    bench = commands.add_parser(
        "bench", help="benchmarks of operations and models against ceilings and other libraries", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_arguments(bench)


def _add_top(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.top import EPILOG

    top = commands.add_parser(
        "top", help="contexts, memory, launches and queues of a running program", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    source = top.add_mutually_exclusive_group()
    source.add_argument("--file", metavar="FILE", help="a file that a program keeps fresh with publish_snapshot(FILE)")
    source.add_argument("--pid", type=int, help="the process to look at; without it the one that wrote last")
    top.add_argument("--once", action="store_true", help="print once and end")
    top.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds between two looks")
    top.add_argument("--json", action="store_true", help="print the snapshot itself, one line each time")


def _add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.simulate import EPILOG

    simulate = commands.add_parser(
        "simulate", help="run a workload from a file through the scheduler on a virtual clock", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    simulate.add_argument("file", metavar="FILE", help="the workload")
    simulate.add_argument("--svg", metavar="OUT", help="also write the timeline as a picture")
    simulate.add_argument("--json", action="store_true", help="print the result with every decision as JSON")
    simulate.add_argument("--width", type=int, metavar="N", help="columns of the timeline (as many as fit)")


def _add_speech(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.speech import EPILOG, add_arguments, add_model

    speak = commands.add_parser(
        "speak", help="text to speech, into a WAV file", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_arguments(speak)
    add_model(commands.add_parser("voices", help="list the voices of a speech model"))


def _add_transcribe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from pygpukit.cli.transcribe import EPILOG, add_arguments

    transcribe = commands.add_parser(
        "transcribe", help="speech to text: plain text, JSON or subtitles", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_arguments(transcribe)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"must be from 0.05 to 3600, got {text}")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding lacks is printed as an escape, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    from pygpukit.cli.text import complain, fold_log
    from pygpukit.errors import Error

    fold_log()
    try:
        return _run(arguments)
    except Error as error:
        complain(f"pygpukit: {error}")
        return 1
    except BrokenPipeError:
        # The reader went away; a second error at exit would say no more.
        sys.stdout = None
        return 1
    except UnicodeEncodeError:
        complain(f"pygpukit: the text has bytes that are not {sys.getfilesystemencoding()}; for UTF-8 set PYTHONUTF8=1")
        return 1
    except (OSError, UnicodeDecodeError, ImportError) as error:
        complain(f"pygpukit: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "doctor":
        from pygpukit.cli.doctor import doctor

        return doctor()
    if arguments.command == "info":
        from pygpukit.cli.info import info

        return info(as_json=arguments.json)
    if arguments.command == "cache":
        from pygpukit.cli import cache

        return cache.run(arguments.action)
    if arguments.command == "bench":
        from pygpukit.cli.bench import bench

        return bench(arguments)
    if arguments.command == "generate":
        from pygpukit.cli.generate import generate

        return generate(arguments)
    if arguments.command == "chat":
        from pygpukit.cli.chat import chat

        return chat(arguments)
    if arguments.command == "top":
        from pygpukit.cli.top import top

        return top(arguments.file, arguments.pid, arguments.once, arguments.interval, arguments.json)
    if arguments.command == "simulate":
        from pygpukit.cli.simulate import simulate

        return simulate(arguments.file, arguments.svg, arguments.json, arguments.width)
    if arguments.command == "transcribe":
        from pygpukit.cli.transcribe import transcribe

        return transcribe(arguments)
    if arguments.command == "audio":
        from pygpukit.cli.audio import audio

        return audio(arguments)
    if arguments.command in ("speak", "voices"):
        from pygpukit.cli import speech

        return speech.speak(arguments) if arguments.command == "speak" else speech.voices(arguments)
    from pygpukit.cli.demo import demo

    return demo()
