"""Convolutions in float64 by their definition."""

from __future__ import annotations

from itertools import product
from math import erf
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]

ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1 + np.vectorize(erf, otypes=[np.float64])(x / np.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
}


def conv(
    x: Values, w: Values, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1, activation=None
) -> Values:
    """x [batch, channels, *space], w [out channels, channels / groups, *taps]; one number per axis of space."""
    axes = range(len(stride))
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [(x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in axes]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    ins, outs = w.shape[1], w.shape[0] // groups
    for group in range(groups):
        to, from_ = slice(group * outs, (group + 1) * outs), slice(group * ins, (group + 1) * ins)
        for tap in product(*(range(n) for n in w.shape[2:])):
            at = tuple(slice(tap[i] * dilation[i], None, stride[i]) for i in axes)
            part = x[(slice(None), from_, *at)][(..., *(slice(n) for n in sizes))]
            out[:, to] += np.einsum("bi...,oi->bo...", part, w[(to, slice(None), *tap)])
    if bias is not None:
        out += bias.reshape(-1, *[1] * len(stride))
    return ACTIVATIONS[activation](out)


def conv_transpose1d(
    x: Values, w: Values, bias=None, stride=1, padding=0, dilation=1, groups=1, output_padding=0, activation=None
) -> Values:
    """x [batch, channels, length], w [channels, out channels / groups, taps]: every input adds to its outputs."""
    length = (x.shape[2] - 1) * stride + dilation * (w.shape[2] - 1) + 1
    out = np.zeros((x.shape[0], w.shape[1] * groups, length + output_padding))
    ins, outs = w.shape[0] // groups, w.shape[1]
    for group in range(groups):
        to, from_ = slice(group * outs, (group + 1) * outs), slice(group * ins, (group + 1) * ins)
        for tap in range(w.shape[2]):
            first = tap * dilation
            last = first + (x.shape[2] - 1) * stride + 1
            out[:, to, first:last:stride] += np.einsum("bit,io->bot", x[:, from_], w[from_, :, tap])
    out = out[:, :, padding : length - padding + output_padding]
    if bias is not None:
        out = out + bias[:, None]
    return ACTIVATIONS[activation](out)
