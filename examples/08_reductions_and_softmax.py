"""Reductions over any axes, running sums, softmax and norms."""

import numpy as np

import pygpukit as gp


def rounded(array: gp.GPUArray) -> list[list[float]]:
    return array.to_numpy(dtype="float64").round(4).tolist()


x = gp.from_numpy(np.arange(24, dtype=np.float32).reshape(2, 3, 4))

# A full reduction gives a 0-d array; item() waits and gives a number.
print("sum:", gp.sum(x).shape, gp.sum(x).item())
print("mean over axes 0 and 2:", gp.mean(x, axis=(0, 2)).tolist())
print("keepdims:", gp.max(x, axis=-1, keepdims=True).shape)
print("argmax:", gp.argmax(x).item(), gp.argmax(x, axis=1)[0].tolist())
print("std:", round(gp.std(x).item(), 4), "with correction=1:", round(gp.std(x, correction=1).item(), 4))

# Integers and bool are summed exactly in int64; the mean of integers is float64.
counts = gp.asarray([200, 100, 50]).astype("uint8")
print("uint8:", gp.sum(counts).dtype, gp.sum(counts).item(), gp.mean(counts).dtype)
print("how many above 10:", gp.sum(x > 10).item())

# cumsum(x)[i] has the bits of sum(x[:i + 1]).
tenth = gp.full((1000,), 0.1)
print("running sum:", gp.cumsum(tenth)[499].item() == gp.sum(tenth[:500]).item())

# NaN wins in max and min.
print("max with NaN:", gp.max(gp.asarray([1.0, float("nan"), 2.0])).item())

# softmax along any axis is safe for large values; norms work on the last axis.
logits = gp.asarray([[1000.0, 1001.0, 1002.0], [0.0, 0.0, 0.0]])
print("softmax:", rounded(gp.softmax(logits)))
print("columns add up to one:", rounded(gp.sum(gp.softmax(logits, axis=0), axis=0)))
gamma, beta = gp.ones((3,)), gp.zeros((3,))
print("layernorm:", rounded(gp.layernorm(logits, gamma, beta)))
mean_square = gp.mean(logits * logits, axis=-1, keepdims=True)
gp.testing.assert_allclose(gp.rmsnorm(logits, gamma), logits / gp.sqrt(mean_square + 1e-5))
print("rmsnorm: ok")
