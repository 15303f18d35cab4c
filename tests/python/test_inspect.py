"""Snapshot, events, Prometheus text, trace, NVTX and `pygpukit top`."""

import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import runtime
from pygpukit.cli import main


@pytest.fixture
def controller():
    made = runtime.MultiLLMController()
    made.initialize(0, 1 << 28, 1 << 27)
    yield made
    made.reset()


@pytest.fixture
def tracing():
    runtime.trace_start()
    yield
    if runtime.trace_status()["running"]:
        runtime.trace_stop()


@pytest.fixture
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    yield tmp_path
    runtime.stop_publishing()


def named(items, key, value):
    return [item for item in items if item[key] == value]


# Snapshot


def test_snapshot_is_json_of_plain_objects(device):
    x = gp.ones(1000) + 1
    snapshot = runtime.snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert set(json.loads(runtime.snapshot_json())) == set(snapshot)
    assert snapshot["process_id"] == os.getpid() and snapshot["version"] == gp.__version__
    assert abs(snapshot["time_s"] - time.time()) < 60
    assert named(snapshot["devices"], "device", str(gp.device(device)))
    pool = named(snapshot["pools"], "device", str(gp.device(device)))[0]
    assert pool["live_bytes"] >= x.nbytes
    assert isinstance(snapshot["environment"]["nvtx"]["available"], bool)


def test_snapshot_shows_contexts_partitions_and_schedulers(controller):
    context = controller.create_context("snapshot model", max_vram=1 << 20)
    manager = runtime.PartitionManager(runtime.PartitionConfig(total_memory=1 << 30))
    manager.create_partition("snapshot part", "Part", runtime.PartitionLimits().memory(1 << 20).compute(0.5))
    scheduler = runtime.Scheduler(total_memory=1000)
    scheduler.submit(runtime.TaskMeta("t", "T", 10))
    snapshot = runtime.snapshot()
    seen = named(snapshot["contexts"], "id", "snapshot model")[0]
    assert seen["quota_bytes"] == 1 << 20 and seen["qos"] == "Burstable"
    part = named(snapshot["partitions"], "id", "snapshot part")[0]
    assert part["asked"] == {"memory_bytes": 1 << 20, "compute": 0.5, "bandwidth": 1.0, "max_streams": 16}
    assert part["obtained"]["enforced"] is False
    assert snapshot["schedulers"][-1]["pending"] == 1 and snapshot["schedulers"][-1]["total_bytes"] == 1000
    del scheduler, manager, context


def test_objects_leave_the_snapshot_when_they_go():
    before = len(runtime.snapshot()["schedulers"])
    scheduler = runtime.Scheduler()
    assert len(runtime.snapshot()["schedulers"]) == before + 1
    del scheduler
    assert len(runtime.snapshot()["schedulers"]) == before


def test_snapshot_under_threads(controller):
    stop = threading.Event()
    errors = []

    def work():
        try:
            while not stop.is_set():
                scheduler = runtime.Scheduler(total_memory=100)
                scheduler.submit(runtime.TaskMeta("a", "A", 1))
                gp.ones(100).to_numpy()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        json.dumps(runtime.snapshot())
        runtime.prometheus_text()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


# Events


def test_events_are_numbered_json_lines(controller):
    before = runtime.snapshot()["events"]["count"]
    controller.create_context("event model", max_vram=4096)
    controller.destroy_context("event model")
    events = runtime.events(after=before)
    assert [(e["source"], e["action"], e["subject"]) for e in events] == [
        ("context", "create", "event model"),
        ("context", "destroy", "event model"),
    ]
    assert [e["number"] for e in events] == [before + 1, before + 2]
    assert events == [json.loads(line) for line in runtime.events_json(after=before).splitlines()]
    assert runtime.events(after=before, limit=1) == events[:1]


def test_evictions_and_refusals_are_events():
    before = runtime.snapshot()["events"]["count"]
    pool = runtime.MemoryPool(quota=1 << 20, enable_eviction=True)
    blocks = [pool.allocate(1 << 18) for _ in range(6)]
    with pytest.raises(MemoryError):
        pool.allocate(1 << 22)
    pool.restore(blocks[0])
    actions = [e["action"] for e in runtime.events(after=before) if e["source"] == "memory"]
    assert actions.count("evict") >= 2 and "refuse" in actions and "restore" in actions
    pool.clear()


def test_decisions_of_every_scheduler():
    scheduler = runtime.Scheduler(total_memory=100)
    scheduler.submit(runtime.TaskMeta("decided", "D", 1))
    scheduler.start_task("decided")
    lines = [json.loads(line) for line in runtime.decisions_json().splitlines()]
    mine = [line for line in lines if line["subject"] == "decided"]
    assert mine and all(line["log"].startswith("scheduler ") for line in mine)


# Prometheus

SAMPLE = re.compile(
    r'^(pygpukit_[a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (-?[0-9.e+-]+)$'
)


def test_prometheus_lines(controller):
    controller.create_context('odd "name" \\ \n', max_vram=4096)
    seen, current, kinds = set(), None, {}
    for line in runtime.prometheus_text().splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in kinds
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind == ("counter" if name.endswith("_total") else "gauge")
            kinds[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match and match[1] == current and current in kinds, line
            assert (match[1], match[2]) not in seen
            seen.add((match[1], match[2]))
            float(match[3])
    assert any(name == "pygpukit_context_memory_quota_bytes" for name, _ in seen)


def test_prometheus_client_reads_it(controller):
    parser = pytest.importorskip("prometheus_client.parser")
    odd = 'odd "name" \\ \n'
    controller.create_context(odd, max_vram=4096)
    families = {f.name: f for f in parser.text_string_to_metric_families(runtime.prometheus_text())}
    quotas = families["pygpukit_context_memory_quota_bytes"].samples
    assert [s.value for s in quotas if s.labels["context"] == odd] == [4096]
    assert families["pygpukit_pool_allocations"].type == "counter"


# Trace


def check_trace(text):
    """The rules of the format; gives the complete events with the names of their processes."""
    trace = json.loads(text)
    processes, threads, rows, starts, ends = {}, set(), {}, {}, {}
    for event in trace["traceEvents"]:
        where = (event["pid"], event["tid"])
        if event["ph"] == "M":
            if event["name"] == "process_name":
                processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                threads.add(where)
        elif event["ph"] == "X":
            rows.setdefault(where, []).append(event)
        else:
            assert event["ph"] in "sf"
            (starts if event["ph"] == "s" else ends)[event["id"]] = event
    for where, events in rows.items():
        assert where[0] in processes and where in threads
        end = 0.0
        for event in events:
            assert event["ts"] + 1e-6 >= end and event["dur"] >= 0, event
            end = event["ts"] + event["dur"]
    assert starts.keys() == ends.keys()
    assert all(starts[i]["ts"] <= ends[i]["ts"] for i in starts)
    return [(processes[where[0]], event) for where, events in rows.items() for event in events]


def is_of(event, op):
    """The kernels of the GPU have the names of their templates, e.g. map_flat<Add, float, ...>."""
    return op in event["name"].lower()


def test_trace_of_work_in_contexts(device, controller, tracing, tmp_path):
    context = controller.create_context("traced", max_vram=1 << 24)
    x = gp.ones(1 << 16)
    y = x + x
    gp.synchronize()
    with controller.context_session("traced"):
        z = gp.exp(gp.ones(100))
        z.to_numpy()
    runtime.trace_stop()
    path = tmp_path / "trace.json"
    runtime.trace_save(path)
    events = check_trace(path.read_text())
    assert path.read_text() == runtime.trace_json()
    name = str(gp.device(device))
    assert any(process == f"{name} default session" and is_of(e, "add") for process, e in events)
    assert any(process == f"{name} context 'traced'" and is_of(e, "exp") for process, e in events)
    assert any(e["cat"] == "copy to host" and e["args"]["bytes"] == 400 for _, e in events)
    assert any(
        process == "host threads" and e["name"].startswith("submit ") and is_of(e, "add") for process, e in events
    )
    np.testing.assert_array_equal(y.to_numpy(), np.full(1 << 16, 2, np.float32))
    del context


def test_trace_of_tasks(tracing):
    scheduler = gp.scheduler.Scheduler()
    ran = []
    for i in range(3):
        scheduler.submit(lambda i=i: ran.append(i))
    scheduler.submit(lambda: 1 / 0)
    for _ in range(5):
        scheduler.step()
    runtime.trace_stop()
    events = [e for process, e in check_trace(runtime.trace_json()) if e["cat"] == "task"]
    assert len(events) == 4 and ran == [0, 1, 2]
    assert sorted(e["args"]["state"] for e in events) == ["Completed"] * 3 + ["Failed"]
    assert any("ZeroDivisionError" in e["args"].get("error", "") for e in events)


def test_trace_under_threads(tracing):
    def work():
        stream = gp.Stream()
        with stream:
            for _ in range(50):
                gp.ones(10) + 1
        stream.synchronize()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.trace_stop()
    events = check_trace(runtime.trace_json())
    assert sum(process != "host threads" and is_of(e, "add") for process, e in events) == 200


def test_trace_starts_and_stops_once():
    with pytest.raises(gp.errors.Error, match="no trace runs"):
        runtime.trace_stop()
    runtime.trace_start(capacity=2)
    with pytest.raises(gp.errors.Error, match="runs already"):
        runtime.trace_start()
    for _ in range(5):
        gp.ones(3)
    runtime.trace_stop()
    status = runtime.trace_status()
    assert status["running"] is False and status["launches"] == 2 and status["dropped"] >= 3
    assert runtime.snapshot()["streams"][0]["controlled"] is False
    with pytest.raises(ValueError, match="capacity"):
        runtime.trace_start(capacity=0)
    with pytest.raises(ValueError, match="timeout"):
        runtime.trace_stop(timeout=-1)
    with pytest.raises(OSError, match="no_such_folder"):
        runtime.trace_save("no_such_folder/trace.json")


def test_nvtx_is_optional():
    available = runtime.snapshot()["environment"]["nvtx"]["available"]
    assert runtime.nvtx_start() is available
    gp.ones(3) + 1
    runtime.nvtx_stop()
    assert runtime.snapshot()["environment"]["nvtx"]["running"] is False


# Publishing and top


def test_publish_to_a_path_is_refreshed(tmp_path):
    path = tmp_path / "state.json"
    assert runtime.publish_snapshot(path, interval_s=0.02) == str(path)
    first = json.loads(path.read_text())["time_s"]
    for _ in range(500):
        if json.loads(path.read_text())["time_s"] > first:
            break
        time.sleep(0.01)
    else:
        pytest.fail("the file was not written again")
    runtime.stop_publishing()
    assert path.exists() and list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="interval_s"):
        runtime.publish_snapshot(path, interval_s=0)


def test_top_finds_what_is_published(cache_home, capsys):
    path = runtime.publish_snapshot(interval_s=0.1)
    assert path.startswith(str(cache_home)) and path.endswith(f"{os.getpid()}.json")
    assert [p["process_id"] for p in runtime.published_snapshots()] == [os.getpid()]
    gp.ones(3)
    assert main(["top", "--once"]) == 0
    out = capsys.readouterr().out
    assert f"process {os.getpid()}" in out and "Devices" in out and "\x1b" not in out
    assert main(["top", "--once", "--json", "--pid", str(os.getpid())]) == 0
    assert json.loads(capsys.readouterr().out)["process_id"] == os.getpid()
    assert main(["top", "--once", "--pid", "1"]) == 1
    assert "publish" in capsys.readouterr().err
    runtime.stop_publishing()
    assert not os.path.exists(path) and runtime.published_snapshots() == []
    assert main(["top", "--once"]) == 1
    assert "publish_snapshot" in capsys.readouterr().err


def test_top_of_a_file(tmp_path, capsys, controller):
    controller.create_context("shown", max_vram=1 << 20)
    path = tmp_path / "s.json"
    path.write_text(runtime.snapshot_json())
    assert main(["top", "--once", "--file", str(path)]) == 0
    out = capsys.readouterr().out
    assert "Contexts" in out and "shown" in out and "1.0 MiB" in out
    assert main(["top", "--once", "--file", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
    path.write_text("{}")
    assert main(["top", "--once", "--file", str(path)]) == 1
    assert "no snapshot" in capsys.readouterr().err


def test_top_repeats_until_interrupted(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(runtime.snapshot_json())
    command = [sys.executable, "-m", "pygpukit", "top", "--file", str(path), "--interval", "0.05", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.terminate()
    assert all(json.loads(line)["process_id"] == os.getpid() for line in lines)


def test_the_published_file_goes_with_the_process(tmp_path):
    code = "from pygpukit import runtime; print(runtime.publish_snapshot(interval_s=0.05))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path)) and not os.path.exists(done.stdout.strip())


@pytest.mark.parametrize("command", ["top", "simulate"])
def test_help_says_what_is_needed(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0 and ("publish_snapshot" in out if command == "top" else '"tasks"' in out)


@pytest.mark.parametrize("wrong", [["top", "--interval", "0"], ["top", "--file", "a", "--pid", "1"], ["simulate"]])
def test_wrong_usage(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2
