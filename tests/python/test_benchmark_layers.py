"""The benchmark suite's cases of attention, decode, sampling and convolution, on the CPU."""

from __future__ import annotations

import time

import pytest

import pygpukit as gp
from pygpukit import benchmark
from pygpukit.benchmark import BenchmarkReport, Effort
from pygpukit.benchmark.peers import Peer
from pygpukit.benchmark.timing import HostTimer
from pygpukit.cli import main


@pytest.fixture
def cpu():
    with gp.device("cpu"):
        yield


def test_attention_decode_sampling_and_conv_run(cpu, tmp_path):
    saved = tmp_path / "r.json"
    flags = ("--attention", "--decode", "--sampling", "--conv", "--seq-lens", "33,70", "--quiet", "--save", str(saved))
    assert main(["bench", *flags, "--iterations", "2", "--warmup", "0"]) == 0
    found = {r.name: r for r in BenchmarkReport.load(saved).results}
    assert {"sdpa_seq33", "sdpa_seq70", "gqa_seq33", "gqa_seq70", "sample_1x4096", "sample_4x4096"} <= found.keys()
    assert {f"decode_{c}_{m}_kv70" for c in ("bf16", "paged", "fp8") for m in ("7B", "8B")} <= found.keys()
    assert {"conv1d_bf16_tiny", "conv1d_fp32_tiny"} <= found.keys()
    for result in found.values():
        assert result.correct is True, (result.name, result.rel_error)
        assert result.median_us > 0 and result.bandwidth_gbps > 0
    attention = found["gqa_seq70"]
    assert attention.params["num_kv_heads"] == 8 and attention.category == "attention"
    assert attention.tflops == pytest.approx(2 * 32 * 128 * 70 * 71 / attention.median_us / 1e6)
    assert found["decode_bf16_8B_kv70"].share_of_ceiling > 0
    assert found["sample_1x4096"].rel_error == 0


def test_a_wrong_layer_is_seen(cpu, monkeypatch):
    zeros = lambda *arguments, out, **options: gp.copy_to(gp.zeros_like(out), out)  # noqa: E731
    for name, case in (
        ("attention", benchmark.SDPABenchmark(9)),
        ("attention_over_cache", benchmark.DecodeBenchmark(9)),
        ("conv1d", benchmark.ConvBenchmark("tiny", {"ins": 4, "outs": 3, "length": 30, "taps": 3})),
        ("sample", benchmark.SamplingBenchmark(3, 500)),
    ):
        assert case.run(Effort(0, 1)).correct is True
        with monkeypatch.context() as patch:
            patch.setattr(gp, name, zeros)
            assert case.run(Effort(0, 1)).correct is False, name


class _TwoWays(Peer):
    """A peer with two right ways, a wrong one and one that fails."""

    name, version = "two", "1"

    def layer_calls(self, kind, inputs, options):
        def fail():
            raise RuntimeError("no kernel\nfor this")

        q, k, v = (inputs[n] for n in "qkv")
        right = gp.attention(q, k, v, causal=True)

        def slow():
            time.sleep(0.01)
            return right

        return {"slow": slow, "quick": lambda: right, "wrong": lambda: q + 0, "none": fail}

    def product(self, dtype, a, b, out):
        return None

    def timer(self, calls):
        return HostTimer(calls, gp.synchronize)

    def synchronize(self):
        gp.synchronize()


def test_the_fastest_way_of_a_peer_counts(cpu):
    found = benchmark.GQABenchmark(200).run(Effort(0, 3), [_TwoWays()])
    peer = found.peers["two"]
    assert peer.work == "the same work, by quick" and 0 < peer.rel_error < 1e-2
    assert peer.ratio == pytest.approx(peer.median_us / found.median_us)
    assert found.peer_faults["two none"] == "RuntimeError: no kernel"
    assert found.peer_faults["two wrong"].startswith("a wrong result, off by") and len(found.peer_faults) == 2
