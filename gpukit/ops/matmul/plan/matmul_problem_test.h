// Sizes and strides of simple products, for tests of plans.
#pragma once

#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit::testing {

/// Row-major [m, k] by [k, n] into [m, n], without batches; `b_along_k`: b is the transpose of a row-major [n, k].
inline MatmulProblem matmul_problem(int64_t m, int64_t n, int64_t k, bool b_along_k = false) {
  MatmulProblem s = {};
  s.m = m, s.n = n, s.k = k;
  s.a_m = k, s.a_k = 1;
  s.b_k = b_along_k ? 1 : n, s.b_n = b_along_k ? k : 1;
  s.out_m = n, s.out_n = 1;
  s.batches = 1;
  return s;
}

}  // namespace gpukit::testing
