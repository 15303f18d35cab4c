// Factorisations of matrices beyond a small size: panels, and matrix products for all the rest.
//
// Row-major arrays of one precision, shapes checked; leading axes are batches. Every step serves all matrices of a
// batch, and no element's sum depends on how many they are. Nothing waits for the device; what is made on the way lies
// in the workspace.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::linalg {

/// Squares of that size are factored by blocks.
bool is_blocked(int64_t n);
/// The same for a QR of [m, n].
bool is_blocked_qr(int64_t m, int64_t n);

void blocked_cholesky(const char* op, const Array& out, const Array& x, bool upper);
/// Without b the inverse.
void blocked_solve(const char* op, const Array& out, const Array& a, const Array& b);
/// det, or sign and logarithm, are not defined where they are not wanted.
void blocked_determinants(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& x);
/// q [m, k] and the first rows of r [.., n]. q is not defined where it is not wanted.
void blocked_qr(const char* op, const Array& q, const Array& r, const Array& x);

/// A matrix with much more rows than columns, or the other way round, has the singular values of a small square.
bool is_tall(int64_t m, int64_t n);
/// As svd(): u and vh are not defined where they are not wanted; with all columns when they are square.
void tall_svd(const char* op, const Array& values, const Array& u, const Array& vh, const Array& x);

/// x of lower x = b in the place of b, matrices [batch, n, k] whose columns lie side by side; `lower` has any strides.
/// unit: its diagonal is 1.
void solve_lower(const char* op, const Array& b, const Array& lower, bool unit);
void solve_upper(const char* op, const Array& b, const Array& upper);

/// Rows and columns of matrices [batch, m, n].
Array block_of(const Array& a, int64_t row, int64_t rows, int64_t column, int64_t columns);
/// [batch, m, n] of any number of leading axes.
Array as_batch(const Array& x);
/// Where n > 1 is cut in two: the largest power of two below it.
int64_t cut_of(int64_t n);
/// How many of `batch` matrices are worked on at a time, each with `bytes` beside the results.
int64_t group_of(int64_t batch, int64_t bytes);

}  // namespace gpukit::linalg
