// Between sort.cpp and its backends: arrays are contiguous and not empty; `bits` holds elements as unsigned integers.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/sort/sort_key.cuh"

namespace gpukit {

namespace cpu {
/// out [rows, n] in the order of bits [rows, n].
void sort(const Array& out, const Array& bits, const KeyRule& rule);
/// order [rows, n] of bits [rows, n].
void argsort(const Array& order, const Array& bits, const KeyRule& rule);
void searchsorted(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
                  const KeyRule& rule);
}  // namespace cpu
namespace cuda {
void argsort(const Array& order, const Array& bits, const KeyRule& rule);
void searchsorted(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
                  const KeyRule& rule);
}  // namespace cuda

}  // namespace gpukit
