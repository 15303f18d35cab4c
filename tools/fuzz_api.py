"""Calls every public function and method of pygpukit with hostile arguments, in processes that may die of it.

    python tools/fuzz_api.py [--calls 20000] [--seed 1] [--jobs 2] [--first 0]

What is called is found by looking at the package; EXCLUDED names what is left out, and why. A call is a function of
the seed and its number. It fails when the process dies or hangs, when the exception is one that no caller can act on
(SystemError, a C++ name), or when a well-formed call gives another value than NumPy. Exit status 0 when none did.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import contextvars
import enum
import importlib
import inspect
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

BATCH = 2000
CALL_S = 2.0  # a call is ended by a signal after so long
HANG_S = 60  # and the process when no signal gets through
MEMORY_BYTES = 3 << 30
KEPT = 3  # results of each class that later calls may use

# Names, or what they begin with, and why they are not called.
EXCLUDED = {
    "pygpukit.cli": "programs: they print, serve and exit",
    "pygpukit.benchmark": "measures for minutes; its files are read by test_benchmark.py and test_hostile.py",
    "pygpukit.__main__": "a program",
    "pygpukit._bundle": "a program",
    "pygpukit._startup": "runs at import",
    "pygpukit._deprecation": "warnings of old names",
    "pygpukit._pygpukit_rust": "the old name of pygpukit.runtime",
    "pygpukit.testing": "helpers of tests that raise AssertionError by design",
    "pygpukit._core._compile_module": "minutes of NVRTC",
    "pygpukit._core._compile_source": "minutes of NVRTC",
    "pygpukit._core._build_bundle": "minutes of NVRTC",
    "pygpukit._core._cache_warm": "minutes of NVRTC",
    "pygpukit._core._warm_up_compiler": "minutes of NVRTC",
    "pygpukit.jit.compiler.warmup": "NVRTC in the background, which aborts where the limit of memory is met",
    "pygpukit._core._register_dtype": "replaces a dtype object for the whole process",
    "pygpukit._core._raw_": "addresses by contract",
    "pygpukit._core.copy_to_device": "reads an address by contract",
    "pygpukit._core.copy_to_device_async": "reads an address by contract",
    "pygpukit._core._time_bare_launch": "measures",
    "pygpukit._core.runtime._bench_": "measures",
    "pygpukit._core._set_host_sms": "for tests: changes the simulated device",
    "pygpukit.triton.kernels.programs": "imports Triton; Triton compiles them",
    "pygpukit.core.backend": "set_backend and raw blocks by address; test_compat.py calls them",
    "pygpukit.core.memory.copy_to_": "reads an address by contract",
}
# Parameters that are addresses by contract: never passed.
ADDRESSES = {"device_ptr", "src_ptr", "dst_ptr", "address", "host_ptr", "ptr", "src_address", "dst_address"}
# What every object has, or what would end the process.
PLAIN = {"__class__", "__new__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__dir__", "__sizeof__", "__doc__",
         "__module__", "__dict__", "__weakref__", "__del__", "__annotations__", "__slots__", "__abstractmethods__",
         "__parameters__", "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__orig_bases__"}  # fmt: skip
# No caller can act on these.
BAD_TEXT = re.compile(r"std::|basic_string|vector::|bad_|terminate|Assertion|nanobind::")


def excluded(name: str) -> bool:
    """Keys that end in _ are what names begin with; others are a name or a module."""
    return any(name == key or name.startswith(key if key.endswith("_") else key + ".") for key in EXCLUDED)


# What there is to call


def modules() -> list[Any]:
    package = importlib.import_module("pygpukit")
    found = [package]
    for entry in pkgutil.walk_packages(package.__path__, "pygpukit."):
        if not excluded(entry.name) and entry.name not in ("pygpukit.__main__", "pygpukit.diffusion"):
            found.append(importlib.import_module(entry.name))
    runtime = importlib.import_module("pygpukit.runtime")
    found += [getattr(runtime, name) for name in ("memory", "scheduler", "transfer", "dispatch", "device")]
    return found


def canonical(value: Any, fallback: str) -> str:
    """One name for an object that several modules show."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else fallback


def targets() -> dict[str, list[tuple[str, str, Any]]]:
    """By group: (name, kind, object), where the object of an attribute is (class, name)."""
    groups: dict[str, dict[str, tuple[str, str, Any]]] = {"functions": {}, "arrays": {}, "classes": {}}
    for module in modules():
        for name, value in sorted(vars(module).items()):
            full = canonical(value, f"{module.__name__}.{name}")
            private = name.startswith("_") and not full.startswith("pygpukit._core.")
            ours = callable(value) and full.startswith("pygpukit")
            if private or name.startswith("__") or not ours or excluded(full):
                continue
            if not inspect.isclass(value):
                groups["functions"][full] = (full, "function", value)
                continue
            group = groups["arrays" if value.__name__ == "GPUArray" else "classes"]
            group[full] = (full, "class", value)
            if issubclass(value, (enum.Enum, BaseException)):
                continue
            for attribute in sorted(set(dir(value)) - PLAIN):
                own = getattr(value, attribute, None) is not getattr(object, attribute, object())
                if own and not re.match(r"_[^_]", attribute) and not excluded(f"{full}.{attribute}"):
                    group[f"{full}.{attribute}"] = (f"{full}.{attribute}", "attribute", (value, attribute))
    return {name: sorted(group.values(), key=lambda entry: entry[0]) for name, group in groups.items()}


def parameters(function: Any) -> list[tuple[str, str, bool]] | None:
    """(name, kind, has a default) of each, or None when nothing says."""
    signatures = getattr(function, "__nb_signature__", None)
    if signatures:
        text = re.sub(r"\\\d+", "None", signatures[0][0])
        try:
            node = ast.parse(text.splitlines()[-1] + ": ...").body[0]
        except SyntaxError:
            return None
        assert isinstance(node, ast.FunctionDef)
        names = [*node.args.posonlyargs, *node.args.args]
        plain = len(names) - len(node.args.defaults)
        result = [(a.arg, "plain", i >= plain) for i, a in enumerate(names)]
        result += [(node.args.vararg.arg, "many", True)] if node.args.vararg else []
        optional = [default is not None for default in node.args.kw_defaults]
        result += [(a.arg, "named", given) for a, given in zip(node.args.kwonlyargs, optional, strict=True)]
        return [entry for entry in result if entry[0] != "self"]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    kinds = {inspect.Parameter.VAR_POSITIONAL: "many", inspect.Parameter.KEYWORD_ONLY: "named"}
    skip = inspect.Parameter.VAR_KEYWORD
    return [
        (p.name, kinds.get(p.kind, "plain"), p.default is not p.empty)
        for p in signature.parameters.values()
        if p.kind is not skip and p.name != "self"
    ]


# One process


class TooLong(BaseException):
    """A call that took its time."""


class Child:
    """Makes the calls `first` to `first + count` of a seed."""

    def __init__(self, seed: int, note: Any) -> None:
        import fuzz_numpy
        import fuzz_values

        self.seed, self.note = seed, note
        self.values, self.numpy = fuzz_values, fuzz_numpy
        self.targets = targets()
        self.kept: dict[Any, list[Any]] = collections.defaultdict(list)
        self.counts: collections.Counter[str] = collections.Counter()
        self.found: list[dict[str, Any]] = []

    def run(self, first: int, count: int) -> int:
        """Gives how many were made: a call may leave the process in a state that refuses all others."""
        for number in range(first, first + count):
            r = Random(f"{self.seed}:{number}")
            try:
                self.values.gp.zeros(4)
            except Exception:
                return number - first
            try:
                # Sessions that a call enters end with it.
                contextvars.copy_context().run(self.compare if r.random() < 0.3 else self.attack, r, number)
            except TooLong:
                self.counts["ended after 2 s"] += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        return count

    def begin(self, number: int, text: str) -> None:
        self.note(number, text)
        self.text = text
        signal.setitimer(signal.ITIMER_REAL, CALL_S, 0.2)

    def fail(self, number: int, kind: str, detail: str) -> None:
        self.found.append({"call": number, "kind": kind, "text": self.text[:1500], "detail": detail[:1500]})

    def compare(self, r: Random, number: int) -> None:
        import numpy as np

        text, ours, twin, dtype = self.numpy.case(r)
        self.begin(number, text)
        try:
            value = self.numpy.plain(ours())
        except Exception as error:
            self.judge(number, error)
            value = error
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            with np.errstate(all="ignore"):
                expected = twin()
        except Exception:
            self.counts["NumPy refuses" + ("" if isinstance(value, Exception) else ", we do not")] += 1
            return
        if isinstance(value, Exception):
            self.counts["we refuse, NumPy does not: " + text.split("(")[0].split("[")[0][:30]] += 1
            return
        self.counts["compared with NumPy"] += 1
        if different := self.numpy.difference(value, expected, dtype):
            self.fail(number, "differs from NumPy", different)

    def attack(self, r: Random, number: int) -> None:
        name, kind, value = r.choice(self.targets[r.choice(["functions", "functions", "arrays", "classes", "classes"])])
        if kind == "attribute":
            cls, attribute = value
            owner, text = self.instance(r, cls)
            self.begin(number, f"{name} of {text}")
            call = getattr(cls, attribute) if owner is None else None
            with self.judged(number):
                call = call or getattr(owner, attribute)
            if not callable(call):
                self.counts["properties"] += 1
                return
            given, named, text = self.arguments(r, getattr(cls, attribute), owner is None)
            text = f"{name}({text}) of {self.text}"
        else:
            call = value
            function = getattr(value, "__init__", value) if kind == "class" else value
            given, named, text = self.arguments(r, function, False)
            text = f"{name}({text})"
        self.begin(number, text)
        with self.judged(number):
            result = call(*given, **named)
            self.counts["returned"] += 1
            self.keep(result)
            if r.random() < 0.3:
                repr(result)

    def keep(self, result: Any) -> None:
        cls = type(result)
        if cls.__module__.startswith("pygpukit") and not isinstance(result, enum.Enum):
            kept = self.kept[cls.__name__]
            kept.insert(0, result)
            del kept[KEPT:]

    @contextlib.contextmanager
    def judged(self, number: int) -> Any:
        try:
            yield
        except Exception as error:
            self.judge(number, error)

    def judge(self, number: int, error: Exception) -> None:
        self.counts["raised " + type(error).__name__] += 1
        try:
            text = str(error)
        except LookupError:
            return  # an object of ours that refuses to be shown
        if isinstance(error, SystemError) or BAD_TEXT.search(text):
            self.fail(number, "an exception nobody can act on", f"{type(error).__name__}: {text}")

    def instance(self, r: Random, cls: Any) -> tuple[Any, str]:
        """None where none can be made: the method is then called with whatever as self."""
        if cls.__name__ == "GPUArray":
            return self.values.array(r)
        if self.kept[cls.__name__] and r.random() < 0.7:
            return r.choice(self.kept[cls.__name__]), f"a {cls.__name__} of an earlier call"
        for _ in range(3):
            given, named, text = self.arguments(r, getattr(cls, "__init__", cls), False, hostile=0.0)
            try:
                made = cls(*given, **named)
            except Exception:
                continue
            self.keep(made)
            return made, f"{cls.__name__}({text})"
        return None, "nothing"

    def arguments(
        self, r: Random, function: Any, unbound: bool, hostile: float | None = None
    ) -> tuple[list[Any], dict[str, Any], str]:
        hostile = r.choice([0.0, 0.2, 0.5, 1.0]) if hostile is None else hostile
        make = self.values
        names = parameters(function)
        given: list[Any] = []
        named: dict[str, Any] = {}
        texts: list[str] = []
        if names is None:
            names = [(f"value{i}", "plain", False) for i in range(r.randrange(4))]
        if unbound:
            names = [("self_value", "plain", False), *names]
        for name, kind, optional in names:
            if name in ADDRESSES or (optional and r.random() < 0.5):
                if kind == "plain" and not optional:
                    break
                continue
            for _ in range(r.choice([0, 1, 2, 3]) if kind == "many" else 1):
                attack = r.random() < hostile
                pick = make.hostile_shape if attack and r.random() < 0.3 else make.anything if attack else None
                value, text = pick(r) if pick else self.fitting(r, name)
                if kind == "many" or (kind == "plain" and not optional):
                    given.append(value)
                else:
                    named[name] = value
                texts.append(f"{name}={text}")
        if r.random() < 0.03:
            given.append(None)
            texts.append("one more")
        return given, named, ", ".join(texts)

    def fitting(self, r: Random, name: str) -> tuple[Any, str]:
        words = name.replace("_", "")
        for known, kept in self.kept.items():
            if kept and words and words in known.lower() and r.random() < 0.8:
                return r.choice(kept), f"a {known} of an earlier call"
        return self.values.fitting(r, name)


def child_main(options: argparse.Namespace) -> int:
    if not os.environ.get("ASAN_OPTIONS"):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.path.insert(0, str(Path(__file__).resolve().parent))

    def too_long(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, too_long)
    place = os.open(options.note, os.O_RDWR)

    def note(number: int, text: str) -> None:
        line = f"{number} {text}".encode(errors="backslashreplace")[:3999]
        os.pwrite(place, line.ljust(4000, b"\0"), 0)

    child = Child(options.seed, note)
    if options.list:
        print("\n".join(name for group in child.targets.values() for name, _, _ in group))
        return 0
    made = child.run(options.first, options.calls)
    Path(options.note + ".done").write_text(json.dumps({"made": made, "counts": child.counts, "found": child.found}))
    sys.stdout.flush()
    os._exit(0)  # what hostile calls left behind is not torn down


# All of them


class Batch:
    """A process and what it says."""

    def __init__(self, seed: int, first: int, count: int, folder: Path) -> None:
        self.first, self.count = first, count
        self.note = folder / f"note-{first}"
        self.note.write_bytes(b"\0" * 4000)
        self.home = folder / f"home-{first}"
        self.home.mkdir()
        command = [sys.executable, "-X", "faulthandler", "-W", "ignore", __file__, "--child", "--seed", str(seed)]
        command += ["--first", str(first), "--calls", str(count), "--note", str(self.note)]
        folders = ("HOME", "XDG_CACHE_HOME", "TMPDIR", "XDG_RUNTIME_DIR", "PYGPUKIT_CACHE_DIR")
        homes = dict.fromkeys(folders, str(self.home))
        self.errors = open(folder / f"errors-{first}", "wb+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdout=self.errors,
            stderr=self.errors,
            cwd=self.home,
            env={**os.environ, "PYGPUKIT_DEVICE": "cpu", **homes},
        )
        self.seen, self.since = b"", time.monotonic()

    def last(self) -> tuple[int, str]:
        number, _, text = self.note.read_bytes().rstrip(b"\0").decode(errors="replace").partition(" ")
        return (int(number) if number else self.first, text)

    def poll(self) -> str | None:
        """None while it runs; else how it ended, empty for well."""
        status = self.process.poll()
        if status is None:
            seen = self.note.read_bytes()
            if seen != self.seen:
                self.seen, self.since = seen, time.monotonic()
            if time.monotonic() - self.since < HANG_S:
                return None
            self.process.send_signal(signal.SIGABRT)  # faulthandler shows where
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.process.kill()
            self.process.wait()
            return f"hung for {HANG_S} s"
        if status == 0 and Path(f"{self.note}.done").exists():
            return ""
        return f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def tail(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-6000:]


def parent_main(options: argparse.Namespace) -> int:
    began = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    failures = 0
    print(f"fuzz_api: seed {options.seed}, calls {options.first} to {options.first + options.calls}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-api-") as name:
        folder = Path(name)
        end = options.first + options.calls
        waiting = [(at, min(BATCH, end - at)) for at in reversed(range(options.first, end, BATCH))]
        running: list[Batch] = []
        made = 0
        while (waiting or running) and failures < options.most_failures:
            while waiting and len(running) < options.jobs:
                running.append(Batch(options.seed, *waiting.pop(), folder))
            time.sleep(0.05)
            for batch in list(running):
                how = batch.poll()
                if how is None:
                    continue
                running.remove(batch)
                number, text = batch.last()
                length = number - batch.first + 1
                again = f"python tools/fuzz_api.py --seed {options.seed} --first {batch.first} --calls {length}"
                if how:
                    failures += 1
                    made += length
                    print(f"FAILED call {number} {how}\n  {text}\n  again: {again}\n{batch.tail()}", flush=True)
                    rest = batch.first + batch.count - number - 1
                    if rest > 0:
                        waiting.append((number + 1, rest))
                else:
                    done = json.loads(Path(f"{batch.note}.done").read_text())
                    made += done["made"]
                    if done["made"] < batch.count:
                        counts["processes begun anew"] += 1
                        waiting.append((batch.first + max(done["made"], 1), batch.count - max(done["made"], 1)))
                    counts.update(done["counts"])
                    for found in done["found"]:
                        failures += 1
                        lines = [f"FAILED call {found['call']} {found['kind']}", found["text"], found["detail"]]
                        print("\n  ".join([*lines, "again: " + again]), flush=True)
                if made and options.progress:
                    print(f"-- {made} calls, {failures} failures, {time.monotonic() - began:.0f} s", flush=True)
        for batch in running:
            batch.process.kill()
            batch.process.wait()
    for what, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"  {count:9d} {what}")
    print(f"fuzz_api: {made} calls, {failures} failures, {time.monotonic() - began:.0f} s, seed {options.seed}")
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--most-failures", type=int, default=40, help="stop after so many")
    parser.add_argument("--progress", action="store_true")
    parser.add_argument("--list", action="store_true", help="only say what is called")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--note", default=os.devnull, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return child_main(options) if options.child or options.list else parent_main(options)


if __name__ == "__main__":
    sys.exit(main())
