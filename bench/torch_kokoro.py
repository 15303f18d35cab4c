"""Kokoro's networks in PyTorch, eager, as measure_tts.py's peer: the published description, weight norm folded at load."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class TorchKokoro:
    """``weights`` are NumPy arrays by name, ``torch`` the module."""

    def __init__(self, torch: Any, weights: dict[str, np.ndarray], dtype: Any, device: str) -> None:
        self.torch, self.f, self.dtype, self.device = torch, torch.nn.functional, dtype, device
        self.w: dict[str, Any] = {}
        for name, value in weights.items():
            if name.endswith("weight_g"):
                continue
            folded, stored = name, value.astype(np.float32)
            if name.endswith("weight_v"):
                norm = np.sqrt((stored**2).sum(axis=tuple(range(1, stored.ndim)), keepdims=True))
                stored = stored * weights[name[:-1] + "g"].astype(np.float32) / norm
                folded = name[:-2]
            self.w[folded] = torch.from_numpy(np.ascontiguousarray(stored)).to(device=device, dtype=dtype)
        self.lstms = {name[: -len(".weight_ih_l0")]: self._lstm(name[: -len(".weight_ih_l0")])
                      for name in list(self.w) if name.endswith(".weight_ih_l0")}  # fmt: skip
        self.window = torch.hann_window(20, periodic=True, device=device)

    def _lstm(self, name: str) -> Any:
        inputs, hidden = self.w[f"{name}.weight_ih_l0"].shape[1], self.w[f"{name}.weight_hh_l0"].shape[1]
        lstm = self.torch.nn.LSTM(inputs, hidden, bidirectional=True, batch_first=True)
        lstm.load_state_dict({key[len(name) + 1 :]: self.w[key] for key in self.w if key.startswith(name + ".")})
        return lstm.to(device=self.device, dtype=self.dtype).eval()

    def linear(self, name: str, x: Any) -> Any:
        return self.f.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name: str, x: Any) -> Any:
        return self.f.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-12)

    def conv(self, name: str, x: Any, stride: int = 1, padding: int = 0, dilation: int = 1) -> Any:
        return self.f.conv1d(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"), stride, padding, dilation)

    def adain(self, name: str, x: Any, style: Any) -> Any:
        gamma, beta = self.linear(f"{name}.fc", style)[..., None].chunk(2, dim=1)
        return (1 + gamma) * self.f.instance_norm(x, eps=1e-5) + beta

    def block(self, name: str, x: Any, style: Any) -> Any:
        t, shortcut = self.f.leaky_relu(self.adain(f"{name}.norm1", x, style), 0.2), x
        if f"{name}.pool.weight" in self.w:
            pool, bias = self.w[f"{name}.pool.weight"], self.w[f"{name}.pool.bias"]
            t = self.f.conv_transpose1d(t, pool, bias, 2, 1, 1, pool.shape[0])
            shortcut = x.repeat_interleave(2, dim=2)
        t = self.conv(f"{name}.conv1", t, padding=1)
        t = self.conv(f"{name}.conv2", self.f.leaky_relu(self.adain(f"{name}.norm2", t, style), 0.2), padding=1)
        if f"{name}.conv1x1.weight" in self.w:
            shortcut = self.conv(f"{name}.conv1x1", shortcut)
        return (t + shortcut) / math.sqrt(2)

    def res_block(self, name: str, x: Any, style: Any) -> Any:
        taps = self.w[f"{name}.convs1.0.weight"].shape[2]

        def snake(v: Any, alpha: Any) -> Any:
            return v + self.torch.sin(alpha * v) ** 2 / alpha

        for j, dilation in enumerate((1, 3, 5)):
            t = snake(self.adain(f"{name}.adain1.{j}", x, style), self.w[f"{name}.alpha1.{j}"])
            t = self.conv(f"{name}.convs1.{j}", t, padding=(taps - 1) * dilation // 2, dilation=dilation)
            t = snake(self.adain(f"{name}.adain2.{j}", t, style), self.w[f"{name}.alpha2.{j}"])
            x = x + self.conv(f"{name}.convs2.{j}", t, padding=(taps - 1) // 2)
        return x

    def albert(self, ids: Any) -> Any:
        prefix, steps = "bert.embeddings.", ids.shape[1]
        x = self.w[prefix + "word_embeddings.weight"][ids] + self.w[prefix + "position_embeddings.weight"][:steps]
        x = self.norm(prefix + "LayerNorm", x + self.w[prefix + "token_type_embeddings.weight"][0])
        x = self.linear("bert.encoder.embedding_hidden_mapping_in", x)
        layer = "bert.encoder.albert_layer_groups.0.albert_layers.0."
        for _ in range(12):
            q, k, v = (self.linear(layer + "attention." + part, x).view(1, steps, 12, 64).transpose(1, 2)
                       for part in ("query", "key", "value"))  # fmt: skip
            seen = self.f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, steps, 768)
            a = self.norm(layer + "attention.LayerNorm", x + self.linear(layer + "attention.dense", seen))
            inner = self.f.gelu(self.linear(layer + "ffn", a), approximate="tanh")
            x = self.norm(layer + "full_layer_layer_norm", a + self.linear(layer + "ffn_output", inner))
        return x

    def text(self, ids: Any) -> Any:
        x = self.w["text_encoder.embedding.weight"][ids].transpose(1, 2)
        for j in range(3):
            y = self.conv(f"text_encoder.cnn.{j}.0", x, padding=2).transpose(1, 2)
            gamma, beta = self.w[f"text_encoder.cnn.{j}.1.gamma"], self.w[f"text_encoder.cnn.{j}.1.beta"]
            x = self.f.leaky_relu(self.f.layer_norm(y, y.shape[-1:], gamma, beta, 1e-5), 0.2).transpose(1, 2)
        return self.lstms["text_encoder.lstm"](x.transpose(1, 2))[0].transpose(1, 2)

    def source(self, f0: Any) -> Any:
        """Magnitudes and phases [1, 22, columns] of the harmonic source of f0 [2 frames], with noise."""
        torch = self.torch
        n = f0.shape[0]
        turns = torch.arange(1, 10, device=self.device, dtype=torch.float64)[:, None] * f0.double() / 24000
        phases = 300 * 2 * math.pi * torch.cumsum(turns - turns.floor(), dim=1)
        u = ((torch.arange(300 * n, device=self.device, dtype=torch.float64) + 0.5) / 300 - 0.5).clamp(min=0)
        left = u.long()
        right = (left + 1).clamp(max=n - 1)
        phase = phases[:, left] + (u - left) * (phases[:, right] - phases[:, left])
        noise = torch.randn(9, 300 * n, device=self.device)
        voiced = (f0 > 10).repeat_interleave(300)
        values = torch.where(voiced, 0.1 * torch.sin(phase).float() + 0.003 * noise, 0.1 / 3 * noise)
        mixed = self.linear("decoder.generator.m_source.l_linear", values.T.to(self.dtype)).float()[:, 0]
        spectrum = torch.stft(torch.tanh(mixed), 20, 5, 20, self.window, center=True, pad_mode="reflect",
                              return_complex=True)  # fmt: skip
        re, im = spectrum.real, spectrum.imag.clone()
        im[0] = im[-1] = 0.0
        return torch.cat([torch.sqrt(re * re + im * im), torch.atan2(im, re)])[None].to(self.dtype)

    def generator(self, x: Any, f0: Any, style: Any) -> Any:
        torch, prefix = self.torch, "decoder.generator."
        har = self.source(f0)
        for i, (stride, padding, width) in enumerate(((10, 5, (6, 3)), (6, 3, (1, 0)))):
            excited = self.conv(f"{prefix}noise_convs.{i}", har, width[0], width[1])
            excited = self.res_block(f"{prefix}noise_res.{i}", excited, style)
            up, bias = self.w[f"{prefix}ups.{i}.weight"], self.w[f"{prefix}ups.{i}.bias"]
            x = self.f.conv_transpose1d(self.f.leaky_relu(x, 0.1), up, bias, stride, padding)
            if i == 1:
                x = self.f.pad(x, (1, 0), mode="reflect")
            x = x + excited
            x = sum(self.res_block(f"{prefix}resblocks.{3 * i + j}", x, style) for j in range(3)) / 3
        logs = self.conv(f"{prefix}conv_post", self.f.leaky_relu(x, 0.01), padding=3).float()[0]
        spectrum = torch.polar(torch.exp(logs[:11]), torch.sin(logs[11:]))
        return torch.istft(spectrum, 20, 5, 20, self.window, center=True, length=300 * f0.shape[0])

    def say(self, ids: list[int], style: list[float], speed: float = 1.0) -> Any:
        """float32 samples of ids without pads."""
        torch = self.torch
        with torch.inference_mode():
            tokens = torch.tensor([[0, *ids, 0]], device=self.device)
            both = torch.tensor([style], device=self.device, dtype=self.dtype)
            s_dec, s_pro = both[:, :128], both[:, 128:]
            beside = s_pro[:, None].expand(1, tokens.shape[1], 128)
            d = torch.cat([self.linear("bert_encoder", self.albert(tokens)), beside], dim=2)
            for i in (0, 2, 4):
                y = self.lstms[f"predictor.text_encoder.lstms.{i}"](d)[0]
                gamma, beta = self.linear(f"predictor.text_encoder.lstms.{i + 1}.fc", s_pro)[:, None].chunk(2, dim=2)
                y = (1 + gamma) * self.f.layer_norm(y, y.shape[-1:], eps=1e-5) + beta
                d = torch.cat([y, beside], dim=2)
            logits = self.linear("predictor.duration_proj.linear_layer", self.lstms["predictor.lstm"](d)[0])
            frames = (torch.sigmoid(logits.float()).sum(2)[0] / speed).round().clamp(min=1).long()
            shared = self.lstms["predictor.shared"](d.repeat_interleave(frames, dim=1))[0].transpose(1, 2)
            curves = []
            for name in ("F0", "N"):
                y = shared
                for i in range(3):
                    y = self.block(f"predictor.{name}.{i}", y, s_pro)
                curves.append(self.conv(f"predictor.{name}_proj", y))
            asr = self.text(tokens).repeat_interleave(frames, dim=2)
            f, v = (self.conv(f"decoder.{name}_conv", x, 2, 1) for name, x in zip(("F0", "N"), curves, strict=True))
            x, reduced = (
                self.block("decoder.encode", torch.cat([asr, f, v], dim=1), s_dec),
                self.conv("decoder.asr_res.0", asr),
            )
            for i in range(4):
                x = self.block(f"decoder.decode.{i}", torch.cat([x, reduced, f, v], dim=1), s_dec)
            return self.generator(x, curves[0][0, 0].float(), s_dec)
