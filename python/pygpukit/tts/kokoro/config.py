"""config.json of a Kokoro checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pygpukit._core._tts import read_config
from pygpukit.typing import PathLike

__all__ = ["KokoroConfig"]


def _default_vocabulary() -> dict[str, int]:
    vocabulary: dict[str, int] = json.loads(read_config("{}"))["vocab"]
    return vocabulary


@dataclass
class KokoroConfig:
    """The sizes of the networks and the ids of the phonemes. The defaults are those of Kokoro-82M."""

    dim_in: int = 64
    hidden_dim: int = 512
    style_dim: int = 128
    n_mels: int = 80
    n_layer: int = 3
    n_token: int = 178
    max_dur: int = 50
    text_encoder_kernel_size: int = 5
    sample_rate: int = 24000
    upsample_rates: tuple[int, ...] = (10, 6)
    upsample_kernel_sizes: tuple[int, ...] = (20, 12)
    upsample_initial_channel: int = 512
    resblock_kernel_sizes: tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    gen_istft_n_fft: int = 20
    gen_istft_hop_size: int = 5
    plbert_hidden_size: int = 768
    plbert_num_attention_heads: int = 12
    plbert_intermediate_size: int = 2048
    plbert_max_position_embeddings: int = 512
    plbert_num_hidden_layers: int = 12
    vocab: dict[str, int] = field(default_factory=_default_vocabulary)

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> KokoroConfig:
        """Of a config.json's object. ValueError names what is wrong with a member."""
        values = json.loads(read_config(json.dumps(_nested(config))))
        values |= values.pop("istftnet") | {f"plbert_{name}": value for name, value in values.pop("plbert").items()}
        return cls(**{name: _tuples(value) for name, value in values.items()})

    @classmethod
    def from_json(cls, path: PathLike) -> KokoroConfig:
        """Of a file."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))

    @classmethod
    def from_pretrained(cls, path: PathLike) -> KokoroConfig:
        """Of a checkpoint's folder."""
        return cls.from_json(Path(path) / "config.json")

    def to_dict(self) -> dict[str, Any]:
        """Every member by name; from_dict takes it back."""
        return asdict(self)

    @property
    def plbert_head_dim(self) -> int:
        """Width of one attention head."""
        return self.plbert_hidden_size // self.plbert_num_attention_heads

    @property
    def hop_length(self) -> int:
        """Samples for each value of the pitch."""
        return math.prod(self.upsample_rates) * self.gen_istft_hop_size


def _nested(config: dict[str, Any]) -> dict[str, Any]:
    """The members of to_dict where a config.json has them."""
    bert = {f.name.removeprefix("plbert_") for f in fields(KokoroConfig) if f.name.startswith("plbert_")}
    given = {name: config[f"plbert_{name}"] for name in bert if f"plbert_{name}" in config}
    return {**config, "plbert": {**config.get("plbert", {}), **given}}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
