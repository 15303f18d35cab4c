// Factorisations, systems of equations, eigenvalues and norms of matrices: the last two axes; leading axes are batches.
//
// dtypes: float32, float64, complex64, complex128; others throw DTypeError. Computed in the precision of the input; the
// CPU takes double for matrices that are not factored by blocks. Every sum has one order, so that a matrix's result
// does not depend on the others.
//
// Nothing is raised for values: what has no answer is NaN in every element of that matrix's results, but below the
// diagonal of R, on every device.
// That is cholesky of a matrix that is not positive definite, solve and inv of one with a pivot of exactly 0, and any
// factorisation of a matrix with NaN or infinity. All throw ShapeError, DTypeError, DeviceError.
#pragma once

#include <optional>
#include <string_view>

#include "gpukit/array/array.h"
#include "gpukit/ops/common/operand.h"

namespace gpukit::linalg {

struct Slogdet {
  Array sign, logabsdet;
};
struct Qr {
  Array q, r;
};
struct Eigh {
  Array values, vectors;
};
struct Svd {
  Array u, s, vh;
};

/// The lower triangle L of x = L L^H, or the upper one U of x = U^H U. The other triangle of x is not read.
Array cholesky(const Array& x, bool upper = false, const Array* out = nullptr);
/// By elimination with row exchanges, as slogdet, inv and solve.
Array det(const Array& x, const Array* out = nullptr);
/// det(x) = sign * exp(logabsdet); a singular matrix has sign 0 and -infinity.
Slogdet slogdet(const Array& x);
Array inv(const Array& x, const Array* out = nullptr);
/// y of a y = b. b is a vector when it is 1-D, else matrices; batches broadcast.
Array solve(const Array& a, const Array& b, const Array* out = nullptr);
/// x = q r with orthonormal columns of q: min(m, n) of them, or m when `complete`.
Qr qr(const Array& x, bool complete = false);
/// Ascending eigenvalues and the vectors in columns. x is Hermitian: its lower triangle is read.
Eigh eigh(const Array& x);
Array eigvalsh(const Array& x, const Array* out = nullptr);
/// x = u diag(s) vh with s descending. full: u and vh are square.
Svd svd(const Array& x, bool full_matrices = true);
Array svdvals(const Array& x, const Array* out = nullptr);

/// Singular values above rtol times the largest; max(m, n) times the dtype's epsilon when not given. int64.
Array matrix_rank(const Array& x, const Operand* rtol = nullptr, const Array* out = nullptr);
/// The pseudo-inverse, with singular values up to rtol times the largest taken as 0.
Array pinv(const Array& x, const Operand* rtol = nullptr, const Array* out = nullptr);
/// Of square matrices; of the inverse when n is negative.
Array matrix_power(const Array& x, int64_t n, const Array* out = nullptr);

enum class MatrixNorm { frobenius, nuclear, one, minus_one, two, minus_two, infinity, minus_infinity };
/// Throws ArgumentError.
MatrixNorm matrix_norm_from_name(std::string_view name);
MatrixNorm matrix_norm_from_number(double ord);
Array matrix_norm(const Array& x, MatrixNorm ord = MatrixNorm::frobenius, bool keepdims = false,
                  const Array* out = nullptr);
/// sum(|x|^ord)^(1/ord) along axes, all when not given; the largest for infinity, the smallest for -infinity, how many
/// are not 0 for 0.
Array vector_norm(const Array& x, const std::optional<Dims>& axes = {}, bool keepdims = false, double ord = 2,
                  const Array* out = nullptr);

}  // namespace gpukit::linalg
