#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/linalg/factor_impl.h"

namespace gpukit::cuda {

namespace {

using linalg::FactorParams;

const jit::KernelSet kernels("gpukit/ops/linalg/factor_kernels.cuh",
                             {"gpukit::linalg::cholesky<{T}>", "gpukit::linalg::solve<{T}>",
                              "gpukit::linalg::determinants<{T}>", "gpukit::linalg::qr<{T}>",
                              "gpukit::linalg::eigh<{T}>", "gpukit::linalg::svd<{T}>"},
                             {DType::float32, DType::float64, DType::complex64, DType::complex128});
enum Kernel { kCholesky, kSolve, kDeterminants, kQr, kEigh, kSvd };

struct Plan {
  jit::LaunchConfig config;
  bool in_shared = false;
};

/// Pure: one block a matrix, with threads for its longer side.
Plan make_plan(const FactorParams& p, int64_t bytes) {
  constexpr int64_t kSharedBytes = 48 << 10, kWorkBytes = int64_t{256} << 20, kMaxBlocks = 2048;
  const int64_t side = std::max({p.m, p.n, p.k});
  Plan plan;
  plan.in_shared = bytes <= kSharedBytes;
  const int64_t fit = plan.in_shared ? kMaxBlocks : std::max<int64_t>(1, kWorkBytes / bytes);
  plan.config.grid_x = static_cast<unsigned>(std::min({p.batch, fit, kMaxBlocks}));
  plan.config.block_x = 32;
  plan.config.block_y = side <= 8 ? 1 : side <= 16 ? 2 : side <= 32 ? 4 : 8;
  plan.config.shared_bytes = plan.in_shared ? static_cast<unsigned>(bytes) : 0;
  return plan;
}

/// Calls f(config, parameters, work).
template <typename F>
void launched(const char* op, const Array& x, FactorParams p, F&& f) {
  const Plan plan = make_plan(p, p.work * itemsize(x.dtype()));
  p.in_shared = plan.in_shared ? 1 : 0;
  Temporaries temporaries(op);
  const Array work = plan.in_shared
                         ? Array()
                         : temporaries.empty({static_cast<int64_t>(plan.config.grid_x), p.work}, x.dtype(), x.device());
  f(plan.config, p, write_if(work));
}

}  // namespace

void cholesky(const Array& out, const Array& x, FactorParams params) {
  launched("cholesky", x, params, [&](const jit::LaunchConfig& config, const FactorParams& p, const memory::Use& work) {
    jit::launch(kernels.get(kCholesky, x.dtype()), x.device(), config, write(out), read(x), work, p);
  });
}

void solve(const char* op, const Array& out, const Array& x, const Array& b, FactorParams params) {
  launched(op, x, params, [&](const jit::LaunchConfig& config, const FactorParams& p, const memory::Use& work) {
    jit::launch(kernels.get(kSolve, x.dtype()), x.device(), config, write(out), read(x), read_if(b), work, p);
  });
}

void determinant(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& x,
                 FactorParams params) {
  launched(op, x, params, [&](const jit::LaunchConfig& config, const FactorParams& p, const memory::Use& work) {
    jit::launch(kernels.get(kDeterminants, x.dtype()), x.device(), config, write_if(det), write_if(sign),
                write_if(logarithm), read(x), work, p);
  });
}

void qr(const Array& q, const Array& r, const Array& x, FactorParams params) {
  launched("qr", x, params, [&](const jit::LaunchConfig& config, const FactorParams& p, const memory::Use& work) {
    jit::launch(kernels.get(kQr, x.dtype()), x.device(), config, write(q), write(r), read(x), work, p);
  });
}

void eigh(const char* op, const Array& values, const Array& vectors, const Array& x, FactorParams params) {
  launched(op, x, params, [&](const jit::LaunchConfig& config, const FactorParams& p, const memory::Use& work) {
    jit::launch(kernels.get(kEigh, x.dtype()), x.device(), config, write(values), write_if(vectors), read(x), work, p);
  });
}

void svd(const char* op, const Array& values, const Array& u, const Array& vh, const Array& x, FactorParams params) {
  launched(op, x, params, [&](const jit::LaunchConfig& config, const FactorParams& p, const memory::Use& work) {
    jit::launch(kernels.get(kSvd, x.dtype()), x.device(), config, write(values), write_if(u), write_if(vh), read(x),
                work, p);
  });
}

}  // namespace gpukit::cuda
