// The steps of blocked factorisations that are no matrix products, on both devices. Matrices are views [batch, rows,
// columns] whose columns lie side by side, unless it is said that any strides will do; vectors are [batch, size].
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/linalg/blocked_params.cuh"

namespace gpukit::linalg {

inline MatrixStrides matrix_strides(const Array& x) {
  return {x.strides()[1], x.strides()[2], x.shape(0) == 1 ? 0 : x.strides()[0]};
}
inline int64_t vector_stride(const Array& x) { return x.shape(0) == 1 ? 0 : x.strides()[0]; }

/// `a` gives the sizes.
inline StepParams step_params(const Array& a, int64_t flag = 0) {
  return {a.shape(0), a.shape(1), a.shape(2), matrix_strides(a), {}, 0, static_cast<int32_t>(flag), 0};
}
inline StepParams step_params(const Array& a, const Array& b, int64_t flag = 0) {
  StepParams p = step_params(a, flag);
  p.b = matrix_strides(b);
  return p;
}

}  // namespace gpukit::linalg

// lu_panel          row exchanges, L and U of a panel that begins at row and column `first` of its matrix
// exchange_rows     the same exchanges in the other columns of `a`, which begins at row `first`
// solve_block       b becomes x of lower x = b; `lower` has any strides and at most diagonal_block rows
// cholesky_block    U above and U^H below of a block whose upper triangle is read; NaN where it has none
// mirror            to = from^H; any strides
// finish_cholesky   0 in the other triangle; NaN where the last pivot is
// finish_solve      out = x; NaN where `singular` is not 0
// range_parts       what bounds the elements of x, of any strides
// qr_load           a = x brought in range, with rows of 0 below
// qr_panel          R above, reflections below and their factors
// reflectors        the vectors of a panel that begins `offset` rows below v's first, complete with zeros
// set_factors       1 / tau on the diagonal of a, or its conjugate
// finish_qr         out = a, or a's upper triangle with its scale undone and 0 below; else NaN where x was not finite
#define GPUKIT_BLOCKED_STEPS                                                                                    \
  int64_t lu_panel_columns(const Array& a, int64_t rows);                                                       \
  int64_t qr_panel_columns(const Array& a, int64_t rows);                                                       \
  void lu_panel(const char* op, const Array& panel, const Array& pivots, const Array& singular, int64_t first); \
  void exchange_rows(const char* op, const Array& a, const Array& pivots, int64_t first);                       \
  void solve_block(const char* op, const Array& b, const Array& lower, bool unit);                              \
  void cholesky_block(const char* op, const Array& a);                                                          \
  void mirror(const char* op, const Array& to, const Array& from);                                              \
  void finish_cholesky(const char* op, const Array& a, bool upper);                                             \
  void finish_solve(const char* op, const Array& out, const Array& x, const Array& singular);                   \
  void blocked_determinant(const char* op, const Array& det, const Array& sign, const Array& logarithm,         \
                           const Array& a, const Array& pivots);                                                \
  void range_parts(const char* op, const Array& parts, const Array& x);                                         \
  void qr_load(const char* op, const Array& a, const Array& x, const Array& parts);                             \
  void qr_panel(const char* op, const Array& panel, const Array& tau);                                          \
  void reflectors(const char* op, const Array& v, const Array& panel, const Array& tau, int64_t offset);        \
  void set_factors(const char* op, const Array& a, const Array& tau, bool conjugates);                          \
  void finish_qr(const char* op, const Array& out, const Array& a, const Array& parts, bool upper);

namespace gpukit::cpu {
GPUKIT_BLOCKED_STEPS
}
namespace gpukit::cuda {
GPUKIT_BLOCKED_STEPS
/// For tests: panels take at most this much shared memory from now on, and no bit is another.
void set_panel_room(int64_t bytes);
}  // namespace gpukit::cuda
#undef GPUKIT_BLOCKED_STEPS

/// The step of x's device.
#define GPUKIT_STEP(x, call) ((x).device().kind == DeviceKind::cpu ? cpu::call : cuda::call)
