"""The scripts of tools/: each rule is broken once on purpose."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


layers = load("check_layers")
limits = load("check_limits")
docs = load("check_docs")
api = load("check_api")


def faults(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(layers.check_tree(tmp_path))


BREACHES = [
    ("gpukit/base/a.cpp", '#include "gpukit/driver/api.h"\n', "layer base must not include layer driver"),
    ("gpukit/array/a.h", '#pragma once\n#include "gpukit/ops/norm/norm.h"\n', "layer array must not include layer ops"),
    ("gpukit/io/a.cpp", '#include "gpukit/text/bpe.h"\n', "stand side by side"),
    ("gpukit/attic/a.cpp", '#include "gpukit/base/error.h"\n', "in no known layer"),
    ("gpukit/ops/norm/norm.cpp", "#include <nanobind/nanobind.h>\n", "gpukit/python/ include"),
    ("gpukit/ops/norm/norm.cpp", '#include "gpukit/ops/reduce/reduce.cuh"\n', "another family's"),
    ("gpukit/ops/norm/norm.cuh", '#pragma once\n#include "gpukit/ops/reduce/reduce.cuh"\n', "another family's"),
    ("gpukit/ops/norm/norm.cuh", '#pragma once\n#include "gpukit/ops/norm/norm.h"\n', "kernel sources only"),
    ("gpukit/ops/norm/norm.cuh", "#pragma once\n#include <cstdint>\n", "kernel sources only"),
    ("gpukit/ops/norm/k.cuh", "#pragma once\n#ifdef __CUDACC_RTC__\n#include <cmath>\n#endif\n", "kernel sources"),
    ("gpukit/driver/a.cpp", "#include <cuda.h>\n", "no toolkit header"),
    ("gpukit/base/a.cpp", '#include "error.h"\n', "by their full name"),
    ("gpukit/base/a.cpp", '#include "tests/support/table.h"\n', "only tests include"),
    ("gpukit/base/a.h", "int x;\n", "#pragma once"),
    ("gpukit/base/a.cpp", "// \u00e4\n", "ASCII"),
    ("gpukit/base/a.cpp", "int x; \n", "blank at the end"),
    ("gpukit/base/a.cpp", "\n" * 601, "601 lines"),
]


@pytest.mark.parametrize(("name", "text", "message"), BREACHES)
def test_layers_finds(tmp_path, name, text, message):
    found = faults(tmp_path, name, text)
    assert len(found) == 1
    assert message in found[0]
    assert found[0].startswith(f"{name}:")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpukit/driver/a.cpp", '#include "gpukit/base/error.h"\n#include <vector>\n'),
        ("gpukit/base/a_test.cpp", '#include "tests/support/table.h"\n#include "gpukit/array/array.h"\n'),
        ("gpukit/ops/norm/norm_py.cpp", '#include <nanobind/nanobind.h>\n#include "gpukit/python/bind.h"\n'),
        ("gpukit/ops/norm/norm.cpp", '#include "gpukit/ops/elementwise/copy.h"\n'),
        ("gpukit/ops/norm/norm.cuh", "#pragma once\n#ifndef __CUDACC_RTC__\n#include <cstdint>\n#endif\n"),
        ("gpukit/ops/norm/norm.cuh", "#pragma once\n#ifdef __CUDACC_RTC__\n#else\n#include <cstdint>\n#endif\n"),
    ],
)
def test_layers_accepts(tmp_path, name, text):
    assert faults(tmp_path, name, text) == []


def test_layers_finds_two_bindings_of_one_name(tmp_path):
    faults(tmp_path, "gpukit/array/x_py.cpp", "\n")
    assert "same bind function" in faults(tmp_path, "gpukit/ops/norm/x_py.cpp", "\n")[0]


def test_layers_finds_two_definitions_of_one_name(tmp_path):
    text = "#pragma once\nnamespace gpukit {\nstruct Table {\n};\n}  // namespace gpukit\n"
    faults(tmp_path, "gpukit/ops/audio/a.cuh", text)
    assert faults(tmp_path, "gpukit/ops/audio/b.cuh", text) == []
    both = '#include "gpukit/ops/audio/a.cuh"\n#include "gpukit/ops/audio/b.cuh"\n'
    assert faults(tmp_path, "gpukit/ops/audio/c.cpp", both) == [
        "gpukit/ops/audio/b.cuh:3: gpukit/ops/audio/a.cuh defines gpukit::Table too"
    ]
    assert faults(tmp_path, "gpukit/ops/audio/b.cuh", text.replace("gpukit {", "gpukit::audio {")) == []


def test_the_tree_keeps_its_layers():
    assert list(layers.check_tree(ROOT)) == []


def test_limits_are_well_formed():
    rows = limits.read_limits()
    assert {row.where for row in rows} == {"gpu", "host"}
    assert all(row.limit >= 0 and row.unit for row in rows)


def measured(rows, where="gpu"):
    return {row.name: row.limit for row in rows if row.where == where}


def test_limits_hold_at_the_limit():
    rows = limits.read_limits()
    lines, failures = limits.check(rows, "gpu", measured(rows))
    assert failures == 0
    assert len(lines) == len(measured(rows))


@pytest.mark.parametrize("sense", ["<=", ">="])
def test_limits_fail_beyond(sense):
    rows = limits.read_limits()
    row = next(r for r in rows if r.sense == sense and r.where == "gpu")
    worse = row.limit + 0.01 if sense == "<=" else row.limit - 0.01
    for value in (worse, float("nan"), float("inf") if sense == "<=" else float("-inf")):
        assert limits.check(rows, "gpu", {**measured(rows), row.name: value})[1] == 1


def test_noise_of_the_run_loosens_a_limit_by_one_percent_at_most():
    row = limits.Limit("a_vs_torch", "ratio", ">=", 1.0, "gpu", 1, "noise")
    for noise, value, holds in [(0.0, 0.999, False), (0.004, 0.997, True), (0.004, 0.995, False), (0.3, 0.98, False)]:
        assert row.holds({"a_vs_torch": value, "noise": noise}) == holds
    assert not row.holds({"a_vs_torch": 0.999})


def test_limits_fail_when_not_measured(tmp_path):
    rows = limits.read_limits()
    values = measured(rows)
    missing = next(iter(values))
    del values[missing]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"figures": {name: {"value": value} for name, value in values.items()}}))
    run = subprocess.run([sys.executable, ROOT / "tools/check_limits.py", path], capture_output=True, text=True)
    assert run.returncode == 1
    assert "not measured" in run.stdout


def test_docs_blocks_are_found():
    text = "# A\n```python\nx = 1\n```\n\n<!-- needs gpu -->\n```python\ny = 2\n```\n\n```sh\nmake run\n```\n"
    blocks = list(docs.read_blocks(text))
    found = [(b.info, b.line, b.needs) for b in blocks]
    assert found == [("python", 3, ""), ("python", 8, "gpu"), ("sh", 12, "")]
    assert blocks[0].text == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nraise ValueError('planted')\n```\n", "planted"),
        ("```python no-run\nx = 1\n```\n", "every python block runs"),
        ("[a](missing.md)\n", "no such file"),
        ("[a](#nowhere)\n", "no such heading"),
        ("```sh\nmake nothing-of-the-kind\n```\n", "no target nothing-of-the-kind"),
        ("```sh\nPYGPUKIT_DEVICE=cpu pygpukit nothing\n```\n", "no command nothing"),
    ],
)
def test_docs_finds(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "Makefile").write_text("run:\n")
    path = tmp_path / "README.md"
    path.write_text(text)
    found = list(docs.check_file(path, gpu=False))
    assert len(found) == 1
    assert message in found[0]


def test_docs_blocks_of_a_file_share_a_namespace(tmp_path, monkeypatch):
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    path = tmp_path / "README.md"
    path.write_text("```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n")
    assert list(docs.check_file(path, gpu=False)) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"module": "pygpukit", "name": "no_such_name"}, "missing"),
        ({"module": "pygpukit.no_such_module", "name": "x"}, "no_such_module"),
        ({"module": "pygpukit", "name": "zeros", "keywords": ["shape", "colour"]}, "no keyword colour"),
        ({"module": "pygpukit", "name": "__version__", "keywords": []}, "cannot be called"),
        ({"command": "chat", "flags": ["--model", "--no-such"]}, "no flag --no-such"),
        ({"command": "sing", "flags": []}, "pygpukit sing: missing"),
        ({"environment": "PYGPUKIT_NO_SUCH"}, "named in none"),
    ],
)
def test_api_finds(row, message):
    found = list(api.check_row(row))
    assert len(found) == 1
    assert message in found[0]


def test_api_reads_native_signatures():
    assert api.native_keywords("def f(a: int, b: object | None = \\0, *, out: x.Y = \\1) -> int") == {"a", "b", "out"}
