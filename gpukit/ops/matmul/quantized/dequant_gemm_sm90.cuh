// dequant_gemm_sm90: tokens of 16 bits by weights of 8 or 4 bits (sm_90a), ended as scaled_matmul does. The order of
// sums is that of dequant_gemm_sm80.
//
// The sides are swapped: weights are the rows of wgmma and come from registers, tokens are its columns and stay in
// shared memory as the copy engine brings them. A warpgroup takes the quantised values of its 64 weights out of a
// stage, two neighbours of k at a time, and makes 16-bit floats of them while those before are multiplied. Quantised
// values and tokens have rings of their own: a stage is 128 bytes of every row, which are 128 or 256 of k for quantised
// values and 64 for tokens.
//
// A block a multiprocessor walks over tiles. Where tiles are few, the blocks of a cluster, or the two warpgroups of a
// block, share the chains of k of a tile; the sums of chains wait in shared memory and are added in ascending order.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/cluster.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/hopper/stmatrix.cuh"
#include "gpukit/ops/hopper/tma.cuh"
#include "gpukit/ops/hopper/wgmma.cuh"
#include "gpukit/ops/matmul/dense/gemm_sm90_epilogue.cuh"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90_shape.cuh"
#include "gpukit/ops/matmul/quantized/group_scales.cuh"
#include "gpukit/ops/matmul/quantized/sum_order.cuh"

namespace gpukit {

GPUKIT_DEVICE uint32_t load_byte(uint32_t shared) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(shared) : "memory");
  return v;
}
/// Four floats that block `block` of the cluster has at `shared` in this one's.
GPUKIT_DEVICE void load_from_block(float (&to)[4], uint32_t shared, int block) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(in_block(shared, block))
               : "memory");
}
GPUKIT_DEVICE void prefetch_line(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/// A place in a ring; the phase turns when the ring starts over.
struct DequantRing {
  int stages, phase, stage = 0;
  GPUKIT_DEVICE void next() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

/// Grid: kBlocks times at most one for each tile, in clusters. Block: share.threads(). Shared
/// bytes: share.shared_bytes(). `w` maps the bytes of the weights in boxes of 128 by share.rows, `x` the tokens in
/// boxes of 64 by share.tokens, `out_map` the result in boxes of 128 bytes by its transposed columns, all swizzled. `s`
/// as in dequant_gemm_sm80; kGroup is 0 where scales do not change along k: then a cluster is one block. A block of a
/// cluster has one way.
template <typename W, typename X, int N, int kGroup, bool kZero, int kBlocks>
__global__ void GPUKIT_CLUSTER(kBlocks) __launch_bounds__((DequantGemm::kMaxWarpgroups + 1) * 128, 1)
    dequant_gemm_sm90(const __grid_constant__ TileMap w, const __grid_constant__ TileMap x,
                      const __grid_constant__ TileMap out_map, void* out, const void* scale, const int8_t* zero,
                      const float* tensor_scale, const void* bias, const float* out_scale,
                      const __grid_constant__ ScaledProblem s, const __grid_constant__ DequantGemm share) {
  constexpr bool kPacked = is_int4<W> || is_e2m1<W>, kPromote = kGroup != 0 && !is_e2m1<W>, kChained = kGroup != 0;
  constexpr int kLoop = DequantGemm::loop_k(kGroup), kWeightK = DequantGemm::weight_k(kPacked);
  constexpr int kChainLoops = DequantGemm::kChain / kLoop;
  constexpr int kSteps = kLoop / 16, kGroupSteps = kPromote ? kGroup / 16 : kSteps;  // whose sums start from zero
  constexpr int kStageSteps = kWeightK / 16;
  // Steps whose numbers have a place in registers, those that may be under way at once, and how far ahead of the
  // product a step is decoded. A product is known to be done some 100 cycles after it is: one of few columns is short,
  // and more have to be under way.
  constexpr int kSlots = N <= 64 ? 8 : 4, kAhead = N <= 64 ? 2 : 1, kFlight = kSlots - kAhead;
  constexpr int kTokenBytes = DequantGemm::token_bytes(N), kProducer = 40, kConsumer = 232;
  // Named barriers; 1 and 2 are the warpgroups' own.
  constexpr int kSecondMayStart = 3, kSecondHasStarted = 4, kSumsThere = 5, kSumsRead = 6;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // the same for all, as the compiler sees
  const int consumers = share.warpgroups * 4;
  const int rank = static_cast<int>(blockIdx.x) % kBlocks, first_tile = static_cast<int>(blockIdx.x) / kBlocks;
  const int tile_step = static_cast<int>(gridDim.x) / kBlocks;
  // A block has several ways, or a cluster several blocks: the takers of chains.
  constexpr bool kMayHaveWays = kChained && kBlocks == 1 && N <= DequantGemm::kMostColumnsOfWays;
  const int ways = kMayHaveWays ? share.ways : 1, takers = kBlocks * ways;
  const bool in_ways = ways > 1;
  const int way = !in_ways ? 0 : warp < consumers ? warp / 4 : (warp - consumers) / 2;
  const int taker = in_ways ? way : rank;
  const int n = static_cast<int>(s.n), tokens = static_cast<int>(s.m), k_size = static_cast<int>(s.k);
  const int loops = (k_size + kLoop - 1) / kLoop;
  // Tiles of the same weights are neighbours.
  const auto row_of = [&](int tile) { return tile / share.token_tiles * share.rows; };
  const auto token_of = [&](int tile) { return tile % share.token_tiles * N; };
  const int first_loop = kChained ? taker * kChainLoops : 0;
  const auto next_loop = [&](int loop) {
    return loop + 1 + (kChained && (loop + 1) % kChainLoops == 0 ? (takers - 1) * kChainLoops : 0);
  };

  let_next_start();
  extern __shared__ uint8_t dequant_shared[];
  const uint32_t barriers = shared_address(dequant_shared), ring_bytes = share.ring_bytes(N);
  const uint32_t weights_full = barriers + way * DequantGemm::kBarrierBytes;
  const uint32_t weights_empty = weights_full + DequantGemm::kMaxStages * 8;
  const uint32_t tokens_full = weights_empty + DequantGemm::kMaxStages * 8;
  const uint32_t tokens_empty = tokens_full + DequantGemm::kMaxStages * 8;
  const uint32_t rings = (barriers + ways * DequantGemm::kBarrierBytes + 1023) & ~1023u;
  const uint32_t weights_base = rings + way * ring_bytes;
  const uint32_t tokens_base = weights_base + share.weight_stages * share.weight_bytes();
  const uint32_t kept_base = rings + ways * ring_bytes;
  if (warp == consumers) {
    if (lane == 0) {
      tile_prefetch(&w), tile_prefetch(&x);
      if (share.tma_store != 0) tile_prefetch(&out_map);
      for (int k = 0; k < share.ahead; k += 128)
        tile_ask(&w, first_loop * (kLoop * 128 / kWeightK) + k, row_of(first_tile), 0);
    }
#pragma unroll 1
    for (int of_way = 0; of_way < ways * DequantGemm::kBarrierBytes; of_way += DequantGemm::kBarrierBytes) {
      const int at = of_way + lane * 8, readers = consumers / ways;
      if (lane < share.weight_stages) barrier_init(weights_full + at, 1), barrier_init(weights_empty + at, readers);
      if (lane < share.token_stages) barrier_init(tokens_full + at, 1), barrier_init(tokens_empty + at, readers);
    }
    barrier_publish();
  }
  __syncthreads();
  wait_for_previous();

  if (warp >= consumers) {
    give_registers<kProducer>();
    const int loader = warp - consumers - way * 2;
    if (loader == 0) {
      DequantRing ring{share.weight_stages, 1};
      const uint64_t once = cache_policy_once();
      for (int tile = first_tile; tile < share.tiles; tile += tile_step) {
        const int row = row_of(tile);
        if (kChained && way == 0) {  // scales come a lane and a row at a time: they had better be in the L2
          constexpr int kLineK = is_e2m1<W> ? 128 * kGroup : 32 * kGroup;
          const int64_t line = is_e2m1<W> ? 1 : 4;
          constexpr int kShift = kPacked ? 0 : 7;
#pragma unroll 1
          for (int i = lane; i < share.rows >> kShift || i == 0; i += 32)
#pragma unroll 1
            for (int k = first_loop * kLoop; k < k_size; k += kLineK)
              prefetch_line(static_cast<const uint8_t*>(scale) +
                            ((min(row + (i << kShift), n - 1) >> kShift) * s.b.scale.row + k / kGroup) * line);
        }
        if (lane == 0) {
          for (int loop = first_loop; loop < loops; loop = next_loop(loop)) {
#pragma unroll 1
            for (int k = 0; k < kLoop; k += kWeightK) {
              if (kWeightK > kLoop && loop % (kWeightK / kLoop) != 0) break;
              barrier_wait(weights_empty + ring.stage * 8, ring.phase);
              const uint32_t ready = weights_full + ring.stage * 8;
              barrier_expect(ready, share.rows * 128);
              const int byte = (loop * kLoop + k) / (kPacked ? 2 : 1);
              const uint32_t to = weights_base + ring.stage * share.weight_bytes();
              if (share.token_tiles == 1)
                tile_load(to, &w, ready, byte, row, 0, once);
              else
                tile_load(to, &w, ready, byte, row, 0);
              ring.next();
            }
          }
        }
        __syncwarp();
      }
    } else if (loader == 1 && lane == 0) {
      DequantRing ring{share.token_stages, 1};
      for (int tile = first_tile; tile < share.tiles; tile += tile_step) {
        const int token = token_of(tile);
        for (int loop = first_loop; loop < loops; loop = next_loop(loop)) {
#pragma unroll 1
          for (int k = 0; k < kLoop; k += 64, ring.next()) {
            barrier_wait(tokens_empty + ring.stage * 8, ring.phase);
            const uint32_t ready = tokens_full + ring.stage * 8;
            barrier_expect(ready, share.tokens * 128);
            tile_load(tokens_base + ring.stage * kTokenBytes, &x, ready, loop * kLoop + k, token, 0);
          }
        }
      }
    }
    __syncwarp();
    if (kBlocks > 1) sync_cluster<kBlocks>(), sync_cluster<kBlocks>();
    return;
  }
  take_registers<kConsumer>();

  const int warpgroup = warp / 4, g = lane / 4, t = lane % 4;
  const int member = in_ways ? 0 : warpgroup;  // of those that stand side by side
  const int warp_row = member * 64 + warp % 4 * 16;
  const uint32_t mine = (warp_row + g) * 128 + g * 16 + t * (kPacked ? 1 : 2);
  const uint32_t kept = kept_base + member * share.kept_bytes;
  DequantRing weights_ring{share.weight_stages, 0}, tokens_ring{share.token_stages, 0};
  uint32_t weights_at = 0;
  const auto enter_weights = [&] {
    barrier_wait(weights_full + weights_ring.stage * 8, weights_ring.phase);
    weights_at = weights_base + weights_ring.stage * share.weight_bytes() + mine;
  };
  const auto leave_weights = [&](int stage) {
    __syncwarp();
    if (lane == 0) barrier_arrive(weights_empty + stage * 8);
  };

  using Scales = GroupScales<W, X, kChained ? kGroup : kLoop, kZero, kLoop>;
  // Quantised values are loaded a step before they are decoded, while others are multiplied.
  uint32_t values[2][2][2], numbers[kSlots][4], with[2][4];
  const auto load = [&](int step, uint32_t at) {
    const int chunk = kPacked ? step / 2 % 8 : step % 8, offset = kPacked ? step % 2 * 8 : 0;
    const uint32_t from = (at ^ chunk << 4) + offset;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        values[step % 2][h][j] = kPacked ? load_byte(from + h * 1024 + j * 4) : load_short(from + h * 1024 + j * 8);
  };
  const auto decode = [&](const Scales& scales, int step) {
    if constexpr (kPacked) {
      if (step % 4 == 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h) scales.with(with[h], h, step / 4 % 2);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t& to = numbers[step % kSlots][h + 2 * j];
        if constexpr (kPacked)
          to = decode_byte<X>(W{}, values[step % 2][h][j], with[h][step % 4]);
        else
          to = Weights<W, X>::pair(values[step % 2][h][j]);
      }
  };

  float products[N / 2];
  [[maybe_unused]] float sums[kChained && !kPromote ? 1 : N / 2];
  const auto slot_at = [&](int slot, int j) {
    return kept + slot * DequantGemm::slot_bytes(N) + (j / 4 * 128 + thread % 128) * 16;
  };
  const auto chain_sum = [&](int j) -> float& {
    if constexpr (kChained && !kPromote)
      return products[j];
    else
      return sums[j];
  };

  for (int tile = first_tile; tile < share.tiles; tile += tile_step) {
    const int64_t row = row_of(tile) + warp_row;
    Scales now, next;
    if constexpr (kChained) next.fetch(scale, zero, s, row, first_loop * kLoop), next.settle();
    if constexpr (!kChained || kPromote) {
#pragma unroll
      for (int j = 0; j < N / 2; ++j) sums[j] = 0.0f;
    }
    if (first_loop < loops) {
      enter_weights();
#pragma unroll
      for (int step = 0; step <= kAhead; ++step) {
        load(step, weights_at);
        if (step < kAhead) decode(next, step);
      }
    }
    // The second warpgroup starts later, so that one multiplies while the other adds up. It says that it has started:
    // the first, a tile ahead, would count as both.
    if (member == 1) {
      named_barrier(kSecondMayStart, 256);
      if (tile + tile_step < share.tiles) named_arrive(kSecondHasStarted, 256);
    }
#pragma unroll 1
    for (int loop = first_loop; loop < loops;) {
      const int after = next_loop(loop);
      const bool more = after < loops;
      now = next;
      if constexpr (kChained) next.fetch(scale, zero, s, row, (more ? after : loop) * kLoop);
      // Packed quantised values: which half of the stage.
      const uint32_t here = kWeightK > kLoop ? loop % 2 * 64 : 0;
      const uint32_t there = kWeightK > kLoop && more ? after % 2 * 64 : 0;
      int stages[kSteps / 4], left = 0, released = 0;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int unit = step / 4;
        if (step % 4 == 0) {
          barrier_wait(tokens_full + tokens_ring.stage * 8, tokens_ring.phase);
          stages[unit] = tokens_ring.stage;
          tokens_ring.next();
        }
        const bool starts = step % kGroupSteps == 0, closes = (step + 1) % kGroupSteps == 0;
        const int add = !starts ? 1 : kChained && !kPromote ? loop % kChainLoops : 0;
        wgmma_fence();
        WgmmaTaken<X, N>::run(products, numbers[step % kSlots],
                              tile_descriptor(tokens_base + stages[unit] * kTokenBytes, 16, 1024) + step % 4 * 2, add);
        wgmma_commit();
        const int coming = step + kAhead + 1;
        bool leaves = false;
        if (coming < kSteps) {
          if (coming % kStageSteps == 0) {
            left = weights_ring.stage, leaves = true;
            weights_ring.next();
            enter_weights();
          }
          load(coming, weights_at ^ here);
        } else {
          if (coming == kSteps) {
            if constexpr (kChained) next.settle();
            if (more && (kWeightK <= kLoop || after % 2 == 0)) {
              left = weights_ring.stage, leaves = true;
              weights_ring.next();
              enter_weights();
            }
          }
          load(coming - kSteps, weights_at ^ there);
        }
        if (step % kGroupSteps >= kFlight) wgmma_wait<kFlight>();  // the place of what is decoded now is free
        decode(coming <= kSteps ? now : next, (coming - 1) % kSteps);
        if (leaves) leave_weights(left);
        if (closes) {
          wgmma_wait<0>();
          keep_sums(products);
        }
        // Tokens of which all steps have been multiplied.
        const int group_start = step / kGroupSteps * kGroupSteps;
        const int done = closes ? step + 1 : max(group_start, step + 1 - kFlight);
#pragma unroll
        for (int u = 0; u < kSteps / 4; ++u)
          if (u >= released && u < done / 4 && lane == 0) barrier_arrive(tokens_empty + stages[u] * 8);
        released = done / 4;
        if (closes && kPromote) {
          const int group = step / kGroupSteps;
          const float by[2] = {now.get(0, group), now.get(1, group)};
#pragma unroll
          for (int j = 0; j < N / 2; ++j) sums[j] = __fmaf_rn(by[j / 2 % 2], products[j], sums[j]);
        }
        if (step == 3 && share.rows > 64 && member == 0 && loop == first_loop) {
          if (tile != first_tile) named_barrier(kSecondHasStarted, 256);
          named_arrive(kSecondMayStart, 256);
        }
      }
      if constexpr (!kChained) {
#pragma unroll
        for (int j = 0; j < N / 2; ++j) sums[j] += products[j];
      } else if (share.slots > 0 && ((loop + 1) % kChainLoops == 0 || !more)) {
        // Adds a chain to the total, or puts it beside those that the takers add up.
        const bool alone = kBlocks == 1 && !in_ways;
        const int chain = loop / kChainLoops, slot = alone ? 0 : chain / kBlocks;
        const bool adds = alone && chain > 0;
        if (kBlocks == 1 && share.tma_store != 0 &&
            chain == 0) {  // the results of the tile before have left this place
          if (thread % 128 == 0) store_wait_read<0>();
          named_barrier(1 + warpgroup, 128);
        }
#pragma unroll
        for (int j = 0; j < N / 2; j += 4) {
          uint32_t total[4] = {};
          if (adds) load_shared(total, slot_at(slot, j));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float sum = chain_sum(j + i);
            chain_sum(j + i) = adds ? __uint_as_float(total[i]) + sum : sum;
            total[i] = __float_as_uint(chain_sum(j + i));
          }
          if (!alone || more) store_shared(slot_at(slot, j), total);
          if (kPromote && more) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[j + i] = 0.0f;
          }
        }
      }
      loop = after;
    }
    if (first_loop < loops) {
      leave_weights(weights_ring.stage);
      weights_ring.next();
    }

    float factor[2], added[2];
    int rows[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int of_tile = warp_row + g + h * 8;
      rows[h] = of_tile < share.rows ? row_of(tile) + of_tile : n;
      const int inside = min(rows[h], n - 1);
      factor[h] = row_scale(s.b, scale, tensor_scale, 0, inside) * s.alpha;
      added[h] = bias != nullptr ? load_bias(bias, s.bias, inside * s.bias_n) : 0.0f;
    }
    const float by = out_scale != nullptr ? *out_scale : 1.0f;
    const auto finish = [&](float sum, int h) {
      if constexpr (is_e2m1<W>) sum *= kE2m1Unscale;
      return sum * factor[h];
    };
    if (kBlocks == 1 && share.tma_store != 0) {
#pragma unroll
      for (int j = 0; j < N / 2; ++j) chain_sum(j) = finish(chain_sum(j), j / 2 % 2);
      if (bias != nullptr) {
#pragma unroll
        for (int j = 0; j < N / 2; ++j) chain_sum(j) += added[j / 2 % 2];
      }
      const Gemm90At at{row_of(tile) + warpgroup * 64, token_of(tile), 0};
      const auto leave = [&](auto number) {
        using Out = decltype(number);
        constexpr int kColumns = sizeof(Out) == 4 && N > 32 ? 32 : N;
        store_transposed<Out, N, kColumns, false>(&out_map, kept, &chain_sum(0), 1 + warpgroup, at);
      };
      switch (s.out) {
        case Code::float16: leave(half{}); break;
        case Code::bfloat16: leave(bfloat16{}); break;
        default: leave(float{});
      }
      continue;
    }

    // The takers end eight tokens each in turn. A warpgroup alone has its own sums here.
    int chains = 1;
    if (kBlocks > 1 || in_ways) {
      if (in_ways)
        named_barrier(kSumsThere, 256);
      else
        sync_cluster<kBlocks>();
      chains = (k_size + DequantGemm::kChain - 1) / DequantGemm::kChain;
    } else {
#pragma unroll
      for (int j = 0; j < N / 2; j += 4)
        store_shared(slot_at(0, j), {__float_as_uint(chain_sum(j)), __float_as_uint(chain_sum(j + 1)),
                                     __float_as_uint(chain_sum(j + 2)), __float_as_uint(chain_sum(j + 3))});
    }
#pragma unroll 1
    for (int column = taker; column < N / 8; column += takers) {
      float total[4];
      load_from_block(total, slot_at(0, column * 4), 0);
      constexpr int kAtOnce = 4;
#pragma unroll 1
      for (int first = 1; first < chains; first += kAtOnce) {
        float sum[kAtOnce][4];
#pragma unroll
        for (int c = 0; c < kAtOnce; ++c) {
          const int chain = min(first + c, chains - 1);
          load_from_block(sum[c], slot_at(chain / kBlocks, column * 4), chain % kBlocks);
        }
#pragma unroll
        for (int c = 0; c < kAtOnce; ++c)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (first + c < chains) total[i] += sum[c][i];
      }
      const int token = token_of(tile) + column * 8 + t * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sum = finish(total[i], i / 2);
        if (bias != nullptr) sum += added[i / 2];
        if (out_scale != nullptr) sum /= by;
        if (token + i % 2 < tokens && rows[i / 2] < n)
          store_number(out, s.out, (token + i % 2) * s.out_m + rows[i / 2] * s.out_n, sum);
      }
    }
    if (in_ways) named_barrier(kSumsRead, 256);
    if (kBlocks > 1) {
      sync_cluster<kBlocks>();  // nobody leaves while its shared memory is read
      return;
    }
  }
  if (kBlocks == 1 && share.tma_store != 0 && thread % 128 == 0) store_wait();
}

}  // namespace gpukit
