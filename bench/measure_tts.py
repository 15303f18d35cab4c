"""Speech of Kokoro: a sentence of 10 s, the first sound, eight sentences at once, against PyTorch; and the CPU.

    PYGPUKIT_ASSETS=FOLDER python bench/measure.py --out FILE --only tts
    PYGPUKIT_ASSETS=FOLDER python bench/measure_tts.py --cpu

The folder has kokoro-82m. The second prints the figure of the CPU, which bench/measure_cpu.py measures too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TEXT = (
    "The old lighthouse keeper climbed the narrow stairs every evening, lit the great lamp, and watched the ships go by, "
    "while the wind from the north sang in the wires above the sleeping town."
)
SECONDS = 10.0
REPEATS = 9
SENTENCES = 8
MACS_PER_SECOND = 26e9  # of audio: multiply-adds of the networks


def assets() -> Path:
    folder = os.environ.get("PYGPUKIT_ASSETS")
    if not folder or not (Path(folder) / "kokoro-82m").is_dir():
        raise SystemExit("measure_tts: PYGPUKIT_ASSETS must name a folder with kokoro-82m")
    return Path(folder)


def sentence(model: Any) -> tuple[list[int], list[float], float]:
    """ids, style, and the speed at which they take 10 s."""
    ((_, ids),) = model._speaker.script(TEXT).pieces
    style = model._speaker.voice("af_heart").style(len(ids))
    speed = 1.0
    for _ in range(3):
        frames = sum(model.networks.say(ids, style, speed)[1])
        speed = float(np.clip(speed * frames / (SECONDS * 40), 0.1, 10))
    return ids, style, speed


def median_ms(call: Callable[[], object], repeats: int = REPEATS) -> float:
    call()
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def captured(gp: Any, networks: Any, ids: list[int], style: list[float], speed: float) -> Any:
    """A graph of both halves of the networks, with the durations of these ids."""
    frames = networks.say(ids, style, speed)[1]
    given = gp.from_numpy(np.array([0, *ids, 0], np.int32))
    styles = gp.from_numpy(np.array([style], np.float32)).astype(networks.dtype)
    steps = gp.from_numpy(np.repeat(np.arange(len(frames), dtype=np.int32), frames))
    text = networks.read(given, styles)
    samples = networks.speak(text, steps, styles, 0)
    graph = gp.CudaGraph()
    with graph.capture():
        networks.read(given, styles, out=text)
        networks.speak(text, steps, styles, 0, out=samples)
    return graph


def measure_tts(gp: Any, torch: Any, report: Any) -> None:
    """From ids to samples that are ready on the device; the first sound from text to samples on the host.

    float16, which the peer's recurrent layers have fused kernels for.
    """
    from pygpukit.tts import KokoroModel, load_kokoro_weights
    from torch_kokoro import TorchKokoro

    folder = assets() / "kokoro-82m"
    model = KokoroModel.from_pretrained(folder, dtype="float16", device="cuda")
    ids, style, speed = sentence(model)
    networks = model.networks
    weights = {name: array.to_numpy() for name, array in load_kokoro_weights(folder, "float32", "cpu")[0].items()}
    peer = TorchKokoro(torch, weights, torch.float16, "cuda")

    def ours() -> Any:
        samples = networks.say(ids, style, speed, 0)[0]
        gp.synchronize()
        return samples

    def theirs() -> Any:
        samples = peer.say(ids, style, speed)
        torch.cuda.synchronize()
        return samples

    a, b = ours().to_numpy(), theirs().float().cpu().numpy()
    loudness = [float(np.sqrt(np.mean(x.astype(np.float64) ** 2))) for x in (a, b)]
    if abs(a.size - b.size) > 3 * 600 or not 0.8 < loudness[0] / loudness[1] < 1.25:
        raise SystemExit(f"measure_tts: the peer says something else: {a.size} and {b.size} samples, {loudness}")
    turns = [(median_ms(ours, 3), median_ms(theirs, 3)) for _ in range(5)]
    ms, torch_ms = (statistics.median(column) for column in zip(*turns, strict=True))
    seconds = a.size / 24000
    report.add("tts_10s_ms", ms * SECONDS / seconds, seconds=seconds, speed=speed, dtype="float16")
    report.add("tts_vs_torch", torch_ms / ms, ms=ms, torch_ms=torch_ms)
    graph = captured(gp, networks, ids, style, speed)

    def replay() -> None:
        graph.replay()
        gp.synchronize()

    report.add("tts_10s_graph_ms", median_ms(replay) * SECONDS / seconds, launches=graph.num_nodes)
    report.add("tts_first_sound_ms", median_ms(lambda: next(model.generate_stream(TEXT)).to_numpy()))

    many, styles = [ids[: len(ids) - 2 * i] for i in range(SENTENCES)], [style] * SENTENCES

    def one_by_one() -> None:
        for each in many:
            networks.say(each, style, speed, 0)
            gp.synchronize()

    def at_once() -> None:
        networks.say_all(many, styles, speed, 0)
        gp.synchronize()

    turns = [(median_ms(one_by_one, 2), median_ms(at_once, 2)) for _ in range(3)]
    alone, together = (statistics.median(column) for column in zip(*turns, strict=True))
    report.add("tts_batch_of_8_vs_alone", alone / together, alone_ms=alone, together_ms=together)


def cpu_figure() -> dict[str, object]:
    """At least 1 where speech is made as fast as it is heard, or at 0.6 of the rate of matrix products in this run."""
    import pygpukit as gp
    from pygpukit.tts import KokoroModel

    model = KokoroModel.from_pretrained(assets() / "kokoro-82m", dtype="float32", device="cpu")
    ids, style, speed = sentence(model)
    left, right = (gp.full((1024, 1024), 0.5, device="cpu") for _ in range(2))
    out = gp.zeros((1024, 1024), device="cpu")

    def product() -> None:
        gp.matmul(left, right, out=out)
        gp.synchronize("cpu")

    samples: list[tuple[float, float]] = []
    for _ in range(3):
        product_ms = median_ms(product, 5)
        start = time.perf_counter()
        audio = model.networks.say(ids, style, speed, 0)[0].to_numpy()
        samples.append((time.perf_counter() - start, 1024**3 / product_ms * 1e3))
    took, rate = (statistics.median(column) for column in zip(*samples, strict=True))
    seconds = audio.size / 24000
    realtime, fraction = seconds / took, MACS_PER_SECOND * seconds / took / rate
    return {
        "value": round(max(realtime, fraction / 0.6), 3),
        "realtime": round(realtime, 3),
        "of_matmul_rate": round(fraction, 3),
        "matmul_gflop_s": round(2e-9 * rate, 1),
    }


GROUPS = {"tts": measure_tts}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cpu", action="store_true", required=True, help="the figure of the CPU")
    parser.parse_args()
    print(json.dumps({"cpu_tts": cpu_figure()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
