"""A function of elementwise calls as one pass, and kernels from one expression."""

import numpy as np

import pygpukit as gp


@gp.fuse
def gelu(x, bias):
    y = x + bias
    return 0.5 * y * (1 + gp.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))


rng = np.random.default_rng(7)
x = gp.from_numpy(rng.normal(size=(128, 512)).astype(np.float32))
bias = gp.from_numpy(rng.normal(size=512).astype(np.float32))

# One pass over x, with the bits of the nine calls one by one.
one_by_one = gelu.__wrapped__(x, bias)
assert gelu(x, bias).to_numpy().tobytes() == one_by_one.to_numpy().tobytes()
print("the same bits:", True)

# The next call with such arguments traces nothing; with out= it allocates nothing either.
out = gp.empty_like(x)
gelu(x, bias, out=out)
print("traces:", gelu.fused.num_traces)

# What does not work on each element by itself is refused by name.
try:
    gp.fuse(lambda x: x / x.sum())(x)
except gp.Error as error:
    print("error:", str(error).split(";")[0])

# With a GPU and NVRTC: kernels from an expression in CUDA C.
squared_difference = gp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")
norm = gp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
if gp.is_nvrtc_available():
    rows = norm(squared_difference(x, bias), axis=1)
    print("here: norms of", rows.shape)
else:
    try:
        squared_difference(x, bias)
    except gp.DeviceError as error:
        print("here: not launched:", error)
print("done")
