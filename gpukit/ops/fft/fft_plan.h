// How a length is transformed: factors, passes, or a convolution of a kinder length. Pure functions of the length.
#pragma once

#include <cstdint>
#include <vector>

namespace gpukit::fft {

/// n is a product of 2, 3, 5 and 7.
bool is_smooth(int64_t n);
/// Radices 8, 4, 2, 3, 5, 7 whose product is the smooth length n; larger ones first. Empty for 1.
std::vector<int> radices(int64_t n);
/// The length of Bluestein's convolution for n: a smooth one of at least 2 n - 1.
int64_t convolution_length(int64_t n);
/// A divisor of the smooth n for the first of two passes: both parts at most `limit` and close to each other. 0 when
/// there is none; then the largest divisor up to the limit leaves a part for further passes: largest_divisor.
int64_t balanced_divisor(int64_t n, int64_t limit);
int64_t largest_divisor(int64_t n, int64_t limit);

/// Shared memory for one row of n points in a pass: two buffers, with one place in 16 (8 for float64) free.
int64_t row_bytes(int64_t n, int64_t point_bytes);
/// The longest row of one pass on a chip with so much shared memory for a block.
int64_t longest_row(int64_t shared_bytes, int64_t point_bytes);
/// How many rows a block of a pass takes. `columns`: they lie side by side, and are read together.
int64_t rows_of_block(int64_t n, int64_t point_bytes, bool columns, int64_t shared_bytes);

}  // namespace gpukit::fft
