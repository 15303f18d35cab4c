#include "gpukit/ops/matmul/dense/gemm_simt.h"

#include <utility>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/matmul/dense/gemm_simt_tile.cuh"
#include "gpukit/ops/matmul/matmul_impl.h"

namespace gpukit::cuda {
namespace {

struct Tile {
  const char* type;
  DType dtype;
  int rows, columns, threads, shared_bytes;
  /// Outputs in the time of one, relative to the largest tile.
  double speed;
};
template <typename T>
constexpr Tile tile(const char* type, DType dtype, double speed) {
  const int element_bytes = dtype == DType::float64 ? 8 : 4;
  return {type, dtype, T::kRows, T::kColumns, T::kThreads, T::shared_bytes(element_bytes), speed};
}
// By GemmSimtTile.
constexpr Tile kTiles[] = {tile<SimtTile128x128>("SimtTile128x128", DType::float32, 1.0),
                           tile<SimtTile128x64>("SimtTile128x64", DType::float32, 0.97),
                           tile<SimtTile64x64>("SimtTile64x64", DType::float32, 0.88),
                           tile<SimtTile128x64Double>("SimtTile128x64Double", DType::float64, 1.0),
                           tile<SimtTile64x64Double>("SimtTile64x64Double", DType::float64, 0.85)};

constexpr int kLayouts = 5;
int layout_index(Major a, Major b) { return a == Major::any ? 4 : 2 * (a == Major::mn) + (b == Major::mn); }

/// By tile and layout_index, each a module of its own.
const std::vector<jit::KernelSet> kernels = [] {
  std::vector<jit::KernelSet> sets;
  sets.reserve(std::size(kTiles) * kLayouts);
  for (const Tile& t : kTiles)
    for (const char* majors : {"k, gpukit::Major::k", "k, gpukit::Major::mn", "mn, gpukit::Major::k",
                               "mn, gpukit::Major::mn", "any, gpukit::Major::any"})
      sets.emplace_back("gpukit/ops/matmul/dense/gemm_simt.cuh",
                        std::vector<std::string>{std::string("gpukit::gemm_simt<{T}, gpukit::") + t.type +
                                                 ", gpukit::Major::" + majors + ">"},
                        std::vector<DType>{t.dtype});
  return sets;
}();

int64_t num_tiles(const MatmulProblem& s, const Tile& t) {
  return (s.m + t.rows - 1) / t.rows * ((s.n + t.columns - 1) / t.columns) * s.batches;
}

/// How long the multiprocessor with the most tiles is busy.
double time_of(const MatmulProblem& s, const Tile& t, int sm_count) {
  return static_cast<double>((num_tiles(s, t) + sm_count - 1) / sm_count) * t.rows * t.columns / t.speed;
}

/// How the operand lies: `extent` rows or columns `stride` apart, `depth` steps of k `k_stride` apart. The stride of an
/// axis of one is never used. Only copies across k are of several elements, and need alignment.
Major major_of(int64_t extent, int64_t stride, int64_t depth, int64_t k_stride, bool aligned, int64_t vector) {
  if (k_stride == 1 || depth <= 1) return Major::k;
  return aligned && stride == 1 && extent % vector == 0 && k_stride % vector == 0 ? Major::mn : Major::any;
}

}  // namespace

std::optional<GemmSimtPlan> plan_gemm_simt(const MatmulProblem& problem, DType dtype, bool a_aligned, bool b_aligned,
                                           int sm_count) {
  if (dtype != DType::float32 && dtype != DType::float64) return std::nullopt;
  GemmSimtPlan plan = {};
  plan.swapped = problem.out_n != 1 && problem.out_m == 1;  // results that lie side by side are stored together
  const MatmulProblem s = plan.swapped ? transposed(problem) : problem;
  if (plan.swapped) std::swap(a_aligned, b_aligned);

  const int64_t vector = 16 / static_cast<int64_t>(itemsize(dtype));
  for (int axis = 0; axis < s.batch_rank; ++axis) {
    if (s.batch_shape[axis] <= 1) continue;
    a_aligned = a_aligned && s.batch_a[axis] % vector == 0;
    b_aligned = b_aligned && s.batch_b[axis] % vector == 0;
  }
  plan.a = major_of(s.m, s.a_m, s.k, s.a_k, a_aligned, vector);
  plan.b = major_of(s.n, s.b_n, s.k, s.b_k, b_aligned, vector);
  if (plan.a == Major::any || plan.b == Major::any) plan.a = plan.b = Major::any;

  size_t tile = dtype == DType::float32 ? 0 : static_cast<size_t>(GemmSimtTile::f64_128x64);
  for (size_t other = tile + 1; other < std::size(kTiles) && kTiles[other].dtype == dtype; ++other)
    if (time_of(s, kTiles[other], sm_count) < time_of(s, kTiles[tile], sm_count)) tile = other;
  plan.tile = static_cast<GemmSimtTile>(tile);
  plan.blocks = num_tiles(s, kTiles[tile]);
  if (s.k > kSimtMaxDepth || plan.blocks > 0x7fffffff) return std::nullopt;
  return plan;
}

std::string GemmSimtPlan::str() const {
  const Tile& t = kTiles[static_cast<size_t>(tile)];
  const auto along = [](Major major, const char* other) {
    return major == Major::k ? "k" : major == Major::mn ? other : "any axis";
  };
  return "tiles of " + std::to_string(t.rows) + "x" + std::to_string(t.columns) + (swapped ? ", sides swapped" : "") +
         ", a along " + along(a, "m") + ", b along " + along(b, "n") + ", " + std::to_string(blocks) + " blocks";
}

void gemm_simt(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem,
               const GemmSimtPlan& plan) {
  const size_t tile = static_cast<size_t>(plan.tile);
  const jit::Kernel& kernel = kernels[tile * kLayouts + layout_index(plan.a, plan.b)].get(0, a.dtype());
  const jit::LaunchConfig config = {.grid_x = static_cast<unsigned>(plan.blocks),
                                    .block_x = static_cast<unsigned>(kTiles[tile].threads),
                                    .shared_bytes = static_cast<unsigned>(kTiles[tile].shared_bytes)};
  if (plan.swapped)
    jit::launch(kernel, out.device(), config, write(out), read(b), read(a), transposed(problem));
  else
    jit::launch(kernel, out.device(), config, write(out), read(a), read(b), problem);
}

}  // namespace gpukit::cuda
