// w8a16_fp8x2_sm90: tokens of bfloat16 by weights of float8_e4m3 whose scales do not change along k, to 16 bits
// (sm_90a). Few tokens go nearly at the speed of memory.
//
// The tensor cores take the quantised values of the weights as they are. A token is two quantised values instead: its
// chain of 128 is multiplied by a power of two that brings the largest below 256; a number's first four bits are one
// code, the other four times 16 the second. Both together are the number, but for what lies below 2^-14 of the chain's
// largest: that is rounded to 2^-21 of it. The unit keeps some 14 bits of a sum; so each chain is summed from zero, and
// (sum of the first quantised values + sum of the second / 16) / power of two is added to a float32 total.
//
// Chains in ascending order make a total for each eighth of the chains of a row, a piece; two pieces are a segment, and
// the four segments are added in ascending order. Who adds them, and how many multiply beside each other, changes no
// bits.
//
// A warp loads: the weights of a chain and its tokens make a stage. Warpgroups multiply. 64 rows are 8 tokens' first
// quantised values, their second ones, and so on, so that a thread has both sums of its tokens. Its warp takes those
// tokens apart as well, while the chain before is multiplied: as the tensor cores take such rows from a thread's
// registers, it is the thread that has loaded the numbers who needs their quantised values.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/cluster.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/hopper/tma.cuh"
#include "gpukit/ops/hopper/wgmma.cuh"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"
#include "gpukit/ops/matmul/quantized/fp8x2_split.cuh"
#include "gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90_shape.cuh"

namespace gpukit {

/// A chain of eight tokens, taken apart: token_of_lane() in a thread.
struct TakenTokens {
  uint32_t values[4][4];  // of 32 numbers at a time, as WgmmaTaken has them: first, second, first, second
  float factor;

  /// Neighbours have the same numbers in the same banks. Half a warp reads at a time: it has every other token.
  static GPUKIT_DEVICE int token_of_lane(int lane) { return lane / 4 % 4 * 2 + lane / 16; }
  /// Where a thread's first numbers lie among 128 swizzled bytes of 64 numbers of each token.
  static GPUKIT_DEVICE int place_of_lane(int lane) {
    const int token = token_of_lane(lane), t = lane % 4;
    return token * 128 + (t / 2 ^ token) * 16 + t % 2 * 8;
  }

  /// `numbers`: the thread's first, 1024-byte tiles of eight tokens apart; those of the other 64 lie `half` bytes
  /// further.
  GPUKIT_DEVICE void take(uint32_t numbers, int half) {
    SplitChain<1> chain;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // four numbers of every 16
      uint32_t(&four)[4] = chain.pairs[i / 2];
      load_shared(four[i % 2 * 2], four[i % 2 * 2 + 1], (numbers ^ i % 4 * 32) + i / 4 * half);
    }
    chain.scale();
    factor = __uint_as_float(chain.factor);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t first[4], second[4];
      chain.split(h, first, second);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[h * 2 + i / 2][i % 2 * 2] = first[i];
        values[h * 2 + i / 2][i % 2 * 2 + 1] = second[i];
      }
    }
  }
};

GPUKIT_DEVICE float2 load_floats(uint32_t shared) {
  uint32_t first, second;
  load_shared(first, second, shared);
  return {__uint_as_float(first), __uint_as_float(second)};
}
GPUKIT_DEVICE void load_floats(float (&to)[4], uint32_t shared) {
  uint32_t words[4];
  load_shared(words, shared);
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = __uint_as_float(words[i]);
}
GPUKIT_DEVICE void store_floats(uint32_t shared, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared), "f"(first), "f"(second) : "memory");
}

/// Grid: a cluster for each tile, or where that is one block, at most. Block: Fp8x2Form::kThreads. Shared bytes:
/// p.shared_bytes(). `w` maps the quantised values in boxes of 128 by p.rows. `x` maps the tokens as (64, tokens, k /
/// 64) in boxes of 64 by 8 p.groups by 2; or, not kWhole, what split_rows made of them in boxes of 128 by 16 p.groups,
/// and token_factors are its factors. All are swizzled. `s`: 16-bit results; scales that do not change along k.
template <int kColumns, int kBlocks, bool kWhole>
__global__ void GPUKIT_CLUSTER(kBlocks) __launch_bounds__(Fp8x2Form::kThreads, 1)
    w8a16_fp8x2_sm90(const __grid_constant__ TileMap w, const __grid_constant__ TileMap x, void* out,
                     const float* token_factors, const void* scale, const void* bias,
                     const __grid_constant__ ScaledProblem s, const __grid_constant__ Fp8x2Tiling p) {
  constexpr Fp8x2Form kForm = {kColumns, kBlocks, kWhole};
  constexpr int kWays = kForm.ways(), kSets = kForm.sets(), kTotals = kColumns / 4;  // of a thread
  constexpr int kMultipliers = 8, kLoader = kMultipliers;                            // warps
  constexpr int kSegments = Fp8x2Tiling::kSegments / kBlocks, kKept = Fp8x2Tiling::kept(kForm);
  constexpr bool kApart = Fp8x2Tiling::apart(kForm), kOnePlace = Fp8x2Tiling::piece_places(kForm) == 1 && kWhole;
  static_assert(!kOnePlace || kBlocks == 1);
  constexpr int kGroupBytes = Fp8x2Tiling::group_bytes(kForm), kWarpPairBytes = 32 * 8;
  // Of 168 registers that every thread starts with.
  constexpr int kRegisters = 232, kHelperRegisters = 40;
  // Barriers by their numbers: the sums of a tile are there, and have been read; the sums of a piece are there; no warp
  // of a way reads its ring any more.
  constexpr int kStart = 1, kSumsThere = 2, kSumsRead = 3, kPieceThere = 4, kRingRead = 5;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // the same for all, as the compiler sees
  const int rank = static_cast<int>(blockIdx.x) % kBlocks, cluster = static_cast<int>(blockIdx.x) / kBlocks;
  const int clusters = static_cast<int>(gridDim.x) / kBlocks, n = static_cast<int>(s.n);
  // Tiles of the same weights are neighbours.
  const auto row_of = [&](int tile) { return tile / p.token_tiles * p.rows; };
  const auto token_of = [&](int tile) { return p.first + tile % p.token_tiles * kForm.tokens(); };
  // The chains of a way in a segment of this block: a piece, or both where there is one way.
  const auto begin_of = [&](int segment, int way) {
    return p.first_chain((rank * kSegments + segment) * 2 + way * (2 / kWays));
  };
  const auto end_of = [&](int segment, int way) { return begin_of(segment + (way + 1) / kWays, (way + 1) % kWays); };

  let_next_start();
  const int stage_bytes = p.stage_bytes(), weight_bytes = p.weight_bytes();
  extern __shared__ uint8_t shared[];
  const uint32_t landed = shared_address(shared), raw = landed + Fp8x2Tiling::kMaxStages * 8;
  const uint32_t empty = raw + Fp8x2Tiling::kMaxStages * 8, complete = empty + Fp8x2Tiling::kMaxStages * 8;
  const uint32_t piece_read = complete;  // of a block alone: its one place for a piece is free
  const uint32_t factors = complete + 16;
  const uint32_t ends = factors + Fp8x2Tiling::kMaxStages * Fp8x2Tiling::kMaxTokens * 4;
  const uint32_t base = (ends + Fp8x2Tiling::end_bytes(kForm) + 1023) & ~1023u;
  const int sums_bytes = p.sums_bytes(kForm);
  const uint32_t sums = base + kWays * p.stages * stage_bytes, pieces = sums + kKept * sums_bytes;
  const auto factors_of = [&](int stage) { return factors + stage * Fp8x2Tiling::kMaxTokens * 4; };
  // A barrier takes some time to make: every warp makes a few.
  if (lane == 0) {
    if (warp == kLoader) {
      tile_prefetch(&w), tile_prefetch(&x);
      for (int i = 0; i < p.ahead; ++i)
        tile_ask(&w, (begin_of(0, i % kWays) + i / kWays) * Fp8x2Tiling::kChain, row_of(cluster), 0);
    } else if (warp < kMultipliers) {
      for (int i = warp; i < kWays * p.stages; i += kMultipliers) {
        barrier_init(landed + i * 8, 1);
        barrier_init(raw + i * 8, 1);
        barrier_init(empty + i * 8, kSets * 128);
      }
      if (kOnePlace && warp == 0) barrier_init(piece_read, 128);
      if (kBlocks > 1 && warp == 0) {
        // Sums of this block's groups: its last segment's are stored, others sent, and counted by their bytes.
        const int groups = (p.groups + kBlocks - 1 - rank) / kBlocks;
        constexpr int kSums = kApart ? 2 : 1;  // of a segment
        constexpr int kSent = (kBlocks - 1) * kSums + (kSegments - 1) * kBlocks;
        barrier_init(complete, 1 + 32 + groups * kSums * 32);
        barrier_expect(complete, groups * kSent * kGroupBytes);
      }
      barrier_publish();
    }
  }
  __syncwarp();
  if constexpr (kBlocks > 1) meet_cluster();

  const auto load = [&](int row, int token) {
    const uint64_t once = cache_policy_once();
    int stages[kWays], phases[kWays];
#pragma unroll
    for (int way = 0; way < kWays; ++way) stages[way] = way * p.stages, phases[way] = 1;
    for (int tile = cluster; tile < p.tiles;) {
#pragma unroll 1
      for (int segment = 0; segment < kSegments; ++segment) {
        const int longest = end_of(segment, 0) - begin_of(segment, 0) + 1;  // no way has more chains
#pragma unroll 1
        for (int i = 0; i < longest; ++i)
#pragma unroll
          for (int way = 0; way < kWays; ++way) {
            const int chain = begin_of(segment, way) + i, stage = stages[way];
            if (chain >= end_of(segment, way)) continue;
            barrier_wait(empty + stage * 8, phases[way]);
            const uint32_t to = base + stage * stage_bytes;
            if constexpr (kWhole) {
              barrier_expect(raw + stage * 8, p.groups * 2048);
              tile_load(to + weight_bytes, &x, raw + stage * 8, 0, token, chain * 2);
            }
            const int of_tokens = kWhole ? 0 : p.groups * (2048 + Fp8x2Tiling::kGroup * 4);
            barrier_expect(landed + stage * 8, p.rows * 128 + of_tokens);
            tile_load(to, &w, landed + stage * 8, chain * Fp8x2Tiling::kChain, row, 0, once);
            if constexpr (!kWhole) {
              tile_load(to + weight_bytes, &x, landed + stage * 8, chain * Fp8x2Tiling::kChain, (token - p.first) * 2,
                        0);
              copy_bytes(factors_of(stage), token_factors + int64_t{chain} * p.padded + (token - p.first),
                         p.groups * Fp8x2Tiling::kGroup * 4, landed + stage * 8);
            }
            if (++stages[way] == (way + 1) * p.stages) stages[way] = way * p.stages, phases[way] ^= 1;
          }
      }
      tile += clusters;
      row = row_of(tile), token = token_of(tile);
      asm volatile("" : "+r"(row), "+r"(token));  // divided once, and not at each stage
    }
  };
  // What the sums of a weight are multiplied by, and what is added to them. Tiles have two places in turn.
  const auto scale_weights = [&] {
    int place = 0;
    for (int tile = cluster; tile < p.tiles; tile += clusters, place ^= 1) {
      const int row_0 = row_of(tile);
      for (int i = lane; i < p.rows && row_0 + i < n; i += 32) {
        const float by = row_scale(s.b, scale, nullptr, 0, row_0 + i) * s.alpha;
        const float plus = bias != nullptr ? load_bias(bias, s.bias, (row_0 + i) * s.bias_n) : -0.0f;  // no change
        store_floats(ends + (place * kColumns + i) * 8, by, plus);
      }
      if constexpr (kBlocks > 1)
        barrier_arrive(complete);
      else
        named_barrier(kSumsThere, kMultipliers * 32 + 32);
    }
  };
  if (warp >= kLoader) {
    // The last block to start is the last to end, and the kernel after this one waits for it: what its loader does
    // between these waits and the first copy counts.
    const int row = __shfl_sync(0xffffffffu, row_of(cluster), 0);  // which has divided before it waits
    const int token = __shfl_sync(0xffffffffu, token_of(cluster), 0);
    named_barrier(kStart, Fp8x2Form::kThreads);
    wait_for_previous();
    give_registers<kHelperRegisters>();
    if (warp == kLoader && lane == 0) load(row, token);
    if (warp == kLoader + 1) scale_weights();
    __syncwarp();
    if constexpr (kBlocks > 1) wait_cluster();
    return;
  }
  named_barrier(kStart, Fp8x2Form::kThreads);
  wait_for_previous();
  take_registers<kRegisters>();

  const int set = kWhole ? 0 : warp / 4, way = kWhole ? warp / 4 : 0;
  const int group = set * 4 + warp % 4, ring = way * p.stages;
  const bool works = group < p.groups;
  const uint32_t numbers = base + weight_bytes + group * 1024 + TakenTokens::place_of_lane(lane);  // in the first stage
  int stage = ring, phase = 0, token_stage = ring, token_phase = 0, odd_tile = 0;
  [[maybe_unused]] int piece_phase = 1;
  float products[kForm.buffers()][kColumns / 2], totals[kTotals];
  // Where the sums of a segment go: to the block that ends their tokens. A thread has pairs of them, eight apart.
  const int lane_token = kWhole ? TakenTokens::token_of_lane(lane) : lane / 4;  // of its group
  uint32_t there = sums + group / kBlocks * kGroupBytes + lane * 8, told = complete;
  if constexpr (kBlocks > 1) there = in_block(there, group % kBlocks), told = in_block(told, group % kBlocks);
  const auto store_totals = [&](uint32_t to) {
#pragma unroll
    for (int j = 0; j < kTotals; j += 2) store_floats(to + j / 2 * kWarpPairBytes, totals[j], totals[j + 1]);
  };
  const auto keep = [&](int segment) {
    if constexpr (kBlocks > 1) {
      const uint32_t to = there + (rank * kSegments + segment) * sums_bytes;
#pragma unroll
      for (int j = 0; j < kTotals; j += 2) send_to_block(to + j / 2 * kWarpPairBytes, totals[j], totals[j + 1], told);
    } else {
      if (segment > 0) {
#pragma unroll
        for (int j = 0; j < kTotals; j += 2) {
          const float2 sum = load_floats(there + j / 2 * kWarpPairBytes);
          totals[j] = sum.x + totals[j], totals[j + 1] = sum.y + totals[j + 1];
        }
      }
      store_totals(there);
    }
  };
  // The sum of a piece as it waits for the other, and the sum of both.
  uint32_t piece = pieces + (set * 128 + thread % 128) * 8;
  constexpr uint32_t kPairBytes = kSets * 128 * 8, kPieceBytes = Fp8x2Tiling::piece_bytes(kForm);
  const auto store_piece = [&] {
#pragma unroll
    for (int j = 0; j < kTotals; j += 2) store_floats(piece + j / 2 * kPairBytes, totals[j], totals[j + 1]);
  };
  const auto add_piece = [&] {
#pragma unroll
    for (int j = 0; j < kTotals; j += 2) {
      const float2 sum = load_floats(piece + j / 2 * kPairBytes);
      totals[j] += sum.x, totals[j + 1] += sum.y;
    }
  };
  if constexpr (kBlocks > 1 && kSegments > 1) wait_cluster();  // all blocks have made their barriers

  for (int tile = cluster; tile < p.tiles; tile += clusters) {
    const auto take = [&](TakenTokens& to) {
      if (works) {
        barrier_wait(raw + token_stage * 8, token_phase);
        to.take(numbers + token_stage * stage_bytes, p.groups * 1024);
      }
      if (++token_stage == ring + p.stages) token_stage = ring, token_phase ^= 1;
    };
    const auto multiply = [&](float(&to)[kColumns / 2], [[maybe_unused]] const TakenTokens& taken) {
      barrier_wait(landed + stage * 8, phase);
      const uint32_t at = base + stage * stage_bytes;
      const uint64_t values = tile_descriptor(at, 16, 1024);
      [[maybe_unused]] const uint64_t tokens = tile_descriptor(at + weight_bytes + set * (64 * 128), 16, 1024);
      wgmma_fence();
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        if constexpr (kWhole)
          WgmmaTaken<float8_e4m3, kColumns>::run(to, taken.values[q], values + q * 2, q);
        else
          Wgmma<float8_e4m3, kColumns>::template run<0, 0>(to, tokens + q * 2, values + q * 2, q);
      }
      wgmma_commit();
      if (++stage == ring + p.stages) stage = ring, phase ^= 1;
    };
    int done = stage;
    const auto add = [&](float(&from)[kColumns / 2], float factor) {
      keep_sums(from);
      if (!kWhole && works)
        factor = __uint_as_float(load_word(factors_of(done) + (group * Fp8x2Tiling::kGroup + lane_token) * 4));
      barrier_arrive(empty + done * 8);  // each lane, of what it read
      if (++done == ring + p.stages) done = ring;
      if (!works) return;
#pragma unroll
      for (int j = 0; j < kTotals; ++j) {
        const int at = j / 2 * 4 + j % 2;
        totals[j] = __fmaf_rn(factor, __fmaf_rn(from[at + 2], 0.0625f, from[at]), totals[j]);
      }
    };
    TakenTokens taken[2] = {};
    if constexpr (kWhole) take(taken[0]);

#pragma unroll 1
    for (int step = 0;; ++step) {  // a piece each
      const int segment = kWhole ? step : step / 2, first = (rank * kSegments + segment) * 2;
      const int number = first + (kWhole ? way : step % 2), stop = p.first_chain(number + 1);
      const bool last = segment == kSegments - 1;
      int chain = p.first_chain(number);
#pragma unroll
      for (int j = 0; j < kTotals; ++j) totals[j] = 0.0f;
      if constexpr (kWhole) {  // while a chain is multiplied, the tokens of the one after it are taken apart
#pragma unroll 1
        for (; chain + 1 < stop; chain += 2) {
          multiply(products[0], taken[0]);
          take(taken[1]);
          wgmma_wait<0>();
          add(products[0], taken[0].factor);
          multiply(products[0], taken[1]);
          if (chain + 2 < stop || !last) take(taken[0]);
          wgmma_wait<0>();
          add(products[0], taken[1].factor);
        }
        if (chain < stop) {
          multiply(products[0], taken[0]);
          if (!last) take(taken[1]);
          wgmma_wait<0>();
          add(products[0], taken[0].factor);
          taken[0] = taken[1];
        }
      } else if constexpr (kForm.buffers() == 1) {
#pragma unroll 1
        for (; chain < stop; ++chain) {
          multiply(products[0], taken[0]);
          wgmma_wait<0>();
          add(products[0], 0.0f);
        }
      } else {  // while a chain is multiplied, the one before it is added
        multiply(products[0], taken[0]);
#pragma unroll 1
        for (; chain + 2 < stop; chain += 2) {
          multiply(products[1], taken[0]);
          wgmma_wait<1>();
          add(products[0], 0.0f);
          multiply(products[0], taken[0]);
          wgmma_wait<1>();
          add(products[1], 0.0f);
        }
        if (chain + 1 < stop) {
          multiply(products[1], taken[0]);
          wgmma_wait<1>();
          add(products[0], 0.0f);
          wgmma_wait<0>();
          add(products[1], 0.0f);
        } else {
          wgmma_wait<0>();
          add(products[0], 0.0f);
        }
      }

      // Two pieces make a segment.
      if constexpr (kApart) break;
      const bool stores = kWhole ? way == 1 : step % 2 == 0;  // or adds what is stored
      if constexpr (kWhole) {
        if (kOnePlace && stores) barrier_wait(piece_read, piece_phase), piece_phase ^= 1;
        if (works && stores) store_piece();
        named_barrier(kPieceThere, kMultipliers * 32);
        if (works && !stores) add_piece();
        if constexpr (kOnePlace) {
          if (!stores) barrier_arrive(piece_read);
        } else {
          piece = pieces + thread % 128 * 8 + (piece - pieces < kPieceBytes ? kPieceBytes : 0);
        }
      } else if (works) {
        if (stores)
          store_piece();
        else
          add_piece();
      }
      if (last && (kWhole || !stores)) break;
      if (works && !stores) keep(segment);
    }

    // A warp ends neighbouring pairs of each thread of a group.
    constexpr int kPairs = (kTotals / 2 + kMultipliers - 1) / kMultipliers;
    const int token_0 = token_of(tile), row_0 = row_of(tile), column = warp * kPairs * 8 + lane % 4 * 2;
    const int here = min(p.last - token_0, kForm.tokens()), live = min(p.rows, n - row_0) - column;
    const bool in_pairs = s.out_n == 1 && s.out_m % 2 == 0 && n % 2 == 0 && reinterpret_cast<uint64_t>(out) % 4 == 0;
    const bool is_bfloat16 = s.out == Code::bfloat16;
    uint16_t* const to = static_cast<uint16_t*>(out) + token_0 * s.out_m + (row_0 + column) * s.out_n;

    if constexpr (kBlocks > 1) {
      if constexpr (kSegments == 1) wait_cluster();  // all blocks have made their barriers
      // kPieceThere says it where pieces have met.
      if constexpr (kApart || !kWhole) named_barrier(kRingRead + way, kSets * 128);
      if (works && (kApart || way == 0)) {
        const bool own = group % kBlocks == rank;
        const int at = (kApart ? rank * 2 + way : rank * kSegments + kSegments - 1) * sums_bytes;
        const uint32_t from =
            own ? sums + group / kBlocks * kGroupBytes + at : base + ring * stage_bytes + group * kGroupBytes;
        store_totals(from + lane * 8);
        if (own) {
          barrier_arrive(complete);
        } else {
          shared_publish();
          __syncwarp();
          if (lane == 0) send_to_block(there + at, from, kGroupBytes, told);
        }
      }
      wait_for_blocks(complete, 0);
      meet_cluster();
    } else {
      if (works && way == 0) keep(kSegments - 1);
      named_barrier(kSumsThere, kMultipliers * 32 + 32);
    }

    float by[kPairs][4];  // and what is added, of two weights
#pragma unroll
    for (int j = 0; j < kPairs; ++j)
      if (j * 8 < live) load_floats(by[j], ends + (odd_tile * kColumns + column + j * 8) * 8);
    // Code that runs once takes as long to fetch as to run: a loop, and nothing beside it.
    const auto end_tokens = [&](const auto& store) {
      uint32_t at = sums + warp * kPairs * kWarpPairBytes + lane * 8;
#pragma unroll 1
      for (int first = rank * Fp8x2Tiling::kGroup; first < here;
           first += kBlocks * Fp8x2Tiling::kGroup, at += kGroupBytes) {
        const int token = first + lane_token;
        float2 kept[kPairs][kKept];
#pragma unroll
        for (int j = 0; j < kPairs; ++j)
#pragma unroll
          for (int q = 0; q < kKept; ++q)
            kept[j][q] = j * 8 < live ? load_floats(at + q * sums_bytes + j * kWarpPairBytes) : float2{};
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          if constexpr (kApart) {
#pragma unroll
            for (int q = 0; q < kKept; q += 2)
              kept[j][q / 2] = {kept[j][q].x + kept[j][q + 1].x, kept[j][q].y + kept[j][q + 1].y};
          }
          float2 sum = kept[j][0];
#pragma unroll
          for (int q = 1; q < (kApart ? kKept / 2 : kKept); ++q) sum = {sum.x + kept[j][q].x, sum.y + kept[j][q].y};
          sum = {sum.x * by[j][0] + by[j][1], sum.y * by[j][2] + by[j][3]};
          const uint32_t pair =
              is_bfloat16 ? PairMath<bfloat16>::pack(sum.x, sum.y) : PairMath<half>::pack(sum.x, sum.y);
          if (token < here) store(to + token * s.out_m, j * 8, pair);
        }
      }
    };
    if (in_pairs) {
      end_tokens([&](uint16_t* row, int j, uint32_t pair) {
        if (j < live) *reinterpret_cast<uint32_t*>(row + j) = pair;
      });
    } else {
      end_tokens([&](uint16_t* row, int j, uint32_t pair) {
        if (j < live) row[j * s.out_n] = static_cast<uint16_t>(pair);
        if (j + 1 < live) row[(j + 1) * s.out_n] = static_cast<uint16_t>(pair >> 16);
      });
    }
    if constexpr (kBlocks > 1)
      wait_cluster();  // what this block has sent has come; a cluster has one tile
    else
      named_barrier(kSumsRead, kMultipliers * 32), odd_tile ^= 1;
  }
}

}  // namespace gpukit
