// conv_sm80: a convolution on the tensor cores of any chip since SM 80, float as TF32. One block makes a tile of output
// channels by outputs in space of one phase, group and item, from slices of weights (one tap, one block of channels)
// and windows of the input (one block of channels): a window serves all taps, which start at other places of it.
//
// Each output has one accumulator that takes blocks of 64 bytes of channels in ascending order, of each its taps, of
// each tap two steps of 32 bytes. So its bits depend on the channels of its group and on its taps alone, not on tiles,
// strides or alignment. Past the end of the channels, and of the input, there are zeros.
#pragma once
#include "gpukit/ops/conv/conv_activation.cuh"
#include "gpukit/ops/conv/conv_sm80_window.cuh"

namespace gpukit {

template <typename T, typename Tile>
struct ConvMma {
  static constexpr int kRowFragments = Tile::kWarpRows / 16, kColumnFragments = Tile::kWarpColumns / 16;
  static constexpr int kElements = ConvWindow<T>::kElements, kBlockChannels = ConvWindow<T>::kBlockChannels;
  static constexpr int kCopies = Tile::kStageBytes / kConvChunkBytes / Tile::kThreads;  // of weights, per thread
  static constexpr int kPassRows = Tile::kThreads / 4;                                  // all threads copy at once

  float sums[kRowFragments][kColumnFragments][2][4] = {};

  /// The chunks of a row of weights are permuted by its number, so that those of 8 rows lie in 8 different banks.
  GPUKIT_DEVICE static int weight_place(int row, int chunk) {
    return row * kConvBlockBytes + ((chunk ^ (row >> 1 & 3)) * kConvChunkBytes);
  }
  GPUKIT_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// The row that this lane addresses of the 16 of a fragment, and which half of its 32 bytes.
  GPUKIT_DEVICE static int fragment_row() { return lane() % 16; }
  GPUKIT_DEVICE static int fragment_half() { return lane() / 16; }
  GPUKIT_DEVICE static int warp_row() {
    return static_cast<int>(threadIdx.x) / 32 % (Tile::kRows / Tile::kWarpRows) * Tile::kWarpRows;
  }
  GPUKIT_DEVICE static int warp_column() {
    return static_cast<int>(threadIdx.x) / 32 / (Tile::kRows / Tile::kWarpRows) * Tile::kWarpColumns;
  }

  struct Fragments {
    uint32_t a[kRowFragments][4], b[kColumnFragments][4];
  };
  GPUKIT_DEVICE void add(const Fragments& f) {
#pragma unroll
    for (int i = 0; i < kRowFragments; ++i)
#pragma unroll
      for (int j = 0; j < kColumnFragments; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) Mma<T>::add(sums[i][j][half], f.a[i], f.b[j][half], f.b[j][half + 2]);
  }

  /// Every sum, by way of shared memory, as rows of results.
  GPUKIT_DEVICE void finish(const ConvWindow<T>& at, const T* bias, const ConvSpace& s, const ConvGrid& g,
                            float* staging) const {
    constexpr int kPitch = Tile::kStagingPitch, kWidth = Tile::kWarpColumns;
    const int group = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int i = 0; i < kRowFragments; ++i)
#pragma unroll
      for (int j = 0; j < kColumnFragments; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float(&from)[4] = sums[i][j][half];
          float* to = staging + (i * 16 + group) * kPitch + j * 16 + half * 8 + 2 * t;
          store_vec<float, 2>(to, {from[0], from[1]});
          store_vec<float, 2>(to + 8 * kPitch, {from[2], from[3]});
        }
    __syncwarp();
    const bool vectors = g.vectors != 0;
    const float slope = static_cast<float>(s.slope);
    const int64_t column_step = (s.phases > 1 ? s.phases : 1) * s.out_column;
    const int channels_left = static_cast<int>(s.out_channels) - at.channel;
    const auto inside = [&](int channel, int n) {  // n: of the tile
      return channel < channels_left && n >> g.width_shift < at.rows_left &&
             (n & ((1 << g.width_shift) - 1)) < at.columns_left;
    };
    const auto place = [&](int channel, int n) {
      return at.out + channel * s.out_channel + (n >> g.width_shift) * s.out_row +
             (n & ((1 << g.width_shift) - 1)) * column_step;
    };
#pragma unroll 1
    for (int begin = 0; begin < Tile::kWarpRows * kWidth; begin += 128) {
      float values[4];
      int channel[4], n[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int unit = begin + (vectors ? lane() * 4 + e : e * 32 + lane());
        const int line = unit / kWidth, in_line = unit % kWidth;
        channel[e] = warp_row() + line;
        n[e] = warp_column() + in_line;
        values[e] = staging[line * kPitch + in_line];
        if (bias != nullptr && channel[e] < channels_left)
          values[e] += load(bias[(at.channel + channel[e]) * s.bias_step]);
      }
      if (s.activation != 0) {
#pragma unroll 1
        for (int e = 0; e < 4; ++e) {
          // Turned around rather than indexed: the values stay in registers.
          const float v = conv_activation(values[0], s.activation, slope);
          values[0] = values[1], values[1] = values[2], values[2] = values[3], values[3] = v;
        }
      }
      Vec<T, 4> results;
#pragma unroll
      for (int e = 0; e < 4; ++e) results.v[e] = store<T>(values[e]);
      if (vectors && inside(channel[0], n[3])) {
        store_vec<T, 4>(place(channel[0], n[0]), results);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (inside(channel[e], n[e])) *place(channel[e], n[e]) = results.v[e];
      }
    }
  }
};

/// kGathered: windows are read element by element. Sizes of one group, taps and windows are below 2^31.
template <typename T, typename Tile, bool kGathered>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kResident)
    conv_sm80(T* out, const T* x, const T* w, const T* bias, const __grid_constant__ ConvSpace s,
              const __grid_constant__ ConvGrid g) {
  using Product = ConvMma<T, Tile>;
  using Window = ConvWindow<T>;
  constexpr int kStages = kConvStages, kStageBytes = Tile::kStageBytes;
  extern __shared__ __align__(128) unsigned char conv_shared[];
  __shared__ Window window;
  __shared__ uint32_t group;
  const int width = 1 << g.width_shift;
  if (threadIdx.x == 0) group = window.find(out, x, s, g, Tile::kRows, width, Tile::kColumns >> g.width_shift);
  __syncthreads();
  if (window.columns_left <= 0) return;  // phases differ by one output
  w += group * g.weight_group;
  if (bias != nullptr) bias += group * s.out_channels * s.bias_step;

  const int taps = window.tap_rows * window.tap_columns;
  const int blocks = (static_cast<int>(s.in_channels) + Window::kBlockChannels - 1) / Window::kBlockChannels;
  const int slices = taps * blocks;

  // Weights: this thread's chunk of every 32nd row.
  const int weight_row = static_cast<int>(threadIdx.x) / 4, weight_chunk = static_cast<int>(threadIdx.x) % 4;
  const int weight_rows = static_cast<int>(s.out_channels) - window.channel - weight_row;  // left
  w += int64_t{window.channel + weight_row} * g.weight_output + weight_chunk * Window::kElements;
  const uint32_t stages = shared_address(conv_shared);
  const uint32_t weight_to = stages + Product::weight_place(weight_row, weight_chunk);
  ConvWalk copied;
  const auto copy_weights = [&](uint32_t stage) {
    const int64_t tap = copied.row * s.columns.taps + window.first_tap + int64_t{copied.column} * window.tap_step;
    const int first = copied.block * Window::kBlockChannels;
    const int left = static_cast<int>(s.in_channels) - first - weight_chunk * Window::kElements;
    const int inside = left >= Window::kElements ? kConvChunkBytes : left * static_cast<int>(sizeof(T));
    const T* from = w + tap * g.weight_tap + copied.block * g.weight_block;
#pragma unroll
    for (int i = 0; i < Product::kCopies; ++i) {
      const bool used = i * Product::kPassRows < weight_rows && inside > 0;
      copy_async(weight_to + stage + i * Product::kPassRows * kConvBlockBytes,
                 from + i * Product::kPassRows * g.weight_output, used ? inside : 0);
    }
    copied.next(window.tap_rows, window.tap_columns);
  };

  // Windows: two of them, and two as they come from memory.
  const uint32_t windows = stages + kStages * kStageBytes;
  unsigned char* const raw = conv_shared + kStages * kStageBytes + 2 * g.window_bytes;
  const auto make_window = [&](int number, const ConvWalk& at) {
    const uint32_t to = windows + (number & 1) * g.window_bytes;
    if constexpr (kGathered)
      window.gather(s, g, to, at);
    else
      window.turn(s, g, to, raw + (number & 1) * g.raw_bytes, at.block);
  };
  const auto copy_window = [&](int number) {
    if (number < blocks) window.copy(s, g, raw + (number & 1) * g.raw_bytes, number);
  };

  const int a_lane = Product::weight_place(Product::warp_row() + Product::fragment_row(), Product::fragment_half());
  int b_lane[Product::kColumnFragments];
#pragma unroll
  for (int j = 0; j < Product::kColumnFragments; ++j) {
    const int n = Product::warp_column() + 16 * j + Product::fragment_row();
    b_lane[j] = (window.output_place(n >> g.width_shift, n & (width - 1)) + Product::fragment_half() * window.plane) *
                kConvChunkBytes;
  }
  const auto load_fragments = [&](typename Product::Fragments& to, uint32_t stage, uint32_t from, int step) {
#pragma unroll
    for (int i = 0; i < Product::kRowFragments; ++i)
      load_matrices(to.a[i], stages + stage + (a_lane ^ (step * 2 * kConvChunkBytes)) + i * 16 * kConvBlockBytes);
#pragma unroll
    for (int j = 0; j < Product::kColumnFragments; ++j)
      load_matrices(to.b[j], from + b_lane[j] + step * 2 * window.plane * kConvChunkBytes);
  };

  Product sums;
  if (slices > 0) {
#pragma unroll 1
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < slices) copy_weights(i * kStageBytes);
      if constexpr (!kGathered) {
        if (i < 2) copy_window(i);
      }
      commit_copies();
    }
    // A window of one tap is needed before the weights that were asked for with it.
    const auto await_slice = [&] {
      if (!kGathered && taps == 1)
        wait_copies<0>();
      else
        wait_copies<kStages - 2>();
      __syncthreads();
    };
    ConvWalk next;
    await_slice();
    make_window(0, next);
    __syncthreads();

    constexpr uint32_t kLastStage = (kStages - 1) * kStageBytes;
    uint32_t reading = 0;
    int number = 0;  // of the window in use
    uint32_t from = windows + window.tap_place(g, next) * kConvChunkBytes;
    typename Product::Fragments first, second;
    load_fragments(first, reading, from, 0);
    bool fresh = true, last = next.next(window.tap_rows, window.tap_columns);  // in its block of channels
#pragma unroll 1
    for (int left = slices; left > 0; --left) {
      load_fragments(second, reading, from, 1);
      sums.add(first);
      if (left >= kStages) copy_weights(reading == 0 ? kLastStage : reading - kStageBytes);
      if constexpr (!kGathered) {
        if (fresh) copy_window(number + 2);
      }
      commit_copies();
      // The next window is made in the last slice of this one, where no fragments wait: registers are few.
      const bool turns = last || g.one_tap != 0;
      if (turns) {
        sums.add(second);
        ++number;
        if (left > 1) make_window(number, next);
      }
      await_slice();
      reading = reading == kLastStage ? 0 : reading + kStageBytes;
      from = windows + (number & 1) * g.window_bytes + window.tap_place(g, next) * kConvChunkBytes;
      if (left > 1) load_fragments(first, reading, from, 0);
      if (!turns) sums.add(second);
      fresh = last;
      last = next.next(window.tap_rows, window.tap_columns);
    }
    wait_copies<0>();
    __syncthreads();  // the stages become the staging of the results
  }
  sums.finish(window, bias, s, g,
              reinterpret_cast<float*>(conv_shared) +
                  static_cast<int>(threadIdx.x) / 32 * Tile::kWarpRows * Tile::kStagingPitch);
}

}  // namespace gpukit
