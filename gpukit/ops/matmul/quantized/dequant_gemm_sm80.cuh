// dequant_gemm_sm80: products of any number of tokens by weights of 8 or 4 bits, 16 or 64 at a time, ended as
// scaled_matmul does: out[token, row] = sum over k of w[row, k] x[token, k].
//
// A block makes kTokens x kDequantGemm80Rows outputs: weights stand as the 16 rows of a fragment, tokens as its 8
// columns. 128 kWide bytes of every row of w, and the same k of every token, go to one of kStages stages in shared
// memory.
//
// The order of sums is a function of k and the format alone. An accumulator starts at 0 and takes ascending steps of
// 16. Where no scale changes along k, chains are those of sum_order.cuh. Else a chain is kDequantGemm80Chain of k;
// where float32 scales change (every kGroup), the sum of a group is added to the chain's as fma(scale, sum, chain).
// Chains are added in ascending order.
#pragma once
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm80_shape.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"
#include "gpukit/ops/matmul/quantized/sum_order.cuh"

namespace gpukit {

/// Grid: ceil(m / kTokens) ceil(n / kDequantGemm80Rows), blocks of the same weights side by side. Block:
/// kDequantGemm80Threads. Shared bytes: dequant_gemm_sm80_shared_bytes.
///
/// `s` has no experts. kGroup: 0 where one scale serves a row; 128 for float8 with one for 128 x 128; 32, 64 or 128 for
/// int4; 16 or 32 for e2m1. w, x, their strides and k of both are multiples of 16 bytes. Rows of scales that change
/// along k are dense, those of e2m1 and their stride multiples of 4 bytes; zero points lie as the scales do.
template <typename W, typename X, int kTokens, int kWide, int kGroup, bool kZero, int kStages>
__global__ void __launch_bounds__(kDequantGemm80Threads, 1)
    dequant_gemm_sm80(void* out, const X* x, const void* x_scale, const W* w, const void* scale, const int8_t* zero,
                      const float* tensor_scale, const void* bias, const float* out_scale,
                      const __grid_constant__ ScaledProblem s) {
  using Format = Weights<W, X>;
  constexpr int kThreads = kDequantGemm80Threads, kRows = kDequantGemm80Rows, kColumnTiles = kTokens / 8;
  constexpr int kSteps = Format::kSteps;                                        // in 32 bytes of a row
  constexpr bool kPacked = kSteps == 4, kPromote = kGroup != 0 && !is_e2m1<W>;  // sums of groups are added up
  constexpr int kChain = kGroup != 0 ? kDequantGemm80Chain : kBytesChain;
  constexpr int kRowBytes = 128 * kWide, kStageK = 64 * kWide * kSteps, kTokenBytes = kStageK * 2;
  constexpr int kScaleBytes = kPacked ? kStageK / (kGroup + (kGroup == 0)) * (is_e2m1<W> ? 1 : 4) : 0;  // of a row
  constexpr int kTokensAt = kRows * kRowBytes, kScalesAt = kTokensAt + kTokens * kTokenBytes;
  constexpr int kStageBytes = kScalesAt + kRows * kScaleBytes;
  constexpr int kPitch = kRows + 4;  // of the sums: spreads the banks
  static_assert(kRows == 16 * kThreads / 32 && kChain % kStageK == 0);
  static_assert(kStages * kStageBytes + 4 * kTokens * kPitch ==
                dequant_gemm_sm80_shared_bytes(kTokens, kWide, kPacked, kGroup, is_e2m1<W> ? 1 : 4, kStages));
  extern __shared__ __align__(128) uint8_t dequant_gemm_shared[];

  const unsigned token_tiles = static_cast<unsigned>((s.m + kTokens - 1) / kTokens);
  const int first_token = static_cast<int>(blockIdx.x % token_tiles) * kTokens;
  const int left_tokens = static_cast<int>(s.m) - first_token, tokens = left_tokens < kTokens ? left_tokens : kTokens;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x / token_tiles) * kRows;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp_row = thread / 32 * 16;
  const int g = lane / 4, t = lane % 4;
  const uint32_t ring = shared_address(dequant_gemm_shared);
  float* const totals = reinterpret_cast<float*>(dequant_gemm_shared + kStages * kStageBytes);
  const int stages = static_cast<int>((s.k + kStageK - 1) / kStageK);

  // Copies: a thread takes one granule of 16 bytes of every kRowStep-th row, and the same granules of x in every stage.
  constexpr int kRowGranules = 8 * kWide, kRowStep = kThreads / kRowGranules;
  const int copy_row = thread / kRowGranules, copy_granule = thread % kRowGranules;
  const int64_t w_bytes = s.k * 2 / kSteps, x_bytes = s.k * 2;
  int64_t w_at = copy_granule * 16, x_at = 0;
  const uint8_t* w_from = reinterpret_cast<const uint8_t*>(w) + (first_row + copy_row) * s.b.row + w_at;
  const uint8_t* const x_from = reinterpret_cast<const uint8_t*>(x + first_token * s.a.row);
  const int copy_rows = static_cast<int>(s.n - first_row < kRows ? s.n - first_row : kRows);
  const auto spread = [](int token) { return (token & 3) << 1; };
  const auto copy_stage = [&](int stage, int index) {
    const uint32_t to = ring + stage * kStageBytes;
    const int w_size = w_at < w_bytes ? 16 : 0;
    const uint8_t* from = w_from;
#pragma unroll
    for (int j = 0; j < 4 * kWide; ++j) {
      const int row = copy_row + j * kRowStep;
      copy_async(to + row * kRowBytes + ((copy_granule ^ (row & 7)) << 4), from, row < copy_rows ? w_size : 0);
      from += kRowStep * s.b.row;
    }
    w_at += kRowBytes;
    w_from += kRowBytes;
    constexpr int kGranules = kTokenBytes / 16, kCopies = (kTokens * kGranules + kThreads - 1) / kThreads;
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      const int i = thread + j * kThreads, token = i / kGranules, granule = i % kGranules;
      if (token < tokens)
        copy_async(to + kTokensAt + token * kTokenBytes + ((granule ^ spread(token)) << 4),
                   x_from + token * s.a.row * 2 + x_at + granule * 16, x_at + granule * 16 < x_bytes ? 16 : 0);
    }
    x_at += kTokenBytes;
    if constexpr (kScaleBytes != 0) {
      constexpr int kWords = kScaleBytes / 4, kEach = is_int4<W> ? 1 : 4, kBytesEach = 4 / kEach;
      const int64_t groups = (s.k + kGroup - 1) / kGroup, first = static_cast<int64_t>(index) * kStageK / kGroup;
      for (int i = thread; i < kRows * kWords; i += kThreads) {
        const int row = i / kWords;
        const int64_t at = first + i % kWords * kEach;
        const int64_t left = first_row + row < s.n ? groups - at : 0;
        const int bytes = left >= kEach ? 4 : left <= 0 ? 0 : static_cast<int>(left) * kBytesEach;
        copy_word_async(to + kScalesAt + i * 4,
                        static_cast<const uint8_t*>(scale) + ((first_row + row) * s.b.scale.row + at) * kBytesEach,
                        bytes);
      }
    }
  };

  float sums[kColumnTiles][4] = {}, group_sums[kColumnTiles][4] = {};
  // Fragments: tokens past the last one repeat it, and nobody stores them.
  const auto clamp = [&](int token) { return token < tokens ? token : tokens - 1; };
  const int quarter = kPacked ? (t & 1) * 2 + t / 2 : t;

  const auto multiply_stage = [&](int stage, int index) {
    const uint32_t from = ring + stage * kStageBytes;
    const int64_t k = static_cast<int64_t>(index) * kStageK;
    float block_scales[kWide];
    if constexpr (kGroup != 0 && !kPacked) {
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        block_scales[i] =
            k + i * 128 < s.k
                ? __ldg(static_cast<const float*>(scale) + (first_row + warp_row) / 128 * s.b.scale.row + k / 128 + i)
                : 0.0f;
    }
    // Packed quantised values have so many steps that all of them at once would not fit the registers.
    constexpr int kUnroll = kPacked && kColumnTiles > 1 ? 1 : 4 * kWide;
#pragma unroll kUnroll
    for (int quad = 0; quad < 4 * kWide; ++quad) {  // 32 bytes
      uint32_t words[4];
      load_matrices(words, from + (warp_row + lane % 16) * kRowBytes + (((quad * 2 + lane / 16) ^ (lane & 7)) << 4));
      if constexpr (kPacked) {
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = share_packed(words[i]);
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int set = quad * kSteps + step;
        uint32_t b[kColumnTiles][2];
#pragma unroll
        for (int c = 0; c < kColumnTiles; ++c) {
          const int token = clamp(c * 8 + g);
          uint32_t low, high;
          load_shared(low, high,
                      from + kTokensAt + token * kTokenBytes + (((set * 2 + quarter / 2) ^ spread(token)) << 4) +
                          quarter % 2 * 8);
          b[c][0] = kPacked ? pick_bytes(low, high, 0x5410) : low;
          b[c][1] = kPacked ? pick_bytes(low, high, 0x7632) : high;
        }
        uint32_t a[4];
        if constexpr (!kPacked) {
          Format::decode(a[0], a[2], words[step * 2]);
          Format::decode(a[1], a[3], words[step * 2 + 1]);
        } else {
#pragma unroll
          for (int half_rows = 0; half_rows < 2; ++half_rows) {
            uint32_t with;
            const uint32_t word = words[step / 2 * 2 + half_rows];
            const int row = warp_row + g + half_rows * 8;
            if constexpr (is_e2m1<W>) {
              const int group = set * 16 / kGroup;
              const uint32_t scales = load_word(from + kScalesAt + row * kScaleBytes + group / 4 * 4);
              with = Format::scale(scales >> (group % 4 * 8) & 0xffu);
            } else if constexpr (kZero) {
              const int64_t at = first_row + row < s.n && k + set * 16 < s.k
                                     ? (first_row + row) * s.b.scale.row + (k + set * 16) / kGroup
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
        for (int c = 0; c < kColumnTiles; ++c) Mma<X>::add(kPromote ? group_sums[c] : sums[c], a, b[c][0], b[c][1]);
        if constexpr (kPromote) {
          if ((set + 1) * 16 % kGroup == 0) {
            float by[2];
            if constexpr (!kPacked) {
              by[0] = by[1] = block_scales[set / 8];
            } else {
#pragma unroll
              for (int i = 0; i < 2; ++i)
                by[i] = __uint_as_float(load_word(from + kScalesAt + (warp_row + g + i * 8) * kScaleBytes +
                                                  ((set + 1) * 16 / kGroup - 1) * 4));
            }
#pragma unroll
            for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                sums[c][i] = __fmaf_rn(by[i / 2], group_sums[c][i], sums[c][i]);
                group_sums[c][i] = 0.0f;
              }
          }
        }
      }
    }
  };

  /// Adds a chain to the totals, which a thread has for itself until the end.
  const auto close_chain = [&](bool first) {
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float* const at = totals + (c * 8 + t * 2 + i % 2) * kPitch + warp_row + g + i / 2 * 8;
        *at = first ? sums[c][i] : *at + sums[c][i];
        sums[c][i] = 0.0f;
      }
  };

#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < stages) copy_stage(i, i);
    commit_copies();
  }
  constexpr int kChainStages = kChain / kStageK;
  int read = 0, write = kStages - 1, left = kChainStages;
#pragma unroll 1
  for (int i = 0; i < stages; ++i) {
    wait_copies<kStages - 2>();
    __syncthreads();
    if (i + kStages - 1 < stages) copy_stage(write, i + kStages - 1);
    commit_copies();
    multiply_stage(read, i);
    if (--left == 0 || i + 1 == stages) {
      close_chain(i < kChainStages);
      left = kChainStages;
    }
    read = read + 1 == kStages ? 0 : read + 1;
    write = write + 1 == kStages ? 0 : write + 1;
  }

  __syncthreads();
  for (int i = thread; i < tokens * kRows; i += kThreads) {
    const int64_t token = first_token + i / kRows, row = first_row + i % kRows;
    if (row >= s.n) continue;
    float sum = totals[i / kRows * kPitch + i % kRows];
    if constexpr (is_e2m1<W>) sum *= kE2m1Unscale;
    sum *= row_scale(s.a, x_scale, nullptr, 0, token) * row_scale(s.b, scale, tensor_scale, 0, row) * s.alpha;
    if (bias != nullptr) sum += load_bias(bias, s.bias, row * s.bias_n);
    if (out_scale != nullptr) sum /= *out_scale;
    store_number(out, s.out, token * s.out_m + row * s.out_n, sum);
  }
}

}  // namespace gpukit
