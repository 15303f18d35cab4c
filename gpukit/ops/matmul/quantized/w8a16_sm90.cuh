// w8a16_sm90: tokens by weights of 8 bits whose scales do not change along k (sm_90a), few tokens nearly at the
// speed of memory, ended as scaled_matmul does. The order of sums is that of sum_order.cuh.
//
// The frame is that of gemm90_swap_ab: the weights are the rows of a tile, as many as make the work of all
// multiprocessors the same, and up to 128 tokens its columns. But the threads that multiply take the quantised values
// of the weights from shared memory, and give them to the tensor cores as numbers in registers. The tokens stay as they
// come.
//
// A product has 64 rows. Where a tile has so few weights that most of these would be empty, they are the same weights
// at two places of k: two chains, side by side. The columns are then the tokens at both places, and half of the sums,
// those of weights and tokens at different places, are nobody's.
//
// One warp to a scheduler waits for its own products, and few weights are one warpgroup. So warpgroups may stand behind
// each other along k as well: stages go to these ways in turn, and the first way adds up what the others hand to it.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/hopper/tma.cuh"
#include "gpukit/ops/hopper/wgmma.cuh"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"
#include "gpukit/ops/matmul/quantized/sum_order.cuh"
#include "gpukit/ops/matmul/quantized/w8a16_sm90_shape.cuh"

namespace gpukit {

template <Code kCode>
struct CodeOf {
  static constexpr Code value = kCode;
};

/// Grid: at most a block for each tile. Block: tiling.threads(). Shared bytes: tiling.shared_bytes(). `w` maps the
/// bytes of the weights in boxes of 128 by tiling.rows, `x` the tokens in boxes of 64 by tiling.tokens, both swizzled.
/// `s` has no scales that change along k; else as in dequant_gemm_sm80. kTaken: steps of k whose numbers a thread makes
/// at once. kWarpgroups: as many as registers then allow. kLandings: 2 where the slices of a stage land apart, so that
/// the first is multiplied while the next is on its way.
template <typename W, typename X, int Columns, int kChains, int kTaken, int kWarpgroups, int kLandings>
__global__ void __launch_bounds__((kWarpgroups + 1) * 128, 1)
    w8a16_sm90(const __grid_constant__ TileMap w, const __grid_constant__ TileMap x, void* out, const void* x_scale,
               const void* scale, const void* bias, const float* out_scale, const __grid_constant__ ScaledProblem s,
               const __grid_constant__ W8A16Tiling tiling) {
  constexpr int kSlice = W8A16Tiling::kSlice, kSlices = kBytesChain / kSlice;
  constexpr int kBoxBytes = Columns * 128, kProduct = kChains * Columns;  // of tokens; columns of a product
  constexpr int kChainSteps = kBytesChain / 16, kSliceSteps = kSlice / 16, kBoxSteps = 4;
  // Of the registers that a block starts with, the warps that load leave most to those that multiply.
  constexpr int kAtStart = 65536 / ((kWarpgroups + 1) * 128) / 8 * 8, kLoaderRegisters = 24;
  constexpr int kRegisters = ((kWarpgroups + 1) * kAtStart - kLoaderRegisters) / kWarpgroups / 8 * 8;
  static_assert(kChainSteps / kTaken % 2 == 0 && (kLandings == 1 || kLandings == kSlices));
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // the same for all, as the compiler sees
  const int way_warps = tiling.warpgroups * 4, loader = warp - tiling.ways * way_warps;
  const int n = static_cast<int>(s.n), tokens = static_cast<int>(s.m);
  // Tiles of the same weights are neighbours.
  const auto row_of = [&](int tile) { return tile / tiling.token_tiles * tiling.rows; };
  const auto token_of = [&](int tile) { return tile % tiling.token_tiles * Columns; };

  let_next_start();
  const int weight_bytes = tiling.weight_bytes(), tokens_at = kChains * weight_bytes;  // of a slice
  const int slice_bytes = tiling.slice_bytes(Columns, kChains), stage_bytes = kSlices * slice_bytes;
  extern __shared__ uint8_t shared[];
  const uint32_t full = shared_address(shared), empty = full + W8A16Tiling::kMaxStages * kSlices * 8;
  const uint32_t given = empty + W8A16Tiling::kMaxStages * 8, taken = given + W8A16Tiling::kMaxHands * 8;
  const uint32_t base = (taken + W8A16Tiling::kMaxHands * 8 + 1023) & ~1023u;
  const uint32_t handed = base + tiling.ways * tiling.stages * stage_bytes;
  if (loader == 0) {
    if (lane == 0) {  // before the kernel before this one has ended, weights are asked for
      tile_prefetch(&w), tile_prefetch(&x);
      for (int k = 0; k < tiling.ahead; k += kSlice) tile_ask(&w, k, row_of(static_cast<int>(blockIdx.x)), 0);
    }
    if (lane < tiling.ways * tiling.stages) {
#pragma unroll
      for (int h = 0; h < kLandings; ++h) barrier_init(full + (lane * kLandings + h) * 8, 1);
      barrier_init(empty + lane * 8, way_warps);
    }
    if (lane < tiling.hands()) {
      barrier_init(given + lane * 8, tiling.warpgroups * 128);
      barrier_init(taken + lane * 8, tiling.warpgroups * 128);
    }
    barrier_publish();
    __syncwarp();
    named_arrive(1, threads);  // and does not wait
  } else {
    named_barrier(1, threads);
  }
  wait_for_previous();

  // Each way has its own stages and its own loader, so that the phases of a barrier are all of one way.
  const int way = loader < 0 ? warp / way_warps : loader, ring = way * tiling.stages;
  int stage = ring, phase = 0;
  const auto advance = [&] {
    if (++stage < ring + tiling.stages) return;
    stage = ring;
    phase ^= 1;
  };

  if (loader >= 0) {
    give_registers<kLoaderRegisters>();
    if (lane != 0 || loader >= tiling.ways) return;
    const uint64_t once = cache_policy_once();
    phase = 1;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiling.tiles; tile += static_cast<int>(gridDim.x)) {
      const int row = row_of(tile), token = token_of(tile);
      for (int i = way; i < tiling.fills; i += tiling.ways, advance()) {
        barrier_wait(empty + stage * 8, phase);
        const uint32_t to = base + stage * stage_bytes;
#pragma unroll 1  // in the registers that are left
        for (int h = 0; h < kSlices; ++h) {
          const uint32_t ready = full + (stage * kLandings + h % kLandings) * 8, slice = to + h * slice_bytes;
          if (h < kLandings)
            barrier_expect(ready, kSlices / kLandings * kChains * (tiling.rows + 2 * tiling.tokens) * 128);
#pragma unroll
          for (int c = 0; c < kChains; ++c) {
            const int k = (i * kChains + c) * kBytesChain + h * kSlice;
            const uint32_t box = slice + tokens_at + c * kBoxBytes;
            tile_load(slice + c * weight_bytes, &w, ready, k, row, 0, once);
            tile_load(box, &x, ready, k, token, 0);
            tile_load(box + kChains * kBoxBytes, &x, ready, k + 64, token, 0);
          }
        }
      }
    }
    return;
  }
  take_registers<kRegisters>();

  // A half of a warp's 16 rows is one of two groups of eight weights side by side, or one of two chains of the same. A
  // warp that is left over does as one that is not.
  constexpr int kGroups = kChains == 1 ? 2 : 1;           // of a warp
  const int member = warp / 4 - way * tiling.warpgroups;  // of the way
  const int group = (member * 4 + warp % 4) * kGroups, groups = (tiling.rows + 7) / 8, g = lane / 4, t = lane % 4;
  const int next_half = kChains == 1 ? 1024 : weight_bytes;
  // Where the quantised values of a step lie, by its place in a slice.
  uint32_t places[kSliceSteps];
#pragma unroll
  for (int q = 0; q < kSliceSteps; ++q) {
    places[q] = min(group, groups - 1) * 1024 + g * 128 + (g ^ q) * 16 + t * 2;
    asm volatile("" : "+r"(places[q]));  // is kept, and not made anew at each step
  }

  // Some steps: the quantised values of both halves, two pairs a step that lie 8 of k apart, and these as numbers.
  uint32_t values[2][kTaken][2], numbers[2][kTaken][4];
  const auto fetch = [&](uint32_t slices, int first) {
    const uint32_t slice = slices + first / kSliceSteps * slice_bytes;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int q = 0; q < kTaken; ++q) {
        const uint32_t at = places[(first + q) % kSliceSteps] + (slice + h * next_half);
        values[h][q][0] = load_short(at);
        values[h][q][1] = load_short(at + 8);
      }
  };
  const auto decode = [&](uint32_t(&to)[kTaken][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int q = 0; q < kTaken; ++q)
#pragma unroll
        for (int j = 0; j < 2; ++j) to[q][h + 2 * j] = Weights<W, X>::pair(values[h][q][j]);
  };
  float products[kProduct / 2];
  const auto multiply = [&](const uint32_t(&with)[kTaken][4], uint32_t slices, int first) {
    const uint64_t tokens = tile_descriptor(slices + tokens_at, 16, 1024) + first / kSliceSteps * (slice_bytes / 16);
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < kTaken; ++q) {
      const int step = (first + q) % kSliceSteps, at = step / kBoxSteps * (kChains * kBoxBytes) + step % kBoxSteps * 32;
      WgmmaTaken<X, kProduct>::run(products, with[q], tokens + at / 16, first + q);
    }
    wgmma_commit();
  };

  // The sums of a thread that count: by chain, group and column, in this order.
  constexpr int kSums = Columns / 2, kTotals = kSums / kChains;
  float totals[kTotals];
  const auto sum = [&](int j) {
    const int h = j / (Columns / 4), c = j % (Columns / 4);
    return products[(kChains == 2 ? h * (Columns / 2) : 0) + c / 2 * 4 + h * 2 + c % 2];
  };
  const auto add_chains = [&] {
#pragma unroll
    for (int j = 0; j < kSums; ++j) totals[j % kTotals] += sum(j);
  };
  // What the ways after the first hand to it, each in two places in turn, so that it need not wait for that.
  const auto place = [&](int hand, int j) {
    return handed + (((hand * tiling.warpgroups + member) * kSums + j) / 4 * 128 + thread % 128) * 16;
  };
  const auto give_chains = [&](int turn) {
    const int hand = (way - 1) * 2 + turn % 2;
    barrier_wait(taken + hand * 8, turn / 2 % 2 ^ 1);
#pragma unroll
    for (int j = 0; j < kSums; j += 4)
      store_shared(place(hand, j), {__float_as_uint(sum(j)), __float_as_uint(sum(j + 1)), __float_as_uint(sum(j + 2)),
                                    __float_as_uint(sum(j + 3))});
    barrier_arrive(given + hand * 8);
  };
  const auto take_chains = [&](int from, int turn) {
    const int hand = (from - 1) * 2 + turn % 2;
    barrier_wait(given + hand * 8, turn / 2 % 2);
#pragma unroll
    for (int j = 0; j < kSums; j += 4) {
      uint32_t sums[4];
      load_shared(sums, place(hand, j));
#pragma unroll
      for (int q = 0; q < 4; ++q) totals[(j + q) % kTotals] += __uint_as_float(sums[q]);
    }
    barrier_arrive(taken + hand * 8);
  };

  // Of a tile the first `last` ways have one stage more than the others.
  const int last = (tiling.fills - 1) % tiling.ways + 1;
  int turn = 0, before = 0;  // stages of this way, tiles
  for (int tile = static_cast<int>(blockIdx.x); tile < tiling.tiles; tile += static_cast<int>(gridDim.x), ++before) {
    int row[kGroups];
    float of_row[kGroups];
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
      row[h] = (group + h) * 8 + g < tiling.rows ? row_of(tile) + (group + h) * 8 + g : n;
      of_row[h] = row[h] < n ? row_scale(s.b, scale, nullptr, 0, row[h]) : 0.0f;
    }

#pragma unroll
    for (int j = 0; j < kTotals; ++j) totals[j] = 0.0f;
    const auto wait_for = [&](int landing) { barrier_wait(full + (stage * kLandings + landing) * 8, phase); };
    const auto enter_stage = [&] {
      wait_for(0);
      return base + stage * stage_bytes;
    };
    const auto take_round = [&](int ways) {  // the one before `turn`
#pragma unroll 1
      for (int from = 1; from < ways; ++from) take_chains(from, turn - 1 - (from < last ? 0 : before));
    };
    uint32_t slices = enter_stage();
    fetch(slices, 0);
    decode(numbers[0]);
    // While some steps are multiplied, the next ones are decoded. What the other ways have of a round is added up a
    // round later.
#pragma unroll 1
    for (int i = way; i < tiling.fills; i += tiling.ways, ++turn) {
#pragma unroll
      for (int step = 0; step < kChainSteps; step += kTaken) {
        const int next = step + kTaken, left = stage;
        const bool lands = kLandings > 1 && next < kChainSteps && next % kSliceSteps == 0;
        if (next < kChainSteps && !lands) fetch(slices, next);
        multiply(numbers[step / kTaken % 2], slices, step);
        if (step > 0) wgmma_wait<1>();
        if (lands) {
          wait_for(next / kSliceSteps);
          fetch(slices, next);
        }
        if (next == kChainSteps) {
          if (i + tiling.ways < tiling.fills) advance();  // else this stage is decoded again, and that dropped
          slices = enter_stage();
          fetch(slices, 0);
        }
        decode(numbers[next / kTaken % 2]);
        if (next == kChainSteps) {
          wgmma_wait<0>();
          keep_sums(products);
          __syncwarp();  // all lanes have taken their quantised values
          if (lane == 0) barrier_arrive(empty + left * 8);
        }
      }
      if (way != 0) {
        give_chains(turn);
      } else {
        if (i > 0) take_round(tiling.ways);
        add_chains();
      }
    }
    advance();
    if (way != 0) continue;
    float bias_of_row[kGroups] = {};
#pragma unroll
    for (int h = 0; h < kGroups; ++h)
      if (row[h] < n && bias != nullptr) bias_of_row[h] = load_bias(bias, s.bias, row[h] * s.bias_n);
    take_round(last);

    const float by = out_scale != nullptr ? *out_scale : 1.0f;
    const auto for_all = [&](const auto& what) {
#pragma unroll
      for (int h = 0; h < kGroups; ++h)
#pragma unroll
        for (int c = 0; c < Columns / 4; ++c)
          what(totals[h * (Columns / 4) + c], h, token_of(tile) + c / 2 * 8 + t * 2 + c % 2);
    };
    for_all([&](float& sum, int h, int token) {
      sum *= row_scale(s.a, x_scale, nullptr, 0, min(token, tokens - 1)) * of_row[h] * s.alpha;
    });
    if (bias != nullptr) for_all([&](float& sum, int h, int) { sum += bias_of_row[h]; });
    if (out_scale != nullptr) for_all([&](float& sum, int, int) { sum /= by; });
    const auto store_all = [&](auto code) {
      for_all([&](float sum, int h, int token) {
        if (token < tokens && row[h] < n) store_number(out, code.value, token * s.out_m + row[h] * s.out_n, sum);
      });
    };
    switch (s.out) {
      case Code::float16: store_all(CodeOf<Code::float16>{}); break;
      case Code::bfloat16: store_all(CodeOf<Code::bfloat16>{}); break;
      case Code::float8_e4m3: store_all(CodeOf<Code::float8_e4m3>{}); break;
      case Code::float8_e5m2: store_all(CodeOf<Code::float8_e5m2>{}); break;
      default: store_all(CodeOf<Code::float32>{});
    }
  }
}

}  // namespace gpukit
