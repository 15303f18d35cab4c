// Between moe.cpp and the two backends: everything is checked, nothing overlaps what is written.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/moe/moe_space.cuh"

namespace gpukit {

/// The k largest of each row of `logits`, into row-major `values` of its dtype where that is defined, and `indices`;
/// `gates` (float32) for float32 logits where defined. ids: see MoeOptions.
struct Route {
  const char* op = nullptr;
  Array values, gates, indices, logits, ids;
  RouteSpace space = {};
};

/// out[t] = sum of weights[t, j] * rows[reverse[t * k + j]], and shared[t] * sigmoid(shared_gate[t]). What is not
/// defined() is left out; without `reverse` a token's rows lie one after another. A weight of 0 adds nothing.
struct Combine {
  const char* op = nullptr;
  Array out, rows, weights, reverse, shared, shared_gate, ids;
  CombineSpace space = {};
};

/// See moe_compute_permutation: all one-dimensional and dense.
struct Permutation {
  Array counts, offsets, permute, reverse, ids;
};

namespace cpu {
void route(const Route& route);
void combine(const Combine& combine);
void order_by_expert(const Permutation& permutation);
void expand_offsets(const Array& offsets, const Array& ids);
}  // namespace cpu
namespace cuda {
void route(const Route& route);
void combine(const Combine& combine);
void order_by_expert(const Permutation& permutation);
void expand_offsets(const Array& offsets, const Array& ids);
}  // namespace cuda

}  // namespace gpukit
