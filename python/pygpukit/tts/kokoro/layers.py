"""The layers of Kokoro one by one, as thin views over the operations. The model itself is not made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit._core import (
    adain,
    attention,
    conv1d,
    conv_transpose1d,
    embedding,
    instance_norm,
    layernorm,
    leaky_relu,
    linear,
    lstm_bidirectional,
    lstm_forward,
    snake,
    tanh,
)
from pygpukit._core._tts import Voice
from pygpukit.tts.kokoro.model import KokoroModel
from pygpukit.typing import PathLike

__all__ = [
    "LSTM",
    "ALBERTEncoder",
    "ALBERTLayer",
    "AdaIN",
    "AdaINResBlock",
    "BertLayer",
    "BertSelfAttention",
    "Conv1d",
    "ConvTranspose1d",
    "Decoder",
    "ISTFTNet",
    "InstanceNorm1d",
    "KokoroTextEncoder",
    "LayerNorm",
    "Linear",
    "PLBERTEncoder",
    "ResBlock1d",
    "StyleEncoder",
    "WeightNormConv1d",
    "build_albert_from_weights",
    "build_plbert_from_weights",
    "build_text_encoder_from_weights",
    "leaky_relu",
    "tanh",
]

Array = gp.GPUArray
Weights = Mapping[str, Array]


class Linear:
    """x @ weight.T + bias."""

    def __init__(self, weight: Array, bias: Array | None = None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Array) -> Array:
        return linear(x, self.weight, self.bias)


class LayerNorm:
    """Over the last axis."""

    def __init__(self, weight: Array, bias: Array, eps: float = 1e-5) -> None:
        self.weight, self.bias, self.eps = weight, bias, eps

    def __call__(self, x: Array) -> Array:
        return layernorm(x, self.weight, self.bias, self.eps)


class Conv1d:
    """Over x [batch, channels, length]."""

    def __init__(
        self, weight: Array, bias: Array | None = None, stride: int = 1, padding: int = 0, dilation: int = 1
    ) -> None:
        self.weight, self.bias = weight, bias
        self.stride, self.padding, self.dilation = stride, padding, dilation

    def __call__(self, x: Array) -> Array:
        return conv1d(x, self.weight, self.bias, self.stride, self.padding, dilation=self.dilation)


class ConvTranspose1d:
    """Over x [batch, channels, length]."""

    def __init__(
        self, weight: Array, bias: Array | None = None, stride: int = 1, padding: int = 0, output_padding: int = 0
    ) -> None:
        self.weight, self.bias = weight, bias
        self.stride, self.padding, self.output_padding = stride, padding, output_padding

    def __call__(self, x: Array) -> Array:
        return conv_transpose1d(
            x, self.weight, self.bias, self.stride, self.padding, output_padding=self.output_padding
        )


class WeightNormConv1d:
    """Conv1d whose weight is weight_g * weight_v / |weight_v|, the norm over all axes but the first."""

    def __init__(
        self,
        weight_g: Array,
        weight_v: Array,
        bias: Array | None = None,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
    ) -> None:
        self.weight_g, self.weight_v = weight_g, weight_v
        self._conv = Conv1d(self._compute_weight(), bias, stride, padding, dilation)

    def _compute_weight(self) -> Array:
        squares = gp.sum(self.weight_v * self.weight_v, axis=(1, 2), keepdims=True)
        return self.weight_g * self.weight_v / gp.sqrt(squares)

    def __call__(self, x: Array) -> Array:
        return self._conv(x)


class LSTM:
    """One layer over x [batch, steps, inputs], or both directions where the reverse weights are given."""

    def __init__(
        self,
        W_ih: Array,
        W_hh: Array,
        b_ih: Array | None = None,
        b_hh: Array | None = None,
        W_ih_reverse: Array | None = None,
        W_hh_reverse: Array | None = None,
        b_ih_reverse: Array | None = None,
        b_hh_reverse: Array | None = None,
    ) -> None:
        self._forward = (W_ih, W_hh, b_ih, b_hh)
        self._reverse = (W_ih_reverse, W_hh_reverse, b_ih_reverse, b_hh_reverse)
        self.bidirectional = W_ih_reverse is not None

    def __call__(self, x: Array) -> tuple[Array, tuple[Array, Array]]:
        if self.bidirectional:
            weights: Any = (*self._forward, *self._reverse)
            out, h, c = lstm_bidirectional(x, *weights)
        else:
            out, h, c = lstm_forward(x, *self._forward)
        return out, (h, c)


class InstanceNorm1d:
    """Over the steps of each channel of x [batch, channels, length]."""

    def __init__(self, gamma: Array | None = None, beta: Array | None = None, eps: float = 1e-5) -> None:
        self.gamma, self.beta, self.eps = gamma, beta, eps

    def __call__(self, x: Array) -> Array:
        return instance_norm(x, self.gamma, self.beta, self.eps)


class AdaIN:
    """Instance norm whose 1 + gamma and beta come from a style [batch, style]."""

    def __init__(self, fc_weight: Array, fc_bias: Array) -> None:
        self._fc = Linear(fc_weight, fc_bias)

    def __call__(self, x: Array, style: Array) -> Array:
        values = self._fc(style)
        channels = values.shape[-1] // 2
        return adain(x, values[:, :channels], values[:, channels:])


class AdaINResBlock:
    """(conv2(lrelu(norm2(conv1(lrelu(norm1(x)))))) + shortcut) / sqrt(2) with slopes of 0.2."""

    def __init__(self, conv1: Any, conv2: Any, norm1: AdaIN, norm2: AdaIN, conv1x1: Any = None) -> None:
        self.conv1, self.conv2, self.norm1, self.norm2, self.conv1x1 = conv1, conv2, norm1, norm2, conv1x1

    def __call__(self, x: Array, style: Array) -> Array:
        residual = self.conv1(leaky_relu(self.norm1(x, style), 0.2))
        residual = self.conv2(leaky_relu(self.norm2(residual, style), 0.2))
        shortcut = x if self.conv1x1 is None else self.conv1x1(x)
        out: Array = (residual + shortcut) * 0.5**0.5
        return out


class BertSelfAttention:
    """Every step of x [batch, steps, hidden] sees all others; without the projection behind it."""

    def __init__(self, query: Linear, key: Linear, value: Linear, num_attention_heads: int) -> None:
        self.query, self.key, self.value, self.num_attention_heads = query, key, value, num_attention_heads

    def __call__(self, x: Array) -> Array:
        shape = (*x.shape[:2], self.num_attention_heads, x.shape[2] // self.num_attention_heads)
        q, k, v = (part(x).reshape(shape) for part in (self.query, self.key, self.value))
        seen: Array = attention(q, k, v).reshape(x.shape)
        return seen


class ALBERTLayer:
    """A transformer layer with norms after the sums, over x [batch, steps, hidden]."""

    def __init__(
        self,
        query: Linear,
        key: Linear,
        value: Linear,
        attention_dense: Linear,
        attention_norm: LayerNorm,
        ffn: Linear,
        ffn_output: Linear,
        full_layer_norm: LayerNorm,
        num_attention_heads: int,
        hidden_size: int,
    ) -> None:
        self.attention = BertSelfAttention(query, key, value, num_attention_heads)
        self.attention_dense, self.attention_norm = attention_dense, attention_norm
        self.ffn, self.ffn_output, self.full_layer_norm = ffn, ffn_output, full_layer_norm
        self.hidden_size = hidden_size

    def __call__(self, x: Array) -> Array:
        a = self.attention_norm(x + self.attention_dense(self.attention(x)))
        return self.full_layer_norm(a + self.ffn_output(gp.gelu(self.ffn(a))))


BertLayer = ALBERTLayer


class ALBERTEncoder:
    """Token ids [batch, steps] to [batch, steps, hidden]: one layer, run num_hidden_layers times."""

    def __init__(
        self,
        word_embeddings: Array,
        position_embeddings: Array,
        token_type_embeddings: Array,
        embeddings_norm: LayerNorm,
        embedding_mapping: Linear,
        layer: ALBERTLayer,
        num_hidden_layers: int = 12,
    ) -> None:
        self.word_embeddings, self.position_embeddings = word_embeddings, position_embeddings
        self.token_type_embeddings, self.embeddings_norm = token_type_embeddings, embeddings_norm
        self.embedding_mapping, self.layer, self.num_hidden_layers = embedding_mapping, layer, num_hidden_layers

    def __call__(self, input_ids: Array) -> Array:
        places = self.position_embeddings[: input_ids.shape[-1]] + self.token_type_embeddings[:1]
        x = self.embedding_mapping(self.embeddings_norm(embedding(self.word_embeddings, input_ids) + places))
        for _ in range(self.num_hidden_layers):
            x = self.layer(x)
        return x


class PLBERTEncoder:
    """Token ids [batch, steps] to [batch, steps, hidden_dim]: ALBERT, and the projection behind it."""

    def __init__(self, bert: ALBERTEncoder, projection: Linear) -> None:
        self.bert, self.projection = bert, projection

    def __call__(self, input_ids: Array) -> Array:
        return self.projection(self.bert(input_ids))


class StyleEncoder:
    """The styles [1, 256] of a voice's .bin file by the number of phonemes: Kokoro comes with what its encoder gave."""

    def __init__(self, path: PathLike) -> None:
        self._voice = Voice.open(path)

    def __call__(self, num_phonemes: int) -> Array:
        return gp.from_numpy(np.array([self._voice.style(num_phonemes)], np.float32))


class ResBlock1d:
    """x plus conv2(snake2(norm2(conv1(snake1(norm1(x)))))) for each of several (conv1, conv2, norm1, norm2, alpha1, alpha2)."""

    def __init__(
        self,
        convs1: Sequence[Any],
        convs2: Sequence[Any],
        norms1: Sequence[AdaIN],
        norms2: Sequence[AdaIN],
        alphas1: Sequence[Array],
        alphas2: Sequence[Array],
    ) -> None:
        self.units = list(zip(convs1, convs2, norms1, norms2, alphas1, alphas2, strict=True))

    def __call__(self, x: Array, style: Array) -> Array:
        for conv1, conv2, norm1, norm2, alpha1, alpha2 in self.units:
            t = conv1(snake(norm1(x, style), alpha1.reshape(-1)))
            x = conv2(snake(norm2(t, style), alpha2.reshape(-1))) + x
        return x


class Decoder:
    """A model's decoder: asr [1, hidden_dim, frames], F0 and N [2 frames], style [1, style_dim] to the vocoder's input."""

    def __init__(self, model: KokoroModel) -> None:
        self._networks = model.networks

    def __call__(self, asr: Array, F0: Array, N: Array, style: Array) -> Array:
        return self._networks.decode(asr, F0, N, style)


class ISTFTNet:
    """A model's vocoder: what Decoder gives, F0 [2 frames] in Hz and style [1, style_dim] to samples."""

    def __init__(self, model: KokoroModel) -> None:
        self._networks = model.networks

    def __call__(self, x: Array, F0: Array, style: Array, seed: int | None = None) -> Array:
        return self._networks.vocode(x, F0, style, seed)


class KokoroTextEncoder:
    """Token ids [batch, steps] to [batch, steps, hidden]: (conv, norm) layers, then an LSTM."""

    def __init__(self, embedding: Array, cnn_layers: Sequence[tuple[Any, LayerNorm]], lstm: LSTM) -> None:
        self.embedding, self.cnn_layers, self.lstm = embedding, cnn_layers, lstm

    def __call__(self, input_ids: Array) -> Array:
        x = embedding(self.embedding, input_ids)
        for conv, norm in self.cnn_layers:
            x = leaky_relu(norm(conv(x.transpose(0, 2, 1)).transpose(0, 2, 1)), 0.2)
        return self.lstm(x)[0]


def build_albert_from_weights(
    weights: Weights, prefix: str = "bert", num_attention_heads: int = 12, num_hidden_layers: int = 12
) -> ALBERTEncoder:
    """KeyError names a tensor that is missing."""
    one = f"{prefix}.encoder.albert_layer_groups.0.albert_layers.0"
    names = ("query", "key", "value", "dense")
    query, key, value, dense = (_linear(weights, f"{one}.attention.{name}") for name in names)
    layer = ALBERTLayer(
        query,
        key,
        value,
        dense,
        _norm(weights, f"{one}.attention.LayerNorm"),
        _linear(weights, f"{one}.ffn"),
        _linear(weights, f"{one}.ffn_output"),
        _norm(weights, f"{one}.full_layer_layer_norm"),
        num_attention_heads,
        query.weight.shape[0],
    )
    words, positions, types = (
        weights[f"{prefix}.embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    norm = _norm(weights, f"{prefix}.embeddings.LayerNorm")
    mapping = _linear(weights, f"{prefix}.encoder.embedding_hidden_mapping_in")
    return ALBERTEncoder(words, positions, types, norm, mapping, layer, num_hidden_layers)


def build_plbert_from_weights(
    weights: Weights,
    prefix: str = "bert",
    projection: str = "bert_encoder",
    num_attention_heads: int = 12,
    num_hidden_layers: int = 12,
) -> PLBERTEncoder:
    """KeyError names a tensor that is missing."""
    bert = build_albert_from_weights(weights, prefix, num_attention_heads, num_hidden_layers)
    return PLBERTEncoder(bert, _linear(weights, projection))


def build_text_encoder_from_weights(weights: Weights, prefix: str = "text_encoder") -> KokoroTextEncoder:
    """KeyError names a tensor that is missing."""
    layers: list[tuple[Any, LayerNorm]] = []
    while not layers or f"{prefix}.cnn.{len(layers)}.0.weight_v" in weights:
        name = f"{prefix}.cnn.{len(layers)}"
        v = weights[f"{name}.0.weight_v"]
        conv = WeightNormConv1d(weights[f"{name}.0.weight_g"], v, weights[f"{name}.0.bias"], padding=v.shape[2] // 2)
        layers.append((conv, LayerNorm(weights[f"{name}.1.gamma"], weights[f"{name}.1.beta"])))
    parts = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    lstm = LSTM(*(weights[f"{prefix}.lstm.{part}{end}"] for end in ("", "_reverse") for part in parts))
    return KokoroTextEncoder(weights[f"{prefix}.embedding.weight"], layers, lstm)


def _linear(weights: Weights, name: str) -> Linear:
    return Linear(weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(weights: Weights, name: str) -> LayerNorm:
    return LayerNorm(weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)
