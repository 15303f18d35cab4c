#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/matmul/dense/gemm_sm80.h"
#include "gpukit/ops/matmul/matmul_impl.h"

namespace gpukit::cuda {
namespace {

constexpr const char* kSource = "gpukit/ops/matmul/dense/gemm_sm80.cuh";
constexpr int64_t kAlignment = 16;  // bytes of one copy

struct Tile {
  const char* type;
  int rows, columns, threads, shared_bytes, resident;
  /// Outputs in the time of one, relative to the largest tile, on a full multiprocessor.
  double speed;
};
template <typename T>
constexpr Tile tile(const char* type, double speed) {
  return {type, T::kRows, T::kColumns, T::kThreads, T::kSharedBytes, T::kResident, speed};
}
constexpr Tile kTiles[] = {tile<GemmTile16x32>("GemmTile16x32", 0.15), tile<GemmTile64x64>("GemmTile64x64", 0.85),
                           tile<GemmTile128x128>("GemmTile128x128", 0.9), tile<GemmTile128x256>("GemmTile128x256", 1.0),
                           tile<GemmTileAny>("GemmTileAny", 0.2)};
// The registers of two blocks are too few for the rounding to TF32.
constexpr Tile kFloatTile = tile<GemmTile128x128Deep>("GemmTile128x128Deep", 0.9);

const Tile& tile_of(Gemm80Tile number, DType dtype) {
  return number == Gemm80Tile::t128x128 && dtype == DType::float32 ? kFloatTile : kTiles[static_cast<int>(number)];
}

int layout_index(Major a, Major b) { return 2 * (a == Major::mn) + (b == Major::mn); }

/// Every tile for one kind of output. Each kernel is a module of its own, so that a first call waits for no other.
struct Kernels {
  std::vector<std::vector<jit::KernelSet>> sets;  // by Gemm80Tile and layout_index
  Kernels(const char* out, const std::vector<DType>& dtypes) {
    using Majors = std::vector<std::pair<const char*, const char*>>;
    for (size_t i = 0; i < std::size(kTiles); ++i) {
      const Gemm80Tile number = static_cast<Gemm80Tile>(i);
      const Tile& t = tile_of(number, dtypes.front());
      Majors majors = {{"k", "k"}, {"k", "mn"}, {"mn", "k"}, {"mn", "mn"}};
      if (number == Gemm80Tile::any)
        majors = {{"any", "any"}};
      else if (t.rows <= 32)
        majors.resize(2);
      std::vector<jit::KernelSet>& layouts = sets.emplace_back();
      for (const auto& [a, b] : majors) {
        const std::string name = std::string("gpukit::gemm80<{T}, ") + out + ", gpukit::" + t.type +
                                 ", gpukit::Major::" + a + ", gpukit::Major::" + b + ">";
        layouts.emplace_back(kSource, std::vector<std::string>{name}, dtypes);
      }
    }
  }
};
const Kernels same_kernels("{T}", {DType::float16, DType::bfloat16, DType::int8});
const Kernels float_kernels("float", {DType::float32});
const Kernels wide_float_kernels("float", {DType::float16, DType::bfloat16});
const Kernels wide_integer_kernels("int", {DType::int8});

const Kernels& kernels_of(DType input, DType out) {
  if (input == DType::float32) return float_kernels;
  if (input == out) return same_kernels;
  return input == DType::int8 ? wide_integer_kernels : wide_float_kernels;
}

/// Strides of axes of one are never stepped over, but addresses beyond them are formed: those must be aligned, too.
MatmulProblem without_idle_strides(const MatmulProblem& problem) {
  MatmulProblem s = problem;
  if (s.m == 1) s.a_m = 0;
  if (s.n == 1) s.b_n = 0;
  if (s.k == 1) s.a_k = s.b_k = 0;
  return s;
}

/// How the operand lies: `extent` rows or columns `stride` apart, `depth` steps of k `k_stride` apart. The stride of an
/// axis of one is never used.
Major major_of(int64_t extent, int64_t stride, int64_t depth, int64_t k_stride, bool base_aligned,
               int64_t element_bytes) {
  const auto aligned = [&](int64_t bytes) { return bytes % kAlignment == 0; };
  if (!base_aligned) return Major::any;
  if ((k_stride == 1 || depth <= 1) && (extent <= 1 || aligned(stride * element_bytes))) return Major::k;
  if ((stride == 1 || extent <= 1) && (depth <= 1 || aligned(k_stride * element_bytes))) return Major::mn;
  return Major::any;
}

int64_t num_blocks(const MatmulProblem& s, const Tile& t) {
  return (s.m + t.rows - 1) / t.rows * ((s.n + t.columns - 1) / t.columns) * s.batches;
}

Gemm80Tile tile_for_many_rows(const MatmulProblem& s, DType dtype, int sm_count) {
  Gemm80Tile best = Gemm80Tile::t64x64;
  double best_time = 0;
  for (const Gemm80Tile number : {Gemm80Tile::t128x256, Gemm80Tile::t128x128, Gemm80Tile::t64x64}) {
    const Tile& t = tile_of(number, dtype);
    const int64_t at_once = int64_t{sm_count} * t.resident, waves = (num_blocks(s, t) + at_once - 1) / at_once;
    const double time = static_cast<double>(waves * t.resident) * t.rows * t.columns / t.speed;
    if (best_time == 0 || time < best_time) {
      best = number;
      best_time = time;
    }
  }
  return best;
}

}  // namespace

bool gemm80_has(DType input, DType out) {
  switch (input) {
    case DType::float16:
    case DType::bfloat16: return out == input || out == DType::float32;
    case DType::float32: return out == DType::float32;
    case DType::int8: return out == input || out == DType::int32;
    default: return false;
  }
}

Gemm80Plan plan_gemm80(const MatmulProblem& problem, DType dtype, bool a_aligned, bool b_aligned, int sm_count) {
  constexpr int64_t kNarrow = 32;
  Gemm80Plan plan = {};
  // A swap makes columns of the output rows, which are stored together, and few columns few rows.
  plan.swapped =
      problem.n <= kNarrow ? problem.m > kNarrow : problem.out_n != 1 && problem.out_m == 1 && problem.m > kNarrow;
  const MatmulProblem s = plan.swapped ? transposed(problem) : problem;
  if (plan.swapped) std::swap(a_aligned, b_aligned);

  const int64_t element_bytes = static_cast<int64_t>(itemsize(dtype));
  for (int axis = 0; axis < s.batch_rank; ++axis) {
    if (s.batch_shape[axis] <= 1) continue;
    a_aligned = a_aligned && s.batch_a[axis] * element_bytes % kAlignment == 0;
    b_aligned = b_aligned && s.batch_b[axis] * element_bytes % kAlignment == 0;
  }
  plan.a = major_of(s.m, s.a_m, s.k, s.a_k, a_aligned, element_bytes);
  plan.b = major_of(s.n, s.b_n, s.k, s.b_k, b_aligned, element_bytes);

  if (plan.a == Major::any || plan.b == Major::any) {
    plan.a = plan.b = Major::any;
    plan.tile = Gemm80Tile::any;
  } else if (s.m <= 16 && plan.a == Major::k) {
    plan.tile = Gemm80Tile::t16x32;  // bound by memory: no higher than the rows are
  } else {
    plan.tile = tile_for_many_rows(s, dtype, sm_count);
  }
  plan.blocks = num_blocks(s, tile_of(plan.tile, dtype));
  return plan;
}

std::string Gemm80Plan::str(DType dtype) const {
  constexpr const char* kAlong[] = {"k", "n", "any axis"};
  const Tile& t = tile_of(tile, dtype);
  return "mma " + std::to_string(t.rows) + "x" + std::to_string(t.columns) + (swapped ? ", sides swapped" : "") +
         ", a along " + (a == Major::mn ? "m" : kAlong[static_cast<int>(a)]) + ", b along " +
         kAlong[static_cast<int>(b)] + ", " + std::to_string(blocks) + " blocks";
}

void gemm80(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem, const Gemm80Plan& plan) {
  const Tile& t = tile_of(plan.tile, a.dtype());
  if (plan.blocks > 0x7fffffff)
    throw UnsupportedError("matmul: " + std::to_string(plan.blocks) + " tiles, at most 2147483647 fit one launch");
  const int layout = plan.tile == Gemm80Tile::any ? 0 : layout_index(plan.a, plan.b);
  const auto& layouts = kernels_of(a.dtype(), out.dtype()).sets[static_cast<size_t>(plan.tile)];
  const jit::Kernel& kernel = layouts[static_cast<size_t>(layout)].get(0, a.dtype());
  const jit::LaunchConfig config = {.grid_x = static_cast<unsigned>(plan.blocks),
                                    .block_x = static_cast<unsigned>(t.threads),
                                    .shared_bytes = static_cast<unsigned>(t.shared_bytes)};
  if (plan.swapped)
    jit::launch(kernel, out.device(), config, write(out), read(b), read(a), without_idle_strides(transposed(problem)));
  else
    jit::launch(kernel, out.device(), config, write(out), read(a), read(b), without_idle_strides(problem));
}

}  // namespace gpukit::cuda
