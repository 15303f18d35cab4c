"""Types that the stubs show."""

import pathlib
import re
import types

import pytest

import pygpukit as gp

STUBS = pathlib.Path(__file__).resolve().parents[2] / "python/pygpukit/_core"
# Wherever an argument of this name stands, a type checker must know what it takes.
NAMED = r"(axis|axes|shape|new_shape|dtype|out_dtype|out|device|stream|indices|data|a|b|x|path|grid|block|grid_size|seed|qos|policy)"


@pytest.mark.parametrize("path", sorted(STUBS.rglob("*.pyi")), ids=lambda path: path.relative_to(STUBS).as_posix())
def test_no_argument_is_any_object(path):
    lines = [line.strip() for line in path.read_text().splitlines() if re.search(rf"[(, ]\*{{0,2}}{NAMED}: object\b", line)]
    assert [line for line in lines if not re.match(r"def (_\w+|__eq__|__ne__)\(", line)] == []


def modules_in(module):
    """The names of the modules of the extension, with dots."""
    for value in vars(module).values():
        if isinstance(value, types.ModuleType) and value.__name__.startswith("pygpukit._core."):
            yield value.__name__.removeprefix("pygpukit._core.")
            yield from modules_in(value)


def test_every_module_of_the_extension_has_a_stub():
    names = set(modules_in(gp._core))
    assert {"random", "runtime", "runtime.memory"} <= names
    wanted = {"__init__.pyi"}
    for name in names:
        inside = any(other.startswith(name + ".") for other in names)
        wanted.add(name.replace(".", "/") + ("/__init__.pyi" if inside else ".pyi"))
    assert {path.relative_to(STUBS).as_posix() for path in STUBS.rglob("*.pyi")} == wanted


def test_aliases_are_public():
    for name in gp.typing.__all__:
        assert getattr(gp.typing, name) is not None
    shown = set(re.findall(r"pygpukit\.typing\.(\w+)", "".join(path.read_text() for path in STUBS.rglob("*.pyi"))))
    assert shown <= set(gp.typing.__all__) and len(shown) > 10
