"""``pygpukit chat``: a conversation on the terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pygpukit.cli.language import Answer, Session, speed, write
from pygpukit.cli.text import Folder, complain, faint
from pygpukit.llm import ChatMessage, ThinkingParser, apply_chat_template

__all__ = ["EPILOG", "chat"]

EPILOG = """\
Lines that begin with a slash are commands:
  /reset        forget the conversation
  /system TEXT  what the model is told before all; begins anew; no TEXT: nothing
  /quit         end, as the end of the input does
Ctrl-C stops an answer and keeps what there is of it.
"""


class Conversation:
    """Messages so far, and one question at a time."""

    def __init__(self, session: Session, arguments: argparse.Namespace) -> None:
        self._session = session
        self._json, self._thinking = arguments.json, arguments.thinking
        self._system: str | None = arguments.system
        self._messages: list[ChatMessage] = []
        self._folder = Folder()

    def command(self, line: str) -> bool:
        """False at the end of the conversation."""
        name, _, rest = line.partition(" ")
        if name == "/quit":
            return False
        if name in ("/reset", "/system"):
            self._messages.clear()
            self._system = (rest.strip() or None) if name == "/system" else self._system
        else:
            print(EPILOG, file=sys.stderr)
        return True

    def ask(self, text: str) -> None:
        """One question and its answer, unless the conversation has grown too long for it."""
        self._messages.append(ChatMessage("user", text))
        ids = self._prompt()
        if self._session.room(ids) < 1:
            self._messages.pop()
            limit = self._session.max_tokens
            complain(f"pygpukit: the conversation has {len(ids)} tokens of {limit}; /reset begins anew")
            return
        opened = self._session.tokenizer.decode(ids[-4:], skip_special_tokens=False).rstrip().endswith("<think>")
        parser = ThinkingParser(in_thinking=opened)
        answer = self._session.answer(ids, lambda piece: self._show(*parser.add_text(piece)))
        self._show(*parser.flush())
        self._messages.append(ChatMessage("assistant", parser.response_content.strip()))
        self._close(answer, parser)

    def _prompt(self) -> list[int]:
        system = [] if self._system is None else [ChatMessage("system", self._system)]
        variables: dict[str, Any] = {} if self._thinking else {"enable_thinking": False}
        ids: list[int] = apply_chat_template([*system, *self._messages], self._session.tokenizer, **variables)
        return ids

    def _show(self, thinking: str, response: str) -> None:
        if not self._json:
            write(faint(self._folder.push(thinking)) + self._folder.push(response))

    def _close(self, answer: Answer, parser: ThinkingParser) -> None:
        if self._json:
            parts = {"text": parser.response_content, "thinking": parser.thinking_content}
            print(json.dumps({**asdict(answer), **parts}), flush=True)
        else:
            print(self._folder.flush())
            self._folder = Folder()
            stopped = ", stopped" if answer.finish == "interrupted" else ""
            print(faint(f"[{speed(answer)}{stopped}]"), file=sys.stderr)


def _lines() -> Iterator[str]:
    """What the user types, without blank lines; Ctrl-C gives a new line."""
    interactive = sys.stdin.isatty()
    if interactive:
        _edit_lines()
    while True:
        try:
            line = input("> " if interactive else "").strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            print("\n/quit ends", file=sys.stderr)
            continue
        if line:
            yield line


def _edit_lines() -> None:
    """Arrow keys edit the line and go through earlier ones, where Python has readline."""
    try:
        import readline  # noqa: F401
    except ImportError:
        return


def chat(arguments: argparse.Namespace) -> int:
    """0 at the end of the input."""
    conversation = Conversation(Session.open(arguments), arguments)
    for line in _lines():
        if not line.startswith("/"):
            conversation.ask(line)
        elif not conversation.command(line):
            break
    return 0
