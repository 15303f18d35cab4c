"""The figures of speech recognition, `asr_*`.

On a GPU, by measure.py: the shape of large-v3-turbo with random weights beside the transformers library in float16, as
it is (SDPA) and compiled over a static cache, in turns. On the CPU, alone or by measure_cpu.py:

    python bench/measure_asr.py --assets FOLDER [--minutes 10] [--out FILE]

writes whisper-tiny's speed on a file that is joined from one clip with silences of random length, and how many of its
sentences are lost or said again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TOKENS = 100
PROMPT = 4
END = 50257
TURBO: dict[str, Any] = {
    "d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_layers": 4,
    "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "vocab_size": 51866, "num_mel_bins": 128,
    "max_source_positions": 1500, "max_target_positions": 448, "bos_token_id": END, "eos_token_id": END,
    "pad_token_id": 50256, "decoder_start_token_id": 50258,
}  # fmt: skip
WORDS = "and so my fellow americans ask not what your country can do for you ask what you can do for your country"


# On a GPU


def turns_us(
    synchronize: Callable[[], None], calls: dict[str, Callable[[], Any]], rounds: int = 7
) -> dict[str, float]:
    """Median host time of each call with its wait, in turns: what someone who wants the text sees."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            synchronize()
            began = time.perf_counter()
            call()
            synchronize()
            if turn >= 2:
                samples[name].append((time.perf_counter() - began) * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}


def products_us(gp: Any) -> float:
    """What the encoder's products take for 30 s, those of attention at the rate of the others."""
    from timing import gpu_times_us

    length, d, wide = TURBO["max_source_positions"], TURBO["d_model"], TURBO["encoder_ffn_dim"]
    calls = []
    flops = 0
    for n, k in ((3 * d, d), (d, d), (wide, d), (d, wide)):
        x = gp.random.normal((length, k), dtype="float16", seed=1)
        matrices = [gp.random.normal((n, k), dtype="float16", seed=2 + i) for i in range(4)]
        out = gp.empty((length, n), dtype="float16")
        calls += [lambda x=x, w=w, out=out: gp.matmul(x, w.T, out=out) for w in matrices]
        flops += 2 * length * n * k
    layer = sum(gpu_times_us(gp, calls)) / 4
    attention = 4 * length * length * d
    return TURBO["encoder_layers"] * layer * (1 + attention / flops)


def measure_asr(gp: Any, torch: Any, report: Any) -> None:
    import transformers
    from transformers.modeling_outputs import BaseModelOutput

    from pygpukit.asr import WhisperDecoder, WhisperEncoder, WhisperWeights
    from timing import against_torch_us

    torch.manual_seed(1)
    made = transformers.WhisperConfig(**TURBO, suppress_tokens=[END])
    model = transformers.WhisperForConditionalGeneration(made).half().eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        weights = WhisperWeights.from_safetensors(folder, dtype="float16")
    model = model.cuda()
    encoder, decoder = WhisperEncoder(weights.config, weights), WhisperDecoder(weights.config, weights)

    def wait() -> None:
        gp.synchronize()
        torch.cuda.synchronize()

    sound = torch.rand(16, 128, 3000, device="cuda") * 2 - 1
    mel = gp.from_dlpack(sound[:1])
    with torch.inference_mode():
        given = sound[:1].half()
        us, torch_us = against_torch_us(
            gp, torch, lambda: encoder(mel), lambda: model.model.encoder(given), repeats=9, inner=1
        )
        products = products_us(gp)
        report.add("asr_encoder_vs_transformers", torch_us / us, us=us, torch_us=torch_us)
        report.add("asr_encoder_vs_products", us / products, us=us, products_us=products)

        prompt = torch.tensor([[50258, 50259, 50360, 50364]], device="cuda")

        def ours(heard: Any, tokens: int) -> Any:
            ids = decoder.generate(heard, temperature=0.0, max_length=PROMPT + tokens)
            texts = ids if isinstance(ids[0], list) else [ids]
            assert all(len(text) == tokens for text in texts), "a text ended early"
            return ids

        def theirs(hidden: Any, **options: Any) -> Any:
            ids = transformers.GenerationMixin.generate(
                model,
                encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
                decoder_input_ids=prompt.expand(hidden.shape[0], -1),
                min_new_tokens=TOKENS, max_new_tokens=TOKENS, do_sample=False, num_beams=1, **options,
            )  # fmt: skip
            assert ids.shape[1] >= TOKENS
            return ids

        for batch in (1, 16):
            hidden = model.model.encoder(sound[:batch].half()).last_hidden_state
            heard = encoder(gp.from_dlpack(sound[:batch]))
            us_of = turns_us(
                wait,
                {
                    "ours": lambda heard=heard: ours(heard, TOKENS),
                    "fewer": lambda heard=heard: ours(heard, TOKENS // 5),
                    "sdpa": lambda hidden=hidden: theirs(hidden),
                    "compiled": lambda hidden=hidden: theirs(hidden, cache_implementation="static"),
                },
            )
            if batch == 1:
                token = (us_of["ours"] - us_of["fewer"]) / (TOKENS - TOKENS // 5)
                report.add("asr_100_tokens_vs_transformers", us_of["sdpa"] / us_of["ours"], **us_of)
                report.add("asr_100_tokens_vs_compiled", us_of["compiled"] / us_of["ours"], **us_of)
                report.add("asr_token_us", token)
            else:
                best = min(us_of["sdpa"], us_of["compiled"])
                report.add("asr_batch16_vs_transformers", best / us_of["ours"], **us_of)


GROUPS = {"asr": measure_asr}


# On the CPU


def plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def cpu_figures(assets: Path, minutes: float) -> dict[str, dict[str, Any]]:
    import pygpukit as gp
    from pygpukit.asr import WhisperModel
    from pygpukit.ops.audio import read_wav

    with gp.device("cpu"):
        model = WhisperModel.from_pretrained(assets / "whisper-tiny")
        clip = read_wav(assets / "audio" / "jfk.wav")[0].to_numpy()[0]
        seed = int(time.time())
        draws = np.random.default_rng(seed)
        parts: list[np.ndarray] = []
        while sum(p.size for p in parts) < minutes * 60 * 16000:
            parts += [clip, np.zeros(int(draws.uniform(0.3, 6) * 16000), "float32")]
        sound = np.concatenate(parts)
        model.transcribe(clip, language="en")
        began = time.perf_counter()
        result = model.transcribe(sound, language="en", compression_ratio_threshold=None)
        elapsed = time.perf_counter() - began
    sentences, said = len(parts) // 2, plain(result.text)
    wrong = abs(said.count(WORDS) - sentences) + (said != " ".join([WORDS] * sentences))
    seconds = sound.size / 16000
    details = {"seed": seed, "seconds": round(seconds, 1), "took_s": round(elapsed, 2), "cores": os.cpu_count()}
    return {
        "asr_tiny_cpu_real_time": {"value": round(seconds / elapsed, 2), **details},
        "asr_long_file_wrong_sentences": {"value": int(wrong), "sentences": sentences, "seed": seed},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assets", type=Path, default=os.environ.get("PYGPUKIT_ASSETS"), help="real weights and speech")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--out", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    if options.assets is None:
        parser.error("--assets, or PYGPUKIT_ASSETS, names the folder of real weights")
    text = json.dumps(cpu_figures(options.assets, options.minutes), indent=1, sort_keys=True) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
