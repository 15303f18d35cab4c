// gemm90_parts: tokens of bfloat16 by weights of float8_e4m3 whose scales do not change along k, to 16 bits (sm_90a).
// Few tokens go nearly at the speed of memory.
//
// The tensor cores take the codes of the weights as they are. A token is two codes instead: its chain of 128 is
// multiplied by a power of two that brings the largest below 256; a number's first four bits are one code, the other
// four times 16 the second. Both together are the number, but for what lies below 2^-14 of the chain's largest: that is
// rounded to 2^-21 of it. The unit keeps some 14 bits of a sum; so each chain is summed from zero, and
// (sum of the first codes + sum of the second / 16) / power of two is added to a float32 total.
//
// Chains in ascending order make a total for each quarter of the chains of a row; these are added in ascending order.
// Who adds them, and how many multiply beside each other, changes no bits.
//
// A warp loads: the weights of a chain and its tokens make a stage. Some warps take the tokens apart, in place, as soon
// as these have landed, most often long before the weights. Warpgroups multiply: 64 rows are 8 tokens' first codes,
// their second ones, and so on, so that a thread has both sums of its tokens.
#pragma once
#include "gpukit/ops/common/overlap.cuh"
#include "gpukit/ops/gemv/cluster.cuh"
#include "gpukit/ops/gemv/gemm90_parts_shape.cuh"
#include "gpukit/ops/gemv/split_chain.cuh"
#include "gpukit/ops/gemv/weights.cuh"
#include "gpukit/ops/matmul/hopper.cuh"
#include "gpukit/ops/matmul/scaled_matmul_space.cuh"
#include "gpukit/ops/matmul/wgmma.cuh"

namespace gpukit {

/// Takes eight tokens apart, a chain of each, in place: `box` has 128 swizzled bytes of 64 numbers of each, then those
/// of the other 64; then the first codes of each, and the second ones.
GPUKIT_DEVICE void split_tokens(uint32_t box, uint32_t factors, int lane) {
  const int token = lane % 8, quarter = lane / 8;
  SplitChain chain;
#pragma unroll
  for (int q = 0; q < 4; ++q)
    load_shared(chain.pairs[q], box + quarter / 2 * 1024 + token * 128 + ((quarter % 2 * 4 + q) ^ token) * 16);
  chain.scale();
  __syncwarp();  // all lanes have read
  if (quarter == 0) store_word(factors + token * 4, chain.factor);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint32_t first[4], second[4];
    chain.split(h, first, second);
    const uint32_t to = box + token * 128 + ((quarter * 2 + h) ^ token) * 16;
    store_shared(to, first);
    store_shared(to + 1024, second);
  }
}

GPUKIT_DEVICE float2 load_floats(uint32_t shared) {
  uint32_t first, second;
  load_shared(first, second, shared);
  return {__uint_as_float(first), __uint_as_float(second)};
}
GPUKIT_DEVICE void store_floats(uint32_t shared, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared), "f"(first), "f"(second) : "memory");
}

/// Grid: a cluster for each tile, or where that is one block, at most. Block: the form's threads. Shared bytes:
/// p.shared_bytes(). `w` maps the codes in boxes of 128 by p.rows. `x` maps the tokens as (64, tokens, k / 64) in boxes
/// of 64 by 8 by 2; or, not kWhole, what split_rows made of them in boxes of 128 by 16 p.groups, and token_factors are
/// its factors. All are swizzled. `s`: 16-bit results; scales that do not change along k.
template <int kColumns, int kHalves, int kSets, int kWays, int kBlocks, bool kWhole>
__global__ void GPUKIT_CLUSTER(kBlocks)
    __launch_bounds__(PartsForm90{kColumns, kHalves, kSets, kWays, kBlocks, kWhole}.threads(), 1)
        gemm90_parts(const __grid_constant__ TileMap w, const __grid_constant__ TileMap x, void* out,
                     const uint8_t* weights, const float* token_factors, const void* scale, const void* bias,
                     const __grid_constant__ ScaledSpace s, const __grid_constant__ Parts90 p) {
  constexpr PartsForm90 kForm = {kColumns, kHalves, kSets, kWays, kBlocks, kWhole};
  constexpr int kMultipliers = kForm.warpgroups() * 4, kSplitters = kForm.splitters();  // warps
  constexpr int kSegments = kForm.segments(), kKept = kForm.kept();
  constexpr int kLoader = kMultipliers + kSplitters, kThreads = kForm.threads(),
                kPitch = Parts90::pitch(kForm.weights());
  // Of the registers that a block starts with, the warps that multiply take what the others leave.
  constexpr int kAtStart = 65536 / kThreads / 8 * 8, kHelperRegisters = kThreads > 512 ? 48 : 56;
  constexpr int kLeft = (kThreads * kAtStart - (kSplitters + 1) * 32 * kHelperRegisters) / (kMultipliers * 32) / 8 * 8;
  constexpr int kRegisters = kLeft < 240 ? kLeft : 240;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // the same for all, as the compiler sees
  const int rank = static_cast<int>(blockIdx.x) % kBlocks, cluster = static_cast<int>(blockIdx.x) / kBlocks;
  const int clusters = static_cast<int>(gridDim.x) / kBlocks, n = static_cast<int>(s.n);
  // Tiles of the same weights are neighbours.
  const auto row_of = [&](int tile) { return tile / p.token_tiles * p.rows; };
  const auto token_of = [&](int tile) { return p.first + tile % p.token_tiles * kForm.tokens(); };
  const auto begin_of = [&](int way) { return p.first_chain((rank * kWays + way) * kSegments); };

  let_next_start();
  if constexpr (kBlocks > 1) arrive_cluster();
  // A map takes the copy engine as long to fetch as the first weights take: these are asked for meanwhile.
  if (thread < p.rows && row_of(cluster) + thread < n) {
#pragma unroll
    for (int way = 0; way < kWays; ++way)
      prefetch_bytes(weights + (row_of(cluster) + thread) * s.b.row + begin_of(way) * Parts90::kChain, p.ahead);
  }

  const int stage_bytes = p.stage_bytes(), weight_bytes = p.weight_bytes();
  extern __shared__ uint8_t shared[];
  const uint32_t landed = shared_address(shared), raw = landed + Parts90::kMaxStages * 8;
  const uint32_t ready = raw + Parts90::kMaxStages * 8, empty = ready + Parts90::kMaxStages * 8;
  const uint32_t factors = empty + Parts90::kMaxStages * 8;
  const uint32_t base = (factors + Parts90::kMaxStages * Parts90::kMaxTokens * 4 + 1023) & ~1023u;
  const uint32_t sums = base + kWays * p.stages * stage_bytes;
  const int sums_bytes = p.sums_bytes(kForm);
  const auto factors_of = [&](int stage, int group) {
    return factors + (stage * Parts90::kMaxTokens + group * Parts90::kGroup) * 4;
  };
  if (warp == kLoader) {
    if (lane < kWays * p.stages) {
      barrier_init(landed + lane * 8, 1);
      barrier_init(raw + lane * 8, 1);
      barrier_init(ready + lane * 8, p.groups * 32);
      barrier_init(empty + lane * 8, kHalves * kSets * 128);
    }
    barrier_publish();
    if (lane == 0) tile_prefetch(&w), tile_prefetch(&x);
    __syncwarp();
    named_arrive(1, kThreads);  // and does not wait
  } else {
    named_barrier(1, kThreads);
  }
  wait_for_previous();
  if constexpr (kBlocks > 1) wait_cluster();  // all blocks have started

  if (warp >= kMultipliers) {
    give_registers<kHelperRegisters>();
    // The chains of all ways in turn, and the stage of each.
    const auto for_stages = [&](int phase, const auto& what) {
      int stages[kWays], phases[kWays];
#pragma unroll
      for (int way = 0; way < kWays; ++way) stages[way] = way * p.stages, phases[way] = phase;
      const int longest = begin_of(kWays) - begin_of(kWays - 1) + 1;
      for (int tile = cluster; tile < p.tiles; tile += clusters) {
        int row = row_of(tile), token = token_of(tile);
        asm volatile("" : "+r"(row), "+r"(token));  // divided once, and not at each stage
#pragma unroll 1
        for (int i = 0; i < longest; ++i)
#pragma unroll
          for (int way = 0; way < kWays; ++way) {
            const int chain = begin_of(way) + i;
            if (chain >= begin_of(way + 1)) continue;
            what(row, token, chain, stages[way], phases[way]);
            if (++stages[way] == (way + 1) * p.stages) stages[way] = way * p.stages, phases[way] ^= 1;
          }
      }
    };
    if (warp == kLoader) {
      if (lane != 0) return;
      const uint64_t once = cache_policy_once();
      for_stages(1, [&](int row, int token, int chain, int stage, int phase) {
        barrier_wait(empty + stage * 8, phase);
        const uint32_t to = base + stage * stage_bytes;
        const int of_tokens = kWhole ? 0 : p.groups * (2048 + Parts90::kGroup * 4);
        barrier_expect(landed + stage * 8, p.rows * 128 + of_tokens);
        tile_load(to, &w, landed + stage * 8, chain * Parts90::kChain, row, 0, once);
        if constexpr (kWhole) {
          barrier_expect(raw + stage * 8, p.groups * 2048);
#pragma unroll 1
          for (int g = 0; g < p.groups; ++g)
            tile_load(to + weight_bytes + g * 2048, &x, raw + stage * 8, 0, token + g * 8, chain * 2);
        } else {
          tile_load(to + weight_bytes, &x, landed + stage * 8, chain * Parts90::kChain, (token - p.first) * 2, 0);
          copy_bytes(factors_of(stage, 0), token_factors + int64_t{chain} * p.padded + (token - p.first),
                     p.groups * Parts90::kGroup * 4, landed + stage * 8);
        }
      });
    } else if constexpr (kWhole) {
      // A place in the ring has its own warps: a barrier tells a phase from the one before it alone.
      for_stages(0, [&](int, int, int, int stage, int phase) {
        for (int g = (warp - kMultipliers + stage * (8 * kSplitters - p.groups)) % kSplitters; g < p.groups;
             g += kSplitters) {
          barrier_wait(raw + stage * 8, phase);
          split_tokens(base + stage * stage_bytes + weight_bytes + g * 2048, factors_of(stage, g), lane);
          shared_publish();
          barrier_arrive(ready + stage * 8);  // each lane, of what it wrote
        }
      });
    }
    return;
  }
  take_registers<kRegisters>();

  const int part = warp / 4, side = part % kHalves, set = part / kHalves % kSets, way = part / (kHalves * kSets);
  const int group = set * 4 + warp % 4, g = lane / 4, t = lane % 4, unit = rank * kWays + way;
  const int begin = begin_of(way), end = begin_of(way + 1), ring = way * p.stages;
  const bool works = group < p.groups;
  int stage = ring, phase = 0;
  float products[kForm.buffers()][kColumns / 2], totals[kColumns / 4];
  // The sum of a segment goes to where its tokens are ended.
  uint32_t mine = sums + ((group / kBlocks * 8 + g) * kPitch + side * kColumns + t * 2) * 4;
  if constexpr (kBlocks > 1) mine = in_block(mine, group % kBlocks);
  const auto keep = [&](int segment) {
    const int place = kBlocks > 1 ? segment : max(segment - (kSegments - 1), 0);
    const bool adds = kBlocks == 1 && segment > 0 && segment < kSegments;
#pragma unroll
    for (int j = 0; j < kColumns / 4; j += 2) {
      const uint32_t at = mine + place * sums_bytes + j * 16;
      if constexpr (kBlocks > 1) {
        store_in_block(at, totals[j], totals[j + 1]);
      } else {
        const float2 before = adds ? load_floats(at) : float2{};
        store_floats(at, adds ? before.x + totals[j] : totals[j], adds ? before.y + totals[j + 1] : totals[j + 1]);
      }
    }
  };

  for (int tile = cluster; tile < p.tiles; tile += clusters) {
    const int token_0 = token_of(tile), row_0 = row_of(tile), here = min(p.last - token_0, kForm.tokens());
    // A lane ends pairs of weights, 64 from each other.
    constexpr int kPairs = (kForm.weights() + 63) / 64;
    const int column = lane * 2, live = min(p.rows, n - row_0) - column;
    float by[kPairs][2], more[kPairs][2];
#pragma unroll
    for (int j = 0; j < kPairs * 2; ++j) {
      const int row = min(row_0 + j / 2 * 64 + column + j % 2, n - 1);
      by[j / 2][j % 2] = row_scale(s.b, scale, nullptr, 0, row);
      more[j / 2][j % 2] = bias != nullptr ? load_bias(bias, s.bias, row * s.bias_n) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kColumns / 4; ++j) totals[j] = 0.0f;

    const auto multiply = [&](float(&to)[kColumns / 2]) {
      barrier_wait(landed + stage * 8, phase);
      if constexpr (kWhole) barrier_wait(ready + stage * 8, phase);
      const uint32_t at = base + stage * stage_bytes;
      const uint64_t codes = tile_descriptor(at + side * (kColumns * 128), 16, 1024);
      const uint64_t parts = tile_descriptor(at + weight_bytes + set * (64 * 128), 16, 1024);
      wgmma_fence();
#pragma unroll
      for (int q = 0; q < 4; ++q) Wgmma<float8_e4m3, kColumns>::template run<0, 0>(to, parts + q * 2, codes + q * 2, q);
      wgmma_commit();
      if (++stage == ring + p.stages) stage = ring, phase ^= 1;
    };
    int done = stage, segment = unit * kSegments, next = p.first_chain(segment + 1);
    const auto add = [&](int chain, float(&from)[kColumns / 2]) {
      keep_sums(from);
      const float factor = works ? __uint_as_float(load_word(factors_of(done, group) + g * 4)) : 0.0f;
      barrier_arrive(empty + done * 8);  // each lane, of what it read
      if (++done == ring + p.stages) done = ring;
      if (!works) return;
#pragma unroll
      for (int j = 0; j < kColumns / 4; ++j) {
        const int at = j / 2 * 4 + j % 2;
        totals[j] = __fmaf_rn(factor, __fmaf_rn(from[at + 2], 0.0625f, from[at]), totals[j]);
      }
      if constexpr (kSegments > 1) {
        if (chain + 1 != next || next == end) return;
        keep(segment);
#pragma unroll
        for (int j = 0; j < kColumns / 4; ++j) totals[j] = 0.0f;
        next = p.first_chain(++segment + 1);
      }
    };
    int chain = begin;
    if constexpr (kForm.buffers() == 1) {
#pragma unroll 1
      for (; chain < end; ++chain) {
        multiply(products[0]);
        wgmma_wait<0>();
        add(chain, products[0]);
      }
    } else {  // while a chain is multiplied, the one before it is added
      multiply(products[0]);
#pragma unroll 1
      for (; chain + 2 < end; chain += 2) {
        multiply(products[1]);
        wgmma_wait<1>();
        add(chain, products[0]);
        multiply(products[0]);
        wgmma_wait<1>();
        add(chain + 1, products[1]);
      }
      if (chain + 1 < end) {
        multiply(products[1]);
        wgmma_wait<1>();
        add(chain, products[0]);
        wgmma_wait<0>();
        add(chain + 1, products[1]);
      } else {
        wgmma_wait<0>();
        add(chain, products[0]);
      }
    }

    if (works) keep(segment);
    if constexpr (kBlocks > 1)
      sync_cluster<kBlocks>();
    else
      named_barrier(2, kMultipliers * 32);
    const bool in_pairs = s.out_n == 1 && s.out_m % 2 == 0 && n % 2 == 0 && reinterpret_cast<uint64_t>(out) % 4 == 0;
#pragma unroll 1
    for (int i = warp;; i += kMultipliers) {
      const int token = (i / 8 * kBlocks + rank) * 8 + i % 8;
      if (token >= here) break;
      uint16_t* const to = static_cast<uint16_t*>(out) + (token_0 + token) * s.out_m + (row_0 + column) * s.out_n;
      const uint32_t at = sums + (i * kPitch + column) * 4;
      float2 kept[kPairs][kKept];
#pragma unroll
      for (int j = 0; j < kPairs; ++j)
#pragma unroll
        for (int q = 0; q < kKept; ++q)
          kept[j][q] = j * 64 < live ? load_floats(at + q * sums_bytes + j * 256) : float2{};
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        float2 sum = kept[j][0];
#pragma unroll
        for (int q = 1; q < kKept; ++q) sum = {sum.x + kept[j][q].x, sum.y + kept[j][q].y};
        sum = {sum.x * (by[j][0] * s.alpha), sum.y * (by[j][1] * s.alpha)};
        if (bias != nullptr) sum = {sum.x + more[j][0], sum.y + more[j][1]};
        const uint32_t pair =
            s.out == Code::bfloat16 ? PairMath<bfloat16>::pack(sum.x, sum.y) : PairMath<half>::pack(sum.x, sum.y);
        if (in_pairs) {
          if (j * 64 < live) *reinterpret_cast<uint32_t*>(to + j * 64) = pair;
        } else {
          if (j * 64 < live) to[j * 64 * s.out_n] = static_cast<uint16_t>(pair);
          if (j * 64 + 1 < live) to[(j * 64 + 1) * s.out_n] = static_cast<uint16_t>(pair >> 16);
        }
      }
    }
    if constexpr (kBlocks == 1) named_barrier(2, kMultipliers * 32);  // a cluster has one tile
  }
}

}  // namespace gpukit
