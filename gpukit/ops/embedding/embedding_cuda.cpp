#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/embedding/embedding_params.cuh"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {

namespace {

const jit::KernelSet moves("gpukit/ops/embedding/embedding.cuh",
                           {"gpukit::embedding_rows<{T}, 16>", "gpukit::embedding_rows<{T}, sizeof({T})>"},
                           {DType::uint8, DType::uint16, DType::uint32, DType::uint64});
/// complex128
const jit::KernelSet widest("gpukit/ops/embedding/embedding.cuh", {"gpukit::embedding_rows<gpukit::Vec<{T}, 2>, 16>"},
                            {DType::uint64});

DType move_type(int bytes) {
  switch (bytes) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    default: return DType::uint64;
  }
}

}  // namespace

void embedding(const char* op, const Array& out, const Array& table, const Array& ids, bool sequential) {
  const int bytes = itemsize(out.dtype());
  EmbeddingParams p{};
  p.rows = out.shape()[0];
  p.width = out.shape()[1];
  p.vocab = table.shape()[0];
  p.out_row = out.strides()[0];
  p.out_step = out.strides()[1];
  p.table_row = table.strides()[0];
  p.table_step = table.strides()[1];
  p.id_step = ids.strides()[0];
  p.wide_ids = ids.dtype() == DType::int64 ? 1 : 0;
  p.sequential = sequential ? 1 : 0;
  p.fault_op = runtime::fault_code(op);
  const int64_t v = 16 / bytes;
  const bool vector = is_aligned(out) && is_aligned(table) && p.width % v == 0 && p.out_row % v == 0 &&
                      p.table_row % v == 0 && p.out_step == 1 && p.table_step == 1;
  const int64_t units = vector ? p.width / v : p.width;
  p.log2_lanes = 0;
  while (p.log2_lanes < 8 && (int64_t{1} << p.log2_lanes) < units) ++p.log2_lanes;
  // Few rows: cut them, so that one token is moved by several blocks.
  const int64_t per_pass = int64_t{4} * (int64_t{1} << p.log2_lanes) * (vector ? v : 1);
  int64_t pieces = p.rows >= 256 ? 1 : std::min<int64_t>(ceil_div(p.width, per_pass), 64);
  p.piece = ceil_div(ceil_div(p.width, pieces), per_pass) * per_pass;
  pieces = ceil_div(p.width, p.piece);
  const int64_t rows_per_block = 256 >> p.log2_lanes;
  const int64_t row_blocks = std::min<int64_t>(ceil_div(p.rows, rows_per_block), 0x7fffffff);
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(row_blocks),
                                 .grid_y = static_cast<unsigned>(pieces),
                                 .block_x = 256,
                                 .overlaps = may_start_early(out, row_blocks * pieces)};
  const jit::Kernel& kernel = bytes == 16 ? widest.get(0, DType::uint64) : moves.get(vector ? 0 : 1, move_type(bytes));
  jit::launch(kernel, out.device(), config, write(out), read(table), read(ids), runtime::fault_address(out.device()),
              p);
}

}  // namespace gpukit::cuda
