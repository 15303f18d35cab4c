"""`pygpukit simulate`: the output of a workload is a file of the tree."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pygpukit import runtime
from pygpukit.cli import main

DATA = Path(__file__).resolve().parent.parent / "data"
WORKLOADS = sorted(DATA.glob("simulate_*.json"))


def small(**changes):
    return {
        "devices": [{"name": "gpu", "memory": "1 GiB"}],
        "contexts": [{"name": "c"}],
        "tasks": [{"id": "t", "duration_ms": 2}],
        **changes,
    }


def test_there_are_workloads():
    assert WORKLOADS


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda path: path.stem)
def test_output_equals_the_committed_files(workload, tmp_path, capsysbinary):
    svg = tmp_path / "out.svg"
    assert main(["simulate", str(workload), "--width", "60", "--svg", str(svg)]) == 0
    assert capsysbinary.readouterr().out == workload.with_suffix(".txt").read_bytes()
    assert svg.read_bytes() == workload.with_suffix(".svg").read_bytes()


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda path: path.stem)
def test_the_picture_is_xml(workload):
    picture = ElementTree.fromstring(workload.with_suffix(".svg").read_text())
    assert picture.tag.endswith("svg")
    tasks = json.loads(workload.read_text())["tasks"]
    texts = {element.text for element in picture.iter() if element.tag.endswith("text")}
    assert {t["id"] for t in tasks if "count" not in t} <= texts


def test_json_has_every_task_and_decision(capsys):
    assert main(["simulate", str(WORKLOADS[0]), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {t["outcome"] for t in result["tasks"]} == {"completed", "failed", "rejected"}
    started = [t for t in result["tasks"] if t["started_ms"] is not None]
    decisions = [d for device in result["devices"] for d in device["decisions"]]
    assert sum(d["action"] == "start" for d in decisions) == len(started)
    for device in result["devices"]:
        assert [d["number"] for d in device["decisions"]] == list(range(1, len(device["decisions"]) + 1))


def test_from_python():
    simulation = runtime.simulate(small())
    assert simulation.end_ms == 2.0 and "completed" in simulation.text()
    assert simulation.to_dict() == json.loads(simulation.json())
    assert repr(simulation) == "Simulation(workload, tasks=1, end_ms=2.000)"
    assert runtime.simulate(json.dumps(small())).text() == simulation.text()
    assert len(simulation.text(width=20)) < len(simulation.text(width=60))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": [{"id": "t"}]}, r"tasks\[0\]\.duration_ms must be given"),
        ({"tasks": [{"id": "t", "duration_ms": "long"}]}, r"tasks\[0\]\.duration_ms must be a number"),
        (
            {"tasks": [{"id": "t", "duration_ms": 1, "after": ["u"]}]},
            r"tasks\[0\]\.after\[0\] must be the id of a task",
        ),
        ({"devices": []}, "devices must be a list that is not empty"),
        ({"contexts": [{"name": "c", "device": "x"}]}, r"contexts\[0\]\.device must be the name of a device"),
        ({"speed": 3}, "the file must have only the members .*, got 'speed'"),
    ],
)
def test_errors_name_the_field(changes, message, tmp_path, capsys):
    with pytest.raises(ValueError, match=message):
        runtime.simulate(small(**changes))
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(small(**changes)))
    assert main(["simulate", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("pygpukit: simulate: ") and "Traceback" not in error


def test_files_that_cannot_be_read(tmp_path, capsys):
    assert main(["simulate", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
    path = tmp_path / "bad.json"
    path.write_text("{")
    assert main(["simulate", str(path)]) == 1
    assert "json: " in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe")
    assert main(["simulate", str(path)]) == 1
