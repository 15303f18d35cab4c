#include "gpukit/ops/matmul/dense/gemm_sm90.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "gpukit/base/direct_cache.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/matmul/plan/h200.h"

namespace gpukit::cuda {
namespace {

using Store = Gemm90Store;

/// What is multiplied into what: 16-bit floats into themselves or into float32, float32 rounded to TF32, int8 into
/// int32.
enum class Types { same, wide, tf32, integers };

/// `slice_ns`, where it is not 0, is what one slice of K takes a multiprocessor that has work for all its tensor cores
/// (measured on an H200, where products of any size and type run at these rates within a few percent).
struct Instance {
  Types types;
  int rows, columns;
  bool transpose_a, transpose_b;
  Store store;
  double slice_ns;
  int blocks = 1;  // of a cluster
};

constexpr Instance kInstances[] = {
    // Both operands along K: by the costs of plan/h200.h.
    {Types::same, 128, 256, false, false, Store::tma, 0},
    {Types::same, 128, 240, false, false, Store::tma, 0},
    {Types::same, 128, 192, false, false, Store::tma, 0},
    {Types::same, 128, 128, false, false, Store::tma, 0},
    {Types::same, 128, 96, false, false, Store::tma, 0},
    {Types::same, 128, 64, false, false, Store::tma, 0},
    {Types::same, 64, 128, false, false, Store::tma, 0},
    {Types::same, 64, 96, false, false, Store::tma, 0},
    {Types::same, 64, 64, false, false, Store::tma, 0},
    {Types::same, 128, 256, false, false, Store::tma, 0, 2},
    {Types::same, 128, 256, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 224, false, false, Store::tma, 0, 2},
    {Types::same, 128, 224, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 192, false, false, Store::tma, 0, 2},
    {Types::same, 128, 192, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 176, false, false, Store::tma, 0, 2},
    {Types::same, 128, 176, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 160, false, false, Store::tma, 0, 2},
    {Types::same, 128, 160, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 144, false, false, Store::tma, 0, 2},
    {Types::same, 128, 144, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 128, false, false, Store::tma, 0, 2},
    {Types::same, 128, 128, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 112, false, false, Store::tma, 0, 2},
    {Types::same, 128, 112, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 96, false, false, Store::tma, 0, 2},
    {Types::same, 128, 96, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 128, 80, false, false, Store::tma, 0, 2},
    {Types::same, 128, 80, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 128, false, false, Store::tma, 0, 2},
    {Types::same, 64, 96, false, false, Store::tma, 0, 2},
    {Types::same, 64, 192, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 160, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 128, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 112, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 96, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 80, false, false, Store::transposed_tma, 0, 2},
    {Types::same, 64, 192, false, false, Store::transposed_tma, 0, 4},
    {Types::same, 64, 128, false, false, Store::transposed_tma, 0, 4},
    {Types::same, 64, 96, false, false, Store::transposed_tma, 0, 4},
    {Types::same, 128, 256, false, true, Store::tma, 680},
    {Types::same, 128, 192, false, true, Store::tma, 520},
    {Types::same, 128, 128, false, true, Store::tma, 360},
    {Types::same, 64, 128, false, true, Store::tma, 205},
    {Types::same, 128, 256, true, false, Store::tma, 690},
    {Types::same, 128, 128, true, false, Store::tma, 370},
    {Types::same, 128, 256, true, true, Store::tma, 690},
    {Types::same, 128, 128, true, true, Store::tma, 370},
    {Types::same, 64, 16, true, false, Store::transposed_tma, 115},
    {Types::same, 64, 32, true, false, Store::transposed_tma, 120},
    {Types::same, 64, 64, true, false, Store::transposed_tma, 135},
    {Types::same, 128, 16, true, false, Store::transposed_tma, 145},
    {Types::same, 128, 32, true, false, Store::transposed_tma, 165},
    {Types::same, 128, 64, true, false, Store::transposed_tma, 215},
    {Types::same, 128, 128, false, false, Store::elements, 480},
    {Types::same, 128, 128, false, true, Store::elements, 480},
    {Types::same, 128, 128, true, false, Store::elements, 480},
    {Types::same, 128, 128, true, true, Store::elements, 480},
    {Types::wide, 128, 256, false, false, Store::tma, 700},
    {Types::wide, 64, 128, false, false, Store::tma, 205},
    {Types::wide, 128, 256, false, true, Store::tma, 700},
    {Types::wide, 64, 128, false, true, Store::tma, 215},
    {Types::wide, 64, 64, false, false, Store::transposed_tma, 150},
    {Types::wide, 64, 64, true, false, Store::transposed_tma, 150},
    {Types::wide, 128, 128, false, false, Store::elements, 480},
    {Types::wide, 128, 128, false, true, Store::elements, 480},
    {Types::wide, 128, 128, true, false, Store::elements, 480},
    {Types::wide, 128, 128, true, true, Store::elements, 480},
    {Types::tf32, 128, 256, false, false, Store::tma, 680},
    {Types::tf32, 128, 192, false, false, Store::tma, 530},
    {Types::tf32, 128, 128, false, false, Store::tma, 370},
    {Types::tf32, 64, 128, false, false, Store::tma, 210},
    {Types::tf32, 64, 64, false, false, Store::transposed_tma, 150},
    {Types::tf32, 128, 256, true, false, Store::transposed_tma, 680},
    {Types::tf32, 128, 192, true, false, Store::transposed_tma, 530},
    {Types::tf32, 128, 128, true, false, Store::transposed_tma, 370},
    {Types::tf32, 64, 128, true, false, Store::transposed_tma, 290},
    {Types::tf32, 64, 64, true, false, Store::transposed_tma, 200},
    {Types::tf32, 128, 128, false, false, Store::elements, 480},
    {Types::integers, 128, 256, false, false, Store::tma, 700},
    {Types::integers, 128, 128, false, false, Store::tma, 370},
    {Types::integers, 64, 128, false, false, Store::tma, 210},
    {Types::integers, 64, 64, false, false, Store::transposed_tma, 150},
    {Types::integers, 128, 128, false, false, Store::elements, 480},
};

std::optional<Types> types_of(DType input, DType out) {
  switch (input) {
    case DType::float16:
    case DType::bfloat16:
      if (out == input) return Types::same;
      return out == DType::float32 ? std::optional(Types::wide) : std::nullopt;
    case DType::float32: return out == input ? std::optional(Types::tf32) : std::nullopt;
    case DType::int8: return out == DType::int32 ? std::optional(Types::integers) : std::nullopt;
    default: return std::nullopt;
  }
}

std::string name_of(const Instance& i) {
  constexpr const char* kOut[] = {"{T}", "float", "float", "int"};
  constexpr const char* kStore[] = {"tma", "transposed_tma", "elements"};
  if (i.blocks > 1)
    return std::string("gpukit::gemm90_cluster<{T}, {T}, ") + std::to_string(i.rows) + ", " +
           std::to_string(i.columns) + ", gpukit::Gemm90Store::" + kStore[static_cast<int>(i.store)] + ", " +
           std::to_string(i.blocks) + ">";
  return std::string("gpukit::gemm90<{T}, ") + kOut[static_cast<int>(i.types)] + ", " + std::to_string(i.rows) + ", " +
         std::to_string(i.columns) + ", " + std::to_string(i.transpose_a) + ", " + std::to_string(i.transpose_b) +
         ", gpukit::Gemm90Store::" + kStore[static_cast<int>(i.store)] + ">";
}

/// One module an instance and dtype, so that a shape loads no more than it needs.
const std::vector<jit::KernelSet> kernels = [] {
  std::vector<jit::KernelSet> sets;
  for (const Instance& i : kInstances) {
    std::vector<DType> dtypes = {DType::float16, DType::bfloat16};
    if (i.types == Types::tf32) dtypes = {DType::float32};
    if (i.types == Types::integers) dtypes = {DType::int8};
    sets.emplace_back("gpukit/ops/matmul/dense/gemm_sm90.cuh", std::vector<std::string>{name_of(i)}, dtypes,
                      std::vector<std::string>{"90a"});
  }
  return sets;
}();

/// Instances of gemm90_swap_ab for 16 bits; those `by_warps` are for tiles of few weights.
struct SwapABInstance {
  int columns, depth;
  bool by_warps;
  bool operator==(const SwapABInstance&) const = default;
};
constexpr SwapABInstance kSwapABInstances[] = {{16, 4, false}, {16, 4, true},  {16, 2, false}, {32, 4, false},
                                               {32, 4, true},  {32, 2, false}, {64, 2, false}};
/// What an instance of gemm90_swap_ab is made for: results of the inputs' dtype, of float32, or a layer.
enum class SwapABEnd { same, wide, linear };
std::vector<jit::KernelSet> make_swap_ab(SwapABEnd end) {
  std::vector<jit::KernelSet> sets;
  for (const auto& [columns, depth, by_warps] : kSwapABInstances)
    sets.emplace_back(
        "gpukit/ops/matmul/dense/gemm_sm90_swap_ab.cuh",
        std::vector{(end == SwapABEnd::linear ? std::string("gpukit::gemm90_swap_ab_linear<{T}, ")
                     : end == SwapABEnd::same ? std::string("gpukit::gemm90_swap_ab<{T}, {T}, ")
                                              : std::string("gpukit::gemm90_swap_ab<{T}, float, ")) +
                    std::to_string(columns) + ", " + std::to_string(depth) + (by_warps ? ", true>" : ", false>")},
        std::vector{DType::float16, DType::bfloat16}, std::vector<std::string>{"90a"});
  return sets;
}
const std::vector<jit::KernelSet> swap_ab_kernels[] = {make_swap_ab(SwapABEnd::same), make_swap_ab(SwapABEnd::wide),
                                                       make_swap_ab(SwapABEnd::linear)};
const jit::KernelSet& swap_ab_kernel(SwapABEnd end, int columns, const Gemm90SwapAB& swap_ab) {
  const SwapABInstance wanted = {columns, swap_ab.depth, swap_ab.by_warps};
  const auto* const at = std::find(kSwapABInstances, std::end(kSwapABInstances), wanted);
  return swap_ab_kernels[static_cast<size_t>(end)][static_cast<size_t>(at - kSwapABInstances)];
}

/// A stack of matrices in elements: `lane` is the axis that is not K.
struct Side {
  int64_t lanes, lane_stride, k_stride, batch_stride;
  bool aligned;
};

bool fits_engine(int64_t stride, int64_t bytes) {
  return stride > 0 && stride * bytes % 16 == 0 && stride * bytes < (int64_t{1} << 40);
}

/// Whether the copy engine reads the side, and with which axis dense.
std::optional<bool> transposed(const Side& s, int64_t k, int64_t bytes) {
  if (!s.aligned || (s.batch_stride != 0 && !fits_engine(s.batch_stride, bytes))) return std::nullopt;
  if ((s.k_stride == 1 || k == 1) && (s.lanes == 1 || fits_engine(s.lane_stride, bytes))) return false;
  if ((s.lane_stride == 1 || s.lanes == 1) && (k == 1 || fits_engine(s.k_stride, bytes))) return true;
  return std::nullopt;
}

int64_t outer_stride(int64_t count, int64_t stride, int64_t inner, int64_t bytes) {
  return count == 1 ? (inner * bytes + 15) / 16 * 16 : stride * bytes;
}

driver::BoxLayout layout(const Side& s, bool turn, int64_t k, int64_t batches, DType dtype, int slice, int lanes_box) {
  const int64_t bytes = itemsize(dtype);
  driver::BoxLayout l;
  l.dtype = dtype;
  l.shape[0] = turn ? s.lanes : k;
  l.shape[1] = turn ? k : s.lanes;
  l.shape[2] = s.batch_stride == 0 ? 1 : batches;
  l.strides[0] = turn ? outer_stride(k, s.k_stride, s.lanes, bytes) : outer_stride(s.lanes, s.lane_stride, k, bytes);
  l.strides[1] = s.batch_stride == 0 ? l.strides[0] : s.batch_stride * bytes;
  l.box[0] = slice;
  l.box[1] = turn ? slice : lanes_box;
  l.swizzle = driver::BoxLayout::Swizzle::bytes128;
  l.to_tf32 = dtype == DType::float32;
  return l;
}

driver::BoxLayout out_layout(const Gemm90Tile& tile, int64_t rows, int64_t columns, int64_t row_stride,
                             int64_t batch_stride, int64_t batches, DType dtype) {
  using Swizzle = driver::BoxLayout::Swizzle;
  const int64_t bytes = itemsize(dtype);
  const bool turn = tile.store == Store::transposed_tma;
  driver::BoxLayout l;
  l.dtype = dtype;
  l.shape[0] = columns;
  l.shape[1] = rows;
  l.shape[2] = batches;
  l.strides[0] = outer_stride(rows, row_stride, columns, bytes);
  l.strides[1] = batches == 1 ? l.strides[0] : batch_stride * bytes;
  const int row_bytes = turn ? 128 : tile.box_bytes();
  l.box[0] = row_bytes / tile.out_bytes;
  l.box[1] = turn ? tile.transposed_columns() : 64;
  l.swizzle = row_bytes == 128 ? Swizzle::bytes128 : row_bytes == 64 ? Swizzle::bytes64 : Swizzle::bytes32;
  return l;
}

/// Blocks that run at once in clusters of so many: those of a cluster are neighbours, and of four some places stay
/// empty.
int blocks_at_once(int blocks, int sm_count) {
  return std::max(1, (blocks <= 2 ? sm_count : sm_count * 10 / 11) / blocks) * blocks;
}

/// Nanoseconds, for choosing among instances: the slices of the multiprocessor that has most of them. A thin product
/// (one column of tiles) has to fetch every slice from memory, which all share.
double estimate_by_slices(const Instance& i, int64_t slice, int64_t m, int64_t n, int64_t k, int64_t batches,
                          int sm_count) {
  constexpr double kBytesPerNs = 4300, kBytesPerNsOfOne = 104, kTileNs = 400;
  const int64_t column_tiles = ceil_div(n, i.columns);
  const int64_t tiles = ceil_div(m, i.rows * i.blocks) * i.blocks * column_tiles * batches;
  const int64_t turns = ceil_div(tiles, blocks_at_once(i.blocks, sm_count));
  double slice_ns = i.slice_ns;
  if (column_tiles == 1) {
    const double share =
        std::min(kBytesPerNsOfOne, kBytesPerNs / static_cast<double>(std::min<int64_t>(tiles, sm_count)));
    slice_ns = std::max(slice_ns, i.rows * Gemm90Tile::kSliceBytes / share);
  }
  return static_cast<double>(turns) * (static_cast<double>(ceil_div(k, slice)) * slice_ns + kTileNs);
}

/// The same of 16-bit operands along K, whose rows lie `a_pitch` and `b_pitch` bytes apart.
double estimate(const Instance& i, int64_t m, int64_t n, int64_t k, int64_t batches, int64_t a_pitch, int64_t b_pitch,
                int sm_count) {
  constexpr double kRowBytes = Gemm90Tile::kSliceBytes;
  const int64_t tiles = ceil_div(m, i.rows * i.blocks) * i.blocks * ceil_div(n, i.columns) * batches;
  const int64_t turns = ceil_div(tiles, blocks_at_once(i.blocks, sm_count)), slices = ceil_div(k, 64);
  const double at_once = static_cast<double>(tiles) / static_cast<double>(turns);
  const double elements = i.rows * i.columns, loaded = i.columns / static_cast<double>(i.blocks);
  const double from_l2 =
      kRowBytes * at_once * (i.rows / h200::l2_bytes_per_ns(a_pitch) + loaded / h200::l2_bytes_per_ns(b_pitch));
  const double dram_ns = static_cast<double>((m + n) * k * 2 * batches) / h200::kDramBytesPerNs;
  const double slice_ns = h200::beside(h200::kTensorNs * elements, from_l2, h200::kSliceNs,
                                       (i.rows + i.columns) * kRowBytes / h200::kBytesPerNsOfOne,
                                       dram_ns / static_cast<double>(turns * slices));
  const double ns = static_cast<double>(turns) *
                    (static_cast<double>(slices) * slice_ns + h200::kTileNs + h200::kElementNs * elements);
  return i.store == Store::transposed_tma ? ns * h200::kSwapped : ns;
}

/// Up to 64 rows of a stand as columns, the smallest number that holds them. So do all rows where b lies along N in
/// TF32: the unit takes such an operand on the left alone.
constexpr int64_t kThin = 64;

int tile_key(int rows, int columns, bool swapped, int blocks) {
  return rows << 20 | columns << 8 | blocks << 1 | (swapped ? 1 : 0);
}
std::atomic<int> forced_tile{0};

bool suits(const Instance& i, int64_t rows, bool thin) {
  if (i.store != Store::transposed_tma || (i.types == Types::same && !i.transpose_a)) return !thin;
  if (i.types == Types::tf32 && i.transpose_a) return true;
  return thin && i.columns >= rows && (i.types != Types::same || i.columns == 16 || i.columns / 2 < rows);
}

/// Weights in as few rounds of tiles as shared memory allows, as many for every multiprocessor. A tile has no fewer of
/// them than columns, or those would come from the L2 more slowly than the weights from memory.
Gemm90SwapAB cut_weights(int columns, int depth, const Gemm90Weights& weights, int64_t k, int sm_count, int least) {
  constexpr int64_t kAhead = 1024, kAheadOfNarrowTiles = 2048, kGranule = 4, kMostByWarps = 32;  // bytes, weights
  const auto round_up = [&](int64_t rows) { return ceil_div(rows, kGranule) * kGranule; };
  const int64_t all = weights.count * weights.batches;
  const int64_t rounds = ceil_div(all, int64_t{sm_count} * Gemm90SwapAB::kMaxRows);
  const int64_t most = round_up(std::max<int64_t>(std::max(columns, least), ceil_div(all, sm_count * rounds)));
  const int64_t tiles = ceil_div(weights.count, most);

  Gemm90SwapAB swap_ab = {};
  swap_ab.rows = static_cast<int32_t>(round_up(ceil_div(weights.count, tiles)));
  swap_ab.by_warps = weights.element_bytes == 2 && swap_ab.rows <= kMostByWarps && columns <= kMostByWarps;
  swap_ab.depth = depth;
  swap_ab.stages = std::min(Gemm90SwapAB::kMaxStages,
                            (Gemm90SwapAB::kShared - swap_ab.extra_bytes()) / swap_ab.stage_bytes(columns));
  swap_ab.tiles = static_cast<int32_t>(tiles);
  swap_ab.fills = static_cast<int32_t>(ceil_div(k, depth * Gemm90SwapAB::slice(weights.element_bytes)));
  swap_ab.ahead = static_cast<int32_t>(
      std::min(k * weights.element_bytes, swap_ab.rows <= 64 ? kAheadOfNarrowTiles : kAhead) / 16 * 16);
  swap_ab.line = weights.line;
  swap_ab.batch = weights.batch;
  return swap_ab;
}

}  // namespace

void force_gemm90_tile(int rows, int columns, bool swapped, int blocks) {
  forced_tile.store(rows == 0 ? 0 : tile_key(rows, columns, swapped, blocks), std::memory_order_relaxed);
}

Gemm90SwapABPlan plan_gemm90_swap_ab(int64_t rows, const Gemm90Weights& weights, int64_t k, int sm_count, int least) {
  const int columns =
      *std::find_if(kGemm90SwapABColumns, std::end(kGemm90SwapABColumns), [&](int c) { return rows <= c; });
  const Gemm90SwapAB deep = cut_weights(columns, Gemm90SwapAB::kDeep, weights, k, sm_count, least);
  // The deeper a stage, the fewer waits; but memory is kept busy by several of them. Sums of slices are waited for at
  // the end of every stage of float8, where depth counts more. 64 columns of 16 bits have no deep instance.
  const bool fits = columns <= 32 && deep.stage_bytes(columns) <= Gemm90SwapAB::kShared / 5;
  if (weights.element_bytes == 1 || fits) return {columns, deep};
  return {columns, cut_weights(columns, 2, weights, k, sm_count, least)};
}

std::optional<Gemm90Plan> plan_gemm90(const MatmulProblem& problem, const Gemm90Facts& facts) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 2;
  const int64_t bytes = itemsize(facts.input), out_bytes = itemsize(facts.out);
  const std::optional<Types> types = types_of(facts.input, facts.out);
  if (!types || problem.k == 0 || std::max({problem.m, problem.n, problem.k, problem.batches}) > kMax)
    return std::nullopt;
  const auto a_batch = one_batch_stride(problem, problem.batch_a), b_batch = one_batch_stride(problem, problem.batch_b),
             out_batch = one_batch_stride(problem, problem.batch_out);
  if (!a_batch || !b_batch || !out_batch) return std::nullopt;

  // The output as rows of dense columns: where it is the other way round, so are the operands.
  const bool flipped = problem.out_n != 1 && problem.out_m == 1 && problem.n > 1;
  Side a{problem.m, problem.a_m, problem.a_k, *a_batch, facts.a_aligned};
  Side b{problem.n, problem.b_n, problem.b_k, *b_batch, facts.b_aligned};
  int64_t out_m = problem.out_m, out_n = problem.out_n;
  if (flipped) {
    std::swap(a, b);
    std::swap(out_m, out_n);
  }
  const auto transpose_a = transposed(a, problem.k, bytes), transpose_b = transposed(b, problem.k, bytes);
  if (!transpose_a || !transpose_b) return std::nullopt;
  // The copy engine writes whole pieces of 16 bytes: a row that ends within one would take its neighbours along.
  const bool by_tma = facts.out_aligned && (out_n == 1 || b.lanes == 1) && b.lanes * out_bytes % 16 == 0 &&
                      (a.lanes == 1 || fits_engine(out_m, out_bytes)) &&
                      (problem.batches == 1 || fits_engine(*out_batch, out_bytes));

  const bool thin = by_tma && a.lanes <= kThin && !*transpose_a,
             swap_ab = thin && (*types == Types::same || *types == Types::wide) && !*transpose_b;
  const int forced = forced_tile.load(std::memory_order_relaxed);
  const auto fastest = [&] {
    int best = -1;
    double best_ns = 0;
    for (int i = 0; i < static_cast<int>(std::size(kInstances)); ++i) {
      const Instance& candidate = kInstances[i];
      const bool swap = candidate.store == Store::transposed_tma;
      if (candidate.types != *types || (candidate.store == Store::elements) == by_tma ||
          !suits(candidate, a.lanes, thin) || candidate.blocks > facts.sm_count ||
          (forced != 0 && forced != tile_key(candidate.rows, candidate.columns, swap, candidate.blocks)))
        continue;
      if (candidate.transpose_a != (swap ? *transpose_b : *transpose_a) ||
          candidate.transpose_b != (swap ? *transpose_a : *transpose_b))
        continue;
      const int64_t m = swap ? b.lanes : a.lanes, n = swap ? a.lanes : b.lanes;
      const Side &rows = swap ? b : a, &columns = swap ? a : b;
      const double ns = *types == Types::same && !*transpose_a && !*transpose_b
                            ? estimate(candidate, m, n, problem.k, problem.batches, rows.lane_stride * bytes,
                                       columns.lane_stride * bytes, facts.sm_count)
                            : estimate_by_slices(candidate, Gemm90Tile::kSliceBytes / bytes, m, n, problem.k,
                                                 problem.batches, facts.sm_count);
      if (best < 0 || ns < best_ns) {
        best = i;
        best_ns = ns;
      }
    }
    return best;
  };

  Gemm90Plan plan = {};
  Instance chosen;
  if (swap_ab) {
    const Gemm90SwapABPlan cut =
        plan_gemm90_swap_ab(a.lanes, {b.lanes, b.lane_stride, b.batch_stride, problem.batches, static_cast<int>(bytes)},
                            problem.k, facts.sm_count);
    plan.swap_ab = cut.swap_ab;
    chosen = {*types, plan.swap_ab.rows, cut.columns, false, false, Store::elements, 0};
  } else {
    plan.instance = fastest();
    if (plan.instance < 0) return std::nullopt;
    chosen = kInstances[plan.instance];
  }
  const bool swap = swap_ab || chosen.store == Store::transposed_tma;
  plan.swapped = flipped != swap;
  plan.tile = {chosen.rows, chosen.columns, static_cast<int>(bytes), static_cast<int>(out_bytes), chosen.store};
  plan.transpose_a = chosen.transpose_a;
  plan.transpose_b = chosen.transpose_b;
  if (chosen.store != Store::elements)
    plan.out = out_layout(plan.tile, a.lanes, b.lanes, out_m, *out_batch, problem.batches, facts.out);
  if (swap) {
    std::swap(a, b);
    std::swap(out_m, out_n);
  }
  const int slice = plan.tile.slice();
  plan.a = layout(a, chosen.transpose_a, problem.k, problem.batches, facts.input, slice, chosen.rows);
  plan.b = layout(b, chosen.transpose_b, problem.k, problem.batches, facts.input, slice,
                  swap_ab ? static_cast<int>(b.lanes) : chosen.columns / chosen.blocks);
  // A cluster walks over as many tiles below each other as it has blocks.
  const int64_t row_tiles = ceil_div(a.lanes, chosen.rows * chosen.blocks);
  const int64_t tiles = row_tiles * chosen.blocks * ceil_div(b.lanes, chosen.columns);
  if (tiles * problem.batches > kMax) return std::nullopt;
  plan.blocks = chosen.blocks;
  plan.grid =
      static_cast<unsigned>(std::min<int64_t>(tiles * problem.batches, blocks_at_once(chosen.blocks, facts.sm_count)));
  plan.overlaps =
      should_overlap(tiles * problem.batches, facts.sm_count) && (swap_ab || gemm90_overlaps(plan.tile, problem.k));
  plan.problem = {.m = static_cast<int32_t>(a.lanes),
                  .n = static_cast<int32_t>(b.lanes),
                  .k = static_cast<int32_t>(problem.k),
                  .batches = static_cast<int32_t>(problem.batches),
                  .a_step = a.batch_stride != 0,
                  .b_step = b.batch_stride != 0,
                  .group = static_cast<int32_t>(std::min<int64_t>(8, row_tiles)),
                  .out_m = out_m,
                  .out_n = out_n,
                  .out_batch = *out_batch};
  return plan;
}

namespace {

struct PlanKey {
  MatmulProblem problem;
  Gemm90Facts facts;
  int forced;
  bool operator==(const PlanKey& other) const {
    return facts == other.facts && forced == other.forced && same_product(problem, other.problem);
  }
};

}  // namespace

const std::optional<Gemm90Plan>& cached_plan_gemm90(const MatmulProblem& problem, const Gemm90Facts& facts) {
  thread_local DirectCache<PlanKey, std::optional<Gemm90Plan>, 64> cache;
  uint64_t hash = mix_hash(static_cast<uint64_t>(facts.input), static_cast<uint64_t>(facts.sm_count));
  for (const int64_t word :
       {problem.m, problem.n, problem.k, problem.a_m, problem.b_n, problem.b_k, problem.out_m, problem.batches})
    hash = mix_hash(hash, static_cast<uint64_t>(word));
  return cache.get({problem, facts, forced_tile.load(std::memory_order_relaxed)}, hash,
                   [&] { return plan_gemm90(problem, facts); });
}

std::string Gemm90Plan::str() const {
  const auto along = [](bool turn, const char* lane) { return turn ? lane : "k"; };
  return (swap_ab.by_warps ? "mma by warps " : "wgmma ") + std::to_string(tile.rows) + "x" +
         std::to_string(tile.columns) + "x" + std::to_string(tile.slice()) + (swapped ? ", sides swapped" : "") + ", " +
         std::to_string(swap_ab.rows > 0 ? swap_ab.stages : tile.stages()) + " stages, a along " +
         along(transpose_a, "m") + ", b along " + along(transpose_b, "n") + ", stored by " +
         (tile.store == Store::elements ? "element" : "box") + ", " + std::to_string(grid) + " blocks" +
         (blocks > 1 ? " in clusters of " + std::to_string(blocks) : "");
}

bool gemm90_overlaps(const Gemm90Tile& tile, int64_t k) {
  constexpr int64_t kShort = 2048;
  return k <= kShort || tile.rows > 64;
}
bool fused_gemm90_overlaps(const Gemm90Tile& tile, int64_t k, int64_t tiles, int sm_count) {
  return should_overlap(tiles, sm_count) && tiles <= 2 * sm_count && gemm90_overlaps(tile, k);
}

namespace {

jit::LaunchConfig config_of(const Gemm90Plan& plan) {
  const bool swap_ab = plan.swap_ab.rows > 0;
  const int threads = swap_ab ? plan.swap_ab.threads() : plan.tile.threads();
  const int shared = swap_ab ? plan.swap_ab.shared_bytes(plan.tile.columns) : plan.tile.shared_bytes();
  return {.grid_x = plan.grid,
          .block_x = static_cast<unsigned>(threads),
          .shared_bytes = static_cast<unsigned>(shared),
          .overlaps = plan.overlaps};
}

}  // namespace

void launch_gemm90(const Gemm90Plan& plan, const Array& out, const Array& a, const Array& b) {
  const Array& left = plan.swapped ? b : a;
  const Array& right = plan.swapped ? a : b;
  const jit::LaunchConfig config = config_of(plan);
  const jit::Boxes of_left{read(left), plan.a}, of_right{read(right), plan.b};
  if (plan.swap_ab.rows > 0) {
    const SwapABEnd end = out.dtype() == a.dtype() ? SwapABEnd::same : SwapABEnd::wide;
    jit::launch(swap_ab_kernel(end, plan.tile.columns, plan.swap_ab).get(0, a.dtype()), out.device(), config, of_left,
                of_right, write(out), read(left), plan.problem, plan.swap_ab);
    return;
  }
  // Where elements are stored one by one the third map is not read; any will do.
  const jit::Boxes results = plan.tile.store == Store::elements ? of_left : jit::Boxes{write(out), plan.out};
  jit::launch(kernels[static_cast<size_t>(plan.instance)].get(0, a.dtype()), out.device(), config, of_left, of_right,
              results, write(out), plan.problem);
}

void launch_gemm90_swap_ab_linear(const Gemm90Plan& plan, const Array& out, const Array& input, const Array& weight,
                                  const LinearSteps& steps, const Array& bias, const Array& residual) {
  jit::launch(swap_ab_kernel(SwapABEnd::linear, plan.tile.columns, plan.swap_ab).get(0, input.dtype()), out.device(),
              config_of(plan), jit::Boxes{read(weight), plan.a}, jit::Boxes{read(input), plan.b}, write(out),
              read(weight), plan.problem, plan.swap_ab, read_if(bias), read_if(residual), steps);
}

}  // namespace gpukit::cuda
