"""Language models in the benchmark suite and in bench/, on the CPU with a tiny shape."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from llm_golden import read

import pygpukit as gp
from pygpukit.benchmark import (
    BenchmarkReport,
    BenchmarkSuite,
    LanguageDecodeBenchmark,
    LanguageModel,
    LanguagePrefillBenchmark,
)
from pygpukit.benchmark.language import SHAPES, host_us_between_steps
from pygpukit.benchmark.language_peers import StepTimer
from pygpukit.benchmark.timing import Effort, HostTimer
from pygpukit.cli import main
from pygpukit.llm import CausalTransformerModel, TransformerConfig

ROOT = Path(__file__).resolve().parents[2]
FEW = Effort(1, 3)


@pytest.fixture
def cpu():
    with gp.device("cpu"):
        yield


@pytest.mark.parametrize("name", ["gpt2", "qwen2-window", "qwen3", "qwen3_moe", "mixtral", "llama4-top2"])
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_random_models_of_every_family(device, name, quantize):
    config = TransformerConfig.from_json(json.dumps(read(name)["config"]))
    models = [CausalTransformerModel.random(config, quantize=quantize, seed=seed) for seed in (1, 1, 2)]
    logits = [m.get_logits(m([1, 2, 3])[0]).to_numpy() for m in models]
    assert logits[0].tobytes() == logits[1].tobytes() != logits[2].tobytes()
    assert 0.05 < logits[0].std() < 20
    plain = CausalTransformerModel.random(config)
    assert (models[0].weight_bytes < plain.weight_bytes) == (quantize is not None)
    assert models[0].generate([1, 2], 4, temperature=0.0) == models[1].generate([1, 2], 4, temperature=0.0)


def test_random_models_are_checked(device):
    config = TransformerConfig.from_json(json.dumps(SHAPES["tiny"]))
    assert CausalTransformerModel.random(config, "bfloat16").dtype == gp.bfloat16
    with pytest.raises(TypeError, match="dtype must be float16"):
        CausalTransformerModel.random(config, "int32")
    with pytest.raises(ValueError, match="quantize must be"):
        CausalTransformerModel.random(config, quantize="int16")
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    other = TransformerConfig.from_json(json.dumps({**SHAPES["tiny"], "quantization_config": fp8}))
    with pytest.raises(gp.errors.UnsupportedError, match="quantize"):
        CausalTransformerModel.random(other)


def test_known_shapes_are_whole():
    for name, shape in SHAPES.items():
        config = TransformerConfig.from_json(json.dumps(shape))
        assert config.num_layers == shape["num_hidden_layers"], name
    assert TransformerConfig.from_json(json.dumps(SHAPES["qwen3-30b-a3b"])).is_moe


def test_decoding_and_prompts(cpu, tmp_path):
    model = LanguageModel("tiny")
    result = LanguageDecodeBenchmark(model, 3, 10, room=8).run(FEW)
    assert result.correct and result.name == "decode_tiny_b3_c10" and result.params["batch"] == 3
    assert result.params["tokens_per_second"] == pytest.approx(3e6 / result.median_us)
    assert result.share_of_ceiling > 0 and "sum" in result.ceiling
    cache = 2 * 5 * 4 * 8 * 4
    assert LanguageDecodeBenchmark(model, 3, 10).read_bytes() == model.model.weight_bytes + 3 * 10 * cache
    read = LanguagePrefillBenchmark(model, 20).run(FEW)
    assert read.correct and read.params["tokens_per_second"] == pytest.approx(20e6 / read.median_us)
    (tmp_path / "config.json").write_text(json.dumps(read_config := SHAPES["tiny"]))
    assert LanguageModel(str(tmp_path)).config == read_config == LanguageModel(str(tmp_path / "config.json")).config
    experts = LanguageModel(str(write_config(tmp_path / "experts", read_golden_config("mixtral"))))
    assert LanguageDecodeBenchmark(experts, 2, 5).read_bytes() is None and LanguageDecodeBenchmark(experts, 2, 5, room=4).run(FEW).correct
    assert LanguageModel("tiny", quantize="int8").model.weight_bytes < model.model.weight_bytes
    assert "512 positions" in LanguageDecodeBenchmark(model, 1, 500).obstacle() and "512" in LanguagePrefillBenchmark(model, 512).obstacle()
    for make, message in (
        (lambda: LanguageModel("huge"), "qwen2.5-7b"),
        (lambda: LanguageModel("tiny", quantize="int3"), "quantize: got 'int3'"),
        (lambda: LanguageDecodeBenchmark(model, 0), "batch: got 0"),
        (lambda: LanguagePrefillBenchmark(model, 0), "tokens: got 0"),
    ):
        with pytest.raises(gp.ArgumentError, match=message):
            make()


def read_golden_config(name):
    return read(name)["config"]


def write_config(folder, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_steps_begin_anew_when_there_is_no_room():
    calls = []
    timer = StepTimer(lambda: calls.append("step"), lambda: calls.append("restart"), 3)
    assert timer.pass_us(4) >= 0
    assert calls == ["restart", "step", "step", "step", "restart", "step"]


class StandIn:
    """Transformers, without it."""

    def decoders(self, batch, context):
        assert batch == 1

        def broken():
            raise RuntimeError("no compiler")

        return {"transformers": lambda: HostTimer([lambda: None], lambda: None), "compiled": broken}

    def readers(self, prompt):
        return {"transformers": lambda: HostTimer([lambda: None], lambda: None)}


def test_peers_and_what_they_cannot_do(cpu, monkeypatch):
    model = LanguageModel("tiny")
    torch = SimpleNamespace(name="torch")
    model.peer = StandIn()
    result = LanguageDecodeBenchmark(model, 1, 5, room=8).run(FEW, [torch])
    assert result.peers["transformers"].ratio < 1 and "no compiler" in result.peer_faults["compiled"]
    assert LanguagePrefillBenchmark(model, 5).run(FEW, [torch]).peers.keys() == {"transformers"}
    assert LanguageDecodeBenchmark(model, 1, 5, room=8).run(FEW).peers == {}
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    absent = LanguageDecodeBenchmark(LanguageModel("tiny"), 1, 5, room=8).run(FEW, [torch])
    assert "transformers" in absent.peer_faults["transformers"] and absent.correct


def test_the_command(cpu, tmp_path, capsys):
    saved = tmp_path / "llm.json"
    options = ["--batch-sizes", "1,2", "--contexts", "8", "--prompts", "16", "--quantize", "int8"]
    assert main(["bench", "--llm", "tiny", *options, "--warmup", "1", "--iterations", "3", "--save", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert "decode_tiny_int8_b2_c8" in shown and "tokens/s" in shown and "gemm" not in shown
    names = [result.name for result in BenchmarkReport.load(saved).results]
    assert names == ["decode_tiny_int8_b1_c8", "decode_tiny_int8_b2_c8", "prefill_tiny_int8_16"]
    assert main(["bench", "--gemm", "--prompts", "4"]) == 2
    assert "--llm" in capsys.readouterr().err
    assert main(["bench", "--llm", "no-such-shape"]) == 1
    assert "no-such-shape" in capsys.readouterr().err
    assert [case.name for case in BenchmarkSuite().add_llm().benchmarks] == [
        "decode_tiny_b1_c64", "decode_tiny_b4_c64", "prefill_tiny_64",
    ]  # fmt: skip


@pytest.fixture
def measure(cpu, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    program, llm = importlib.import_module("measure"), importlib.import_module("measure_llm")
    experts = write_config(tmp_path / "experts", read_golden_config("qwen3_moe"))
    changes = {"DENSE": "tiny", "EXPERTS": str(experts), "CONTEXT": 8, "LONG_CONTEXT": 32, "PROMPTS": (4, 8, 16), "STEPS": 20}
    for name, value in {**changes, "EFFORT": {"warmup": 1, "iterations": 3}}.items():
        monkeypatch.setattr(llm, name, value)
    report = program.Report(tmp_path / "result.json", {"name": "CPU"})
    assert llm.GROUPS.items() <= program.GROUPS.items()
    return llm, report


def test_every_limit_of_a_language_model_is_measured(measure, monkeypatch):
    llm, report = measure

    class Both(StandIn):
        def decoders(self, batch, context):
            timer = HostTimer([lambda: None], lambda: None)
            return {"transformers": lambda: timer, "compiled": lambda: timer}

    from pygpukit.benchmark import language, peers

    monkeypatch.setattr(peers, "find_peers", lambda: ([SimpleNamespace(name="torch")], []))
    monkeypatch.setattr(language, "Transformers", lambda config, dtype: Both())
    for group in llm.GROUPS.values():
        group(gp, None, report)
    names = {row["name"] for row in json.loads((ROOT / "bench/limits.json").read_text()) if row["name"].startswith("llm_")}
    sizes = {"c512": "c8", "c8192": "c32", "prefill_128": "prefill_4", "prefill_2048": "prefill_8", "prefill_8192": "prefill_16"}
    for large, small in sizes.items():
        names = {f"{name}_".replace(f"_{large}_", f"_{small}_")[:-1] for name in names}
    figures = json.loads(report.path.read_text())["figures"]
    assert figures.keys() >= names
    assert figures["llm_driver_allocations"]["value"] == 0


def test_a_wrong_token_has_no_speed(measure, monkeypatch):
    llm, report = measure
    from pygpukit.benchmark import language

    whole = language._cut_requests
    answers = iter(range(100))
    monkeypatch.setattr(language, "_cut_requests", lambda *given: [*whole(*given), next(answers)])
    with pytest.raises(SystemExit, match="tokens are wrong"):
        llm.GROUPS["llm_b1"](gp, None, report)
    assert "llm_b1_c8_share_of_read" not in report.data["figures"]


def test_host_time_is_a_time(cpu):
    assert abs(host_us_between_steps(LanguageModel("tiny"), 8, steps=10)) < 1e6
