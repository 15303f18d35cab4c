"""The text model of Llama 4 under the names of 0.2: views of pygpukit.llm's one model and its layers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit._core._llm import MLP, Attention, MoELayer, Norm, TransformerBlock, TransformerConfig
from pygpukit.llm.models.causal import CausalTransformerModel

if TYPE_CHECKING:
    from os import PathLike

    from pygpukit import GPUArray, Weight

    Matrix = GPUArray | Weight

__all__ = ["Llama4Attention", "Llama4Block", "Llama4Config", "Llama4MLP", "Llama4Model", "generate"]


@dataclass
class Llama4Config:
    """A config.json of model_type llama4_text. no_rope_layers: 1 where a layer has RoPE; None: all but every fourth."""

    vocab_size: int = 202048
    hidden_size: int = 5120
    intermediate_size: int = 8192
    num_hidden_layers: int = 48
    num_attention_heads: int = 40
    num_key_value_heads: int = 8
    head_dim: int = 128
    rms_norm_eps: float = 1e-5
    attn_scale: float = 0.1
    floor_scale: float = 8192.0
    use_qk_norm: bool = True
    max_position_embeddings: int = 10485760
    no_rope_layers: list[int] | None = None
    rope_theta: float = 5e5
    rope_scaling: dict[str, Any] | None = None
    attn_temperature_tuning: bool = True
    attention_chunk_size: int | None = 8192
    intermediate_size_mlp: int = 16384
    num_local_experts: int = 16
    num_experts_per_tok: int = 1
    interleave_moe_layer_step: int = 1
    moe_layers: list[int] | None = None
    tie_word_embeddings: bool = False

    @classmethod
    def from_json(cls, source: str | PathLike[str] | Mapping[str, Any]) -> Llama4Config:
        """From a config.json: its path, its text, or what json.loads makes of it."""
        if isinstance(source, Mapping):
            data = source
        else:
            text = str(source)
            data = json.loads(text if text.lstrip().startswith("{") else Path(source).read_text(encoding="utf-8"))
        data = data.get("text_config", data)
        rope = data.get("rope_parameters") or {}
        known = {**data, "rope_theta": data.get("rope_theta", rope.get("rope_theta", cls.rope_theta))}
        if rope.get("rope_type", "default") != "default":
            known["rope_scaling"] = rope
        return cls(**{f.name: known[f.name] for f in fields(cls) if f.name in known})

    def to_transformer_config(self) -> TransformerConfig:
        return TransformerConfig.from_json(json.dumps({"model_type": "llama4_text", **asdict(self)}))

    def _of_one_layer(self, use_rope: bool) -> TransformerConfig:
        one = {**asdict(self), "num_hidden_layers": 1, "no_rope_layers": [int(use_rope)], "moe_layers": None}
        return Llama4Config(**one).to_transformer_config()


class Llama4Attention:
    """Attention of a layer with RoPE, or of one without, whose queries grow with their positions."""

    def __init__(
        self, q_proj: Matrix, k_proj: Matrix, v_proj: Matrix, o_proj: Matrix, config: Llama4Config, use_rope: bool = True
    ) -> None:
        self.layer = Attention(q_proj, k_proj, v_proj, o_proj, config._of_one_layer(use_rope))

    def forward(self, hidden: GPUArray, positions: Sequence[int] | None = None) -> GPUArray:
        """Of hidden [tokens, hidden]; positions are by which RoPE turns, 0, 1, ... without them."""
        return self.layer(hidden, positions)[0]

    __call__ = forward


class Llama4MLP:
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, gate_proj: Matrix, up_proj: Matrix, down_proj: Matrix) -> None:
        self.layer = MLP(TransformerConfig(), gate_proj=gate_proj, up_proj=up_proj, down_proj=down_proj)

    def forward(self, x: GPUArray) -> GPUArray:
        return self.layer(x)

    __call__ = forward


class Llama4Block:
    """x + attn(norm(x)), then the same with the feed-forward layer or the experts."""

    def __init__(
        self, attn_norm: Norm, attn: Llama4Attention, mlp_norm: Norm, mlp: Llama4MLP | MLP | MoELayer
    ) -> None:
        inner = mlp.layer if isinstance(mlp, Llama4MLP) else mlp
        self.layer = TransformerBlock(attn_norm, attn.layer, mlp_norm, inner)

    def forward(self, hidden: GPUArray, positions: Sequence[int] | None = None) -> GPUArray:
        return self.layer(hidden, positions)[0]

    __call__ = forward


class Llama4Model(CausalTransformerModel):
    """CausalTransformerModel with 0.2's way to call it. Llama4Model.from_safetensors(path) loads one."""

    def __init__(
        self,
        config: Llama4Config | TransformerConfig,
        embed_tokens: GPUArray,
        blocks: Sequence[Llama4Block | TransformerBlock],
        norm: Norm,
        lm_head: Matrix | None = None,
    ) -> None:
        whole = config.to_transformer_config() if isinstance(config, Llama4Config) else config
        layers = [block.layer if isinstance(block, Llama4Block) else block for block in blocks]
        super().__init__(whole, embed_tokens, layers, norm, lm_head)

    def forward(self, input_ids: Sequence[int]) -> GPUArray:
        """The logits [tokens, vocab]."""
        return self.get_logits(self(input_ids)[0])


def generate(
    model: CausalTransformerModel,
    input_ids: Sequence[int],
    max_new_tokens: int = 50,
    eos_token_id: int | Sequence[int] | None = 200001,
) -> list[int]:
    """The prompt and the likeliest tokens after it, the one that ends the text included."""
    return model.generate(input_ids, max_new_tokens, temperature=0.0, eos_token_id=eos_token_id)
