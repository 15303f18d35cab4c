// multiply_skinny: out[token, row] = sum over k of w[row, k] x[token, k] for 1 to 64 tokens, by tensor cores at the
// speed of memory.
//
// A block makes kTokens x 16 kWarps kRowTiles outputs: weights stand as the 16 rows of a fragment, tokens as its 8
// columns. 128 kWide bytes of every row of w, and the same k of every token, go to one of kStages stages in shared
// memory.
//
// The order of sums is a function of k, `chain` and the format alone. A chain is `chain` of k, walked in ascending
// steps of 16 into one accumulator that starts at 0. Where float32 scales change along k (every kGroup), the sum of a
// group starts at 0 and is added to the chain's as fma(scale, sum, chain). Chains are added in ascending order. The
// blocks of a cluster take chains in turn.
#pragma once
#include "gpukit/ops/gemv/cluster.cuh"
#include "gpukit/ops/gemv/skinny_space.cuh"
#include "gpukit/ops/gemv/weights.cuh"

namespace gpukit {

/// kGroup: 0 where one scale serves a row; 128 for float8 with one for 128 x 128; 32, 64 or 128 for int4; 16 or 32 for
/// e2m1.
template <typename W, typename X, int kTokens, int kWarps, int kRowTiles, int kWide, int kGroup>
struct SkinnyShape {
  using T = typename TokenMath<X>::type;
  static constexpr int kSteps = Weights<W, T>::kSteps;  // in 32 bytes of a row
  static constexpr int kRowBytes = 128 * kWide;
  static constexpr int kStageK = 64 * kWide * kSteps;
  static constexpr int kRows = 16 * kWarps * kRowTiles;
  static constexpr int kTokenBytes = kStageK * static_cast<int>(sizeof(X));
  static constexpr int kGroupsOfStage = kGroup == 0 ? 0 : kStageK / (kGroup + (kGroup == 0));
  static constexpr int kScaleBytes = is_int4<W> ? kGroupsOfStage * 4 : is_e2m1<W> ? kGroupsOfStage : 0;  // of a row
  static constexpr int kTokensAt = kRows * kRowBytes, kScalesAt = kTokensAt + kTokens * kTokenBytes;
  static constexpr int kStageBytes = kScalesAt + kRows * kScaleBytes;
  static constexpr int kPitch = kRows + 4;  // of a chain's sums: spreads the banks
  static constexpr int kSlotFloats = kTokens * kPitch;
};

/// What the block at `place` does, 32 kWarps threads, of kBlocks * ceil(n / (16 kWarps kRowTiles)) in clusters of
/// kBlocks; `end(token, row, sum)` takes a sum that no scale of rows or tokens was applied to. Shared bytes: kStages *
/// kStageBytes, and 4 * kSlotFloats for every chain of a block (once where kBlocks is 1). `chain` is a multiple of
/// kStageK. w, x, their strides and k of both are multiples of 16 bytes, e2m1 scales and their stride of 4. `zero` is
/// read where kZero, `scale` where kGroup is not 0.
template <typename W, typename X, int kTokens, int kWarps, int kRowTiles, int kWide, int kGroup, bool kZero,
          int kBlocks, int kStages, typename End>
GPUKIT_DEVICE void multiply_skinny(unsigned place, const W* w, const X* x, const void* scale, const int8_t* zero,
                                   const SkinnySpace& s, const End& end) {
  using Shape = SkinnyShape<W, X, kTokens, kWarps, kRowTiles, kWide, kGroup>;
  using T = typename Shape::T;
  using Format = Weights<W, T>;
  constexpr int kSharers = working_blocks<kBlocks>(), kThreads = 32 * kWarps;
  constexpr int kSteps = Shape::kSteps, kColumnTiles = kTokens / 8;
  constexpr bool kFlat = sizeof(W) == 2;
  extern __shared__ __align__(128) uint8_t skinny_shared[];

  const int block = static_cast<int>(place) % kBlocks;
  if (block >= kSharers) return;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int g = lane / 4, t = lane % 4;
  const int64_t first_row = static_cast<int64_t>(place) / kBlocks * Shape::kRows;
  const uint32_t ring = shared_address(skinny_shared);
  float* const slots = reinterpret_cast<float*>(skinny_shared + kStages * Shape::kStageBytes);

  const int chains = static_cast<int>((s.k + s.chain - 1) / s.chain);
  const int chains_of_block = (chains + kSharers - 1) / kSharers;
  const int64_t k_begin = static_cast<int64_t>(block) * chains_of_block * s.chain;
  const int64_t k_stop = k_begin + static_cast<int64_t>(chains_of_block) * s.chain;
  const int64_t k_end = k_stop < s.k ? k_stop : s.k;
  const int stages = k_begin < k_end ? static_cast<int>((k_end - k_begin + Shape::kStageK - 1) / Shape::kStageK) : 0;
  const int stages_of_chain = s.chain / Shape::kStageK;

  // Copies: a thread takes one granule of 16 bytes of every kRowStep-th row, and the same granules of x in every stage.
  constexpr int kRowGranules = 8 * kWide, kRowStep = kThreads / kRowGranules;
  const int copy_row = thread / kRowGranules, copy_granule = thread % kRowGranules;
  const int64_t w_bytes = s.k * 2 / kSteps, x_bytes = s.k * static_cast<int64_t>(sizeof(X));
  int64_t w_at = k_begin * 2 / kSteps + copy_granule * 16, x_at = k_begin * static_cast<int64_t>(sizeof(X));
  const uint8_t* w_from = reinterpret_cast<const uint8_t*>(w) + (first_row + copy_row) * s.w_stride + w_at;
  const int copy_rows = static_cast<int>(s.n - first_row < Shape::kRows ? s.n - first_row : Shape::kRows);
  const auto spread = [](int token) { return kFlat || sizeof(X) == 1 ? token & 7 : (token & 3) << 1; };
  const auto copy_stage = [&](int stage, int index) {
    const uint32_t to = ring + stage * Shape::kStageBytes;
    const int64_t k = k_begin + static_cast<int64_t>(index) * Shape::kStageK;
    const int w_size = w_at < w_bytes ? 16 : 0;
    const uint8_t* from = w_from;
#pragma unroll
    for (int j = 0; j < 4 * kRowTiles * kWide; ++j) {
      const int row = copy_row + j * kRowStep;
      copy_async(to + row * Shape::kRowBytes + ((copy_granule ^ (row & 7)) << 4), from, row < copy_rows ? w_size : 0);
      from += kRowStep * s.w_stride;
    }
    w_at += Shape::kRowBytes;
    w_from += Shape::kRowBytes;
    constexpr int kGranules = Shape::kTokenBytes / 16, kCopies = (kTokens * kGranules + kThreads - 1) / kThreads;
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      const int i = thread + j * kThreads, token = i / kGranules, granule = i % kGranules;
      if (token < s.tokens)
        copy_async(to + Shape::kTokensAt + token * Shape::kTokenBytes + ((granule ^ spread(token)) << 4),
                   reinterpret_cast<const uint8_t*>(x) + token * s.x_stride + x_at + granule * 16,
                   x_at + granule * 16 < x_bytes ? 16 : 0);
    }
    x_at += Shape::kTokenBytes;
    if constexpr (Shape::kScaleBytes != 0) {
      constexpr int kWords = Shape::kScaleBytes / 4, kEach = is_int4<W> ? 1 : 4, kBytesEach = 4 / kEach;
      const int64_t groups = (s.k + kGroup - 1) / kGroup;
      for (int i = thread; i < Shape::kRows * kWords; i += kThreads) {
        const int row = i / kWords;
        const int64_t at = k / kGroup + i % kWords * kEach;
        const int64_t left = first_row + row < s.n ? groups - at : 0;
        const int bytes = left >= kEach ? 4 : left <= 0 ? 0 : static_cast<int>(left) * kBytesEach;
        copy_word_async(to + Shape::kScalesAt + i * 4,
                        static_cast<const uint8_t*>(scale) + ((first_row + row) * s.scale_stride + at) * kBytesEach,
                        bytes);
      }
    }
  };

  float sums[kRowTiles][kColumnTiles][4];
  float group_sums[kRowTiles][kColumnTiles][4];
  constexpr bool kPromote = kGroup != 0 && !is_e2m1<W>;
  const auto clear = [](float(&v)[kRowTiles][kColumnTiles][4]) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) v[r][c][i] = 0.0f;
  };
  clear(sums);
  clear(group_sums);

  // Fragments: tokens past the last one repeat it, and nobody stores them.
  const int warp_row = warp * 16 * kRowTiles;
  const int w_lane_row = lane % 16;
  const auto clamp = [&](int token) { return token < s.tokens ? token : s.tokens - 1; };
  const int quarter = kSteps == 4 ? (t & 1) * 2 + t / 2 : t;

  const auto multiply_stage = [&](int stage, int index) {
    const uint32_t from = ring + stage * Shape::kStageBytes;
    const int64_t k = k_begin + static_cast<int64_t>(index) * Shape::kStageK;
    float block_scales[kWide];
    if constexpr (kPromote && kSteps == 2) {
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        block_scales[i] =
            k + i * 128 < s.k
                ? __ldg(static_cast<const float*>(scale) + (first_row + warp_row) / 128 * s.scale_stride + k / 128 + i)
                : 0.0f;
    }
    uint32_t flat_tokens[kColumnTiles][4];
    // Packed codes have so many steps that all of them at once would not fit the registers.
    constexpr int kUnroll = kSteps == 4 && kColumnTiles > 1 ? 1 : 4 * kWide;
#pragma unroll kUnroll
    for (int quad = 0; quad < 4 * kWide; ++quad) {  // 32 bytes
      uint32_t words[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const int granule = (quad * 2 + lane / 16) ^ (w_lane_row & 7);
        load_matrices(words[r], from + (warp_row + r * 16 + w_lane_row) * Shape::kRowBytes + granule * 16);
        if constexpr (kSteps == 4) {
#pragma unroll
          for (int i = 0; i < 4; ++i) words[r][i] = share_packed(words[r][i]);
        }
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int set = quad * kSteps + step;
        uint32_t b[kColumnTiles][2];
        if constexpr (kFlat && kTokens == 8) {
          if (quad % 2 == 0) {
            const int token = clamp(lane % 8);
            load_matrices(flat_tokens[0], from + Shape::kTokensAt + token * Shape::kTokenBytes +
                                              (((quad * 2 + lane / 8) ^ spread(token)) << 4));
          }
          b[0][0] = flat_tokens[0][quad % 2 * 2];
          b[0][1] = flat_tokens[0][quad % 2 * 2 + 1];
        } else if constexpr (kFlat) {
#pragma unroll
          for (int c = 0; c < kColumnTiles; c += 2) {
            const int token = clamp(c * 8 + lane % 8 + lane / 16 * 8);
            uint32_t both[4];
            load_matrices(both, from + Shape::kTokensAt + token * Shape::kTokenBytes +
                                    (((quad * 2 + lane / 8 % 2) ^ spread(token)) << 4));
            b[c][0] = both[0], b[c][1] = both[1], b[c + 1][0] = both[2], b[c + 1][1] = both[3];
          }
        } else {
#pragma unroll
          for (int c = 0; c < kColumnTiles; ++c) {
            const int token = clamp(c * 8 + g);
            const uint32_t row = from + Shape::kTokensAt + token * Shape::kTokenBytes;
            uint32_t low, high;
            if constexpr (sizeof(X) == 1)
              Weights<X, T>::decode(low, high, load_word(row + ((set ^ spread(token)) << 4) + quarter * 4));
            else
              load_shared(low, high, row + (((set * 2 + quarter / 2) ^ spread(token)) << 4) + quarter % 2 * 8);
            b[c][0] = kSteps == 4 ? pick_bytes(low, high, 0x5410) : low;
            b[c][1] = kSteps == 4 ? pick_bytes(low, high, 0x7632) : high;
          }
        }
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          uint32_t a[4];
          if constexpr (kFlat) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = words[r][i];
          } else if constexpr (kSteps == 2) {
            Format::decode(a[0], a[2], words[r][step * 2]);
            Format::decode(a[1], a[3], words[r][step * 2 + 1]);
          } else {
#pragma unroll
            for (int half_rows = 0; half_rows < 2; ++half_rows) {
              uint32_t with;
              const uint32_t word = words[r][step / 2 * 2 + half_rows];
              const int row = warp_row + r * 16 + g + half_rows * 8;
              if constexpr (is_e2m1<W>) {
                const int group = set * 16 / kGroup;
                const uint32_t codes = load_word(from + Shape::kScalesAt + row * Shape::kScaleBytes + group / 4 * 4);
                with = Format::scale(codes >> (group % 4 * 8) & 0xffu);
              } else if constexpr (kZero) {
                const int64_t at = first_row + row < s.n && k + set * 16 < s.k
                                       ? (first_row + row) * s.scale_stride + (k + set * 16) / kGroup
                                       : 0;
                with = Format::offset(zero[at]);
              } else {
                with = Format::offset(0);
              }
              if (step % 2 == 0)
                Format::template decode<0>(a[half_rows], a[half_rows + 2], word, with);
              else
                Format::template decode<1>(a[half_rows], a[half_rows + 2], word, with);
            }
          }
#pragma unroll
          for (int c = 0; c < kColumnTiles; ++c)
            Mma<T>::add(kPromote ? group_sums[r][c] : sums[r][c], a, b[c][0], b[c][1]);
        }
        if constexpr (kPromote) {
          if ((set + 1) * 16 % kGroup == 0) {
#pragma unroll
            for (int r = 0; r < kRowTiles; ++r) {
              float by[2];
              if constexpr (kSteps == 2) {
                by[0] = by[1] = block_scales[set / 8];
              } else {
#pragma unroll
                for (int i = 0; i < 2; ++i)
                  by[i] = __uint_as_float(load_word(from + Shape::kScalesAt +
                                                    (warp_row + r * 16 + g + i * 8) * Shape::kScaleBytes +
                                                    ((set + 1) * 16 / kGroup - 1) * 4));
              }
#pragma unroll
              for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                  sums[r][c][i] = __fmaf_rn(by[i / 2], group_sums[r][c][i], sums[r][c][i]);
                  group_sums[r][c][i] = 0.0f;
                }
            }
          }
        }
      }
    }
  };

  /// Puts the sums of a chain, or with one block of all chains so far, where the cluster finds them.
  const auto close_chain = [&](int chain) {
    float* const slot = slots + (kSharers == 1 ? 0 : chain) * Shape::kSlotFloats;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* const at = slot + (c * 8 + t * 2 + i % 2) * Shape::kPitch + warp_row + r * 16 + g + i / 2 * 8;
          *at = kSharers == 1 && chain != 0 ? *at + sums[r][c][i] : sums[r][c][i];
        }
    clear(sums);
  };

#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < stages) copy_stage(i, i);
    commit_copies();
  }
  int read = 0, write = kStages - 1, chain = 0, left = stages_of_chain;
#pragma unroll 1
  for (int i = 0; i < stages; ++i) {
    wait_copies<kStages - 2>();
    __syncthreads();
    if (i + kStages - 1 < stages) copy_stage(write, i + kStages - 1);
    commit_copies();
    multiply_stage(read, i);
    if (--left == 0 || i + 1 == stages) {
      close_chain(chain++);
      left = stages_of_chain;
    }
    read = read + 1 == kStages ? 0 : read + 1;
    write = write + 1 == kStages ? 0 : write + 1;
  }

  sync_cluster<kSharers>();
  for (int i = block * kThreads + thread; i < s.tokens * Shape::kRows; i += kSharers * kThreads) {
    const int token = i / Shape::kRows, row = i % Shape::kRows;
    if (first_row + row >= s.n) continue;
    const float* const at = slots + token * Shape::kPitch + row;
    float sum;
    if constexpr (kSharers == 1) {
      sum = *at;
    } else {
      sum = load_from_block(at, 0);
      for (int c = 1; c < chains; ++c)
        sum += load_from_block(at + c % chains_of_block * Shape::kSlotFloats, c / chains_of_block);
    }
    end(token, first_row + row, is_e2m1<W> ? sum * kE2m1Unscale : sum);
  }
  // Nobody leaves while its shared memory is read.
  if constexpr (kSharers > 1) sync_cluster<kSharers>();
}

}  // namespace gpukit
