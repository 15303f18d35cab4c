// nvfp4_gemv: out = w x for one vector and weights of e2m1 in blocks of 16 or 32, by tensor cores.
//
// A block walks a run of rows, a fragment's 16 at a time, and its warps share k: a tile is 16 rows by two chunks of 128
// numbers, 128 bytes. A warp copies its tiles, and their scales, ahead into shared memory and waits for nobody; x too
// is its own. A fragment's rows are rows of w. Its 8 columns are 8 of a tile's 16 runs of 16 numbers: each column of x
// has the numbers of its run and zeros elsewhere, so that a lane ends with the sums of two runs of each of two rows,
// and applies their scales to these: 4 multiplications a chunk, instead of one for every pair of numbers. A lane's runs
// are neighbours, and their scales a word.
//
// The bits of a code are moved into a 16-bit float as they are, which makes it smaller by a power of two: 2^14 for
// half, 2^126 for bfloat16. The latter is too much, so that x is made larger.
//
// What counts is the number of instructions for 512 bytes of a warp: a scheduler of SM 90 has time for about 100 of
// them, and a kernel of 10 us none to lose at its ends. So x and the scale of the tensor are asked for before the
// weights, behind which they would wait for microseconds; only two tiles of a warp are on their way, because more stand
// in the way of everything else that goes to shared memory; and the chunks that are left of a row are dealt out singly,
// to give the schedulers even shares.
//
// The order of sums is a function of the format, k and the number of threads; the grid is free. It differs from that of
// dequant_gemm_sm80.
#pragma once
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"
#include "gpukit/ops/matmul/quantized/nvfp4_gemv_shape.cuh"
#include "gpukit/ops/matmul/quantized/stream_weights.cuh"

namespace gpukit {

/// word & kMask, before it is shifted: the compiler would mask every shifted copy.
template <uint32_t kMask>
GPUKIT_DEVICE uint32_t keep_bits(uint32_t word) {
  uint32_t r;
  asm("and.b32 %0, %1, %2;" : "=r"(r) : "r"(word), "n"(kMask));
  return r;
}
/// The bits kMask of a and the others of b.
template <uint32_t kMask>
GPUKIT_DEVICE uint32_t choose_bits(uint32_t a, uint32_t b) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "n"(kMask), "r"(a), "r"(b));
  return r;
}

/// Of the 8 numbers of a word the pairs 4 apart, 2^-14 or 2^-126 of their size.
template <typename T>
GPUKIT_DEVICE void place_e2m1(uint32_t (&to)[4], uint32_t word);
template <>
GPUKIT_DEVICE void place_e2m1<half>(uint32_t (&to)[4], uint32_t word) {
  // The high bytes of 4 numbers at a time.
  const uint32_t even = merge_bits<0x0e0e0e0eu, 0x80808080u>(word << 1, word << 4);
  const uint32_t odd = merge_bits<0x0e0e0e0eu, 0x80808080u>(word >> 3, word);
  to[0] = pick_bytes(even, 0, 0x2404), to[1] = pick_bytes(odd, 0, 0x2404);
  to[2] = even & 0xff00ff00u, to[3] = odd & 0xff00ff00u;
}
template <>
GPUKIT_DEVICE void place_e2m1<bfloat16>(uint32_t (&to)[4], uint32_t word) {
  // The odd ones share their signs: 8 instructions of logic, which bound this kernel, instead of 9.
  constexpr uint32_t kMagnitudes = 0x01c001c0u;
  const uint32_t signs = keep_bits<0x80808080u>(word), upper = word >> 8;
  to[0] = E2m1<bfloat16>::place<0>(word), to[1] = choose_bits<kMagnitudes>(word << 2, signs << 8);
  to[2] = E2m1<bfloat16>::place<0>(upper), to[3] = choose_bits<kMagnitudes>(upper << 2, signs);
}

/// What a warp multiplies its x by; its sums, to have them on one scale with those of other warps; and the end of all.
/// Numbers of bfloat16 that are all less than 2^32 are made larger, so that their products are exact down to x of
/// 2^-94; where one is not, they are kept from overflowing.
template <typename X>
struct E2m1Range;
template <>
struct E2m1Range<half> {
  static GPUKIT_DEVICE uint32_t large(uint32_t) { return 0; }
  static GPUKIT_DEVICE void scale(uint32_t (&)[4], bool) {}
  static GPUKIT_DEVICE float align(float sum, bool) { return sum; }
  static constexpr float kUnscale = 0x1p14f;
};
template <>
struct E2m1Range<bfloat16> {
  /// Whether one of a pair is 2^32 or more: bits 15 and 31.
  static GPUKIT_DEVICE uint32_t large(uint32_t pair) { return (pair & 0x7fff7fffu) + 0x30803080u; }
  static GPUKIT_DEVICE void scale(uint32_t (&pairs)[4], bool large) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = PairMath<bfloat16>::multiply(pairs[i], large ? 0x3f003f00u : 0x6e806e80u);
  }
  static GPUKIT_DEVICE float align(float sum, bool large) { return large ? sum * 0x1p95f : sum; }
  static constexpr float kUnscale = 0x1p32f;
};

GPUKIT_DEVICE uint32_t load_shared_byte(uint32_t shared) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(shared) : "memory");
  return v;
}

/// The 8 numbers of x that meet a word of weights, in the pairs of place_e2m1().
GPUKIT_DEVICE void pair_x(uint32_t (&to)[4], const uint32_t (&x)[4]) {
  to[0] = pick_bytes(x[0], x[2], 0x5410), to[1] = pick_bytes(x[0], x[2], 0x7632);
  to[2] = pick_bytes(x[1], x[3], 0x5410), to[3] = pick_bytes(x[1], x[3], 0x7632);
}

/// A tile in shared memory: rows of 128 bytes, then their scales. Of odd rows, the place of 16 bytes is that of even
/// ones with the bits kOdd flipped, to spread the banks.
template <typename X, int kGroup>
struct E2m1Tile {
  static constexpr int kRowScales = kNvfp4GemvK / kGroup, kScalesAt = kNvfp4GemvRows * kNvfp4GemvBytes;
  static constexpr int kOdd = 80;

  /// The first run of a tile of kChunks that lane c / 2 of quad c holds; those after it are 2 apart.
  template <int kChunks>
  static GPUKIT_DEVICE int held_run(int c) {
    return kChunks * (c - c % 2) + c % 2;
  }

  /// sums += the products of rows g and g + 8 in a tile at `at` that has kChunks. Lane t has a quarter of its runs, and
  /// takes two at a time. Both meet the x of one of the two, each in sums of its own, of which the columns of its
  /// parity are right: lane c / 2 of quad c reads run held_run() of x at `x_from`, all others read zeros. `refill` may
  /// overwrite the tile.
  template <int kChunks, typename Refill>
  static GPUKIT_DEVICE void multiply(float (&sums)[2], uint32_t at, uint32_t x_from, const Refill& refill) {
    constexpr int kScales = kChunks * 32 / kGroup;  // of a lane's runs in a row
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const uint32_t weights = g * 128 + (t * (kChunks * 16) ^ (g % 2 * kOdd));
    uint32_t scales[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t from = at + kScalesAt + (g + r * 8) * kRowScales + t * kScales;
      scales[r] = kScales == 4 ? load_word(from) : kScales == 2 ? load_short(from) : load_shared_byte(from);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      uint32_t x[2][4], words[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) load_shared(x[i], x_from + c * 64 + i * 16);
#pragma unroll
      for (int r = 0; r < 2; ++r) load_shared(words[r], at + (weights ^ c * 16) + r * 1024);
      if (c == kChunks - 1) refill();
      float runs[2][4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int run = i % 2, word = i / 2;  // in turns, so that no product waits for the one before it
        uint32_t pairs[2][4];
        place_e2m1<X>(pairs[0], words[0][run * 2 + word]);
        place_e2m1<X>(pairs[1], words[1][run * 2 + word]);
#pragma unroll
        for (int step = 0; step < 4; step += 2) {
          const uint32_t a[4] = {pairs[0][step], pairs[1][step], pairs[0][step + 1], pairs[1][step + 1]};
          Mma<X>::add(runs[run], a, x[word][step], x[word][step + 1]);
        }
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t both = e4m3_to_half<0>(scales[r] >> (c * 32 / kGroup * 8));
        const float low = to_float(half{static_cast<uint16_t>(both)});
        const float high = kGroup == 16 ? to_float(half{static_cast<uint16_t>(both >> 16)}) : low;
        sums[r] = __fmaf_rn(low, runs[0][2 * r], sums[r]);
        sums[r] = __fmaf_rn(high, runs[1][2 * r + 1], sums[r]);
      }
    }
  }
};

/// Block: up to kNvfp4GemvWarps warps, no more than a row has chunks. Grid: any, with `rows` of it. Shared memory:
/// nvfp4_gemv_shared_bytes.
///
/// `s` is a product with m = 1 and no experts; n is at most 2^30. x and the rows of w and of scales are dense. x, w,
/// its stride and its k are multiples of 16 bytes; the scales and their rows of 4.
template <typename X, int kGroup>
__global__ void __launch_bounds__(kNvfp4GemvWarps * 32, 1)
    nvfp4_gemv(void* out, const X* x, const void* x_scale, const packed_e2m1* w, const void* scale, const int8_t*,
               const float* tensor_scale, const void* bias, const float* out_scale,
               const __grid_constant__ ScaledProblem s, const __grid_constant__ Nvfp4GemvShare rows) {
  static_assert(kGroup == 16 || kGroup == 32, "blocks of 16 or 32");
  using Tile = E2m1Tile<X, kGroup>;
  constexpr int kRows = kNvfp4GemvRows, kStages = kNvfp4GemvStages, kStageBytes = nvfp4_gemv_stage_bytes(kGroup);
  constexpr int kXBytes = kNvfp4GemvK * 2, kChunkK = kNvfp4GemvK / 2;
  constexpr int kRowWords = Tile::kRowScales / 4, kCopyRows = 32 / kRowWords;  // of scales
  static_assert(kStages >= 2, "the first copies are made before and after x comes");
  extern __shared__ __align__(16) uint8_t shared[];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x), warps = threads / 32;
  const int lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  const int block = static_cast<int>(blockIdx.x), first = block * rows.share + min(block, rows.extra);
  const int end = first + rows.share + (block < rows.extra ? 1 : 0);

  // The tiles of a warp: in each of `rounds`, two chunks. Of those that are left, fewer than two for each warp, again
  // two for the first ones if that is enough for one each, else one.
  const int k_size = static_cast<int>(s.k), rounds = rows.rounds, whole = 2 * warps * rounds;
  const int left_over = (k_size + kChunkK - 1) / kChunkK - whole, doubled = max(left_over - warps, 0);
  const int last_chunk = whole + warp + min(warp, doubled);
  const bool single = warp >= doubled && warp < left_over;
  const int pairs = rounds + (warp < doubled ? 1 : 0), tiles = pairs + (single ? 1 : 0);
  const auto chunk_of = [&](int tile) { return tile < rounds ? 2 * (warp + tile * warps) : last_chunk; };

  const int x_step = warps * kXBytes, x_bytes = (rounds + (left_over != 0 ? 1 : 0)) * x_step;
  const int zeros_bytes = warps * kXBytes;
  const uint32_t zeros = shared_address(shared) + warp * kXBytes, x_at = zeros + zeros_bytes;
  const uint32_t ring = shared_address(shared) + zeros_bytes + x_bytes + warp * (kStages * kStageBytes);
  // The L2 asks for the first tiles before the threads can, and before the kernel before this one has ended.
  let_next_start();
  if (thread < kRows && thread < end - first)
    prefetch_rows(reinterpret_cast<const uint8_t*>(w) + (first + thread) * s.b.row, min(warps * 128, k_size / 2));
  float* const slots = reinterpret_cast<float*>(shared + zeros_bytes + x_bytes + warps * (kStages * kStageBytes));
  const int pitch = warps | 1;  // of a row's sums; odd, to spread the banks

  wait_for_previous();
  // 16 bytes of a tile's x for each lane: zeros past the end of a row and of the tile.
  const auto x_of = [&](int tile) {
    const int k = chunk_of(tile) * kChunkK + lane * 8;
    return k < k_size && (lane < 16 || tile < pairs) ? x + k : nullptr;
  };
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const X* const from = x_of(i);
    copy_cached_async(x_at + i * x_step + lane * 16, from != nullptr ? from : x, from != nullptr ? 16 : 0);
  }
  commit_copies();
  const float x_factor = row_scale(s.a, x_scale, nullptr, 0, 0);
  const float w_factor = row_scale(s.b, scale, tensor_scale, 0, 0);

  // Copies of a tile, at the row `ahead` and of the number `turn`. What is past the last row is not copied, nor are its
  // sums stored. What is past the end of a row is taken from there and meets zeros of x.
  int ahead = first, turn = 0;
  const uint8_t* weights_from = reinterpret_cast<const uint8_t*>(w) + (first + lane / 8) * s.b.row;
  const uint8_t* scales_from = static_cast<const uint8_t*>(scale) + (first + lane / kRowWords) * s.b.scale.row;
  const int last = k_size / 32 - 1, last_word = k_size / (4 * kGroup) - 1;
  const uint32_t swapped = lane * 16 ^ (lane / 8 % 2 * Tile::kOdd);
  const int only_row = lane % 8 < 4 ? lane / 8 : 1 << 30;  // of a tile with one chunk
  const uint64_t policy = streamed_policy();
  const auto copy = [&](uint32_t to) {
    const int chunk = chunk_of(turn), left = end - ahead;
    const uint8_t* p = weights_from + static_cast<uint32_t>(min(chunk * 4 + lane % 8, last) * 16);
    const int left_here = left - (turn < pairs ? lane / 8 : only_row);
#pragma unroll
    for (int i = 0; i < kRows; i += 4) {
      copy_streamed_if(i < left_here, to + swapped + i * 128, p, policy);
      p += 4 * s.b.row;
    }
    const int word = min(chunk * (kRowWords / 2) + lane % kRowWords, last_word);
    const uint8_t* q = scales_from + static_cast<uint32_t>(word * 4);
#pragma unroll
    for (int i = 0; i < kRows; i += kCopyRows) {
      copy_async_if<4>(i < left - lane / kRowWords, to + Tile::kScalesAt + i * Tile::kRowScales + lane * 4, q);
      q += kCopyRows * s.b.scale.row;
    }
    if (++turn == tiles) {
      turn = 0, ahead += kRows;
      weights_from += kRows * s.b.row, scales_from += kRows * s.b.scale.row;
    }
    commit_copies();
  };

  // x, which each lane arranges as it has copied it, while the first tiles come.
  bool large = false;
  const auto set_x = [&] {
    wait_copies<1>();
    uint32_t found = 0;
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      uint32_t v[4], arranged[4];
      load_shared(v, x_at + i * x_step + lane * 16);
#pragma unroll
      for (int j = 0; j < 4; ++j) found |= E2m1Range<X>::large(v[j]);
      pair_x(arranged, v);
      E2m1Range<X>::scale(arranged, false);
      store_shared(x_at + i * x_step + lane * 16, arranged);
    }
    large = __any_sync(0xffffffffu, (found & 0x80008000u) != 0);
    if (!large) return;
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      const X* const from = x_of(i);
      const uint4 v = from != nullptr ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
      uint32_t arranged[4];
      pair_x(arranged, {v.x, v.y, v.z, v.w});
      E2m1Range<X>::scale(arranged, true);
      store_shared(x_at + i * x_step + lane * 16, arranged);
    }
  };
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) {
    if (i == 1) set_x();
    copy(ring + i * kStageBytes);
  }
  store_shared(zeros + lane * 16, {0, 0, 0, 0});
  const float factor = x_factor * w_factor * s.alpha;

  const bool holds = g / 2 == t;
  const uint32_t held_from = holds ? x_at + Tile::template held_run<2>(g) * 32 : zeros;
  const int single_back = holds ? (Tile::template held_run<2>(g) - Tile::template held_run<1>(g)) * 32 : 0;
  const int held_step = holds ? x_step : 0;
  uint32_t slot = 0;
  const int batch = end - first <= 2 * kNvfp4GemvBatch ? 2 * kNvfp4GemvBatch : kNvfp4GemvBatch;
  int buffer = 0;
#pragma unroll 1
  for (int begin = first; begin < end; begin += batch) {
    const int stop = min(begin + batch, end);
#pragma unroll 1
    for (int row = begin; row < stop; row += kRows) {
      float sums[2] = {};
      uint32_t x_from = held_from;
      const auto next = [&] {
        wait_copies<kStages - 1>();
        __syncwarp();
        const uint32_t at = ring + slot;
        slot = slot + kStageBytes == kStages * kStageBytes ? 0 : slot + kStageBytes;
        return at;
      };
#pragma unroll 1
      for (int j = 0; j < pairs; ++j, x_from += held_step) {
        const uint32_t at = next();
        Tile::template multiply<2>(sums, at, x_from, [&] {
          __syncwarp();
          copy(at);
        });
      }
      if (single) {
        const uint32_t at = next();
        Tile::template multiply<1>(sums, at, x_from - single_back, [&] {
          __syncwarp();
          copy(at);
        });
      }
      // Of a quad, even lanes sum row g, odd ones g + 8.
      float mine = t % 2 == 0 ? sums[0] : sums[1];
      mine += __shfl_xor_sync(0xffffffffu, t % 2 == 0 ? sums[1] : sums[0], 1);
      mine += __shfl_xor_sync(0xffffffffu, mine, 2);
      const int at = buffer * kNvfp4GemvBatch + row - begin + g + t * 8;
      if (t < 2) slots[at * pitch + warp] = E2m1Range<X>::align(mine, large);
    }
    __syncthreads();
#pragma unroll 1
    for (int i = thread; i < stop - begin; i += threads) {
      const float* from_warps = slots + (buffer * kNvfp4GemvBatch + i) * pitch;
      float sum = 0.0f;
#pragma unroll 4
      for (int j = 0; j < warps; ++j) sum += from_warps[j];
      sum *= E2m1Range<X>::kUnscale;
      sum *= factor;
      if (bias != nullptr) sum += load_bias(bias, s.bias, (begin + i) * s.bias_n);
      if (out_scale != nullptr) sum /= *out_scale;
      store_number(out, s.out, (begin + i) * s.out_n, sum);
    }
    buffer ^= 1;  // written while others still read the one before
  }
}

}  // namespace gpukit
