// What kernels of transforms are told about their rows.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kMaxRadices = 16;

/// Where the rows of a transform lie. Element i of row r is at position r % columns + i * index_step of line
/// r / columns; a line is one row of the whole array, whose offset follows from shape and strides.
struct FftSide {
  int64_t columns;
  int64_t index_step;
  int64_t step;    // elements between positions
  int64_t length;  // positions there are: beyond them zeros are read and nothing is written
  int64_t mirror;  // not 0: the length of which only the lower half is there, the upper its mirror
  int64_t folded;  // not 0: the points of a spectrum of 2 folded whose lower half is there, so that pairs come out
  int32_t real;    // elements are reals; with `pairs` a point is two of them, one behind the other
  int32_t pairs;
  int32_t conjugate;
  int32_t row_fastest;  // neighbouring rows lie closer than neighbouring elements
  int32_t rank;
  int64_t shape[kKernelRank], strides[kKernelRank];
};

struct FftParams {
  int64_t rows;
  int32_t n, rows_per_block, num_radices;
  int32_t radices[kMaxRadices];
  int32_t unfold;   // points were pairs of reals: their spectrum is that of 2 n reals
  int32_t twiddle;  // results are multiplied by e^(-2 pi i column k / whole), from `fine` and `coarse`
  double scale;
  FftSide in, out;
};

/// The step of the coarse table: w^k = coarse[k / kFine] fine[k % kFine].
inline constexpr int64_t kFineRoots = 4096;

}  // namespace gpukit
