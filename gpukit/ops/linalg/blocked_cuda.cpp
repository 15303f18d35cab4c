#include <algorithm>
#include <atomic>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/linalg/blocked_impl.h"

namespace gpukit::cuda {

namespace {

using linalg::StepParams;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};

enum Step { kLuPanel, kExchange, kSolve, kCholesky, kMirror, kFinishCholesky, kFinishSolve, kDeterminants };
const jit::KernelSet kernels("gpukit/ops/linalg/blocked_kernels.cuh",
                             {"gpukit::linalg::lu_panel<{T}>", "gpukit::linalg::exchange_rows<{T}>",
                              "gpukit::linalg::solve_block<{T}>", "gpukit::linalg::cholesky_block<{T}>",
                              "gpukit::linalg::mirror<{T}>", "gpukit::linalg::finish_cholesky<{T}>",
                              "gpukit::linalg::finish_solve<{T}>", "gpukit::linalg::blocked_determinants<{T}>"},
                             {std::begin(kDTypes), std::end(kDTypes)});
enum QrStep { kRange, kLoad, kPanel, kReflectors, kFactors, kFinishQr };
const jit::KernelSet qr_kernels("gpukit/ops/linalg/blocked_qr_kernels.cuh",
                                {"gpukit::linalg::range_parts<{T}>", "gpukit::linalg::qr_load<{T}>",
                                 "gpukit::linalg::qr_panel<{T}>", "gpukit::linalg::reflectors<{T}>",
                                 "gpukit::linalg::set_factors<{T}>", "gpukit::linalg::finish_qr<{T}>"},
                                {std::begin(kDTypes), std::end(kDTypes)});

constexpr int64_t kTile = 32;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

unsigned checked_grid(const char* op, int64_t blocks) {
  if (blocks > INT32_MAX) throw ShapeError(op, "x", "need at most 2^31 - 1 blocks", std::to_string(blocks));
  return static_cast<unsigned>(blocks);
}

/// `tiles` a matrix, of 32 columns by 8 groups of rows.
jit::LaunchConfig tiled(const char* op, const StepParams& p, int64_t tiles, int64_t shared_bytes = 0) {
  return {.grid_x = checked_grid(op, p.batch * tiles),
          .block_x = kTile,
          .block_y = 8,
          .shared_bytes = static_cast<unsigned>(shared_bytes)};
}
/// A thread an element, up to a number of blocks.
jit::LaunchConfig elementwise(const StepParams& p) {
  constexpr int64_t kMostBlocks = 4096, kThreads = 256;
  return {.grid_x = static_cast<unsigned>(std::min(ceil_div(p.batch * p.rows * p.columns, kThreads), kMostBlocks)),
          .block_x = kThreads};
}

int64_t panel_bytes(const Array& a, int64_t rows, int64_t columns) {
  return rows * (columns | 1) * itemsize(a.dtype());
}
/// The widest panel of at most `most` columns that `bytes` of shared memory hold; `least` where none does.
int64_t panel_columns(const Array& a, int64_t rows, int64_t most, int64_t least, int64_t bytes) {
  int64_t columns = most;
  while (columns > least && panel_bytes(a, rows, columns) > bytes) columns /= 2;
  return columns;
}

/// Chosen by a test; else what the chip has.
std::atomic<int64_t> g_panel_room{INT64_MAX};

int64_t shared_room(const Array& a) {
  constexpr int64_t kStaticShared = 2 << 10;  // what kernels keep there beside a panel
  return std::min<int64_t>(a.context().properties().shared_per_block_optin - kStaticShared,
                           g_panel_room.load(std::memory_order_relaxed));
}

/// In shared memory where the panel fits, else where it lies.
jit::LaunchConfig panel_config(const char* op, StepParams& p, const Array& a, int64_t threads) {
  const int64_t bytes = panel_bytes(a, p.rows, p.columns);
  p.in_shared = bytes <= shared_room(a) ? 1 : 0;
  return {.grid_x = checked_grid(op, p.batch),
          .block_x = static_cast<unsigned>(threads),
          .shared_bytes = p.in_shared ? static_cast<unsigned>(bytes) : 0};
}

}  // namespace

void set_panel_room(int64_t bytes) { g_panel_room.store(bytes, std::memory_order_relaxed); }

// No bit depends on this width: the chip chooses.
int64_t lu_panel_columns(const Array& a, int64_t rows) {
  return panel_columns(a, rows, linalg::kMostPanelColumns, 4, shared_room(a));
}
// Sums of reflections depend on it: the shape chooses.
int64_t qr_panel_columns(const Array& a, int64_t rows) { return panel_columns(a, rows, 32, 4, 192 << 10); }

void lu_panel(const char* op, const Array& panel, const Array& pivots, const Array& singular, int64_t first) {
  StepParams p = linalg::step_params(panel, first);
  p.vector = linalg::vector_stride(pivots);
  const int64_t threads = std::clamp<int64_t>(ceil_div(p.rows, 32) * 32, 128, linalg::kPanelThreads);
  const jit::LaunchConfig config = panel_config(op, p, panel, threads);
  jit::launch(kernels.get(kLuPanel, panel.dtype()), panel.device(), config, write(panel), write(pivots),
              write(singular), p);
}

void exchange_rows(const char* op, const Array& a, const Array& pivots, int64_t first) {
  StepParams p = linalg::step_params(a, first);
  p.rows = pivots.shape(1);
  p.columns -= p.rows;
  p.vector = linalg::vector_stride(pivots);
  if (p.columns == 0) return;
  const int64_t bytes = 2 * p.rows * kTile * itemsize(a.dtype());
  jit::launch(kernels.get(kExchange, a.dtype()), a.device(), tiled(op, p, ceil_div(p.columns, kTile), bytes), write(a),
              read(pivots), p);
}

void solve_block(const char* op, const Array& b, const Array& lower, bool unit) {
  const StepParams p = linalg::step_params(b, lower, unit);
  const int64_t width = linalg::diagonal_block(itemsize(b.dtype()));
  const int64_t bytes = width * (width + 1 + kTile) * itemsize(b.dtype());
  jit::launch(kernels.get(kSolve, b.dtype()), b.device(), tiled(op, p, ceil_div(p.columns, kTile), bytes), write(b),
              read(lower), p);
}

void cholesky_block(const char* op, const Array& a) {
  const StepParams p = linalg::step_params(a);
  const int64_t width = linalg::diagonal_block(itemsize(a.dtype()));
  jit::launch(kernels.get(kCholesky, a.dtype()), a.device(), tiled(op, p, 1, width * (width + 1) * itemsize(a.dtype())),
              write(a), p);
}

void mirror(const char* op, const Array& to, const Array& from) {
  const StepParams p = linalg::step_params(to, from);
  jit::launch(kernels.get(kMirror, to.dtype()), to.device(),
              tiled(op, p, ceil_div(p.rows, kTile) * ceil_div(p.columns, kTile)), write(to), read(from), p);
}

void finish_cholesky(const char*, const Array& a, bool upper) {
  const StepParams p = linalg::step_params(a, upper);
  jit::launch(kernels.get(kFinishCholesky, a.dtype()), a.device(), elementwise(p), write(a), p);
}

void finish_solve(const char*, const Array& out, const Array& x, const Array& singular) {
  const StepParams p = linalg::step_params(out, x);
  jit::launch(kernels.get(kFinishSolve, x.dtype()), x.device(), elementwise(p), write(out), read(x), read(singular), p);
}

void blocked_determinant(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& a,
                         const Array& pivots) {
  StepParams p = linalg::step_params(a);
  p.vector = linalg::vector_stride(pivots);
  jit::launch(kernels.get(kDeterminants, a.dtype()), a.device(), {.grid_x = checked_grid(op, p.batch), .block_x = 32},
              write_if(det), write_if(sign), write_if(logarithm), read(a), read(pivots), p);
}

void range_parts(const char* op, const Array& parts, const Array& x) {
  const StepParams p = linalg::step_params(x, x);
  jit::launch(qr_kernels.get(kRange, x.dtype()), x.device(),
              {.grid_x = checked_grid(op, p.batch * linalg::kRangeParts), .block_x = 256}, write(parts), read(x), p);
}

void qr_load(const char*, const Array& a, const Array& x, const Array& parts) {
  const StepParams p = linalg::step_params(a, x, x.shape(1));
  jit::launch(qr_kernels.get(kLoad, x.dtype()), x.device(), elementwise(p), write(a), read(x), read(parts), p);
}

void qr_panel(const char* op, const Array& panel, const Array& tau) {
  StepParams p = linalg::step_params(panel);
  p.vector = linalg::vector_stride(tau);
  const jit::LaunchConfig config = panel_config(op, p, panel, linalg::kPanelThreads);
  jit::launch(qr_kernels.get(kPanel, panel.dtype()), panel.device(), config, write(panel), write(tau), p);
}

void reflectors(const char*, const Array& v, const Array& panel, const Array& tau, int64_t offset) {
  StepParams p = linalg::step_params(v, panel, offset);
  p.vector = linalg::vector_stride(tau);
  jit::launch(qr_kernels.get(kReflectors, v.dtype()), v.device(), elementwise(p), write(v), read(panel), read(tau), p);
}

void set_factors(const char*, const Array& a, const Array& tau, bool conjugates) {
  StepParams p = linalg::step_params(a, conjugates);
  p.columns = 1;
  p.vector = linalg::vector_stride(tau);
  jit::launch(qr_kernels.get(kFactors, a.dtype()), a.device(), elementwise(p), write(a), read(tau), p);
}

void finish_qr(const char*, const Array& out, const Array& a, const Array& parts, bool upper) {
  const StepParams p = linalg::step_params(out, a, upper);
  jit::launch(qr_kernels.get(kFinishQr, a.dtype()), a.device(), elementwise(p), write(out), read(a), read(parts), p);
}

}  // namespace gpukit::cuda
