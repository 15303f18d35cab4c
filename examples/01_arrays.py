"""Arrays: make them, compute with them, bring them back. Runs with and without a GPU."""

import numpy as np

import pygpukit as gp

print("here: new arrays go to", gp.default_device())

# From NumPy (a copy), from a list, from a factory. float32 is the default dtype.
a = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
b = gp.asarray([10, 20, 30])
c = gp.ones((3, 2))
print("dtypes:", a.dtype, b.dtype, c.dtype)

# NumPy's broadcasting. Nothing waits for the device until a value is asked for.
total = a + b
print("a + b:", total.dtype, total.to_numpy().tolist())
print("a @ c:", (a @ c).tolist())

# Python numbers are weak: they do not change the dtype of a float array.
half = a.astype("float16") * 2.5
print("float16 * 2.5:", half.dtype)

# Integers divide to float64; // stays integer.
print("b / 20 and b // 20:", (b / 20).tolist(), (b // 20).tolist())

# out= writes into an array that exists: no allocation.
out = gp.empty_like(a)
result = gp.exp(a, out=out)
print("same object:", result is out)
print("exp:", out[0].to_numpy(dtype="float64").round(3).tolist())

# Errors name the operation, the argument, what was given and what is needed.
try:
    gp.add(a, gp.ones((4,)))
except ValueError as error:
    print("error:", error)
