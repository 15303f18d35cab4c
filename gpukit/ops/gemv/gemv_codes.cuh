// gemv_codes: out = w x for one vector and weights of 8 or 4 bits, by tensor cores at the speed of memory.
//
// A block takes groups of 2 kPairs rows in turn. Its threads walk rows side by side, 16 bytes each, so that memory is
// read in long runs; where the block is as wide as a row, its numbers of x stay in registers. A warp's 512 bytes are 8
// chunks, one for each quad of lanes. A fragment's rows are the chunks of a pair of rows of w, its columns the same
// chunks of x: the sums of products lie on its diagonal, and what lies beside it is dropped.
//
// What counts is the number of instructions for the 512 bytes of a warp: a scheduler of SM 90 has time for about 100 of
// them. Many small blocks hide the latency of loads and share the chip evenly.
//
// The order of sums is a function of the format, k and the number of threads; the grid is free. It differs from that of
// `skinny`.
#pragma once
#include "gpukit/ops/gemv/gemv.cuh"
#include "gpukit/ops/gemv/gemv_codes_shape.cuh"
#include "gpukit/ops/gemv/weights.cuh"
#include "gpukit/ops/matmul/scaled_matmul_space.cuh"

namespace gpukit {

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

/// 16 bytes that are read once, if they are `inside`; else `to` keeps what it has.
GPUKIT_DEVICE void load_streamed_if(bool inside, uint32_t (&to)[4], const void* p) {
  asm volatile(
      "{\n.reg .pred inside;\nsetp.ne.b32 inside, %5, 0;\n"
      "@inside ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
      : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
      : "l"(p), "r"(static_cast<int>(inside)));
}

/// What a lane of gemv_codes does with 16 bytes of a pair of rows.
template <typename W, typename X, int kPairs, int kGroup, bool kZero>
struct CodesMath {
  using T = typename TokenMath<X>::type;
  using Format = Weights<W, T>;
  static constexpr int kSteps = Format::kSteps, kRows = 2 * kPairs;
  static_assert(kSteps > 1, "codes of 8 or 4 bits");
  static constexpr int kLaneK = 8 * kSteps, kWordK = kLaneK / 4, kChunkK = 4 * kLaneK;  // in 16, 4 and 64 bytes
  static constexpr bool kPromote = kGroup != 0 && !is_e2m1<W>;                          // scales are applied to sums
  static constexpr int kParts = kPromote && kGroup < kChunkK ? kChunkK / kGroup : 1;    // of a chunk, by its scales
  static constexpr int kTokenBytes = static_cast<int>(sizeof(X));
  static constexpr bool kTokenGroups = kPromote && kTokenBytes == 1;
  static constexpr int kSums = kPromote ? 2 : 4;

  /// The numbers of x that the words of a lane meet, in the pairs that decode() makes; their scale where it changes;
  /// and for int4, of the two columns that a lane holds, the sums of each part: times -kBias where there are no zero
  /// points.
  struct Tokens {
    uint32_t pairs[4][kWordK / 2];
    float scale;
    float sums[is_int4<W> ? kParts : 1][2];
  };
  /// What a lane has of a pair of rows at a time.
  struct Pair {
    uint32_t words[2][4];
    float scales[2][kPromote ? kParts : 1];
    int zeros[2][kZero ? kParts : 1];
    uint32_t codes[2];  // e2m1: scales
  };

  static GPUKIT_DEVICE void fetch(Tokens& to, const X* x, const void* x_scale, const ScaledSpace& s, int granule) {
    const int k_size = static_cast<int>(s.k), granules = k_size / kLaneK, t = static_cast<int>(threadIdx.x) % 4;
    if constexpr (kTokenGroups) {
      const int k = granule / 4 * kChunkK;
      to.scale = group_scale(s.a, x_scale, 0, 0, k < k_size ? k : 0);
    }
    const uint8_t* const from = reinterpret_cast<const uint8_t*>(x);
    if constexpr (kSteps == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = (granule / 4 * 16 + shared_word<kParts>(t, i)) * kWordK;
        const uint4 v = k < k_size ? load_cached(from + static_cast<int64_t>(k) * kTokenBytes) : uint4{0, 0, 0, 0};
        to.pairs[i][0] = pick_bytes(v.x, v.z, 0x5410), to.pairs[i][1] = pick_bytes(v.x, v.z, 0x7632);
        to.pairs[i][2] = pick_bytes(v.y, v.w, 0x5410), to.pairs[i][3] = pick_bytes(v.y, v.w, 0x7632);
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
          Weights<X, T>::decode(to.pairs[i][0], to.pairs[i][1], v[i]);
        else
          to.pairs[i][0] = v[2 * i], to.pairs[i][1] = v[2 * i + 1];
      }
    }
    if constexpr (is_int4<W>) {
      const uint32_t one = PairMath<T>::pack(1.0f, 1.0f), ones[4] = {one, one, one, one};
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int step = part * 8 / kParts; step < (part + 1) * 8 / kParts; ++step)
          Mma<T>::add(sums, ones, to.pairs[step / 2][step % 2 * 2], to.pairs[step / 2][step % 2 * 2 + 1]);
        to.sums[part][0] = sums[0], to.sums[part][1] = sums[1];
        if constexpr (!kZero) to.sums[part][0] *= -Format::kBias, to.sums[part][1] *= -Format::kBias;
      }
    }
  }

  template <int kStep>
  static GPUKIT_DEVICE void decode(uint32_t (&a)[4], const Pair& pair, const uint32_t (&scales)[2][2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (kSteps == 2) {
        Format::decode(a[h], a[h + 2], pair.words[h][kStep]);
      } else if constexpr (is_e2m1<W>) {
        Format::template decode<kStep % 2>(a[h], a[h + 2], pair.words[h][kStep / 2],
                                           scales[h][kGroup == 16 ? kStep / 4 : 0]);
      } else {
        a[h] = Format::template biased<kStep % 2 * 2>(pair.words[h][kStep / 2]);
        a[h + 2] = Format::template biased<kStep % 2 * 2 + 1>(pair.words[h][kStep / 2]);
      }
    }
  }

  template <int kStep>
  static GPUKIT_DEVICE void walk(float (&to)[kSums], float (&products)[4], const Pair& pair, const Tokens& tokens,
                                 const uint32_t (&scales)[2][2]) {
    if constexpr (kStep < 2 * kSteps) {
      uint32_t a[4];
      decode<kStep>(a, pair, scales);
      constexpr int kWord = kSteps == 2 ? kStep : kStep / 2, kHalf = kSteps == 2 ? 0 : kStep % 2 * 2;
      constexpr int kPart = kStep * kParts / (2 * kSteps);
      if constexpr (kPromote) {
        if constexpr (kStep * kParts % (2 * kSteps) == 0) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if constexpr (kZero)
              products[i] = (-Format::kBias - static_cast<float>(pair.zeros[i / 2][kPart])) * tokens.sums[kPart][i % 2];
            else if constexpr (is_int4<W>)
              products[i] = tokens.sums[kPart][i % 2];
            else
              products[i] = 0.0f;
          }
        }
        Mma<T>::add(products, a, tokens.pairs[kWord][kHalf], tokens.pairs[kWord][kHalf + 1]);
        if constexpr ((kStep + 1) * kParts % (2 * kSteps) == 0) {
          const bool even = threadIdx.x % 8 < 4;  // the column that is a quad's own
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float by = kTokenGroups ? tokens.scale * pair.scales[h][kPart] : pair.scales[h][kPart];
            to[h] = __fmaf_rn(by, even ? products[2 * h] : products[2 * h + 1], to[h]);
          }
        }
      } else {
        Mma<T>::add(to, a, tokens.pairs[kWord][kHalf], tokens.pairs[kWord][kHalf + 1]);
      }
      walk<kStep + 1>(to, products, pair, tokens, scales);
    }
  }

  /// to += the products of a pair of rows.
  static GPUKIT_DEVICE void multiply(float (&to)[kSums], Pair& pair, const Tokens& tokens) {
    if constexpr (kParts > 1) {
      share_chunk<kParts>(pair.words[0]);
      share_chunk<kParts>(pair.words[1]);
    }
    uint32_t scales[2][2];
    if constexpr (is_e2m1<W>) {
      Format::scales(scales[0], pair.codes[0]);
      Format::scales(scales[1], pair.codes[1]);
    }
    float products[4];
    walk<0>(to, products, pair, tokens, scales);
  }
};

/// Grid: at most ceil(n / (2 kPairs)). Block: a multiple of 32 up to kGemvCodesThreads, so that none of its warps lies
/// past the end of a row in the first round. kResident blocks of the largest size fit the registers.
///
/// `s` is a product with m = 1 and no experts; n and k are at most 2^30. kGroup: 0 where the scales of w do not change
/// along k; 128 for float8 with one for 128 x 128; 32, 64 or 128 for int4; 16 or 32 for e2m1. Scales of x change along
/// k, every 128, only where those of float8 weights do. x and the rows of w and of scales that change along k are
/// dense. x, w, its stride and its k are multiples of 16 bytes; the scales of e2m1 and their rows of 2 where kGroup
/// is 16. Zero points lie as the scales do.
template <typename W, typename X, int kPairs, int kGroup, bool kZero, int kResident>
__global__ void __launch_bounds__(kGemvCodesThreads, kResident)
    gemv_codes(void* out, const X* x, const void* x_scale, const W* w, const void* scale, const int8_t* zero,
               const float* tensor_scale, const void* bias, const float* out_scale,
               const __grid_constant__ ScaledSpace s) {
  using Math = CodesMath<W, X, kPairs, kGroup, kZero>;
  constexpr int kRows = Math::kRows, kParts = Math::kParts, kBatch = kGemvCodesBatch / kRows;
  constexpr int kPitch = kGemvCodesBatch + 1;  // spreads the banks
  __shared__ float slots[kGemvCodesThreads / 4 * kPitch];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  const int k_size = static_cast<int>(s.k), granules = k_size / Math::kLaneK;
  const int rows = static_cast<int>(s.n), stride = static_cast<int>(gridDim.x) * kRows;  // of a block's groups

  // 16 bytes of each row of a group. What lies past the end of a row keeps what this thread had of the row before, or
  // zeros, and meets zeros of x. Rows past the last one are not loaded, nor are their sums stored.
  typename Math::Pair pairs[kPairs] = {};
  const auto load = [&](int row, int granule) {
    const bool inside = granule < granules;
    const uint8_t* from = reinterpret_cast<const uint8_t*>(w) + row * s.b.row + static_cast<uint32_t>(granule) * 16u;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      load_streamed_if(inside && row + r < rows, pairs[r / 2].words[r % 2], from);
      from += s.b.row;
    }
    if constexpr (Math::kPromote) {
      const int64_t at = (Math::kSteps == 2 ? row / 128 : row) * s.b.scale.row + granule / 4 * Math::kChunkK / kGroup;
      const float* scales = static_cast<const float*>(scale) + at;
      [[maybe_unused]] const int8_t* zeros = zero + at;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
          if (granule / 4 * Math::kChunkK + i * kGroup < k_size && row + r < rows) {
            pairs[r / 2].scales[r % 2][i] = __ldg(scales + i);
            if constexpr (kZero) pairs[r / 2].zeros[r % 2][i] = __ldg(zeros + i);
          }
        }
        if constexpr (Math::kSteps == 4) scales += s.b.scale.row, zeros += s.b.scale.row;
      }
    }
    if constexpr (is_e2m1<W>) {
      const uint8_t* codes = static_cast<const uint8_t*>(scale) + row * s.b.scale.row + granule * (32 / kGroup);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (inside && row + r < rows) {
          if constexpr (kGroup == 16)
            pairs[r / 2].codes[r % 2] = __ldg(reinterpret_cast<const unsigned short*>(codes));
          else
            pairs[r / 2].codes[r % 2] = __ldg(codes);
        }
        codes += s.b.scale.row;
      }
    }
  };

  float sums[kPairs][Math::kSums];
  // Chunk g's sum is in column g of row g: with lane t = g / 2.
  const auto close = [&](int group) {
    if (t != g / 2) return;
    float* const to = slots + (warp * 8 + g) * kPitch + group * kRows;
#pragma unroll
    for (int p = 0; p < kPairs; ++p)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (Math::kPromote)
          to[2 * p + h] = sums[p][h];
        else
          to[2 * p + h] = g % 2 == 0 ? sums[p][2 * h] : sums[p][2 * h + 1];
      }
  };
  // The sums of `count` groups, the first of which begins with row `first`: a row for each lane of one warp.
  const auto finish = [&](int first, int count) {
    __syncthreads();
    const int row = first + lane / kRows * stride + lane % kRows;
    if (warp == 0 && lane / kRows < count && row < rows) {
      float parts[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
      for (int i = 0; i < threads / 4; i += 4)
#pragma unroll
        for (int j = 0; j < 4; ++j) parts[j] += slots[(i + j) * kPitch + lane];
      float sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
      if constexpr (is_e2m1<W>) sum *= kE2m1Unscale;
      sum *= row_scale(s.a, x_scale, nullptr, 0, 0) * row_scale(s.b, scale, tensor_scale, 0, row) * s.alpha;
      if (bias != nullptr) sum += load_bias(bias, s.bias, row * s.bias_n);
      if (out_scale != nullptr) sum /= *out_scale;
      store_number(out, s.out, row * s.out_n, sum);
    }
    __syncthreads();
  };

  typename Math::Tokens tokens;
  bool fetched = false;
  int batch_first = static_cast<int>(blockIdx.x) * kRows, batch = 0;
#pragma unroll 1
  for (int row = batch_first; row < rows; row += stride) {
#pragma unroll
    for (int p = 0; p < kPairs; ++p)
#pragma unroll
      for (int i = 0; i < Math::kSums; ++i) sums[p][i] = 0.0f;
#pragma unroll 1
    for (int begin = 0; begin + warp * 32 < granules; begin += threads) {
      load(row, begin + thread);
      if (!fetched) Math::fetch(tokens, x, x_scale, s, begin + thread);
      fetched = threads >= granules;
#pragma unroll
      for (int p = 0; p < kPairs; ++p) Math::multiply(sums[p], pairs[p], tokens);
    }
    close(batch++);
    if (batch == kBatch || row + stride >= rows) {
      finish(batch_first, batch);
      batch = 0, batch_first = row + stride;
    }
  }
}

}  // namespace gpukit
