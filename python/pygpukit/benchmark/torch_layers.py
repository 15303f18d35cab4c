"""The operations of a model by PyTorch: every way it has for each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pygpukit as gp

__all__ = ["drawn", "layer_calls"]

Calls = dict[str, Callable[[], Any]]


def layer_calls(torch: Any, kind: str, inputs: Mapping[str, gp.GPUArray], options: Mapping[str, Any]) -> Calls:
    """Calls that give a tensor, by the name of the way; none where PyTorch does not take these inputs."""
    if "block_tables" in inputs or any(x.dtype == "float8_e4m3" for x in inputs.values()):
        return {}
    tensors = {name: torch.from_dlpack(x) for name, x in inputs.items()}
    if kind == "attention":
        q, k, v = (tensors[name].transpose(1, 2) for name in "qkv")
        return _attention(torch, q, k, v, options.get("causal", True))
    if kind == "decode":
        k, v = (tensors[name].transpose(1, 2) for name in "kv")
        return _attention(torch, tensors["q"][:, :, None], k, v, False)
    if kind == "sampling":
        return {"sort": functools.partial(_sample, torch, tensors["logits"], **options)}
    if kind == "lstm":
        return {kind: _lstm(torch, *tensors.values(), **options)}
    return {kind: functools.partial(_convolve, torch, kind, *(tensors[name] for name in "xwb"), **options)}


def _attention(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> Calls:
    backends = torch.nn.attention.SDPBackend
    names = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
    found = [name for name in names if hasattr(backends, name)]

    def call(backend: Any) -> Any:
        with torch.nn.attention.sdpa_kernel(backend):
            attend = torch.nn.functional.scaled_dot_product_attention
            grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
            if causal and q.shape[2] != k.shape[2]:  # is_causal would let query i see keys 0 .. i
                corner = torch.nn.attention.bias.causal_lower_right(q.shape[2], k.shape[2])
                result = attend(q, k, v, attn_mask=corner, **grouped)
            else:
                result = attend(q, k, v, is_causal=causal, **grouped)
        return result.transpose(1, 2)

    return {name.split("_")[0].lower(): functools.partial(call, getattr(backends, name)) for name in found}


def _convolve(torch: Any, kind: str, x: Any, w: Any, b: Any, use_tf32: bool = False, **options: int) -> Any:
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=use_tf32):
        return getattr(torch.nn.functional, kind)(x, w, b, **options)


def _lstm(torch: Any, x: Any, *weights: Any, use_tf32: bool = False) -> Callable[[], Any]:
    """Weights in the one piece of memory that cuDNN wants: it would copy others at each call."""
    layer = torch.nn.LSTM(x.shape[2], weights[1].shape[1], batch_first=True, dtype=x.dtype).to(x.device).eval()
    with torch.no_grad():
        for name, weight in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), weights, strict=True):
            getattr(layer, name).copy_(weight)

    def call() -> Any:
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=use_tf32):
            return layer(x)[0]

    return call


def _sample(torch: Any, logits: Any, temperature: float, top_k: int, top_p: float) -> Any:
    scores, order = torch.sort(logits.float() / temperature, dim=-1, descending=True)
    scores[:, top_k:] = float("-inf")
    shares = torch.softmax(scores, dim=-1)
    shares[torch.cumsum(shares, dim=-1) - shares >= top_p] = 0.0
    return order.gather(1, drawn(torch, shares))[:, 0].to(torch.int32)


def drawn(torch: Any, shares: Any) -> Any:
    """One place of each row by its shares, as multinomial, which waits for the device and so cannot be captured."""
    return (shares / torch.empty_like(shares).exponential_(1.0)).argmax(-1, keepdim=True)
