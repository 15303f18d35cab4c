"""The sweep over random shapes: its families on the CPU beside float64, and that it finds what is slow or wrong."""

import dataclasses
import importlib.util
import itertools
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.benchmark import sweep
from pygpukit.benchmark.sweep import family as sweep_family
from pygpukit.benchmark.sweep import layers as sweep_layers
from pygpukit.benchmark.sweep import run as sweep_run
from pygpukit.cli import main

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("bench_sweep", ROOT / "bench/sweep.py")
bench_sweep = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench_sweep)
LIMITS = json.loads((ROOT / "bench/sweep_limits.json").read_text())
FLAT = ("max_rows", "argmax_rows")  # results of one axis
FAMILIES = {family.name: family for family in sweep.FAMILIES}


@pytest.fixture(autouse=True)
def cpu():
    with gp.device("cpu"):
        yield


def equal(ours, theirs):
    """As fast as the peer, by a clock that does not tick."""
    return 10.0, 10.0


def run(*families, race=equal, count=sweep.LEAST_CASES, seed=7, **options):
    return sweep.run_sweep(families, seed, count, race=race, **options)


def breaches(outcome):
    return bench_sweep.breaches(sweep.figures(outcome), list(outcome.rows), LIMITS)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_family_is_right(name):
    """Each drawn case by us beside float64, and by the peer, which runs the same call."""

    def race(ours, theirs):
        ours[0](), theirs[0]()
        return 1.0, 1.0

    for seed in (1, 2):
        assert run(FAMILIES[name], race=race, count=4, seed=seed).wrong == []


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_sample_of_a_large_result_is_right(name, monkeypatch):
    """What of a large case is checked belongs together; what is wrong in the last row or column is in it."""
    monkeypatch.setattr(sweep_family, "MOST_CHECKED", 64)
    monkeypatch.setattr(sweep_layers, "_MOST_SCORES", 8)
    monkeypatch.setattr(sweep_layers, "_MOST_IDS", 3)
    assert run(FAMILIES[name], race=lambda ours, theirs: (1.0, 1.0), count=3).wrong == []
    family = FAMILIES[name]
    if family.rows is None or family.check is not None:
        return

    def ours(xs, out, **options):
        found = family.pick(family.ours(xs, None, **options)) + 0
        if found.ndim > 1:
            found[-1, -1] = 77
        return found

    wrong = dataclasses.replace(family, ours=ours, pick=lambda found: found)
    assert len(run(wrong, race=lambda ours, theirs: (1.0, 1.0), count=3).wrong) == (3 if name not in FLAT else 0)


def test_good_families_breach_nothing():
    outcome = run(FAMILIES["softmax"], FAMILIES["cumsum"])
    assert outcome.wrong == [] and breaches(outcome) == []
    assert {row.case for row in outcome.rows["softmax"]} != {outcome.rows["softmax"][0].case}


def test_a_slow_path_is_found():
    """One shape in four takes three times as long: neither mean nor percentile hold."""
    turn = itertools.count()
    outcome = run(FAMILIES["softmax"], race=lambda ours, theirs: (30.0 if next(turn) % 4 == 0 else 10.0, 10.0))
    assert [line.partition(":")[0] for line in breaches(outcome)] == ["sweep_softmax_mean", "sweep_softmax_tenth"]


@pytest.mark.parametrize(
    "plant",
    [
        lambda found: found * 1.001,
        lambda found: gp.where(gp.arange(found.shape[-1]) == found.shape[-1] - 1, 0.0, found),
        lambda found: found * float("nan"),
        lambda found: found[:, :-1],
    ],
)
def test_a_wrong_path_is_found(plant):
    """Wrong where rows are of odd width."""
    softmax = FAMILIES["softmax"]

    def ours(xs, out):
        found = gp.softmax(xs[0])
        return plant(found) if found.shape[-1] % 2 else found

    outcome = run(dataclasses.replace(softmax, ours=ours))
    odd = [row for row in outcome.rows["softmax"] if row.wrong]
    assert 0 < len(odd) < sweep.LEAST_CASES
    assert len(outcome.wrong) == len(odd) and outcome.wrong[0].startswith("softmax: float")


def test_a_call_that_raises_is_a_finding():
    def ours(xs, out):
        raise RuntimeError("no such kernel")

    outcome = run(dataclasses.replace(FAMILIES["softmax"], ours=ours), FAMILIES["take"], count=3)
    assert len(outcome.wrong) == 3 and outcome.wrong[0].endswith("RuntimeError: no such kernel")
    assert len(outcome.rows["take"]) == 3
    assert all(math.isnan(row.us) for row in outcome.rows["softmax"])


def test_too_few_cases_are_a_breach():
    clock = iter(range(10**6))
    outcome = run(FAMILIES["softmax"], FAMILIES["take"], seconds=20, clock=lambda: next(clock))
    assert 0 < len(outcome.rows["softmax"]) < sweep.LEAST_CASES
    assert all("too few cases" in line for line in breaches(outcome)) and len(breaches(outcome)) == 4


def test_a_family_draws_the_same_cases_whichever_others_run():
    alone, beside = run(FAMILIES["take"], count=3), run(FAMILIES["softmax"], FAMILIES["take"], count=3)
    assert [row.case for row in alone.rows["take"]] == [row.case for row in beside.rows["take"]]
    other = run(FAMILIES["take"], count=3, seed=8)
    assert [row.case for row in alone.rows["take"]] != [row.case for row in other.rows["take"]]


def test_mean_and_tenth_percentile():
    rows = [sweep.Row("x", 1.0, float(ratio), 0.0, 1.0) for ratio in (1, 2, 4, 8)]
    found = sweep_run.summary(rows)
    assert found["mean"] == pytest.approx(2**1.5) and found["tenth"] == pytest.approx(1.3) and found["count"] == 4
    assert math.isnan(sweep_run.summary([])["mean"])


@pytest.mark.parametrize(
    ("us", "peer_us", "slow"),
    [(50, 24, True), (50, 26, False), (19, 8, False), (2, 1, True), (2, 1.8, False), (3.4, 2.9, True), (3.3, 2.9, False),
     (math.nan, math.nan, False)],
)  # fmt: skip
def test_slow_shapes_are_counted(us, peer_us, slow):
    row = sweep.Row("x", us, peer_us, 0.0, 1.0)
    assert row.slow == slow
    assert ("slow: 1" in sweep_run._lines("softmax", [row], "torch")[0]) == slow


def test_layouts():
    for layout in ("dense", "shifted", "gaps", "transposed"):
        made = sweep.Input((6, 10), "float32", layout).make(3)
        assert made.shape == (6, 10)
        assert made.is_contiguous() == (layout == "dense")


def test_draws_reach_all_that_they_are_for():
    """Many short rows, few long ones, odd widths, every layout."""
    draw = sweep.Draw(random.Random(1), large=True)
    shapes = [draw.matrix() for _ in range(400)]
    assert any(rows > 10000 and width < 64 for rows, width in shapes)
    assert any(rows < 8 and width > 100000 for rows, width in shapes)
    assert 0.3 < np.mean([width % 2 for _, width in shapes]) < 0.7
    assert max(rows * width for rows, width in shapes) <= 1 << 24
    assert {draw.layout() for _ in range(100)} == {"dense", "shifted", "gaps", "transposed"}


def test_every_family_has_limits():
    assert {limit["name"] for limit in LIMITS} == {f"sweep_{n}_{what}" for n in FAMILIES for what in ("mean", "tenth")}


def test_slices_share_all_families():
    parts = [sweep.find_families(part=f"{i}/3") for i in (1, 2, 3)]
    assert sorted(family.name for part in parts for family in part) == sorted(FAMILIES)


def test_command(capsys, tmp_path):
    path = tmp_path / "sweep.json"
    command = ["bench", "--sweep", "--seed", "3", "--count", "2", "--only", "softmax,take", "--save", str(path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("-- seed 3\nsoftmax ") and "\ntake " in shown and "numpy" in shown
    saved = json.loads(path.read_text())
    assert saved["where"] == "host" and saved["figures"] == {}  # two cases tell nothing
    assert len(saved["sweep"]["softmax"]["cases"]) == 2 and saved["sweep"]["take"]["seed"] == 3
    # The same cases again, by the program of the repository: it says that they are too few for limits.
    assert bench_sweep.main(["--seed", "3", "--count", "2", "--only", "softmax"]) == 1
    assert "sweep_softmax_mean: too few cases to tell" in capsys.readouterr().out


def test_command_fails_on_a_wrong_result(capsys, monkeypatch):
    wrong = dataclasses.replace(FAMILIES["softmax"], ours=lambda xs, out: gp.softmax(xs[0]) * 2.0)
    monkeypatch.setattr("pygpukit.benchmark.sweep.families.FAMILIES", [wrong])
    assert main(["bench", "--sweep", "--seed", "3", "--count", "1"]) == 1
    assert "pygpukit bench: wrong result: softmax: float" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sweep", "--only", "nothing"],
        ["--sweep", "--slice", "0/3"],
        ["--sweep", "--slice", "4/3"],
        ["--seed", "1"],
        ["--gemm", "--only", "softmax"],
    ],
)
def test_command_refuses(arguments, capsys):
    assert main(["bench", *arguments]) == 2
    assert "pygpukit bench: " in capsys.readouterr().err
