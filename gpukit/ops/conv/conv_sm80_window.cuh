// The windows of conv_sm80: what the outputs of a tile read of a block of channels, in shared memory.
//
// A window is planes of 16 bytes of channels a position, so that rows of fragments that start at any position are read
// without conflicts of banks, and taps are other first positions. Positions of one row lie by their remainder of the
// step between outputs, each remainder's side by side. Global memory has positions side by side: those come as they
// are, 16 bytes at a time and behind the threads' back, and are turned when they are there. Each warp brings a plane.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/conv/conv_sm80_tile.cuh"

namespace gpukit {

/// The taps in ascending order for each block of channels, blocks ascending.
struct ConvWalk {
  int row = 0, column = 0, block = 0;
  /// True where a block of channels ended.
  GPUKIT_DEVICE bool next(int rows, int columns) {
    if (++column < columns) return false;
    column = 0;
    if (++row < rows) return false;
    row = 0;
    ++block;
    return true;
  }
};

GPUKIT_DEVICE uint32_t pair_of(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }
/// 16 bytes of channels as the products take them.
GPUKIT_DEVICE void pack_channels(uint32_t (&to)[4], const half (&from)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = pair_of(from[2 * i].bits, from[2 * i + 1].bits);
}
GPUKIT_DEVICE void pack_channels(uint32_t (&to)[4], const bfloat16 (&from)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = pair_of(from[2 * i].bits, from[2 * i + 1].bits);
}
GPUKIT_DEVICE void pack_channels(uint32_t (&to)[4], const float (&from)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = round_to_tf32(__float_as_uint(from[i]));
}

/// One axis of a window: its positions are first + i * step, i < count; those of [low, high) are inside of the input.
struct ConvSpan {
  int64_t first;
  int count, step, low, high;
  GPUKIT_DEVICE void find_inside(int64_t size) {
    const int64_t before = first >= 0 ? 0 : (step - 1 - first) / step;
    const int64_t until = first >= size ? 0 : (size - first + step - 1) / step;
    low = static_cast<int>(before < count ? before : count);
    high = static_cast<int>(until < count ? until : count);
  }
};

/// A block's place in a convolution and its windows. It lies in shared memory, for registers are few.
template <typename T>
struct ConvWindow {
  static constexpr int kElements = kConvChunkBytes / sizeof(T);       // of a chunk
  static constexpr int kBlockChannels = kConvBlockBytes / sizeof(T);  // four chunks

  const T* x;                            // element 0 of the item and the group
  T* out;                                // the tile's first result
  int channel, rows_left, columns_left;  // of the tile's results, its first channel and what is left from there
  int tap_rows, tap_columns, first_tap, tap_step;
  int64_t first_row, first_column, row_tap, column_tap;  // what the first output reads first, and steps of taps there
  int row_step;                                          // between outputs
  ConvSpan rows, columns;
  int remainders, remainder_width;  // of the columns
  int pitch, plane;                 // positions of a row, and of all rows

  /// Blocks: [item][group][row tile][column tile][channel tile][phase]. The group.
  GPUKIT_DEVICE uint32_t find(T* out_start, const T* x_start, const ConvSpace& s, const ConvGrid& g, int tile_channels,
                              int width, int height) {
    const uint32_t phases = s.phases == 0 ? 1 : static_cast<uint32_t>(s.phases);
    uint32_t place = blockIdx.x;
    const uint32_t number = place % phases;
    place /= phases;
    channel = static_cast<int>(place % g.channel_tiles) * tile_channels;
    place /= g.channel_tiles;
    const int64_t column = int64_t{place % g.column_tiles} * width;
    place /= g.column_tiles;
    const int64_t row = int64_t{place % g.row_tiles} * height;
    place /= g.row_tiles;
    const uint32_t group = place % static_cast<uint32_t>(s.groups), item = place / static_cast<uint32_t>(s.groups);
    const ConvPhase down = conv_phase(s.rows), along = columns_of(s, number);
    x = x_start + item * s.x_batch + group * s.in_channels * s.x_channel;
    out = out_start + item * s.out_batch + (group * s.out_channels + channel) * s.out_channel + row * s.out_row +
          (along.first_out + column * along.out_step) * s.out_column;
    rows_left = static_cast<int>(down.count - row);
    columns_left = static_cast<int>(along.count - column);
    tap_rows = static_cast<int>(down.taps);
    tap_columns = static_cast<int>(along.taps);
    first_tap = static_cast<int>(along.first_tap);
    tap_step = static_cast<int>(along.tap_step);
    first_row = down.first_in + row * down.in_step;
    first_column = along.first_in + column * along.in_step;
    row_tap = down.in_tap;
    column_tap = along.in_tap;
    row_step = g.one_tap != 0 ? 1 : static_cast<int>(down.in_step);
    if (g.one_tap != 0) {
      rows = {0, height, static_cast<int>(down.in_step), 0, 0};
      columns = {0, width, static_cast<int>(along.in_step), 0, 0};
      remainders = 1;
    } else {
      const int64_t reach = (along.taps - 1) * along.in_tap;
      rows = {first_row, static_cast<int>((height - 1) * down.in_step + (down.taps - 1) * down.in_tap) + 1, 1, 0, 0};
      columns = {first_column + (reach < 0 ? reach : 0),
                 static_cast<int>((width - 1) * along.in_step + (reach < 0 ? -reach : reach)) + 1, 1, 0, 0};
      remainders = static_cast<int>(along.in_step);
      rows.find_inside(s.rows.in);
      columns.find_inside(s.columns.in);
    }
    remainder_width = remainders == 1 ? columns.count : (columns.count + remainders - 1) / remainders;
    pitch = remainders * remainder_width;
    plane = rows.count * pitch;
    return group;
  }

  /// The place in a row of column i of the window.
  GPUKIT_DEVICE int place(int i) const {
    if (remainders == 1) return i;
    const uint32_t n = static_cast<uint32_t>(remainders), at = static_cast<uint32_t>(i);
    return static_cast<int>(at % n) * remainder_width + static_cast<int>(at / n);
  }
  /// The place in a plane of what output (row, column) of the tile reads with its first tap.
  GPUKIT_DEVICE int output_place(int row, int column) const { return row * row_step * pitch + column; }
  /// What a tap adds to it.
  GPUKIT_DEVICE int tap_place(const ConvGrid& g, const ConvWalk& at) const {
    if (g.one_tap != 0) return 0;
    const int step = static_cast<int>(column_tap);
    const int along = step < 0 ? (tap_columns - 1 - at.column) * -step : at.column * step;
    return at.row * static_cast<int>(row_tap) * pitch + place(along);
  }

  GPUKIT_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// The channels of this warp, from that of the group on, and how many of them there are.
  GPUKIT_DEVICE static int channel_of(int block) {
    return block * kBlockChannels + static_cast<int>(threadIdx.x) / 32 * kElements;
  }
  GPUKIT_DEVICE static int channels_left(const ConvSpace& s, int channel) {
    const int left = static_cast<int>(s.in_channels) - channel;
    return left < 0 ? 0 : left < kElements ? left : kElements;
  }
  GPUKIT_DEVICE uint32_t to(uint32_t window, int row, int place) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return window + (warp * plane + row * pitch + place) * kConvChunkBytes;
  }
  /// Bytes of shared memory before channel i of this warp and row `row`, as they come from global memory.
  GPUKIT_DEVICE int raw_row(const ConvGrid& g, int i, int row) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return ((warp * kElements + i) * rows.count + row) * g.raw_chunks * kConvChunkBytes;
  }

  /// Starts to bring the rows of a block, with what lies between them and multiples of 16 bytes. What is outside of
  /// the input is left as it is.
  GPUKIT_DEVICE void copy(const ConvSpace& s, const ConvGrid& g, unsigned char* raw, int block) const {
    const int channel = channel_of(block), channels = channels_left(s, channel);
    const int total = (rows.count * kElements) << g.raw_shift;
#pragma unroll 1
    for (int unit = lane(); unit < total; unit += 32) {
      const int chunk = unit & ((1 << g.raw_shift) - 1), line = unit >> g.raw_shift;
      const int i = line % kElements, row = line / kElements;
      if (chunk >= g.raw_chunks || i >= channels || row < rows.low || row >= rows.high) continue;
      const int64_t begin = reinterpret_cast<int64_t>(x + (channel + i) * s.x_channel + (rows.first + row) * s.x_row);
      const int64_t end = begin + s.columns.in * static_cast<int64_t>(sizeof(T));
      const int64_t from =
          ((begin + columns.first * static_cast<int64_t>(sizeof(T))) & ~int64_t{15}) + chunk * kConvChunkBytes;
      if (from >= end || from + kConvChunkBytes <= begin) continue;
      unsigned char* const here = raw + raw_row(g, i, row) + chunk * kConvChunkBytes;
      const int64_t left = end - from;
      if (from >= begin) {
        copy_async(shared_address(here), reinterpret_cast<const void*>(from),
                   static_cast<int>(left < kConvChunkBytes ? left : kConvChunkBytes));
        continue;
      }
#pragma unroll 1
      for (int at = static_cast<int>(begin - from); at < kConvChunkBytes && at < left;
           at += static_cast<int>(sizeof(T)))
        *reinterpret_cast<T*>(here + at) = *reinterpret_cast<const T*>(from + at);
    }
  }

  /// Makes the window of such rows.
  GPUKIT_DEVICE void turn(const ConvSpace& s, const ConvGrid& g, uint32_t window, const unsigned char* raw,
                          int block) const {
    const int channel = channel_of(block), channels = channels_left(s, channel);
    // Addresses modulo 16 bytes: those of blocks of channels are equal.
    const uint32_t start =
        static_cast<uint32_t>((reinterpret_cast<uint64_t>(x) / sizeof(T)) + static_cast<uint64_t>(columns.first));
#pragma unroll 1
    for (int row = 0; row < rows.count; ++row) {
      const bool row_inside = row >= rows.low && row < rows.high;
      // Of each channel how much of its first 16 bytes lies before the window: 4 bits of it.
      uint32_t skipped = 0;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const uint32_t before = start + static_cast<uint32_t>(channel + i) * static_cast<uint32_t>(s.x_channel) +
                                static_cast<uint32_t>(rows.first + row) * static_cast<uint32_t>(s.x_row);
        skipped |= before % kElements << 4 * i;
      }
      const int channel_bytes = rows.count * g.raw_chunks * kConvChunkBytes;
#pragma unroll 1
      for (int at = lane(); at < columns.count; at += 32) {
        const bool inside = row_inside && at >= columns.low && at < columns.high;
        const unsigned char* from = raw + raw_row(g, 0, row) + at * static_cast<int>(sizeof(T));
        T values[kElements] = {};
#pragma unroll
        for (int i = 0; i < kElements; ++i, from += channel_bytes)
          if (inside && i < channels) values[i] = reinterpret_cast<const T*>(from)[skipped >> 4 * i & 15];
        uint32_t packed[4];
        pack_channels(packed, values);
        store_shared(to(window, row, place(at)), packed);
      }
    }
  }

  /// Makes a window from global memory, of any strides. `tap`: what it is of, where windows serve one tap.
  GPUKIT_DEVICE void gather(const ConvSpace& s, const ConvGrid& g, uint32_t window, const ConvWalk& tap) const {
    ConvSpan rows = {first_row + tap.row * row_tap, this->rows.count, this->rows.step, 0, 0};
    ConvSpan columns = {first_column + tap.column * column_tap, this->columns.count, this->columns.step, 0, 0};
    if (g.one_tap != 0) {
      rows.find_inside(s.rows.in);
      columns.find_inside(s.columns.in);
    } else {
      rows = this->rows;
      columns = this->columns;
    }
    const int channel = channel_of(tap.block), channels = channels_left(s, channel);
    const T* const start = x + channel * s.x_channel;
#pragma unroll 1
    for (int row = 0; row < rows.count; ++row) {
      const bool row_inside = row >= rows.low && row < rows.high;
#pragma unroll 1
      for (int at = lane(); at < columns.count; at += 32) {
        const bool inside = row_inside && at >= columns.low && at < columns.high;
        const T* const from = start + (rows.first + int64_t{row} * rows.step) * s.x_row +
                              (columns.first + int64_t{at} * columns.step) * s.x_column;
        Vec<T, kElements> values = {};
        if (inside && channels == kElements && g.channel_chunks != 0) {
          values = load_vec<T, kElements>(from);
        } else {
#pragma unroll
          for (int i = 0; i < kElements; ++i)
            if (inside && i < channels) values.v[i] = from[i * s.x_channel];
        }
        uint32_t packed[4];
        pack_channels(packed, values.v);
        store_shared(to(window, row, place(at)), packed);
      }
    }
  }
};

}  // namespace gpukit
