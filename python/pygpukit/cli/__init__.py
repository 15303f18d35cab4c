"""The command ``pygpukit``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    from pygpukit import __version__

    parser = argparse.ArgumentParser(
        prog="pygpukit",
        description="Looks at the machine, the kernel cache and the library. Exit codes: 0 good, 1 a problem, 2 usage.",
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
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit code."""
    arguments = _parser().parse_args(argv)
    from pygpukit.errors import Error

    try:
        return _run(arguments)
    except Error as error:
        print(f"pygpukit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away; a second error at exit would say no more.
        sys.stdout = None
        return 1


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
    from pygpukit.cli.demo import demo

    return demo()
