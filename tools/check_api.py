"""Checks that every name of the 0.2 API in tools/api_0_2/ exists and takes its keywords.

A file is an area. A row is a module, a dotted name in it and, for what is called, the keywords that users pass; or a
command of pygpukit and its flags; or an environment variable, which docs/ must name. Extra ones are welcome.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tools" / "api_0_2"
VARIABLES = ("docs/environment.md", "docs/migrating-from-0.2.md")


def native_keywords(signature: str) -> set[str]:
    """Keywords of `def name(a: T, b: T = \\0) -> R`, as nanobind writes it."""
    text = re.sub(r"=\s*\\\d+", "= ...", signature)
    function = ast.parse(f"{text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    return {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}


def keywords(value: Any) -> set[str] | None:
    """The names a call accepts; None when it accepts any name."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if inspect.isclass(value) and hasattr(value.__init__, "__nb_signature__"):
        value = value.__init__
    if hasattr(value, "__nb_signature__"):
        return set().union(*(native_keywords(overload[0]) for overload in value.__nb_signature__))
    parameters = inspect.signature(value).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def has_field(owner: Any, name: str) -> bool:
    """Dataclass fields without a default are attributes of instances only."""
    return name in getattr(owner, "__dataclass_fields__", {}) or name in getattr(owner, "__annotations__", {})


def check_command(name: str, flags: list[str]) -> Iterator[str]:
    from pygpukit.cli import _parser

    commands = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    if name not in commands:
        yield f"pygpukit {name}: missing"
        return
    for flag in flags:
        if flag not in commands[name]._option_string_actions:
            yield f"pygpukit {name}: no flag {flag}"


def check_variable(name: str) -> Iterator[str]:
    if not any(f"`{name}" in (ROOT / page).read_text(encoding="utf-8") for page in VARIABLES):
        yield f"{name}: named in none of {', '.join(VARIABLES)}"


def check_row(row: dict[str, Any]) -> Iterator[str]:
    if "command" in row:
        yield from check_command(row["command"], row["flags"])
        return
    if "environment" in row:
        yield from check_variable(row["environment"])
        return
    where = f"{row['module']}.{row['name']}"
    try:
        value = importlib.import_module(row["module"])
    except ImportError as error:
        yield f"{where}: {error}"
        return
    for part in row["name"].split("."):
        if not hasattr(value, part):
            if has_field(value, part):
                return
            yield f"{where}: missing"
            return
        value = inspect.getattr_static(value, part) if inspect.isclass(value) else getattr(value, part)
    if "keywords" not in row:
        return
    if not callable(value) and not isinstance(value, (staticmethod, classmethod)):
        yield f"{where}: cannot be called"
        return
    try:
        accepted = keywords(value)
    except ValueError:
        yield f"{where}: has no constructor"
        return
    if accepted is not None:
        for keyword in row["keywords"]:
            if keyword not in accepted:
                yield f"{where}: no keyword {keyword}, has {sorted(accepted)}"


def main() -> int:
    rows = [row for table in sorted(TABLES.glob("*.json")) for row in json.loads(table.read_text())]
    faults = [fault for row in rows for fault in check_row(row)]
    for fault in faults:
        print(fault)
    print(f"api: {len(rows)} names, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
