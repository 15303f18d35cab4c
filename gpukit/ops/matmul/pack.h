// Weights in the layout that the matrix kernels of a GPU read fastest.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// The last axis is dense, and its rows and the first element lie at multiples of 16 bytes; rows of one element are
/// dense as a whole.
bool is_packed_rows(const Array& x);

/// The same numbers in the same shape, in memory as is_packed_rows() wants it: `x` itself where it lies so, else a copy
/// whose rows may have unused bytes behind them.
Array pack(const Array& x);

}  // namespace gpukit
