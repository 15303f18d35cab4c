// gemv_codes: out = w x for one vector and weights of 8 or 4 bits, by tensor cores at the speed of memory.
//
// A block takes groups of 2 kPairs rows in turn; copies of the kStages - 1 next ones to shared memory are under way.
// Its threads walk rows side by side, 16 bytes each, so that memory is read in long runs; where the block is as wide as
// a row, its numbers of x stay in registers. A warp's 512 bytes are 8 chunks, one for each quad of lanes. A fragment's
// rows are the chunks of a pair of rows of w, its columns the same chunks of x: the sums of products lie on its
// diagonal, and what lies beside it is dropped.
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

/// What a lane has of a pair of rows at a time.
template <int kParts>
struct CodesPair {
  uint32_t words[2][4];
  float scales[2][kParts];      // float32, where kGroup is not 0
  uint32_t offsets[2][kParts];  // int4 with zero points
  uint32_t codes[2];            // e2m1: scales
};

/// Grid: at most ceil(n / (2 kPairs)), best as many blocks as the chip holds at once. Block: a multiple of 32 up to
/// kGemvCodesThreads. Shared bytes: gemv_codes_shared_bytes. kResident blocks of the largest size fit the registers.
///
/// `s` is a product with m = 1 and no experts; n and k are at most 2^30. kGroup: 0 where the scales of w do not change
/// along k; 128 for float8 with one for 128 x 128; 32, 64 or 128 for int4; 16 or 32 for e2m1. Scales of x change along
/// k, every 128, only where those of float8 weights do. x and the rows of w and of scales that change along k are
/// dense. x, w, its stride and its k are multiples of 16 bytes; the scales of e2m1 and their rows are multiples of 4.
/// Zero points lie as the scales do, start at a multiple of 4 bytes and are read in words.
template <typename W, typename X, int kPairs, int kGroup, bool kZero, int kStages, int kResident>
__global__ void __launch_bounds__(kGemvCodesThreads, kResident)
    gemv_codes(void* out, const X* x, const void* x_scale, const W* w, const void* scale, const int8_t* zero,
               const float* tensor_scale, const void* bias, const float* out_scale,
               const __grid_constant__ ScaledSpace s) {
  using T = typename TokenMath<X>::type;
  using Format = Weights<W, T>;
  constexpr int kSteps = Format::kSteps, kRows = 2 * kPairs;
  static_assert(kSteps > 1, "codes of 8 or 4 bits");
  constexpr int kLaneK = 8 * kSteps, kWordK = kLaneK / 4, kChunkK = 4 * kLaneK;  // in 16, 4 and 64 bytes
  constexpr bool kPromote = kGroup != 0 && !is_e2m1<W>;
  constexpr int kParts = kPromote && kGroup < kChunkK ? kChunkK / kGroup : 1;
  constexpr int kTokenBytes = static_cast<int>(sizeof(X));
  using Pair = CodesPair<kParts>;
  extern __shared__ __align__(16) uint8_t gemv_codes_shared[];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x), warps = threads / 32;
  const int lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  const int k_size = static_cast<int>(s.k), granules = k_size / kLaneK;
  const int rows = static_cast<int>(s.n), groups = (rows + kRows - 1) / kRows;

  const uint32_t ring = shared_address(gemv_codes_shared);
  constexpr int kStageBytes = gemv_codes_stage_bytes(1, kPairs, kGroup != 0, kZero);  // of a thread
  float* const slots = reinterpret_cast<float*>(gemv_codes_shared + kStages * kStageBytes * threads);

  // The first k of part `part` of this thread's quad. Quads past the end of a row take its first one.
  const auto part_begin = [&](int from, int part) {
    const int k = (from + thread) / 4 * kChunkK + part * kGroup;
    return k < k_size ? k : 0;
  };
  // Where the scale of that part is.
  const auto part_scale = [&](int row, int from, int part) {
    return (kSteps == 2 ? row / 128 : row) * s.b.scale.row + part_begin(from, part) / (kGroup + (kGroup == 0));
  };
  // A thread copies what it will read, but for the scales of a quad's parts, of which each lane copies one. What lies
  // past the end of a row is read from its begin, and meets zeros of x.
  const auto copy_group = [&](int stage, int group, int from) {
    const uint32_t to = ring + stage * kStageBytes * threads;
    const int granule = from + thread < granules ? from + thread : 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = group * kRows + r < rows ? group * kRows + r : rows - 1;
      copy_async(to + (r * threads + thread) * 16, reinterpret_cast<const uint8_t*>(w) + row * s.b.row + granule * 16,
                 16);
      const uint32_t word = to + kRows * 16 * threads + (r * threads + thread) * 4;
      if constexpr (kPromote) {
        const int64_t at = part_scale(row, from, t % kParts);
        copy_word_async(word, static_cast<const float*>(scale) + at, 4);
        if constexpr (kZero) copy_word_async(word + kRows * 4 * threads, zero + (at & ~int64_t{3}), 4);
      }
      if constexpr (is_e2m1<W>)
        copy_word_async(word, static_cast<const uint8_t*>(scale) + row * s.b.scale.row + (granule * 32 / kGroup & ~3),
                        4);
    }
  };
  const auto load_pair = [&](Pair& to, int stage, int pair, int group, int from) {
    const uint32_t at = ring + stage * kStageBytes * threads;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = 2 * pair + h;
      load_shared(to.words[h], at + (r * threads + thread) * 16);
      const uint32_t word = at + kRows * 16 * threads + (r * threads + thread) * 4;
      if constexpr (kPromote) {
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
          const uint32_t from_lane = kParts == 1 ? word : word + (i - t) * 4;
          to.scales[h][i] = __uint_as_float(load_word(from_lane));
          if constexpr (kZero) {
            const int row = group * kRows + r < rows ? group * kRows + r : rows - 1;
            const int byte = static_cast<int>(part_scale(row, from, i)) & 3;
            to.offsets[h][i] =
                Format::offset(static_cast<int8_t>(load_word(from_lane + kRows * 4 * threads) >> (byte * 8)));
          }
        }
      }
      if constexpr (is_e2m1<W>) {
        const int granule = from + thread < granules ? from + thread : 0;
        to.codes[h] = load_word(word) >> ((granule * 32 / kGroup & 3) * 8);
      }
    }
  };

  // The numbers of x that the words of a lane meet, in the pairs that decode() makes, and their scale where it changes.
  constexpr bool kTokenGroups = kPromote && kTokenBytes == 1;
  uint32_t tokens[4][kWordK / 2];
  float token_scale = 1.0f;
  const auto fetch_tokens = [&](int begin) {
    const int granule = begin + thread;
    if constexpr (kTokenGroups) token_scale = group_scale(s.a, x_scale, 0, 0, part_begin(begin, 0));
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
            with = Format::scale(pair.codes[h] >> (kGroup == 16 ? step / 4 * 8 : 0) & 0xffu);
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
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float by = kTokenGroups ? token_scale * pair.scales[h][part] : pair.scales[h][part];
            to[h] = __fmaf_rn(by, g % 2 == 0 ? products[2 * h] : products[2 * h + 1], to[h]);
          }
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
        if (t == g / 2) slots[((of * kPairs + p) * 2 + h) * warps * 8 + warp * 8 + g] = v;
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
      for (int i = lane; i < warps * 8; i += 32) sum += slots[r * warps * 8 + i];
#pragma unroll
      for (int mask = 16; mask != 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      if (lane == 0 && row < rows) {
        if constexpr (is_e2m1<W>) sum *= kE2m1Unscale;
        sum *= row_scale(s.a, x_scale, nullptr, 0, 0) * row_scale(s.b, scale, tensor_scale, 0, row) * s.alpha;
        if (bias != nullptr) sum += load_bias(bias, s.bias, row * s.bias_n);
        if (out_scale != nullptr) sum /= *out_scale;
        store_number(out, s.out, row * s.out_n, sum);
      }
    }
    __syncthreads();
  };

  // A step is one round of threads over one group of rows.
  struct Step {
    int group, begin;
  };
  const auto following = [&](Step now) {
    const bool stays = now.begin + threads < granules;
    return Step{stays ? now.group : now.group + static_cast<int>(gridDim.x), stays ? now.begin + threads : 0};
  };
  Step now = {static_cast<int>(blockIdx.x), 0}, ahead = now;
  int waiting_first = now.group, waiting = 0, read = 0, write = kStages - 1;
  bool tokens_stay = false;
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    if (ahead.group < groups) copy_group(i, ahead.group, ahead.begin);
    commit_copies();
    ahead = following(ahead);
  }
#pragma unroll 1
  while (now.group < groups) {
    if (!tokens_stay) fetch_tokens(now.begin);
    tokens_stay = threads >= granules;
    wait_copies<kStages - 2>();
    // Lanes see each other's copies, and are done with the stage that is copied to next.
    __syncwarp();
    if (ahead.group < groups) copy_group(write, ahead.group, ahead.begin);
    commit_copies();
    ahead = following(ahead);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      Pair pair;
      load_pair(pair, read, p, now.group, now.begin);
      multiply(pair, sums[p]);
    }
    const Step next = following(now);
    if (next.begin == 0) {
      close(waiting++);
      if (waiting == kGemvCodesBatch || next.group >= groups) {
        finish(waiting_first, waiting);
        waiting = 0;
        waiting_first = next.group;
      }
    }
    now = next;
    read = read + 1 == kStages ? 0 : read + 1;
    write = write + 1 == kStages ? 0 : write + 1;
  }
}

}  // namespace gpukit
