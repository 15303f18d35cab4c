"""``pygpukit generate``: a text goes on."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict

from pygpukit.cli.language import Session, speed, write
from pygpukit.cli.text import Folder, complain

__all__ = ["generate"]


def _is_model(name: str | None) -> bool:
    return name is not None and (name.endswith(".safetensors") or os.path.exists(os.path.join(name, "config.json")))


def generate(arguments: argparse.Namespace) -> int:
    """0; 1 where the prompt leaves no room, 2 without a text for a model, 130 after Ctrl-C."""
    text = arguments.text
    if text is None and _is_model(arguments.model):
        complain(f"pygpukit generate: {arguments.model} is a model: TEXT, how the text begins, is missing")
        return 2
    if text is None:  # one argument alone is how the text begins
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
