"""Sharing memory with NumPy through DLPack. The same calls share GPU memory with PyTorch, CuPy and JAX."""

import numpy as np

import pygpukit as gp

# NumPy's memory seen as an array: no copy, so a write on one side shows on the other.
host = np.arange(6, dtype=np.float32).reshape(2, 3)
shared = gp.from_dlpack(host)
host[0, 0] = 100.0
print("shared:", shared.device, shared[0, 0].item())

# And back: a view of a CPU array.
x = gp.zeros((2, 3), device="cpu")
view = np.from_dlpack(x)
x[1, 2] = 5.0
print("view:", view.tolist())
print("same address:", view.ctypes.data == x.device_ptr)

# Strides are kept: a transposed array is exchanged as such.
print("strides:", np.from_dlpack(x.T).strides)

# Nothing is copied behind your back.
try:
    np.asarray(x)
except TypeError as error:
    print("error:", str(error).split(";")[0])

# bfloat16 has no NumPy type: to_numpy gives the bits, and bitcast makes bits an array again.
half = gp.asarray([1.0, -2.0]).astype("bfloat16")
bits = half.to_numpy()
print("bits:", bits.dtype, [hex(value) for value in bits.tolist()])
print("again:", gp.bitcast(gp.from_numpy(bits), gp.bfloat16).to_numpy(dtype="float32").tolist())

# BufferError for what DLPack cannot say.
try:
    gp.zeros((4,), dtype="int4").__dlpack__()
except BufferError:
    print("int4 cannot be exchanged")
