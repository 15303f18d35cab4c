"""A Kokoro of a few thousand random weights in every tensor that the real one has, for tests that need no download."""

from __future__ import annotations

import json

import numpy as np

import pygpukit as gp
from pygpukit.io import save_safetensors

HIDDEN, STYLE, INNER, CHANNELS, DIM_IN, BERT, EMBEDDING, TOKENS = 8, 128, 12, 8, 4, 16, 6, 178
CONFIG = {
    "dim_in": DIM_IN,
    "hidden_dim": HIDDEN,
    "style_dim": STYLE,
    "n_layer": 2,
    "n_token": TOKENS,
    "max_dur": 5,
    "istftnet": {
        "upsample_rates": [2, 3],
        "upsample_kernel_sizes": [4, 5],
        "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1, 3], [1]],
        "upsample_initial_channel": CHANNELS,
        "gen_istft_n_fft": 20,
        "gen_istft_hop_size": 5,
    },
    "plbert": {
        "hidden_size": BERT,
        "num_attention_heads": 2,
        "intermediate_size": 10,
        "max_position_embeddings": 20,
        "num_hidden_layers": 3,
    },
}


def shapes(positions=20):
    """The tensors by name."""
    out = {}

    def linear(name, rows, columns):
        out[f"{name}.weight"], out[f"{name}.bias"] = (rows, columns), (rows,)

    def norm(name, width):
        out[f"{name}.weight"] = out[f"{name}.bias"] = (width,)

    def conv(name, rows, columns, taps, bias=None, plain=False):
        if plain:
            out[f"{name}.weight"] = (rows, columns, taps)
        else:
            out[f"{name}.weight_v"], out[f"{name}.weight_g"] = (rows, columns, taps), (rows, 1, 1)
        if bias != 0:
            out[f"{name}.bias"] = (bias or rows,)

    def lstm(name, inputs, hidden):
        for end in ("", "_reverse"):
            out[f"{name}.weight_ih_l0{end}"], out[f"{name}.weight_hh_l0{end}"] = (
                (4 * hidden, inputs),
                (4 * hidden, hidden),
            )
            out[f"{name}.bias_ih_l0{end}"] = out[f"{name}.bias_hh_l0{end}"] = (4 * hidden,)

    def block(name, inputs, outputs, upsample=False):
        conv(f"{name}.conv1", outputs, inputs, 3)
        conv(f"{name}.conv2", outputs, outputs, 3)
        linear(f"{name}.norm1.fc", 2 * inputs, STYLE)
        linear(f"{name}.norm2.fc", 2 * outputs, STYLE)
        if inputs != outputs:
            conv(f"{name}.conv1x1", outputs, inputs, 1, bias=0)
        if upsample:
            conv(f"{name}.pool", inputs, 1, 3)

    def snakes(name, channels, taps, count):
        for j in range(count):
            for k in (1, 2):
                conv(f"{name}.convs{k}.{j}", channels, channels, taps)
                linear(f"{name}.adain{k}.{j}.fc", 2 * channels, STYLE)
                out[f"{name}.alpha{k}.{j}"] = (1, channels, 1)

    for kind, rows in (("word", TOKENS), ("position", positions), ("token_type", 2)):
        out[f"bert.embeddings.{kind}_embeddings.weight"] = (rows, EMBEDDING)
    norm("bert.embeddings.LayerNorm", EMBEDDING)
    linear("bert.encoder.embedding_hidden_mapping_in", BERT, EMBEDDING)
    layer = "bert.encoder.albert_layer_groups.0.albert_layers.0"
    for part in ("query", "key", "value", "dense"):
        linear(f"{layer}.attention.{part}", BERT, BERT)
    norm(f"{layer}.attention.LayerNorm", BERT)
    linear(f"{layer}.ffn", 10, BERT)
    linear(f"{layer}.ffn_output", BERT, 10)
    norm(f"{layer}.full_layer_layer_norm", BERT)
    linear("bert_encoder", HIDDEN, BERT)
    for i in (0, 2):
        lstm(f"predictor.text_encoder.lstms.{i}", HIDDEN + STYLE, HIDDEN // 2)
        linear(f"predictor.text_encoder.lstms.{i + 1}.fc", 2 * HIDDEN, STYLE)
    for name in ("lstm", "shared"):
        lstm(f"predictor.{name}", HIDDEN + STYLE, HIDDEN // 2)
    linear("predictor.duration_proj.linear_layer", 5, HIDDEN)
    for name in ("F0", "N"):
        block(f"predictor.{name}.0", HIDDEN, HIDDEN)
        block(f"predictor.{name}.1", HIDDEN, HIDDEN // 2, upsample=True)
        block(f"predictor.{name}.2", HIDDEN // 2, HIDDEN // 2)
        conv(f"predictor.{name}_proj", 1, HIDDEN // 2, 1, plain=True)
        conv(f"decoder.{name}_conv", 1, 1, 3)
    out["text_encoder.embedding.weight"] = (TOKENS, HIDDEN)
    for i in range(2):
        conv(f"text_encoder.cnn.{i}.0", HIDDEN, HIDDEN, 5)
        out[f"text_encoder.cnn.{i}.1.gamma"] = out[f"text_encoder.cnn.{i}.1.beta"] = (HIDDEN,)
    lstm("text_encoder.lstm", HIDDEN, HIDDEN // 2)
    conv("decoder.asr_res.0", DIM_IN, HIDDEN, 1)
    block("decoder.encode", HIDDEN + 2, INNER)
    for i in range(4):
        block(f"decoder.decode.{i}", INNER + DIM_IN + 2, CHANNELS if i == 3 else INNER, upsample=i == 3)
    generator = "decoder.generator"
    linear(f"{generator}.m_source.l_linear", 1, 9)
    for i, taps in enumerate((4, 5)):
        half = CHANNELS >> (i + 1)
        conv(f"{generator}.ups.{i}", 2 * half, half, taps, bias=half)
        conv(f"{generator}.noise_convs.{i}", half, 22, (6, 1)[i], plain=True)
        snakes(f"{generator}.noise_res.{i}", half, (7, 11)[i], 3)
        snakes(f"{generator}.resblocks.{2 * i}", half, 3, 2)
        snakes(f"{generator}.resblocks.{2 * i + 1}", half, 5, 1)
    conv(f"{generator}.conv_post", 22, CHANNELS // 4, 7)
    return out


def write(folder, change=None, positions=20):
    """Writes config, weights and a voice; `change` may edit the arrays."""
    rng = np.random.default_rng(7)
    arrays = {}
    for name, shape in shapes(positions).items():
        values = rng.normal(size=shape) * 0.3
        if name.endswith(("gamma", "LayerNorm.weight", "layer_norm.weight", "weight_g")) or ".alpha" in name:
            values = 1 + 0.3 * values
        arrays[name] = values.astype("f4")
    arrays["predictor.F0_proj.bias"][:] = 200
    if change is not None:
        change(arrays)
    folder.mkdir(exist_ok=True)
    save_safetensors(folder / "model.safetensors", {name: gp.from_numpy(v, device="cpu") for name, v in arrays.items()})
    config = {**CONFIG, "plbert": {**CONFIG["plbert"], "max_position_embeddings": positions}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "voices").mkdir(exist_ok=True)
    rng.normal(size=(510, 1, 256)).astype("<f4").tofile(folder / "voices" / "af_one.bin")
    return folder
