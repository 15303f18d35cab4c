"""Tests and measurements on a GPU end within their time, by clocks that only move when work says so."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def limit(self, seconds):
        """What takes longer than it may is stopped."""
        return self._limited(seconds)

    @contextlib.contextmanager
    def _limited(self, seconds):
        until = self.now + seconds
        yield
        if self.now > until:
            self.now = until
            raise report.OutOfTime


@pytest.fixture
def clock():
    return Clock()


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "bench"))
    patch.syspath_prepend(str(ROOT / "tools"))
    report = importlib.import_module("report")
    gpu_test = importlib.import_module("gpu_test")
    patch.delitem(sys.modules, "measure", raising=False)
    spec = importlib.util.spec_from_file_location("tools_measure", ROOT / "tools/measure.py")
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)


@pytest.fixture
def results(tmp_path):
    return report.Report(tmp_path / "2026-11-20-gpu.json", {"name": "GPU"})


def group(clock, results, seconds, name=None, fault=None):
    def run():
        if name:
            results.add(name, 1.0)
        clock.now += seconds
        if fault:
            raise fault

    return run


def run_groups(results, clock, groups, seconds, **options):
    return report.run_groups(results, groups, seconds, clock=clock, limit=clock.limit, **options)


def test_a_group_that_does_not_fit_is_left_out_by_name(clock, results, capsys):
    groups = {name: group(clock, results, s, f"{name}_us") for name, s in (("a", 60), ("b", 30), ("c", 5))}
    assert run_groups(results, clock, groups, 1000) == 0
    begin = clock.now
    assert run_groups(results, clock, groups, 80) == 0  # b took 30 s, 20 are left: c fits
    assert clock.now - begin == 65
    assert "-- b: left out, 20 s were left" in capsys.readouterr().out
    assert results.took("b") == 30 and results.data["groups"]["c"]["figures"] == ["c_us"]


def test_the_first_group_is_begun_however_long_it_took_before(clock, results):
    run_groups(results, clock, {"a": group(clock, results, 300)}, 1000)
    begin = clock.now
    run_groups(results, clock, {"a": group(clock, results, 300)}, 100)
    assert clock.now - begin == 100
    assert results.data["groups"]["a"]["fault"] == "stopped after 100 s: out of time"


def test_what_fails_costs_its_own_figures_alone(clock, results):
    def guarded():
        results.data.setdefault("faults", {})["x of torch"] = "no kernel"

    groups = {
        "a": group(clock, results, 1, "a_us", ValueError("no such product")),
        "b": group(clock, results, 1, "b_us", SystemExit("the tokens are wrong")),
        "c": guarded,
    }
    tidied = []
    assert run_groups(results, clock, groups, 10, tidy=lambda: tidied.append(1)) == 0
    assert len(tidied) == 3
    saved = json.loads(results.path.read_text())["groups"]
    assert saved["a"]["fault"] == "ValueError: no such product" and saved["a"]["figures"] == ["a_us"]
    assert saved["b"]["fault"] == "SystemExit: the tokens are wrong"
    assert "fault" not in saved["c"] and saved["c"]["faults"] == ["x of torch"]
    # Measured again it forgets what it had.
    run_groups(results, clock, {"a": group(clock, results, 1, "other_us"), "c": lambda: None}, 10)
    assert set(results.data["figures"]) == {"b_us", "other_us"} and results.data["faults"] == {}


def test_a_figure_of_an_earlier_day_becomes_that_of_its_group(clock, results):
    results.data["figures"] = {"a_us": {"value": 7.0, "date": "2026-11-01"}, "other": {"value": 8.0, "date": "2026-11-01"}}
    run_groups(results, clock, {"a": group(clock, results, 1, "a_us")}, 10)
    assert results.data["groups"]["a"]["figures"] == ["a_us"] and results.data["figures"]["a_us"] == {"value": 1.0}
    assert "date" in results.data["figures"]["other"]


def test_a_lost_device_ends_the_process(clock, results):
    groups = {"a": group(clock, results, 1, fault=RuntimeError("illegal address")), "b": group(clock, results, 1)}
    assert run_groups(results, clock, groups, 10, alive=lambda: False) == report.DEVICE_LOST
    assert "b" not in results.data["groups"]


def test_a_real_clock_stops_what_is_too_long():
    begin = time.monotonic()
    with pytest.raises(report.OutOfTime):
        with report.stopped_after(0.05):
            with contextlib.suppress(Exception):
                time.sleep(30)
    assert time.monotonic() - begin < 10
    with report.stopped_after(report.FOREVER):
        pass


def test_a_file_keeps_what_others_measured(clock, results):
    results.add("x", 1.0)
    results.data["sweep"] = {"softmax": {}}
    results.save()
    again = report.Report(results.path, {"name": "GPU"})
    assert again.data["figures"] == {"x": {"value": 1.0}} and "softmax" in again.data["sweep"]


class Machine:
    """Stands for bench/measure.py in processes of its own: groups take their time, and one may end the program."""

    def __init__(self, clock, seconds, deadly=()):
        self.clock, self.seconds, self.deadly = clock, seconds, deadly
        self.groups, self.batches = {}, []

    def start(self, batch, room):
        self.batches.append(list(batch))
        until = self.clock.now + room
        for name in batch:
            if self.clock.now + self.seconds[name] > until:
                continue
            self.clock.now += self.seconds[name]
            self.groups[name] = {"at": f"{self.clock.now:09.1f}"}
            if name in self.deadly:
                return -11
        return 0

    def run(self, names, seconds, apart=""):
        names = measure.in_turn(names, self.groups)
        until = self.clock.now + seconds
        return measure.measure(names, lambda: dict(self.groups), self.start, until, apart, self.clock)


def test_slices_measure_what_was_longest_ago_first(clock):
    names = [f"g{i}" for i in range(10)]
    machine = Machine(clock, dict.fromkeys(names, 30))
    assert machine.run(names, 120) == names[4:]
    assert machine.run(names, 120) == [*names[8:], *names[:4]]
    assert machine.run(names, 60) == names[:8]
    assert len(machine.groups) == 10


def test_a_process_that_ends_costs_one_group(clock):
    names = ["a", "b", "c", "d"]
    machine = Machine(clock, dict.fromkeys(names, 10), deadly=("b",))
    assert machine.run(names, 100) == []
    assert machine.batches == [["a", "b", "c", "d"], ["c", "d"]]


def test_a_group_with_an_environment_of_its_own_has_a_process(clock):
    machine = Machine(clock, dict.fromkeys("abcd", 10))
    assert machine.run(list("abcd"), 100, apart="c") == []
    assert machine.batches == [["a", "b"], ["c"], ["d"]]


def test_a_program_that_cannot_begin_is_not_started_for_ever(clock):
    started = []
    left = measure.measure(["a", "b"], dict, lambda batch, room: started.append(1) or 1, clock.now + 100, "", clock)
    assert left == ["a", "b"] and len(started) == 1


def test_a_new_day_begins_with_dated_figures(tmp_path):
    old = {
        "device": {"name": "GPU"}, "date": "2026-11-01", "groups": {"a": {"at": "x", "figures": ["new"]}},
        "figures": {"older": {"value": 1, "date": "2026-10-01"}, "new": {"value": 2}},
    }  # fmt: skip
    (tmp_path / "2026-11-01-gpu.json").write_text(json.dumps(old))
    (tmp_path / "2026-11-02-host.json").write_text(json.dumps({"device": {}, "where": "host", "figures": {}}))
    out = tmp_path / "2026-11-20-gpu.json"
    measure.begin_file(out, "other GPU")
    assert not out.exists()
    measure.begin_file(out, "GPU")
    data = json.loads(out.read_text())
    assert {name: figure["date"] for name, figure in data["figures"].items()} == {
        "older": "2026-10-01", "new": "2026-11-01",
    }  # fmt: skip
    assert data["groups"] == old["groups"]


def test_the_closing_lines_name_all_that_is_not_well():
    limit = next(x for x in measure.read_limits() if x.sense == ">=" and x.where == "gpu")
    data = {
        "figures": {limit.name: {"value": limit.limit / 2}, "free": {"value": 1}},
        "groups": {"a": {"figures": [limit.name, "free"]}, "b": {"figures": [], "fault": "ValueError: x"}},
    }
    lines, good = measure.closing_lines(data, ["a", "b"], ["c", "d"])
    assert not good
    assert lines[0] == "failed: b: ValueError: x" and lines[1].startswith(f"outside: {limit.name}")
    assert lines[2:] == ["left out, no time: c, d", "2 groups, 2 figures, 0 of 1 limits hold"]
    data["figures"][limit.name]["value"] = limit.limit
    assert measure.closing_lines(data, ["a"], []) == (["1 groups, 2 figures, 1 of 1 limits hold"], True)


@pytest.mark.parametrize("speed", [0.0, 0.2, 1.0])
def test_all_commands_end_in_25_minutes(clock, speed):
    """Each takes that share of the time it is given."""
    begin, given = clock.now, []

    def start(target, variables, seconds):
        assert float(variables["SECONDS"]) < seconds <= 480
        given.append((target, variables["PART"], seconds))
        clock.now += speed * seconds
        return 0

    assert gpu_test.run_steps(start, "7", clock) == []
    assert clock.now - begin <= 25 * 60
    parts = {target: [part for t, part, _ in given if t == target] for target, _, _ in given}
    assert parts == {"gpu-build": ["1/1"], "gpu-cpp": ["1/1"], "gpu-pytest": ["1/2", "2/2"],
                     "gpu-bench": ["1/3", "2/3", "3/3"]}  # fmt: skip
    assert min(seconds for target, _, seconds in given if target == "gpu-bench") >= 160


def test_a_command_that_fails_is_named_and_the_others_run(clock):
    failed = gpu_test.run_steps(lambda target, variables, seconds: int(variables["PART"] == "1/2"), "7", clock)
    assert failed == ["gpu-pytest PART=1/2: status 1"]
    assert gpu_test.run_steps(lambda *given: 2, "7", clock) == ["gpu-build PART=1/1: status 2"]


def test_a_command_that_is_too_long_is_ended_with_all_it_started(monkeypatch, tmp_path):
    made = tmp_path / "Makefile"
    made.write_text("quick:\n\t@exit 0\nslow:\n\t@sleep 60; touch done\n")
    monkeypatch.setattr(gpu_test, "ROOT", tmp_path)
    assert gpu_test.start("quick", {"PART": "1/1"}, 30) == 0
    begin = time.monotonic()
    assert gpu_test.start("slow", {}, 0.5) == 124
    assert time.monotonic() - begin < 20 and not (tmp_path / "done").exists()


def test_parts_share_everything():
    found = [measure.part_of(range(11), f"{i}/3") for i in (1, 2, 3)]
    assert sorted(x for part in found for x in part) == list(range(11))
    for wrong in ("0/3", "4/3", "3", "a/b", ""):
        with pytest.raises(SystemExit, match="wanted I/N"):
            measure.part_of([1], wrong)


def test_tests_that_were_not_done_are_named(tmp_path):
    for name, seconds in (("test_quick.py", 0), ("test_slow.py", 60)):
        (tmp_path / name).write_text(f"import time\ndef test_it():\n    time.sleep({seconds})\n")
    command = [sys.executable, ROOT / "tools/run_tests.py", "--jobs", "2", "--seconds", "15", "-pno:cacheprovider"]
    done = subprocess.run([*command, *sorted(tmp_path.glob("*.py"))], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not done, no time: test_slow.py" in done.stdout and "1 passed, 1 failed, 0 skipped" in done.stdout


def test_figures_of_before_are_not_those_of_this_run(tmp_path):
    for name, written in (("2026-01-01-a-host", 30), ("2026-01-02-gpu", 10), ("2026-01-01-gpu", 20)):
        path = tmp_path / f"{name}.json"
        path.write_text("{}")
        os.utime(path, (written, written))
    assert gpu_test.result_since(20, tmp_path) == tmp_path / "2026-01-01-gpu.json"
    assert gpu_test.result_since(25, tmp_path) is None
