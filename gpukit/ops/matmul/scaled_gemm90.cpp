#include "gpukit/ops/matmul/scaled_gemm90.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/matmul/gemm90_space.cuh"

namespace gpukit::cuda {
namespace {

constexpr int kRows = 128;
enum Kernel { scales, scales_and_bias, blocks };
constexpr const char* kOutTypes[] = {"float", "gpukit::half", "gpukit::bfloat16"};

/// By type of the output and kernel, for tiles of 128 columns; of 192 columns for float8_e4m3 with scales alone.
std::vector<jit::KernelSet> make_sets(bool wide) {
  std::vector<jit::KernelSet> sets;
  for (const char* out : kOutTypes) {
    const std::string head = std::string("<{T}, ") + out + ", 128, " + (wide ? "192" : "128");
    std::vector<std::string> names = {"gpukit::gemm90_fused" + head + ", gpukit::kScales>"};
    std::vector<DType> dtypes = {DType::float8_e4m3};
    if (!wide) {
      names.push_back("gpukit::gemm90_fused" + head + ", gpukit::kScales + gpukit::kBias>");
      names.push_back("gpukit::gemm90_blocks" + head + ">");
      dtypes.push_back(DType::float8_e5m2);
    }
    for (const std::string& name : names)
      sets.emplace_back("gpukit/ops/matmul/gemm90.cuh", std::vector<std::string>{name}, dtypes,
                        std::vector<std::string>{"90a"});
  }
  return sets;
}
const std::vector<jit::KernelSet> narrow_sets = make_sets(false), wide_sets = make_sets(true);

/// Columns of the tiles that few rows stand in, the sides swapped; scales of more columns and blocks have no room.
constexpr int kThinColumns[] = {16, 64}, kThinBlockColumns[] = {16, 32};
/// By columns (see above) and type of the output.
std::vector<jit::KernelSet> make_thin_sets(bool blocked) {
  std::vector<jit::KernelSet> sets;
  for (const int columns : blocked ? kThinBlockColumns : kThinColumns)
    for (const char* out : kOutTypes)
      sets.emplace_back("gpukit/ops/matmul/gemm90.cuh",
                        std::vector{std::string(blocked ? "gpukit::gemm90_thin_blocks" : "gpukit::gemm90_thin") +
                                    "<{T}, " + out + ", " + std::to_string(columns) + ">"},
                        std::vector{DType::float8_e4m3, DType::float8_e5m2}, std::vector<std::string>{"90a"});
  return sets;
}
const std::vector<jit::KernelSet> thin_sets = make_thin_sets(false), thin_block_sets = make_thin_sets(true);

std::optional<int> out_index(Code out) {
  switch (out) {
    case Code::float32: return 0;
    case Code::float16: return 1;
    case Code::bfloat16: return 2;
    default: return std::nullopt;
  }
}

/// Rows of `length` bytes that start at multiples of 16 bytes. One row is judged as if there were more: which kernel
/// serves must not depend on their number.
bool rows_fit(const Array& x, int64_t rows, int64_t length, int64_t stride) {
  const int64_t step = rows == 1 ? length : stride;
  return is_aligned(x) && step > 0 && step % 16 == 0;
}

driver::BoxLayout layout(DType dtype, int64_t inner, int64_t outer, int64_t stride, int box_inner, int box_outer) {
  const int64_t bytes = itemsize(dtype);
  driver::BoxLayout l;
  l.dtype = dtype;
  l.shape[0] = inner;
  l.shape[1] = outer;
  l.strides[0] = l.strides[1] = outer == 1 ? ceil_div(inner * bytes, 16) * 16 : stride * bytes;
  l.box[0] = box_inner;
  l.box[1] = box_outer;
  l.swizzle = driver::BoxLayout::Swizzle::bytes128;
  return l;
}

}  // namespace

Scales scales_of(const ScaledOperand& o, int block_row_shift) {
  const ScaleLayout& s = o.scale;
  if (o.has_scale == 0) return Scales::none;
  if (s.row == 0 && s.column == 0) return Scales::tensor;
  if (s.column == 0 && s.row == 1 && s.row_shift == 0) return Scales::rows;
  const bool blocked = s.column == 1 && s.column_shift == 7 && s.row_shift == block_row_shift;
  return blocked ? Scales::blocks : Scales::other;
}

bool launch_scaled_gemm90(const ScaledProduct& p) {
  const ScaledSpace& s = p.space;
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 2;
  if (p.out.context().properties().sm_major != 9 || s.experts != 0 || p.out_scale.defined()) return false;
  if (s.a.code != s.b.code || (s.a.code != Code::float8_e4m3 && s.a.code != Code::float8_e5m2)) return false;
  const std::optional<int> out = out_index(s.out);
  if (!out || s.k == 0 || std::max({s.m, s.n, s.k}) > kMax) return false;
  if (s.a.k != 1 || !rows_fit(p.a.data, s.m, s.k, s.a.row)) return false;
  if (s.b.k != 1 || !rows_fit(p.b.data, s.n, s.k, s.b.row)) return false;
  const int64_t out_bytes = itemsize(p.out.dtype());
  // The copy engine writes whole pieces of 16 bytes.
  if (s.out_n != 1 || s.n * out_bytes % 16 != 0) return false;
  if (!rows_fit(p.out, s.m, s.n * out_bytes, s.out_m * out_bytes)) return false;
  const bool bias = p.bias.defined();
  if (bias && (p.bias.dtype() != p.out.dtype() || s.bias_n != 1 || !is_aligned(p.bias))) return false;

  const Scales of_a = scales_of(s.a, 0), of_b = scales_of(s.b, 7);
  const bool blocked = of_a == Scales::blocks && of_b == Scales::blocks;
  if (blocked ? bias || s.alpha != 1.0f : of_a >= Scales::blocks || of_b >= Scales::blocks) return false;
  if (of_b == Scales::rows && !is_aligned(p.b.scale)) return false;

  const int sm_count = runtime::current_sm_count(p.out.device());
  const auto turns = [&](int columns) { return ceil_div(ceil_div(s.m, kRows) * ceil_div(s.n, columns), sm_count); };
  // A wide tile takes 1.4 times as long as a narrow one.
  const bool wide = !bias && !blocked && p.a.data.dtype() == DType::float8_e4m3 &&
                    static_cast<double>(turns(192)) * 1.4 < static_cast<double>(turns(128));
  const int* const thin_columns = blocked ? kThinBlockColumns : kThinColumns;
  const bool thin = !bias && s.m <= thin_columns[1], thinnest = thin && s.m <= thin_columns[0];
  const auto in = static_cast<size_t>(*out);
  const jit::KernelSet& set = thin   ? (blocked ? thin_block_sets : thin_sets)[thinnest ? in : 3 + in]
                              : wide ? wide_sets[in]
                                     : narrow_sets[in * 3 + (blocked ? blocks
                                                             : bias  ? scales_and_bias
                                                                     : scales)];
  const jit::Kernel& chosen = set.get(0, p.a.data.dtype());

  // Of the kernel: rows and columns of the output, or the other way round.
  const Gemm90Tile tile{thin ? 64 : kRows,
                        thin   ? thin_columns[thinnest ? 0 : 1]
                        : wide ? 192
                               : 128,
                        1, static_cast<int>(out_bytes), thin ? Gemm90Store::turned_boxes : Gemm90Store::boxes};
  const int64_t m = thin ? s.n : s.m, n = thin ? s.m : s.n;
  const int64_t row_tiles = ceil_div(m, tile.rows), tiles = row_tiles * ceil_div(n, tile.columns);
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min<int64_t>(tiles, sm_count)),
                                 .block_x = static_cast<unsigned>(tile.threads()),
                                 .shared_bytes = static_cast<unsigned>(tile.shared_bytes())};
  const Gemm90Space space{.m = static_cast<int32_t>(m),
                          .n = static_cast<int32_t>(n),
                          .k = static_cast<int32_t>(s.k),
                          .batches = 1,
                          .a_step = 0,
                          .b_step = 0,
                          .group = static_cast<int32_t>(std::min<int64_t>(8, row_tiles)),
                          .out_m = thin ? 1 : s.out_m,
                          .out_n = thin ? s.out_m : 1,
                          .out_batch = 0};
  const DType dtype = p.a.data.dtype();
  const jit::Boxes rows{read(p.a.data), layout(dtype, s.k, s.m, s.a.row, tile.slice(), thin ? tile.columns : kRows)};
  const jit::Boxes weights{read(p.b.data),
                           layout(dtype, s.k, s.n, s.b.row, tile.slice(), thin ? tile.rows : tile.columns)};
  const int box_columns = (thin ? 128 : tile.box_bytes()) / static_cast<int>(out_bytes);
  const jit::Boxes result{write(p.out),
                          layout(p.out.dtype(), s.n, s.m, s.out_m, box_columns, thin ? tile.turned_columns() : 64)};
  const jit::Boxes &a = thin ? weights : rows, &b = thin ? rows : weights;
  if (blocked) {
    jit::launch(chosen, p.out.device(), config, a, b, result, write(p.out), space, read(p.a.scale), read(p.b.scale),
                s.a.scale.row, s.b.scale.row);
    return true;
  }
  const Gemm90Epilogue epilogue{.alpha = s.alpha,
                                .activation = Activation::none,
                                .scale_m = of_a == Scales::rows,
                                .scale_n = of_b == Scales::rows};
  if (thin)
    jit::launch(chosen, p.out.device(), config, a, b, result, write(p.out), space, epilogue, read_if(p.a.scale),
                read_if(p.b.scale));
  else
    jit::launch(chosen, p.out.device(), config, a, b, result, write(p.out), space, epilogue, read_if(p.bias),
                read_if(p.a.scale), read_if(p.b.scale));
  return true;
}

}  // namespace gpukit::cuda
