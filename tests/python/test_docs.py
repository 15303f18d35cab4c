"""The generated pages are what their generators give, and the generators notice a difference."""

import importlib
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

import pygpukit as gp

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

check_docs = importlib.import_module("check_docs")
make_api_docs = importlib.import_module("make_api_docs")
make_performance = importlib.import_module("make_performance")
Limit = make_performance.Limit


@pytest.mark.parametrize("tool", ["make_api_docs", "make_performance"])
def test_committed_page_is_current(tool):
    run = subprocess.run([sys.executable, ROOT / "tools" / f"{tool}.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".benchmark",
        ".core",
        ".core.backend",
        ".core.memory",
        ".errors",
        ".jit",
        ".memory",
        ".random",
        ".scheduler",
        ".testing",
    ],
)
def test_api_page_has_every_public_name(name):
    module = importlib.import_module(f"pygpukit{name}")
    text = (ROOT / "docs/api.md").read_text()
    modules = {"benchmark", "core", "errors", "memory", "ops", "random", "runtime", "scheduler", "testing", "jit"}
    found = [n for n in module.__all__ if any(f"{before}{n}{after}" in text for before in "`." for after in "`(")]
    missing = [n for n in module.__all__ if n not in found and f"### {n}\n" not in text]
    assert sorted(set(missing) - modules - {"__version__"}) == []


def run_main(module, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["tool", *arguments])
    return module.main()


def test_api_check_notices_a_change(tmp_path, monkeypatch, capsys):
    page = tmp_path / "api.md"
    monkeypatch.setattr(make_api_docs, "TARGET", page)
    assert run_main(make_api_docs, monkeypatch, "--check") == 1
    assert run_main(make_api_docs, monkeypatch) == 0
    assert run_main(make_api_docs, monkeypatch, "--check") == 0
    page.write_text(page.read_text().replace("`zeros(shape", "`zeros(size"))
    assert run_main(make_api_docs, monkeypatch, "--check") == 1
    assert "+| `zeros(shape" in capsys.readouterr().out


def test_signatures_are_read():
    reader = make_api_docs.reader
    call = reader.native_call(
        "def f(self, a: int, b: x.Y = \\0, *args, c: object | None = None) -> int", "Text.", (1.5,)
    )
    assert call.shown("f") == "`f(a, b=1.5, *args, c=None) -> int`"
    assert reader.python_call(lambda a, *, b=gp.core.StreamPriority.LOW, **rest: 0).parameters == (
        "a, *, b=StreamPriority.LOW, **rest"
    )
    assert reader.text("A :class:`B`,\n  ``c`` or d | e by __f__.") == "A `B`, `c` or d \\| e by `__f__`."


def limit(name, unit="ratio", sense=">=", value=1.0):
    return Limit(name, unit, sense, value, "gpu", 1)


def write_result(folder, name, figures, date="2030-01-02"):
    folder.mkdir(exist_ok=True)
    text = json.dumps({"device": {"name": "Some GPU"}, "date": date, "figures": figures})
    (folder / name).write_text(text)


def test_performance_page_without_results(tmp_path):
    results = make_performance.read_results(tmp_path)
    assert "Nothing was measured yet" in make_performance.generate(results, [limit("x")])
    assert "Nothing was measured yet" in make_performance.svg(results)


def test_performance_page_shows_what_was_measured(tmp_path):
    write_result(tmp_path, "2030-01-01-gpu.json", {"softmax_f32_vs_torch": {"value": 9.0}})
    figures = {
        "softmax_f32_vs_torch": {"value": 1.25, "us": 100.0, "torch_us": 125.0},
        "ew_add_f32_vs_copy": {"value": 0.5, "us": 10.0, "torch_us": 9.0},
        "cold_compile_s": {"value": 0.1},
        "copy_ceiling_tb_s": {"value": 4.0},
    }
    write_result(tmp_path, "2030-01-02-gpu.json", figures)
    limits = [
        limit("softmax_f32_vs_torch"),
        limit("ew_add_f32_vs_copy", value=0.9),
        limit("cold_compile_s", "s", "<=", 0.15),
        limit("sum_full_f32_vs_read"),
        Limit("make_run_minutes", "min", "<=", 6, "host", 1),
    ]
    results = make_performance.read_results(tmp_path)
    text = make_performance.generate(results, limits)
    assert "| `softmax_f32_vs_torch` | >= 1 | 1.250 | yes | 100.0 | 1.25 |" in text
    assert "| `ew_add_f32_vs_copy` | >= 0.9 | 0.500 | **no** | 10.0 | 0.90 |" in text
    assert "| `cold_compile_s` | <= 0.15 s | 0.100 s | yes | | |" in text
    assert "| `sum_full_f32_vs_read` | >= 1 | not measured | **no** | | |" in text
    assert "make_run_minutes" not in text
    assert "## Some GPU" in text
    assert "copies 4.00 TB/s" in text
    assert "2 of 4 limits hold; measured 2030-01-02" in text
    short = text[text.index("## In short") : text.index("## How")]
    assert text.index("## How") < text.index("## Some GPU")
    assert "**Some GPU**: 2 of 4 limits hold.\n\n| torch's time over ours |" in short
    assert "| softmax and norms | 1 | 1.25 | 1.25 |\n" in short
    assert "\n\nOutside the limit:\n\n" in short
    assert "- `ew_add_f32_vs_copy` 0.500, limit >= 0.9: not known yet.\n" in short
    assert "- Not measured yet: Sums: share of the read ceiling (1).\n" in short
    assert "`softmax" not in short and "cold_compile" not in short
    picture = make_performance.svg(results)
    xml.etree.ElementTree.fromstring(picture)
    assert ">softmax_f32<" in picture
    assert ">1.25<" in picture


def test_performance_picture_shows_products_and_calls_noise_equal(tmp_path):
    figures = {
        "softmax_f32_vs_torch": {"value": 0.996, "us": 100.0, "torch_us": 99.6},
        "mm_bf16_4096_vs_torch": {"value": 1.5, "us": 100.0, "torch_us": 150.0},
        "mm_fp8_4096_vs_torch_fast": {"value": 0.8, "us": 100.0, "torch_us": 80.0},
        "mm_submit_64_bf16_vs_torch": {"value": 0.5, "ours_us": 5.0, "torch_us": 10.0},
        "torch_self_noise": {"value": 0.006},
    }
    write_result(tmp_path, "2030-01-02-gpu.json", figures)
    picture = make_performance.svg(make_performance.read_results(tmp_path))
    root = xml.etree.ElementTree.fromstring(picture)
    assert [name for name in (">softmax_f32<", ">bf16_4096<", ">fp8_4096 (fast)<", ">0.80<") if name not in picture] == []
    assert "submit" not in picture and "within 0.6 %" in picture
    bars = [rect.get("fill") for rect in root.iter("{http://www.w3.org/2000/svg}rect")][4:]
    assert bars == ["#8a8a8a", "#3b6fb6", "#c0504d"]


def test_performance_page_tells_about_matrix_products(tmp_path):
    figures = {
        "mm_bf16_4096_vs_torch": {"value": 1.02, "us": 200.0, "torch_us": 204.0},
        "mm_tf32_4096_vs_torch": {"value": 0.75, "us": 400.0, "torch_us": 300.0},
        "mm_f32_4096_vs_torch": {"value": 0.4, "us": 400.0, "torch_us": 160.0, "goal": 0.9},
        "mm_gemv_int4_min_vs_read": {"value": 0.8, "us": 20.0, "goal": 0.75},
        "mm_submit_64_bf16_vs_torch": {"value": 0.5, "ours_us": 5.0, "torch_us": 10.0},
        "mm_llm_nk_shapes": {
            "value": 2,
            "shapes": {"16x3584x4608": {"vs_torch": 1.25}, "2048x3584x4608": {"vs_torch": 0.875}},
        },
        "mm_gemv_bf16_shapes": {"value": 1, "shapes": {"4096x512": {"us": 5.0, "vs_torch": 1.5, "vs_read": 0.5}}},
    }
    write_result(tmp_path, "2030-01-02-gpu.json", figures)
    limits = [
        limit("mm_bf16_4096_vs_torch", value=0.97),
        limit("mm_tf32_4096_vs_torch", value=0.7),
        limit("mm_submit_64_bf16_vs_torch", sense="<=", value=0.6),
    ]
    results = make_performance.read_results(tmp_path)
    text = make_performance.generate(results, limits)
    assert "### Matrix products" in text and make_performance.NOTES["Matrix products"] in text
    assert "| `mm_bf16_4096_vs_torch` | >= 0.97 | 1.020 | yes | 200.0 | 1.02 |" in text
    assert "| `mm_f32_4096_vs_torch` | 0.400 | 0.9: not yet | 400.0 | 0.40 |" in text
    assert "| `mm_gemv_int4_min_vs_read` | 0.800 | 0.75: reached | 20.0 | |" in text
    assert "| k x n | 16 tokens | 2048 tokens |\n|---|---|---|\n| 3584 x 4608 | 1.25 | 0.88 |" in text
    assert "| 4096 x 512 | 5.0 us, 1.50, 0.50 |" in text
    behind = text[text.index("what stands in the way") :]
    assert "`mm_tf32_4096_vs_torch` 0.750: tensor cores" in behind
    assert "`mm_f32_4096_vs_torch` 0.400: one in ten instructions" in behind
    behind = behind[: behind.index("## How")]
    assert "bf16" not in behind and "int4" not in behind
    assert "Outside the limit: none." in text
    assert not make_performance.charted(results[0])


def test_performance_check_notices_a_change(tmp_path, monkeypatch):
    for name, path in {"RESULTS": "results", "TARGET": "page.md", "PICTURE": "images/page.svg"}.items():
        monkeypatch.setattr(make_performance, name, tmp_path / path)
    monkeypatch.setattr(make_performance, "ROOT", tmp_path)
    assert run_main(make_performance, monkeypatch, "--check") == 1
    assert run_main(make_performance, monkeypatch) == 0
    assert run_main(make_performance, monkeypatch, "--check") == 0
    write_result(tmp_path / "results", "2030-01-02-gpu.json", {"cold_compile_s": {"value": 0.1}})
    assert run_main(make_performance, monkeypatch, "--check") == 1


def test_every_limit_belongs_to_a_group():
    names = [row.name for row in make_performance.read_limits()]
    assert [name for name in names if make_performance.group_of(name) == "Other"] == []


@pytest.mark.parametrize("picture", sorted(path.name for path in (ROOT / "docs/images").glob("*.svg")))
def test_pictures_are_well_formed_and_used(picture):
    text = (ROOT / "docs/images" / picture).read_text()
    assert text.isascii()
    xml.etree.ElementTree.fromstring(text)
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tools/make_performance.py"]
    assert any(f"images/{picture}" in page.read_text() for page in pages)


def test_links_of_the_examples():
    page = ROOT / "examples/README.md"
    assert list(check_docs.check_links(page, page.read_text())) == []


def test_architecture_lists_folders_that_exist():
    text = (ROOT / "docs/architecture.md").read_text()
    listing = text[text.index("gpukit/                  the C++ library") :].split("```", 1)[0]
    found = []
    for line in listing.splitlines()[1:]:
        if line.startswith("python/pygpukit/"):
            found += [ROOT / "python/pygpukit" / name for name in re.findall(r"(\w+)/", line.split("the package:")[1])]
        elif line.startswith("    "):
            found += [ROOT / "gpukit/ops" / name for name in re.findall(r"(\w+)/(?= |$)", line)]
        elif line.startswith("  "):
            found += [ROOT / "gpukit" / name for name in re.findall(r"^  (\w+)/", line)]
        else:
            names = re.findall(r"(?:^| )([.\w]+)/(?= |$)", line)
            inside = ROOT / "tests" if line.startswith("tests/") else ROOT
            found += [inside / name for name in names if name != "tests"]
    assert len(found) > 30
    assert [path for path in found if not path.exists()] == []
    for page in ("architecture.md", "adding-an-op.md"):
        assert "_bench.cpp" not in (ROOT / "docs" / page).read_text()


MARKED = """
<!-- needs models -->
```sh
pygpukit info          # runs
pygpukit cache nothing
```

<!-- needs models -->
```python
import pathlib
assert pathlib.Path("tiny/config.json").exists()
```
"""


def test_blocks_that_need_models_run_beside_them(tmp_path, monkeypatch):
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(MARKED)
    (tmp_path / "Makefile").write_text("")
    monkeypatch.delenv("PYGPUKIT_ASSETS", raising=False)
    assert list(check_docs.check_file(page, gpu=False)) == []
    models = tmp_path / "models"
    (models / "tiny").mkdir(parents=True)
    monkeypatch.setenv("PYGPUKIT_ASSETS", str(models))
    faults = list(check_docs.check_file(page, gpu=False))
    assert "page.md:5: pygpukit cache nothing" in faults[0] and "page.md:10" in faults[1] and len(faults) == 2
    (models / "tiny" / "config.json").write_text("{}")
    assert len(list(check_docs.check_file(page, gpu=False))) == 1
