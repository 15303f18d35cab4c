// gemv_codes: out = w x for one vector and weights of 8 or 4 bits, by tensor cores at the speed of memory.
//
// A block takes groups of 2 kPairs rows in turn, the next one's weights under way. Its threads walk rows side by side,
// 16 bytes each, so that memory is read in long runs; where the block is as wide as a row, its numbers of x stay in
// registers. A warp's 512 bytes are 8 chunks, one for each quad of lanes. A fragment's rows are the chunks of a pair of
// rows of w, its columns the same chunks of x: the sums of products lie on its diagonal, and what lies beside it is
// dropped.
//
// The order of sums is a function of the format, k and the number of threads; the grid is free. It differs from that of
// `skinny`.
#pragma once
#include "gpukit/ops/gemv/gemv.cuh"
#include "gpukit/ops/gemv/skinny_space.cuh"
#include "gpukit/ops/gemv/weights.cuh"

namespace gpukit {

inline constexpr int kGemvCodesThreads = 256;  // at most
inline constexpr int kGemvCodesBatch = 8;      // groups of rows whose sums wait in shared memory

/// The words of a quad are one chunk of 64 bytes. Moves them so that every lane has 4 / kParts words of each of its
/// kParts parts, in order.
template <int kParts>
GPUKIT_DEVICE void share_chunk(uint32_t (&v)[4]) {
  const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
  if constexpr (kParts == 4) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? v[i] : v[i + 1], 1);
      (odd ? v[i] : v[i + 1]) = got;
    }
  }
  if constexpr (kParts >= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + 2], 2);
      (upper ? v[i] : v[i + 2]) = got;
    }
  }
}
/// Where word `i` of lane t comes from: the lane's number times 4, and the word's.
template <int kParts>
GPUKIT_DEVICE int shared_word(int t, int i) {
  if constexpr (kParts == 4) return i * 4 + t;
  if constexpr (kParts == 2) return (t % 2 + i / 2 * 2) * 4 + t / 2 * 2 + i % 2;
  return t * 4 + i;
}

/// What a lane loads of a pair of rows at a time.
template <typename W, int kParts>
struct CodesPair {
  uint32_t words[2][4];
  float scales[2][kParts];      // float32, where kGroup is not 0
  uint32_t offsets[2][kParts];  // int4 with zero points
  uint32_t codes[2];            // e2m1: scales
};

/// Grid: at most ceil(n / (2 kPairs)), best as many blocks as the chip holds at once. Block: a multiple of 32 up to
/// 256. Shared bytes: 512 kPairs for each warp. kResident blocks fit an SM at once. kGroup and the operands are as in
/// `skinny`, with one token; n and k are below 2^31.
template <typename W, typename X, typename Out, int kPairs, int kGroup, bool kZero, int kResident>
__global__ void __launch_bounds__(kGemvCodesThreads, kResident)
    gemv_codes(Out* out, const W* w, const X* x, const void* scale, const int8_t* zero, const float* row_scale,
               const float* token_scale, SkinnySpace s) {
  using T = typename TokenMath<X>::type;
  using Format = Weights<W, T>;
  constexpr int kSteps = Format::kSteps, kRows = 2 * kPairs;
  static_assert(kSteps > 1, "codes of 8 or 4 bits");
  constexpr int kLaneK = 8 * kSteps, kWordK = kLaneK / 4, kChunkK = 4 * kLaneK;  // in 16, 4 and 64 bytes
  constexpr bool kPromote = kGroup != 0 && !is_e2m1<W>;
  constexpr int kParts = kPromote && kGroup < kChunkK ? kChunkK / kGroup : 1;
  constexpr int kTokenBytes = static_cast<int>(sizeof(X));
  using Pair = CodesPair<W, kParts>;
  struct Rows {
    Pair pairs[kPairs];
  };
  extern __shared__ __align__(16) float gemv_codes_shared[];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x), warps = threads / 32;
  const int lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  const int k_size = static_cast<int>(s.k), granules = k_size / kLaneK;
  const int rows = static_cast<int>(s.n), groups = (rows + kRows - 1) / kRows;

  // What lies past the end of a row is read from its begin, and meets zeros of x.
  const auto fetch_pair = [&](Pair& to, int pair_row, int granule, int chunk) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = pair_row + h < rows ? pair_row + h : rows - 1;
      const uint4 v = load_streamed(reinterpret_cast<const uint8_t*>(w) + row * s.w_stride + granule * 16);
      to.words[h][0] = v.x, to.words[h][1] = v.y, to.words[h][2] = v.z, to.words[h][3] = v.w;
      if constexpr (kPromote) {
        const int64_t line = (kSteps == 2 ? row / 128 : row) * s.scale_stride;
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
          const int64_t group = line + (chunk + i * kGroup < k_size ? chunk + i * kGroup : 0) / kGroup;
          to.scales[h][i] = __ldg(static_cast<const float*>(scale) + group);
          if constexpr (kZero) to.offsets[h][i] = Format::offset(__ldg(zero + group));
        }
      }
      if constexpr (is_e2m1<W>) {
        const uint8_t* line = static_cast<const uint8_t*>(scale) + row * s.scale_stride;
        if constexpr (kGroup == 16)
          to.codes[h] = __ldg(reinterpret_cast<const uint16_t*>(line) + granule);
        else
          to.codes[h] = __ldg(line + granule);
      }
    }
  };

  const auto fetch = [&](Rows& to, int group, int from) {
    const int granule = from + thread < granules ? from + thread : 0;
    const int chunk = (from + thread) / 4 * kChunkK;  // of the quad, which may reach past the end of the row
#pragma unroll
    for (int p = 0; p < kPairs; ++p) fetch_pair(to.pairs[p], group * kRows + 2 * p, granule, chunk);
  };

  // The numbers of x that the words of a lane meet, in the pairs that decode() makes.
  uint32_t tokens[4][kWordK / 2];
  const auto fetch_tokens = [&](int begin) {
    const int granule = begin + thread;
    const uint8_t* const from = reinterpret_cast<const uint8_t*>(x);
    if constexpr (kSteps == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = (granule / 4 * 16 + shared_word<kParts>(t, i)) * kWordK;
        const uint4 v = k < k_size ? load_cached(from + static_cast<int64_t>(k) * kTokenBytes) : uint4{0, 0, 0, 0};
        tokens[i][0] = pick_bytes(v.x, v.z, 0x5410), tokens[i][1] = pick_bytes(v.x, v.z, 0x7632);
        tokens[i][2] = pick_bytes(v.y, v.w, 0x5410), tokens[i][3] = pick_bytes(v.y, v.w, 0x7632);
      }
    } else {
      uint32_t v[4 * kTokenBytes];
#pragma unroll
      for (int i = 0; i < kTokenBytes; ++i) {
        const uint4 four = granule < granules
                               ? load_cached(from + static_cast<int64_t>(granule) * kLaneK * kTokenBytes + i * 16)
                               : uint4{0, 0, 0, 0};
        v[4 * i] = four.x, v[4 * i + 1] = four.y, v[4 * i + 2] = four.z, v[4 * i + 3] = four.w;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kTokenBytes == 1)
          Weights<X, T>::decode(tokens[i][0], tokens[i][1], v[i]);
        else
          tokens[i][0] = v[2 * i], tokens[i][1] = v[2 * i + 1];
      }
    }
  };

  float sums[kPairs][kPromote ? 2 : 4];
#pragma unroll
  for (int p = 0; p < kPairs; ++p)
#pragma unroll
    for (int i = 0; i < (kPromote ? 2 : 4); ++i) sums[p][i] = 0.0f;
  const auto multiply = [&](Pair& pair, float(&to)[kPromote ? 2 : 4]) {
    float products[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if constexpr (kParts > 1) {
      share_chunk<kParts>(pair.words[0]);
      share_chunk<kParts>(pair.words[1]);
    }
#pragma unroll
    for (int step = 0; step < 2 * kSteps; ++step) {
      uint32_t a[4];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (kSteps == 2) {
          Format::decode(a[h], a[h + 2], pair.words[h][step]);
        } else {
          uint32_t with;
          if constexpr (is_e2m1<W>)
            with = Format::scale(kGroup == 16 ? pair.codes[h] >> (step / 4 * 8) & 0xffu : pair.codes[h]);
          else
            with = kZero ? pair.offsets[h][step * kParts / 8] : Format::offset(0);
          if (step % 2 == 0)
            Format::template decode<0>(a[h], a[h + 2], pair.words[h][step / 2], with);
          else
            Format::template decode<1>(a[h], a[h + 2], pair.words[h][step / 2], with);
        }
      }
      const int word = kSteps == 2 ? step : step / 2, half_word = kSteps == 2 ? 0 : step % 2 * 2;
      if constexpr (kPromote) {
        Mma<T>::add(products, a, tokens[word][half_word], tokens[word][half_word + 1]);
        if ((step + 1) * kParts % (2 * kSteps) == 0) {
          const int part = (step + 1) * kParts / (2 * kSteps) - 1;
          to[0] = __fmaf_rn(pair.scales[0][part], g % 2 == 0 ? products[0] : products[1], to[0]);
          to[1] = __fmaf_rn(pair.scales[1][part], g % 2 == 0 ? products[2] : products[3], to[1]);
#pragma unroll
          for (int i = 0; i < 4; ++i) products[i] = 0.0f;
        }
      } else {
        Mma<T>::add(to, a, tokens[word][half_word], tokens[word][half_word + 1]);
      }
    }
  };

  // Chunk g's sum is in column g of row g: with lane t = g / 2.
  const auto close = [&](int of) {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float v;
        if constexpr (kPromote)
          v = sums[p][h];
        else
          v = g % 2 == 0 ? sums[p][2 * h] : sums[p][2 * h + 1];
        if (t == g / 2) gemv_codes_shared[((of * kPairs + p) * 2 + h) * warps * 8 + warp * 8 + g] = v;
      }
#pragma unroll
      for (int i = 0; i < (kPromote ? 2 : 4); ++i) sums[p][i] = 0.0f;
    }
  };

  // The sums of groups first, first + gridDim.x, ...
  const auto finish = [&](int first, int count) {
    __syncthreads();
#pragma unroll 1
    for (int r = warp; r < count * kRows; r += warps) {
      const int row = (first + r / kRows * static_cast<int>(gridDim.x)) * kRows + r % kRows;
      float sum = 0.0f;
#pragma unroll 1
      for (int i = lane; i < warps * 8; i += 32) sum += gemv_codes_shared[r * warps * 8 + i];
#pragma unroll
      for (int mask = 16; mask != 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      if (lane == 0 && row < rows) {
        if (row_scale != nullptr) sum *= row_scale[static_cast<int64_t>(row) * s.row_scale];
        if constexpr (is_e2m1<W>) sum *= kE2m1Unscale;
        if (token_scale != nullptr) sum *= token_scale[0];
        out[row * s.out_row] = store<Out>(sum);
      }
    }
    __syncthreads();
  };

  // A step is one round of threads over one group of rows.
  int group = static_cast<int>(blockIdx.x), waiting_first = group;
  int begin = 0, waiting = 0;
  bool tokens_stay = false;
  const auto step = [&](Rows& now, Rows& next) {
    const int following = begin + threads < granules ? begin + threads : 0;
    const int following_group = following == 0 ? group + static_cast<int>(gridDim.x) : group;
    if (!tokens_stay) fetch_tokens(begin);
    tokens_stay = threads >= granules;
    if (following_group < groups) fetch(next, following_group, following);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) multiply(now.pairs[p], sums[p]);
    if (following == 0) {
      close(waiting++);
      if (waiting == kGemvCodesBatch || following_group >= groups) {
        finish(waiting_first, waiting);
        waiting = 0;
        waiting_first = following_group;
      }
    }
    group = following_group;
    begin = following;
  };
  Rows even, odd;
  if (group < groups) fetch(even, group, 0);
#pragma unroll 1
  while (group < groups) {
    step(even, odd);
    if (group >= groups) break;
    step(odd, even);
  }
}

}  // namespace gpukit
