// dequant_gemv: out = w x for one vector and weights of 8 bits or int4, by tensor cores at the speed of memory.
//
// A block is as wide as a row, 16 bytes a thread in each of kRounds rounds, and keeps its numbers of x in registers. It
// walks a run of rows, 2 kPairs at a time: a warp copies its 512 bytes of them, and their scales, ahead into shared
// memory, and waits for no other. A warp's 512 bytes are 8 chunks, one for each quad of lanes. A fragment's rows are
// the chunks of a pair of rows of w, its columns the same chunks of x: the sums of products lie on its diagonal, and
// what lies beside it is dropped. The chunks of a quad in all rounds are one sum.
//
// What counts is the number of instructions for the 512 bytes of a warp: a scheduler of SM 90 has time for about 100 of
// them. x is asked for after the first rows: a kernel's start is the memory's latency, and all blocks want the same x.
//
// The order of sums is that of sum_order.cuh where it is asked for: for 16-bit x and quantised values of 8 bits whose
// scales do not change along k. Else it is a function of the format, k and the number of threads, and differs from that
// of dequant_gemm_sm80; the grid is free.
#pragma once
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequant_gemv_shape.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"
#include "gpukit/ops/matmul/quantized/stream_weights.cuh"
#include "gpukit/ops/matmul/quantized/sum_order.cuh"

namespace gpukit {

/// The words of a quad are one chunk of 64 bytes. Moves them so that every lane has 4 / kGroups words of each of its
/// kGroups groups, in order.
template <int kGroups>
GPUKIT_DEVICE void share_chunk(uint32_t (&v)[4]) {
  const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
  if constexpr (kGroups == 4) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? v[i] : v[i + 1], 1);
      (odd ? v[i] : v[i + 1]) = got;
    }
  }
  if constexpr (kGroups >= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + 2], 2);
      (upper ? v[i] : v[i + 2]) = got;
    }
  }
}
/// Where word `i` of lane t comes from: the lane's number times 4, and the word's.
template <int kGroups>
GPUKIT_DEVICE int shared_word(int t, int i) {
  if constexpr (kGroups == 4) return i * 4 + t;
  if constexpr (kGroups == 2) return (t % 2 + i / 2 * 2) * 4 + t / 2 * 2 + i % 2;
  return t * 4 + i;
}

/// What a lane of dequant_gemv does with 16 bytes of each row of a group.
/// kOrdered: sums are those of sum_order.cuh: the chunks of a quad are neighbours, as are the 16 of a step.
template <typename W, typename X, int kPairs, int kGroup, bool kZero, bool kOrdered>
struct DequantMath {
  using T = typename TokenMath<X>::type;
  using Format = Weights<W, T>;
  static constexpr int kSteps = Format::kSteps, kRows = 2 * kPairs;
  static_assert(kSteps > 1 && !is_e2m1<W>, "values of 8 bits, or int4");
  static constexpr int kLaneK = 8 * kSteps, kWordK = kLaneK / 4, kChunkK = 4 * kLaneK;  // in 16, 4 and 64 bytes
  static constexpr bool kPromote = kGroup != 0;                                         // scales are applied to sums
  static constexpr int kGroups = kPromote && kGroup < kChunkK ? kChunkK / kGroup : 1;   // of a chunk, by its scales
  static constexpr int kTokenBytes = static_cast<int>(sizeof(X));
  static constexpr bool kTokenGroups = kPromote && kTokenBytes == 1;
  static_assert(!kOrdered || (!kPromote && kTokenBytes == 2));
  static constexpr int kTokenLoads = kLaneK * kTokenBytes / 16;  // of 16 bytes

  /// The numbers of x that the words of a lane meet, in the pairs that decode() makes; their scale where it changes;
  /// and for int4, of the column that is the quad's own, the sum of each group: times -kBias where there are no zero
  /// points.
  struct Tokens {
    uint32_t pairs[4][kWordK / 2];
    float scale;
    float sums[is_int4<W> ? kGroups : 1];
  };
  /// What a lane has of a pair of rows at a time.
  struct Pair {
    uint32_t words[2][4];
    float scales[2][kPromote ? kGroups : 1];
    int zeros[2][kZero ? kGroups : 1];
  };

  /// Sums of fragments, and where scales are applied to these, what comes of it.
  struct Sums {
    float products[kPairs][4];
    float scaled[kPromote ? kPairs : 1][2];
  };

  /// Of the two sums of a row that a lane holds, the one in the column that is its quad's own.
  static GPUKIT_DEVICE float own(float even, float odd) { return threadIdx.x % 8 < 4 ? even : odd; }

  /// Where a lane puts what it copies of 512 bytes of a row. In order, a pair of rounds copies a line of 128 bytes for
  /// every quad, each round those of four quads; each line has its granules in an order of its own.
  static GPUKIT_DEVICE uint32_t copy_at(int lane, int round) {
    return (kOrdered ? lane ^ (lane / 8 + round % 2 * 4) : lane) * 16;
  }
  /// The words of a lane in 512 bytes of a row, given its copy; in order, given that of the first round of a pair: a
  /// matrix is a step, its rows the granules of the quads, from all banks.
  static GPUKIT_DEVICE void take_words(uint32_t (&to)[4], uint32_t row, int round, int lane, int stage_bytes) {
    if constexpr (kOrdered) {
      const int quad = lane % 8, granule = quad % 4 * 8 + ((round % 2 * 4 + lane / 8) ^ quad);
      load_matrices(to, row + quad / 4 * stage_bytes + granule * 16);
    } else {
      load_shared(to, row + lane * 16);
    }
  }

  /// Tokens of a round, of the x of a warp, whose numbers lie in order.
  static GPUKIT_DEVICE void take_tokens(Tokens& to, uint32_t x, int round, int lane) {
    if constexpr (kOrdered) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = lane / 4 * kBytesChain + round * kChunkK + i * 16 + lane % 4 * 4;
        load_shared(to.pairs[i][0], to.pairs[i][1], x + k * kTokenBytes);
      }
    } else {
      uint32_t v[kTokenLoads][4];
#pragma unroll
      for (int i = 0; i < kTokenLoads; ++i) load_shared(v[i], x + round * (kTokenLoads * 512) + token_at(lane, i));
      arrange(to, v);
    }
  }
  /// Bytes from the x of a warp to the load `i` of a lane.
  static GPUKIT_DEVICE uint32_t token_at(int lane, int i) {
    if constexpr (kSteps == 4) return (lane / 4 * 16 + shared_word<kGroups>(lane % 4, i)) * 16;
    return lane * (kLaneK * kTokenBytes) + i * 16;
  }
  /// Tokens of what the loads gave.
  static GPUKIT_DEVICE void arrange(Tokens& to, const uint32_t (&v)[kTokenLoads][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSteps == 4) {
        to.pairs[i][0] = pick_bytes(v[i][0], v[i][2], 0x5410), to.pairs[i][1] = pick_bytes(v[i][0], v[i][2], 0x7632);
        to.pairs[i][2] = pick_bytes(v[i][1], v[i][3], 0x5410), to.pairs[i][3] = pick_bytes(v[i][1], v[i][3], 0x7632);
      } else if constexpr (kTokenBytes == 1) {
        Weights<X, T>::decode(to.pairs[i][0], to.pairs[i][1], v[0][i]);
      } else {
        to.pairs[i][0] = v[i / 2][i % 2 * 2], to.pairs[i][1] = v[i / 2][i % 2 * 2 + 1];
      }
    }
    if constexpr (is_int4<W>) {
      const uint32_t one = PairMath<T>::pack(1.0f, 1.0f), ones[4] = {one, one, one, one};
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int step = g * 8 / kGroups; step < (g + 1) * 8 / kGroups; ++step)
          Mma<T>::add(sums, ones, to.pairs[step / 2][step % 2 * 2], to.pairs[step / 2][step % 2 * 2 + 1]);
        to.sums[g] = own(sums[0], sums[1]);
        if constexpr (!kZero) to.sums[g] *= -Format::kBias;
      }
    }
  }

  template <int kStep>
  static GPUKIT_DEVICE void decode(uint32_t (&a)[4], const Pair& pair) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (kSteps == 2) {
        Format::decode(a[h], a[h + 2], pair.words[h][kStep]);
      } else {
        a[h] = Format::template biased<kStep % 2 * 2>(pair.words[h][kStep / 2]);
        a[h + 2] = Format::template biased<kStep % 2 * 2 + 1>(pair.words[h][kStep / 2]);
      }
    }
  }

  template <int kStep = 0>
  static GPUKIT_DEVICE void walk(Sums& to, const Pair (&pairs)[kPairs], const Tokens& tokens) {
    if constexpr (kStep < 2 * kSteps) {
      constexpr int kWord = kSteps == 2 ? kStep : kStep / 2, kHalf = kSteps == 2 ? 0 : kStep % 2 * 2;
      constexpr int kGroupOf = kStep * kGroups / (2 * kSteps);
      constexpr bool kBegins = kStep * kGroups % (2 * kSteps) == 0, kEnds = (kStep + 1) * kGroups % (2 * kSteps) == 0;
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        float(&sums)[4] = to.products[p];
        if constexpr (kPromote && kBegins) sums[0] = sums[1] = sums[2] = sums[3] = 0.0f;
        uint32_t a[4];
        decode<kStep>(a, pairs[p]);
        Mma<T>::add(sums, a, tokens.pairs[kWord][kHalf], tokens.pairs[kWord][kHalf + 1]);
        if constexpr (kPromote && kEnds) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float group_sum = own(sums[2 * h], sums[2 * h + 1]);
            if constexpr (kZero)
              group_sum = __fmaf_rn(-Format::kBias - static_cast<float>(pairs[p].zeros[h][kGroupOf]),
                                    tokens.sums[kGroupOf], group_sum);
            else if constexpr (is_int4<W>)
              group_sum += tokens.sums[kGroupOf];
            const float by = kTokenGroups ? tokens.scale * pairs[p].scales[h][kGroupOf] : pairs[p].scales[h][kGroupOf];
            to.scaled[p][h] = __fmaf_rn(by, group_sum, to.scaled[p][h]);
          }
        }
      }
      walk<kStep + 1>(to, pairs, tokens);
    }
  }

  /// to += the products of the group.
  static GPUKIT_DEVICE void multiply(Sums& to, Pair (&pairs)[kPairs], const Tokens& tokens) {
    if constexpr (kGroups > 1)
#pragma unroll
      for (int r = 0; r < kRows; ++r) share_chunk<kGroups>(pairs[r / 2].words[r % 2]);
    walk(to, pairs, tokens);
  }

  /// The sum of row `r`.
  static GPUKIT_DEVICE float total(const Sums& of, int r) {
    if constexpr (kPromote) return of.scaled[r / 2][r % 2];
    return own(of.products[r / 2][r % 2 * 2], of.products[r / 2][r % 2 * 2 + 1]);
  }
};

/// Block: a multiple of 32, so that kRounds of them cover a row. Grid: any, with `rows` of it. Shared memory:
/// dequant_gemv_shared_bytes.
///
/// `s` is a product with m = 1 and no experts; n is at most 2^30. kGroup: 0 where the scales of w do not change along
/// k; 128 for float8 with one for 128 x 128; 32, 64 or 128 for int4. Scales of x change along k, every 128, only where
/// those of float8 weights do. x and the rows of w and of scales that change along k are dense. x, w, its stride and
/// its k are multiples of 16 bytes. Zero points lie as the scales do, the first at a multiple of 4 bytes.
template <typename W, typename X, int kPairs, int kGroup, bool kZero, int kRounds, bool kOrdered = false>
__global__ void __launch_bounds__(dequant_gemv_max_threads(kRounds, kOrdered), 1)
    dequant_gemv(void* out, const X* x, const void* x_scale, const W* w, const void* scale, const int8_t* zero,
                 const float* tensor_scale, const void* bias, const float* out_scale,
                 const __grid_constant__ ScaledProblem s, const __grid_constant__ DequantGemvRows rows) {
  using Math = DequantMath<W, X, kPairs, kGroup, kZero, kOrdered>;
  constexpr int kRows = Math::kRows, kGroups = Math::kGroups, kStages = dequant_gemv_stages(kRounds);
  constexpr int kScaleWords = dequant_gemv_scale_words(Math::kSteps == 4, kGroup, kZero, kRows);
  constexpr int kStageBytes = dequant_gemv_stage_bytes(kScaleWords, kRows), kScalesAt = kRows * 512;
  constexpr int kStaged = kRounds * Math::kTokenLoads * 512;  // of x, a warp
  static_assert(kStages % kRounds == 0, "a slot belongs to a round");
  static_assert(!kOrdered || (kRounds * Math::kChunkK == kBytesChain && kRounds % 2 == 0));
  constexpr int kPending = (kOrdered ? kStages / 2 : kStages) - 1;  // copies while one is read
  extern __shared__ __align__(16) uint8_t shared[];
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32;
  const int lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  const int k_size = static_cast<int>(s.k), granules = k_size / Math::kLaneK;
  const int block = static_cast<int>(blockIdx.x), first = block * rows.share + min(block, rows.extra);
  const int end = first + rows.share + (block < rows.extra ? 1 : 0);
  let_next_start();
  // Quantised values of 8 bits leave the threads time: the L2 asks for a block's first rows before the threads can.
  if (Math::kSteps == 2 && thread == 0)
    prefetch_rows(reinterpret_cast<const uint8_t*>(w) + first * s.b.row, (rows.share - 1) * s.b.row + k_size);
  const uint32_t ring = shared_address(shared) + warp * (kStages * kStageBytes);
  const uint32_t staged = shared_address(shared) + warps * (kStages * kStageBytes) + warp * kStaged;
  float* const slots = reinterpret_cast<float*>(shared + warps * (kStages * kStageBytes + kStaged));
  const int pitch = dequant_gemv_pitch(warps, kRows, kOrdered);

  // Where this thread's bytes begin in a row, and its word of the warp's scales: those of a row, 32 at a time. A thread
  // past the end of a row takes the last ones of it, which meet zeros of x.
  constexpr int kPoints = kZero ? 2 : 1, kRowWords = kScaleWords / kRows / kPoints;
  constexpr int kCopies = (kRows * kRowWords + 31) / 32, kCopyRows = kRowWords == 0 ? 1 : 32 / kRowWords;
  constexpr bool kBlocks = Math::kPromote && Math::kSteps == 2;  // scales of 128 x 128
  bool inside[kRounds];
  uint32_t column[kRounds], scale_column[kRounds];
#pragma unroll
  for (int j = 0; j < kRounds; ++j) {
    const int at = kOrdered ? warp * (kRounds * 32) + j % 2 * 64 + j / 2 * 8 : (warp + j * warps) * 32;
    inside[j] = (kOrdered ? warp * (kRounds * 32) : at) < granules;
    column[j] = static_cast<uint32_t>(min(at + (kOrdered ? lane / 8 * 16 + lane % 8 : lane), granules - 1));
    if constexpr (kCopies != 0) {
      const int c = lane % kRowWords, word = kBlocks ? (at / 4 + c) * Math::kChunkK / kGroup : at / 32 * kRowWords + c;
      scale_column[j] = static_cast<uint32_t>(min(word, (k_size - 1) / kGroup));
    }
  }

  // Copies of a group of rows: first those of `ahead`, then the next. Rows past the last one are not copied, nor are
  // their sums stored.
  const uint8_t* from = reinterpret_cast<const uint8_t*>(w) + first * s.b.row;
  const int64_t scale_row = s.b.scale.row * 4;
  const int scale_r = lane / (32 / kCopyRows);
  const uint8_t* scale_from = static_cast<const uint8_t*>(scale);
  if constexpr (kCopies != 0 && !kBlocks) scale_from += (first + scale_r) * scale_row;
  int ahead = first;
  const uint64_t policy = streamed_policy();
  const auto copy = [&](int j, uint32_t to) {
    const int left = end - ahead;
    if (inside[j]) {
      const uint8_t* p = from + column[j] * 16u;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        copy_streamed_if(r < left, to + r * 512 + Math::copy_at(lane, j), p, policy);
        p += s.b.row;
      }
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int r = scale_r + i * kCopyRows;
        const uint8_t* q = scale_from + scale_column[j] * 4u;
        if constexpr (kBlocks)
          q += (ahead + r) / 128 * scale_row;
        else
          q += i * kCopyRows * scale_row;
        const int word = lane % kRowWords * kRows + r;
        copy_async_if<4>(r < kRows && r < left, to + kScalesAt + word * 4, q);
        if constexpr (kZero) {  // the aligned word that has it
          const int64_t at = ((ahead + r) * s.b.scale.row + scale_column[j]) & ~int64_t{3};
          const int64_t count = (s.n - 1) * s.b.scale.row + (k_size + kGroup - 1) / kGroup;
          if (r < kRows && r < left)
            copy_word_async(to + kScalesAt + (kRows * kRowWords + word) * 4, zero + at,
                            static_cast<int>(min(count - at, int64_t{4})));
        }
      }
    }
    if (j == kRounds - 1) {
      ahead += kRows, from += kRows * s.b.row;
      if constexpr (kCopies != 0 && !kBlocks) scale_from += kRows * scale_row;
    }
  };
  const auto copy_x = [&] {
#pragma unroll
    for (int j = 0; j < kRounds; ++j)
#pragma unroll
      for (int i = 0; i < Math::kTokenLoads; ++i) {
        const int run = kOrdered ? warp * kRounds + j : warp + j * warps;
        const int k = run * (32 * Math::kLaneK) + (i * 32 + lane) * (16 / Math::kTokenBytes);
        copy_cached_async(staged + (j * Math::kTokenLoads + i) * 512 + lane * 16, x + (k < k_size ? k : 0),
                          k < k_size ? 16 : 0);
      }
  };
  wait_for_previous();
#pragma unroll
  for (int i = 0; i < kStages; ++i) {
    copy(i % kRounds, ring + i * kStageBytes);
    if (i == 0) copy_x();
    if (!kOrdered || i % 2 == 1) commit_copies();
  }

  // What a thread has of the end of a row: one of 8 threads for a group of rows, or for each of its rows.
  constexpr int kFinishers = kOrdered ? 8 * kRows : 8;  // threads of a group
  const int groups = min(warps * (32 / kFinishers), rows.batch / kRows), batch = groups * kRows;
  const int my_group = thread / kFinishers, my_row = kOrdered ? thread / 8 % kRows : thread % 8;
  const float x_factor = row_scale(s.a, x_scale, nullptr, 0, 0);
  const auto factor_of = [&](int row) {
    return my_row < kRows && my_group < groups && row < end ? row_scale(s.b, scale, tensor_scale, 0, row) : 0.0f;
  };
  /// The sum of a row's chains, in order, of which eight threads have one each.
  const auto add_chains = [&](const float* sums) {
    const int chains = (k_size + kBytesChain - 1) / kBytesChain;
    const float* const from = sums + my_row * (pitch / kRows);
    float total = 0.0f;
#pragma unroll 2
    for (int first = 0; first < chains; first += 8) {
      const int mine = first + thread % 8;
      const float chain = mine < chains ? from[mine] : 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) total += __shfl_sync(0xffffffffu, chain, i, 8);
    }
    return total;
  };
  const auto add_warps = [&](const float* sums) {
    float total[kRows] = {};
#pragma unroll 4
    for (int i = 0; i < warps; ++i)
#pragma unroll
      for (int r = 0; r < kRows; ++r) total[r] += sums[(i * 8 + my_row) * kRows + r];
#pragma unroll
    for (int mask = 4; mask != 0; mask /= 2)
#pragma unroll
      for (int r = 0; r < kRows; ++r) total[r] += __shfl_xor_sync(0xffffffffu, total[r], mask);
    float sum = total[0];
#pragma unroll
    for (int r = 1; r < kRows; ++r) sum = my_row == r ? total[r] : sum;
    return sum;
  };
  const auto finish = [&](const float* sums, int row, int stop, float w_factor) {
    float sum = kOrdered ? add_chains(sums) : add_warps(sums);
    if ((kOrdered ? thread % 8 != 0 : my_row >= kRows) || row >= stop) return;
    sum *= x_factor * w_factor * s.alpha;
    if (bias != nullptr) sum += load_bias(bias, s.bias, row * s.bias_n);
    if (out_scale != nullptr) sum /= *out_scale;
    store_number(out, s.out, row * s.out_n, sum);
  };

  typename Math::Tokens tokens[kRounds];
  wait_copies<kPending>();
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kRounds; ++j) {
    Math::take_tokens(tokens[j], staged, j, lane);
    if constexpr (Math::kTokenGroups) {
      const int k = ((warp + j * warps) * 8 + g) * Math::kChunkK;
      tokens[j].scale = group_scale(s.a, x_scale, 0, 0, k < k_size ? k : 0);
    }
  }

  uint32_t slot = 0;
  int buffer = 0;
#pragma unroll 1
  for (int begin = first; begin < end; begin += batch) {
    const int stop = min(begin + batch, end), my_at = begin + my_group * kRows + my_row;
    const float w_factor = factor_of(my_at);
    float* to = slots + buffer * groups * pitch + (warp * 8 + g) * (kOrdered ? 1 : kRows);
    // Chunk g's sum is in column g of row g: with lane t = g / 2.
    const auto keep = [&](const typename Math::Sums& sums) {
      if (t != g / 2) return;
      if constexpr (kOrdered) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) to[r * (pitch / kRows)] = Math::total(sums, r);
      } else {
#pragma unroll
        for (int r = 0; r < kRows; r += 2)
          *reinterpret_cast<float2*>(to + r) = {Math::total(sums, r), Math::total(sums, r + 1)};
      }
    };
#pragma unroll 1
    for (int row = begin; row < stop; row += kRows) {
      typename Math::Sums sums = {};
#pragma unroll
      for (int j = 0; j < kRounds; ++j) {
        if (!kOrdered || j % 2 == 0) {
          wait_copies<kPending>();
          __syncwarp();
        }
        const uint32_t at = ring + slot, first_of_pair = at - (kOrdered ? j % 2 * kStageBytes : 0);
        typename Math::Pair pairs[kPairs];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          Math::take_words(pairs[r / 2].words[r % 2], first_of_pair + r * 512, j, lane, kStageBytes);
        if constexpr (Math::kPromote) {
#pragma unroll
          for (int i = 0; i < kGroups; ++i) {
            const uint32_t word = (g * kGroups + i) * kRows;
#pragma unroll
            for (int r = 0; r < kRows; r += 2) {
              uint32_t v[2];
              load_shared(v[0], v[1], at + kScalesAt + (word + r) * 4);
              pairs[r / 2].scales[0][i] = __uint_as_float(v[0]), pairs[r / 2].scales[1][i] = __uint_as_float(v[1]);
              if constexpr (kZero) {
                load_shared(v[0], v[1], at + kScalesAt + (kRows * kRowWords + word + r) * 4);
                const int c = ((warp + j * warps) * 8 + g) * kGroups + i;
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                  const uint32_t byte = static_cast<uint32_t>(row + r + h) * static_cast<uint32_t>(s.b.scale.row) + c;
                  pairs[r / 2].zeros[h][i] = static_cast<int8_t>(v[h] >> (byte % 4 * 8));
                }
              }
            }
          }
        }
        if (kScaleWords != 0 || (kOrdered && j % 2 == 1)) __syncwarp();  // all have read what others copied
        if (!kOrdered || j % 2 == 1) {
          if (kOrdered) copy(j - 1, first_of_pair);
          copy(j, at);
          commit_copies();
        }
        slot = slot + kStageBytes == kStages * kStageBytes ? 0 : slot + kStageBytes;
        if (inside[j]) Math::multiply(sums, pairs, tokens[j]);
      }
      keep(sums);
      to += pitch;
    }
    __syncthreads();
    if (my_group < groups) finish(slots + (buffer * groups + my_group) * pitch, my_at, stop, w_factor);
    buffer ^= 1;  // written while others still read the one before
  }
}

}  // namespace gpukit
