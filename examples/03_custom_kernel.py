"""A CUDA kernel of your own: compiled at run time, called with arrays and numbers."""

import numpy as np

import pygpukit as gp

SOURCE = """
extern "C" __global__ void scale_add(float* out, const float* x, float factor, float offset, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * factor + offset;
}
"""

# Everywhere: the object is made and the name is checked. Where there are a GPU and NVRTC it is compiled here.
kernel = gp.jit(SOURCE, func="scale_add", block_size=128)
print("kernel:", kernel.name, "block size:", kernel.block_size)

try:
    gp.jit(SOURCE, func="scale_sub")
except ValueError as error:
    print("error:", str(error).split(":")[0])

x = gp.arange(1000, dtype="float32")
out = gp.zeros_like(x)

if gp.is_nvrtc_available():
    # By position or by the names in the source; numbers are converted to the declared types and checked.
    # The grid defaults to one thread per element of the first array.
    kernel(out, x, factor=0.5, offset=3.0, n=x.size)
    np.testing.assert_array_equal(out.to_numpy(), x.to_numpy() * np.float32(0.5) + np.float32(3.0))
    print("here: launched on", out.device)
else:
    # Never a silent no-op: a call that cannot launch raises the reason and what to do about it.
    try:
        kernel(out, x, factor=0.5, offset=3.0, n=x.size)
    except gp.DeviceError as error:
        print("here: not launched:", error)
print("done")
