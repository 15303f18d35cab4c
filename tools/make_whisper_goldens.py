"""Writes tests/data/whisper_goldens.json: what the transformers library makes of the same weights and sound.

    OMP_NUM_THREADS=1 python tools/make_whisper_goldens.py ASSETS

ASSETS is the folder of real weights that PYGPUKIT_ASSETS names. Needs torch and transformers, which nothing else does.
"""

from __future__ import annotations

import json
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

import whisper_random  # noqa: E402

COLUMNS = list(range(0, 51864, 811))  # of the logits


def read_sound(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype("float32") / 32768


def times_of(folder: Path, sound: np.ndarray) -> dict[str, Any]:
    """Segments and words of a recording, with their times."""
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    processor = transformers.WhisperProcessor.from_pretrained(folder)
    pipeline = transformers.pipeline(
        "automatic-speech-recognition",
        model=model,
        tokenizer=processor.tokenizer,
        feature_extractor=processor.feature_extractor,
        device="cpu",
    )
    options = {"language": "en", "task": "transcribe", "num_beams": 1}  # a pipeline searches with beams

    def chunks(kind: Any) -> list[list[Any]]:
        given = {"raw": sound, "sampling_rate": 16000}
        found = pipeline(given, return_timestamps=kind, generate_kwargs=dict(options))
        return [[c["text"], round(c["timestamp"][0], 3), round(c["timestamp"][1], 3)] for c in found["chunks"]]

    return {"segments": chunks(True), "words": chunks("word")}


def parts_of(config: dict[str, Any]) -> dict[str, Any]:
    """What a model of random weights encodes and decodes."""
    made = transformers.WhisperConfig(
        **config, pad_token_id=50256, bos_token_id=50257, eos_token_id=50257, decoder_start_token_id=50258
    )
    model = transformers.WhisperForConditionalGeneration(made).eval()
    values = {name: torch.from_numpy(value) for name, value in whisper_random.weights(config).items()}
    missing, unexpected = model.load_state_dict(values, strict=False)
    assert not unexpected and set(missing) <= {"proj_out.weight"}, (missing, unexpected)
    model.tie_weights()
    with torch.no_grad():
        heard = model.model.encoder(torch.from_numpy(whisper_random.mel(config))).last_hidden_state
        ids = torch.tensor(whisper_random.IDS)
        logits = model(encoder_outputs=(heard,), decoder_input_ids=ids).logits
    return {
        "encoder": heard[:, ::7, ::5].numpy().round(5).tolist(),
        "logits": logits[:, :, COLUMNS].numpy().round(5).tolist(),
        "largest": logits.argmax(-1).tolist(),
    }


def main() -> int:
    assets = Path(sys.argv[1])
    torch.manual_seed(0)
    goldens = {
        "transformers": transformers.__version__,
        "columns": COLUMNS,
        "jfk": times_of(assets / "whisper-tiny", read_sound(assets / "audio" / "jfk.wav")),
        **{name: parts_of(config) for name, config in whisper_random.CONFIGS.items()},
    }
    target = ROOT / "tests" / "data" / "whisper_goldens.json"
    target.write_text(json.dumps(goldens) + "\n")
    print(f"{target}: {target.stat().st_size} bytes, transformers {transformers.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
