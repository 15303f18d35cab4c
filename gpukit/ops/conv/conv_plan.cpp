#include "gpukit/ops/conv/conv_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/conv/conv_tile.cuh"

namespace gpukit::cuda {

namespace {

constexpr int64_t kMost = 0x7fffffff;
/// Output channels of a group from which on a tile of them pays.
constexpr int64_t kFewChannels = 8;
/// Channels times output channels of a group from which on tensor cores win, though they fill tiles with zeros.
constexpr int64_t kFewProducts = 64;

// Cycles of a multiprocessor, reasoned from its rates: bench/notes/convolution-on-tensor-cores.md.
constexpr double kProductsPerCycle = 1270;  // multiply-adds of 16-bit floats by mma.sync
constexpr double kCyclesPerPosition = 2;    // of a window: 64 bytes of channels, turned
constexpr double kGatherCyclesPerPosition = 12;
constexpr double kBlockCycles = 3000;  // before the first product and after the last one
constexpr double kAlone = 1.3;         // a block beside no other waits for its own copies

constexpr int64_t kFixedShared = 512;  // of a block, beside what is counted here

struct Tile {
  const char* name;
  int rows, columns, stage_bytes, staging_bytes, resident;
  double speed;  // products in the time of one, relative to the largest tile
};
template <typename T>
constexpr Tile tile(const char* name, double speed) {
  return {name, T::kRows, T::kColumns, T::kStageBytes, T::kStagingBytes, T::kResident, speed};
}
constexpr Tile kTiles[] = {tile<ConvTile128x128>("128x128", 1.0), tile<ConvTile64x128>("64x128", 0.85),
                           tile<ConvTile64x64>("64x64", 0.7), tile<ConvTile64x64>("64x64", 0.7)};

/// The longest of the phases of the columns.
struct Longest {
  int64_t outputs, taps, in_step, in_tap;
};
Longest longest_phase(const ConvSpace& s) {
  const ConvAxis& a = s.columns;
  if (s.phases == 0) return {a.out, a.taps, a.stride, a.dilation};
  const int64_t divisor = std::gcd(a.stride, a.dilation);
  return {ceil_div(a.out, a.stride), ceil_div(a.taps, a.stride / divisor), 1, a.dilation / divisor};
}

struct Candidate {
  ConvTile tile;
  ConvGrid grid;
  int64_t blocks;
  unsigned shared_bytes;
  double cycles;
};

/// Whether x is read 16 bytes of positions at a time, and whether a window serves one tap.
struct Way {
  bool gathered, one_tap;
};

std::optional<Candidate> consider(const ConvSpace& s, ConvTile number, Way way, int shift, const ConvChip& chip,
                                  int64_t element_bytes) {
  const Tile& t = kTiles[static_cast<int>(number)];
  const Longest p = longest_phase(s);
  const int64_t width = int64_t{1} << shift, height = t.columns >> shift;
  Candidate c{number, {}, 0, 0, 0};
  ConvGrid& g = c.grid;
  g.width_shift = shift;
  g.one_tap = way.one_tap ? 1 : 0;

  const int64_t along = way.one_tap ? width : (width - 1) * p.in_step + (p.taps - 1) * p.in_tap + 1;
  const int64_t down = way.one_tap ? height : (height - 1) * s.rows.stride + (s.rows.taps - 1) * s.rows.dilation + 1;
  const int64_t pitch = way.one_tap ? width : ceil_div(along, p.in_step) * p.in_step;
  const int64_t room = chip.shared_per_block - kFixedShared;
  if (pitch > room || down > room || pitch * down > room / (2 * kConvBlockBytes)) return std::nullopt;
  const int64_t positions = pitch * down;
  g.window_bytes = static_cast<int32_t>(positions * kConvBlockBytes);
  if (!way.gathered) {
    const int64_t chunk = kConvChunkBytes / element_bytes;
    g.raw_chunks = static_cast<int32_t>(ceil_div(along + chunk - 1, chunk));
    while (1 << g.raw_shift < g.raw_chunks) ++g.raw_shift;
    g.raw_bytes = static_cast<int32_t>(kConvBlockBytes / element_bytes * down * g.raw_chunks * kConvChunkBytes);
  }
  const int64_t bytes = int64_t{kConvStages} * t.stage_bytes + 2 * (int64_t{g.window_bytes} + g.raw_bytes);
  c.shared_bytes = static_cast<unsigned>(std::max<int64_t>(bytes, t.staging_bytes));
  if (c.shared_bytes > room) return std::nullopt;

  const int64_t channel_tiles = ceil_div(s.out_channels, t.rows);
  const int64_t row_tiles = ceil_div(s.rows.out, height), column_tiles = ceil_div(p.outputs, width);
  g.channel_tiles = static_cast<uint32_t>(channel_tiles);
  g.row_tiles = static_cast<uint32_t>(row_tiles);
  g.column_tiles = static_cast<uint32_t>(column_tiles);
  const int64_t phases = std::max<int64_t>(s.phases, 1);
  const double count = static_cast<double>(phases) * static_cast<double>(s.batches) * static_cast<double>(s.groups) *
                       static_cast<double>(channel_tiles) * static_cast<double>(row_tiles) *
                       static_cast<double>(column_tiles);
  c.blocks = count > static_cast<double>(kMost) ? kMost + 1 : static_cast<int64_t>(count);

  const double blocks_of_channels = static_cast<double>(ceil_div(s.in_channels * element_bytes, kConvBlockBytes));
  const double taps = static_cast<double>(s.rows.taps * p.taps);
  const double windows = blocks_of_channels * (way.one_tap ? taps : 1.0);
  const double products = blocks_of_channels * taps * t.rows * t.columns * (kConvBlockBytes / 2.0);
  const double position = way.gathered ? kGatherCyclesPerPosition : kCyclesPerPosition;
  const double one =
      products / kProductsPerCycle / t.speed + windows * static_cast<double>(positions) * position + kBlockCycles;
  const int64_t resident =
      std::min<int64_t>(t.resident, std::max<int64_t>(1, chip.shared_per_sm / (int64_t{c.shared_bytes} + 1024)));
  const double on_one = static_cast<double>(ceil_div(c.blocks, std::max(1, chip.sm_count)));
  c.cycles = on_one * one * (on_one < 2 || resident < 2 ? kAlone : 1.0);
  return c;
}

bool rows_of_chunks(const ConvSpace& s, int64_t chunk) {
  return s.x_channel == 1 && s.x_batch % chunk == 0 && s.x_row % chunk == 0 && s.x_column % chunk == 0 &&
         s.in_channels % chunk == 0;
}

/// The quickest tile, or none that fits.
std::optional<Candidate> choose(const ConvSpace& s, DType dtype, const ConvChip& chip) {
  const auto element_bytes = static_cast<int64_t>(itemsize(dtype));
  std::optional<Candidate> best;
  const auto offer = [&](ConvTile number, Way way) {
    const int columns = kTiles[static_cast<int>(number)].columns;
    int widest = 3;
    while (1 << widest < columns) ++widest;
    // Rows of one output each have no height to fill.
    const int least = s.rows.out > 1 ? 3 : widest;
    for (int shift = least; shift <= widest; ++shift) {
      const std::optional<Candidate> c = consider(s, number, way, shift, chip, element_bytes);
      if (c && (!best || c->cycles < best->cycles)) best = c;
    }
  };
  if (s.x_column == 1)
    for (const ConvTile number : {ConvTile::t128x128, ConvTile::t64x128, ConvTile::t64x64})
      offer(number, {false, false});
  offer(ConvTile::gathered, {true, false});
  offer(ConvTile::gathered, {true, true});
  return best;
}

/// Sizes that the kernel counts in 32 bits.
bool countable(const ConvSpace& s) {
  const Longest p = longest_phase(s);
  constexpr int64_t kSmall = int64_t{1} << 24;  // of a tile's steps
  for (const int64_t size : {s.in_channels, s.out_channels, s.rows.out, s.columns.out, s.groups, s.batches, s.phases})
    if (size > kMost / 2) return false;
  const double slices = static_cast<double>(s.rows.taps) * static_cast<double>(s.columns.taps) *
                        static_cast<double>(ceil_div(s.in_channels, int64_t{4}));
  return slices < static_cast<double>(kMost) && s.rows.stride < kSmall && p.in_step < kSmall;
}

}  // namespace

ConvPlan plan_conv(const ConvSpace& s, DType dtype, bool tf32, bool x_aligned, bool weight_aligned, bool out_aligned,
                   const ConvChip& chip) {
  ConvPlan plan;
  const int64_t phases = s.phases == 0 ? 1 : s.phases;
  const int64_t longest = longest_phase(s).outputs;
  const auto blocks = [&](int64_t channel_tiles, int64_t space_tiles) {
    const double count = static_cast<double>(phases) * static_cast<double>(s.batches) * static_cast<double>(s.groups) *
                         static_cast<double>(channel_tiles) * static_cast<double>(space_tiles);
    return count > static_cast<double>(kMost) ? kMost + 1 : static_cast<int64_t>(count);
  };
  if (s.in_channels == 1 && s.out_channels <= kFewChannels && s.rows.out <= kMost / std::max<int64_t>(1, longest)) {
    plan.kernel = ConvKernel::depthwise;
    plan.blocks = blocks(s.out_channels, ceil_div(s.rows.out * longest, int64_t{kDepthwiseOutputs}));
    return plan;
  }
  plan.blocks =
      blocks(ceil_div(s.out_channels, int64_t{kConvTile}), ceil_div(s.rows.out * longest, int64_t{kConvTile}));
  const bool factors = dtype == DType::float16 || dtype == DType::bfloat16 || (dtype == DType::float32 && tf32);
  if (!factors || s.in_channels * s.out_channels < kFewProducts || !countable(s)) return plan;

  const std::optional<Candidate> c = choose(s, dtype, chip);
  if (!c) return plan;
  plan.kernel = ConvKernel::mma;
  plan.tile = c->tile;
  plan.grid = c->grid;
  plan.blocks = c->blocks;
  plan.shared_bytes = c->shared_bytes;

  const int64_t chunk = kConvChunkBytes / static_cast<int64_t>(itemsize(dtype));
  const int64_t taps = s.rows.taps * s.columns.taps;
  const auto dense = [&](int64_t stride, int64_t size) { return size <= 1 || stride % chunk == 0; };
  ConvGrid& g = plan.grid;
  const int64_t tap = s.columns.taps > 1 ? s.w_column : s.w_row;
  const bool even_taps = s.rows.taps == 1 || s.columns.taps == 1 || s.w_row == s.columns.taps * s.w_column;
  plan.packs = dtype == DType::float32 || s.w_in != 1 || !weight_aligned || !dense(s.w_out, s.out_channels) ||
               !dense(s.w_group, s.groups) || !dense(tap, taps) || !even_taps;
  if (plan.packs) {
    plan.weights = {.in_channels = static_cast<uint32_t>(s.in_channels),
                    .out_channels = static_cast<uint32_t>(s.out_channels),
                    .taps = static_cast<uint32_t>(taps),
                    .tap_columns = static_cast<uint32_t>(s.columns.taps),
                    .w_group = s.w_group,
                    .w_out = s.w_out,
                    .w_in = s.w_in,
                    .w_row = s.w_row,
                    .w_column = s.w_column,
                    .block_channels = static_cast<uint32_t>(4 * chunk),
                    .outputs_inner = s.w_out < s.w_in ? 1 : 0};
    g.weight_output = 4 * chunk;
    g.weight_block = s.out_channels * g.weight_output;
    g.weight_tap = ceil_div(s.in_channels, g.weight_output) * g.weight_block;
    g.weight_group = taps * g.weight_tap;
  } else {
    g.weight_output = s.out_channels > 1 ? s.w_out : 0;
    g.weight_tap = taps > 1 ? tap : 0;
    g.weight_block = 4 * chunk;
    g.weight_group = s.groups > 1 ? s.w_group : 0;
  }
  const int64_t out_step = s.phases > 1 ? s.phases : 1;
  const auto quads = [](int64_t stride, int64_t size) { return size <= 1 || stride % 4 == 0; };
  g.vectors = out_aligned && (s.out_column == 1 || s.columns.out == 1) && out_step == 1 &&
                      quads(s.out_batch, s.batches) && quads(s.out_channel, s.out_channels * s.groups) &&
                      quads(s.out_row, s.rows.out)
                  ? 1
                  : 0;
  g.channel_chunks = x_aligned && rows_of_chunks(s, chunk) ? 1 : 0;
  return plan;
}

std::string ConvPlan::str() const {
  if (kernel == ConvKernel::depthwise) return "conv_depthwise, CUDA cores, " + std::to_string(blocks) + " blocks";
  if (kernel == ConvKernel::simt) return "conv 64x64, CUDA cores, " + std::to_string(blocks) + " blocks";
  std::string text = std::string("conv_sm80 ") + kTiles[static_cast<int>(tile)].name + ", tensor cores";
  text += grid.one_tap != 0 ? ", a window a tap" : ", windows of all taps";
  if (tile == ConvTile::gathered) text += ", gathered";
  if (packs) text += ", weights packed before";
  return text + ", " + std::to_string(blocks) + " blocks";
}

}  // namespace gpukit::cuda
