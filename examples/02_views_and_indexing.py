"""Views share memory, index arrays copy: NumPy's rules."""

import numpy as np

import pygpukit as gp

x = gp.arange(12).reshape(3, 4)
print("x:", x.tolist())

# Slices, transposes and reshapes of contiguous data are views: no element moves.
column = x[:, 1]
print("column:", column.tolist(), "strides", column.strides)
x[1, 1] = 50
print("the view sees the write:", column.tolist())
print("reversed rows:", x[::-1, 0].tolist())
print("transposed:", x.T.shape, "contiguous:", x.T.is_contiguous())

# Operations read any strides in place.
print("sum of every other column:", gp.sum(x[:, ::2], axis=0).tolist())

# Integer arrays and masks pick elements and give copies.
rows = gp.asarray([2, 0])
print("rows 2 and 0:", x[rows].tolist())
print("above 8:", x[x > 8].tolist())

# Assignment takes the same keys. Of several values for one element the last stays, on every device.
y = gp.zeros((4,))
y[gp.asarray([1, 1, 3])] = gp.asarray([7.0, 8.0, 9.0])
print("equal indices:", y.tolist())

# A bad index raises; nothing out of range is touched.
try:
    gp.take(y, gp.from_numpy(np.array([0, 9]))).to_numpy()
except IndexError as error:
    print("error:", error)
