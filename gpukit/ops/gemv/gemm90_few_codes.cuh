// gemm90_few_codes: tokens by weights of 8 bits whose scales do not change along k (sm_90a), up to 32 of them at the
// speed of memory, ended as scaled_matmul does. The order of sums is that of codes_order.cuh.
//
// The frame is that of gemm90_few: the weights are the rows of a tile, as many as make the work of all multiprocessors
// the same, and up to 32 tokens its columns. But the threads that multiply take the codes of the weights from shared
// memory, and give them to the tensor cores as numbers in registers. The tokens stay as they come.
//
// A product has 64 rows. Where a tile has so few weights that most of these would be empty, they are the same weights
// at two places of k: two chains, side by side. The columns are then the tokens at both places, and half of the sums,
// those of weights and tokens at different places, are nobody's.
#pragma once
#include "gpukit/ops/gemv/gemm90_few_codes_shape.cuh"
#include "gpukit/ops/gemv/weights.cuh"
#include "gpukit/ops/matmul/codes_order.cuh"
#include "gpukit/ops/matmul/hopper.cuh"
#include "gpukit/ops/matmul/scaled_matmul_space.cuh"
#include "gpukit/ops/matmul/wgmma.cuh"

namespace gpukit {

template <Code kCode>
struct CodeOf {
  static constexpr Code value = kCode;
};

/// Grid: at most a block for each tile. Block: few.threads(). Shared bytes: few.shared_bytes(). `w` maps the bytes of
/// the weights in boxes of 128 by few.rows, `x` the tokens in boxes of 64 by few.tokens, both swizzled. `s` has no
/// scales that change along k; else as in skinny_codes. kTaken: steps of k whose numbers a thread makes at once.
/// kMaxParts: the warpgroups that registers then allow.
template <typename W, typename X, int Columns, int kChains, int kTaken, int kMaxParts>
__global__ void __launch_bounds__(kMaxParts * 128 + FewCodes90::kLoaders * 32, 1)
    gemm90_few_codes(const __grid_constant__ TileMap w, const __grid_constant__ TileMap x, void* out,
                     const uint8_t* weights, const void* x_scale, const void* scale, const void* bias,
                     const float* out_scale, const __grid_constant__ ScaledSpace s,
                     const __grid_constant__ FewCodes90 few) {
  constexpr int kLoaders = FewCodes90::kLoaders, kSlice = FewCodes90::kSlice;
  constexpr int kSlices = kBytesChain / kSlice, kBoxes = kBytesChain / 64;  // of weights, of tokens
  constexpr int kBoxBytes = Columns * 128, kProduct = kChains * Columns;    // columns of a product
  constexpr int kChainSteps = kBytesChain / 16, kPartSteps = kBytesPart / 16, kSliceSteps = kSlice / 16, kBoxSteps = 4;
  static_assert(kPartSteps % kTaken == 0 && kChainSteps / kPartSteps % 2 == 0);
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // the same for all, as the compiler sees
  const int loader = warp - few.parts * 4;
  const int n = static_cast<int>(s.n), tokens = static_cast<int>(s.m);
  // Tiles of the same weights are neighbours.
  const auto row_of = [&](int tile) { return tile / few.token_tiles * few.rows; };
  const auto token_of = [&](int tile) { return tile % few.token_tiles * Columns; };

  // A map takes the copy engine as long to fetch as the first weights take: these are asked for meanwhile.
  if (thread < few.rows && few.ahead > 0) {
    const int row = row_of(static_cast<int>(blockIdx.x)) + thread;
    if (row < n) prefetch_bytes(weights + row * s.b.row, few.ahead);
  }

  const int weight_bytes = few.weight_bytes(), tokens_at = kChains * weight_bytes;  // of a slice
  const int slice_bytes = few.slice_bytes(Columns, kChains), stage_bytes = kSlices * slice_bytes;
  extern __shared__ uint8_t shared[];
  const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
  const uint32_t full = base + few.stages * stage_bytes, empty = full + few.stages * 8;
  if (loader == 0) {
    if (lane < few.stages) {
      barrier_init(full + lane * 8, 1);
      barrier_init(empty + lane * 8, few.parts * 4);
      barrier_publish();
    }
    __syncwarp();
    named_arrive(1, threads);  // and does not wait
  } else {
    named_barrier(1, threads);
  }

  int stage = 0, phase = 0;
  const auto advance = [&](int by) {
    stage += by;
    if (stage >= few.stages) {
      stage -= few.stages;
      phase ^= 1;
    }
  };

  if (loader >= 0) {
    if (lane != 0) return;
    const uint64_t once = cache_policy_once();
    phase = 1;
    advance(loader);
    int i = loader;
    for (int tile = static_cast<int>(blockIdx.x); tile < few.tiles;
         tile += static_cast<int>(gridDim.x), i -= few.fills) {
      const int row = row_of(tile), token = token_of(tile);
      for (; i < few.fills; i += kLoaders, advance(kLoaders)) {
        barrier_wait(empty + stage * 8, phase);
        const uint32_t ready = full + stage * 8, to = base + stage * stage_bytes;
        barrier_expect(ready, kChains * kSlices * (few.rows + 2 * few.tokens) * 128);
#pragma unroll
        for (int c = 0; c < kChains; ++c) {
          const int k = (i * kChains + c) * kBytesChain;
#pragma unroll
          for (int h = 0; h < kSlices; ++h)
            tile_load(to + h * slice_bytes + c * weight_bytes, &w, ready, k + h * kSlice, row, 0, once);
#pragma unroll
          for (int h = 0; h < kBoxes; ++h)
            tile_load(to + h / 2 * slice_bytes + tokens_at + (h % 2 * kChains + c) * kBoxBytes, &x, ready, k + h * 64,
                      token, 0);
        }
      }
    }
    return;
  }

  // Groups of eight weights go to warps in turn, so that all have as much to decode. A half of a warp's 16 rows is one
  // of two groups, or one of two chains. A warp that is left over does as one that is not.
  const int groups = (few.rows + 7) / 8, g = lane / 4, t = lane % 4;
  int group[2], group_at[2];  // in a slice
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    group[h] = (warp % 4 + (kChains == 1 ? h * 4 : 0)) * few.parts + warp / 4;
    group_at[h] = min(group[h], groups - 1) * 1024 + (kChains == 2 ? h * weight_bytes : 0);
  }

  // Some steps: the codes of both halves, two pairs a step that lie 8 of k apart, and these as numbers.
  uint32_t codes[2][kTaken][2], numbers[2][kTaken][4];
  const auto fetch = [&](uint32_t slices, int first) {
    const uint32_t slice = slices + first / kSliceSteps * slice_bytes;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int q = 0; q < kTaken; ++q) {
        const uint32_t at = slice + group_at[h] + ((g * 144 + t * 2) ^ ((first + q) % kSliceSteps * 16));
        codes[h][q][0] = load_short(at);
        codes[h][q][1] = load_short(at + 8);
      }
  };
  const auto decode = [&](uint32_t(&to)[kTaken][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int q = 0; q < kTaken; ++q)
#pragma unroll
        for (int j = 0; j < 2; ++j) to[q][h + 2 * j] = Weights<W, X>::pair(codes[h][q][j]);
  };
  float products[2][kProduct / 2];
  const auto multiply = [&](float(&to)[kProduct / 2], const uint32_t(&with)[kTaken][4], uint32_t slices, int first) {
    const uint32_t slice = slices + first / kSliceSteps * slice_bytes + tokens_at;
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < kTaken; ++q) {
      const int step = (first + q) % kSliceSteps;
      const uint64_t box = tile_descriptor(slice + step / kBoxSteps * (kChains * kBoxBytes), 16, 1024);
      WgmmaTaken<X, kProduct>::run(to, with[q], box + step % kBoxSteps * 2, (first + q) % kPartSteps);
    }
    wgmma_commit();
  };

  // The sums of a thread that count: by chain, group and column, in this order.
  constexpr int kSums = Columns / 2, kTotals = kSums / kChains, kGroups = kChains == 1 ? 2 : 1;  // groups of a warp
  float chain[kSums], totals[kTotals];
  const auto add_products = [&](float(&from)[kProduct / 2], bool first) {
    keep_sums(from);
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
      const int h = j / (Columns / 4), c = j % (Columns / 4);
      chain[j] = (first ? 0.0f : chain[j]) + from[(kChains == 2 ? h * (Columns / 2) : 0) + c / 2 * 4 + h * 2 + c % 2];
    }
  };
  const auto add_chains = [&] {
#pragma unroll
    for (int j = 0; j < kSums; ++j) totals[j % kTotals] += chain[j];
  };

  const float by = out_scale != nullptr ? *out_scale : 1.0f;
  for (int tile = static_cast<int>(blockIdx.x); tile < few.tiles; tile += static_cast<int>(gridDim.x)) {
    int row[kGroups];
    float of_row[kGroups], bias_of_row[kGroups];
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
      row[h] = group[h] * 8 + g < few.rows ? row_of(tile) + group[h] * 8 + g : n;
      of_row[h] = row[h] < n ? row_scale(s.b, scale, nullptr, 0, row[h]) : 0.0f;
      bias_of_row[h] = row[h] < n && bias != nullptr ? load_bias(bias, s.bias, row[h] * s.bias_n) : 0.0f;
    }

#pragma unroll
    for (int j = 0; j < kTotals; ++j) totals[j] = 0.0f;
    const auto enter_stage = [&] {
      barrier_wait(full + stage * 8, phase);
      return base + stage * stage_bytes;
    };
    uint32_t slices = enter_stage();
    fetch(slices, 0);
    decode(numbers[0]);
    // While some steps are multiplied, the next ones are decoded; while a part is, the one before is added up.
#pragma unroll 1
    for (int i = 0; i < few.fills; ++i) {
#pragma unroll
      for (int step = 0; step < kChainSteps; step += kTaken) {
        const int next = step + kTaken, part = step / kPartSteps, left = stage;
        if (next < kChainSteps) fetch(slices, next);
        multiply(products[part % 2], numbers[step / kTaken % 2], slices, step);
        if (step > 0) wgmma_wait<1>();
        if (part > 0 && step % kPartSteps == 0) add_products(products[(part + 1) % 2], part == 1);
        if (next == kChainSteps) {
          if (i + 1 < few.fills) advance(1);  // else this stage is decoded again, and that dropped
          slices = enter_stage();
          fetch(slices, 0);
        }
        decode(numbers[next / kTaken % 2]);
        if (next == kChainSteps) {
          wgmma_wait<0>();
          add_products(products[part % 2], false);
          if (lane == 0) barrier_arrive(empty + left * 8);
        }
      }
      add_chains();
    }
    advance(1);

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
