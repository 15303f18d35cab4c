"""``pygpukit generate``: a text goes on."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from pygpukit.cli.language import Session, speed, write
from pygpukit.cli.text import Folder

__all__ = ["generate"]


def generate(arguments: argparse.Namespace) -> int:
    """0; 1 where the prompt leaves no room, 130 after Ctrl-C."""
    text = arguments.text
    if text is None:  # one word alone is how the text begins
        text, arguments.model = arguments.model or "", None
    if text == "-":
        text = sys.stdin.read()
    session = Session.open(arguments, default=True)
    ids = session.tokenizer.encode(text)
    if session.room(ids) < 1:
        print(f"pygpukit: the prompt has {len(ids)} tokens of {session.max_tokens}", file=sys.stderr)
        return 1
    folder = Folder()
    if not arguments.json:
        write(folder.push(text))
    answer = session.answer(ids, lambda piece: None if arguments.json else write(folder.push(piece)))
    if arguments.json:
        print(json.dumps({"prompt": text, **asdict(answer)}))
    else:
        print(folder.flush())
        print(speed(answer), file=sys.stderr)
    return 130 if answer.finish == "interrupted" else 0
