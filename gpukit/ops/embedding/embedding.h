// Rows of a table by their numbers.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// table[ids]: table is [vocab, width] of any dtype of whole bytes, ids int32 or int64 of any shape; the result is
/// ids.shape + [width]. Negative ids do not count from the end: an id outside of [0, vocab) gives a row of 0, and the
/// next wait raises OutOfRangeError. Throws ShapeError, DTypeError, DeviceError.
Array embedding(const Array& table, const Array& ids, const Array* out = nullptr);

/// The same under the name of another operation, which stands in messages.
Array embedding(const char* op, const Array& table, const Array& ids, const Array* out = nullptr);

/// out = table[start : start + out.shape(0)], `start` an int32 array of one element read on the device. Rows past the
/// table are bad indices, as above. `table` is [rows, width], `out` [count, width].
void slice_rows(const Array& table, const Array& out, const Array& start);

namespace cpu {
/// `ids` is [n], `out` [n, width]; a row number is ids[i], or ids[0] + i when `sequential`.
void embedding(const char* op, const Array& out, const Array& table, const Array& ids, bool sequential);
}  // namespace cpu
namespace cuda {
void embedding(const char* op, const Array& out, const Array& table, const Array& ids, bool sequential);
}  // namespace cuda

}  // namespace gpukit
