// What one launch of a matrix factorisation knows, and how much memory each matrix needs beside its results.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit::linalg {

/// `batch` row-major matrices of m rows and n columns; k: columns of another operand or of q.
struct FactorParams {
  int64_t batch, m, n, k;
  int64_t work;       // elements for one matrix
  int32_t flag;       // upper, or vectors too
  int32_t in_shared;  // the work memory is the block's shared memory
};

GPUKIT_DEVICE int64_t pairs_of(int64_t n) { return (n + 1) / 2; }
GPUKIT_DEVICE int64_t cholesky_work(int64_t n) { return n * n; }
GPUKIT_DEVICE int64_t lu_work(int64_t n, int64_t k) { return n * (n + k); }
/// Of q with k columns.
GPUKIT_DEVICE int64_t qr_work(int64_t m, int64_t n, int64_t k) { return m * n + m * k + n + (n > k ? n : k); }
GPUKIT_DEVICE int64_t eigh_work(int64_t n) { return 2 * n * n + 2 * n + 4 * pairs_of(n); }
/// m >= n: a matrix with more columns than rows is transposed first. k: columns of the longer factor.
GPUKIT_DEVICE int64_t svd_work(int64_t m, int64_t n, int64_t k, bool vectors) {
  const int64_t always = m * n + 2 * n + 4 * pairs_of(n);
  return vectors ? always + n * n + m * n + m * k + n + (n > k ? n : k) : always;
}

}  // namespace gpukit::linalg
