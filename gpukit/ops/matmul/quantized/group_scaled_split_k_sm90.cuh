// group_scaled_split_k_sm90: products of up to kTokens tokens by weights of 8 or 4 bits whose scales change along k, at
// the speed of memory (sm_90a), ended as scaled_matmul does. The order of sums is that of dequant_gemm_sm80.
//
// A cluster of kBlocks blocks has `rows` rows of w. Its blocks take the chains of k in turn, `split` of them side by
// side, so that many warps have work however few rows there are. The copy engine brings 128 bytes of every row, and the
// same k of every token, into stages of a ring in shared memory. Three warps put the tokens in the order in which a
// lane finds its numbers when it decodes a word of w. A warp multiplies 16 rows of a chain. The sums of chains stay in
// shared memory until all blocks are done, and are then added in ascending order.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/cluster.cuh"
#include "gpukit/ops/hopper/tma.cuh"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"
#include "gpukit/ops/matmul/quantized/group_scaled_split_k_sm90_shape.cuh"

namespace gpukit {

template <typename W>
inline constexpr bool is_packed_code = is_int4<W> || is_e2m1<W>;

/// The scales of a stage, of the two rows that a quad of lanes multiplies: one number for
/// float8, else words that the lanes of the quad share.
template <typename W, int kGroup, bool kZero>
struct SplitKScales {
  static constexpr int kEach = is_e2m1<W> ? 4 : 1;  // scales in a word
  static constexpr int kOfRow = is_packed_code<W> ? 256 / (kGroup * kEach) : 1;
  static constexpr int kWords = is_packed_code<W> ? kOfRow / 2 : 1;  // of a lane
  uint32_t words[kWords];
  int zeros[kZero ? kWords : 1];

  /// `row` is the first of the warp's 16.
  GPUKIT_DEVICE void fetch(const void* scale, const int8_t* zero, const ScaledProblem& s, int64_t row, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t* const from = static_cast<const uint32_t*>(scale);
    if constexpr (!is_packed_code<W>) {
      if (row < s.n && k < s.k) words[0] = from[row / 128 * s.b.scale.row + k / 128];
    } else {
#pragma unroll
      for (int j = 0; j < kWords; ++j) {
        const int i = j * 4 + lane % 4, group = k / kGroup + i % kOfRow * kEach;
        const int64_t at = (row + lane / 4 + i / kOfRow * 8) * s.b.scale.row + group;
        const bool inside = row + lane / 4 + i / kOfRow * 8 < s.n && group * kGroup < s.k;
        words[j] = inside ? from[at / kEach] : 0;
        if constexpr (kZero) zeros[j] = inside ? zero[at] : 0;
      }
    }
  }
  /// Of row `half` * 8 further, at `k` of the stage.
  GPUKIT_DEVICE uint32_t word(int half, int k) const {
    if constexpr (!is_packed_code<W>) return words[0];
    const int i = half * kOfRow + k / (kGroup * kEach);
    return __shfl_sync(0xffffffffu, words[i / 4], i % 4, 4);
  }
  GPUKIT_DEVICE float number(int half, int k) const { return __uint_as_float(word(half, k)); }
  GPUKIT_DEVICE uint32_t code(int half, int k) const { return word(half, k) >> (k / kGroup % 4 * 8) & 0xffu; }
  GPUKIT_DEVICE int zero(int half, int k) const {
    const int i = half * kOfRow + k / kGroup;
    return __shfl_sync(0xffffffffu, zeros[i / 4], i % 4, 4);
  }
};
/// Puts 16 numbers of a token, which lie in granules `at` and `at` ^ 1 of 16 bytes of a row, in the order in which a
/// step reads them: each granule has two of the four numbers that a lane decodes from a word of w.
template <bool kPacked>
GPUKIT_DEVICE void order_tokens(uint32_t row, int at) {
  uint32_t v[2][4], ordered[2][4];
  load_shared(v[0], row + at * 16);
  load_shared(v[1], row + (at ^ 1) * 16);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const int quarter = kPacked ? t % 2 * 2 + t / 2 : t;  // share_packed
    const uint32_t low = v[quarter / 2][quarter % 2 * 2], high = v[quarter / 2][quarter % 2 * 2 + 1];
    ordered[0][t] = kPacked ? pick_bytes(low, high, 0x5410) : low;
    ordered[1][t] = kPacked ? pick_bytes(low, high, 0x7632) : high;
  }
  store_shared(row + at * 16, ordered[0]);
  store_shared(row + (at ^ 1) * 16, ordered[1]);
}

/// The stage after this one; the phase turns when the ring starts over.
struct SplitKRing {
  int stages, phase, stage = 0;
  GPUKIT_DEVICE void next() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

/// Grid: kBlocks ceil(n / share.rows). Block: split_k_threads. Shared bytes: split_k_shared_bytes. `w` maps the bytes
/// of the weights in boxes of 128 by share.rows, `x` the tokens in boxes of 64 by kTokens, both swizzled. `s` has at
/// most kTokens rows of a; else as in dequant_gemm_sm80.
template <typename W, typename X, int kTokens, int kGroup, bool kZero, int kBlocks>
__global__ void GPUKIT_CLUSTER(kBlocks) __launch_bounds__(split_k_threads(kTokens, is_packed_code<W>), 1)
    group_scaled_split_k_sm90(const __grid_constant__ TileMap w, const __grid_constant__ TileMap x, void* out,
                              const void* x_scale, const void* scale, const int8_t* zero, const float* tensor_scale,
                              const void* bias, const float* out_scale, const __grid_constant__ ScaledProblem s,
                              const SplitKShare share) {
  using Format = Weights<W, X>;
  constexpr bool kPacked = is_packed_code<W>, kPromote = !is_e2m1<W>;
  constexpr int kSteps = Format::kSteps, kStageK = 64 * kSteps, kColumnTiles = kTokens / 8;
  constexpr int kTokenTile = kTokens * 128;  // 64 of k
  constexpr int kWarps = split_k_warps(kTokens, kPacked), kThreads = split_k_threads(kTokens, kPacked);
  constexpr int kOrderers = kThreads / 32 - (kWarps + 1);
  // Two sets of sums for 32 tokens leave few registers.
  constexpr int kUnroll = kPromote && !kPacked && kTokens == 32 ? 1 : kStageK / 32;
  extern __shared__ uint8_t split_k_shared[];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int rank = static_cast<int>(blockIdx.x) % kBlocks;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x / kBlocks) * share.rows;
  const int k_size = static_cast<int>(s.k), chains = (k_size + kSplitKChain - 1) / kSplitKChain;
  const int weight_bytes = share.rows * 128, split_bytes = weight_bytes + kStageK / 64 * kTokenTile;
  const int stage_bytes = share.split * split_bytes;

  const uint32_t start = shared_address(split_k_shared), base = (start + 1023) & ~1023u;
  const uint32_t full = base + share.stages * stage_bytes, empty = full + share.stages * 8;
  const uint32_t raw = empty + share.stages * 8;  // tokens as they come
  float* const slots = reinterpret_cast<float*>(split_k_shared + (raw + share.stages * 8 - start));
  const int pitch = share.rows + 4;  // of the sums: spreads the banks
  const bool alone = kBlocks == 1 && share.split == 1;
  float* const row_scales = slots + split_k_slots(chains, kBlocks, share.split) * kTokens * pitch;
  const int row_tiles = share.rows / 16;

  if (thread == 0) {
    for (int i = 0; i < share.stages; ++i) {
      barrier_init(full + i * 8, 1 + 32);
      barrier_init(empty + i * 8, row_tiles * share.split * 32);
      barrier_init(raw + i * 8, 1);
    }
    barrier_publish();
    tile_prefetch(&w);
    tile_prefetch(&x);
  }
  __syncthreads();

  // Rounds of chains side by side: the first one of a round is the longest.
  const int round_chains = kBlocks * share.split;
  const auto length_of = [&](int chain) { return min(k_size - chain * kSplitKChain, kSplitKChain); };
  if (warp == kWarps) {
    // Two stages at a time: memory likes long runs.
    SplitKRing ring{share.stages, 1}, wait{share.stages, 1};
    int awaited = 0;
    const uint64_t once = cache_policy_once();
    for (int chain = rank; lane == 0 && chain < chains; chain += round_chains) {
#pragma unroll 1
      for (int k = 0; k < length_of(chain); k += kStageK, ring.next(), --awaited) {
        for (; awaited == 0 || (awaited == 1 && k % (2 * kStageK) == 0); ++awaited, wait.next())
          barrier_wait(empty + wait.stage * 8, wait.phase);
        barrier_expect(raw + ring.stage * 8, share.split * (kStageK / 64 * kTokenTile));
        barrier_expect(full + ring.stage * 8, share.split * weight_bytes);
        for (int split = 0; split < share.split; ++split) {
          const uint32_t to = base + ring.stage * stage_bytes + split * split_bytes;
          const int at = (chain + split * kBlocks) * kSplitKChain + k;
#pragma unroll
          for (int i = 0; i < kStageK / 64; ++i)
            tile_load(to + weight_bytes + i * kTokenTile, &x, raw + ring.stage * 8, at + i * 64, 0, 0);
          tile_load(to, &w, full + ring.stage * 8, at / (kSteps / 2), static_cast<int>(first_row), 0, once);
        }
      }
    }
    __syncwarp();
  } else if (warp > kWarps) {
    for (int i = thread - 32 * (kWarps + 1); i < share.rows; i += 32 * kOrderers)
      row_scales[i] = first_row + i < s.n ? row_scale(s.b, scale, tensor_scale, 0, first_row + i) : 0.0f;
    // A place in the ring has one warp, which orders its tokens: a barrier tells a phase from the one before it alone.
    SplitKRing ring{share.stages, 0};
    for (int chain = rank; chain < chains; chain += round_chains) {
#pragma unroll 1
      for (int k = 0; k < length_of(chain); k += kStageK, ring.next()) {
        if (ring.stage % kOrderers != warp - kWarps - 1) continue;
        barrier_wait(raw + ring.stage * 8, ring.phase);
        constexpr int kStageSteps = kStageK / 16;
        for (int split = 0; split < share.split; ++split) {
          const uint32_t tokens = base + ring.stage * stage_bytes + split * split_bytes + weight_bytes;
#pragma unroll
          for (int i = lane; i < kTokens * kStageSteps; i += 32) {
            const int token = i / kStageSteps, step = i % kStageSteps;
            order_tokens<kPacked>(tokens + step / 4 * kTokenTile + token * 128, step % 4 * 2 ^ (token & 7));
          }
        }
        shared_publish();  // before the copy engine writes there again
        __syncwarp();
        barrier_arrive(full + ring.stage * 8);  // each lane, of what it wrote
      }
    }
  } else if (warp < row_tiles * share.split) {
    const int split = warp / row_tiles, tile_row = (warp - split * row_tiles) * 16;
    const int64_t row = first_row + tile_row;
    const int matrix_row = lane % 8, matrix = lane / 8;
    SplitKRing ring{share.stages, 0};
    for (int of_split_0 = rank; of_split_0 < chains; of_split_0 += round_chains) {
      const int chain = of_split_0 + split * kBlocks;
      float sums[kColumnTiles][4] = {}, of_groups[kPromote ? kColumnTiles : 1][4] = {};
      SplitKScales<W, kGroup, kZero> scales, next;
      next.fetch(scale, zero, s, row, chain * kSplitKChain);
#pragma unroll 1
      for (int k = 0; k < length_of(of_split_0); k += kStageK, ring.next()) {
        const uint32_t from = base + ring.stage * stage_bytes + split * split_bytes;
        const uint32_t weights = from + (tile_row + lane % 16) * 128;
        const uint32_t tokens = from + weight_bytes + matrix_row * 128;
        scales = next;
        next.fetch(scale, zero, s, row, chain * kSplitKChain + k + kStageK);
        barrier_wait(full + ring.stage * 8, ring.phase);
        // A chain that ends before the first one of its round has nothing more to add.
        if (chain * kSplitKChain + k < k_size) {
          uint32_t words[4];
#pragma unroll kUnroll
          for (int pair = 0; pair < kStageK / 32; ++pair) {  // of steps
            uint32_t b[kColumnTiles][4];
#pragma unroll
            for (int c = 0; c < kColumnTiles; ++c)
              load_matrices(b[c],
                            tokens + pair / 2 * kTokenTile + c * 1024 + (((pair % 2 * 4 + matrix) ^ matrix_row) << 4));
            if (!kPacked || pair % 2 == 0) {
              const int granule = (kPacked ? pair : pair * 2) + lane / 16;
              load_matrices(words, weights + ((granule ^ (lane & 7)) << 4));
            }
            uint32_t a[2][4];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              if constexpr (!kPacked) {
                Format::decode(a[0][h], a[0][h + 2], words[h]);
                Format::decode(a[1][h], a[1][h + 2], words[h + 2]);
              } else {
                const uint32_t word = share_packed(words[pair % 2 * 2 + h]);
                uint32_t with[2];
                if constexpr (is_e2m1<W>) {
                  with[0] = Format::scale(scales.code(h, pair * 32));
                  with[1] = kGroup == 16 ? Format::scale(scales.code(h, pair * 32 + 16)) : with[0];
                } else {
                  with[0] = with[1] = Format::offset(kZero ? scales.zero(h, pair * 32) : 0);
                }
                Format::template decode<0>(a[0][h], a[0][h + 2], word, with[0]);
                Format::template decode<1>(a[1][h], a[1][h + 2], word, with[1]);
              }
            }
#pragma unroll
            for (int step = 0; step < 2; ++step)
#pragma unroll
              for (int c = 0; c < kColumnTiles; ++c) Mma<X>::add(sums[c], a[step], b[c][step * 2], b[c][step * 2 + 1]);
            if constexpr (kPromote) {
              if ((pair + 1) * 32 % kGroup == 0) {
                const float by[2] = {scales.number(0, pair * 32), scales.number(1, pair * 32)};
#pragma unroll
                for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
                  for (int i = 0; i < 4; ++i) {
                    of_groups[c][i] = __fmaf_rn(by[i / 2], sums[c][i], of_groups[c][i]);
                    sums[c][i] = 0.0f;
                  }
              }
            }
          }
        }
        __syncwarp();
        barrier_arrive(empty + ring.stage * 8);  // each lane, of what it read
      }
      if (chain >= chains) continue;
      float* const slot = slots + (alone ? 0 : chain / kBlocks) * (kTokens * pitch) + tile_row + lane / 4;
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* const at = slot + (c * 8 + lane % 4 * 2 + i % 2) * pitch + i / 2 * 8;
          const float sum = kPromote ? of_groups[kPromote ? c : 0][i] : sums[c][i];
          *at = alone && chain != 0 ? *at + sum : sum;
        }
    }
  }

  sync_cluster<kBlocks>();
  for (int i = rank * kThreads + thread; i < s.m * share.rows; i += kBlocks * kThreads) {
    const int token = i / share.rows;
    const int64_t row = first_row + i % share.rows;
    if (row >= s.n) continue;
    const float* const at = slots + token * pitch + i % share.rows;
    const auto of_chain = [&](int c) {
      const float* const p = at + c / kBlocks * (kTokens * pitch);
      if constexpr (kBlocks == 1) return *p;
      return load_from_block(p, c % kBlocks);
    };
    float sum = of_chain(0);
    for (int c = 1; !alone && c < chains; ++c) sum += of_chain(c);
    if constexpr (is_e2m1<W>) sum *= kE2m1Unscale;
    sum *= row_scale(s.a, x_scale, nullptr, 0, token) * row_scales[i % share.rows] * s.alpha;
    if (bias != nullptr) sum += load_bias(bias, s.bias, row * s.bias_n);
    if (out_scale != nullptr) sum /= *out_scale;
    store_number(out, s.out, token * s.out_m + row * s.out_n, sum);
  }
  // Nobody leaves while its shared memory is read.
  if constexpr (kBlocks > 1) sync_cluster<kBlocks>();
}

}  // namespace gpukit
