// Products of arrays beside matmul: over named axes, of vectors, along diagonals.
//
// Sums of products are matmul's: one accumulator, k ascending, the bits of an element independent of its neighbours.
// dtypes are promoted and the result has the promoted dtype. All throw ShapeError, DTypeError, DeviceError,
// OutOfRangeError (axis).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "gpukit/array/array.h"

namespace gpukit {

/// A sum of products by Einstein's convention: "ij,jk->ik", "...ii->...i". Without "->" the labels that occur once are
/// kept, in alphabetical order behind "...". Contracted pair by pair in the order with the fewest multiplications (of
/// more than 10 operands: the cheapest pair first, until 10 are left). Throws ArgumentError for a bad expression.
Array einsum(std::string_view subscripts, std::span<const Array> operands, const Array* out = nullptr);

/// The sum over axes_a[i] of a with axes_b[i] of b; the other axes of a come before those of b.
Array tensordot(const Array& a, const Array& b, const Dims& axes_a, const Dims& axes_b, const Array* out = nullptr);
/// The same over the last `count` axes of a and the first ones of b.
Array tensordot(const Array& a, const Array& b, int64_t count, const Array* out = nullptr);
/// The sum along `axis` of conj(a) * b; the other axes broadcast.
Array vecdot(const Array& a, const Array& b, int64_t axis = -1, const Array* out = nullptr);
/// Every product of two elements: a's axes before b's.
Array outer(const Array& a, const Array& b, const Array* out = nullptr);
/// The sum over the last axes of both; with a 0-d array the product.
Array inner(const Array& a, const Array& b, const Array* out = nullptr);
/// The sum over the last axis of a and the last but one of b (its only one when it is 1-D); with a 0-d array the
/// product.
Array dot(const Array& a, const Array& b, const Array* out = nullptr);
/// a x b of vectors of three elements along `axis`; the other axes broadcast.
Array cross(const Array& a, const Array& b, int64_t axis = -1, const Array* out = nullptr);

/// The last two axes exchanged: a view.
Array matrix_transpose(const Array& x);
/// Elements (i, i + offset) of two axes, as the last axis of a view.
Array diagonal(const Array& x, int64_t offset = 0, int64_t axis1 = -2, int64_t axis2 = -1);
/// The sum of a diagonal, with sum()'s dtypes.
Array trace(const Array& x, int64_t offset = 0, int64_t axis1 = -2, int64_t axis2 = -1, std::optional<DType> dtype = {},
            const Array* out = nullptr);

}  // namespace gpukit
