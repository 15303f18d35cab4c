// Between linalg.cpp and its backends: row-major arrays of one precision, shapes checked.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/linalg/factor_params.cuh"

#define GPUKIT_FACTORISATIONS                                                                                   \
  void cholesky(const Array& out, const Array& x, linalg::FactorParams p);                                      \
  void solve(const char* op, const Array& out, const Array& x, const Array& b, linalg::FactorParams p);         \
  void determinant(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& x, \
                   linalg::FactorParams p);                                                                     \
  void qr(const Array& q, const Array& r, const Array& x, linalg::FactorParams p);                              \
  void eigh(const char* op, const Array& values, const Array& vectors, const Array& x, linalg::FactorParams p); \
  void svd(const char* op, const Array& values, const Array& u, const Array& vh, const Array& x,                \
           linalg::FactorParams p);

// An array that is not defined is not wanted; without b a system is solved for the identity.
namespace gpukit::cpu {
GPUKIT_FACTORISATIONS
}
namespace gpukit::cuda {
GPUKIT_FACTORISATIONS
}
#undef GPUKIT_FACTORISATIONS
